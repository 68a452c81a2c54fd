"""Every property that nvinfer has, on sluiceinfer: there, with nvinfer's type and default, and honoured or refused."""

import queue
import sys
import time
import types
from contextlib import nullcontext
from pathlib import Path

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst
from infer_pipeline import RAW, Driver, collect, launch, model, run
from infer_pipeline import Run as Outcome

from sluice.contract.formats import MemType
from sluice.elements.infer_calls import definition_of, use_gpu
from sluice.elements.infer_frames import BatchReader
from sluice.elements.infer_nvinfer import values_for_swap, with_configuration
from sluice.elements.infer_properties import PROPERTIES, Settings
from sluice.errors import ConfigurationError, ContractError
from sluice.models.raw_files import RawFiles
from sluice.models.whole import Layer, RawOutputs

FLAG, NUMBER, TEXT = "gboolean", "guint", "gchararray"

#: nvinfer's properties: type, default, a value to try, and what a refusal of it says (None: it is honoured).
NVINFER = {
    "unique-id": (NUMBER, 15, 3, None),
    "process-mode": ("SluiceProcessMode", 1, 2, None),
    "config-file-path": (TEXT, None, "config.txt", None),
    "batch-size": (NUMBER, 0, 4, None),
    "interval": (NUMBER, 0, 2, None),
    "infer-on-gie-id": ("gint", -1, 1, None),
    "infer-on-class-ids": (TEXT, None, "0:2:3", None),
    "filter-out-class-ids": (TEXT, None, "0;2", None),
    "model-engine-file": (TEXT, None, "net.engine", None),
    "gpu-id": (NUMBER, 0, 1, None),
    "raw-output-file-write": (FLAG, False, True, None),
    "raw-output-generated-callback": ("gpointer", None, 1, "right is output-tensor-meta=true and a probe"),
    "raw-output-generated-userdata": ("gpointer", None, 1, "a part of raw-output-generated-callback"),
    "output-tensor-meta": (FLAG, False, True, None),
    "output-instance-mask": (FLAG, False, True, "without a config-file-path"),
    "input-tensor-meta": (FLAG, False, True, "right is false, and roi-params=FILE"),
    "clip-object-outside-roi": (FLAG, True, False, None),
    "crop-objects-to-roi-boundary": (FLAG, False, True, "without a config-file-path"),
    "strongly-typed": (FLAG, False, True, "without a config-file-path"),
    "dynamic-properties": (TEXT, None, "data_max=1", "right is to leave it out and to set workspace-size"),
}
#: Those that nvinfer lets change while it plays, and more that Sluice does.
PLAYING = {"config-file-path", "model-engine-file", "interval"}
WITH_THE_NEXT_MODEL = {
    "output-tensor-meta",
    "output-instance-mask",
    "crop-objects-to-roi-boundary",
    "strongly-typed",
}


def values(**changes):
    """The defaults of all properties with some changed; an underscore stands for the hyphen."""
    return {entry.name: entry.default for entry in PROPERTIES} | {
        name.replace("_", "-"): value for name, value in changes.items()
    }


@pytest.fixture(scope="module")
def element():
    return launch("sluiceinfer name=infer ! fakesink").get_by_name("infer")


@pytest.mark.parametrize("name", NVINFER)
def test_nvinfers_property_is_there_with_its_type_and_default(element, name):
    kind, default, *_ = NVINFER[name]
    spec = element.find_property(name)
    assert spec.value_type.name == kind
    if kind != "gpointer":
        assert element.get_property(name) == spec.default_value == default
    assert len(spec.blurb) > 15


@pytest.mark.parametrize("name", NVINFER)
def test_gst_inspect_says_when_it_may_change(element, name):
    mutable = bool(element.find_property(name).flags & Gst.PARAM_MUTABLE_PLAYING)
    assert mutable is (name in PLAYING | WITH_THE_NEXT_MODEL)


@pytest.mark.parametrize("name", NVINFER)
def test_nvinfers_property_is_honoured_or_refused_by_name(name):
    _, _, value, refusal = NVINFER[name]
    changes = {"model": None if name == "config-file-path" else "net.onnx", name: value}
    with nullcontext() if refusal is None else pytest.raises(ConfigurationError, match=name) as refused:
        Settings.from_values(values(**changes))
    assert refusal is None or refusal in str(refused.value)


