"""What people write around a YOLO network in ONNX Runtime: letterbox, run, threshold, NMS."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import onnxruntime
import supervision
import trackers

SIZE = 256
CONFIDENCE = 0.3
IOU = 0.45


def follower() -> trackers.ByteTrackTracker:
    """A tracker for one stream, which begins tracks from the confidence that Ultralytics and Sluice begin them from."""
    return trackers.ByteTrackTracker(track_activation_threshold=0.25)


class Yolo:
    """The network, one picture at a time."""

    def __init__(self, path: str, threads: int = 0) -> None:
        """Open the file; with `threads` of 0 ONNX Runtime takes every core."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.name = self.session.get_inputs()[0].name

    def prepare(self, picture: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.float32], float, tuple[int, int]]:
        """The network's input, the scale and the left and top padding."""
        height, width = picture.shape[:2]
        scale = SIZE / max(height, width)
        small = cv2.resize(picture, (round(width * scale), round(height * scale)))
        left, top = (SIZE - small.shape[1]) // 2, (SIZE - small.shape[0]) // 2
        padded = np.full((SIZE, SIZE, 3), 114, np.uint8)
        padded[top : top + small.shape[0], left : left + small.shape[1]] = small
        ready = padded[:, :, ::-1].transpose(2, 0, 1)[None].astype(np.float32) / 255
        return np.ascontiguousarray(ready), scale, (left, top)

    def detect(self, picture: npt.NDArray[np.uint8]) -> supervision.Detections:
        """The objects on a picture in BGR, boxes in its pixels."""
        ready, scale, (left, top) = self.prepare(picture)
        rows = self.session.run(None, {self.name: ready})[0][0].T
        best, classes = rows[:, 4:].max(1), rows[:, 4:].argmax(1)
        keep = best > CONFIDENCE
        centres, half = rows[keep, :2], rows[keep, 2:4] / 2
        boxes = (np.hstack([centres - half, centres + half]) - [left, top, left, top]) / scale
        found = supervision.Detections(
            xyxy=boxes.astype(np.float32), confidence=best[keep], class_id=classes[keep].astype(int)
        )
        return found.with_nms(IOU)
