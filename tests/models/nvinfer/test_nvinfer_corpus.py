"""Ninety-five files that teams keep beside nvinfer, one line each: what it is, or why it is refused."""

from __future__ import annotations

import pytest

from sluice.errors import ConfigurationError
from sluice.models.nvinfer.config import read_config
from sluice.models.nvinfer.functions import BOX_FUNCTIONS, box_function
from sluice.models.nvinfer.kinds import read_nvinfer
from sluice.models.nvinfer.reading import CLASSIFIER_FUNCTIONS, SEGMENTATION_FUNCTIONS

#: The end of each path, and the summary of the configuration or the reason in the error's text.
FILES = (
    ("configs/config_infer_primary_peoplenet.txt", "primary detector, nms, default"),
    ("config_infer_secondary_bodypose3dnet.txt", "secondary other, raw"),
    ("dsipctest_sgie_config.yml", "primary detector, nms, default"),
    ("configs/config_infer_primary.txt", "primary detector, hybrid, default"),
    ("config_msgconv.txt", "refused: a configuration of nvmsgconv (it has the group sensor1"),
    ("config_pgie_rt_detr.txt", "primary detector, none, NvDsInferParseCustomDDETRTAO -> deformable-detr-tao"),
    ("config_tracker_2d.yml", "refused: a configuration of a tracker library (it has the group BaseConfig"),
    ("detector_labels.txt", "refused: a label file (3 lines"),
    ("dstest5_msgconv_sample_config.yml", "refused: a configuration of nvmsgconv (it has the group sensor0"),
    ("tracker0.yml", "refused: a file with the settings of the element nvtracker (it has the group tracker"),
    ("config_infer_plan_engine_primary.txt", "refused: a configuration of nvinferserver (it has infer_config {"),
    ("config_yolov4_infer.txt", "primary detector, nms, NvDsInferParseCustomYoloV4 -> batched-nms"),
    ("config_infer_audio_sonyc.txt", "primary classifier, default"),
    ("dstest_pgie_config.txt", "primary detector, nms, default"),
    (
        "dstest_tracker_config.txt",
        "refused: a file with the settings of the element nvtracker (it has the group tracker",
    ),
    ("tracker_config.yml", "refused: a configuration of a tracker library (it has the group NvDCF"),
    ("config_infer_primary_3d_action.txt", "refused: line 27: [property] input-tensor-from-meta is 1; right is 0"),
    (
        "config_preprocess_3d_custom.txt",
        "refused: a configuration of nvdspreprocess ([property] has network-input-shape",
    ),
    ("deepstream-3d-action-recognition/labels.txt", "refused: a label file (1 lines"),
    ("dstensor_sgie1_config.txt", "secondary other, raw"),
    ("dsmultigpu_pgie_config.yml", "primary detector, nms, default"),
    ("config_preprocess.txt", "refused: a configuration of nvdspreprocess ([property] has network-input-shape"),
    ("dstest1_pgie_config.txt", "primary detector, nms, default"),
    ("dstest2_config.yml", "refused: a configuration of a whole DeepStream application (it has the group streammux"),
    ("dstest2_pgie_config.txt", "primary detector, nms, default"),
    ("dstest2_sgie1_config.txt", "secondary classifier, default"),
    (
        "dstest2_tracker_config.txt",
        "refused: a file with the settings of the element nvtracker (it has the group tracker",
    ),
    (
        "sample_apps/deepstream-test4/dstest4_msgconv_config.txt",
        "refused: a configuration of nvmsgconv (it has the group sensor0",
    ),
    ("dstest4_msgconv_config.yml", "refused: a configuration of nvmsgconv (it has the group sensor0"),
    ("dstest5_msgconv_sample_config.txt", "refused: a configuration of nvmsgconv (it has the group sensor0"),
    (
        "test5_config_file_src_infer_tracker_sgie.txt",
        "refused: a configuration of a whole DeepStream application (it has the group application",
    ),
    (
        "test5_config_file_src_infer_tracker_sgie.yml",
        "refused: a configuration of a whole DeepStream application (it has the group application",
    ),
    (
        "test5_ota_override_config.txt",
        "refused: a configuration of a whole DeepStream application (it has the group primary-gie",
    ),
    ("config_infer_primary_ds_transfer_learning.txt", "primary detector, dbscan, default"),
    (
        "peoplenet_reidentification.txt",
        "refused: a configuration of a whole DeepStream application (it has the group application",
    ),
    ("sgie_lpd_DetectNet2_us.yml", "secondary detector, hybrid, default"),
    (
        "config_infer_third_bodypose_classification.txt",
        "refused: line 71: [property] input-tensor-from-meta is 1; right is 0",
    ),
    ("pgie_citysemsegformer_tao_config.txt", "primary segmentation, NvDsInferParseCustomSegformerTAO"),
    ("sgie_lpr_us_config.txt", "secondary classifier, NvDsInferParseCustomNVPlate -> unknown"),
    ("peoplenet_tao/config_infer_primary_peoplenet.txt", "primary detector, nms, default"),
    (
        "pgie_peoplenet_transformer_tao_config.yml",
        "primary detector, none, NvDsInferParseCustomDDETRTAO -> deformable-detr-tao",
    ),
    ("sgie_reidentificationnet_tao_config.txt", "secondary other, raw"),
    ("sgie_reidentificationnet_tao_config.yml", "secondary other, raw"),
    ("citysemsegformer_tao/labels.txt", "refused: a label file (19 lines"),
    (
        "deepstream_app_source1_trafficcamnet_vehiclemakenet_vehicletypenet.txt",
        "refused: a configuration of a whole DeepStream application (it has the group application",
    ),
    ("labels_trafficnet.txt", "refused: a label file (4 lines"),
    ("labels_vehiclemakenet.txt", "refused: a label file (1 lines"),
    ("labels_vehicletypenet.txt", "refused: a label file (1 lines"),
    (
        "config_infer_primary_peoplenet_transformer_v2.yml",
        "primary detector, none, NvDsInferParseCustomDDETRTAO -> deformable-detr-tao",
    ),
    ("config_infer_secondary_vehiclemakenet.txt", "secondary classifier, default"),
    ("lpr_config_sgie_us.txt", "primary classifier, NvDsInferParseCustomNVPlate -> unknown"),
    ("config_metamux.txt", "refused: a configuration of nvdsmetamux ([property] has active-pad"),
    ("config_detector.yml", "refused: a configuration of nvdspostprocess or alike ([property] has none of onnx-file"),
    (
        "config_movenet_post_process.yml",
        "refused: a configuration of nvdspostprocess or alike ([property] has none of onnx-file",
    ),
    ("cfg_redis.txt", "refused: a configuration of a message broker (it has the group message-broker"),
    ("config_infer_primary_yoloV11.txt", "primary detector, nms, NvDsInferParseYoloV11 -> yolov8"),
    (
        "config_infer_primary_yoloV11_obb.txt",
        "primary detector, none, NvDsInferParseCustomYoloV11OBB -> yolo-obb or yolo-end2end-obb",
    ),
    ("config_infer_primary_yoloV4.txt", "primary detector, nms, NvDsInferParseCustomYoloV4 -> batched-nms"),
    (
        "deepstream_yolo/config_infer_primary_yoloV7.txt",
        "primary detector, nms, NvDsInferParseCustomYoloV7_cuda -> yolov7",
    ),
    ("deepstream_yolo/labels.txt", "refused: a label file (80 lines"),
    ("dstest_imagedata_config.txt", "primary detector, nms, default"),
    (
        "deepstream-imagedata-multistream-redaction/config_infer_primary_peoplenet.txt",
        "primary detector, dbscan, default",
    ),
    ("config_nvdsanalytics_c02.txt", "refused: a configuration of nvdsanalytics ([property] has config-width"),
    ("deepstream-ssd-parser/labels.txt", "refused: a label file (91 lines"),
    (
        "apps/deepstream-test4/dstest4_msgconv_config.txt",
        "refused: a configuration of nvmsgconv (it has the group sensor0",
    ),
    ("ds_sgie2_config.txt", "secondary classifier, default"),
    ("ds_tracker_config.txt", "refused: a file with the settings of the element nvtracker (it has the group tracker"),
    (
        "config_infer_primary_yoloV8_face.txt",
        "primary instance segmentation, none, NvDsInferParseYoloFace -> yolo-pose or yolo-end2end-pose or any",
    ),
    ("secondary_detector_config.txt", "secondary detector, nms, default"),
    (
        "dstest_occupancy_analytics.txt",
        "refused: a configuration of a whole DeepStream application (it has the group application",
    ),
    ("basket_classifier.txt", "secondary classifier, default"),
    ("basket_classifier.yml", "secondary classifier, default"),
    ("dstest4_msgconv_config_1.yml", "refused: empty"),
    ("pgie_config_peoplenet.yml", "primary detector, hybrid, default"),
    ("basket_classifier_labels.txt", "refused: a label file (1 lines"),
    (
        "marcoslucianops+DeepStream-Yolo/config_infer_primary.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_codetr.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_damoyolo.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_goldyolo.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_ppyoloe.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_ppyoloe_plus.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_rtdetr.txt",
        "primary detector, none, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_rtmdet.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_yolo11.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_yoloV2.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_yoloV5.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_yoloV5u.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_yoloV6.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "marcoslucianops+DeepStream-Yolo/config_infer_primary_yoloV7.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_yolonas_custom.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_yolor.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_yolox.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "config_infer_primary_yolox_legacy.txt",
        "primary detector, nms, NvDsInferParseYolo -> deepstream-yolo or yolo-end2end or deepstream-layers or any",
    ),
    (
        "deepstream_app_config.txt",
        "refused: a configuration of a whole DeepStream application (it has the group application",
    ),
    ("marcoslucianops+DeepStream-Yolo/labels.txt", "refused: a label file (80 lines"),
)


