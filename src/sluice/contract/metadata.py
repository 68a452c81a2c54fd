"""Views of the metadata on a buffer: batch, frames, objects, classifier results, display elements.

A view reads and writes the C structs in place, through the provider's layout. It is good as long as its `Lease`:
elements end the lease when their work on the buffer is over, and a later use raises ``StaleBufferError``. A view that
was made without a lease keeps the buffer alive itself.

Boxes are left, top, width, height in pixels of the surface the frame points to.
"""

import ctypes

import gi
import numpy as np
import numpy.typing as npt

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract._display import (
    ArrowParams,
    CircleParams,
    DisplayMeta,
    LineParams,
    RectParams,
    TextParams,
)
from sluice.contract._views import (
    MAX_LABEL_BYTES,
    Box,
    Color,
    Floats,
    Label,
    Lease,
    Misc,
    Text,
    View,
    bool_field,
    cut_label,
    float_field,
    glib,
    int_field,
)
from sluice.contract.provider import provider
from sluice.errors import ContractError

UNTRACKED = 0xFFFF_FFFF_FFFF_FFFF
"""The object_id of an object that no tracker has seen."""

__all__ = [
    "MAX_LABEL_BYTES",
    "UNTRACKED",
    "ArrowParams",
    "BatchMeta",
    "Box",
    "CircleParams",
    "ClassifierMeta",
    "Color",
    "DisplayMeta",
    "FrameMeta",
    "LabelInfo",
    "Lease",
    "LineParams",
    "ObjectMeta",
    "RectParams",
    "TextParams",
    "UserMeta",
    "View",
    "cut_label",
]


class UserMeta(View):
    """User data on a batch, frame or object; ``sluice.contract.user_meta`` makes and reads those of Sluice."""

    __slots__ = ()
    struct = "NvDsUserMeta"
    meta_type = int_field("base_meta.meta_type", "What the data is: an NvDsMetaType or a number of user_meta_type().")
    context = int_field("base_meta.uContext", "The uContext pointer.")
    copy_func = int_field("base_meta.copy_func", "Address of the function that copies the data.")
    release_func = int_field("base_meta.release_func", "Address of the function that releases the data.")
    data = int_field("user_meta_data", "Address of the data.")


class LabelInfo(View):
    """One attribute of a classifier result."""

    __slots__ = ()
    struct = "NvDsLabelInfo"
    num_classes = int_field("num_classes", "Number of classes of the classifier.")
    label = Label("result_label", "The label, at most 127 bytes.")
    long_label = Text("pResult_label", True, "The label when it is longer than that; usually None.")
    class_id = int_field("result_class_id", "Index of the class.")
    label_id = int_field("label_id", "Index of the attribute.")
    probability = float_field("result_prob", "Probability, 0 to 1.")


class ClassifierMeta(View):
    """One classifier's result on an object."""

    __slots__ = ()
    struct = "NvDsClassifierMeta"
    num_labels = int_field("num_labels", "Number of labels, kept by the library.")
    unique_component_id = int_field("unique_component_id", "Which component made it.")
    classifier_type = Text("classifier_type", False, "Name of the classifier; lost when the batch is copied.")

    @property
    def labels(self) -> list[LabelInfo]:
        """The labels in list order, the last added first."""
        return self._views("label_info_list", LabelInfo)

    def add_label(
        self, label: str, *, class_id: int = 0, label_id: int = 0, probability: float = 1.0, num_classes: int = 0
    ) -> LabelInfo:
        """Acquire a label, fill it and add it at the front."""
        batch = _batch_address(self)
        info = LabelInfo(self._provider.acquire_label(batch), self._lease, self._provider)
        try:
            info.label, info.class_id, info.label_id = label, class_id, label_id
            info.probability, info.num_classes = probability, num_classes
        finally:
            self._provider.add_label(self._address, info.address)
        return info