@pytest.mark.parametrize("name", [name for name, row in NVINFER.items() if "config-file-path" in (row[3] or "")])
def test_what_only_a_configuration_file_can_have_is_honoured_with_one(name):
    settings = Settings.from_values(values(config_file_path="config.txt", **{name: True}))
    assert (name.replace("-", "_"), True) in definition_of(settings).overrides


def test_a_refusal_ends_the_start():
    pipeline = launch(f"{RAW.format(n=1, format='I420')} ! sluiceinfer {model('Whole')} input-tensor-meta=1 ! fakesink")
    assert pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.FAILURE
    done = Outcome()
    collect(pipeline, done, 5)
    pipeline.set_state(Gst.State.NULL)
    assert done.error[0].startswith("input-tensor-meta is true, but it takes the network's input from nvdspreprocess")


@pytest.mark.parametrize(("written", "number"), [("secondary", 2), ("2", 2), ("primary", 1)])
def test_a_process_mode_has_a_number_and_a_name(written, number):
    infer = launch(f"sluiceinfer name=infer process-mode={written} ! fakesink").get_by_name("infer")
    assert infer.get_property("process-mode") == number
    infer.set_property("process-mode", 3 - number)
    assert infer.get_property("process-mode") == 3 - number


def test_pointers_can_be_set_and_read():
    infer = launch("sluiceinfer name=infer ! fakesink").get_by_name("infer")
    assert infer.find_property("raw-output-generated-callback").value_type == GObject.TYPE_POINTER


# Classes left out


def test_classes_can_be_left_out():
    done = run(
        f"{RAW.format(n=4, format='I420')} ! sluiceinfer name=infer {model('Whole')} filter-out-class-ids=1 ! fakesink"
    )
    assert [[o.class_id for o in frame.objects] for frame in done.frames] == [[0], [], [0], []]
    assert all(frame.infer_done for frame in done.frames)


@pytest.mark.parametrize(("text", "ids"), [(None, set()), ("", set()), ("3", {3}), (" 0 ; 2;", {0, 2})])
def test_a_list_of_classes_to_leave_out(text, ids):
    assert Settings.from_values(values(model="m", filter_out_class_ids=text)).nvinfer.left_out == ids


@pytest.mark.parametrize("text", ["person", "0:2", "-1"])
def test_what_is_no_list_of_classes_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"filter-out-class-ids is .*such as 0;2"):
        Settings.from_values(values(model="m", filter_out_class_ids=text))


# The GPU


@pytest.mark.parametrize(
    ("gpu", "device", "used"),
    [
        (0, "auto", (0, "auto")),
        (0, "cpu", (0, "cpu")),
        (0, "cuda", (0, "cuda:0")),
        (1, "auto", (1, "cuda:1")),
        (1, "cuda", (1, "cuda:1")),
        (1, "cpu", (1, "cpu")),
        (0, "cuda:2", (2, "cuda:2")),
        (2, "cuda:2", (2, "cuda:2")),
    ],
)
def test_the_gpu_is_that_of_the_device(gpu, device, used):
    settings = Settings.from_values(values(model="m", gpu_id=gpu, device=device))
    assert (settings.nvinfer.gpu, settings.device) == used


def test_two_gpus_contradict_each_other():
    with pytest.raises(ConfigurationError, match="gpu-id is 1 and device is 'cuda:2'; right is the same GPU"):
        Settings.from_values(values(model="m", gpu_id=1, device="cuda:2"))


class OnGpu:
    """Surfaces on a GPU."""

    def __init__(self, gpu, mem_type=MemType.CUDA_DEVICE):
        self.gpu_id, self.mem_type = gpu, mem_type


@pytest.mark.parametrize("kind", [MemType.CUDA_DEVICE, MemType.CUDA_UNIFIED])
def test_surfaces_on_another_gpu_are_refused_with_both_numbers(monkeypatch, kind):
    caps = Gst.Caps.from_string("video/x-raw(memory:NVMM),format=NV12,width=64,height=48,framerate=25/1")
    given = []
    monkeypatch.setattr("sluice.contract.surface.SurfaceBatch.at", lambda *_, **__: given[-1])
    reader = BatchReader(caps, 1)
    given.append(OnGpu(1, kind))
    assert reader.surfaces(Gst.Buffer.new()) is given[0]
    given.append(OnGpu(0, MemType.SYSTEM))
    assert reader.surfaces(Gst.Buffer.new()) is given[1]
    given.append(OnGpu(0, kind))
    with pytest.raises(
        ContractError, match="on GPU 0, and gpu-id is 1; right is gpu-id=0, or gpu-id=1 on the elements"
    ):
        reader.surfaces(Gst.Buffer.new())


