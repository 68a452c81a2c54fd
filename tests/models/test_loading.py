"""Every form of a model's name, and what is said of wrong ones."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from array_surfaces import blank

from sluice.errors import ConfigurationError, ModelError
from sluice.models.frame import Frame
from sluice.models.loading import MODELS, load_model

BRIGHT = """
    import numpy as np
    from sluice.models.detections import Detections

    class Bright:
        labels = ["bright"]

        def __init__(self, level: int = 100):
            self.level = level

        def infer(self, frames):
            return [Detections([[0, 0, f.width, f.height]], [0.5], [0]) for f in frames]
"""


def frames():
    return [Frame(blank("RGB", 64, 48), stream=0, number=0, pts=None)]


def write(path, text):
    path.write_text(textwrap.dedent(text))
    return path


def error_of(spec, **arguments):
    with pytest.raises((ModelError, ConfigurationError)) as caught:
        load_model(spec, **arguments)
    return str(caught.value)


def test_registered_names_load_and_run():
    assert set(MODELS) == {"people", "none"}
    for name in MODELS:
        model = load_model(name)
        model.load()
        model.warm_up()
        assert [len(result) for result in model.infer(frames())] == [0]
        model.close()


def test_a_file_alone_with_one_class(tmp_path):
    path = write(tmp_path / "bright.py", BRIGHT)
    for spec in (path, str(path), f"{path}:Bright"):
        model = load_model(spec, options={"level": "7"})
        [result] = model.infer(frames())
        assert result.xyxy.tolist() == [[0, 0, 64, 48]]
        assert (model.labels, model.target.level) == (("bright",), 7)


def test_a_file_is_read_anew_each_time(tmp_path):
    path = write(tmp_path / "bright.py", BRIGHT)
    load_model(path)
    write(path, BRIGHT.replace('["bright"]', '["changed"]'))
    assert load_model(path).labels == ("changed",)


def test_a_file_finds_the_modules_beside_it(tmp_path):
    write(tmp_path / "beside_the_model_file.py", "LABELS = ['a']")
    path = write(tmp_path / "m.py", BRIGHT.replace('["bright"]', "__import__('beside_the_model_file').LABELS"))
    assert load_model(path).labels == ("a",)


@pytest.mark.parametrize(
    "text",
    [
        "def find(frames):\n    return [None for f in frames]",
        "def _help(): pass\ndef find(frames):\n    return [None for f in frames]",
        "class M:\n    def infer(self, frames):\n        return [None for f in frames]\ndef other(frames): pass",
        "class _M:\n    def infer(self, frames):\n        return [None for f in frames]\nmodel = _M()",
        "find = lambda frames: [None for f in frames]",
    ],
)
def test_what_counts_as_the_one_model_of_a_file(tmp_path, text):
    [result] = load_model(write(tmp_path / "m.py", text)).infer(frames())
    assert len(result) == 0


def test_a_file_with_no_or_several_models_asks_for_the_name(tmp_path):
    assert "holds 0 models (none); right is exactly one, or" in error_of(write(tmp_path / "e.py", "x = 1"))
    two = write(tmp_path / "two.py", BRIGHT + BRIGHT.replace("class Bright", "class Dark"))
    assert "holds 2 models (Bright, Dark)" in error_of(two)
    assert load_model(f"{two}:Dark").labels == ("bright",)


def test_module_and_class(tmp_path, monkeypatch):
    (tmp_path / "my_models_package").mkdir()
    write(tmp_path / "my_models_package/bright.py", BRIGHT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    assert load_model("my_models_package.bright:Bright").labels == ("bright",)
    assert "has no 'Brigth'; did you mean 'Bright'? (models there: Bright)" in error_of(
        "my_models_package.bright:Brigth"
    )
    assert "no Python module 'my_models_package.dark'" in error_of("my_models_package.dark:Bright")
    assert "no Python module 'nowhere_to_be_found'" in error_of("nowhere_to_be_found.bright:Bright")


def test_a_model_file_that_fails_says_how(tmp_path):
    assert "m.py cannot be loaded: ZeroDivisionError: division by zero" in error_of(write(tmp_path / "m.py", "1/0"))
    assert "SyntaxError" in error_of(write(tmp_path / "s.py", "def x(:"))
    assert "e.py cannot be loaded: SystemExit: 2" in error_of(write(tmp_path / "e.py", "raise SystemExit(2)"))
    needs = write(tmp_path / "needs.py", "import a_module_that_is_not_there")
    assert "ModuleNotFoundError: No module named 'a_module_that_is_not_there'" in error_of(needs)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("poeple", "there is no model 'poeple'; did you mean 'people'? (right is a registered name: people, none;"),
        ("", "there is no model ''"),
        (":Bright", "':Bright' is half a name"),
        ("json:", "'json:' is half a name"),
        ("json:JSONDecoder", "class JSONDecoder has no method infer(self, frames)"),
        ("sys:nothing_like_this", "sys has no 'nothing_like_this' (there is no model in it)"),
        ("missing.onnx", "there is no model file 'missing.onnx'"),
        ("/no/such/folder/m.onnx", "there is no folder '/no/such/folder' either"),
        ("missing.py", "there is no model file 'missing.py'"),
        ("missing.py:Model", "there is no model file 'missing.py'"),
    ],
)
def test_wrong_names(spec, message):
    assert message in error_of(spec)


def test_files_that_are_wrong(tmp_path):
    onnx = tmp_path / "yolo.onnx"
    onnx.write_bytes(b"this is no network")
    assert f"did you mean '{onnx}'?" in error_of(tmp_path / "yola.onnx")
    model = load_model(onnx)  # only opened by load
    with pytest.raises(ModelError, match=r"ONNX Runtime cannot open .*yolo\.onnx"):
        model.load()
    os.mkfifo(tmp_path / "queue.onnx")
    (tmp_path / "gone.onnx").symlink_to(tmp_path / "nothing.onnx")
    for name in ("queue.onnx", "gone.onnx"):
        assert "it is no file, or a link that leads nowhere" in error_of(tmp_path / name)
    other = tmp_path / "yolo.weights"
    other.write_bytes(b"x")
    assert "no runtime reads .weights; right is .onnx" in error_of(other)


def test_folders_may_have_colons_and_spaces_in_their_names(tmp_path):
    folder = tmp_path / "run of 12:30, größer"
    folder.mkdir()
    write(folder / "bright.py", BRIGHT)
    for spec in (folder / "bright.py", f"{folder}/bright.py:Bright"):
        assert len(load_model(spec).infer(frames())[0]) == 1
    (folder / "yolo.onnx").write_bytes(b"this is no network")
    with pytest.raises(ModelError, match=r"ONNX Runtime cannot open .*12:30.*yolo\.onnx"):
        load_model(folder / "yolo.onnx").load()
    assert f"there is no model file '{folder}/yola.onnx'; did you mean" in error_of(folder / "yola.onnx")
    (folder / "pgie.txt").write_text("[property]\nonnx-file=yolo.onnx\nnum-detected-classes=1\ncluster-mode=2\n")
    with pytest.raises(ModelError, match=r"ONNX Runtime cannot open .*12:30.*yolo\.onnx"):
        load_model(folder / "pgie.txt").load()


def test_wrong_settings(tmp_path):
    onnx = tmp_path / "yolo.onnx"
    onnx.write_bytes(b"x")
    assert "confidence is 1.5; right is a number from 0 to 1" in error_of("people", confidence=1.5)
    assert "iou is -0.1" in error_of("people", iou=-0.1)
    assert "max_detections is 0" in error_of("people", max_detections=0)
    assert "max_detections is 0; right is 1 or more" in error_of(onnx, options={"max_detections": "0"})
    assert "no runtime 'onnxrutime'; did you mean 'onnxruntime'?" in error_of(onnx, runtime="onnxrutime")
    assert "no runtime 'onnxrutime'; did you mean 'onnxruntime'?" in error_of("people", runtime="onnxrutime")
    assert "no option 'decodr' (did you mean 'decoder'?)" in error_of(onnx, options={"decodr": "yolox"})
    assert f"option 'threads' of {onnx} is 'two'; right is a number (int)" in error_of(onnx, options={"threads": "two"})
    assert "there is no decoder 'yolo8'" in error_of(onnx, options={"decoder": "yolo8"})
    assert "'device' is no option of a network file" in error_of(onnx, options={"device": "cpu"})
    assert "mean is '1,2'; right are three numbers" in error_of(onnx, options={"mean": "1,2"})
    assert "People has no option 'upscal'" in error_of("people", options={"upscal": 1})
    assert "cannot read the label file 'no.txt'" in error_of("people", labels="no.txt")


def test_settings_reach_the_network(data):
    spec = data / "models/yolox_nano_416x416.onnx"
    model = load_model(spec, confidence=0.4, iou=0.3, max_detections=2, classes=["person", 5], options={"pad": "0"})
    model.load()
    network = model.target
    assert (network.confidence, network.iou, network.head.decoder) == (0.4, 0.3, "yolox")
    assert network._inputs[0].preprocessor.spec.pad == 0
    assert model.labels[5] == "bus"
    assert len(model.infer(frames())) == 1
    with pytest.raises(ModelError, match="has no class 'persn'; did you mean 'person'"):
        load_model(spec, classes=["persn"]).load()


def test_classes_are_kept_before_the_most_are_counted(tmp_path):
    path = write(
        tmp_path / "m.py",
        """
        from sluice.models.detections import Detections
        labels = ["cat", "dog"]
        def find(frames):
            return [Detections([[0, 0, 1, 1]] * 3, [0.9, 0.8, 0.7], [0, 0, 1]) for f in frames]
        find.labels = labels
        """,
    )
    [result] = load_model(path, classes=["dog"], max_detections=1).infer(frames())
    assert result.scores.tolist() == [np.float32(0.7)]


def test_loading_a_class_of_ones_own_imports_no_runtime(tmp_path):
    """A model in plain Python does not pay for ONNX Runtime."""
    path = write(tmp_path / "m.py", BRIGHT)
    code = f"""
import sys
from sluice.models.loading import load_model
load_model({str(path)!r})
sys.exit("onnxruntime" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
