"""Inference on a thread of its own, in any order of import, and what compiled code raises is caught."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ORDERS = (
    "",
    "gi,{0}",
    "{0},gi",
    "cv2,gi",  # and the runtime by Sluice; what others import here is out of reach
    "{0},cv2,gi",
    "gi,onnxruntime,{0},cv2",
    "onnxruntime,{0},gi",
    "gi,cv2,onnxruntime",
)

PROGRAM = """
import sys, threading
from pathlib import Path
folder, order, kind = sys.argv[1:]
for name in filter(None, order.split(",")):
    if name == "gi":
        import gi
        gi.require_version("Gst", "1.0")
        from gi.repository import Gst
        Gst.init(None)
    else:
        __import__(name)
import sluice.models
from sluice.errors import ModelError
from sluice.runtimes import open_network
import numpy

def work():
    if kind == "torch":
        import sluice.runtimes.torch as runtime
        network = runtime.ModuleNetwork(runtime.torch.nn.Conv2d(3, 2, 3), "conv", runtime.torch.device("cpu"))
        broken = Path(folder, "broken.torchscript")
        import zipfile
        with zipfile.ZipFile(broken, "w") as archive:
            archive.writestr("m/constants.pkl", b"nothing")
    else:
        network = open_network(Path(folder, "m.onnx"), "openvino")
        broken = Path(folder, "broken.xml")
        broken.write_text("<net>")
    print(len(network.run(numpy.zeros((1, 3, 32, 32), numpy.float32))), "outputs")
    try:
        open_network(broken)
    except ModelError:
        print("raised")

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("runtime", ["torch", "openvino"])
def test_inference_and_errors_in_any_import_order(tmp_path, runtime, order):
    if find_spec(runtime) is None:
        pytest.skip(f"{runtime} is not installed")
    if runtime == "openvino":
        sys.path.append(str(Path(__file__).parent.parent / "models"))
        from tiny_networks import brightness_detector

        brightness_detector(tmp_path / "m.onnx")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), order.format(runtime), runtime]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (child.returncode, child.stdout) == (0, "1 outputs\nraised\n"), child.stderr
