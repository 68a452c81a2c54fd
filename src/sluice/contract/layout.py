"""Where DeepStream's structs have their fields, as a table per release.

The table of release 9.0/9.1 is built in; the environment variable ``SLUICE_LAYOUT`` names a JSON file of the same form
for another release. A table is only believed after `confirm` has compared it with the library in use, so that no
field is ever read through a layout that does not fit.
"""

import ctypes
import functools
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.errors import ContractError

LAYOUT_VARIABLE = "SLUICE_LAYOUT"
BUILT_IN = Path(__file__).parent / "layouts" / "deepstream-9.json"

_CTYPES: dict[str, type[Any]] = {
    "i4": ctypes.c_int32,
    "u4": ctypes.c_uint32,
    "i8": ctypes.c_int64,
    "u8": ctypes.c_uint64,
    "f4": ctypes.c_float,
    "f8": ctypes.c_double,
    "b1": ctypes.c_bool,
    "ptr": ctypes.c_size_t,
    "char": ctypes.c_char,
}

# The compiled callbacks of user metas read these without a table, so every table must agree on them.
_FIXED = {"NvDsBaseMeta": 40, "NvDsUserMeta": 48, "NvDsMeta": 72}


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its offset in bytes, its type (a key of the primitive types or a struct's name), how many of it."""

    offset: int
    type: str
    count: int = 1


@dataclass(frozen=True)
class Struct:
    """One struct: name, size in bytes, and its fields by name."""

    name: str
    size: int
    fields: dict[str, Field]
    structs: dict[str, "Struct"] = field(repr=False, compare=False)

    def field(self, path: str) -> Field:
        """Return the field at a dotted path such as ``"rect_params.left"``, with its offset from this struct's start.

        Raises:
            ContractError: no such field.
        """
        name, _, rest = path.partition(".")
        found = self.fields.get(name)
        if found is None:
            raise ContractError(f"{self.name} has no field {name!r}; it has {', '.join(self.fields)}")
        if not rest:
            return found
        inner = self.structs.get(found.type)
        if inner is None:
            raise ContractError(f"{self.name}.{name} is {found.type}, which has no field {rest!r}")
        deeper = inner.field(rest)
        return Field(found.offset + deeper.offset, deeper.type, deeper.count)

    def offset(self, path: str) -> int:
        """Return the offset in bytes of the field at a dotted path."""
        return self.field(path).offset

    def ctype(self, path: str) -> type[Any]:
        """Return the ctypes type of one element of a primitive field; a pointer is a ``c_size_t``."""
        found = self.field(path)
        if found.type not in _CTYPES:
            raise ContractError(f"{self.name}.{path} is a struct ({found.type}), not a number")
        return _CTYPES[found.type]


class Layout:
    """The structs, enums and constants of one DeepStream release."""

    def __init__(self, table: dict[str, Any], origin: str) -> None:
        """Build the layout from a parsed table; `origin` names it in messages.

        Raises:
            ContractError: the table has not the form of ``layouts/deepstream-9.json``.
        """
        self.origin = origin
        self.structs: dict[str, Struct] = {}
        try:
            self.release = str(table["release"])
            self.enums: dict[str, dict[str, int]] = {name: dict(values) for name, values in table["enums"].items()}
            self.constants: dict[str, int | str] = dict(table["constants"])
            for name, struct in table["structs"].items():
                fields = {key: Field(*value) for key, value in struct["fields"].items()}
                self.structs[name] = Struct(name, int(struct["size"]), fields, self.structs)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ContractError(
                f"the layout table {origin} is not of the form of {BUILT_IN.name} "
                f"(release, structs, enums, constants): {type(error).__name__}: {error}"
            ) from error
        for name, size in _FIXED.items():
            if self.struct(name).size != size:
                raise ContractError(
                    f"the layout table {origin} gives {name} {self.struct(name).size} bytes; "
                    f"Sluice's compiled callbacks need {size}"
                )

    def struct(self, name: str) -> Struct:
        """Return a struct by its C name.

        Raises:
            ContractError: the table does not have it.
        """
        if name not in self.structs:
            raise ContractError(f"the layout table {self.origin} has no struct {name}")
        return self.structs[name]

    def offset(self, path: str) -> int:
        """Return the offset of ``"Struct.field.field"``."""
        name, _, rest = path.partition(".")
        return self.struct(name).offset(rest)

    def enum(self, name: str) -> dict[str, int]:
        """Return the values of an enum by their C names."""
        if name not in self.enums:
            raise ContractError(f"the layout table {self.origin} has no enum {name}")
        return self.enums[name]

    def dtype(self, name: str) -> np.dtype[np.void]:
        """Return the numpy dtype of a struct, padding included; nested structs nest, strings are ``S``."""
        struct = self.struct(name)
        formats: list[npt.DTypeLike] = []
        for entry in struct.fields.values():
            if entry.type in self.structs:
                base: np.dtype[Any] = self.dtype(entry.type)
            elif entry.type == "char":
                formats.append(f"S{entry.count}")
                continue
            else:
                base = np.dtype("u8" if entry.type == "ptr" else entry.type)
            formats.append((base, (entry.count,)) if entry.count > 1 else base)
        return np.dtype(
            {
                "names": list(struct.fields),
                "formats": formats,
                "offsets": [entry.offset for entry in struct.fields.values()],
                "itemsize": struct.size,
            }
        )


def read_layout(path: Path) -> Layout:
    """Read a layout table from a JSON file.

    Raises:
        ContractError: the file cannot be read, or is not such a table.
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ContractError(f"the layout table {path} cannot be read: {error}") from error
    if not isinstance(table, dict):
        raise ContractError(f"the layout table {path} holds a {type(table).__name__}, not an object")
    return Layout(table, str(path))


@functools.cache
def layout() -> Layout:
    """Return the layout of this process: the table named by ``SLUICE_LAYOUT``, otherwise release 9.0/9.1."""
    named = os.environ.get(LAYOUT_VARIABLE)
    return read_layout(Path(named)) if named else read_layout(BUILT_IN)


POOLS = {
    "frame_meta_pool": "NvDsFrameMeta",
    "obj_meta_pool": "NvDsObjectMeta",
    "classifier_meta_pool": "NvDsClassifierMeta",
    "display_meta_pool": "NvDsDisplayMeta",
    "user_meta_pool": "NvDsUserMeta",
    "label_info_meta_pool": "NvDsLabelInfo",
}


def confirm(table: Layout, batch: int, library: str) -> None:
    """Compare a table with the element sizes in a new batch's pools, reading memory only where it is mapped.

    Args:
        table: the layout to confirm.
        batch: address of a batch that `library` has just created.
        library: what to call the library in messages.

    Raises:
        ContractError: the library has another layout, with both numbers.
    """
    with Path("/proc/self/mem").open("rb", buffering=0) as memory:

        def read(address: int, size: int) -> int:
            try:
                return int.from_bytes(os.pread(memory.fileno(), size, address), "little")
            except (OSError, OverflowError) as error:
                raise ContractError(_mismatch(table, library, f"address {address:#x} is not mapped")) from error

        structure = table.struct("NvDsBatchMeta")
        own = read(batch + structure.offset("base_meta.batch_meta"), 8)
        if own != batch:
            raise ContractError(_mismatch(table, library, f"a batch's own pointer is {own:#x}, not {batch:#x}"))
        for pool, name in POOLS.items():
            pointer = read(batch + structure.offset(pool), 8)
            found = read(pointer + table.offset("NvDsMetaPool.element_size"), 4)
            expected = table.struct(name).size
            if found != expected:
                raise ContractError(
                    _mismatch(table, library, f"{name} has {found} bytes in the library, {expected} in the table")
                )


def confirm_gst_meta(table: Layout, size: int, library: str) -> None:
    """Compare the table's ``NvDsMeta`` with the size the library registered.

    Raises:
        ContractError: they differ, with both numbers.
    """
    expected = table.struct("NvDsMeta").size
    if size != expected:
        raise ContractError(
            _mismatch(table, library, f"NvDsMeta has {size} bytes in the library, {expected} in the table")
        )


def _mismatch(table: Layout, library: str, what: str) -> str:
    return (
        f"{library} does not have the layout of DeepStream {table.release} ({table.origin}): {what}. "
        f"Set {LAYOUT_VARIABLE} to a table of that release, or SLUICE_PROVIDER=portable where no NVIDIA element is used"
    )
