"""``ObjectMetadata``, ``ClassifierMetadata`` and ``LabelInfo``."""

import operator
from collections.abc import Iterator
from typing import Any

from sluice.contract.metadata import Box, ClassifierMeta, ObjectMeta
from sluice.contract.metadata import LabelInfo as _LabelInfo
from sluice.pyservicemaker import osd
from sluice.pyservicemaker.base import ApiError, Reading, Wrapper, Writing, index, meta_types, of_type, refuse
from sluice.pyservicemaker.shapes import real, text_of
from sluice.pyservicemaker.user import UserMetadata, append_user_meta

_SIDES = ("left", "top", "width", "height")


def _id(value: Any) -> int:
    """Return an id, a whole number from 0 to 2⁶⁴-1.

    Raises:
        TypeError: it is anything else.
    """
    number = operator.index(value)
    if not 0 <= number < 1 << 64:
        raise TypeError(f"an id is a number from 0 to 2⁶⁴-1, not {value!r}")
    return number


class LabelInfo(Wrapper[_LabelInfo]):
    """One label of a classifier's result."""

    __slots__ = ()
    _shown = ("label", "class_id", "prob")
    label = Reading[_LabelInfo, str](lambda view: view.long_label or view.label, "The label.")
    class_id = Reading[_LabelInfo, int](lambda view: view.class_id, "Index of the class.")
    prob = Reading[_LabelInfo, float](lambda view: view.probability, "Probability, 0 to 1.")
    label_id = Reading[_LabelInfo, int](lambda view: view.label_id, "Index of the attribute.")
    num_classes = Reading[_LabelInfo, int](lambda view: view.num_classes, "Number of classes of the classifier.")


class ClassifierMetadata(Wrapper[ClassifierMeta]):
    """One classifier's result on an object."""

    __slots__ = ()
    _shown = ("unique_component_id", "n_labels", "classifier_type")
    n_labels = Reading[ClassifierMeta, int](lambda view: view.num_labels, "Number of labels.")
    unique_component_id = Reading[ClassifierMeta, int](
        lambda view: view.unique_component_id, "Which component made it."
    )
    classifier_type = Reading[ClassifierMeta, str](lambda view: view.classifier_type or "", "Name of the classifier.")

    def get_n_label(self, n: int, /) -> str:
        """Return the first label at or after place `n` that is not empty, or "" when there is none.

        Raises:
            IndexError: there is no label `n`.
        """
        labels = self._need().labels
        index(n, len(labels), "label")
        return next((text for label in labels[n:] if (text := label.long_label or label.label)), "")

    def get_label_info(self, n: int, /) -> LabelInfo:
        """Return label `n`.

        Raises:
            IndexError: there is no label `n`.
        """
        labels = self._need().labels
        return LabelInfo._wrap(labels[index(n, len(labels), "label")], self._session)


