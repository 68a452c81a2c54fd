"""Regions of interest from a line of text and from nvdspreprocess's file."""

import pytest

from sluice.errors import ConfigurationError
from sluice.models.regions import read_regions, regions_of_event

FILE = """
[property]
enable=1
target-unique-ids=1

[user-configs]
pixel-normalization-factor=0.003921568

[group-0]
src-ids=0;1
process-on-roi=1
roi-params-src-0=0;540;900;500;960;0;900;500;
roi-params-src-1=0;540;900;500

[group-1]
src-ids=2
process-on-roi=0
roi-params-src-2=1;2;3;4

[group-2]
src-ids=1
process-on-roi=1
roi-params-src-1=8;8;16;16
"""


@pytest.mark.parametrize("text", [None, "", "  "])
def test_nothing_is_no_region(text):
    assert read_regions(text) == {}


def test_regions_in_a_line():
    text = " 0=0;0;64;48;64;0;64;48, roi-params-src-12 = 1.5;2;3;4;"
    assert read_regions(text) == {0: ((0, 0, 64, 48), (64, 0, 64, 48)), 12: ((1.5, 2, 3, 4),)}


def test_regions_in_nvdspreprocess_file(tmp_path):
    path = tmp_path / "config_preprocess.txt"
    path.write_text(FILE)
    assert read_regions(str(path)) == {
        0: ((0, 540, 900, 500), (960, 0, 900, 500)),
        1: ((0, 540, 900, 500), (8, 8, 16, 16)),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0=1;2;3", "stream 0 has 3 numbers"),
        ("0=", "0 numbers"),
        ("0=1;2;a;4", "'1;2;a;4'"),
        ("door=1;2;3;4", "'door' is no stream"),
        ("0=-1;2;3;4", "left, top from 0"),
        ("0=1;2;0;4", "sizes from 1"),
        ("0=nan;2;3;4", "left, top from 0"),
        ("0=1;2;inf;4", "left, top from 0"),
        ("0=1;2;3;4,0=5;6;7;8", "has 0 twice"),
        ("missing.txt", "missing.txt"),
    ],
)
def test_what_cannot_be_read_is_named(text, said):
    with pytest.raises(ConfigurationError, match=said):
        read_regions(text)


def test_a_file_without_regions_is_refused(tmp_path):
    path = tmp_path / "config.txt"
    path.write_text("[group-0]\nprocess-on-roi=0\n")
    with pytest.raises(ConfigurationError, match="no region of interest"):
        read_regions(str(path))


@pytest.mark.parametrize("count", [-1, 1025, 2**31 - 1])
def test_an_event_with_more_regions_than_there_can_be_is_refused_before_they_are_looked_for(count):
    with pytest.raises(ConfigurationError, match=f"roi-count is {count}; right is 0 to 1024"):
        regions_of_event({"stream_id": "0", "roi-count": count})
