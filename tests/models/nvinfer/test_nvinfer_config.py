"""Reading configuration files: GLib's rules, YAML's, types, defaults, checks and what messages say."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest
from gi.repository import GLib

from sluice.errors import ConfigurationError
from sluice.models.nvinfer.config import read_config
from sluice.models.nvinfer.document import read_document
from sluice.models.nvinfer.functions import BOX_FUNCTIONS
from sluice.models.nvinfer.keys import ClassAttributes, ClusterMode, Fate, NetworkType, Properties, keys_of
from sluice.models.nvinfer.reading import CLASSIFIER_FUNCTIONS, SEGMENTATION_FUNCTIONS
from sluice.models.nvinfer.values import list_of, read_boolean, read_integer, read_number

DETECTOR = "[property]\nonnx-file=net.onnx\nnum-detected-classes=2\ncluster-mode=2\n"


def config_of(tmp_path, text, name="config.txt"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_config(path)


def error_of(tmp_path, text, name="config.txt"):
    with pytest.raises(ConfigurationError) as caught:
        config_of(tmp_path, text, name)
    return str(caught.value)


def glib(reader, value):
    """What GLib's own function makes of a value; None where it refuses."""
    file = GLib.KeyFile()
    text = f"[g]\nk={value}\n"
    file.load_from_data(text, len(text.encode()), GLib.KeyFileFlags.NONE)
    try:
        return getattr(file, f"get_{reader}")("g", "k")
    except GLib.Error:
        return None


def ours(reader, value):
    try:
        return reader(value, "key-file")
    except ValueError:
        return None


@pytest.mark.parametrize(
    "value", ["0", "-5", "+7", "  12", "224 # rows", "12abc", "1.5", "", "abc", "2147483648", "0x10"]
)
def test_integers_are_glibs(value):
    assert ours(read_integer, value) == glib("integer", value)


@pytest.mark.parametrize("value", ["0", "-1.5", ".5", "1.", "1e-3", "0.5 # half", "a", "", "1,5"])
def test_numbers_are_glibs(value):
    assert ours(read_number, value) == glib("double", value)


@pytest.mark.parametrize("value", ["0", "1", "true", "false", "yes", "2", "True", ""])
def test_booleans_are_glibs(value):
    assert ours(read_boolean, value) == glib("boolean", value)


@pytest.mark.parametrize("value", ["1;2;3", "1;2;3;", "1", "3;224;224 # c;h;w", "1;;2", "1; 2 ;3", "a;1"])
def test_lists_are_glibs(value):
    result = glib("integer_list", value)
    assert ours(list_of(read_integer), value) == (None if result is None else tuple(result))


def test_yaml_numbers_end_where_they_end():
    """std::stoi and std::stod stop at the first letter, and a boolean is a number."""
    assert read_integer("8.7", "yaml") == 8
    assert read_number("0.5x", "yaml") == 0.5
    assert read_boolean("2", "yaml") is True
    with pytest.raises(ValueError, match="not true or false"):
        read_boolean("true", "yaml")


@pytest.mark.parametrize("form", ["txt", "yml"])
@pytest.mark.parametrize("value", ["", "abc", "-1", "99999999999", "nan", "1e999", ";;;", "9" * 5000])
@pytest.mark.parametrize(("table", "group"), [(Properties, "property"), (ClassAttributes, "class-attrs-all")])
def test_every_key_takes_or_refuses_any_value_by_name(tmp_path, table, group, value, form):
    """Nothing but a value or an error in a sentence, with the key's name and no more of the value than helps."""
    start = (
        "property:\n  onnx-file: n.onnx\n  num-detected-classes: 2\n  cluster-mode: 2\n" if form == "yml" else DETECTOR
    )
    for name in keys_of(table):
        head = "" if group == "property" else (f"{group}:\n" if form == "yml" else f"[{group}]\n")
        line = f"  {name}: {value}\n" if form == "yml" else f"{name}={value}\n"
        try:
            config_of(tmp_path, start + head + line, f"config.{form}")
        except ConfigurationError as error:
            text = str(error).replace(str(tmp_path), "")
            if name not in text or "right" not in text or len(text) > 600 or "Exceeds" in text:
                pytest.fail(f"{name}={value[:20]}: {text[:300]}")


