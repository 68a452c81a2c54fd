"""A limit: the clips decoded at once by GStreamer and thrown away."""

from clock import Clock, arguments

import sluice

clip, _, streams = arguments()
clock = Clock(streams)
with sluice.Pipeline([clip] * streams, model=None, tracker=None) as pipeline:
    for frame in pipeline:
        clock.frame(frame.stream, 0)
clock.report()
