"""Ultralytics: one `YOLO` and one thread per source, as its guide to tracking several streams has it."""

import threading

from clock import begin
from ultralytics import YOLO

model, sources, clock = begin()


def follow(stream: int, source: str) -> None:
    """Track one source to its end."""
    yolo = YOLO(model, task="detect")
    results = yolo.track(
        source, stream=True, persist=True, imgsz=256, conf=0.3, iou=0.45, tracker="bytetrack.yaml", verbose=False
    )
    for result in results:
        ids = [] if result.boxes.id is None else result.boxes.id.tolist()
        clock.frame(stream, ids, lambda result=result: result.orig_img)


threads = [threading.Thread(target=follow, args=(stream, source)) for stream, source in enumerate(sources)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
clock.report()