@pytest.mark.parametrize("count", ["100001", "2000000000"])
def test_more_classes_than_any_detector_has_are_refused_before_memory_is_taken(tmp_path, count):
    text = DETECTOR.replace("num-detected-classes=2", f"num-detected-classes={count}")
    assert "right is from 0 to 100000" in error_of(tmp_path, text)


def test_defaults_are_nvinfers(tmp_path):
    config = config_of(tmp_path, "[property]\nonnx-file=net.onnx\nnum-detected-classes=1\n")
    properties = config.properties
    assert (properties.gie_unique_id, properties.process_mode, properties.batch_size) == (15, 1, 1)
    assert (properties.net_scale_factor, properties.offsets, properties.model_color_format) == (1.0, None, 0)
    assert properties.secondary_reinfer_interval == 2147483647
    (attributes,) = config.classes
    assert (attributes.pre_cluster_threshold, attributes.eps, attributes.min_boxes) == (0.2, 0, 0)
    assert (attributes.border_color, attributes.bg_color) == ((1, 0, 0, 1), None)


def test_cluster_mode_0_becomes_nms_for_all_classes(tmp_path):
    config = config_of(
        tmp_path,
        "[property]\nonnx-file=net.onnx\nnum-detected-classes=2\n[class-attrs-all]\ntopk=7\nnms-iou-threshold=0.1\n",
    )
    assert config.properties.cluster_mode is ClusterMode.NMS
    assert {(item.nms_iou_threshold, item.topk) for item in config.classes} == {(0.5, 20)}
    assert "cluster-mode is 0" in config.warnings[-1]


def test_classifiers_keep_cluster_mode_0(tmp_path):
    config = config_of(tmp_path, "[property]\nonnx-file=net.onnx\nnetwork-type=1\n[class-attrs-all]\nthreshold=0.4\n")
    assert (config.classes, config.properties.cluster_mode) == ((), ClusterMode.GROUP_RECTANGLES)
    assert "[class-attrs-all] is read for detectors only" in config.warnings[0]


def test_the_last_of_a_key_counts_and_line_ends_do_not(tmp_path):
    text = DETECTOR.replace("\n", "\r\n") + "gpu-id=1\r\n# gpu-id=3\r\ngpu-id =\t2"
    properties = config_of(tmp_path, text).properties
    assert (properties.gpu_id, properties.num_detected_classes) == (2, 2)


def test_paths_start_at_the_file(tmp_path):
    (tmp_path / "deep").mkdir()
    text = DETECTOR + "labelfile-path=../labels.txt\nmodel-engine-file=/else/where.engine\n"
    config = config_of(tmp_path, text, "deep/config.txt")
    assert config.properties.labelfile_path == str(tmp_path.resolve() / "labels.txt")
    assert config.properties.onnx_file == str(tmp_path.resolve() / "deep/net.onnx")
    assert config.properties.model_engine_file == "/else/where.engine"


def test_all_classes_first_then_one(tmp_path):
    text = DETECTOR + "[class-attrs-1]\ntopk=5\n[class-attrs-all]\ntopk=9\npre-cluster-threshold=0.6\n"
    zero, one = config_of(tmp_path, text).classes
    assert (zero.topk, one.topk, one.pre_cluster_threshold) == (9, 5, 0.6)


def test_yaml_says_the_same(tmp_path):
    text = """%YAML:1.0
# a comment
property:
  onnx-file: net.onnx
  num-detected-classes: 2   # two
  cluster-mode: 2
  offsets: 1.5;2;3
class-attrs-1:
  topk: 5
"""
    yaml = config_of(tmp_path, text, "config.yml")
    keys = config_of(tmp_path, DETECTOR + "offsets=1.5;2;3\n[class-attrs-1]\ntopk=5\n")
    assert (yaml.properties, yaml.classes) == (keys.properties, keys.classes)
    assert (yaml.form, keys.form) == ("yaml", "key-file")


