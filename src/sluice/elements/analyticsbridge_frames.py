"""Sluice's objects as GStreamer's analytics metadata (GstAnalytics), and back.

============================  ======================================================================================
Sluice                        GstAnalytics
============================  ======================================================================================
object: box, score, label     object detection (``ODMtd``) of the label as a quark; coordinates in whole pixels
rotation, degrees clockwise   radians, from GStreamer 1.26 on; before, the upright box around the rotated one
object_id                     tracking (``TrackingMtd``), related to the detection
classifier result             classification (``ClsMtd``), related to the detection
============================  ======================================================================================
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import gi
import numpy as np

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst

from sluice.contract import bulk, gstref
from sluice.contract.batching import NVMM_FEATURE, SURFACE_FEATURE, memory_feature, original_buffer
from sluice.contract.metadata import UNTRACKED, BatchMeta, Box, FrameMeta, Lease, ObjectMeta
from sluice.elements.infer_frames import BatchReader
from sluice.elements.surface_sizes import SurfaceSizes
from sluice.elements.tracker_frames import clip
from sluice.errors import ConfigurationError, ContractError

_REMEMBERED = 10_000  # tracks whose first appearance is kept


def analytics_api() -> Any:
    """Return the GstAnalytics module.

    Raises:
        ConfigurationError: this GStreamer has none, with what has.
    """
    try:
        gi.require_version("GstAnalytics", "1.0")
        from gi.repository import GstAnalytics
    except (ValueError, ImportError) as error:
        raise ConfigurationError(
            f"{Gst.version_string()} here has no analytics metadata (GstAnalytics), which sluiceanalyticsbridge needs: "
            "GStreamer 1.24 and newer (Debian 13) have, with the package gir1.2-gst-plugins-bad-1.0"
        ) from error
    return GstAnalytics


def upright(box: Box, degrees: float) -> Box:
    """Return the upright box around a box, left, top, width, height, rotated about its centre."""
    left, top, width, height = box
    cosine, sine = abs(math.cos(math.radians(degrees))), abs(math.sin(math.radians(degrees)))
    wide, high = width * cosine + height * sine, width * sine + height * cosine
    return left + (width - wide) / 2, top + (height - high) / 2, wide, high


class ToGst:
    """Writes the objects of single frames as GstAnalytics metadata."""

    def __init__(self, api: Any) -> None:
        """Write with what `analytics_api` returned."""
        self._api = api
        self._rotates = hasattr(api.RelationMeta, "add_oriented_od_mtd")
        self._first_seen: dict[int, int] = {}

    def set_caps(self, caps: Gst.Caps) -> None:
        """Take the caps of the buffers that follow; they make no difference."""

    def convert(self, buffer: Gst.Buffer) -> int:
        """Write the objects of a frame beside themselves; return how many.

        Args:
            buffer: one frame; nobody else has a reference to it.

        Raises:
            ContractError: it carries no metadata, more than one frame, or is shared.
        """
        with Lease() as lease:
            batch = BatchMeta.of(buffer, lease)
            frames = [] if batch is None else batch.frames
            if len(frames) != 1:
                raise ContractError(
                    f"GStreamer's analytics metadata belong to one frame, and this buffer carries {len(frames)}; "
                    "sluicedemux, or sluiceinfer without a mux, must stand before sluiceanalyticsbridge"
                )
            objects = frames[0].objects[::-1]
            if objects:
                relations = self._relations(buffer)
                for obj in objects:
                    self._write(relations, obj, buffer.pts)
            return len(objects)

    def _relations(self, buffer: Gst.Buffer) -> Any:
        """The relation meta of the buffer, added if there is none."""
        found = self._api.buffer_get_analytics_relation_meta(buffer)
        if found is not None:
            return found
        # PyGObject lends the buffer of a virtual function without a reference of its own.
        if not gstref.is_writable(gstref.buffer_address(buffer)):
            raise ContractError("the buffer is shared, so that GStreamer lets nobody add metadata to it")
        found = self._api.buffer_add_analytics_relation_meta(buffer)
        if found is None:
            raise ContractError("GStreamer refused analytics metadata on the buffer")
        return found

    def _write(self, relations: Any, obj: ObjectMeta, pts: int) -> None:
        detection = self._write_detection(relations, obj)
        related = [self._write_classifier(relations, obj, index) for index in range(len(obj.classifiers))]
        if obj.object_id != UNTRACKED:
            first = self._first_seen.setdefault(obj.object_id, pts)
            if len(self._first_seen) > _REMEMBERED:
                del self._first_seen[next(iter(self._first_seen))]
            _, tracking = relations.add_tracking_mtd(obj.object_id, first)
            tracking.update_last_seen(pts)
            related.append(tracking)
        for item in related:
            if item is not None:
                relations.set_relation(self._api.RelTypes.RELATE_TO, detection.id, item.id)
                relations.set_relation(self._api.RelTypes.RELATE_TO, item.id, detection.id)

    def _write_detection(self, relations: Any, obj: ObjectMeta) -> Any:
        label = GLib.quark_from_string(obj.label or f"class {obj.class_id}")
        # The confidence of an object that only a tracker has is below 0 in Sluice.
        confidence, rotation = max(0.0, obj.confidence), obj.rotation
        if rotation and self._rotates:
            place = [round(value) for value in obj.box]
            return relations.add_oriented_od_mtd(label, *place, math.radians(rotation), confidence)[1]
        place = [round(value) for value in (upright(obj.box, rotation) if rotation else obj.box)]
        return relations.add_od_mtd(label, *place, confidence)[1]

    def _write_classifier(self, relations: Any, obj: ObjectMeta, index: int) -> Any | None:
        labels = obj.classifiers[::-1][index].labels[::-1]
        if not labels:
            return None
        levels = [label.probability for label in labels]
        names = [GLib.quark_from_string(label.long_label or label.label or f"{label.class_id}") for label in labels]
        return relations.add_cls_mtd(levels, names)[1]


class FromGst:
    """Reads GstAnalytics metadata of frames into objects."""

    def __init__(self, api: Any, *, unique_id: int, labels: Sequence[str]) -> None:
        """Read with what `analytics_api` returned.

        Args:
            api: the module.
            unique_id: the component of the objects.
            labels: names of the classes from 0 on; other names get the numbers after them as they come.
        """
        self._api = api
        self._unique_id = unique_id
        self._classes = {name: number for number, name in enumerate(labels)}
        self._number = 0
        self._batched = False
        self._reader: BatchReader | None = None
        self._sizes: SurfaceSizes | None = None

    def set_caps(self, caps: Gst.Caps) -> None:
        """Take the caps of the buffers that follow."""
        self._reader, self._sizes = BatchReader(caps), SurfaceSizes(caps)
        self._batched = memory_feature(caps) in (SURFACE_FEATURE, NVMM_FEATURE)

    def convert(self, buffer: Gst.Buffer) -> int:
        """Add objects to the frames of a buffer; return how many. A raw frame without metadata becomes a batch of one.

        Raises:
            ContractError: the mux scaled a frame, which leaves no metadata on it.
        """
        if self._reader is None or self._sizes is None:
            raise ContractError("a buffer came before its caps")
        count = 0
        with Lease() as lease:
            frames = self._reader.metadata(buffer, self._number, lease)
            self._number += 1
            sizes = self._sizes.of(buffer, [frame.batch_id for frame in frames])
            for frame, size in zip(frames, sizes, strict=True):
                count += self._convert_frame(buffer, frame, size)
        return count

    def _convert_frame(self, buffer: Gst.Buffer, frame: FrameMeta, size: tuple[int, int]) -> int:
        source = buffer
        if self._batched:
            if (frame.source_width, frame.source_height) != size:
                raise ContractError(
                    f"stream {frame.pad_index}: the mux scaled its frames, which lose GStreamer's analytics metadata "
                    "by that; put sluiceanalyticsbridge before the mux, or do not scale"
                )
            source = original_buffer(buffer, frame.batch_id)
        relations = self._api.buffer_get_analytics_relation_meta(source)
        found = [] if relations is None else list(self._detections(relations))
        if found:
            self._write(frame, relations, found, size)
        frame.infer_done = True
        return len(found)

    def _detections(self, relations: Any) -> Iterator[tuple[int, Any]]:
        for index in range(self._api.relation_get_length(relations)):
            is_detection, detection = relations.get_od_mtd(index)
            if is_detection:
                yield index, detection

    def _write(self, frame: FrameMeta, relations: Any, found: Sequence[tuple[int, Any]], size: tuple[int, int]) -> None:
        places = np.array([_location(detection) for _, detection in found], np.float32)
        rotation = np.degrees(places[:, 4])
        boxes, on_surface = clip(places[:, :4], np.array(size, np.float32), rotation)
        kept = [pair for pair, inside in zip(found, on_surface, strict=True) if inside]
        names = [GLib.quark_to_string(detection.get_obj_type()) or "" for _, detection in kept]
        addresses = bulk.write_objects(
            frame,
            boxes[on_surface],
            places[on_surface, 5],
            np.array([self._classes.setdefault(name, len(self._classes)) for name in names], np.int32),
            names,
            unique_id=self._unique_id,
            rotation=rotation[on_surface],
        )
        for (index, _), address in zip(kept, addresses.tolist(), strict=True):
            self._write_related(relations, index, ObjectMeta(address, frame.lease, frame.provider))

    def _write_related(self, relations: Any, index: int, obj: ObjectMeta) -> None:
        for other in range(self._api.relation_get_length(relations)):
            if not (int(relations.get_relation(index, other)) or int(relations.get_relation(other, index))):
                continue
            is_tracking, tracking = relations.get_tracking_mtd(other)
            if is_tracking:
                known, identity, *_ = tracking.get_info()
                obj.object_id = identity if known else UNTRACKED
            is_classification, classification = relations.get_cls_mtd(other)
            if is_classification:
                self._write_classification(classification, obj)

    def _write_classification(self, classification: Any, obj: ObjectMeta) -> None:
        classifier = obj.add_classifier(self._unique_id)
        for number in range(classification.get_length()):
            name = GLib.quark_to_string(classification.get_quark(number)) or ""
            classifier.add_label(name, class_id=number, probability=classification.get_level(number))


def _location(detection: Any) -> tuple[float, ...]:
    """Left, top, width, height, rotation in radians, confidence."""
    if hasattr(detection, "get_oriented_location"):
        return tuple(detection.get_oriented_location())[1:]
    left, top, width, height, confidence = tuple(detection.get_location())[1:]
    return left, top, width, height, 0.0, confidence
