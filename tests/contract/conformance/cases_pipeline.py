"""Metadata on buffers that run through a pipeline: two writers at once, copies, and an empty ledger at the end."""

import ctypes
import gc
import sys
import threading

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract.bulk import FRAME_ROW, LabelTable, fill_frames, read_objects, write_objects
from sluice.contract.metadata import BatchMeta, Lease
from sluice.contract.provider import provider
from sluice.contract.user_meta import attach_object, attach_text, payload

BUFFERS = 100_000
FRAME = np.zeros(1, FRAME_ROW)
LABELS = LabelTable(["one", "two"])
BOXES, SCORES, CLASSES = np.ones((2, 4), np.float32), np.ones(2, np.float32), np.array([0, 1], np.int32)


@pytest.fixture(autouse=True)
def short_switch_interval():
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    yield
    sys.setswitchinterval(before)


def probe(pipeline: Gst.Pipeline, name: str, pad: str, function) -> None:
    """Call a function with every buffer on a pad; an exception stops the pipeline as an error."""

    def call(_pad, info):
        try:
            function(info.get_buffer())
        except Exception as error:
            pipeline.failure = error
            structure = Gst.Structure.new_empty("failed")
            pipeline.post(Gst.Message.new_application(pipeline, structure))
        return Gst.PadProbeReturn.OK

    pipeline.get_by_name(name).get_static_pad(pad).add_probe(Gst.PadProbeType.BUFFER, call)


def play(pipeline: Gst.Pipeline, seconds: int = 240) -> None:
    """Play to the end of the stream, or raise what went wrong."""
    pipeline.failure = None
    pipeline.set_state(Gst.State.PLAYING)
    kinds = Gst.MessageType.EOS | Gst.MessageType.ERROR | Gst.MessageType.APPLICATION
    message = pipeline.get_bus().timed_pop_filtered(seconds * Gst.SECOND, kinds)
    pipeline.set_state(Gst.State.NULL)
    if pipeline.failure is not None:
        raise pipeline.failure
    assert message is not None, "the pipeline did not end: a deadlock"
    assert message.type == Gst.MessageType.EOS, message.parse_error()


def new_batch(buffer: Gst.Buffer) -> None:
    """Attach a batch of one frame; its text tells the ledger, on either provider, that the batch is alive."""
    with Lease() as lease:
        batch = BatchMeta.attach(buffer, 1, lease)
        fill_frames(batch, FRAME)
        attach_text(batch, 9000, "text")


@pytest.mark.timeout(280)
def test_two_writers_on_two_branches_of_a_tee(ledger):
    """One writes in bulk; the other takes the lock with the GIL held, as bindings written in C++ do.

    Nothing is left of the 100,000 batches at the end.
    """
    owner = provider()
    holding = {}
    for symbol, count, result in (
        ("nvds_acquire_meta_lock", 1, None),
        ("nvds_release_meta_lock", 1, None),
        ("nvds_acquire_obj_meta_from_pool", 1, ctypes.c_void_p),
        ("nvds_add_obj_meta_to_frame", 3, None),
    ):
        function = getattr(ctypes.PyDLL(owner.path), owner._prefix + symbol)
        function.restype, function.argtypes = result, [ctypes.c_void_p] * count
        holding[symbol] = function

    def write_in_bulk(buffer):
        with Lease() as lease:
            write_objects(BatchMeta.of(buffer, lease).frames[0], BOXES, SCORES, CLASSES, LABELS, unique_id=1)

    def write_with_the_gil(buffer):
        with Lease() as lease:
            batch = BatchMeta.of(buffer, lease)
            frame = batch.frames[0]
            holding["nvds_acquire_meta_lock"](batch.address)
            obj = holding["nvds_acquire_obj_meta_from_pool"](batch.address)
            holding["nvds_add_obj_meta_to_frame"](frame.address, obj, None)
            holding["nvds_release_meta_lock"](batch.address)

    before = ledger()
    pipeline = Gst.parse_launch(
        f"fakesrc num-buffers={BUFFERS} name=source ! tee name=t "
        "t. ! queue ! fakesink name=bulk async=false t. ! queue ! fakesink name=single async=false"
    )
    probe(pipeline, "source", "src", new_batch)
    probe(pipeline, "bulk", "sink", write_in_bulk)
    probe(pipeline, "single", "sink", write_with_the_gil)
    play(pipeline)
    del pipeline
    assert ledger() == before


def test_every_element_in_a_pool_is_on_its_frame(ledger, pools):
    before = ledger()
    seen = []

    def fill(buffer):
        new_batch(buffer)
        with Lease() as lease:
            write_objects(BatchMeta.of(buffer, lease).frames[0], BOXES, SCORES, CLASSES, LABELS, unique_id=1)

    def look(buffer):
        with Lease() as lease:
            batch = BatchMeta.of(buffer, lease)
            counts = pools(batch)
            used = {name: counts[f"{name}_meta_pool"][2] for name in ("frame", "obj", "user")}
            seen.append((batch.frames[0].num_objects, used))

    pipeline = Gst.parse_launch("fakesrc num-buffers=1000 name=source ! queue ! fakesink name=sink")
    probe(pipeline, "source", "src", fill)
    probe(pipeline, "sink", "sink", look)
    play(pipeline)
    del pipeline
    assert seen == [(2, {"frame": 1, "obj": 2, "user": 1})] * 1000
    assert ledger() == before


def test_metadata_survives_tee_queue_and_make_writable(ledger):
    """One branch of the tee reads the shared batch, the other makes its buffer writable, which copies it."""
    before = ledger()
    found = {"shared": [], "copied": []}

    def fill(buffer):
        new_batch(buffer)
        with Lease() as lease:
            batch = BatchMeta.of(buffer, lease)
            write_objects(batch.frames[0], BOXES, SCORES, CLASSES, LABELS, unique_id=1)
            attach_object(batch.frames[0], 9000, ["an object"])

    def look(name, copy):
        def see(buffer):
            if copy:
                address = gstref.make_writable(gstref.steal(buffer))
                assert address != gstref.address(buffer)
                buffer = gstref.wrap(address)
                gstref.unref(address)
            with Lease() as lease:
                frame = BatchMeta.of(buffer, lease).frames[0]
                found[name].append((read_objects(frame).labels, payload(frame.user_metas[0])))

        return see

    pipeline = Gst.parse_launch(
        "fakesrc num-buffers=200 name=source ! tee name=t "
        "t. ! queue ! fakesink name=shared async=false t. ! queue ! fakesink name=copied async=false"
    )
    probe(pipeline, "source", "src", fill)
    probe(pipeline, "shared", "sink", look("shared", copy=False))
    probe(pipeline, "copied", "sink", look("copied", copy=True))
    play(pipeline)
    del pipeline
    assert found["shared"] == [(["two", "one"], ["an object"])] * 200
    assert found["copied"] == [(["one", "two"], ["an object"])] * 200, "a copy's list is reversed"
    assert ledger() == before


def test_a_buffer_freed_on_another_thread_lets_its_objects_go(ledger):
    before = ledger()
    buffer = Gst.Buffer.new()
    new_batch(buffer)
    with Lease() as lease:
        attach_object(BatchMeta.of(buffer, lease), 9000, bytearray(8))
    address = gstref.steal(buffer)
    del buffer
    thread = threading.Thread(target=gstref.unref, args=(address,))
    thread.start()
    thread.join()
    gc.collect()
    assert ledger() == before