def test_old_keys(tmp_path):
    text = "[property]\nonnx-file=n\nis-classifier=1\n"
    assert config_of(tmp_path, text).properties.network_type is NetworkType.CLASSIFIER
    text = DETECTOR.replace("cluster-mode=2", "enable-dbscan=1") + "[class-attrs-all]\nthreshold=0.7\n"
    config = config_of(tmp_path, text)
    assert config.properties.cluster_mode is ClusterMode.DBSCAN
    assert config.classes[0].pre_cluster_threshold == 0.7
    assert len(config.warnings) == 2
    yaml = config_of(
        tmp_path,
        "property:\n  onnx-file: n\n  num-detected-classes: 1\n  cluster-mode: 2\nclass-attrs-all:\n  threshold: 0.7\n",
        "config.yaml",
    )
    assert yaml.classes[0].pre_cluster_threshold == 0.2
    assert "threshold is read from key files only" in yaml.warnings[0]


def test_a_threshold_of_one_class_goes_before_one_for_all(tmp_path):
    text = DETECTOR + "[class-attrs-all]\nthreshold=0.7\n[class-attrs-0]\npre-cluster-threshold=0.3\n"
    zero, one = config_of(tmp_path, text).classes
    assert (zero.pre_cluster_threshold, one.pre_cluster_threshold) == (0.3, 0.7)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("batch-size=0", ("line 5", "[property] batch-size is '0'", "from 1 to 1024")),
        ("net-scale-factor=0,0039", ("net-scale-factor is '0,0039'", "right is a number")),
        ("infer-dims=3;640", ("infer-dims is '3;640'", "3 values between ';'")),
        ("network-type=4", ("right is 0 (detector)",)),
        ("maintain-aspect-ratio=yes", ("right is 0, 1, true or false",)),
        ("offsets=1;2;3;4;5", ("1 to 4 numbers",)),
        ("input-tensor-from-meta=1", ("right is 0", "nvdspreprocess")),
        ("stabilize-buffer-count=3", ("Sluice drops none",)),
        ("gie-unique-id=0", ("1 or more",)),
        ("output-instance-mask=1", ("right is cluster-mode 4",)),
        ("[class-attrs-2]", ("[class-attrs-2]", "num-detected-classes is 2")),
        ("[class-attrs-all]\ntopk=-1", ("[class-attrs-all] topk is '-1'", "0 or more")),
        ("[class-attrs-all]\nnms-iou-threshold=1.5", ("line 6", "from 0 to 1")),
        ("[class-attrs-all]\ndetected-min-w=9\ndetected-max-w=8", ("no object passes",)),
        ("[class-attrs-0]\nborder-color=255;0;0;1", ("a list between ';' of which each is from 0 to 1",)),
    ],
)
def test_wrong_values(tmp_path, line, parts):
    message = error_of(tmp_path, DETECTOR + line + "\n")
    for part in (str(tmp_path / "config.txt"), *parts):
        assert part in message


def test_what_goes_before_the_file_is_checked_with_it(tmp_path):
    path = tmp_path / "config.txt"
    path.write_text(DETECTOR)
    assert read_config(path, {"batch_size": 8}).properties.batch_size == 8
    with pytest.raises(ConfigurationError, match=r"output-instance-mask is 1 with cluster-mode 2"):
        read_config(path, {"output_instance_mask": True})


def test_instance_segmentation_needs_no_clustering(tmp_path):
    message = error_of(tmp_path, DETECTOR + "network-type=3\n")
    assert "line 4" in message
    assert "right is 4 (none)" in message