class ObjectMeta(View):
    """One object on a frame."""

    __slots__ = ()
    struct = "NvDsObjectMeta"
    unique_component_id = int_field("unique_component_id", "Which component made it.")
    class_id = int_field("class_id", "Index of the class; -1 for a whole-frame classifier's object.")
    object_id = int_field("object_id", "The tracker's id, or UNTRACKED.")
    confidence = float_field("confidence", "The detector's confidence; -0.1 when there was no detection.")
    tracker_confidence = float_field("tracker_confidence", "The tracker's confidence.")
    box = Floats("rect_params.left", ctypes.c_float, "Left, top, width, height in surface pixels: the box to use.")
    rotation = float_field("rect_params.rotation_angle", "Degrees, clockwise, about the box's centre.")
    detector_box = Floats("detector_bbox_info", ctypes.c_float, "The detector's box, not clipped.")
    tracker_box = Floats("tracker_bbox_info", ctypes.c_float, "The tracker's box, not clipped.")
    label = Label("obj_label", "The label, at most 127 bytes.")
    misc = Misc("misc_obj_info")
    mask_threshold = float_field("mask_params.threshold", "From which value on a mask pixel belongs to the object.")

    @property
    def rect(self) -> RectParams:
        """How the box is drawn."""
        return RectParams(self._field("rect_params"), self._lease, self._provider)

    @property
    def text(self) -> TextParams:
        """The text drawn beside the box."""
        return TextParams(self._field("text_params"), self._lease, self._provider)

    @property
    def parent(self) -> "ObjectMeta | None":
        """The object this one was found in."""
        parent = ctypes.c_size_t.from_address(self._field("parent")).value
        return ObjectMeta(parent, self._lease, self._provider) if parent else None

    @parent.setter
    def parent(self, value: "ObjectMeta | None") -> None:
        ctypes.c_size_t.from_address(self._field("parent")).value = value.address if value else 0

    @property
    def mask(self) -> npt.NDArray[np.float32] | None:
        """A copy of the mask, float32 ``(height, width)`` over the box, or None. Setting it copies, None frees."""
        data = ctypes.c_size_t.from_address(self._field("mask_params.data")).value
        width, height, size = (
            ctypes.c_uint32.from_address(self._field(f"mask_params.{name}")).value
            for name in ("width", "height", "size")
        )
        if not data or size != width * height * 4 or not size:
            return None
        return np.frombuffer(ctypes.string_at(data, size), np.float32).reshape(height, width).copy()

    @mask.setter
    def mask(self, value: npt.ArrayLike | None) -> None:
        mask = np.zeros((0, 0), np.float32) if value is None else np.ascontiguousarray(value, np.float32)
        if mask.ndim != 2 or not np.isfinite(mask).all():
            raise ContractError(f"a mask is a finite array (height, width), not of shape {mask.shape}")
        block = 0
        if mask.size:
            block = glib.g_malloc(mask.nbytes)
            ctypes.memmove(block, mask.tobytes(), mask.nbytes)
        cell = ctypes.c_size_t.from_address(self._field("mask_params.data"))
        glib.g_free(cell.value)
        cell.value = block
        for name, number in (("size", mask.nbytes), ("width", mask.shape[1]), ("height", mask.shape[0])):
            ctypes.c_uint32.from_address(self._field(f"mask_params.{name}")).value = number

    @property
    def classifiers(self) -> list[ClassifierMeta]:
        """The classifier results in list order, the last added first."""
        return self._views("classifier_meta_list", ClassifierMeta)

    @property
    def user_metas(self) -> list[UserMeta]:
        """The user metas in list order, the last added first."""
        return self._views("obj_user_meta_list", UserMeta)

    def add_classifier(self, unique_component_id: int, classifier_type: str | None = None) -> ClassifierMeta:
        """Acquire a classifier result and add it at the front, without labels yet."""
        batch = _batch_address(self)
        classifier = ClassifierMeta(self._provider.acquire_classifier(batch), self._lease, self._provider)
        self._provider.add_classifier(self._address, classifier.address)
        classifier.unique_component_id = unique_component_id
        classifier.classifier_type = classifier_type
        return classifier


