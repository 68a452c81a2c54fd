"""A limit: the bare runtime on input that lies ready, as many runs as the clip has frames.

With more than one source so many runs are on their way at once, each on a thread of its own, and share the cores.
"""

import os
import threading

import cv2
from clock import begin
from yolo import Yolo

model, sources, clock = begin()
yolo = Yolo(model, threads=max(1, (os.cpu_count() or 1) // len(sources)))
capture = cv2.VideoCapture(sources[0])
count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
ready = yolo.prepare(capture.read()[1])[0]


def execute(stream: int) -> None:
    """Run the network again and again."""
    for _ in range(count):
        yolo.session.run(None, {yolo.name: ready})
        clock.frame(stream)


threads = [threading.Thread(target=execute, args=(stream,)) for stream in range(len(sources))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
clock.report()
