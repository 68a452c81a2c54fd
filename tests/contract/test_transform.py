"""NVIDIA's converter as Sluice calls it, with libraries of the same functions in its place."""

from __future__ import annotations

import ctypes
import shutil

import numpy as np
import pytest
from nvidia_standins import UyvyBatch, build_standins
from surface_samples import ForeignBatch

from sluice.contract import transform
from sluice.contract.formats import Layout, MemType
from sluice.contract.surface import SurfaceBatch, SurfaceError
from sluice.contract.transform import Filter, SurfaceTransform, surface_library_folder
from sluice.errors import ContractError

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
STREAM = 0x1234


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nvidia")
    return folder, build_standins(folder)


@pytest.fixture
def standins(built, monkeypatch):
    folder, library = built
    monkeypatch.setattr(transform, "surface_library_folder", lambda: folder)
    return lambda name: ctypes.c_int.in_dll(library, f"standin_{name}").value


def rgba(surface):
    """uint8 [height, width, 4] of a target, which lies in this process's memory."""
    plane = surface.planes[0]
    content = (ctypes.c_uint8 * plane.extent).from_address(plane.address)
    return np.lib.stride_tricks.as_strided(np.frombuffer(content, np.uint8), plane.shape, plane.strides)


def test_surfaces_that_nothing_reads_become_rgba_in_device_memory(standins):
    foreign = UyvyBatch(3)
    batch = SurfaceBatch.of(foreign.buffer())
    one = SurfaceTransform(0)
    conversion = one.begin(list(batch), STREAM)
    assert (standins("waiting"), standins("alive"), standins("gpu")) == (1, 3, 0)
    for index, surface in enumerate(conversion.surfaces):
        assert (surface.format, surface.mem_type, surface.layout) == ("RGBA", MemType.CUDA_DEVICE, Layout.PITCH)
        assert (surface.width, surface.height, surface.index) == (64, 48, index)
        np.testing.assert_array_equal(rgba(surface)[..., :3], np.repeat(foreign.luma(index)[..., None], 3, -1))
    conversion.finish()
    one.close()
    assert (standins("waiting"), standins("alive")) == (0, 0)


def test_targets_are_used_again_by_the_next_conversion(standins):
    one = SurfaceTransform(0)
    addresses = []
    for _ in range(3):
        conversion = one.begin(list(SurfaceBatch.of(UyvyBatch(2).buffer())), STREAM)
        addresses.append([surface.address for surface in conversion.surfaces])
        conversion.finish()
    assert standins("alive") == 2
    assert addresses[0] == addresses[1] == addresses[2]
    assert len(set(addresses[0])) == 2
    one.close()


def test_targets_of_many_sizes_are_not_kept_without_end(standins, monkeypatch):
    monkeypatch.setattr(transform, "MOST_KEPT", 4)
    one = SurfaceTransform(0)
    for width in range(64, 84, 2):
        one.begin(list(SurfaceBatch.of(UyvyBatch(1, width=width).buffer())), STREAM).finish()
        assert standins("alive") <= 5
    one.close()


def test_it_scales_with_the_filter_asked_for(standins):
    foreign = UyvyBatch(1)
    one = SurfaceTransform(1)
    conversion = one.begin(list(SurfaceBatch.of(foreign.buffer())), STREAM, size=(32, 24), filter=Filter.BILINEAR)
    assert (standins("filter"), standins("gpu")) == (1, 1)
    assert rgba(conversion.surfaces[0]).shape == (24, 32, 4)
    np.testing.assert_array_equal(rgba(conversion.surfaces[0])[..., 0], foreign.luma(0)[::2, ::2])
    conversion.finish()
    one.close()


def test_a_refusal_names_the_surface_and_the_way_out(standins, monkeypatch):
    monkeypatch.setenv("STANDIN_TRANSFORM_FAILS", "1")
    one = SurfaceTransform(0)
    with pytest.raises(SurfaceError, match=r"surface 0 \(UYVY, SURFACE_ARRAY\).*gave -2.*nvvideoconvert"):
        one.begin(list(SurfaceBatch.of(UyvyBatch(1).buffer())), STREAM)
    assert standins("waiting") == 0
    one.close()


def test_a_part_of_a_surface_is_refused(standins):
    """Its description is the whole surface's, so that other pixels would be converted."""
    part = SurfaceBatch.of(ForeignBatch(1, mem_type=4).buffer())[0].crop(16, 8, 32, 24)
    with pytest.raises(SurfaceError, match=r"part of surface 0 cannot be converted.*nvvideoconvert"):
        SurfaceTransform(0).begin([part], STREAM)


def test_targets_that_cannot_be_made_are_an_error(standins):
    one = SurfaceTransform(0)
    batch = SurfaceBatch.of(ForeignBatch(1, width=64).buffer())
    with pytest.raises(ContractError, match=r"NvBufSurfaceCreate gave -1 for 5000x48 on GPU 0"):
        one.begin(list(batch), STREAM, size=(5000, 48))
    one.close()


def test_missing_libraries_are_named_with_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(transform, "DEEPSTREAM", tmp_path)
    monkeypatch.setattr(transform, "wheel_folder", lambda: None)
    monkeypatch.setattr(transform, "LIBRARY", "libnvbufsurface-of-nobody.so")
    with pytest.raises(ContractError, match=r"no libnvbufsurface-of-nobody.so.*install DeepStream"):
        surface_library_folder()


def test_a_library_without_the_functions_is_refused(tmp_path, monkeypatch):
    for name in ("libnvbufsurface.so", "libnvbufsurftransform.so"):
        shutil.copy(transform.library()._name, tmp_path / name)
    monkeypatch.setattr(transform, "surface_library_folder", lambda: tmp_path)
    with pytest.raises(ContractError, match="have no NvBufSurfaceCreate"):
        SurfaceTransform(0)


def test_a_surface_of_a_foreign_format_has_a_name_and_no_planes():
    surface = SurfaceBatch.of(UyvyBatch(1).buffer())[0]
    assert (surface.format, surface.full_range) == ("UYVY", False)
    with pytest.raises(ContractError, match="UYVY cannot be read"):
        _ = surface.planes
