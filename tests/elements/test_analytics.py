"""sluiceanalytics: user metas as nvdsanalytics', read by C++; display metas; messages; a new configuration."""

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from elements.batch_feed import Feed, Given, Gst, make_buffer
from sluice import elements
from sluice.contract import bulk, user_meta
from sluice.contract.analytics_meta import (
    FrameAnalytics,
    ObjectAnalytics,
    attach_frame_analytics,
    attach_object_analytics,
)
from sluice.contract.metadata import UNTRACKED, BatchMeta, Lease
from sluice.elements import events
from sluice.messages import read_payloads
from sluice.pyservicemaker import Buffer

CONFIG = """[property]
config-width=128
config-height=96
osd-mode={osd}
[roi-filtering-stream-0]
roi-left=0;0;64;0;64;96;0;96
[overcrowding-stream-0]
roi-a crowd with a long name=0;0;64;0;64;96;0;96
object-threshold=2
[line-crossing-stream-0]
line-crossing-exit=64;0;64;96;0;48;128;48
"""
ABOVE, BELOW = [10.0, 5.0, 10.0, 10.0, 0.9], [10.0, 20.0, 10.0, 10.0, 0.9]
LONG = "a crowd with a long name"


@pytest.fixture(scope="session")
def reader(tmp_path_factory):
    """The structs' C++ reader, compiled."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    library = tmp_path_factory.mktemp("reader") / "reader.so"
    source = Path(__file__).with_name("analytics_reader.cpp")
    subprocess.run(["g++", "-std=c++17", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    found = ctypes.CDLL(str(library))
    for name in ("read_frame", "read_object"):
        getattr(found, name).argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    found.extend_frame.argtypes = [ctypes.c_void_p, ctypes.c_int]
    found.extend_object.argtypes = [ctypes.c_void_p]
    return found


def told(function, data):
    text = ctypes.create_string_buffer(1 << 16)
    function(data, text, len(text))
    return text.value.decode()


@pytest.fixture
def config(tmp_path):
    elements.register("sluiceanalytics")

    def write(text=CONFIG, osd=0):
        path = tmp_path / "config.txt"
        path.write_text(text.format(osd=osd))
        return path

    return write


def tracked(*frames, ids=(7,), **options):
    """Return a batch whose objects have ids."""
    buffer = make_buffer(frames, **options)
    with Lease() as lease:
        for frame in BatchMeta.of(buffer, lease).frames:
            for obj, identity in zip(frame.objects[::-1], ids, strict=False):
                obj.object_id = identity
    return buffer


def give(feed, held):
    """Push the buffer that is the list's only item, and return what comes out."""
    feed.give(held)
    sample = feed.sink.try_pull_sample(10 * Gst.SECOND)
    assert sample is not None, feed.error() or "nothing came out"
    return sample.get_buffer()


def step(feed, rows, number, **options):
    return give(feed, [tracked(Given(rows, number=number, pts=number * 40_000_000), **options)])


def frame_meta(buffer):
    (user,) = next(iter(Buffer(buffer).batch_meta.frame_items)).nvdsanalytics_frame_items
    return user.as_nvdsanalytics_frame()


def object_metas(buffer):
    frame = next(iter(Buffer(buffer).batch_meta.frame_items))
    return [[user.as_nvdsanalytics_obj() for user in item.nvdsanalytics_obj_items] for item in frame.object_items]


def test_the_user_metas_of_nvdsanalytics(config):
    with Feed(f"sluiceanalytics name=a unique-id=17 config-file={config()}") as feed:
        step(feed, [ABOVE], 0)
        buffer = step(feed, [BELOW], 1)
        stats = feed.get("a").get_property("stats")
    found = frame_meta(buffer)
    assert (found.oc_status, found.obj_in_roi_cnt) == ({LONG: False}, {"left": 1, LONG: 1})
    assert (found.obj_lc_curr_cnt, found.obj_lc_cum_cnt) == ({"exit": 1}, {"exit": 1})
    assert (found.obj_cnt, found.unique_id) == ({0: 1}, 17)
    (((item,),)) = object_metas(buffer)
    assert (item.roi_status, item.oc_status, item.lc_status) == (["left"], [LONG], ["exit"])
    assert (item.dir_status, item.obj_status, item.unique_id) == ("", " ROI:left LC:exit ", 17)
    assert (stats.get_uint64("frames").value, stats.get_uint64("crossings").value) == (2, 1)


