"""sluiceindex: which embeddings are kept, with what, how often; and that the stream does not mind."""

import numpy as np
import pytest

from elements.batch_feed import Feed, Given, Gst, make_buffer
from sluice import elements
from sluice.contract import infer_meta
from sluice.contract.metadata import BatchMeta, Lease
from sluice.search import Archive
from waiting import until

BOX = [10.0, 5.0, 20.0, 10.0, 0.9]


@pytest.fixture
def folder(tmp_path):
    elements.register("sluiceindex")
    return tmp_path / "archive"


def vector(number, size=8):
    made = np.zeros(size, np.float32)
    made[number % size] = number + 1
    return made


def batch(seconds, ids=(), stream=0, whole=None, unique_id=4, **more):
    """A batch of one frame whose objects have these ids (None: untracked) and each an embedding of its id."""
    given = Given([BOX] * len(ids), stream=stream, number=int(seconds * 10), pts=round(seconds * Gst.SECOND), **more)
    buffer = make_buffer([given])
    with Lease() as lease:
        frame = BatchMeta.of(buffer, lease).frames[0]
        for obj, identity in zip(frame.objects[::-1], ids, strict=True):
            if identity is not None:
                obj.object_id = identity
            infer_meta.attach_embeddings(obj, vector(identity or 7), unique_id=unique_id)
        if whole is not None:
            infer_meta.attach_embeddings(frame, whole, unique_id=unique_id)
    return buffer


def counted(feed):
    stats = feed.get("i").get_property("stats")
    return {name: stats.get_uint64(name)[1] for name in ("entries", "written", "dropped", "refused", "expired")}


def play(folder, buffers, options="", one_by_one=False):
    with Feed(f"sluiceindex name=i location={folder} {options}") as feed:
        while buffers:
            feed.give([buffers.pop(0)])
            assert feed.pull() is not None, feed.error()
            if one_by_one:
                until(lambda: (found := counted(feed))["written"] + found["refused"] == found["entries"])
        warning = feed.message(Gst.MessageType.WARNING, 0)
        feed.pipeline.set_state(Gst.State.NULL)
        return counted(feed), warning


def kept(folder):
    with Archive(folder) as archive:
        entries = [hit.entry for hit in archive.search(np.ones(8), 1000)]
    return sorted((entry.stream, entry.frame, -1 if entry.object_id is None else entry.object_id) for entry in entries)


def test_each_track_is_kept_once_in_a_while(folder) -> None:
    counts, _ = play(folder, [batch(at, (1, 2) if at < 0.5 else (2,)) for at in (0, 0.4, 0.9, 1.0, 1.5, 2.5)])
    assert kept(folder) == [(0, 0, 1), (0, 0, 2), (0, 10, 2), (0, 25, 2)]
    assert counts == {"entries": 4, "written": 4, "dropped": 0, "refused": 0, "expired": 0}


def test_what_is_kept_of_an_object_and_of_a_frame(folder) -> None:
    play(folder, [batch(1, (5,), stream=3, whole=vector(2), ntp=1_700_000_000_000_000_000)], "names=3=gate")
    with Archive(folder) as archive:
        thing = archive.search(vector(5), 1)[0].entry
        frame = archive.search(vector(2), 1)[0].entry
    assert (thing.stream, thing.name, thing.frame, thing.pts) == (3, "gate", 10, Gst.SECOND)
    assert (thing.object_id, thing.label, thing.box, thing.component) == (5, "person", (10.0, 5.0, 20.0, 10.0), 4)
    assert (frame.object_id, frame.label, frame.box, frame.utc) == (None, "", None, 1_700_000_000_000_000_000)


def test_untracked_objects_of_a_frame_are_kept_together(folder) -> None:
    play(folder, [batch(at, (None, None)) for at in (0, 0.5, 1)])
    assert kept(folder) == [(0, 0, -1)] * 2 + [(0, 10, -1)] * 2


def test_all_of_them_and_a_stream_that_jumps_back(folder) -> None:
    play(folder, [batch(at, (1,)) for at in (0, 0.1, 0.2)], "every=0")
    assert len(kept(folder)) == 3
    play(folder, [batch(at, (1,)) for at in (5, 1)], "every=1")
    assert len(kept(folder)) == 5


def test_only_of_one_component(folder) -> None:
    play(folder, [batch(0, (1,), unique_id=4), batch(1, (2,), unique_id=5)], "component-id=5")
    assert kept(folder) == [(0, 10, 2)]


def test_vectors_of_another_model_are_refused_with_a_warning(folder) -> None:
    play(folder, [batch(0, (1,))])
    buffer = batch(1, ())
    with Lease() as lease:
        infer_meta.attach_embeddings(BatchMeta.of(buffer, lease).frames[0], np.ones(5, np.float32), unique_id=4)
    buffers = [buffer, batch(2, (2,)), batch(3, (3,))]
    del buffer
    counts, warning = play(folder, buffers, one_by_one=True)
    assert (counts["written"], counts["refused"]) == (2, 1)
    assert "another length" in warning.parse_warning()[0].message


def test_frames_without_embeddings_leave_nothing(folder) -> None:
    counts, _ = play(folder, [make_buffer([Given([BOX], pts=0), Given([], stream=1, pts=0)])])
    assert counts["entries"] == 0
    with Archive(folder) as archive:
        assert archive.search(np.ones(8)) == []


def test_refusals(tmp_path) -> None:
    elements.register("sluiceindex")
    (tmp_path / "file").write_text("")
    for options, text in (("", "location is not set"), (f"location={tmp_path}/file/x", "cannot be opened"),
                          (f"location={tmp_path} names=gate", "right is NUMBER=NAME")):  # fmt: skip
        assert text in Feed(f"sluiceindex {options}").refusal().message
