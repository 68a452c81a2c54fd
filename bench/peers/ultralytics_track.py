"""Ultralytics: one `YOLO` and one thread per source, as its guide to tracking several streams has it."""

import threading

from clock import Clock, arguments
from ultralytics import YOLO

clip, model, streams = arguments()
clock = Clock(streams)
lock = threading.Lock()


def follow(stream: int) -> None:
    """Track one source to its end."""
    yolo = YOLO(model, task="detect")
    results = yolo.track(
        clip, stream=True, persist=True, imgsz=256, conf=0.3, iou=0.45, tracker="bytetrack.yaml", verbose=False
    )
    for result in results:
        with lock:
            clock.frame(stream, len(result.boxes))


threads = [threading.Thread(target=follow, args=(stream,)) for stream in range(streams)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
clock.report()
