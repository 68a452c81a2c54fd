"""A limit: the clips decoded at once by GStreamer and thrown away."""

from clock import begin

import sluice

_, sources, clock = begin()
with sluice.Pipeline(sources, model=None, tracker=None) as pipeline:
    for frame in pipeline:
        clock.frame(frame.stream)
clock.report()
