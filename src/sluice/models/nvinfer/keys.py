"""Every key of nvinfer's configuration files: type, default, check and what Sluice makes of it, in one table per group.

A field of `Properties` or `ClassAttributes` is one key: its default is nvinfer's, its metadata holds the `Key`.
"""

# ruff: noqa: RUF009 (the defaults are calls on purpose: each makes the field of one key)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum, IntEnum
from typing import Any

from sluice.models.nvinfer.document import Form
from sluice.models.nvinfer.values import (
    Reader,
    at_least,
    between,
    checked,
    exactly,
    list_of,
    one_of,
    read_boolean,
    read_integer,
    read_number,
    read_text,
)

MOST_CLASSES = 100_000  # each has its attributes in memory; no detector has nearly as many
NEVER_AGAIN = 2**31 - 1  # INT_MAX, the default of secondary-reinfer-interval
Colour = tuple[float, float, float, float]


class NetworkType(IntEnum):
    """Values of network-type."""

    DETECTOR = 0
    CLASSIFIER = 1
    SEGMENTATION = 2
    INSTANCE_SEGMENTATION = 3
    OTHER = 100


class ClusterMode(IntEnum):
    """Values of cluster-mode."""

    GROUP_RECTANGLES = 0
    DBSCAN = 1
    NMS = 2
    HYBRID = 3
    NONE = 4


class Fate(Enum):
    """What Sluice makes of a key that is given."""

    MODEL = "honoured by the model"
    ELEMENT = "honoured by the element"
    RUNTIME = "used when TensorRT builds or runs the engine; of no meaning for another runtime"
    IGNORED = "accepted and without effect; a warning says so"
    NEEDLESS = "accepted and not needed here: the results are the same without it"
    REFUSED = "refused unless it is off"


@dataclass(frozen=True)
class Key:
    """One key of a configuration file.

    Attributes:
        name: as it is written in the file.
        read: turns its text into its value.
        fate: what Sluice makes of it.
        meaning: what it means; for ignored and refused keys why.
        path: its value is a path, relative to the file's folder.
        form: the only form of file that has this key; None for both.
    """

    name: str
    read: Reader
    fate: Fate
    meaning: str
    path: bool = False
    form: Form | None = None


def _key(
    name: str,
    default: Any,
    read: Callable[[str, Form], Any],
    meaning: str,
    fate: Fate = Fate.MODEL,
    *,
    path: bool = False,
    form: Form | None = None,
) -> Any:
    return field(default=default, metadata={"key": Key(name, read, fate, meaning, path, form)})


def _flag(name: str, meaning: str, fate: Fate = Fate.MODEL) -> Any:
    return _key(name, False, read_boolean, meaning, fate)


def _text(name: str, meaning: str, fate: Fate = Fate.MODEL, *, path: bool = False) -> Any:
    return _key(name, None, read_text, meaning, fate, path=path)


_integers = list_of(read_integer)
_texts = list_of(read_text)
_colour = exactly(4, list_of(between(read_number, 0, 1)))
_offsets = checked(list_of(read_number), lambda values: 1 <= len(values) <= 4, "1 to 4 numbers between ';'")
_old = "of releases before 9; an ONNX file or an engine beside it is used, alone it is refused"
_debug = "debugging output of nvinfer that Sluice does not write"