def test_the_models_thread_is_given_its_gpu(monkeypatch):
    used = []
    cuda = types.SimpleNamespace(set_device=used.append)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(cuda=cuda))
    for device in ("auto", "cpu", "cuda:3"):
        use_gpu(device)
    assert used == [3]


# Raw outputs in files


def outputs(*values):
    return RawOutputs((Layer("out/boxes", np.array(values, np.float32)), Layer("ids", np.array([7], np.int32))), 32, 32)


def test_raw_outputs_are_named_and_laid_out_as_nvinfers(tmp_path):
    files = RawFiles(3, tmp_path)
    files.write([outputs(1, 2), outputs(3, 4)])
    files.write([outputs(5, 6)])
    name = "gstnvdsinfer_uid-03_layer-out_boxes_batch-{}_batchsize-{}.bin"
    assert sorted(path.name for path in tmp_path.iterdir() if "boxes" in path.name) == [
        name.format("0000000000", "02"),
        name.format("0000000001", "01"),
    ]
    written = np.fromfile(tmp_path / name.format("0000000000", "02"), np.float32)
    assert written.tolist() == [1, 2, 3, 4]
    ids = "gstnvdsinfer_uid-03_layer-ids_batch-0000000000_batchsize-02.bin"
    assert np.fromfile(tmp_path / ids, np.int32).tolist() == [7, 7]


def test_a_network_writes_its_raw_outputs(tmp_path, monkeypatch, config):
    monkeypatch.chdir(tmp_path)
    done = run(
        f"{RAW.format(n=3, format='I420')} ! sluiceinfer name=infer config-file-path={config} raw-output-file-write=1 "
        "interval=0 ! fakesink"
    )
    assert done.error is None
    files = sorted(Path().glob("gstnvdsinfer_*.bin"))
    assert [path.name for path in files] == [
        f"gstnvdsinfer_uid-04_layer-out_batch-000000000{i}_batchsize-01.bin" for i in range(3)
    ]
    assert np.fromfile(files[0], np.float32).tolist() == [8, 8, 24, 24, 0.75, 1]


# The configuration file


def test_a_configuration_and_a_network_that_runs_in_its_place():
    settings = Settings.from_values(values(config_file_path="c.txt", model="other.engine", batch_size=4, gpu_id=1))
    definition = definition_of(settings)
    assert definition.model == "c.txt"
    assert dict(definition.overrides) == {"model_engine_file": "other.engine", "batch_size": 4, "gpu_id": 1}
    onnx = definition_of(Settings.from_values(values(config_file_path="c.txt", model="other.onnx")))
    assert {"onnx_file": "other.onnx", "model_engine_file": None}.items() <= dict(onnx.overrides).items()


@pytest.mark.parametrize("beside", ["people", "models.py:Mine", "other.txt"])
def test_a_configuration_and_another_model_contradict_each_other(beside):
    with pytest.raises(ConfigurationError, match=r"model is .* and config-file-path is 'c\.txt'; .*set one of the two"):
        Settings.from_values(values(config_file_path="c.txt", model=beside))


def test_a_configuration_has_one_of_three_endings():
    with pytest.raises(ConfigurationError, match=r"config-file-path is 'c\.cfg'; right is a file that ends in \.txt"):
        Settings.from_values(values(config_file_path="c.cfg"))


def test_what_one_file_set_is_put_back_before_the_next_is_read(config, tmp_path):
    first = with_configuration(values(config_file_path=str(config)), ())
    assert (first["unique-id"], first["interval"]) == (4, 2)
    other = tmp_path / "other.txt"
    other.write_text(config.read_text().replace("gie-unique-id=4\n", "gpu-id=1\nprocess-mode=2\n"))
    second = with_configuration(first | {"config-file-path": str(other)}, {"interval"})
    assert (second["unique-id"], second["interval"], second["gpu-id"], second["process-mode"]) == (15, 2, 1, 2)


