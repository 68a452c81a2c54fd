"""NVIDIA's tracker configurations: what each file of the test data becomes, and what is refused."""

import math

import pytest

from sluice.errors import ConfigurationError
from sluice.tracking import Settings, stream_tracker
from sluice.tracking.nvidia import read_config

APPS = "NVIDIA+DeepStream/src/apps"
FILES = {
    f"{APPS}/reference_apps/runtime_source_add_delete/tracker_config.yml": {
        "nvidia": "NvDCF",
        "algorithm": "sort",
        "options": {"lost_track_buffer": 9, "minimum_consecutive_frames": 1, "track_activation_threshold": 0.0},
        "minimum_confidence": 0.0,
        "max_targets": 30,
        "class_aware": None,
        "terminated": False,
    },
    f"{APPS}/reference_apps/deepstream-tracker-3d-multi-view/config_templates/config_tracker_2d.yml": {
        "nvidia": "NvDCF",
        "algorithm": "bytetrack",
        "options": {
            "lost_track_buffer": 162,
            "minimum_consecutive_frames": 2,
            "minimum_iou_threshold": 0.1393522182207021,
            "high_conf_det_threshold": 0.70167245554449,
            "track_activation_threshold": 0.70167245554449,
        },
        "minimum_confidence": 0.027087304322979212,
        "max_targets": 200,
        "class_aware": False,
        "unique_ids": False,
        "longest": None,
    },
}
# One file for each of NVIDIA's algorithms, written here, with the keys that the mapping reads.
WRITTEN = {
    "IOU": (
        "%YAML:1.0\nBaseConfig:\n  minDetectorConfidence: 0\nTargetManagement:\n  probationAge: 4\n"
        "  maxShadowTrackingAge: 38\n  maxTargetsPerStream: 150\n  outputTerminatedTracks: 1\n  outputShadowTracks: 1\n"
        "  maxTrajectoryBufferLength: 60\nDataAssociator:\n  associationMatcherType: 0\n  checkClassMatch: 1\n"
        "  minMatchingScore4Iou: 0.0\n",
        {
            "algorithm": "iou",
            "class_aware": True,
            "terminated": True,
            "shadow": True,
            "past_frames": False,
            "longest": 60,
            "options": {"lost_track_buffer": 38, "minimum_consecutive_frames": 5, "track_activation_threshold": 0.0},
        },
    ),
    "NvSORT": (
        "BaseConfig:\n  minDetectorConfidence: 0.1345\nDataAssociator:\n  associationMatcherType: 1\n"
        "  tentativeDetectorConfidence: 0.2479\n  minMatchingScore4Iou: 0.2543\nStateEstimator:\n"
        "  stateEstimatorType: 2\nTrajectoryManagement:\n  useUniqueID: 1\n",
        {"algorithm": "bytetrack", "unique_ids": True, "minimum_confidence": 0.1345},
    ),
    "NvDeepSORT": (
        "StateEstimator:\n  stateEstimatorType: 2\nReID:\n  reidType: 1\n  onnxFile: reid.onnx\nDataAssociator:\n"
        "  minMatchingScore4ReidSimilarity: 0.65\n  minMatchingScore4Iou: 0.1\n",
        {
            "algorithm": "deepsort",
            "options": {"minimum_iou_threshold_first_assoc": 0.1, "minimum_appearance_similarity": 0.65},
            "minimum_confidence": -math.inf,
        },
    ),
    "plain NvSORT": ("StateEstimator:\n  stateEstimatorType: 1\n", {"nvidia": "NvSORT", "algorithm": "sort"}),
}


def check(config, expected):
    assert {name: getattr(config, name) for name in expected} == expected
    # What the file becomes can be tracked with.
    stream_tracker(Settings(config.algorithm, config.options))


@pytest.mark.parametrize("name", FILES)
def test_files_of_deepstream(data, name):
    config = read_config(str(data / "nvinfer-configs" / name))
    check(config, FILES[name])
    assert "visual tracking" in config.notes[0]


def test_every_low_level_configuration_of_the_data_is_in_the_table(data):
    folder = data / "nvinfer-configs"
    found = set()
    for file in [*folder.rglob("*.yml"), *folder.rglob("*.yaml")]:
        try:
            read_config(str(file))
        except ConfigurationError:
            continue
        found.add(str(file.relative_to(folder)))
    assert found == set(FILES)


@pytest.mark.parametrize("name", WRITTEN)
def test_each_of_nvidias_algorithms(tmp_path, name):
    text, expected = WRITTEN[name]
    (tmp_path / "tracker.yml").write_text(text)
    check(read_config(str(tmp_path / "tracker.yml")), expected)


def test_what_differs_is_said(tmp_path):
    (tmp_path / "tracker.yml").write_text(
        WRITTEN["NvDeepSORT"][0] + "VisualTracker:\n  visualTrackerType: 0\n  useHog: 1\n"
    )
    notes = read_config(str(tmp_path / "tracker.yml")).notes
    assert "put a sluiceinfer with it between the detector and sluicetracker" in notes[0]
    assert notes[1] == "not followed: ReID.onnxFile, VisualTracker.useHog"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tracker:\n  ll-config-file: x.yml\n", "no group of a low-level tracker's configuration .* but: tracker"),
        ("[tracker]\nll-config-file=x.yml\n", "is not YAML|no group"),
        ("a: [1\n", "is not YAML"),
        ("", "but: none"),
        ("BaseConfig:\n  minDetectorConfidence: high\n", "minDetectorConfidence in BaseConfig is 'high'; a number"),
        ("TargetManagement:\n  probationAge: 1.5\n", "probationAge is 1.5; a whole number would be right"),
        (
            "TargetManagement:\n  maxTargetsPerStream: 0\n",
            "maxTargetsPerStream in TargetManagement is 0; it is 1",
        ),
        ("TargetManagement:\n  probationAge: -5\n", "probationAge in TargetManagement is -5; it is 0 or more"),
        (
            "DataAssociator:\n  minMatchingScore4Iou: 5\n",
            "minMatchingScore4Iou in DataAssociator is 5; it is 1",
        ),
        ("TargetManagement:\n  probationAge: .inf\n", "probationAge in TargetManagement is inf; a number"),
        ("TargetManagement:\n  probationAge: " + "9" * 5000, "is not YAML"),
        ("BaseConfig: " + "[" * 3000, "nested deeper"),
        ("TargetManagement: 5\n", "TargetManagement is 5, not a group of keys"),
    ],
)
def test_wrong_files_are_refused_by_name(tmp_path, text, words):
    (tmp_path / "tracker.yml").write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        read_config(str(tmp_path / "tracker.yml"))


def test_a_missing_file_is_named():
    with pytest.raises(ConfigurationError, match=r"ll-config-file none.yml cannot be read: No such file"):
        read_config("none.yml")
    with pytest.raises(ConfigurationError, match=r"ll-config-file /dev/zero cannot be read: it is a folder, device"):
        read_config("/dev/zero")
