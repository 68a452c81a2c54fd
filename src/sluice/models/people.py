"""People by OpenCV's HOG detector: a model in plain Python that needs no file and no network."""

from __future__ import annotations

import cv2
import numpy as np

from sluice.models.detections import Detections
from sluice.models.frame import Frame

# A person in the detector's 64x128 training pictures is 96 pixels high and about 42 wide, with a margin all round
# (Dalal and Triggs, 2005); boxes are drawn in by that margin, a little less to be sure of hands and feet.
MARGIN_X, MARGIN_Y = 0.17, 0.07
STRIDE = 8  # pixels between windows; 16 takes half the time and finds 59 % of the people instead of 84 %
SCALE_STEP = 1.2  # between sizes looked for; 1.05 takes three times as long and finds 2 % more
OVERLAP = 0.25  # intersection over union above which the weaker of two boxes goes
# Score = 1 / (1 + exp(-(SLOPE * margin + OFFSET))): the share of boxes with that distance from the SVM's plane that lie
# on a person, fitted by logistic regression on 362 boxes of the PETS 2009 S2.L1 sequence.
SLOPE, OFFSET = 2.9, -3.0


class People:
    """Upright people, by histograms of oriented gradients and a linear SVM.

    It sees people from about 64 pixels high (in the enlarged picture 96). Scores are calibrated: of boxes with score
    0.7 about 70 % lie on a person. On 768x576 it takes about 60 ms a frame on two cores.

    Args:
        upscale: how much frames are enlarged first, so that smaller people are found; time grows with its square.
        max_width: width in pixels of the enlarged picture that is not exceeded, to bound the time for large frames.
        margin: least distance from the SVM's plane; 0.5 corresponds to a score of 0.18.
    """

    labels = ("person",)

    def __init__(self, upscale: float = 1.5, max_width: int = 1280, margin: float = 0.5) -> None:
        self.upscale = upscale
        self.max_width = max_width
        self.margin = margin
        self._hog = cv2.HOGDescriptor()
        self._hog.setSVMDetector(cv2.HOGDescriptor.getDefaultPeopleDetector())

    def infer(self, frames: list[Frame]) -> list[Detections]:
        """The people in each frame."""
        return [self._find(frame) for frame in frames]

    def _find(self, frame: Frame) -> Detections:
        factor = min(self.upscale, self.max_width / frame.width)
        # Colour makes it a tenth slower, and no better.
        gray = cv2.cvtColor(frame.rgb(), cv2.COLOR_RGB2GRAY)
        size = round(frame.width * factor), round(frame.height * factor)
        if size[0] < 64 or size[1] < 128:  # smaller than the detector's window
            return Detections.empty()
        picture = cv2.resize(gray, size)
        windows, margins = self._hog.detectMultiScale(
            picture,
            hitThreshold=self.margin,
            winStride=(STRIDE, STRIDE),
            padding=(8, 8),
            scale=SCALE_STEP,
            groupThreshold=0,
        )
        left, top, width, height = np.asarray(windows, np.float32).reshape(-1, 4).T / factor
        dx, dy = MARGIN_X * width, MARGIN_Y * height
        xyxy = np.stack([left + dx, top + dy, left + width - dx, top + height - dy], axis=1)
        scores = 1 / (1 + np.exp(-(SLOPE * np.asarray(margins, np.float32).reshape(-1) + OFFSET)))
        return Detections(xyxy, scores, np.zeros(len(xyxy), np.int32)).nms(OVERLAP)
