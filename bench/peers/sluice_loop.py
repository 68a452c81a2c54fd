"""Sluice's part of the comparison: all clips in one pipeline."""

from typing import Any

import numpy as np
from clock import begin

import sluice


def measure(**options: Any) -> None:
    """Run it, with options of the model, and report."""
    model, sources, clock = begin()
    with sluice.Pipeline(
        sources, model=model, model_options=options, tracker="bytetrack", confidence=0.3, iou=0.45
    ) as pipeline:
        for frame in pipeline:
            ids = [found.id for found in frame.objects]
            clock.frame(frame.stream, ids, lambda frame=frame: np.from_dlpack(frame.planes()[0]))
    clock.report()
