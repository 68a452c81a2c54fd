"""The engine on a real GPU: graphs, batches in flight, and memory that is let go behind the stream."""

from __future__ import annotations

import time

import gi
import numpy as np
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst

torch = pytest.importorskip("torch", reason="the GPU path needs torch")
pytest.importorskip("triton", reason="the GPU path needs triton")

from array_surfaces import noise
from device_surfaces import DeviceSurface
from processor_torch import ProcessorTorch
from seeing_models import Boxes, Masked

from sluice.contract import counters, gstref
from sluice.contract.dlpack import Hold, PlaneTensor
from sluice.contract.surface import SurfaceError
from sluice.models.decoders import DECODERS
from sluice.models.gpu import engine as engine_module
from sluice.models.gpu import masks
from sluice.models.gpu.engine import Engine
from sluice.models.gpu.heads import Choice, chooser_for, end_to_end
from sluice.models.gpu.network import kept_tensors
from sluice.models.gpu.preprocess import letterbox, new_input
from sluice.models.gpu.table import ROW, TableWriter
from sluice.models.postprocess import to_detections
from sluice.models.preprocess import Preprocessing
from sluice.runtimes.base import NetworkInfo, TensorInfo

SPEC = Preprocessing(64, 48)
CHOICE = Choice(64, 48, 0.0, 0.5, False, most=3)


def surfaces(count, gpu, seed=0):
    kinds = [("NV12", 150, 91), ("RGBA", 33, 77), ("I420", 64, 48), ("NV12", 200, 20)]
    return [DeviceSurface(noise(*kinds[i % 4], seed=seed + i), kinds[i % 4][0], gpu) for i in range(count)]


def boxes_of(outputs, _table):
    return end_to_end(outputs, CHOICE).boxes


def engine(gpu, module, **more):
    return Engine(lambda pictures: [module(pictures)], SPEC, gpu, choose=boxes_of, **more)


def eager(module, batch, gpu):
    """The same without engine, graph or padding."""
    table = np.zeros((len(batch), ROW), np.int64)
    TableWriter(SPEC, 0).write(table, batch)
    pictures = new_input(SPEC, len(batch), gpu)
    letterbox(torch.from_numpy(table).to(gpu), pictures, SPEC)
    with torch.inference_mode():
        return end_to_end([module(pictures)], CHOICE).boxes.cpu().numpy()


@pytest.mark.parametrize("graphs", [True, False])
def test_batches_in_flight_do_not_mix(gpu, graphs):
    module = Boxes().to(gpu)
    runs = engine(gpu, module, graphs=graphs)
    batches = [surfaces(count, gpu, seed=10 * i) for i, count in enumerate((3, 8, 1, 5, 3, 7))]
    begun = [runs.begin(batch) for batch in batches]
    for batch, part in zip(batches, begun, strict=True):
        found = part.finish()
        np.testing.assert_allclose(found.arrays[0][: len(batch)], eager(module, batch, gpu), atol=1e-5)
        assert [(box.frame_width, box.frame_height) for box in found.boxes] == [(s.width, s.height) for s in batch]
    assert all((plan.graph is not None) == graphs for plan in runs._plans.values())
    runs.close()


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("graphs", [True, False])
def test_masks_are_those_of_the_processor(gpu, graphs, half):
    """In batches that are padded, in flight together, as graphs of several sizes."""
    masks_are_the_processors(gpu, (3, 8, 1, 5), graphs, half)


@pytest.mark.parametrize("half", [False, True])
def test_masks_of_a_padded_batch_are_those_of_the_processor(without_gpu, half):
    masks_are_the_processors(without_gpu, (3,), graphs=False, half=half)


