"""What counts as a model, and what is said of a wrong one or of a wrong result."""

from __future__ import annotations

import numpy as np
import pytest
import supervision
from array_surfaces import blank

from sluice.errors import ModelError
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.model import as_model, class_ids_of


def frames(n=2):
    return [Frame(blank("RGB", 64, 48), stream=1, number=5 + i, pts=None) for i in range(n)]


def one_box(score=0.9, class_id=0):
    return Detections([[1, 2, 30, 40]], [score], [class_id])


class Whole:
    labels = ("cat", "dog")

    def __init__(self, score: float = 0.5, twice=False):
        self.score, self.twice, self.calls = score, twice, []

    def load(self):
        self.calls.append("load")

    def warm_up(self):
        self.calls.append("warm_up")

    def close(self):
        self.calls.append("close")

    def infer(self, frames):
        return [one_box(self.score, class_id=i % 2) for i in range(len(frames))]


class Bare:
    def infer(self, frames):
        return [one_box() for _ in frames]


@pytest.mark.parametrize("candidate", [Bare, Bare(), lambda frames: [one_box() for _ in frames]])
def test_a_class_an_instance_and_a_function_are_models(candidate):
    model = as_model(candidate)
    model.load()
    model.warm_up()
    results = model.infer(frames(2))
    assert [len(result) for result in results] == [1, 1]
    model.close()
    assert model.labels == ()


def test_optional_members_are_called_once_and_on_time():
    model = as_model(Whole)
    model.infer(frames(1))
    model.load()
    model.warm_up()
    model.close()
    assert model.target.calls == ["load", "warm_up", "close"]
    assert model.labels == ("cat", "dog")


def test_options_become_the_type_of_the_parameter():
    target = as_model(Whole, {"score": "0.25", "twice": "yes"}).target
    assert (target.score, target.twice) == (0.25, True)


def test_a_label_that_no_metadata_can_hold_is_refused_when_the_model_loads():
    with pytest.raises(ModelError, match=r"label 1 of .* is 'd\\x00g'"):
        as_model(Bare, labels=["cat", "d\0g"]).load()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scor": 1}, "Whole has no option 'scor' (did you mean 'score'?); its options are: score, twice"),
        ({"score": "high"}, "option 'score' of Whole is 'high'; right is a number (float)"),
        ({"twice": "perhaps"}, "option 'twice' of Whole is 'perhaps'; right is true or false"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ModelError) as caught:
        as_model(Whole, options)
    assert message in str(caught.value)


def test_a_missing_option_is_named():
    class Needs:
        def __init__(self, path):
            self.path = path

        def infer(self, frames):
            return []

    with pytest.raises(ModelError, match="needs the option 'path'"):
        as_model(Needs)
    with pytest.raises(ModelError, match="which is no class"):
        as_model(Bare(), {"path": 1})


def test_what_is_no_model_is_refused():
    class Without:
        pass

    class Property:
        infer = 3

    class Few:
        def infer(self):
            return []

    with pytest.raises(ModelError, match=r"Without has no method infer\(self, frames\)"):
        as_model(Without)
    with pytest.raises(ModelError, match="7 cannot be a model"):
        as_model(7)
    with pytest.raises(ModelError, match="infer is a int"):
        as_model(Property())
    with pytest.raises(ModelError, match="cannot be called with the list of frames"):
        as_model(Few)


WRONG_RESULTS = {
    "returned a Detections; right is a list of 2 Detections, one per frame": one_box(),
    "returned a NoneType; right is a list": None,
    "returned a ndarray; right is a list": np.zeros((2, 6)),
    "returned a dict; right is a list": {},
    "returned 1 results for 2 frames": [one_box()],
    "returned 3 results for 2 frames": [one_box()] * 3,
    "for frame 6 of stream 1: it is a ndarray": [one_box(), np.zeros((1, 6))],
    "for frame 6 of stream 1: it is a str": [one_box(), "person"],
    "for frame 5 of stream 1: Detections.xyxy has shape [1, 6]": [Detections(np.zeros((1, 6)), [1], [1]), None],
    "for frame 6 of stream 1: Detections.scores has shape [2]": [None, Detections(np.zeros((1, 4)), [1, 1], [1])],
    "for frame 6 of stream 1: Detections.xyxy holds NaN": [None, Detections([[0, 0, np.nan, 1]], [1], [1])],
    "for frame 6 of stream 1: Detections.class_ids has dtype float32": [
        None,
        Detections([[0, 0, 1, 1]], [1], np.zeros(1, np.float32)),
    ],
    "for frame 6 of stream 1: Detections.masks has shape [1, 64, 48]; right is bool [1, 48, 64]": [
        None,
        Detections([[0, 0, 1, 1]], [1], [1], masks=np.zeros((1, 64, 48), bool)),
    ],
}