class FrameMeta(View):
    """One frame of a batch."""

    __slots__ = ()
    struct = "NvDsFrameMeta"
    batch_id = int_field("batch_id", "Index of the frame's surface in the batch.")
    pad_index = int_field("pad_index", "Number of the mux's sink pad.")
    source_id = int_field("source_id", "Number of the source.")
    frame_num = int_field("frame_num", "Number of the frame in its source.")
    buf_pts = int_field("buf_pts", "Timestamp of the source's buffer in ns.")
    ntp_timestamp = int_field("ntp_timestamp", "Wall-clock time in ns since 1970.")
    num_surfaces_per_frame = int_field("num_surfaces_per_frame", "1, but for dewarped frames.")
    source_width = int_field("source_frame_width", "Width before the mux in pixels.")
    source_height = int_field("source_frame_height", "Height before the mux in pixels.")
    pipeline_width = int_field("pipeline_width", "Width the mux scaled to, or 0.")
    pipeline_height = int_field("pipeline_height", "Height the mux scaled to, or 0.")
    uri = Text("sensorInfo_meta.uri", True, "Where the source reads from, or None.")
    sensor_id = Text("sensorInfo_meta.sensor_id", True, "The sensor's id, or None.")
    sensor_name = Text("sensorInfo_meta.sensor_name", True, "The sensor's name, or None.")
    surface_type = int_field("surface_type", "The dewarper's surface type, or 0.")
    surface_index = int_field("surface_index", "The dewarper's surface index, or 0.")
    num_objects = int_field("num_obj_meta", "Number of objects, kept by the library.")
    misc = Misc("misc_frame_info")
    infer_done = bool_field("bInferDone", "Whether a detector saw this frame (and perhaps found nothing).")

    @property
    def batch(self) -> "BatchMeta":
        """The batch this frame belongs to."""
        return BatchMeta(_batch_address(self), self._lease, self._provider)

    @property
    def objects(self) -> list[ObjectMeta]:
        """The objects in list order, the last added first."""
        return self._views("obj_meta_list", ObjectMeta)

    @property
    def display_metas(self) -> list[DisplayMeta]:
        """The display metas in list order, the last added first."""
        return self._views("display_meta_list", DisplayMeta)

    @property
    def user_metas(self) -> list[UserMeta]:
        """The user metas in list order, the last added first."""
        return self._views("frame_user_meta_list", UserMeta)

    def add_object(self, parent: ObjectMeta | None = None) -> ObjectMeta:
        """Acquire an object, empty but for an untracked id, and add it at the front.

        Many objects at once are written by `sluice.contract.bulk.write_objects`, at a fraction of the cost.
        """
        obj = ObjectMeta(self._provider.acquire_object(_batch_address(self)), self._lease, self._provider)
        obj.object_id = UNTRACKED
        self._provider.add_object(self._address, obj.address, parent.address if parent else 0)
        return obj

    def add_display(self) -> DisplayMeta:
        """Acquire an empty display meta and add it at the front."""
        display = self._provider.acquire_display(_batch_address(self))
        self._provider.add_display(self._address, display)
        return DisplayMeta(display, self._lease, self._provider)


class BatchMeta(View):
    """The metadata of a batch of frames."""

    __slots__ = ()
    struct = "NvDsBatchMeta"
    max_frames = int_field("max_frames_in_batch", "For how many frames the batch has room.")
    misc = Misc("misc_batch_info")
    num_frames = int_field("num_frames_in_batch", "Number of frames, kept by the library.")

    @classmethod
    def of(cls, buffer: Gst.Buffer, lease: Lease | None = None) -> "BatchMeta | None":
        """Return the batch on a buffer, or None when it carries none.

        Args:
            buffer: the buffer; without `lease` the views keep it alive.
            lease: for how long the views may be used; the caller keeps the buffer alive until its end.

        Raises:
            TypeError: not a ``Gst.Buffer``.
        """
        owner = provider()
        address = owner.find(buffer)
        return cls(address, lease or Lease(buffer), owner) if address else None

    @classmethod
    def attach(cls, buffer: Gst.Buffer, max_frames: int, lease: Lease | None = None) -> "BatchMeta":
        """Create a batch with room for `max_frames` frames on a buffer, which owns it.

        Raises:
            TypeError: not a ``Gst.Buffer``.
            ContractError: the buffer already carries a batch.
        """
        owner = provider()
        batch = owner.create_batch(max_frames)
        try:
            owner.attach(buffer, batch)
        except BaseException:
            owner.destroy_batch(batch)
            raise
        return cls(batch, lease or Lease(buffer), owner)

    @property
    def frames(self) -> list[FrameMeta]:
        """The frames in batch order, which is the order of the surfaces."""
        return self._views("frame_meta_list", FrameMeta)

    @property
    def user_metas(self) -> list[UserMeta]:
        """The user metas in the order they were added."""
        return self._views("batch_user_meta_list", UserMeta)


def _batch_address(view: View) -> int:
    return ctypes.c_size_t.from_address(view._field("base_meta.batch_meta")).value