class ObjectMetadata(Wrapper[ObjectMeta]):
    """One object on a frame.

    Setting ``rect_params``, ``text_params`` or ``mask_params`` copies; reading one gives a reference, whose fields are
    the object's own.
    """

    __slots__ = ()
    _shown = ("class_id", "object_id", "label", "confidence", "rect_params")
    class_id = Writing[ObjectMeta, int]("class_id", operator.index, "Index of the class.")
    object_id = Writing[ObjectMeta, int]("object_id", _id, "The tracker's id; 2⁶⁴-1 when untracked.")
    unique_component_id = Writing[ObjectMeta, int]("unique_component_id", operator.index, "Which component made it.")
    confidence = Writing[ObjectMeta, float]("confidence", real, "The detector's confidence; -0.1 without a detection.")
    tracker_confidence = Writing[ObjectMeta, float]("tracker_confidence", real, "The tracker's confidence.")
    label = Writing[ObjectMeta, str]("label", text_of, "The label, cut to 127 bytes between two characters.")

    @property
    def rect_params(self) -> osd.Rect:
        """The box and how it is drawn, in pixels of the surface; a reference."""
        return osd.Rect._refer(self._need().rect)

    @rect_params.setter
    def rect_params(self, value: osd.Rect) -> None:
        if not isinstance(value, osd.Rect):
            refuse("rect_params", value, "an osd.Rect")
        value._store(self._need().rect)

    @property
    def text_params(self) -> osd.TextParams:
        """The text drawn beside the box; a reference."""
        return osd.TextParams._refer(self._need().text)

    @text_params.setter
    def text_params(self, value: osd.TextParams) -> None:
        if not isinstance(value, osd.TextParams):
            refuse("text_params", value, "an osd.TextParams")
        value._store(self._need().text)

    @property
    def mask_params(self) -> osd.Mask:
        """The mask over the box; a reference."""
        return osd.Mask._refer(self._need())

    @mask_params.setter
    def mask_params(self, value: osd.Mask) -> None:
        if not isinstance(value, osd.Mask):
            refuse("mask_params", value, "an osd.Mask")
        view = self._need()
        view.mask, view.mask_threshold = value.mask_array, value.threshold

    @property
    def nv_bbox_info(self) -> dict[str, float]:
        """The tracker's box, not clipped: ``left``, ``top``, ``width``, ``height``."""
        return dict(zip(_SIDES, self._need().tracker_box, strict=True))

    @nv_bbox_info.setter
    def nv_bbox_info(self, value: dict[str, float]) -> None:
        self._need().tracker_box = _box(value)

    @property
    def detector_bbox_info(self) -> dict[str, float]:
        """The detector's box, not clipped: ``left``, ``top``, ``width``, ``height``. Only in Sluice."""
        return dict(zip(_SIDES, self._need().detector_box, strict=True))

    @detector_bbox_info.setter
    def detector_bbox_info(self, value: dict[str, float]) -> None:
        self._need().detector_box = _box(value)

    @property
    def parent(self) -> "ObjectMetadata | None":
        """The object of the same frame this one was found in, or None. Only in Sluice."""
        parent = self._need().parent
        return None if parent is None else ObjectMetadata._wrap(parent, self._session)

    @parent.setter
    def parent(self, value: "ObjectMetadata | None") -> None:
        if value is not None and not isinstance(value, ObjectMetadata):
            refuse("parent", value, "an ObjectMetadata or None")
        if value is not None and value._session is not self._session:
            raise ApiError("an object's parent is an object of the same buffer")
        self._need().parent = None if value is None else value._need()

    @property
    def classifier_items(self) -> Iterator[ClassifierMetadata]:
        """The classifiers' results, the last added first."""
        return self._items(ClassifierMetadata, self._need().classifiers)

    @property
    def tensor_items(self) -> Iterator[UserMetadata]:
        """Raw outputs of networks; cast with ``as_tensor_output``."""
        return self._of_type("NVDSINFER_TENSOR_OUTPUT_META")

    @property
    def nvdsanalytics_obj_items(self) -> Iterator[UserMetadata]:
        """Findings of nvdsanalytics; cast with ``as_nvdsanalytics_obj``."""
        return self._of_type("NVDS_OBJ_META_NVDSANALYTICS")

    @property
    def obj_reid_items(self) -> Iterator[UserMetadata]:
        """Re-identification features; cast with ``as_obj_reid``."""
        return self._of_type("NVDS_TRACKER_OBJ_REID_META")

    def user_meta_items(self, meta_type: int) -> Iterator[UserMetadata]:
        """Return the user metas of one type, the last added first."""
        return self._items(UserMetadata, of_type(self._need().user_metas, meta_type))

    def append(self, meta: UserMetadata, /) -> None:
        """Put an acquired user meta on this object, at the front.

        Raises:
            TypeError: not a user meta.
            ApiError: it is on something already, or not of this batch.
        """
        append_user_meta(self, meta, self._need().provider.add_user_to_object, "ObjectMetadata.append")

    def _of_type(self, name: str) -> Iterator[UserMetadata]:
        return self.user_meta_items(meta_types(self._need())[name])


def _box(value: dict[str, float]) -> Box:
    if not isinstance(value, dict) or set(value) != set(_SIDES):
        raise TypeError(f"a box is a dict of {', '.join(_SIDES)}, not {value!r}")
    left, top, width, height = (real(value[side]) for side in _SIDES)
    return (left, top, width, height)
