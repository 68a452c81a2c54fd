"""``UserMetadata``: data of any kind on a batch, frame or object, and how to read them as what they are."""

import ctypes
import functools
import json
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from sluice.contract import user_meta
from sluice.contract._native import library
from sluice.contract.metadata import UserMeta
from sluice.pyservicemaker.base import ApiError, Session, Wrapper, Writing, meta_types, refuse
from sluice.pyservicemaker.shapes import unsigned

if TYPE_CHECKING:
    from sluice.pyservicemaker.analytics import AnalyticsFrameMeta, AnalyticsObjInfo
    from sluice.pyservicemaker.inference import SegmentationUserMetadata, TensorOutputUserMetadata
    from sluice.pyservicemaker.preprocess import PreprocessBatchUserMetadata
    from sluice.pyservicemaker.reid import ObjectReidUserMetadata

U = TypeVar("U", bound="UserMetadata")

_ReleaseFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class UserMetadata(Wrapper[UserMeta]):
    """Data on a batch, a frame or an object.

    The ``as_…`` methods always return an object; where the data are of another type it is falsy, its numbers are 0 and
    its containers empty.
    """

    __slots__ = ()
    _shown: ClassVar[tuple[str, ...]] = ("meta_type",)
    _absent = "there is no user meta, or it is of another type"
    _type_name: ClassVar[str] = ""
    meta_type = Writing[UserMeta, int]("meta_type", unsigned, "What the data are: a number of ``NvDsMetaType``.")

    def __bool__(self) -> bool:
        """Whether there is such a user meta."""
        return self._view is not None

    def as_tensor_output(self) -> "TensorOutputUserMetadata":
        """Return it as the raw outputs of a network."""
        from sluice.pyservicemaker.inference import TensorOutputUserMetadata

        return self._cast(TensorOutputUserMetadata)

    def as_segmentation(self) -> "SegmentationUserMetadata":
        """Return it as the class of each pixel."""
        from sluice.pyservicemaker.inference import SegmentationUserMetadata

        return self._cast(SegmentationUserMetadata)

    def as_preprocess_batch(self) -> "PreprocessBatchUserMetadata":
        """Return it as the regions that nvdspreprocess prepared."""
        from sluice.pyservicemaker.preprocess import PreprocessBatchUserMetadata

        return self._cast(PreprocessBatchUserMetadata)

    def as_nvdsanalytics_obj(self) -> "AnalyticsObjInfo":
        """Return it as nvdsanalytics' findings on an object."""
        from sluice.pyservicemaker.analytics import AnalyticsObjInfo

        return self._cast(AnalyticsObjInfo)

    def as_nvdsanalytics_frame(self) -> "AnalyticsFrameMeta":
        """Return it as nvdsanalytics' findings on a frame."""
        from sluice.pyservicemaker.analytics import AnalyticsFrameMeta

        return self._cast(AnalyticsFrameMeta)

    def as_obj_reid(self) -> "ObjectReidUserMetadata":
        """Return it as an object's re-identification features."""
        from sluice.pyservicemaker.reid import ObjectReidUserMetadata

        return self._cast(ObjectReidUserMetadata)

    def set_user_data_json(self, data: Any, meta_type: int) -> None:
        """Store a value as JSON text, a C string that is copied and freed with the metadata.

        Args:
            data: whatever ``json.dumps`` takes.
            meta_type: the type to give the user meta.

        Raises:
            ApiError: the value cannot be written as JSON.
        """
        try:
            text = json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ApiError(f"the user data cannot be written as JSON: {error}") from error
        view, number = self._need(), unsigned(meta_type)
        release_data(view)
        hooks = _text_hooks()
        view.data = _owned_text(view, text)
        view.copy_func, view.release_func, view.meta_type = hooks[0], hooks[1], number

    def get_user_data_json(self) -> Any:
        """Return the stored value, or None when there is none.

        Raises:
            ContractError: the data are somebody else's, or no JSON.
        """
        view = self._need()
        return user_meta.payload_json(view) if view.data else None

    def _cast(self, kind: type[U]) -> U:
        return kind._wrap(self._view if self._is(kind) else None, self._session)

    def _is(self, kind: "type[UserMetadata]") -> bool:
        view = self._view
        return view is not None and view.meta_type == meta_types(view)[kind._type_name] and view.data != 0

    def _data(self) -> int:
        """Return the address of the data, or 0 where the user meta is of another type."""
        return 0 if self._view is None else self._need().data


def acquired_user_meta(kind: type[U], session: Session) -> U:
    """Return a fresh user meta from the batch's pool, without data.

    Raises:
        ApiError: the buffer carries no batch metadata.
    """
    batch = session.batch
    if batch is None:
        raise ApiError("the buffer carries no batch metadata to acquire from; a mux makes it")
    view = UserMeta(batch.provider.acquire_user(batch.address), session.lease, batch.provider)
    # Pools hand out user metas as their last user left them.
    view.context = view.copy_func = view.release_func = view.data = 0
    view.meta_type = meta_types(view)[kind._type_name or "NVDS_USER_META"]
    session.acquired(view)
    return kind._wrap(view, session)


def append_user_meta(owner: Wrapper[Any], meta: Any, add: Any, caller: str) -> None:
    """Put an acquired user meta on its owner with the provider's function `add`.

    Raises:
        TypeError: not a user meta.
        ApiError: it is on something already, empty, or of another batch.
    """
    if not isinstance(meta, UserMetadata):
        refuse(caller, meta, "a UserMetadata")
    check_acquired(owner, meta, caller)
    add(owner._need().address, meta._need().address)
    owner._owner().appended(meta._need())


def check_acquired(owner: Wrapper[Any], meta: Wrapper[Any], caller: str) -> None:
    """Check that an element was acquired from the owner's batch and is in no list.

    Raises:
        ApiError: it is not so; the element would be in two lists, or in another batch's.
    """
    if not owner._owner().is_acquired(meta._need()):
        raise ApiError(
            f"{caller}() needs metadata acquired from this buffer's batch and not appended before; {meta!r} is not"
        )


def release_data(view: UserMeta) -> None:
    """Let go of a user meta's data, as its maker wants it."""
    if view.data and view.release_func:
        _ReleaseFunction(view.release_func)(view.address, None)
    view.data = view.copy_func = view.release_func = 0


@functools.cache
def _text_hooks() -> tuple[int, int]:
    """Return the addresses of the functions that copy and release a text."""
    names = ("sluice_text_copy", "sluice_text_release")
    copy, release = (ctypes.cast(getattr(library(), name), ctypes.c_void_p).value or 0 for name in names)
    return copy, release


def _owned_text(view: UserMeta, text: bytes) -> int:
    """Return a C string for a user meta: what the function that copies one makes of a user meta that holds `text`."""
    struct = view.provider.layout.struct("NvDsUserMeta")
    model = ctypes.create_string_buffer(struct.size)
    held = ctypes.create_string_buffer(text)
    at = ctypes.addressof(model) + struct.offset("user_meta_data")
    ctypes.c_size_t.from_address(at).value = ctypes.addressof(held)
    copy = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(_text_hooks()[0])
    return int(copy(ctypes.addressof(model), None))
