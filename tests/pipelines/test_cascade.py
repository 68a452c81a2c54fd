"""Cascades on real clips: detector, tracker, and secondary networks on the objects; and that nothing is left of it."""

import resource
import traceback
from collections.abc import Callable
from pathlib import Path

import cv2
import gi
import numpy as np
import onnxruntime
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

import sluice
from playing import reaches_its_end, stats_of
from sluice.contract import infer_meta
from sluice.contract._native import library
from sluice.contract.metadata import UNTRACKED, BatchMeta, Lease
from sluice.contract.surface import SurfaceBatch
from sluice.elements import register_all
from sluice.errors import ConfigurationError
from sluice.models.crops import region_of
from sluice.models.pixels import to_packed

Gst.init(None)
PERSON = 0
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def run(line: str, look: Callable[[Gst.Buffer], None], limit: float = 120) -> dict[str, int]:
    """Run a launch line whose last element is named ``end``; return the stats of the element named ``second``."""
    register_all()
    pipeline = Gst.parse_launch(line)
    failures: list[str] = []  # texts: a traceback would keep buffers, and with them the pipeline

    def probe(_pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
        try:
            look(info.get_buffer())
        except BaseException:
            failures.append(traceback.format_exc())
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, probe)
    pipeline.set_state(Gst.State.PLAYING)
    try:
        reaches_its_end(pipeline, limit)
        second = pipeline.get_by_name("second")
        stats = {} if second is None else stats_of(second)
    finally:
        pipeline.set_state(Gst.State.NULL)
    assert not failures, failures[0]
    return {name: stats[name] for name in ("frames", "inferred", "errors", "objects") if name in stats}


def source(path: Path, pad: int) -> str:
    return f"filesrc location={path} ! decodebin ! mux.sink_{pad} "


class Reference:
    """Embeddings of OSNet computed the plain way: the whole frame as RGB, cut, resized and normalised."""

    def __init__(self, network: Path) -> None:
        self._session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])

    def __call__(self, rgb: np.ndarray, box: tuple[float, ...]) -> np.ndarray:
        left, top, width, height = region_of(box, (rgb.shape[1], rgb.shape[0]))
        crop = cv2.resize(rgb[top : top + height, left : left + width], (128, 256)).astype(np.float32) / 255
        tensor = ((crop - MEAN) / STD).astype(np.float32).transpose(2, 0, 1)[None]
        return self._session.run(None, {"input": tensor})[0][0]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_people_of_two_streams_have_the_embeddings_of_their_pictures(data: Path) -> None:
    models, videos = data / "models", data / "videos"
    osnet = models / "osnet_x0_25_msmt17.onnx"
    reference = Reference(osnet)
    found: list[tuple[int, int, int, np.ndarray, np.ndarray | None]] = []

    def look(buffer: Gst.Buffer) -> None:
        surfaces = SurfaceBatch.of(buffer)
        with Lease() as lease:
            for frame in BatchMeta.of(buffer, lease).frames:
                for item in frame.objects:
                    embeddings = infer_meta.embeddings(item)
                    wanted = item.class_id == PERSON and item.box[3] >= 60
                    assert len(embeddings) == int(wanted), (item.class_id, item.box)
                    if not wanted:
                        continue
                    (embedding,) = embeddings
                    assert (embedding.component, embedding.features.shape) == (2, (512,))
                    assert item.object_id != UNTRACKED
                    expected = None
                    if len(found) % 40 == 0 or not any(f[:2] == (frame.source_id, item.object_id) for f in found):
                        expected = reference(to_packed(surfaces[frame.batch_id], "RGB"), item.box)
                    found.append((frame.source_id, item.object_id, frame.frame_num, embedding.features, expected))
        surfaces.close()

    stats = run(
        f"sluicemux name=mux batch-size=2 ! sluiceinfer unique-id=1 model={models}/yolox_nano_416x416.onnx "
        "confidence-threshold=0.4 ! sluicetracker ! "
        f"sluiceinfer name=second unique-id=2 process-mode=secondary model={osnet} infer-on-gie-id=1 "
        f"infer-on-class-ids={PERSON} input-object-min-height=60 ! fakesink name=end sync=false "
        + source(videos / "derived_853x479_vp9.webm", 0)
        + source(videos / "derived_vfr_gaps.mp4", 1),
        look,
    )
    assert {row[0] for row in found} == {0, 1}
    assert stats["frames"] == 180
    assert stats["errors"] == 0
    people = {row[:2] for row in found}
    assert len(people) <= stats["inferred"] < len(found) / 2, "tracked people are not inferred on every frame"
    first = {}
    for stream, number, _, features, expected in found:
        if (stream, number) not in first:
            first[stream, number] = features
            assert cosine(features, expected) > 0.98, "an object's first embedding is that of its picture"


