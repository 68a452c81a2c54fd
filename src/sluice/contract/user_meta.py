"""Sluice's user metas: texts, JSON, bytes and Python objects on a batch, a frame or an object.

They are copied and released by C functions without the GIL, wherever GStreamer copies or frees the buffer. Python
objects are shared by the copies of a batch and let go together with the last of them, in one entry into Python.
"""

import ctypes
import functools
import json
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from sluice.contract._locked import call
from sluice.contract._native import library
from sluice.contract._python_memory import use_python
from sluice.contract.metadata import BatchMeta, FrameMeta, ObjectMeta, UserMeta
from sluice.contract.provider import Provider
from sluice.errors import ContractError

KEEPER = "SLUICE.PYTHON_OBJECTS"
"""Descriptor of the batch user meta that keeps a batch's Python objects together."""

Owner = BatchMeta | FrameMeta | ObjectMeta


class Kind(IntEnum):
    """What a payload is (SluicePayloadKind of native/user_meta.c)."""

    TEXT = 0
    BYTES = 1
    OBJECT = 2


class _Payload(ctypes.Structure):
    """SluicePayload of native/user_meta.c."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("meta_type", ctypes.c_int),
        ("keeper_type", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
    )


class _Entry(ctypes.Structure):
    """SluiceEntry of native/user_meta.c."""

    _fields_ = (("group", ctypes.c_void_p), ("object", ctypes.py_object))


@dataclass(frozen=True)
class _Functions:
    """The C functions whose addresses tell our user metas from others."""

    kinds: dict[int, Kind]


@functools.cache
def _functions() -> _Functions:
    lib = library()
    names = {"sluice_text_copy": Kind.TEXT, "sluice_bytes_copy": Kind.BYTES, "sluice_object_copy": Kind.OBJECT}
    kinds = {ctypes.cast(getattr(lib, name), ctypes.c_void_p).value or 0: kind for name, kind in names.items()}
    lib.g_bytes_get_data.restype = ctypes.c_void_p
    lib.g_bytes_get_data.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
    use_python()
    return _Functions(kinds)


def attach_text(owner: Owner, meta_type: int | str, text: str) -> UserMeta:
    """Put a text on a batch, frame or object, as a C string in UTF-8.

    Args:
        owner: where to put it; at the end of a batch's user metas, at the front of a frame's or object's.
        meta_type: the meta type, or a descriptor such as ``"ACME.SCORE"`` for `Provider.user_meta_type`.
        text: the text; what UTF-8 has no bytes for, half a surrogate pair, becomes "?".

    Raises:
        ContractError: the text contains a NUL character.
        StaleBufferError: the owner's lease has ended.
    """
    if "\0" in text:
        raise ContractError(f"the text {text[:40]!r} contains a NUL character; attach it as bytes")
    encoded = text.encode("utf-8", "replace")
    return _attach(owner, meta_type, Kind.TEXT, ctypes.cast(ctypes.c_char_p(encoded), ctypes.c_void_p).value, 0)


def attach_json(owner: Owner, meta_type: int | str, value: Any) -> UserMeta:
    """Put a value on a batch, frame or object as JSON text; see `attach_text`.

    Raises:
        ContractError: the value cannot be written as JSON.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ContractError(f"the value cannot be written as JSON: {error}") from error
    return attach_text(owner, meta_type, text)


def attach_bytes(owner: Owner, meta_type: int | str, data: bytes) -> UserMeta:
    """Put bytes on a batch, frame or object; copies of the batch share them. See `attach_text`."""
    data = bytes(data)
    return _attach(owner, meta_type, Kind.BYTES, ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value, len(data))


def attach_object(owner: Owner, meta_type: int | str, value: Any) -> UserMeta:
    """Put a Python object on a batch, frame or object; copies of the batch share it. See `attach_text`.

    The object is let go when the batch and all its copies are freed, even if the user meta is removed before.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    try:
        return _attach(owner, meta_type, Kind.OBJECT, id(value), 0)
    except BaseException:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(value))
        raise


def _attach(owner: Owner, meta_type: int | str, kind: Kind, data: int | None, size: int) -> UserMeta:
    _functions()
    provider = owner.provider
    number = provider.user_meta_type(meta_type) if isinstance(meta_type, str) else meta_type
    keeper = provider.user_meta_type(KEEPER) if kind is Kind.OBJECT else 0
    row = _Payload(kind, number, keeper, data, size)
    level = _level(provider, owner)
    address = call("sluice_attach_payload", True, provider.block, owner.address, ctypes.byref(row), level)
    return UserMeta(address, owner.lease, provider)


def _level(provider: Provider, owner: Owner) -> int:
    names = {BatchMeta: "NVDS_BATCH_META", FrameMeta: "NVDS_FRAME_META", ObjectMeta: "NVDS_OBJ_META"}
    name = names.get(type(owner))
    if name is None:
        raise TypeError(f"user metas belong to a batch, a frame or an object, not to a {type(owner).__name__}")
    return provider.layout.enum("NvDsMetaType")[name]


def kind_of(user: UserMeta) -> Kind | None:
    """Return what kind of payload of Sluice a user meta carries, or None if its data are somebody else's."""
    return _functions().kinds.get(user.copy_func)


def payload(user: UserMeta) -> Any:
    """Return the text, bytes or Python object that Sluice put into a user meta.

    Raises:
        ContractError: its data are somebody else's and cannot be read here.
        StaleBufferError: its lease has ended.
    """
    kind = kind_of(user)
    if kind is None:
        raise ContractError(f"the user meta of type {user.meta_type} is not one of Sluice's; its maker reads it")
    if kind is Kind.OBJECT:
        return _Entry.from_address(user.data).object
    if kind is Kind.TEXT:
        return (ctypes.c_char_p(user.data).value or b"").decode()
    size = ctypes.c_size_t()
    data = library().g_bytes_get_data(user.data, ctypes.byref(size))
    return ctypes.string_at(data, size.value) if size.value else b""


def payload_json(user: UserMeta) -> Any:
    """Return the value of a JSON text; see `payload`.

    Raises:
        ContractError: the payload is not a JSON text.
    """
    text = payload(user)
    if not isinstance(text, str):
        raise ContractError(f"the user meta of type {user.meta_type} carries {type(text).__name__}, not a JSON text")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ContractError(f"the user meta of type {user.meta_type} carries no JSON: {error}") from error


def find(owner: Owner, meta_type: int | str) -> list[UserMeta]:
    """Return the user metas of one type on a batch, frame or object, in list order."""
    number = owner.provider.user_meta_type(meta_type) if isinstance(meta_type, str) else meta_type
    return [user for user in owner.user_metas if user.meta_type == number]


def remove(owner: Owner, user: UserMeta) -> None:
    """Remove a user meta, whoever made it, from its batch, frame or object.

    Raises:
        ContractError: it is not there.
    """
    if user not in owner.user_metas:
        raise ContractError(f"{user!r} is not on {owner!r}")
    provider = owner.provider
    if isinstance(owner, BatchMeta):
        provider.remove_user_from_batch(owner.address, user.address)
    elif isinstance(owner, FrameMeta):
        provider.remove_user_from_frame(owner.address, user.address)
    else:
        provider.remove_user_from_object(owner.address, user.address)
