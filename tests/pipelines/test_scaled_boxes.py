"""The same clip through muxes that scale and one that does not: each box lies on the same object in its own surface."""

import threading
from pathlib import Path

import gi
import numpy as np
import numpy.typing as npt
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.bulk import read_objects
from sluice.contract.metadata import BatchMeta, Lease
from sluice.elements import register_all

SIZE = (1280, 720)
FRAMES = 6
Boxes = npt.NDArray[np.float64]


def boxes_of(clip: Path, model: Path, mux: str = "") -> tuple[list[Boxes], tuple[int, int]]:
    """The boxes (left, top, width, height) of the first frames, and the size of the clip's own frames."""
    register_all()
    pipeline = Gst.parse_launch(
        f"uridecodebin uri={clip.as_uri()} ! m.sink_0 sluicemux name=m batch-size=1 "
        f"{mux} ! sluiceinfer model={model} confidence-threshold=0.5 ! fakesink name=end sync=false"
    )
    found: list[Boxes] = []
    sizes: set[tuple[int, int]] = set()
    enough = threading.Event()

    def look(_pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        with Lease() as lease:
            for frame in BatchMeta.of(info.get_buffer(), lease).frames:
                found.append(read_objects(frame).boxes.astype(float))
                sizes.add((frame.source_width, frame.source_height))
        if len(found) >= FRAMES:
            enough.set()
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, look)
    pipeline.set_state(Gst.State.PLAYING)
    came = enough.wait(60)
    pipeline.set_state(Gst.State.NULL)
    assert came, pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
    (size,) = sizes
    return found[:FRAMES], size


def on_the_scaled_surface(boxes: Boxes, size: tuple[int, int], padding: bool) -> Boxes:
    """Where boxes on a frame of this size come to lie on one of `SIZE`, of which padding leaves the picture's shape."""
    scale = np.array(SIZE) / size
    if padding:
        scale = np.full(2, scale.min())
    offset = (np.array(SIZE) - scale * size) / 2
    return np.hstack([boxes[:, :2] * scale + offset, boxes[:, 2:] * scale])


def overlaps(first: Boxes, second: Boxes) -> npt.NDArray[np.float64]:
    """Intersection over union of each pair, [len(first), len(second)]."""
    left, top = (np.maximum(first[:, None, side], second[None, :, side]) for side in (0, 1))
    right, bottom = (
        np.minimum((first[:, side] + first[:, side + 2])[:, None], (second[:, side] + second[:, side + 2])[None, :])
        for side in (0, 1)
    )
    shared = np.clip(right - left, 0, None) * np.clip(bottom - top, 0, None)
    return shared / (first[:, 2:].prod(axis=1)[:, None] + second[:, 2:].prod(axis=1)[None, :] - shared)


@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("name", ["asl_walk.mkv", "Retail02_first7s.mp4"])  # 4:3, and wide
def test_each_box_lies_on_the_same_object(data: Path, name: str, padding: bool) -> None:
    clip, model = data / "videos" / name, data / "models" / "yolox_nano_416x416.onnx"
    plain, size = boxes_of(clip, model)
    scaled, same_size = boxes_of(clip, model, f"width=1280 height=720 enable-padding={str(padding).lower()}")
    assert size == same_size != SIZE
    assert len(plain) == len(scaled) == FRAMES
    expected = [on_the_scaled_surface(boxes, size, padding) for boxes in plain]
    best = np.concatenate([overlaps(e, s).max(axis=1, initial=0) for e, s in zip(expected, scaled, strict=True)])
    assert len(best) > 1.5 * FRAMES
    # The network sees other pixels, so that a doubtful object may be found in one of the two only.
    assert np.mean(best > 0.9) >= 0.8, np.sort(best)