def test_a_classifier_on_the_objects_of_a_detector(data: Path, tmp_path: Path) -> None:
    models = data / "models"
    seen = []

    def look(buffer: Gst.Buffer) -> None:
        with Lease() as lease:
            for frame in BatchMeta.of(buffer, lease).frames:
                for item in frame.objects:
                    for classifier in item.classifiers:
                        label = classifier.labels[0]
                        assert label.probability == max(other.probability for other in classifier.labels)
                        assert classifier.unique_component_id == 2
                        assert label.label
                        assert 0 <= label.class_id < 1000
                        assert 0 < label.probability <= 1
                        assert item.text.display_text.endswith(f" {label.label} ")
                        seen.append((item.label, label.label))

    labels = data / "models" / "imagenet1001_labels.txt"
    without_background = labels.read_text().splitlines()[1:]
    table = tmp_path / "labels.txt"
    table.write_text("\n".join(without_background))
    stats = run(
        f"sluicemux name=mux batch-size=1 ! sluiceinfer unique-id=1 model={models}/yolox_nano_416x416.onnx ! "
        f"sluiceinfer name=second unique-id=2 process-mode=secondary model={models}/mobilenet_v2_quant.onnx "
        f"labels={table} confidence-threshold=0 batch-size=4 ! fakesink name=end sync=false "
        + source(data / "videos" / "decord_video_0.mov", 0),
        look,
    )
    assert stats["inferred"] == len(seen) > 0
    assert ("keyboard", "computer keyboard") in seen


@pytest.mark.timeout(180)
def test_twenty_thousand_frames_of_every_kind_leave_nothing_behind() -> None:
    live = library().sluice_live_infer_metas()
    sizes: list[int] = []
    frames = 0

    def look(buffer: Gst.Buffer) -> None:
        nonlocal frames
        frames += 1
        if frames % 5000 == 0:
            copy = buffer.copy_region(Gst.BufferCopyFlags.META | Gst.BufferCopyFlags.MEMORY, 0, 2**64 - 1)
            with Lease() as lease:
                (frame,) = BatchMeta.of(copy, lease).frames
                assert [item.mask.shape for item in frame.objects] == [(64, 64)] * 2
                assert len(infer_meta.segmentations(frame)) == len(infer_meta.outputs(frame)) == 1
                assert all(len(infer_meta.embeddings(item)) == 1 for item in frame.objects)
            sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    run(
        "videotestsrc num-buffers=20000 ! video/x-raw,format=GRAY8,width=64,height=48,framerate=25/1 ! "
        "sluiceinfer model=elements.secondary_models:Masks in-flight=4 ! fakesink name=end sync=false",
        look,
        limit=150,
    )
    assert frames == 20_000
    assert library().sluice_live_infer_metas() == live
    # 20 KB of masks and 40 KB of maps and outputs per frame would be 900 MB from the first sample to the last.
    assert sizes[-1] - sizes[0] < 8_000, f"kilobytes at every 5000 frames: {sizes}"


SECONDARY = """[property]
gpu-id=0
net-scale-factor=0.01735207
offsets=123.675;116.28;103.53
onnx-file={network}
batch-size=8
network-type=100
network-mode=0
process-mode=2
gie-unique-id=2
operate-on-gie-id=1
operate-on-class-ids=0
input-object-min-height=60
output-tensor-meta=1
"""


def test_a_secondary_configuration_file_of_nvinfer(data: Path, tmp_path: Path) -> None:
    """As DeepStream's re-identification example has it: raw outputs on each person, for a probe to read."""
    models = data / "models"
    config = tmp_path / "sgie.txt"
    config.write_text(SECONDARY.format(network=models / "osnet_x0_25_msmt17.onnx"))
    reference = Reference(models / "osnet_x0_25_msmt17.onnx")
    likeness: list[float] = []

    def look(buffer: Gst.Buffer) -> None:
        surfaces = SurfaceBatch.of(buffer)
        with Lease() as lease:
            for frame in BatchMeta.of(buffer, lease).frames:
                for item in frame.objects:
                    outputs = infer_meta.outputs(item)
                    assert len(outputs) == int(item.class_id == PERSON and item.box[3] >= 60)
                    for component, layers in outputs:
                        (features,) = layers.values()
                        assert (component, features.shape) == (2, (512,))
                        expected = reference(to_packed(surfaces[frame.batch_id], "RGB"), item.box)
                        likeness.append(cosine(features, expected))
        surfaces.close()

    run(
        f"sluicemux name=mux batch-size=1 ! sluiceinfer unique-id=1 model={models}/yolox_nano_416x416.onnx ! "
        f"sluiceinfer name=second config-file-path={config} ! fakesink name=end sync=false "
        + source(data / "videos" / "mmtracking_demo.mp4", 0),
        look,
    )
    assert len(likeness) > 40
    assert min(likeness) > 0.9, "the scaling filter that nvinfer uses by default is the nearest pixel"


def test_a_secondary_configuration_file_alone_is_refused(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "sgie.txt"
    config.write_text(SECONDARY.format(network=data / "models" / "osnet_x0_25_msmt17.onnx"))
    with pytest.raises(ConfigurationError, match=r"sgie\.txt is of a secondary model \(process-mode=2\)"):
        sluice.Pipeline(["test:ball?frames=3"], model=config)