@pytest.mark.parametrize(("message", "results"), WRONG_RESULTS.items(), ids=WRONG_RESULTS)
def test_a_wrong_result_is_named_with_model_stream_and_frame(message, results):
    def guess(frames):
        return results

    with pytest.raises(ModelError) as caught:
        as_model(guess).infer(frames(2))
    assert "guess returned" in str(caught.value)
    assert message in str(caught.value)


def test_a_model_may_empty_the_list_of_frames_it_is_given():
    """What it returns is counted against what went in, not against what is left."""

    def eats(frames):
        taken = [frames.pop() for _ in list(frames)]
        return [one_box() for _ in taken[1:]]

    given = frames(2)
    with pytest.raises(ModelError, match="eats returned 1 results for 2 frames"):
        as_model(eats).infer(given)
    assert len(given) == 2


def test_other_libraries_results_are_converted():
    def mixed(frames):
        return (
            supervision.Detections(np.array([[1.0, 2, 3, 4]]), confidence=np.array([0.5]), class_id=np.array([2])),
            {"boxes": np.array([[1.0, 2, 3, 4]]), "scores": np.array([0.5]), "labels": np.array([2])},
            None,
        )

    results = as_model(mixed).infer(frames(3))
    assert [len(result) for result in results] == [1, 1, 0]
    assert results[0].class_ids.tolist() == results[1].class_ids.tolist() == [2]


def test_boxes_outside_the_frame_are_kept_for_the_writer_to_clip():
    results = as_model(lambda frames: [Detections([[-5, -5, 500, 500]], [1], [0])]).infer(frames(1))
    assert results[0].xyxy.tolist() == [[-5, -5, 500, 500]]


def test_filters_apply_to_any_model():
    model = as_model(Whole, classes=["dog"], confidence=0.4)
    assert [len(result) for result in model.infer(frames(2))] == [0, 1]
    assert [len(result) for result in as_model(Whole, confidence=0.6).infer(frames(2))] == [0, 0]


def test_a_class_that_does_not_exist_is_named_with_the_nearest():
    with pytest.raises(ModelError, match=r"Whole has no class 'dgo'; did you mean 'dog'\? \(its classes: cat, dog\)"):
        as_model(Whole, classes=["dgo"]).load()
    assert class_ids_of(["dog", 0, "7", np.int64(9)], ("cat", "dog")) == {0, 1, 7, 9}
    for beyond in (10**11, str(10**11), 1.5):
        with pytest.raises(ModelError, match=f"has no class {beyond!r}"):
            class_ids_of([beyond], ("cat", "dog"))


def test_a_model_without_a_class_that_is_asked_for_never_runs_without_the_filter():
    model = as_model(Whole, classes=["dgo"])
    for _ in range(2):
        with pytest.raises(ModelError, match="has no class 'dgo'"):
            model.infer(frames(1))
    model.close()
    assert model.target.calls == ["load", "close", "load", "close"]


def test_labels_given_stand_in_place_of_the_models_own():
    assert as_model(Whole, labels=["a", "b"]).labels == ("a", "b")


def test_an_exception_of_the_model_passes_through():
    def fails(frames):
        raise RuntimeError("seven")

    with pytest.raises(RuntimeError, match="seven"):
        as_model(fails).infer(frames(1))


class Begins(Bare):
    """Begins calls that nothing is wrong with but one step."""

    valid = False

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong

    def begin(self, frames):
        self.frames = frames
        return self

    def step(self, name):
        if name == self.wrong:
            raise RuntimeError(f"the card is gone in {name}")

    def ready(self):
        self.step("ready")
        return True

    def notify(self, wake):
        self.step("notify")
        wake()
        return True

    def finish(self):
        self.step("finish")
        return self.infer(self.frames)


def test_a_begun_call_is_ready_notifies_and_has_the_results():
    begun, woken = as_model(Begins()).begin(frames(2)), []
    assert begun.notify(lambda: woken.append(True))
    assert (begun.ready(), woken, [len(result) for result in begun.finish()]) == (True, [True], [1, 1])


@pytest.mark.parametrize("wrong", ["ready", "notify", "finish"])
def test_what_a_begun_call_raises_is_raised_by_finish_and_never_where_it_is_asked(wrong):
    """The thread that asks makes the calls of other elements too."""
    begun = as_model(Begins(wrong)).begin(frames(1))
    assert begun.notify(lambda: None) == (wrong != "notify")
    assert begun.ready()
    with pytest.raises(RuntimeError, match=f"the card is gone in {wrong}"):
        begun.finish()


@pytest.mark.parametrize("labels", [5, "person", b"car", {"person": 0}, {"0": "person"}, {-1: "none"}, {10**9: "far"}])
def test_labels_that_are_no_names_are_refused_by_the_models_name(labels):
    class Odd:
        def infer(self, frames):
            return [None for _ in frames]

    Odd.labels = labels
    with pytest.raises(ModelError, match=r"labels of .*Odd is .*right is (a sequence|one from class ids)"):
        as_model(Odd).load()