def test_objects_with_nothing_to_report_and_other_streams_get_none(config):
    right = [50.0, 20.0, 10.0, 10.0, 0.9]
    with Feed(f"sluiceanalytics config-file={config()}") as feed:
        buffer = give(feed, [make_buffer([Given([right]), Given([ABOVE], stream=1)])])
    frames = list(Buffer(buffer).batch_meta.frame_items)
    assert [len(list(frame.nvdsanalytics_frame_items)) for frame in frames] == [1, 0]
    assert [[len(list(item.nvdsanalytics_obj_items)) for item in frame.object_items] for frame in frames] == [[0], [0]]


def test_zero_objects(config):
    with Feed(f"sluiceanalytics config-file={config()}") as feed:
        assert frame_meta(step(feed, [], 0)).obj_in_roi_cnt == {"left": 0, LONG: 0}


def test_an_untracked_object_disables_nothing(config):
    with Feed(f"sluiceanalytics config-file={config()}") as feed:
        step(feed, [ABOVE, ABOVE], 0, ids=(UNTRACKED, 7))
        assert frame_meta(step(feed, [BELOW, BELOW], 1, ids=(UNTRACKED, 7))).obj_lc_cum_cnt == {"exit": 1}


def data_of(owner, number):
    (user,) = [user for user in owner.user_metas if user.meta_type == number]
    return user.data


def test_a_reader_in_cpp(config, reader):
    with Feed(f"sluiceanalytics unique-id=17 config-file={config()}") as feed:
        step(feed, [ABOVE, BELOW], 0, ids=(1, 2))
        buffer = step(feed, [BELOW, BELOW], 1, ids=(1, 2))
    copy = buffer.copy()
    row = f"{LONG}=1,/1 {LONG}=2,left=2,/2 exit=1,/1 exit=1,/1 0=2,/1 17\n"
    for each in (buffer, copy):
        with Lease() as lease:
            frame = BatchMeta.of(each, lease).frames[0]
            data = data_of(frame, 32)
            assert told(reader.read_frame, data) == row * 2
            objects = {obj.object_id: told(reader.read_object, data_of(obj, 33)) for obj in frame.objects}
            assert objects == {
                1: f"left,/1 {LONG},/1 exit,/1 [][ ROI:left LC:exit ]17",
                2: f"left,/1 {LONG},/1 /0 [][ ROI:left]17",
            }


@pytest.mark.parametrize("count", [1, 13, 500])
def test_a_reader_in_cpp_may_add(config, reader, count):
    """Added entries make the maps grow; copies and the release of both take them along."""
    with Feed(f"sluiceanalytics config-file={config()}") as feed:
        buffer = step(feed, [ABOVE], 0)
    with Lease() as lease:
        frame = BatchMeta.of(buffer, lease).frames[0]
        data = data_of(frame, 32)
        reader.extend_frame(data, count)
        reader.extend_object(data_of(frame.objects[0], 33))
        text = told(reader.read_frame, data)
        assert f"/{count + 1} " in text
        assert "=-1," not in text
    copy = buffer.copy()
    with Lease() as lease:
        frame = BatchMeta.of(copy, lease).frames[0]
        assert told(reader.read_frame, data_of(frame, 32)) == text
        assert "/20 " in told(reader.read_object, data_of(frame.objects[0], 33))
    del copy, buffer


@pytest.mark.parametrize("length", [*range(1, 34), 100, 1000])
def test_names_of_any_length_are_found_by_their_hash(reader, length):
    names = ["ab"[i % 2] * length if i else "ß" * length for i in range(3)]
    buffer = make_buffer([Given()])
    with Lease() as lease:
        frame = BatchMeta.of(buffer, lease).frames[0]
        found = FrameAnalytics(in_region={name: number for number, name in enumerate(names)})
        attach_frame_analytics(frame, found, unique_id=1)
        text = told(reader.read_frame, data_of(frame, 32))
    assert all(f"{name}={number}," in text for number, name in enumerate(names))


