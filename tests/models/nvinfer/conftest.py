"""The helpers of the tests of models, one folder up, can be imported here too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
