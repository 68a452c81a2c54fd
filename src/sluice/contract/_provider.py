"""`Provider`: the functions of one metadata library, with the addresses of structs as numbers.

No call waits for a batch's meta lock with the GIL: acquire and add functions try the lock first, which spares them the
wait for the GIL beside busy Python threads, and release the GIL when it is taken. Functions that may free somebody's
user data always release it.
"""

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import gstref
from sluice.contract._locked import call
from sluice.contract._native import library as native_library
from sluice.contract.layout import Layout, confirm, confirm_gst_meta
from sluice.errors import ContractError

_POINTER = ctypes.c_void_p
_GST_META_INFO_SIZE = 16  # GstMetaInfo {GType api; GType type; gsize size; ...}

# Method: (symbol, number of arguments). These take the meta lock for a moment and call nobody back.
_SHORT = {
    "acquire_frame": ("nvds_acquire_frame_meta_from_pool", 1),
    "acquire_object": ("nvds_acquire_obj_meta_from_pool", 1),
    "acquire_classifier": ("nvds_acquire_classifier_meta_from_pool", 1),
    "acquire_label": ("nvds_acquire_label_info_meta_from_pool", 1),
    "acquire_display": ("nvds_acquire_display_meta_from_pool", 1),
    "acquire_user": ("nvds_acquire_user_meta_from_pool", 1),
    "add_frame": ("nvds_add_frame_meta_to_batch", 2),
    "add_object": ("nvds_add_obj_meta_to_frame", 3),
    "add_display": ("nvds_add_display_meta_to_frame", 2),
    "add_classifier": ("nvds_add_classifier_meta_to_object", 2),
    "add_label": ("nvds_add_label_info_meta_to_classifier", 2),
    "add_user_to_batch": ("nvds_add_user_meta_to_batch", 2),
    "add_user_to_frame": ("nvds_add_user_meta_to_frame", 2),
    "add_user_to_object": ("nvds_add_user_meta_to_obj", 2),
}

# These may free or copy user data, or wait: called without the GIL. The clear functions take a list as second argument.
_RELEASING = {
    "remove_object": ("nvds_remove_obj_meta_from_frame", 2),
    "remove_display": ("nvds_remove_display_meta_from_frame", 2),
    "remove_classifier": ("nvds_remove_classifier_meta_from_obj", 2),
    "remove_label": ("nvds_remove_label_info_meta_from_classifier", 2),
    "remove_user_from_batch": ("nvds_remove_user_meta_from_batch", 2),
    "remove_user_from_frame": ("nvds_remove_user_meta_from_frame", 2),
    "remove_user_from_object": ("nvds_remove_user_meta_from_object", 2),
    "copy_frame": ("nvds_copy_frame_meta", 2),
    "lock": ("nvds_acquire_meta_lock", 1),
    "unlock": ("nvds_release_meta_lock", 1),
    "_remove_frame": ("nvds_remove_frame_meta_from_batch", 2),
    "_clear_frames": ("nvds_clear_frame_meta_list", 2),
    "_clear_objects": ("nvds_clear_obj_meta_list", 2),
    "_clear_classifiers": ("nvds_clear_classifier_meta_list", 2),
    "_clear_labels": ("nvds_clear_label_info_meta_list", 2),
    "_clear_batch_users": ("nvds_clear_batch_user_meta_list", 2),
    "_clear_frame_users": ("nvds_clear_frame_user_meta_list", 2),
    "_clear_object_users": ("nvds_clear_obj_user_meta_list", 2),
}


@functools.cache
def interned(text: str) -> int:
    """Return the address of a C string that lives as long as the process.

    Raises:
        ContractError: the text contains a NUL character.
    """
    if "\0" in text:
        raise ContractError(f"{text!r} contains a NUL character; C strings cannot")
    function = native_library().g_intern_string
    function.restype, function.argtypes = _POINTER, [ctypes.c_char_p]
    return int(function(text.encode("utf-8", "replace")))