def test_names_with_half_a_surrogate_pair_get_a_question_mark():
    buffer, name = make_buffer([Given([ABOVE])]), "caf\udce9"
    with Lease() as lease:
        frame = BatchMeta.of(buffer, lease).frames[0]
        attach_frame_analytics(frame, FrameAnalytics(in_region={name: 2}), unique_id=1)
        found = ObjectAnalytics(regions=[name], direction=name, status=name)
        attach_object_analytics(frame.objects[0], found, unique_id=1)
    assert frame_meta(buffer).obj_in_roi_cnt == {"caf?": 2}
    ((item,),) = object_metas(buffer)
    assert (item.roi_status, item.dir_status, item.obj_status) == (["caf?"], "caf?", "caf?")


def test_the_findings_in_messages(config):
    elements.register("sluicemsgconv")
    with Feed(f"sluiceanalytics config-file={config()} ! sluicemsgconv") as feed:
        step(feed, [ABOVE], 0)
        buffer = step(feed, [BELOW], 1)
    with Lease() as lease:
        (message,) = map(json.loads, read_payloads(BatchMeta.of(buffer, lease)))
    assert (message["frame"], message["pts"]) == (1, 40_000_000)
    assert message["user"] == [
        {
            "analytics": {
                "regions": {"left": {"count": 1}, LONG: {"count": 1, "overcrowded": False}},
                "lines": {"exit": 1},
                "crossings": [{"line": "exit", "id": 7, "class_id": 0}],
                "classes": {"0": 1},
            }
        }
    ]
    found = {"regions": ["left", LONG], "dwell": {"left": 0.04, LONG: 0.04}, "lines": ["exit"]}
    assert message["objects"][0]["user"] == [{"analytics": found}]


def test_no_json_when_it_is_not_wanted(config):
    with Feed(f"sluiceanalytics json=false config-file={config()}") as feed:
        buffer = step(feed, [ABOVE], 0)
    with Lease() as lease:
        frame = BatchMeta.of(buffer, lease).frames[0]
        assert not user_meta.find(frame, "SLUICE.ANALYTICS")
        assert not user_meta.find(frame.objects[0], "SLUICE.ANALYTICS")


def shown(buffer):
    with Lease() as lease:
        frame = BatchMeta.of(buffer, lease).frames[0]
        displays = frame.display_metas[::-1]
        labels = [(text.display_text, text.x_offset, text.y_offset) for item in displays for text in item.texts]
        return (
            labels,
            [line for item in displays for line in item.lines],
            [obj.text.display_text for obj in frame.objects],
        )


def test_shapes_and_numbers_are_shown_in_pixels_of_the_surface(config):
    with Feed(f"sluiceanalytics config-file={config(osd=2)}") as feed:
        step(feed, [ABOVE], 0)
        labels, lines, texts = shown(step(feed, [BELOW], 1))
    assert labels == [("left=1", 0, 0), (f"{LONG} OverCrowding=False, Count=1", 0, 0), ("exit=1", 64, 24)]
    assert len(lines) == 4 + 4 + 1 + 3
    assert texts == ["person ROI:left LC:exit "]


def test_names_only(config):
    with Feed(f"sluiceanalytics config-file={config(osd=1)}") as feed:
        labels, lines, texts = shown(step(feed, [ABOVE], 0))
    assert [label[0] for label in labels] == ["left", LONG, "exit"]
    assert (len(lines), texts) == (12, ["person"])


def test_nothing_is_shown(config):
    with Feed(f"sluiceanalytics config-file={config(osd=0)}") as feed:
        assert shown(step(feed, [ABOVE], 0)) == ([], [], ["person"])


@pytest.mark.parametrize("name", ["sc1", "sc2_loose_0", "sc2_strict_0"])
def test_what_nvdsanalytics_shows(config, reference, name):
    recorded = json.loads((reference / f"samples/analytics/{name}.json").read_text())
    path = config(recorded["config"].replace("{", "{{"))
    with Feed(f"sluiceanalytics config-file={path} unique-id=17") as feed:
        for row in recorded["rows"][:3]:
            frame = Given(
                [[*item["rect"], 0.9] for item in row["objects"]], class_ids=[i["class"] for i in row["objects"]]
            )
            ids = [item["id"] for item in row["objects"]]
            buffer = give(feed, [tracked(frame, ids=ids, size=(1920, 1080))])
            labels, lines, _ = shown(buffer)
            expected = row["display"]
            assert sorted(labels) == sorted(tuple(label) for item in expected for label in item["labels"])
            assert len(lines) == sum(item["num_lines"] for item in expected)
            assert frame_meta(buffer).obj_in_roi_cnt == row["frame_meta"][0]["objInROIcnt"]


