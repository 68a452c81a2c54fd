"""Tensors on an NVIDIA GPU, with torch as the other side; skipped where there is none."""

import numpy as np
import pytest

from sluice.contract import gstref
from sluice.contract.formats import MemType
from sluice.contract.surface import SurfaceBatch
from sluice.pyservicemaker import ApiError, BufferOperator, ColorFormat, Probe, as_tensor

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("torch finds no GPU", allow_module_level=True)


def on_gpu(*shape, dtype=torch.uint8):
    """Return a torch tensor of known numbers on the GPU."""
    count = int(np.prod(shape))
    return (torch.arange(count, device="cuda") % 251).to(dtype).reshape(shape)


def test_a_torch_tensor_goes_in_and_out_without_a_copy():
    source = on_gpu(4, 5, 3)
    tensor = as_tensor(source, "HWC")
    back = torch.from_dlpack(tensor)
    assert (tensor.device_type, tensor.shape, tensor.__dlpack_device__()) == ("GPU", (4, 5, 3), (2, 0))
    assert back.data_ptr() == source.data_ptr()
    torch.utils.dlpack.from_dlpack(tensor.__dlpack__())[0, 0, 0] = 99
    assert source[0, 0, 0].item() == 99


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.int64])
def test_a_clone_removes_the_padding_of_rows(dtype):
    padded = on_gpu(6, 40, dtype=dtype)[:, :30].unflatten(1, (10, 3))
    clone = as_tensor(padded, "HWC").clone()
    assert (clone.shape, clone.strides) == ((6, 10, 3), (30, 3, 1))
    copied = torch.from_dlpack(clone)
    assert copied.data_ptr() != padded.data_ptr()
    assert torch.equal(copied, padded)


def test_more_than_padded_rows_are_not_copied():
    with pytest.raises(ApiError, match="rows"):
        as_tensor(on_gpu(4, 6, 3).permute(2, 0, 1), "CHW").clone()
    with pytest.raises(ApiError, match="cannot be used"):
        as_tensor(on_gpu(4).to(torch.bfloat16), "")


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_host_arrays_go_to_the_gpu(dtype):
    array = np.arange(60, dtype=dtype).reshape(4, 5, 3)
    for source in (array, array[:, :4]):
        tensor = as_tensor(source, "HWC").to_gpu(0)
        np.testing.assert_array_equal(torch.from_dlpack(tensor).cpu().numpy(), source)
    with pytest.raises(ApiError, match="cuDeviceGet"):
        as_tensor(array, "HWC").to_gpu(99)


def test_memory_of_clones_is_given_back():
    source = as_tensor(on_gpu(4096, 4096), "HW")
    source.clone()
    free = torch.cuda.mem_get_info()[0]
    for _ in range(200):
        torch.from_dlpack(source.clone())
    assert torch.cuda.mem_get_info()[0] > free - (64 << 20)


@pytest.mark.parametrize(("format", "channels"), [(ColorFormat.RGB, 3), (ColorFormat.RGBA, 4)])
@pytest.mark.parametrize("owned", [True, False])
def test_a_frame_becomes_a_buffer_of_gpu_memory(format, channels, owned):
    source = on_gpu(6, 10, channels)
    tensor = as_tensor(source, "HWC")
    tensor = tensor.clone() if owned else tensor
    buffer = tensor.wrap(format)
    (surface,) = SurfaceBatch.of(buffer._buffer)
    assert (surface.width, surface.height, surface.format) == (10, 6, format.name)
    assert surface.mem_type is MemType.CUDA_DEVICE
    assert (surface.planes[0].address == torch.from_dlpack(tensor).data_ptr()) == owned
    extracted = buffer.extract(0)
    del buffer, tensor, surface
    assert torch.equal(torch.from_dlpack(extracted), source)
    assert gstref.refcount(gstref.buffer_address(extracted.wrap(format)._buffer)) >= 1


class Means(BufferOperator):
    """Writes down the mean colour of each frame, and keeps clones of two."""

    def __init__(self):
        super().__init__()
        self.means, self.kept, self.devices = [], [], set()

    def handle_buffer(self, buffer):
        for frame_meta in buffer.batch_meta.frame_items:
            tensor = buffer.extract(frame_meta.batch_id)
            if tensor:
                self.devices.add(tensor.device_type)
                frame = torch.utils.dlpack.from_dlpack(tensor)
                self.means.append(frame.float().mean((0, 1)).cpu().tolist())
                self.kept.append(tensor.clone())
        return True


@pytest.mark.parametrize("width", [64, 66])
def test_frames_in_nvmm_memory_are_tensors_on_the_gpu(play, width):
    means = Means()
    line = (
        f"videotestsrc num-buffers=4 pattern=red ! video/x-raw,format=RGBA,width={width},height=48,framerate=25/1 ! "
        "nvvideoconvert ! video/x-raw(memory:NVMM),format=RGB ! sluicemux batch-size=1 ! identity name=a ! fakesink"
    )
    assert play(line, lambda pipeline: Probe("means", means).attach(pipeline.get_by_name("a"))) is None
    assert (means.devices, len(means.means)) == ({"GPU"}, 4)
    for red, green, blue in means.means:
        assert red > 245
        assert max(green, blue) < 10
    for clone in means.kept:
        assert clone.strides == (3 * width, 3, 1)
        assert torch.from_dlpack(clone).float().mean((0, 1))[0].item() > 245
