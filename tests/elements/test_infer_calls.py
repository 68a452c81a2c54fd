"""Calls of the model: how batches are cut, whom an exception is blamed on, and who keeps its detections."""

from types import SimpleNamespace

import pytest

from sluice.elements.infer_calls import BegunCall, call_model
from sluice.elements.infer_properties import PROPERTIES, Settings
from sluice.elements.infer_state import Stats
from sluice.errors import ModelError


class FakeBatch:
    """Frames of so many streams, all with the number 3."""

    def __init__(self, streams: int) -> None:
        self.frames = [SimpleNamespace(stream=i, number=3) for i in range(streams)]
        self.released = False

    def __len__(self) -> int:
        return len(self.frames)

    def release(self) -> None:
        self.released = True


class FakeModel:
    """Finds each frame's stream; raises what ``fails`` returns for the frames, if anything."""

    labels = ("some", "thing")

    def __init__(self, fails=lambda frames: None) -> None:
        self.fails = fails
        self.calls = []

    def infer(self, frames):
        self.calls.append([frame.stream for frame in frames])
        if (error := self.fails(frames)) is not None:
            raise error
        return [f"stream {frame.stream}" for frame in frames]


def call(model, streams, batch_size=0):
    values = {entry.name: entry.default for entry in PROPERTIES} | {"model": "m", "batch-size": batch_size}
    batch, stats = FakeBatch(streams), Stats()
    results = call_model(model, batch, Settings.from_values(values), stats)
    assert batch.released
    assert len(results) == streams
    return results


@pytest.mark.parametrize(
    ("batch_size", "calls"),
    [(0, [[0, 1, 2, 3, 4]]), (8, [[0, 1, 2, 3, 4]]), (2, [[0, 1], [2, 3], [4]]), (1, [[0], [1], [2], [3], [4]])],
)
def test_batch_size_is_the_most_frames_of_a_call(batch_size, calls):
    model = FakeModel()
    assert call(model, 5, batch_size).found == [f"stream {i}" for i in range(5)]
    assert model.calls == calls


def test_the_frame_to_blame_is_found_and_the_others_keep_their_results():
    model = FakeModel(lambda frames: ValueError("no") if any(f.stream == 1 for f in frames) else None)
    results = call(model, 3)
    assert results.found == ["stream 0", None, "stream 2"]
    assert results.lost == 1
    assert isinstance(results.error, ValueError)
    assert (results.error.stream, results.error.frame) == (1, 3)
    assert model.calls == [[0, 1, 2], [0], [1], [2]]


def test_only_the_call_that_failed_is_repeated():
    model = FakeModel(lambda frames: ValueError("no") if any(f.stream == 3 for f in frames) else None)
    assert call(model, 4, 2).found == ["stream 0", "stream 1", "stream 2", None]
    assert model.calls == [[0, 1], [2, 3], [2], [3]]


def test_the_first_of_several_errors_is_told():
    results = call(FakeModel(lambda frames: ValueError(frames[0].stream)), 3)
    assert results.found == [None] * 3
    assert (results.error.stream, str(results.error)) == (0, "0")


def test_an_error_of_the_call_as_a_whole_names_all_its_frames():
    results = call(FakeModel(lambda frames: ValueError("too many") if len(frames) > 1 else None), 2)
    assert results.found == ["stream 0", "stream 1"]
    assert isinstance(results.error, ModelError)
    assert "ValueError: too many" in str(results.error)
    assert "stream 0 frame 3, stream 1 frame 3" in str(results.error)
    assert isinstance(results.error.__cause__, ValueError)


def test_a_call_that_failed_does_not_count_as_model_time():
    stats = Stats()
    values = {entry.name: entry.default for entry in PROPERTIES} | {"model": "m"}
    call_model(FakeModel(lambda _: ValueError()), FakeBatch(1), Settings.from_values(values), stats)
    assert stats.snapshot().model_ms_max == 0


class BegunFrames:
    """What a model returns that has only begun."""

    def __init__(self, found):
        self.found = found

    def ready(self):
        return True

    def finish(self):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


class BeginningModel(FakeModel):
    """Begins calls; `outcome` is what the begun call gives, or an exception that beginning raises at once."""

    def __init__(self, outcome, at_once=False):
        super().__init__()
        self.outcome, self.at_once = outcome, at_once

    def begin(self, frames):
        if self.at_once:
            raise self.outcome
        return None if self.outcome is None else BegunFrames(self.outcome)


def begin(model, streams=2, batch_size=0):
    values = {entry.name: entry.default for entry in PROPERTIES} | {"model": "m", "batch-size": batch_size}
    batch = FakeBatch(streams)
    return call_model(model, batch, Settings.from_values(values), Stats()), batch


def test_a_begun_call_keeps_its_pixels_until_it_is_finished():
    unfinished, batch = begin(BeginningModel(["a", "b"]))
    assert isinstance(unfinished, BegunCall)
    assert not batch.released
    assert unfinished.finish().found == ["a", "b"]
    assert batch.released


def test_a_begun_call_that_fails_is_repeated_frame_by_frame():
    model = BeginningModel(ValueError("out of memory"))
    unfinished, batch = begin(model)
    results = unfinished.finish()
    assert results.found == ["stream 0", "stream 1"]
    assert model.calls == [[0], [1]]
    assert "out of memory" in str(results.error)
    assert batch.released


@pytest.mark.parametrize("model", [BeginningModel(None), BeginningModel(ValueError("refused"), at_once=True)])
def test_what_cannot_be_begun_is_called(model):
    results, batch = begin(model)
    assert results.found == ["stream 0", "stream 1"]
    assert batch.released


def test_a_batch_that_takes_several_calls_is_not_begun():
    results, _ = begin(BeginningModel(["never"]), streams=3, batch_size=2)
    assert results.found == ["stream 0", "stream 1", "stream 2"]
