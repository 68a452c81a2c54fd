"""The names that NVIDIA's package has in its compiled part, for programs that import them from there."""

from sluice.pyservicemaker import osd
from sluice.pyservicemaker.analytics import AnalyticsFrameMeta, AnalyticsObjInfo
from sluice.pyservicemaker.buffer import Buffer
from sluice.pyservicemaker.display import DisplayMetadata
from sluice.pyservicemaker.event_message import EventMessageUserMetadata
from sluice.pyservicemaker.frames import BatchMetadata, FrameMetadata
from sluice.pyservicemaker.inference import SegmentationUserMetadata, TensorOutputUserMetadata
from sluice.pyservicemaker.objects import ClassifierMetadata, LabelInfo, ObjectMetadata
from sluice.pyservicemaker.preprocess import PreprocessBatchUserMetadata, PreprocessTensorMetadata, RoiMetadata
from sluice.pyservicemaker.probes import BatchMetadataOperator, BufferObserver, BufferOperator, Probe
from sluice.pyservicemaker.reid import ObjectReidUserMetadata
from sluice.pyservicemaker.tensor import ColorFormat, Tensor, as_tensor
from sluice.pyservicemaker.tracking import (
    Object3DBBoxUserMetadata,
    ObjectConvexHullUserMetadata,
    ObjectImageFootLocationUserMetadata,
    ObjectVisibilityUserMetadata,
    ObjectWorldFootLocationUserMetadata,
    TrackerPastFrameUserMetadata,
)
from sluice.pyservicemaker.user import UserMetadata

__all__ = [
    "AnalyticsFrameMeta",
    "AnalyticsObjInfo",
    "BatchMetadata",
    "BatchMetadataOperator",
    "Buffer",
    "BufferObserver",
    "BufferOperator",
    "ClassifierMetadata",
    "ColorFormat",
    "DisplayMetadata",
    "EventMessageUserMetadata",
    "FrameMetadata",
    "LabelInfo",
    "Object3DBBoxUserMetadata",
    "ObjectConvexHullUserMetadata",
    "ObjectImageFootLocationUserMetadata",
    "ObjectMetadata",
    "ObjectReidUserMetadata",
    "ObjectVisibilityUserMetadata",
    "ObjectWorldFootLocationUserMetadata",
    "PreprocessBatchUserMetadata",
    "PreprocessTensorMetadata",
    "Probe",
    "RoiMetadata",
    "SegmentationUserMetadata",
    "Tensor",
    "TensorOutputUserMetadata",
    "TrackerPastFrameUserMetadata",
    "UserMetadata",
    "as_tensor",
    "osd",
]
