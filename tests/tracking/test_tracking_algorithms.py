"""Algorithm names and their options: what is refused, and with which words."""

import inspect
import subprocess
import sys

import pytest
import trackers

from sluice.errors import ConfigurationError
from sluice.tracking import ALGORITHMS, Settings, parse_options, reads_pixels, stream_tracker
from sluice.tracking.algorithms import DEFAULTS, make_tracker, tracker_class


def test_the_table_lists_every_tracker_of_the_library():
    shipped = {name for name in trackers.__all__ if name.endswith("Tracker")}
    assert {row.class_name for row in ALGORITHMS.values() if row.class_name} == shipped


@pytest.mark.parametrize("name", [row.name for row in ALGORITHMS.values() if row.class_name])
def test_every_algorithm_can_be_made(name):
    assert type(make_tracker(name, parse_options(name, "lost_track_buffer=45"))).__name__ == ALGORITHMS[name].class_name


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_defaults_known_without_the_library_are_the_library_s(name):
    parameters = inspect.signature(tracker_class(ALGORITHMS[name])).parameters.values()
    assert DEFAULTS[name] == {p.name: p.default for p in parameters if isinstance(p.default, bool | int | float | str)}


def test_the_library_is_imported_only_where_it_is_needed():
    lines = """
import sys
from sluice.tracking import Settings, StreamTrackers, parse_options
for name in ("bytetrack", "sort", "iou", "deepsort"):
    StreamTrackers(Settings(name, parse_options(name, ""))).of(0)
    print(name, "trackers" in sys.modules)
StreamTrackers(Settings("bytetrack", parse_options("bytetrack", "frame_rate=25"))).of(0)
print("options", "trackers" in sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", lines], check=True, capture_output=True, text=True).stdout
    assert found.splitlines() == [
        "bytetrack False",
        "sort False",
        "iou False",
        "deepsort False",
        "options True",
    ]


def test_values_take_the_type_of_the_default():
    options = parse_options("botsort", " lost_track_buffer=60, frame_rate = 25 ,enable_cmc=False,cmc_method=orb,")
    assert options == {"lost_track_buffer": 60, "frame_rate": 25.0, "enable_cmc": False, "cmc_method": "orb"}
    assert isinstance(options["frame_rate"], float)
    assert parse_options("sort", "") == {}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("fairmot", "", "algorithm 'fairmot' is not known; there are: bytetrack, sort, ocsort"),
        ("sort", "buffer=3", "sort has no option 'buffer' that can be set as text; it has: lost_track_buffer"),
        ("sort", "lost_track_buffer", "is not key=value"),
        ("sort", "=3", "is not key=value"),
        ("sort", "lost_track_buffer=2.5", "a whole number such as 30 would be right"),
        ("sort", "frame_rate=fast", "a number such as 30.0 would be right"),
        ("botsort", "enable_cmc=1", "true or false would be right"),
        ("bytetrack", "iou=giou", "has no option 'iou' that can be set as text"),
    ],
)
def test_wrong_options_are_refused_by_name(name, text, words):
    with pytest.raises(ConfigurationError, match=words.replace("(", r"\(")):
        parse_options(name, text)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_options_are_finite_numbers(value):
    """With a threshold of NaN no detection would ever be tracked, and nobody would say so."""
    with pytest.raises(ConfigurationError, match=f"minimum_iou_threshold is '{value}'; a number such as 0.1"):
        parse_options("bytetrack", f"minimum_iou_threshold={value}")


def test_a_threshold_that_nothing_reaches_is_refused():
    with pytest.raises(ConfigurationError, match=r"minimum_iou_threshold is 2\.0; nothing reaches more than 1"):
        parse_options("bytetrack", "minimum_iou_threshold=2")


def test_values_that_the_library_refuses_are_refused_with_its_reason():
    with pytest.raises(
        ConfigurationError, match=r"bytetrack refuses its options.*frame_rate must be a finite positive"
    ):
        stream_tracker(Settings("bytetrack", {"frame_rate": 0.0}))


def test_only_algorithms_that_follow_the_camera_read_pixels():
    assert {name: reads_pixels(name, {}) for name in ALGORITHMS} == {
        "bytetrack": None,
        "sort": None,
        "ocsort": None,
        "botsort": "bgr",
        "cbiou": None,
        "iou": None,
        "deepsort": None,
        "mcbyte": "rgb",
    }
    assert reads_pixels("botsort", {"enable_cmc": False}) is None
