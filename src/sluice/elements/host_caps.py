"""Caps of elements that take frames in GPU memory and give them in the host's: what becomes of what.

A single frame in GPU memory becomes raw video, a batch of NvBufSurfaces one of `sluice.contract.batching`. Whether
``memory:NVMM`` is a frame or a batch is told by ``batch-size``, which frames have not; with 1 it may be either.

Imports gi only.
"""

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.structures import required_structure
from sluice.elements.frame_caps import RAW_FORMATS

HOST_CAPS = f"video/x-raw, format={RAW_FORMATS}; video/x-raw(memory:SluiceSurface)"
"""What such elements give; the memory of a batch of ``memory:SluiceSurface`` may also be a GPU's."""

GPU_CAPS = f"video/x-raw(memory:CUDAMemory), format={RAW_FORMATS}; video/x-raw(memory:NVMM), format={RAW_FORMATS}"
"""Single frames in a GPU's memory, which such elements bring to the host."""

_CUDA, _NVMM, _BATCH = "memory:CUDAMemory", "memory:NVMM", "memory:SluiceSurface"
_OF_NVMM = ("gpu-id", "nvbuf-memory-type", "num-surfaces-per-frame", "batch-size")


def on_gpu(caps: Gst.Caps) -> bool:
    """Whether caps name GPU memory, first of all."""
    return _has(caps, 0, _CUDA) or _has(caps, 0, _NVMM)


def is_batch(caps: Gst.Caps) -> bool:
    """Whether caps are those of batches in the host's feature, first of all."""
    return _has(caps, 0, _BATCH)


def outgoing(caps: Gst.Caps, *, stays: bool) -> Gst.Caps:
    """Return what frames of such caps can leave as, those without a copy first.

    Args:
        caps: of the sink pad.
        stays: whether frames in GPU memory may also leave as they are.
    """
    made = Gst.Caps.new_empty()
    for index in range(caps.get_size()):
        in_cuda, in_nvmm = _has(caps, index, _CUDA), _has(caps, index, _NVMM)
        if stays or not (in_cuda or in_nvmm):
            made.append(caps.copy_nth(index))
        places, fixed = _batch_size(caps, index)
        if in_cuda or (in_nvmm and (not fixed or places == 1)):
            made.append(_raw(caps, index, "", without=_OF_NVMM))
        if in_nvmm and (fixed or not caps.is_fixed()):
            made.append(_batches(caps, index, _BATCH))
    return made


def incoming(caps: Gst.Caps, *, stays: bool) -> Gst.Caps:
    """Return what frames can come as that are to leave with such caps, those without a copy first; see `outgoing`."""
    made = Gst.Caps.new_empty()
    copied: list[Gst.Caps] = []
    for index in range(caps.get_size()):
        on_a_gpu = _has(caps, index, _CUDA) or _has(caps, index, _NVMM)
        if stays or not on_a_gpu:
            made.append(caps.copy_nth(index))
        if _has(caps, index, _BATCH):
            copied.append(_batches(caps, index, _NVMM))
        elif not on_a_gpu:
            copied += [_raw(caps, index, feature) for feature in (_CUDA, _NVMM)]
    for other in copied:
        made.append(other)
    return made


def host_caps(caps: Gst.Caps) -> Gst.Caps:
    """Return the caps of single frames, fixed, as they are once their pixels are on the host."""
    return _raw(caps, 0, "", without=_OF_NVMM) if on_gpu(caps) else caps


def _has(caps: Gst.Caps, index: int, feature: str) -> bool:
    features = caps.get_features(index) if index < caps.get_size() else None
    return features is not None and features.contains(feature)


def _batch_size(caps: Gst.Caps, index: int) -> tuple[int, bool]:
    found, places = required_structure(caps, index).get_int("batch-size")
    return places, found


def _raw(caps: Gst.Caps, index: int, feature: str, without: tuple[str, ...] = ()) -> Gst.Caps:
    """Return one of several caps with another memory, and without some of their fields."""
    structure = required_structure(caps, index).copy()
    for name in without:
        structure.remove_field(name)
    return _with(structure, feature)


def _batches(caps: Gst.Caps, index: int, feature: str) -> Gst.Caps:
    """Return caps of batches with the rate and the number of places of one of several caps."""
    given, structure = required_structure(caps, index), Gst.Structure.new_empty("video/x-raw")
    for name in ("batch-size", "framerate"):
        if given.has_field(name):
            structure.set_value(name, given.get_value(name))
    return _with(structure, feature)


def _with(structure: Gst.Structure, feature: str) -> Gst.Caps:
    made = Gst.Caps.new_empty()
    made.append_structure_full(structure, Gst.CapsFeatures.from_string(feature) if feature else None)
    return made