def test_yaml_lists_are_texts(tmp_path):
    message = error_of(tmp_path, "property:\n  onnx-file: n\n  offsets: [1, 2, 3]\n", "config.yml")
    assert "line 3" in message
    assert "nvinfer writes lists as a;b;c" in message


def test_unknown_keys_are_named_with_the_nearest(tmp_path):
    config = config_of(tmp_path, DETECTOR + "net-scale-facter=2\n[class-attrs-all]\ntop-k=3\n")
    assert "line 5: [property] has an unknown key 'net-scale-facter'" in config.warnings[0]
    assert "did you mean 'net-scale-factor'?" in config.warnings[0]
    assert "did you mean 'topk'?" in config.warnings[1]
    assert config.properties.net_scale_factor == 1


def test_missing_and_unreadable_files(tmp_path):
    with pytest.raises(ConfigurationError, match="No such file"):
        read_config(tmp_path / "none.txt")
    assert "no UTF-8 text" in error_of(tmp_path, b"[property]\nonnx-file=\xff\n")
    assert "is no YAML" in error_of(tmp_path, "property:\n\t- a: b\n", "config.yml")
    assert "right are groups of keys" in error_of(tmp_path, "- a\n- b\n", "config.yml")
    assert "is no key file" in error_of(tmp_path, "[property]\nonnx-file\n")
    assert "begins with a byte order mark" in error_of(tmp_path, f"\ufeff{DETECTOR}")
    with pytest.raises(ConfigurationError, match="Is a directory"):
        read_config(tmp_path)


def test_what_never_ends_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "zero.txt").symlink_to("/dev/zero")
    for name in ("pipe.txt", "zero.txt"):
        with pytest.raises(ConfigurationError, match=rf"{name}': it is a pipe or a device"):
            read_config(tmp_path / name)


def test_a_nul_byte_ends_its_own_value_only(tmp_path):
    """PyGObject's copy of the text would end there, and GLib read on in memory that is another's."""
    path = tmp_path / "config.txt"
    path.write_text(f"[property]\nbatch-size=4\0{'x' * 5000}\n[class-attrs-all]\ntopk=7\n")
    groups = read_document(path).groups
    assert (groups["property"]["batch-size"].text, groups["class-attrs-all"]["topk"].text) == ("4", "7")


def test_yaml_without_a_bottom_is_refused(tmp_path):
    path = tmp_path / "deep.yml"
    path.write_text("property: " + "[" * 20_000)
    with pytest.raises(ConfigurationError, match=r"deep\.yml is no configuration file: .* nested too deeply"):
        read_config(path)


def test_a_file_of_another_kind_names_the_right_one(tmp_path):
    message = error_of(tmp_path, "[application]\na=1\n[primary-gie]\nconfig-file=pgie.txt\n")
    assert "a configuration of a whole DeepStream application" in message
    assert "config-file in [primary-gie]" in message


def test_every_key_has_a_meaning():
    """The table is complete as it stands: names once, a meaning for each, refused ones off by default."""
    for table in (Properties, ClassAttributes):
        keys = [item.metadata["key"] for item in fields(table)]
        assert len({key.name for key in keys}) == len(keys)
        assert all(key.meaning for key in keys)
        assert not any(item.default for item in fields(table) if item.metadata["key"].fate is Fate.REFUSED)


def test_the_documentation_lists_every_key_and_function():
    """What the tables in the code say stands in the document word for word."""
    text = (Path(__file__).parents[3] / "docs/nvinfer-files.md").read_text()
    for table in (Properties, ClassAttributes):
        for key in (item.metadata["key"] for item in fields(table)):
            assert f"| `{key.name}` | {key.fate.name.lower()} | {key.meaning} |" in text
    for name, function in BOX_FUNCTIONS.items():
        assert f"| `{name}` | {', '.join(function.decoders)} |" in text
    assert all(f"| `{name}` |" in text for name in (*CLASSIFIER_FUNCTIONS, *SEGMENTATION_FUNCTIONS))
