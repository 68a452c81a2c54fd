"""A limit: the bare runtime on input that lies ready, as many runs as the clips have frames."""

import cv2
from clock import Clock, arguments
from yolo import Yolo

clip, model, streams = arguments()
yolo, clock = Yolo(model), Clock(1)
capture = cv2.VideoCapture(clip)
count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
ready = yolo.prepare(capture.read()[1])[0]
for _ in range(count):
    yolo.session.run(None, {yolo.name: ready})
    clock.frame(0, 0)
clock.report()
