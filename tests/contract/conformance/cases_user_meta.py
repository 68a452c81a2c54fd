"""Payloads of user metas: what comes back, from copies too, and that nothing is left when the buffers are gone."""

import gc
import threading
import weakref

import numpy as np
import pytest

from sluice.contract import user_meta
from sluice.contract._native import library
from sluice.contract.metadata import BatchMeta, Lease, UserMeta
from sluice.contract.provider import provider
from sluice.contract.user_meta import attach_bytes, attach_json, attach_object, attach_text, find, payload, payload_json
from sluice.errors import ContractError, StaleBufferError

ARRAYS = {"": b"", "bytes": bytes(range(256)) * 100, "nul": b"a\0b"}


class Thing:
    """A Python object that can be watched."""


@pytest.fixture
def owners(batch, frame):
    return batch, frame, frame.add_object()


def test_what_was_put_in_comes_out(owners):
    thing = Thing()
    for owner in owners:
        assert payload(attach_text(owner, "SLUICE.TEXT", "größe")) == "größe"
        assert payload_json(attach_json(owner, 9001, {"a": [1, 2.5, None, "é"]})) == {"a": [1, 2.5, None, "é"]}
        for data in ARRAYS.values():
            assert payload(attach_bytes(owner, 9002, data)) == data
        assert payload(attach_object(owner, 9003, thing)) is thing
        assert [payload(user) for user in find(owner, "SLUICE.TEXT")] == ["größe"]
        assert len(find(owner, 9002)) == 3
        assert find(owner, 9004) == []


def test_half_a_surrogate_pair_is_a_question_mark(frame):
    assert payload(attach_text(frame, 9000, "a\ud83d")) == "a?"
    assert payload_json(attach_json(frame, 9001, ["\ud83d"])) == ["?"]


def test_what_is_nested_too_deeply_is_refused(frame):
    value = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ContractError, match="as JSON"):
        attach_json(frame, 9000, value)


def test_copies_have_the_payloads(buffer, owners, copied):
    thing = Thing()
    for owner in owners:
        attach_text(owner, 9000, "text")
        attach_bytes(owner, 9001, b"bytes")
        attach_object(owner, 9002, thing)
    copy = BatchMeta.of(copied(copied(buffer)))
    for owner in (copy, copy.frames[0], copy.frames[0].objects[0]):
        assert [payload(find(owner, kind)[0]) for kind in (9000, 9001, 9002)] == ["text", b"bytes", thing]
    assert find(copy, 9000)[0].data != find(owners[0], 9000)[0].data, "a copied text is a text of its own"


def test_python_objects_are_let_go_in_one_entry_with_the_last_copy(copied):
    before = library().sluice_python_drains()
    payloads = library().sluice_live_payloads()
    import gi

    gi.require_version("Gst", "1.0")
    from gi.repository import Gst

    buffer = Gst.Buffer.new()
    with Lease() as lease:
        batch = BatchMeta.attach(buffer, 1, lease)
        things = [Thing() for _ in range(20)]
        watched = [weakref.ref(thing) for thing in things]
        for thing in things:
            attach_object(batch, 9000, thing)
    copy = copied(buffer)
    with Lease() as lease:
        late = Thing()
        watched.append(weakref.ref(late))
        attach_object(BatchMeta.of(copy, lease), 9000, late)
        late_batch = BatchMeta.of(buffer, lease)
        user_meta.remove(late_batch, find(late_batch, 9000)[0])
    del things, thing, late, late_batch, batch, buffer
    gc.collect()
    assert all(watch() is not None for watch in watched)
    assert library().sluice_python_drains() == before
    assert library().sluice_live_payloads() == payloads + 21
    free = threading.Thread(target=lambda held: held.clear(), args=([copy],))
    del copy
    free.start()
    free.join()
    del free
    gc.collect()
    assert [watch() for watch in watched] == [None] * 21
    assert library().sluice_python_drains() == before + 1
    assert library().sluice_live_payloads() == payloads


def test_an_exception_survives_the_end_of_a_buffer_whose_objects_go_while_it_unwinds(copied):
    import gi

    gi.require_version("Gst", "1.0")
    from gi.repository import Gst

    def buffer_with_an_object():
        buffer = Gst.Buffer.new()
        with Lease() as lease:
            attach_object(BatchMeta.attach(buffer, 1, lease), 9000, Thing())
        return buffer

    with pytest.raises(TypeError, match="Buffer"):
        int(buffer_with_an_object())


def test_all_kinds_are_gone_with_the_buffer(copied, ledger):
    import gi

    gi.require_version("Gst", "1.0")
    from gi.repository import Gst

    before = ledger()
    for _ in range(50):
        buffer = Gst.Buffer.new()
        with Lease() as lease:
            batch = BatchMeta.attach(buffer, 1, lease)
            for i in range(10):
                attach_text(batch, 9000 + i, "text")
                attach_bytes(batch, 9000 + i, b"bytes")
                attach_object(batch, 9000 + i, np.zeros(3))
        copies = [copied(buffer) for _ in range(3)]
        del copies
    del buffer, batch
    assert ledger() == before


@pytest.mark.parametrize(
    ("attach", "value", "message"),
    [
        (attach_text, "a\0b", "contains a NUL character"),
        (attach_json, {1, 2}, "cannot be written as JSON"),
        (attach_json, float("nan"), "cannot be written as JSON"),
    ],
)
def test_what_cannot_be_stored_is_refused(frame, attach, value, message):
    with pytest.raises(ContractError, match=message):
        attach(frame, 9000, value)
    assert frame.user_metas == []


def test_a_wrong_owner_is_refused(frame):
    label = frame.add_object().add_classifier(1)
    with pytest.raises(TypeError, match="not to a ClassifierMeta"):
        attach_text(label, 9000, "x")


def test_somebody_elses_data_is_not_read(frame):
    user = UserMeta(provider().acquire_user(frame.batch.address), frame.lease, provider())
    user.copy_func = user.release_func = 0
    user.data = 0x10
    provider().add_user_to_frame(frame.address, user.address)
    assert user_meta.kind_of(user) is None
    with pytest.raises(ContractError, match="is not one of Sluice's"):
        payload(user)


def test_json_is_told_from_other_texts(frame):
    with pytest.raises(ContractError, match="carries no JSON"):
        payload_json(attach_text(frame, 9000, "{"))
    with pytest.raises(ContractError, match="carries bytes, not a JSON text"):
        payload_json(attach_bytes(frame, 9000, b"{}"))


def test_removing(owners, ledger):
    before = ledger()
    for owner in owners:
        first, second = attach_text(owner, 9000, "first"), attach_text(owner, 9001, "second")
        user_meta.remove(owner, first)
        assert owner.user_metas == [second]
        with pytest.raises(ContractError, match="is not on"):
            user_meta.remove(owner, first)
        user_meta.remove(owner, second)
    assert ledger() == before


def test_an_ended_lease(frame):
    user = attach_text(frame, 9000, "x")
    frame.lease.end()
    with pytest.raises(StaleBufferError):
        payload(user)
    with pytest.raises(StaleBufferError):
        attach_text(frame, 9000, "x")
