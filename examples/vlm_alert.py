"""Raises an alert when a vision-language model says that somebody needs help, while the cameras go on.

    python examples/vlm_alert.py SOURCE... --endpoint http://localhost:8000/v1 --model Qwen/Qwen2.5-VL-7B-Instruct

Sources are files, rtsp:// and whatever else ``sluice run`` takes. The model is asked when a person appears, and every
ten seconds besides; its answer must be JSON of the shape below, or it does not count.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import sluice

SCHEMA = {
    "type": "object",
    "properties": {"help": {"type": "boolean"}, "why": {"type": "string"}},
    "required": ["help", "why"],
}
PROMPT = "Pictures of the camera {name}, with {objects} at the end. Does anybody need help? Say why in one sentence."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="+")
    parser.add_argument("--endpoint", required=True, help="URL of an OpenAI-compatible endpoint that takes images")
    parser.add_argument("--model", required=True, help="its model")
    parser.add_argument("--key-env", help="name of the environment variable with its key")
    parser.add_argument("--frames", type=int, help="end each stream after so many frames")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        schema = Path(folder) / "answer.json"
        schema.write_text(json.dumps(SCHEMA))
        vlm = {
            "backend": options.endpoint,
            "model": options.model,
            "key_env": options.key_env,
            "prompt": PROMPT,
            "schema": schema,
            "every": 10,
            "frames": 2,
            "trigger": "object:person",
            "properties": {"spacing": 0.5, "timeout": 30.0},
        }
        with sluice.Pipeline(options.source, model="people", vlm=vlm, frames=options.frames) as pipeline:
            for frame in pipeline:
                for answer in frame.answers:
                    if answer.value["help"]:
                        print(f"ALERT stream {frame.stream}, {answer.end_pts / 1e9:.1f} s: {answer.value['why']}")
        print(pipeline.summary, file=sys.stderr)
    return 0 if pipeline.summary.ok else 1


if __name__ == "__main__":
    sys.exit(main())