@pytest.fixture(scope="session")
def configs(data):
    """Every file, by its path below the folder."""
    folder = data / "nvinfer-configs"
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


def ending(configs, tail):
    """The only file whose path ends in `tail`."""
    (found,) = (path for name, path in configs.items() if f"/{name}".endswith(f"/{tail}"))
    return found


def parser_of(config):
    """The parse function, and what stands in for it."""
    properties = config.properties
    function = box_function(config)
    if config.detects:
        if function is None:
            return "default"
        return f"{function[1]} -> {' or '.join(BOX_FUNCTIONS[function[1]].decoders)}"
    name = properties.parse_classifier_func_name or properties.parse_segmentation_func_name
    if name is None:
        return "raw" if properties.network_type.name == "OTHER" else "default"
    return name if name in CLASSIFIER_FUNCTIONS or name in SEGMENTATION_FUNCTIONS else f"{name} -> unknown"


def summary(path):
    """What a file says, in the words of the table."""
    try:
        config = read_config(path)
    except ConfigurationError as error:
        return f"refused: {str(error).removeprefix(str(path)).lstrip(', ').removeprefix('is ')}"
    properties = config.properties
    where = "secondary" if properties.process_mode == 2 else "primary"
    kind = properties.network_type.name.lower().replace("_", " ")
    mode = f", {properties.cluster_mode.name.lower()}" if config.detects else ""
    return f"{where} {kind}{mode}, {parser_of(config)}"


