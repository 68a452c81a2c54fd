"""Batches with event messages, blobs and objects, built from descriptions as the golden samples have them."""

import ctypes

import numpy as np

from elements.batch_feed import Gst
from sluice.contract import bulk
from sluice.contract.metadata import BatchMeta, Lease, UserMeta
from sluice.messages.event_meta import CUSTOM_MSG_BLOB, DESCRIPTIONS, EVENT_MSG_META, CustomMsgInfo, EventMsgMeta

_BOX = ("bbox.top", "bbox.left", "bbox.width", "bbox.height")
_LOCATION = ("location.lat", "location.lon", "location.alt")
_COORDINATE = ("coordinate.x", "coordinate.y", "coordinate.z")
_TEXTS = ("ts", "objectId", "sensorStr", "videoPath", "otherAttrs")
_NUMBERS = ("type", "objType", "sensorId", "moduleId", "placeId", "frameId", "confidence", "trackingId", "objClassId")


class Samples:
    """Makes buffers whose event messages point to memory that this object owns: keep it until they are gone."""

    def __init__(self):
        self._kept = []

    def buffer(self, frames):
        """Return a buffer with a batch of frames, each described by a dict of the golden samples' form."""
        buffer = Gst.Buffer.new_allocate(None, 64 * 64 * 4, None)
        with Lease() as lease:
            batch = BatchMeta.attach(buffer, len(frames), lease)
            rows = np.zeros(len(frames), bulk.FRAME_ROW)
            for index, (row, given) in enumerate(zip(rows, frames, strict=True)):
                row["pad_index"], row["source_id"], row["frame_num"] = index, given["source_id"], given["frame_num"]
                row["ntp_timestamp"] = given.get("ntp_timestamp", 0)
                row["source_width"], row["source_height"] = given["source_frame_width"], given["source_frame_height"]
                row["pipeline_width"], row["pipeline_height"] = given["pipeline_width"], given["pipeline_height"]
            bulk.fill_frames(batch, rows)
            for frame, given in zip(batch.frames, frames, strict=True):
                for item in given.get("objects", ()):
                    _add_object(frame, item)
                for text in given.get("blobs", ()):
                    self._attach(frame, CUSTOM_MSG_BLOB, self._blob(text))
                for event in given.get("events", ()):
                    self._attach(frame, EVENT_MSG_META, self.event(event))
        return buffer

    def event(self, given):
        """Return an NvDsEventMsgMeta."""
        meta = self._keep(EventMsgMeta())
        meta.componentId = given.get("componentId", 0)
        for name in _NUMBERS:
            setattr(meta, name, given.get(name, 0))
        for name in _TEXTS:
            setattr(meta, name, given[name].encode() if name in given else None)
        for target, names in (("bbox", _BOX), ("location", _LOCATION), ("coordinate", _COORDINATE)):
            getattr(meta, target)[:] = [given.get(name, 0) for name in names]
        self._array(meta.objSignature, given.get("signature", ()), ctypes.c_double)
        self._array(meta.embedding, given.get("embedding", ()), ctypes.c_float)
        if "ext" in given:
            description = self._description(**given["ext"])
            meta.extMsg, meta.extMsgSize = ctypes.addressof(description), ctypes.sizeof(description)
        if "pose" in given:
            joints = given["pose"]["joints"]
            table = self._keep((ctypes.c_float * (4 * len(joints)))(*[value for joint in joints for value in joint]))
            meta.pose.joints, meta.pose.num_joints = ctypes.addressof(table), len(joints)
            meta.pose.pose_type = given["pose"]["type"]
        if "sv3dt" in given:
            tracked = given["sv3dt"]
            meta.has3DTracking, meta.visibility = True, tracked["visibility"]
            meta.ptImgFeet[:], meta.ptWorldFeet[:] = tracked["ptImgFeet"], tracked["ptWorldFeet"]
            self._array(meta.convexHull, tracked["convexHull"], ctypes.c_int32)
        return meta

    def _attach(self, frame, meta_type, data):
        user = UserMeta(frame.provider.acquire_user(frame.batch.address), frame.lease, frame.provider)
        user.meta_type, user.data = meta_type, ctypes.addressof(data)
        user.copy_func = user.release_func = user.context = 0
        frame.provider.add_user_to_frame(frame.address, user.address)

    def _description(self, kind, mask=(), **values):
        description = self._keep(DESCRIPTIONS[kind.removesuffix("_ext")]())
        for name, value in values.items():
            setattr(description, name, value.encode() if isinstance(value, str) else value)
        link = 0
        for polygon in reversed(mask):
            array = self._keep((ctypes.c_size_t * 2)())
            points = self._keep((ctypes.c_double * len(polygon))(*polygon))
            array[:] = [ctypes.addressof(points), len(polygon)]
            node = self._keep((ctypes.c_size_t * 3)(ctypes.addressof(array), link, 0))
            link = ctypes.addressof(node)
        description.mask = link
        return description

    def _blob(self, text):
        encoded = self._keep(ctypes.create_string_buffer(text.encode()))
        return self._keep(CustomMsgInfo(ctypes.addressof(encoded), len(text.encode())))

    def _array(self, target, values, kind):
        if values:
            target.data = ctypes.addressof(self._keep((kind * len(values))(*values)))
            target.count = len(values)

    def _keep(self, thing):
        self._kept.append(thing)
        return thing


def _add_object(frame, given):
    item = frame.add_object()
    item.object_id, item.class_id = given["object_id"], given["class_id"]
    item.unique_component_id, item.confidence = given["unique_component_id"], given["confidence"]
    item.label, item.box = given["obj_label"], tuple(given["rect"])
    for classifier in given.get("classifiers", ()):
        made = item.add_classifier(1, classifier["type"])
        for label in classifier["labels"]:
            made.add_label(label)
