"""Sluice: all clips in one pipeline."""

from clock import Clock, arguments

import sluice

clip, model, streams = arguments()
clock = Clock(streams)
with sluice.Pipeline([clip] * streams, model=model, tracker="bytetrack", confidence=0.3, iou=0.45) as pipeline:
    for frame in pipeline:
        clock.frame(frame.stream, len(frame.objects))
clock.report()