class Provider:
    """One implementation of the metadata functions. All addresses are C addresses as ``int``.

    A provider made by `open_provider` serves bare batches; only the one of `provider` may touch buffers.
    """

    acquire_frame: Callable[[int], int]
    acquire_object: Callable[[int], int]
    acquire_classifier: Callable[[int], int]
    acquire_label: Callable[[int], int]
    acquire_display: Callable[[int], int]
    acquire_user: Callable[[int], int]
    add_frame: Callable[[int, int], int]
    add_object: Callable[[int, int, int], int]
    add_display: Callable[[int, int], int]
    add_classifier: Callable[[int, int], int]
    add_label: Callable[[int, int], int]
    add_user_to_batch: Callable[[int, int], int]
    add_user_to_frame: Callable[[int, int], int]
    add_user_to_object: Callable[[int, int], int]
    remove_object: Callable[[int, int], None]
    remove_display: Callable[[int, int], None]
    remove_classifier: Callable[[int, int], None]
    remove_label: Callable[[int, int], None]
    remove_user_from_batch: Callable[[int, int], None]
    remove_user_from_frame: Callable[[int, int], None]
    remove_user_from_object: Callable[[int, int], None]
    copy_frame: Callable[[int, int], None]
    lock: Callable[[int], None]
    unlock: Callable[[int], None]
    _remove_frame: Callable[[int, int], None]
    _clear_frames: Callable[[int, int], None]
    _clear_objects: Callable[[int, int], None]
    _clear_classifiers: Callable[[int, int], None]
    _clear_labels: Callable[[int, int], None]
    _clear_batch_users: Callable[[int, int], None]
    _clear_frame_users: Callable[[int, int], None]
    _clear_object_users: Callable[[int, int], None]

    def __init__(self, name: str, path: str, meta: ctypes.CDLL, gst: ctypes.CDLL, prefix: str, table: Layout) -> None:
        """Bind the functions of `meta` and `gst` (which may be one library) and confirm the layout."""
        self.name = name
        self.path = path
        self.layout = table
        self._meta, self._gst, self._prefix = meta, gst, prefix
        self._owner = False
        # With the GIL: these take no lock that anybody holds while he wants the GIL.
        meta_holding, gst_holding = (ctypes.PyDLL(lib._name, handle=lib._handle) for lib in (meta, gst))
        try:
            self._create = self._bind(meta_holding, "nvds_create_batch_meta", _POINTER, [ctypes.c_uint])
            self._user_type = self._bind(meta_holding, "nvds_get_user_meta_type", ctypes.c_int, [_POINTER])
            self._add_meta = self._bind(gst_holding, "gst_buffer_add_nvds_meta", _POINTER, [_POINTER] * 5)
            self._find = self._bind(gst_holding, "gst_buffer_get_nvds_batch_meta", _POINTER, [_POINTER])
            self._register = self._bind(gst, "nvds_meta_get_info", _POINTER, [])
            self._destroy = self._bind(meta, "nvds_destroy_batch_meta", ctypes.c_int, [_POINTER])
            self._copy = self._bind(meta, "nvds_batch_meta_copy_func", _POINTER, [_POINTER] * 2)
            for method, (symbol, count) in _RELEASING.items():
                setattr(self, method, self._bind(meta, symbol, None, [_POINTER] * count))
            self._confirm_layout()
            self.block = self._make_block()
            for method, (symbol, count) in _SHORT.items():
                setattr(self, method, self._short(symbol, count))
        except AttributeError as error:
            raise ContractError(f"{path} is not a metadata library of DeepStream 9: {error}") from error

    def _bind(self, lib: ctypes.CDLL, symbol: str, result: Any, arguments: list[Any]) -> Callable[..., Any]:
        function = getattr(lib, self._prefix + symbol)
        function.restype, function.argtypes = result, arguments
        return function  # type: ignore[no-any-return]

    def _short(self, symbol: str, count: int) -> Callable[..., int]:
        function = ctypes.cast(getattr(self._meta, self._prefix + symbol), _POINTER).value
        rest = (None,) * (3 - count)

        def short_call(*arguments: int) -> int:
            return call("sluice_single_call", True, self.block, function, *arguments, *rest)

        return short_call

    def _confirm_layout(self) -> None:
        batch = self._create(1)
        try:
            confirm(self.layout, batch, self.path)
        finally:
            self._destroy(batch)

    def _make_block(self) -> ctypes.Array[ctypes.c_char]:
        """Build the ``SluiceProvider`` struct that the bulk functions take (native/provider.h)."""
        names = native_library()
        for function in (names.sluice_function_name, names.sluice_field_name):
            function.restype, function.argtypes = ctypes.c_char_p, [ctypes.c_uint]
        pointers, offsets = b"", b""
        while (symbol := names.sluice_function_name(len(pointers) // 8)) is not None:
            library = self._gst if symbol.startswith(b"gst_") else self._meta
            function = getattr(library, self._prefix + symbol.decode())
            pointers += ctypes.cast(function, _POINTER).value.to_bytes(8, "little")  # type: ignore[union-attr]
        while (path := names.sluice_field_name(len(offsets) // 4)) is not None:
            offsets += self.layout.offset(path.decode()).to_bytes(4, "little")
        return ctypes.create_string_buffer(pointers + offsets)

    def create_batch(self, max_frames: int) -> int:
        """Create a batch with room for `max_frames` frames; ``max_frames_in_batch`` is set, as copies need it.

        Raises:
            ContractError: `max_frames` is below 1; such a batch crashes NVIDIA's library.
        """
        if max_frames < 1:
            raise ContractError(f"a batch needs room for at least 1 frame, not {max_frames}")
        batch = int(self._create(max_frames))
        field = batch + self.layout.offset("NvDsBatchMeta.max_frames_in_batch")
        ctypes.c_uint32.from_address(field).value = max_frames
        return batch

    def destroy_batch(self, batch: int) -> None:
        """Free a batch that no buffer owns, with all its elements.

        Raises:
            ContractError: the batch's pools do not hold all their elements; the rest of it is leaked.
        """
        if not self._destroy(batch):
            raise ContractError(f"the pools of batch {batch:#x} are damaged: an element is missing or was added")

    def copy_batch(self, batch: int) -> int:
        """Return a deep copy of a batch, as a copied buffer gets it: what is added at the front comes out reversed."""
        return int(self._copy(batch, None))

    def remove_frame(self, batch: int, frame: int) -> None:
        """Remove a frame, its display metas one by one first: NVIDIA's clear function damages the object pool."""
        self.clear_displays(frame)
        self._remove_frame(batch, frame)

    def clear_frames(self, batch: int) -> None:
        """Remove all frames of a batch; see `remove_frame`."""
        link = self._head(batch, "NvDsBatchMeta.frame_meta_list")
        while link:
            frame, link = (ctypes.c_size_t * 2).from_address(link)
            self.clear_displays(frame)
        self._clear_frames(batch, self._head(batch, "NvDsBatchMeta.frame_meta_list"))

    def clear_objects(self, frame: int) -> None:
        """Remove all objects of a frame."""
        self._clear_objects(frame, self._head(frame, "NvDsFrameMeta.obj_meta_list"))

    def clear_classifiers(self, obj: int) -> None:
        """Remove all classifier results of an object."""
        self._clear_classifiers(obj, self._head(obj, "NvDsObjectMeta.classifier_meta_list"))

    def clear_labels(self, classifier: int) -> None:
        """Remove all labels of a classifier result."""
        self._clear_labels(classifier, self._head(classifier, "NvDsClassifierMeta.label_info_list"))

    def clear_batch_users(self, batch: int) -> None:
        """Remove all user metas of a batch."""
        self._clear_batch_users(batch, self._head(batch, "NvDsBatchMeta.batch_user_meta_list"))

    def clear_frame_users(self, frame: int) -> None:
        """Remove all user metas of a frame."""
        self._clear_frame_users(frame, self._head(frame, "NvDsFrameMeta.frame_user_meta_list"))

    def clear_object_users(self, obj: int) -> None:
        """Remove all user metas of an object."""
        self._clear_object_users(obj, self._head(obj, "NvDsObjectMeta.obj_user_meta_list"))

    def clear_displays(self, frame: int) -> None:
        """Remove all display metas of a frame; see `remove_frame`."""
        while link := self._head(frame, "NvDsFrameMeta.display_meta_list"):
            self.remove_display(frame, ctypes.c_size_t.from_address(link).value)

    def _head(self, owner: int, path: str) -> int:
        return ctypes.c_size_t.from_address(owner + self.layout.offset(path)).value

    def user_meta_type(self, text: str) -> int:
        """Return the meta type of a descriptor such as ``"ACME.SCORE"``; the number is good in this process only."""
        return int(self._user_type(interned(text)))

    def find(self, buffer: Gst.Buffer) -> int:
        """Return the address of the (last) batch on a buffer, or 0.

        Raises:
            TypeError: not a ``Gst.Buffer``.
        """
        return self.find_address(gstref.buffer_address(buffer))

    def find_address(self, buffer: int) -> int:
        """`find` for the buffer at an address."""
        self._need_ownership()
        return self._find(buffer) or 0

    def attach(self, buffer: Gst.Buffer, batch: int) -> None:
        """Attach a batch to a buffer, which owns it from then on; the buffer may be shared.

        Raises:
            TypeError: not a ``Gst.Buffer``.
            ContractError: the buffer already carries a batch.
        """
        self.attach_address(gstref.buffer_address(buffer), batch)

    def attach_address(self, buffer: int, batch: int) -> None:
        """`attach` for the buffer at an address."""
        if self.find_address(buffer):
            raise ContractError(f"buffer {buffer:#x} already carries a batch meta; write into that one")
        base = self.layout.struct("NvDsBaseMeta")
        copy = ctypes.c_size_t.from_address(batch + base.offset("copy_func")).value
        release = ctypes.c_size_t.from_address(batch + base.offset("release_func")).value
        meta = self._add_meta(buffer, batch, None, copy, release)
        if not meta:
            raise ContractError(f"GStreamer refused a batch meta on buffer {buffer:#x}")
        struct = self.layout.struct("NvDsMeta")
        kind = self.layout.enum("GstNvDsMetaType")["NVDS_BATCH_GST_META"]
        ctypes.c_int32.from_address(meta + struct.offset("meta_type")).value = kind
        ctypes.c_size_t.from_address(meta + struct.offset("gst_to_nvds_meta_transform_func")).value = copy
        ctypes.c_size_t.from_address(meta + struct.offset("gst_to_nvds_meta_release_func")).value = release

    def detach_address(self, buffer: int) -> None:
        """Take the batches off the buffer at an address, whose only holder is the caller, and free them."""
        self._need_ownership()
        drop = native_library().sluice_drop_batches
        drop.restype, drop.argtypes = None, [_POINTER, _POINTER]
        drop(buffer, self._register())

    def _need_ownership(self) -> None:
        if not self._owner:
            raise ContractError(
                f"the {self.name} provider does not own NvDsMeta in this process; only the one of provider() "
                "may touch buffers"
            )

    def own_buffers(self) -> None:
        """Register ``NvDsMeta`` with GStreamer; called once per process, by `provider`.

        Raises:
            ContractError: another library has registered it, or its size is not the layout's.
        """
        info = self._register()
        if not info:
            raise ContractError(
                f"another library has registered NvDsMeta in this process; the {self.name} provider cannot own it"
            )
        confirm_gst_meta(self.layout, ctypes.c_size_t.from_address(info + _GST_META_INFO_SIZE).value, self.path)
        self._owner = True