@pytest.mark.parametrize(
    ("running", "name", "value", "after"),
    [
        (("a.onnx", None), "model", "b.onnx", ("b.onnx", None)),
        (("a.onnx", None), "config-file-path", "c.txt", (None, "c.txt")),
        ((None, "c.txt"), "config-file-path", "d.yml", (None, "d.yml")),
        ((None, "c.txt"), "model", "b.engine", ("b.engine", "c.txt")),
        (("b.engine", "c.txt"), "config-file-path", "d.yml", (None, "d.yml")),
        ((None, "c.txt"), "model", "people", ("people", None)),
        ((None, "c.txt"), "model", "d.yml", ("d.yml", None)),
    ],
)
def test_what_runs_after_a_change_of_model(running, name, value, after):
    before = values(model=running[0], config_file_path=running[1])
    changed = values_for_swap(before, name, value)
    assert (changed["model"], changed["config-file-path"]) == after


def swap(driver, name, value):
    """Set a model while frames flow; return what model-updated says and the reason of a warning."""
    said = queue.Queue()
    handler = driver.infer.connect("model-updated", lambda _element, *update: said.put(update))
    driver.infer.set_property(name, value)
    end = time.monotonic() + 20
    while said.empty():
        assert time.monotonic() < end, "no report"
        driver.push()
        time.sleep(0.002)
    driver.infer.disconnect(handler)
    warning = driver.pipeline.get_bus().pop_filtered(Gst.MessageType.WARNING)
    return (*said.get(), warning.parse_warning()[0].message if warning is not None else "")


def labels(driver):
    """Push a frame; return the labels on it, once it has left."""
    end, before = time.monotonic() + 10, len(driver.run.frames)
    driver.push()
    while len(driver.run.frames) <= before:
        assert time.monotonic() < end, "the frame did not come out"
        time.sleep(0.002)
    return [o.label for o in driver.run.frames[-1].objects]


def runs(driver):
    return tuple(driver.infer.get_property(name) for name in ("model", "config-file-path", "model-engine-file"))


def test_configurations_are_swapped_while_frames_flow(config, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(
        config.read_text().replace("labels.txt", "others.txt").replace("gie-unique-id=4", "gie-unique-id=8")
    )
    (tmp_path / "others.txt").write_text("cow\nhen\n")
    with Driver(f"{model('Nothing')} unique-id=2") as driver:
        assert swap(driver, "config-file-path", str(config)) == (0, str(config), "")
        assert runs(driver) == (None, str(config), None)
        assert labels(driver) == ["dog"]
        assert swap(driver, "config-file-path", str(other)) == (0, str(other), "")
        assert runs(driver) == (None, str(other), None)
        assert labels(driver) == ["hen"]
        assert driver.run.frames[-1].objects[0].component == 2  # the element's own properties stay
        config.write_text(config.read_text().replace("interval=2", "interval=two"))
        status, path, why = swap(driver, "config-file-path", str(config))
        assert (status, path) == (1, str(config))
        assert "line 4: [property] interval is 'two'" in why
        assert why.endswith(f"; {other} goes on")
        assert labels(driver) == ["hen"]


def test_a_network_is_swapped_within_a_configuration(config, tmp_path):
    (tmp_path / "next.onnx").write_bytes((tmp_path / "net.onnx").read_bytes())
    with Driver(f"config-file-path={config} interval=0") as driver:
        network = str(tmp_path / "next.onnx")
        assert swap(driver, "model-engine-file", network) == (0, network, "")
        assert runs(driver) == (network, str(config), network)
        assert labels(driver) == ["dog"]


@pytest.mark.parametrize("exists", [False, True])
def test_an_engine_that_cannot_run_is_refused_though_the_file_names_an_onnx_network(config, tmp_path, exists):
    engine = tmp_path / "net.engine"
    if exists:
        engine.write_bytes(b"no engine")
    with Driver(f"config-file-path={config} interval=0") as driver:
        status, path, why = swap(driver, "model-engine-file", str(engine))
        assert (status, path) == (1, str(engine))
        assert str(engine) in why
        assert runs(driver) == (None, str(config), None)
        assert labels(driver) == ["dog"]


def test_a_file_of_another_ending_is_no_configuration(config):
    with Driver(f"config-file-path={config}") as driver:
        status, _, why = swap(driver, "config-file-path", "c.cfg")
        assert status == 1
        assert "right is a file that ends in .txt, .yml or .yaml" in why