@dataclass(frozen=True)
class Properties:
    """The group ``[property]``. A field left out of the file has nvinfer's default."""

    gie_unique_id: int = _key(
        "gie-unique-id", 15, at_least(read_integer, 1), "written to unique_component_id", Fate.ELEMENT
    )
    process_mode: int = _key("process-mode", 1, one_of({1: "frames", 2: "objects"}), "what is inferred", Fate.ELEMENT)
    interval: int = _key("interval", 0, at_least(read_integer, 0), "batches left out after each", Fate.ELEMENT)
    gpu_id: int = _key("gpu-id", 0, at_least(read_integer, 0), "the device, where the runtime uses one", Fate.RUNTIME)
    batch_size: int = _key("batch-size", 1, between(read_integer, 1, 1024), "most frames in a call", Fate.ELEMENT)

    network_type: NetworkType = _key(
        "network-type",
        NetworkType.DETECTOR,
        one_of({0: "detector", 1: "classifier", 2: "segmentation", 3: "instance segmentation", 100: "other"}),
        "what the outputs are",
    )
    is_classifier: bool | None = _key(
        "is-classifier", None, read_boolean, "old form of network-type 0 or 1", form="key-file"
    )
    network_mode: int = _key(
        "network-mode", 0, one_of({0: "FP32", 1: "INT8", 2: "FP16", 3: "BEST"}), "precision", Fate.RUNTIME
    )
    model_engine_file: str | None = _text("model-engine-file", "TensorRT engine, used where TensorRT is", path=True)
    onnx_file: str | None = _text("onnx-file", "the network", path=True)
    labelfile_path: str | None = _text("labelfile-path", "label file", path=True)
    int8_calib_file: str | None = _text("int8-calib-file", "INT8 calibration", Fate.RUNTIME, path=True)
    model_file: str | None = _text("model-file", f"Caffe weights, {_old}", path=True)
    proto_file: str | None = _text("proto-file", f"Caffe network, {_old}", path=True)
    uff_file: str | None = _text("uff-file", f"UFF network, {_old}", path=True)
    uff_input_order: int | None = _key("uff-input-order", None, read_integer, f"of a UFF network, {_old}")
    uff_input_blob_name: str | None = _text("uff-input-blob-name", f"of a UFF network, {_old}")
    input_dims: tuple[int, ...] | None = _key(
        "input-dims", None, exactly(4, _integers), f"c;h;w;order of an old network, {_old}"
    )
    uff_input_dims: tuple[int, ...] | None = _key(
        "uff-input-dims", None, exactly(4, _integers), f"c;h;w;order of a UFF network, {_old}"
    )
    tlt_encoded_model: str | None = _text("tlt-encoded-model", f"encrypted TAO network, {_old}", path=True)
    tlt_model_key: str | None = _text("tlt-model-key", f"key of an encrypted TAO network, {_old}")
    workspace_size: int = _key("workspace-size", 0, at_least(read_integer, 0), "MiB for building", Fate.RUNTIME)
    force_implicit_batch_dim: bool = _flag("force-implicit-batch-dim", "gone from TensorRT 10", Fate.NEEDLESS)
    infer_dims: tuple[int, int, int] | None = _key(
        "infer-dims",
        None,
        checked(exactly(3, _integers), lambda dims: min(dims) > 0, "c;h;w, each 1 or more"),
        "channels, height and width of the input, in this order whatever network-input-order says",
    )
    network_input_order: int = _key("network-input-order", 0, one_of({0: "NCHW", 1: "NHWC"}), "layout of the input")
    output_blob_names: tuple[str, ...] = _key("output-blob-names", (), _texts, "the outputs to read; all if empty")
    output_io_formats: tuple[str, ...] = _key(
        "output-io-formats", (), _texts, "layer:precision:format of outputs", Fate.RUNTIME
    )
    layer_device_precision: tuple[str, ...] = _key(
        "layer-device-precision", (), _texts, "layer:precision:device", Fate.RUNTIME
    )
    enable_dla: bool = _flag("enable-dla", "runs on a DLA core, which only Jetson has", Fate.RUNTIME)
    use_dla_core: int = _key("use-dla-core", -1, read_integer, "which DLA core", Fate.RUNTIME)
    strongly_typed: bool = _flag("strongly-typed", "TensorRT's strongly typed networks", Fate.RUNTIME)
    dynamic_properties: str | None = _text("dynamic-properties", "mostly printed by nvinfer", Fate.IGNORED)
    warmup_engine: bool = _flag(
        "warmup-engine", "Sluice always runs a model once before the first frame", Fate.NEEDLESS
    )

    model_color_format: int = _key(
        "model-color-format", 0, one_of({0: "RGB", 1: "BGR", 2: "GRAY"}), "order of the input's channels"
    )
    net_scale_factor: float = _key("net-scale-factor", 1.0, read_number, "factor on (pixel - mean)")
    offsets: tuple[float, ...] | None = _key("offsets", None, _offsets, "mean per channel")
    mean_file: str | None = _text("mean-file", "mean picture (PPM), in place of offsets", path=True)
    maintain_aspect_ratio: bool = _flag("maintain-aspect-ratio", "pad instead of stretching")
    symmetric_padding: bool = _flag("symmetric-padding", "pad on both sides; only with maintain-aspect-ratio")
    scaling_filter: int = _key(
        "scaling-filter",
        0,
        one_of({0: "nearest", 1: "linear", 2: "cubic", 3: "super", 4: "Lanczos", 5: "nicest", 6: "default"}),
        "how pixels are interpolated",
    )
    scaling_compute_hw: int = _key(
        "scaling-compute-hw",
        0,
        one_of({0: "default", 1: "GPU", 2: "VIC"}),
        "Sluice scales where the surface is",
        Fate.NEEDLESS,
    )

    custom_lib_path: str | None = _text(
        "custom-lib-path", "C++ code that Sluice cannot run; see the functions", path=True
    )
    parse_bbox_func_name: str | None = _text("parse-bbox-func-name", "the decoder, where its name is well known")
    parse_bbox_instance_mask_func_name: str | None = _text(
        "parse-bbox-instance-mask-func-name", "as parse-bbox-func-name"
    )
    parse_classifier_func_name: str | None = _text("parse-classifier-func-name", "as parse-bbox-func-name")
    parse_segmentation_func_name: str | None = _text("parse-segmentation-func-name", "as parse-bbox-func-name")
    engine_create_func_name: str | None = _text(
        "engine-create-func-name", "builds engines with the custom library; Sluice opens the file itself", Fate.NEEDLESS
    )
    custom_network_config: str | None = _text(
        "custom-network-config", "input of the custom library's engine builder; alone it is refused", path=True
    )

    num_detected_classes: int = _key(
        "num-detected-classes", 0, between(read_integer, 0, MOST_CLASSES), "classes from this number on are dropped"
    )
    cluster_mode: ClusterMode = _key(
        "cluster-mode",
        ClusterMode.GROUP_RECTANGLES,
        one_of({0: "group rectangles", 1: "DBSCAN", 2: "NMS", 3: "DBSCAN and NMS", 4: "none"}),
        "how boxes of one object become one",
    )
    enable_dbscan: bool = _flag("enable-dbscan", "old form of cluster-mode 1")
    crop_objects_to_roi_boundary: bool = _flag(
        "crop-objects-to-roi-boundary", "cut boxes at roi-top-offset and roi-bottom-offset instead of dropping them"
    )
    filter_out_class_ids: tuple[int, ...] = _key("filter-out-class-ids", (), _integers, "classes never attached")
    operate_on_gie_id: int = _key(
        "operate-on-gie-id", -1, read_integer, "whose objects are inferred; -1: anybody's", Fate.ELEMENT
    )
    operate_on_class_ids: tuple[int, ...] = _key(
        "operate-on-class-ids", (), _integers, "classes of objects that are inferred; all if empty", Fate.ELEMENT
    )
    secondary_reinfer_interval: int = _key(
        "secondary-reinfer-interval",
        NEVER_AGAIN,
        read_integer,
        "frames until an object is inferred again",
        Fate.ELEMENT,
    )
    input_object_min_width: int = _key(
        "input-object-min-width", 0, at_least(read_integer, 0), "px; smaller objects are not inferred", Fate.ELEMENT
    )
    input_object_min_height: int = _key(
        "input-object-min-height", 0, at_least(read_integer, 0), "px; lower objects are not inferred", Fate.ELEMENT
    )
    input_object_max_width: int = _key(
        "input-object-max-width", 0, at_least(read_integer, 0), "px; 0: no limit", Fate.ELEMENT
    )
    input_object_max_height: int = _key(
        "input-object-max-height", 0, at_least(read_integer, 0), "px; 0: no limit", Fate.ELEMENT
    )
    classifier_type: str | None = _text("classifier-type", "written into classifier metadata", Fate.ELEMENT)
    classifier_threshold: float = _key(
        "classifier-threshold", 0.0, at_least(read_number, 0), "a class must be more probable than this"
    )
    classifier_async_mode: bool = _flag("classifier-async-mode", "results appear on later frames", Fate.ELEMENT)
    segmentation_threshold: float = _key(
        "segmentation-threshold", 0.0, read_number, "a pixel's class must be more probable; edge of masks"
    )
    segmentation_output_order: int = _key(
        "segmentation-output-order", 0, one_of({0: "NCHW", 1: "NHWC"}), "layout of the output"
    )
    output_tensor_meta: bool = _flag("output-tensor-meta", "attach the raw outputs", Fate.ELEMENT)
    output_instance_mask: bool = _flag("output-instance-mask", "attach masks; needs cluster-mode 4")

    input_tensor_from_meta: bool = _flag(
        "input-tensor-from-meta",
        "the input would come ready-made from nvdspreprocess; Sluice makes it from the surface",
        Fate.REFUSED,
    )
    overwrite_input_tensor: bool = _flag("overwrite-input-tensor", "puts a file in place of every frame", Fate.REFUSED)
    ip_tensor_file: str | None = _text("ip-tensor-file", "the file of overwrite-input-tensor", Fate.NEEDLESS, path=True)
    overwrite_output_tensor: bool = _flag(
        "overwrite-output-tensor", "puts files in place of the network's outputs", Fate.REFUSED
    )
    op_tensor_files: tuple[str, ...] = _key(
        "op-tensor-files", (), _texts, "the files of overwrite-output-tensor", Fate.NEEDLESS
    )
    stabilize_buffer_count: int = _key(
        "stabilize-buffer-count",
        0,
        at_least(read_integer, 0),
        "nvinfer drops that many batches at the start; Sluice drops none",
        Fate.REFUSED,
    )
    raw_output_file_write: bool = _flag(
        "raw-output-file-write",
        "writes the outputs of every call into files, named as nvinfer names them",
        Fate.ELEMENT,
    )
    dump_input_tensor: bool = _flag("dump-input-tensor", _debug, Fate.IGNORED)
    dump_output_tensor: bool = _flag("dump-output-tensor", _debug, Fate.IGNORED)
    disable_output_host_copy: bool = _flag(
        "disable-output-host-copy", "decoding needs the outputs in host memory, so they are copied", Fate.NEEDLESS
    )
    tensor_meta_pool_size: int = _key(
        "tensor-meta-pool-size", 2, at_least(read_integer, 1), "outputs are made as they are needed", Fate.NEEDLESS
    )
    auto_inc_mem: int = _key("auto-inc-mem", 1, read_integer, "outputs are made as they are needed", Fate.NEEDLESS)
    max_gpu_mem_per: float = _key("max-gpu-mem-per", 99.0, read_number, "limit of nvinfer's output pool", Fate.NEEDLESS)