def test_every_file_is_listed(configs):
    assert len({ending(configs, tail) for tail, _ in FILES}) == len(FILES) == len(configs)


@pytest.mark.parametrize(("tail", "expected"), FILES, ids=[tail for tail, _ in FILES])
def test_file(configs, tail, expected):
    found = summary(ending(configs, tail))
    if expected.startswith("refused"):
        assert found.startswith(expected)
    else:
        assert found == expected


def test_no_key_is_unknown_but_the_misspelt(configs):
    """Every key that the files have is in the table, except one that nvinfer does not know either."""
    unknown = set()
    for path in configs.values():
        try:
            warnings = read_config(path).warnings
        except ConfigurationError:
            continue
        unknown |= {warning.split("unknown key ")[1] for warning in warnings if "unknown key" in warning}
    assert unknown == {"'process_mode', which is ignored; did you mean 'process-mode'?"}


def test_oddities(configs):
    """CR line ends, a comment after a value, YAML and key file of the same settings."""
    text = read_config(ending(configs, "configs/basket_classifier.txt")).properties
    yaml = read_config(ending(configs, "configs/basket_classifier.yml")).properties
    assert text.infer_dims == yaml.infer_dims == (3, 224, 224)
    assert text.network_type == yaml.network_type == 1
    assert text.offsets == yaml.offsets == (103.939, 116.779, 123.68)
    assert (text.operate_on_gie_id, yaml.operate_on_gie_id) == (1, -1)
    with_cr = ending(configs, "config_infer_primary_codetr.txt")
    assert b"\r\n" in with_cr.read_bytes()
    properties = read_config(with_cr).properties
    assert properties.custom_lib_path == str(
        with_cr.parent.resolve() / ("nvdsinfer_custom_impl_Yolo/libnvdsinfer_custom_impl_Yolo.so")
    )
    assert read_nvinfer(with_cr).groups["class-attrs-all"]["topk"].text == "300"