def test_a_new_configuration(config, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(
        "[property]\nconfig-width=64\nconfig-height=48\n[roi-filtering-stream-0]\nroi-new=0;0;64;0;64;48;0;48\n"
    )
    with Feed(f"sluiceanalytics name=a config-file={config()}") as feed:
        step(feed, [ABOVE], 0)
        feed.event(events.control_event(events.ANALYTICS_RELOAD_CONFIG, config_file_path=str(other)))
        assert frame_meta(step(feed, [ABOVE], 1)).obj_in_roi_cnt == {"new": 1}
        other.write_text("[property]\nwrong=1\n")
        feed.event(events.control_event(events.ANALYTICS_RELOAD_CONFIG, config_file_path=str(other)))
        assert frame_meta(step(feed, [ABOVE], 2)).obj_in_roi_cnt == {"new": 1}
        warning = feed.message(Gst.MessageType.WARNING, 0)
    assert "has no key wrong" in warning.parse_warning()[0].message


def test_enable(config):
    with Feed(f"sluiceanalytics enable=false config-file={config()}") as feed:
        buffer = step(feed, [ABOVE], 0)
    assert list(next(iter(Buffer(buffer).batch_meta.frame_items)).nvdsanalytics_frame_items) == []


@pytest.mark.parametrize(
    ("description", "message"),
    [("sluiceanalytics", "config-file is not set"), ("sluiceanalytics config-file=/nowhere.txt", "/nowhere.txt")],
)
def test_what_fails_the_start(config, description, message):
    assert message in Feed(description).refusal().message


def test_a_stream_that_begins_anew_keeps_its_totals_and_forgets_its_objects(config):
    with Feed(f"sluiceanalytics config-file={config()}") as feed:
        step(feed, [ABOVE], 0)
        step(feed, [BELOW], 1)
        step(feed, [ABOVE], 2)
        feed.event(events.stream_reset(0))
        assert frame_meta(step(feed, [BELOW], 3)).obj_lc_cum_cnt == {"exit": 1}
        feed.event(events.pad_deleted(0))
        assert frame_meta(step(feed, [ABOVE], 4)).obj_lc_cum_cnt == {"exit": 0}


def test_boxes_are_not_changed(config):
    with Feed(f"sluiceanalytics config-file={config()}") as feed:
        buffer = step(feed, [ABOVE], 0)
    with Lease() as lease:
        assert bulk.read_objects(BatchMeta.of(buffer, lease).frames[0]).boxes.tolist() == [ABOVE[:4]]


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\x00\xff\xfe garbage \x80",
        b"[property",
        b"[property]\nconfig-width=nan\nconfig-height=48\n",
        b"[property]\nconfig-width=64\nconfig-height=48\n[line-crossing-stream-0]\nline-crossing-a=1;2;3\n",
        b"[property]\nconfig-width=64\nconfig-height=48\n[roi-filtering-stream-99999999999999999999]\nroi-a=0;0;1;1;2;2\n",
        None,
    ],
)
def test_a_reload_of_garbage_changes_nothing_and_says_so(config, tmp_path, garbage):
    other = tmp_path / "other.txt"
    if garbage is not None:
        other.write_bytes(garbage)
    with Feed(f"sluiceanalytics name=a config-file={config()}") as feed:
        before = frame_meta(step(feed, [ABOVE], 0)).obj_in_roi_cnt
        feed.event(events.control_event(events.ANALYTICS_RELOAD_CONFIG, config_file_path=str(other)))
        assert frame_meta(step(feed, [ABOVE], 1)).obj_in_roi_cnt == before
        warning = feed.message(Gst.MessageType.WARNING, 0)
    assert "the configuration was not changed: " in warning.parse_warning()[0].message
