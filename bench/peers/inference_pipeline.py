"""Roboflow's InferencePipeline with logic of one's own: all sources in one, frames in batches."""

import os

os.environ.setdefault("ENABLE_FRAME_DROP_ON_VIDEO_FILE_RATE_LIMITING", "False")

import trackers
from clock import Clock, arguments
from inference import InferencePipeline
from yolo import Yolo

clip, model, streams = arguments()
yolo, clock = Yolo(model), Clock(streams)
followers = [trackers.ByteTrackTracker() for _ in range(streams)]


def detect(frames: list) -> list:
    """The custom logic: called with the newest frames of all sources."""
    return [followers[frame.source_id or 0].update(yolo.detect(frame.image)) for frame in frames]


def take(predictions: object, frames: object) -> None:
    """The sink."""
    if not isinstance(frames, list):
        predictions, frames = [predictions], [frames]
    for tracked, frame in zip(predictions, frames, strict=True):
        if frame is not None:
            clock.frame(frame.source_id or 0, len(tracked))


pipeline = InferencePipeline.init_with_custom_logic([clip] * streams, on_video_frame=detect, on_prediction=take)
pipeline.start()
pipeline.join()
clock.report()
