"""What people write today: OpenCV, ONNX Runtime, supervision and trackers, one picture after the other."""

import cv2
from clock import begin
from yolo import Yolo, follower

model, sources, clock = begin()
yolo = Yolo(model)
captures = {stream: cv2.VideoCapture(source) for stream, source in enumerate(sources)}
followers = [follower() for _ in sources]
while captures:
    for stream, capture in list(captures.items()):
        read, picture = capture.read()
        if not read:
            del captures[stream]
            continue
        tracked = followers[stream].update(yolo.detect(picture))
        clock.frame(stream, tracked.tracker_id, lambda picture=picture: picture)
clock.report()
