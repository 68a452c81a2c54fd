"""People who cross a line, counted by direction and sent to an MQTT broker.

/usr/sbin/mosquitto -p 1883 &
python examples/line_counting_mqtt.py examples/data/pedestrians.mp4 mqtt://127.0.0.1:1883/yard/people
"""

import sys
import tempfile
from pathlib import Path

import sluice

# A line down the middle of a 768x576 picture; the first two points say which direction is counted.
LINES = """[property]
enable=1
config-width=768
config-height=576

[line-crossing-stream-0]
enable=1
line-crossing-East=300;300;460;300;384;0;384;575
line-crossing-West=460;300;300;300;384;0;384;575
class-id=0
mode=balanced
"""


def main(source: str, broker: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines.txt"
        lines.write_text(LINES)
        pipeline = sluice.Pipeline(
            source, model="people", tracker="bytetrack", analytics=lines, messages=broker, out="out/lines.mp4"
        )
        print(pipeline.run())
    return 0 if pipeline.summary.ok else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