@dataclass(frozen=True)
class ClassAttributes:
    """The group ``[class-attrs-all]``, and ``[class-attrs-N]`` on top of it for class N."""

    pre_cluster_threshold: float = _key("pre-cluster-threshold", 0.2, read_number, "least confidence before clustering")
    threshold: float | None = _key("threshold", None, read_number, "old form of pre-cluster-threshold", form="key-file")
    post_cluster_threshold: float = _key(
        "post-cluster-threshold", 0.0, read_number, "confidence after clustering, see cluster-mode"
    )
    nms_iou_threshold: float = _key(
        "nms-iou-threshold", 0.3, between(read_number, 0, 1), "overlap above which the weaker box goes"
    )
    topk: int = _key("topk", -1, at_least(read_integer, 0), "most boxes of the class; without the key no limit")
    eps: float = _key("eps", 0.0, at_least(read_number, 0), "DBSCAN: largest 1 - IoU of neighbours")
    min_boxes: int = _key("minBoxes", 0, at_least(read_integer, 0), "DBSCAN: least boxes of a cluster's core; 0: off")
    dbscan_min_score: float = _key(
        "dbscan-min-score", 0.0, at_least(read_number, 0), "DBSCAN: least sum of a cluster's confidences"
    )
    group_threshold: int = _key(
        "group-threshold", 0, read_integer, "of groupRectangles, which no usual build of nvinfer has", Fate.IGNORED
    )
    roi_top_offset: int = _key("roi-top-offset", 0, at_least(read_integer, 0), "px of the surface")
    roi_bottom_offset: int = _key("roi-bottom-offset", 0, at_least(read_integer, 0), "px of the surface")
    detected_min_w: int = _key("detected-min-w", 0, at_least(read_integer, 0), "px")
    detected_min_h: int = _key("detected-min-h", 0, at_least(read_integer, 0), "px")
    detected_max_w: int = _key("detected-max-w", 0, at_least(read_integer, 0), "px; 0: no limit")
    detected_max_h: int = _key("detected-max-h", 0, at_least(read_integer, 0), "px; 0: no limit")
    border_color: Colour = _key("border-color", (1.0, 0.0, 0.0, 1.0), _colour, "r;g;b;a, each 0..1")
    bg_color: Colour | None = _key("bg-color", None, _colour, "r;g;b;a of the box's inside; none if not given")


def keys_of(table: type[Properties] | type[ClassAttributes]) -> dict[str, tuple[str, Key]]:
    """Name in the file to (field, key)."""
    return {item.metadata["key"].name: (item.name, item.metadata["key"]) for item in fields(table)}
