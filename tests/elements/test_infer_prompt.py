"""The prompt of an open-vocabulary model as a property of sluiceinfer, before and while the stream runs."""

import time

import pytest

from elements.batch_feed import Feed, Given, Gst, objects
from sluice.contract import bulk
from sluice.contract.metadata import BatchMeta, Lease
from sluice.elements import register

MODEL = """
import threading, time
from sluice import Detections

ENCODED, GATE, THREADS = [], threading.Event(), set()
GATE.set()

class Finds:
    def __init__(self, own: str = ""):
        self.labels = tuple(own.split()) if own else ()
    def encode_prompt(self, labels):
        ENCODED.append(labels)
        THREADS.add(threading.get_ident())
        GATE.wait()
        if "raise" in labels:
            raise ValueError("no such word")
        return [len(label) for label in labels]
    def use_prompt(self, labels, encoded):
        if "late" in labels:
            self.labels = ("half",)
            raise RuntimeError("cannot be used")
        assert encoded == [len(label) for label in labels]
        self.labels = tuple(labels)
    def infer(self, frames):
        number = len(self.labels)
        boxes = [[2, 2, 10 + 2 * i, 10] for i in range(number)]
        return [Detections(boxes, [0.9] * number, list(range(number))) for _ in frames]

class Fixed:
    labels = ("cat",)
    def infer(self, frames):
        return [None for _ in frames]
"""


@pytest.fixture
def model(tmp_path):
    register("sluiceinfer")
    path = tmp_path / "open_words.py"
    path.write_text(MODEL)
    return path


def labels(buffer):
    with Lease() as lease:
        return list(bulk.read_objects(BatchMeta.of(buffer, lease).frames[0]).labels)[::-1]


def prompt_told(feed, warnings=None, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        message = feed.message(Gst.MessageType.ELEMENT | Gst.MessageType.WARNING, 1)
        if message is not None and message.type == Gst.MessageType.WARNING and warnings is not None:
            warnings.append(message.parse_warning()[0].message)
        elif message is not None and message.has_name("prompt-updated"):
            structure = message.get_structure()
            return structure.get_value("status"), structure.get_string("prompt"), structure.get_string("reason")
    raise AssertionError("nothing was told")


def push(feed):
    return labels(feed.push(Given([])))


def test_from_the_start_and_changed_between_batches(model) -> None:
    with Feed(f'sluiceinfer name=i model={model}:Finds prompt="red truck; person"') as feed:
        element = feed.get("i")
        assert push(feed) == ["red truck", "person"]
        module = __import__("sys").modules[type(element._slot._current.wait_loaded().target).__module__]
        module.GATE.clear()
        element.set_property("prompt", "bicycle")
        while len(module.ENCODED) < 2:
            time.sleep(0.005)
        assert push(feed) == ["red truck", "person"]  # while it is encoded
        assert element.get_property("prompt") == "red truck; person"
        module.GATE.set()
        assert prompt_told(feed) == (0, "bicycle", "")
        assert push(feed) == ["bicycle"]
        assert element.get_property("prompt") == "bicycle"
        assert len(module.THREADS) == 2


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ("raise", "ValueError: no such word"),
        ("late", "RuntimeError: cannot be used"),
        ("", "names nothing"),
        ("a;b;a", "names 'a' twice"),
        ("x" * 501, "at most 500 characters"),
    ],
)
def test_a_prompt_that_fails_changes_nothing(model, wrong, text) -> None:
    with Feed(f"sluiceinfer name=i model={model}:Finds prompt=person") as feed:
        push(feed)
        warnings = []
        feed.get("i").set_property("prompt", wrong)
        status, _, reason = prompt_told(feed, warnings)
        assert (status, text in reason) == (1, True)
        assert any("goes on as before" in warning for warning in warnings)
        assert push(feed) == ["person"]
        assert feed.get("i").get_property("prompt") == "person"
        assert feed.error() is None


def test_of_many_changes_the_last_counts(model) -> None:
    with Feed(f"sluiceinfer name=i model={model}:Finds prompt=a") as feed:
        for number in range(20):
            feed.get("i").set_property("prompt", f"b{number}")
        found = None
        deadline = time.monotonic() + 10
        while found != ["b19"] and time.monotonic() < deadline:
            found = push(feed)
        assert found == ["b19"]


def test_another_model_takes_over_the_prompt(model) -> None:
    with Feed(f"sluiceinfer name=i model={model}:Finds prompt=a") as feed:
        push(feed)
        feed.get("i").set_property("prompt", "b;c")
        assert prompt_told(feed)[0] == 0
        feed.get("i").set_property("model", f"{model.parent}/./open_words.py:Finds")
        deadline = time.monotonic() + 10
        while feed.get("i").get_property("model").count("/./") == 0 and time.monotonic() < deadline:
            assert push(feed) == ["b", "c"]
        assert push(feed) == ["b", "c"]


def test_classes_are_looked_up_among_the_new_labels(model) -> None:
    with Feed(f"sluiceinfer name=i model={model}:Finds prompt=a;b classes=b") as feed:
        assert push(feed) == ["b"]
        feed.get("i").set_property("prompt", "b;c")
        assert prompt_told(feed)[0] == 0
        assert objects(feed.push(Given([]))).class_id.tolist() == [0]
        feed.get("i").set_property("prompt", "c;d")
        assert prompt_told(feed)[0] == 1
        assert push(feed) == ["b"]


def test_a_model_of_its_own_classes_only(model) -> None:
    assert "takes no prompt" in Feed(f"sluiceinfer name=i model={model}:Fixed prompt=person").refusal().message
    with Feed(f"sluiceinfer name=i model={model}:Fixed") as running:
        push(running)
        running.get("i").set_property("prompt", "person")
        assert "takes no prompt" in prompt_told(running)[2]
        assert push(running) == []
