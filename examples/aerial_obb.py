"""Rotated boxes on aerial video: vehicles of a made-up car park, found with their angles, drawn and told in messages.

    python examples/aerial_obb.py out/

With a real network only the model's name changes: ``sluice run aerial.mp4 --model yolo11n-obb.onnx``.
"""

import json
import sys
from pathlib import Path

import cv2
import numpy as np

import sluice


def car_park(folder: Path, frames: int = 20) -> None:
    """Draw a car that turns into its place, as pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(frames):
        picture = np.full((360, 640, 3), 60, np.uint8)
        for centre, angle in (((150, 180), 0), ((320 + 4 * number, 180), 4.5 * number)):
            cv2.fillPoly(picture, [cv2.boxPoints((centre, (90, 40), angle)).astype(int)], (255, 255, 255))
        cv2.imwrite(str(folder / f"{number:03}.png"), picture)


def vehicles(frames):
    """A function is a model too."""
    return [find(frame) for frame in frames]


def find(frame):
    bright = cv2.inRange(frame.rgb(), (200, 200, 200), (255, 255, 255))
    outlines, _ = cv2.findContours(bright, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    rectangles = [cv2.minAreaRect(outline) for outline in outlines]
    return sluice.Detections(
        xyxy=[(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h), _ in rectangles],
        scores=[0.9] * len(rectangles),
        class_ids=[0] * len(rectangles),
        labels=["vehicle"] * len(rectangles),
        angles=[angle for _, _, angle in rectangles],
    )


if __name__ == "__main__":
    out = Path(sys.argv[1])
    car_park(out / "pictures")
    print(
        sluice.Pipeline(out / "pictures", model=vehicles, out=out / "aerial.mp4", messages=out / "aerial.jsonl").run()
    )
    for line in (out / "aerial.jsonl").read_text().splitlines()[5::7]:
        print([(obj.get("id"), obj.get("angle", 0)) for obj in json.loads(line)["objects"]])
