"""What people write today: OpenCV, ONNX Runtime, supervision and trackers, one picture after the other."""

import cv2
import trackers
from clock import Clock, arguments
from yolo import Yolo

clip, model, streams = arguments()
yolo, clock = Yolo(model), Clock(streams)
captures = {stream: cv2.VideoCapture(clip) for stream in range(streams)}
followers = [trackers.ByteTrackTracker() for _ in range(streams)]
while captures:
    for stream, capture in list(captures.items()):
        read, picture = capture.read()
        if not read:
            del captures[stream]
            continue
        tracked = followers[stream].update(yolo.detect(picture))
        clock.frame(stream, len(tracked))
clock.report()
