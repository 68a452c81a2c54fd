"""Runs `sluice.Pipeline` and prints its summary as JSON; a process of its own, as the other pipelines on a GPU are.

python run_sluice.py OPTIONS.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import sluice
from sluice.app.streams.policy import StreamPolicy

given = json.loads(Path(sys.argv[1]).read_text())
pipeline = sluice.Pipeline(given.pop("sources"), policy=StreamPolicy(decoder=given.pop("decoder")), **given)
pipeline.run()
print(json.dumps({**pipeline.summary.as_dict(), "text": str(pipeline.summary)}))
