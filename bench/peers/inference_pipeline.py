"""Roboflow's InferencePipeline with logic of one's own: all sources in one, frames in batches."""

import os

os.environ.setdefault("ENABLE_FRAME_DROP_ON_VIDEO_FILE_RATE_LIMITING", "False")

from clock import begin
from inference import InferencePipeline
from yolo import Yolo, follower

model, sources, clock = begin()
yolo = Yolo(model)
followers = [follower() for _ in sources]


def detect(frames: list) -> list:
    """The custom logic: called with the newest frames of all sources."""
    return [followers[frame.source_id or 0].update(yolo.detect(frame.image)) for frame in frames]


def take(predictions: object, frames: object) -> None:
    """The sink."""
    if not isinstance(frames, list):
        predictions, frames = [predictions], [frames]
    for tracked, frame in zip(predictions, frames, strict=True):
        if frame is not None:
            clock.frame(frame.source_id or 0, tracked.tracker_id, lambda frame=frame: frame.image)


pipeline = InferencePipeline.init_with_custom_logic(sources, on_video_frame=detect, on_prediction=take)
pipeline.start()
pipeline.join()
clock.report()
