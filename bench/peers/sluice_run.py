"""Sluice: all clips in one pipeline."""

import numpy as np
from clock import begin

import sluice

model, sources, clock = begin()
with sluice.Pipeline(sources, model=model, tracker="bytetrack", confidence=0.3, iou=0.45) as pipeline:
    for frame in pipeline:
        ids = [found.id for found in frame.objects]
        clock.frame(frame.stream, ids, lambda frame=frame: np.from_dlpack(frame.planes()[0]))
clock.report()
