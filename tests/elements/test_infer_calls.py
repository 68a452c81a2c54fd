"""Calls of the model: how batches are cut, whom an exception is blamed on, and who keeps its detections."""

from types import SimpleNamespace

import pytest

from sluice.elements.infer_calls import call_model
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
