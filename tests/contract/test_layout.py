"""The layout tables: offsets as in DeepStream's headers, and refusal of what does not fit."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sluice.contract.layout import BUILT_IN, Layout, layout, read_layout
from sluice.contract.provider import wheel_folder
from sluice.errors import ContractError


@pytest.fixture
def table() -> Any:
    return json.loads(BUILT_IN.read_text())


@pytest.mark.parametrize(
    ("path", "offset"),
    [
        ("NvDsObjectMeta.rect_params.left", 104),
        ("NvDsObjectMeta.rect_params.rotation_angle", 208),
        ("NvDsObjectMeta.text_params.font_params.font_color.alpha", 296),
        ("NvDsObjectMeta.tracker_bbox_info.org_bbox_coords.height", 92),
        ("NvDsFrameMeta.sensorInfo_meta.sensor_name", 192),
        ("NvDsBatchMeta.meta_mutex", 112),
        ("NvDsUserMeta.base_meta.release_func", 32),
        ("NvBufSurfaceParams.planeParams.offset", 100),
    ],
)
def test_offsets(path: str, offset: int) -> None:
    assert layout().offset(path) == offset


def test_dtypes_have_the_structs_sizes_and_offsets() -> None:
    for name, struct in layout().structs.items():
        dtype = layout().dtype(name)
        assert dtype.itemsize == struct.size, name
        assert {field: dtype.fields[field][1] for field in dtype.names} == {  # type: ignore[index,union-attr]
            field: entry.offset for field, entry in struct.fields.items()
        }
        for field, entry in struct.fields.items():
            assert entry.offset + dtype.fields[field][0].itemsize <= struct.size, f"{name}.{field}"  # type: ignore[index]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("NvDsObjectMeta.colour", "NvDsObjectMeta has no field 'colour'; it has base_meta, parent"),
        ("NvDsObjectMeta.rect_params.x", "NvOSD_RectParams has no field 'x'"),
        ("NvDsObjectMeta.class_id.x", "NvDsObjectMeta.class_id is i4, which has no field 'x'"),
        ("NvDsThing.x", "has no struct NvDsThing"),
    ],
)
def test_unknown_names_are_refused(path: str, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        layout().offset(path)


def test_an_enum_and_a_struct_field_by_name() -> None:
    assert layout().enum("GstNvDsMetaType")["NVDS_BATCH_GST_META"] == 4097
    with pytest.raises(ContractError, match="no enum Colours"):
        layout().enum("Colours")
    with pytest.raises(ContractError, match="is a struct"):
        layout().struct("NvDsObjectMeta").ctype("rect_params")


@pytest.mark.parametrize("missing", ["release", "structs", "enums", "constants"])
def test_a_table_of_another_form_is_refused(table: Any, missing: str) -> None:
    del table[missing]
    with pytest.raises(ContractError, match=f"the layout table mine is not of the form of .*{missing}"):
        Layout(table, "mine")


def test_a_table_must_agree_with_the_compiled_callbacks(table: Any) -> None:
    table["structs"]["NvDsUserMeta"]["size"] = 56
    with pytest.raises(ContractError, match="gives NvDsUserMeta 56 bytes; Sluice's compiled callbacks need 48"):
        Layout(table, "mine")


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="cannot be read"):
        read_layout(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("offsets")
    with pytest.raises(ContractError, match="cannot be read"):
        read_layout(tmp_path / "text.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ContractError, match="holds a list"):
        read_layout(tmp_path / "list.json")


def choose(table: Path, provider: str = "portable") -> str:
    """Choose a provider with a table of one's own in a new process; return its layout's release, or the error."""
    code = (
        "from sluice.contract.provider import provider\n"
        "from sluice.errors import ContractError\n"
        "try: print(provider().layout.release)\n"
        "except ContractError as error: print(error)\n"
    )
    environment = {**os.environ, "SLUICE_LAYOUT": str(table), "SLUICE_PROVIDER": provider}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_table_of_ones_own_is_used(table: Any, tmp_path: Path) -> None:
    table["release"] = "9.1 of my own"
    path = tmp_path / "table.json"
    path.write_text(json.dumps(table))
    assert choose(path) == "9.1 of my own\n"


@pytest.mark.parametrize(
    ("struct", "field", "value", "message"),
    [
        ("NvDsLabelInfo", None, 208, "NvDsLabelInfo has 200 bytes in the library, 208 in the table"),
        ("NvDsObjectMeta", None, 560, "NvDsObjectMeta has 552 bytes in the library, 560 in the table"),
        ("NvDsBatchMeta", "obj_meta_pool", 40, "is not mapped"),
        ("NvDsMetaPool", "element_size", 0, "NvDsFrameMeta has 2 bytes in the library, 232 in the table"),
        ("NvDsBaseMeta", "batch_meta", 16, "a batch's own pointer is 0x0"),
    ],
)
def test_another_release_is_refused_with_both_numbers(
    table: Any, tmp_path: Path, struct: str, field: str | None, value: int, message: str
) -> None:
    if field is None:
        table["structs"][struct]["size"] = value
    else:
        table["structs"][struct]["fields"][field][0] = value
    path = tmp_path / "table.json"
    path.write_text(json.dumps(table))
    printed = choose(path)
    assert message in printed
    assert "does not have the layout of DeepStream 9.0, 9.1" in printed
    assert "SLUICE_LAYOUT" in printed


def test_the_portable_provider_has_one_layout(table: Any, tmp_path: Path) -> None:
    table["structs"]["NvDsObjectMeta"]["fields"]["class_id"][0] = 48
    table["structs"]["NvDsObjectMeta"]["fields"]["unique_component_id"][0] = 52
    path = tmp_path / "table.json"
    path.write_text(json.dumps(table))
    assert "gives NvDsObjectMeta other fields than DeepStream 9.0/9.1" in choose(path)


@pytest.mark.skipif(wheel_folder() is None, reason="NVIDIA's metadata library is not installed")
def test_nvidias_library_is_confirmed_too(table: Any, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    table["structs"]["NvDsDisplayMeta"]["size"] = 7072
    path.write_text(json.dumps(table))
    assert "NvDsDisplayMeta has 7040 bytes in the library, 7072 in the table" in choose(path, "nvidia")
