"""Makes the comparison's clips from the bundled one: cut to 16:9, H.264, 480p and 1080p, 5 and 20 kB a frame.

    python bench/peers/clips.py out/bench

Each in two lengths, SIZE-short.mp4 and SIZE-long.mp4, about 100 and 200 frames, as most programs cannot be told to end
a clip early.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

BUNDLED = Path(__file__).parent.parent.parent / "examples" / "data" / "pedestrians.mp4"
SIZES = {"480p": (854, 480, 400), "1080p": (1920, 1080, 1600)}
LENGTHS = {"short": 100, "long": 200}


def make(clip: Path, width: int, height: int, kilobits: int, frames: int) -> None:
    """Write one clip."""
    part = clip.with_suffix(".part")
    pipeline = Gst.parse_launch(
        f"filesrc location={BUNDLED} ! decodebin ! identity eos-after={frames + 1} ! videocrop top=72 bottom=72 "
        f"! videoscale ! video/x-raw,width={width},height={height},pixel-aspect-ratio=1/1 "
        f"! x264enc bitrate={kilobits} speed-preset=veryfast ! video/x-h264,profile=high ! h264parse ! mp4mux "
        f"! filesink location={part}"
    )
    pipeline.set_state(Gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(Gst.CLOCK_TIME_NONE, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    if message.type == Gst.MessageType.ERROR:
        sys.exit(f"{clip}: {message.parse_error()}")
    part.rename(clip)


def main() -> None:
    """Write those that are not there."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    Gst.init(None)
    for size, (width, height, kilobits) in SIZES.items():
        for length, frames in LENGTHS.items():
            clip = folder / f"{size}-{length}.mp4"
            if not clip.exists():
                make(clip, width, height, kilobits, frames)


if __name__ == "__main__":
    main()
