"""A secondary model: given the pictures of objects that another model found, it says which colour dominates each.

see cascade.sh
"""

import cv2

from sluice import Detections
from sluice.models.whole import Classification, WholeFrame

COLOURS = ("red", "yellow", "green", "cyan", "blue", "magenta")


class Clothes:
    labels = COLOURS

    def infer(self, crops):  # a crop is a frame that shows one object; crop.parent_object says which
        return [self.read(crop) for crop in crops]

    def read(self, crop):
        hue, saturation, _ = cv2.split(cv2.cvtColor(crop.rgb(), cv2.COLOR_RGB2HSV))
        degrees = 2 * int(cv2.calcHist([hue], [0], (saturation > 40).astype("uint8"), [180], [0, 180]).argmax())
        which = round(degrees / 60) % len(COLOURS)
        found = Classification(which, score=0.9, label=COLOURS[which], name="colour")
        return Detections(xyxy=[], scores=[], class_ids=[], whole=WholeFrame(classification=[found]))