def masks_are_the_processors(gpu, counts, graphs, half):
    spec = Preprocessing(128, 96, dtype="float16" if half else "float32")
    module = Masked().to(gpu).to(torch.float16 if half else torch.float32)
    outputs = TensorInfo("rows", (None, 4, 8), spec.dtype), TensorInfo("masks", (None, 2, 24, 32), spec.dtype)
    info = NetworkInfo((TensorInfo("images", (None, 3, 96, 128), spec.dtype),), outputs)
    chooser = chooser_for("yolo-end2end", info, Choice(128, 96, 0.0, 0.5, False, most=4))
    runs = Engine(lambda pictures: list(module(pictures)), spec, gpu, choose=chooser.choose, graphs=graphs)
    batches = [surfaces(count, gpu, seed=10 * i) for i, count in enumerate(counts)]
    begun = [runs.begin(batch) for batch in batches]
    decode = DECODERS["yolo-end2end"](info, 128, 96)
    for batch, part in zip(batches, begun, strict=True):
        found = part.finish()
        found = chooser.read(found.arrays[0][: len(batch)], found.boxes)
        table = np.zeros((len(batch), ROW), np.int64)
        boxes = TableWriter(spec, 0).write(table, batch)
        pictures = new_input(spec, len(batch), gpu)
        letterbox(torch.from_numpy(table).to(gpu), pictures, spec)
        with torch.inference_mode():
            arrays = [array.float().cpu().numpy() for array in module(pictures)]
        for index, (one, box) in enumerate(zip(found, boxes, strict=True)):
            wanted = to_detections(
                decode.decode(arrays, index, 0.0), box, (128, 96), iou=None, class_agnostic=False, max_detections=4
            )
            # Quarters of the same score, of which there are some in half precision, come in any order.
            one, wanted = (boxes[np.lexsort(boxes.xyxy.T)] for boxes in (one, wanted))
            np.testing.assert_allclose(one.xyxy, wanted.xyxy, atol=1e-3)
            for mask, other in zip(one.box_masks, wanted.box_masks, strict=True):
                differs = (mask > 0.5) != (other > 0.5)
                assert np.abs(other[differs] - 0.5).max(initial=0) < 1e-5
    assert all((plan.graph is not None) == graphs for plan in runs._plans.values())
    runs.close()


class Keeping(Boxes):
    """Keeps a tensor from call to call and replaces it when the batch size changes, as YOLO heads do."""

    kept = None

    def forward(self, pictures):
        if self.kept is None or len(self.kept) != len(pictures):
            self.kept = torch.from_numpy(np.full((len(pictures), 1, 1), 0.5, np.float32)).to(pictures.device)
        rows = super().forward(pictures)
        return torch.cat([rows[..., :4] * self.kept, rows[..., 4:]], -1)


def test_a_graph_reads_what_a_module_kept_after_it_was_replaced(gpu):
    module = Keeping().to(gpu)
    runs = engine(gpu, module, kept=lambda: kept_tensors(module))
    batches = [surfaces(count, gpu, seed=count) for count in (1, 2, 4, 8)]
    for batch in batches:
        runs.begin(batch).finish()
    filling = [torch.full((64, 1, 1), 9.0, device=gpu) for _ in range(2000)]
    torch.cuda.synchronize()
    for batch in batches:
        found = runs.begin(batch).finish().arrays[0][: len(batch)].copy()
        np.testing.assert_allclose(found, eager(Keeping().to(gpu), batch, gpu), atol=1e-5)
    del filling
    runs.close()


def test_a_network_that_no_graph_can_hold_runs_without(gpu, caplog):
    module = Boxes().to(gpu)

    def asks(pictures):
        assert float(pictures.sum()) != float("inf")  # a look at a value
        return [module(pictures)]

    runs = Engine(asks, SPEC, gpu, choose=boxes_of)
    batch = surfaces(4, gpu)
    found = runs.begin(batch).finish().arrays[0][: len(batch)]
    np.testing.assert_allclose(found, eager(module, batch, gpu), atol=1e-5)
    found = runs.begin(batch).finish().arrays[0][: len(batch)]
    np.testing.assert_allclose(found, eager(module, batch, gpu), atol=1e-5)
    assert "cannot be captured" in caplog.text
    runs.close()


def test_a_finished_batch_is_ready(gpu):
    runs = engine(gpu, Boxes().to(gpu))
    part = runs.begin(surfaces(2, gpu))
    torch.cuda.synchronize()
    assert part.ready()
    part.finish()
    runs.close()


