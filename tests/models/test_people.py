"""The people model on the pedestrian clip."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from array_surfaces import blank, from_rgb

from sluice.models.frame import Frame
from sluice.models.loading import load_model


def overlap(a, b):
    """Intersection over union of every box of `a` with every box of `b`."""
    size = np.minimum(a[:, None, 2:], b[None, :, 2:]) - np.maximum(a[:, None, :2], b[None, :, :2])
    inter = np.clip(size, 0, None).prod(axis=2)
    areas = [np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1) for boxes in (a, b)]
    return inter / (areas[0][:, None] + areas[1][None] - inter)


def test_most_people_of_the_clip_are_found(data):
    """Against the detections of a Faster R-CNN on the same sequence: 70 % found, half of the boxes on a person."""
    reference = np.loadtxt(data / "mot/PETS09-S2L1/det/det.txt", delimiter=",")
    clip = cv2.VideoCapture(str(data / "videos/vtest_pets09_h264_b3.mp4"))
    model = load_model("people")
    found = missed = wrong = 0
    for number in range(481):
        ok, picture = clip.read()
        assert ok
        if number % 60:
            continue
        surface = from_rgb(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), "RGB")
        [people] = model.infer([Frame(surface, stream=0, number=number, pts=None)])
        assert ((people.scores > 0) & (people.scores < 1)).all()
        truth = reference[reference[:, 0] == number + 1][:, 2:6]
        truth[:, 2:] += truth[:, :2]
        matches = overlap(people.xyxy, truth) > 0.4
        found += int(matches.any(axis=0).sum())
        missed += int((~matches.any(axis=0)).sum())
        wrong += int((~matches.any(axis=1)).sum())
    assert found / (found + missed) >= 0.7
    assert found / (found + wrong) >= 0.5


@pytest.mark.parametrize(("width", "height"), [(1, 1), (3000, 1), (40, 300), (300, 40), (64, 128), (321, 241)])
def test_pictures_without_people_give_well_formed_empty_results(width, height):
    [people] = load_model("people").infer([Frame(blank("I420", width, height), stream=0, number=0, pts=None)])
    assert people.xyxy.shape == (0, 4)


def test_options_and_labels():
    model = load_model("people", options={"upscale": "2", "margin": "0.1"})
    assert model.labels == ("person",)
    assert (model.target.upscale, model.target.margin) == (2.0, 0.1)
