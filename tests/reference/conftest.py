"""Fixtures of the reference tests: networks with seeded random weights, against the packages they come from.

They need packages that the base installation has not: `make test-reference` makes an environment with them. In any
other environment the tests here are skipped, each by the package that it misses.
"""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

# No download, no installation by itself, and no settings file in the home of whoever runs the tests.
os.environ.update({"YOLO_OFFLINE": "true", "YOLO_AUTOINSTALL": "false", "HF_HUB_OFFLINE": "1"})
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for exported files; Ultralytics keeps its settings there too."""
    folder = tmp_path_factory.mktemp("reference")
    os.environ["YOLO_CONFIG_DIR"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def rgb(data: Path) -> np.ndarray:
    """A street scene, uint8 [height,width,3]; its sides are no multiple of anything."""
    picture = cv2.cvtColor(cv2.imread(str(data / "models/images/bus.jpg")), cv2.COLOR_BGR2RGB)
    return np.ascontiguousarray(picture[13:1000, 5:733])