@pytest.mark.parametrize("stream", ["own", "default"])
def test_memory_of_a_dropped_tensor_stays_until_its_stream_is_done(gpu, stream):
    memory = torch.zeros(64, 64, dtype=torch.uint8, device=gpu)
    holder = Gst.Buffer.new()
    torch.cuda.synchronize()
    before = counters.live_tensors()
    used = torch.cuda.Stream(gpu) if stream == "own" else torch.cuda.default_stream(gpu)
    with torch.cuda.stream(used):
        plane = PlaneTensor(
            Hold(gstref.ref(gstref.address(holder))), memory.data_ptr(), (64, 64), (64, 1), True, 0, False
        )
        tensor = torch.from_dlpack(plane)
        torch.cuda._sleep(1_000_000_000)
        tensor.sum()
        del tensor
        assert counters.live_tensors() == before + 1
        assert not used.query()
    used.synchronize()
    end = time.monotonic() + 5
    while counters.live_tensors() != before and time.monotonic() < end:
        time.sleep(0.01)
    assert counters.live_tensors() == before


def test_smaller_batches_are_padded_to_a_prepared_size(gpu):
    module = Boxes().to(gpu)
    runs = engine(gpu, module)
    runs.prepare([5])
    for count in (5, 1, 3):
        batch = surfaces(count, gpu)
        found = runs.begin(batch).finish().arrays[0][: len(batch)]
        np.testing.assert_allclose(found, eager(module, batch, gpu), atol=1e-5)
    assert list(runs._plans) == [5]
    runs.begin(surfaces(7, gpu)).finish()
    assert list(runs._plans) == [5, 8]
    runs.close()


@pytest.mark.parametrize("graphs", [True, False])
def test_what_is_reserved_is_there_when_the_first_batches_come(gpu, monkeypatch, graphs):
    """Graphs of every size, and pinned memory of every batch in flight."""
    module = Boxes().to(gpu)
    runs = engine(gpu, module, graphs=graphs)
    runs.reserve({3, 8, 4}, 4)
    assert sorted(runs._plans) == [4, 8]
    pinned = {id(tensor) for slot in runs._free for tensors in slot.results.values() for tensor in tensors}
    assert (len(runs._free), len(pinned)) == (4, 8)
    monkeypatch.setattr(runs, "_make_plan", None)
    monkeypatch.setattr(runs, "_make_slot", None)
    batches = [surfaces(count, gpu, seed=10 * count) for count in (8, 3, 7, 8)]
    begun = [runs.begin(batch) for batch in batches]
    for batch, part in zip(batches, begun, strict=True):
        np.testing.assert_allclose(part.finish().arrays[0][: len(batch)], eager(module, batch, gpu), atol=1e-5)
    assert {id(tensor) for slot in runs._free for tensors in slot.results.values() for tensor in tensors} == pinned
    runs.close()


def test_outputs_whose_number_of_rows_changes_come_back_whole(gpu):
    """Rows with a batch number, as graphs with suppression inside give; no graph can hold such a network."""
    rows = iter((3, 3, 3, 5, 2))

    def found(pictures):
        return [torch.full((next(rows), 7), float(len(pictures)), device=gpu)]

    runs = Engine(found, SPEC, gpu, graphs=False)
    shapes = [runs.begin(surfaces(2, gpu)).finish().arrays[0].shape for _ in range(2)]
    assert shapes == [(5, 7), (2, 7)]
    runs.close()


@pytest.fixture
def without_gpu(device, monkeypatch):
    """An engine's device where there is no GPU: kernels run in the interpreter, and nothing is in flight."""
    if device.type != "cpu":
        pytest.skip("there is a GPU, for which kernels are compiled")
    monkeypatch.setattr(engine_module, "torch", ProcessorTorch())
    monkeypatch.setattr(engine_module, "WARM_UPS", 1)
    monkeypatch.setattr(masks, "BLOCK", 1 << 14)  # the interpreter needs as long for a few cells as for many
    monkeypatch.setattr(masks, "PROGRAMS", 1)
    return torch.device("cpu")


def test_a_batch_that_is_refused_takes_no_memory_with_it(without_gpu):
    runs = engine(without_gpu, Boxes(), graphs=False)
    runs.begin(surfaces(2, without_gpu)).finish()
    foreign = surfaces(2, without_gpu, seed=3)
    foreign[1].gpu_id = 1
    foreign[1].layout_key = "another"
    for _ in range(5):
        with pytest.raises(SurfaceError):
            runs.begin(foreign)
    assert len(runs._free) == 1
    assert runs._stream.waits > 5, "what was queued before reads surfaces that are let go"
    runs.close()
