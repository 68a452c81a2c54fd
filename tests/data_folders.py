"""Where the data of tests lie, which are not part of the repository."""

import os
from pathlib import Path

_SHARED = Path(__file__).parent.parent.parent / "shared"
DATA = Path(os.environ.get("SLUICE_TEST_DATA", _SHARED / "data"))
"""Real models, clips and tracking sequences."""
REFERENCE = Path(os.environ.get("SLUICE_TEST_REFERENCE", _SHARED / "reference"))
"""Outputs of NVIDIA's elements."""
