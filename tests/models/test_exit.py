"""How a process ends while a model's call is still being made."""

import subprocess
import sys
from pathlib import Path

import pytest

CALLS = {
    # What a network does: C++ code without the GIL, which takes it again when it is done.
    "C++": "network.run(array)",
    "Python": "time.sleep(0.5)",
}
PROGRAM = """
import sys, threading, time
from pathlib import Path
import numpy as np
import onnxruntime
from sluice.models.instance import ModelDefinition, ModelInstance
from sluice.runtimes.onnxruntime import OnnxRuntimeNetwork

begun = threading.Event()


class Model:
    def load(self): pass
    warm_up = close = load


def call(model):
    network = OnnxRuntimeNetwork(Path(sys.argv[1]), threads=1)
    array = np.zeros((1, 3, 416, 416), np.float32)
    while True:
        begun.set()
        {call}
        if time.monotonic() > end:
            return


end = time.monotonic() + 1.0
instance = ModelInstance(ModelDefinition("m"), lambda _: Model())
instance.wait_loaded()
instance.submit(call)
begun.wait(10)
{stop}
print("ended", flush=True)
sys.exit(3)
"""


#: A network called without an element, whose second thread still works when the call has failed on the first.
DIRECT = """
import sys, time
from sluice.models.network import NetworkModel
from sluice.models.parallel import Workers
sys.path.insert(0, sys.argv[2])
from array_surfaces import noise
from sluice.models.frame import Frame

model = NetworkModel(sys.argv[1])
model.load()
workers = Workers(2)
frame = Frame(noise("RGB", 416, 416), stream=0, number=0, pts=None)


def call(thread, items):
    while True:
        model._run(model._inputs[thread % len(model._inputs)].preprocessor.input)
        if time.monotonic() > end:
            return items


end = time.monotonic() + 1.0
workers.begin(call, [frame, frame, frame, frame])
time.sleep(0.2)
print("ended", flush=True)
sys.exit(3)
"""


def test_a_process_ends_with_its_own_status_while_threads_of_a_network_work(data):
    arguments = [str(data / "models" / "yolox_nano_416x416.onnx"), str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, "-c", DIRECT, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (3, "ended\n"), done.stderr
    assert "terminate called" not in done.stderr


@pytest.mark.parametrize("call", sorted(CALLS))
@pytest.mark.parametrize("stop", ["instance.close(0)", ""], ids=["abandoned", "not stopped"])
def test_a_process_ends_with_its_own_status_while_a_call_is_made(data, call, stop):
    network = data / "models" / "yolox_nano_416x416.onnx"
    program = PROGRAM.format(call=CALLS[call], stop=stop)
    done = subprocess.run(
        [sys.executable, "-c", program, str(network)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (3, "ended\n"), done.stderr
    assert "terminate called" not in done.stderr
