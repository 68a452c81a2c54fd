"""nvmsgconv's configuration files: all three forms, and what is said about faults."""

import pytest

from sluice.errors import ConfigurationError
from sluice.messages.deepstream_config import Analytics, Place, Sensor, read_configuration

KEY_FILE = """# cameras
[sensor3]
enable=1
id = CAM_3
type=Camera
description=Gate
location=45.5;-75.25;48.0
coordinate=5.2;10.1;11.2;
[place3]
enable=1
id=P
name=yard
type=garage
location=1;2;3
coordinate=4;5;6
place-sub-field1=a
place-sub-field2=b
place-sub-field3=c
[analytics3]
enable=1
id=A
description=d
source=s
version=1.0
"""
YAML = """
sensor3: {enable: 1, id: CAM_3, type: Camera, description: Gate, location: 45.5;-75.25;48.0, coordinate: 5.2;10.1;11.2}
place3:
  enable: 1
  id: P
  name: yard
  type: garage
  location: 1;2;3
  coordinate: 4;5;6
  place-sub-field1: a
  place-sub-field2: b
  place-sub-field3: c
analytics3: {enable: 1, id: A, description: d, source: s, version: 1.0}
"""


@pytest.fixture
def written(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.mark.parametrize(("name", "text"), [("c.txt", KEY_FILE), ("c.yml", YAML), ("c.yaml", YAML)])
def test_key_files_and_yaml_say_the_same(written, name, text):
    found = read_configuration(written(name, text))
    assert found.sensors == {3: Sensor("CAM_3", "Camera", "Gate", (45.5, -75.25, 48.0), (5.2, 10.1, 11.2))}
    assert found.places == {3: Place("P", "yard", "garage", (1.0, 2.0, 3.0), (4.0, 5.0, 6.0), ("a", "b", "c"))}
    assert found.analytics == {3: Analytics("A", "d", "s", "1.0")}
    assert found.warnings == []


def test_a_table_has_a_row_per_source(written):
    found = read_configuration(written("c.csv", "head\n0,CAM_0,First,x,L1,E1,s1\n7,CAM_1,Second,x,L2,E2,s2\n"))
    assert found.sensors[1] == Sensor("CAM_1", "Camera", "Second")
    assert found.places[1] == Place("Id", "endeavor", "building/garage", sub_fields=("L2", "E2", "s2"))
    assert found.analytics[1] == Analytics(version="1.0")
    assert list(found.sensors) == [0, 1]


def test_groups_count_only_when_enabled(written):
    text = "[sensor0]\nid=A\n[sensor1]\nenable=0\nid=B\nbogus=1\n[sensor2]\nenable=1\nid=C\n"
    found = read_configuration(written("c.txt", text))
    assert found.sensors == {2: Sensor("C")}
    assert found.warnings == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[sensor0]\nenable=1\nlocaton=1;2;3\n",
            "[sensor0] has an unknown key 'locaton', which is ignored; did you mean 'location'?",
        ),
        ("[senso0]\nenable=1\n", "unknown group [senso0], which is ignored; did you mean [sensor0]?"),
        ("[sensor]\nenable=1\n", "unknown group [sensor], which is ignored; did you mean [sensor0]?"),
        ("[zzz]\nx=1\n", "known are [sensorN], [placeN] and [analyticsN]"),
    ],
)
def test_what_is_not_known_is_told_with_the_nearest_that_is(written, text, words):
    (warning,) = read_configuration(written("c.txt", text)).warnings
    assert words in warning
    assert "c.txt" in warning


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("c.txt", "[sensor0]\nenable=1\nlocation=1;2\n", "[sensor0] location=1;2 is not of the form lat;lon;alt"),
        ("c.txt", "[place0]\nenable=1\ncoordinate=1;b;3\n", "[place0] coordinate=1;b;3 is not of the form x;y;z"),
        ("c.txt", "[sensor0]\nenable=1\n[sensor00]\nenable=1\n", "[sensor00] is the second group for sensor 0"),
        ("c.txt", "[sensor0]\nenable=yes\n", "[sensor0] enable=yes; it can be 0 or 1"),
        ("c.txt", "cameraId,x\n", "is no key file"),
        ("c.yml", "sensor0: [1, 2]\n", "sensor0 is not a map of plain values"),
        ("c.yml", "a: b: c\n", "is no YAML"),
        ("c.yml", "- a\n", "has no groups"),
        ("c.yml", "sensor0:\n  id: " + "[" * 3000, "nested deeper"),
        ("c.txt", "[place0]\nenable=1\nlocation=nan;0;0\n", "[place0] location=nan;0;0 is not of the form"),
        ("c.txt", "[sensor0]\nenable=1\ncoordinate=0;1e999;0\n", "three numbers"),
        ("c.csv", "head\n0,CAM\n", "line 2: 2 columns; a row has 7"),
        ("c.txt", "[sensor0]\nenable=1\nid=\\q\n", "is no key file"),
    ],
)
def test_faults_are_refused_by_name(written, name, text, words):
    path = written(name, text)
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"nothing.txt' cannot be read: No such file"):
        read_configuration(tmp_path / "nothing.txt")
    with pytest.raises(ConfigurationError, match=r"a folder, device or pipe"):
        read_configuration(tmp_path)
    (tmp_path / "latin.txt").write_bytes(b"[sensor0]\nid=\xe9\n")
    with pytest.raises(ConfigurationError, match=r"latin.txt' is no UTF-8 text"):
        read_configuration(tmp_path / "latin.txt")


def test_tables_can_be_forbidden(written):
    with pytest.raises(ConfigurationError, match="payload-type 0 only"):
        read_configuration(written("c.csv", "head\n"), table=False)


def test_files_that_windows_has_saved(tmp_path):
    for name, text in {
        "c.txt": "[sensor0]\nenable=1\nid=CAM\n",
        "c.yml": "sensor0:\n  enable: 1\n  id: CAM\n",
        "c.csv": "head\n0,CAM,a,b,c,d,e\n",
    }.items():
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
        assert read_configuration(tmp_path / name).sensors[0].id == "CAM"


def test_a_table_with_empty_lines_and_quotes(written):
    found = read_configuration(written("c.csv", 'head\n\n0,CAM_0,"Door, north",x,L1,E1,s1\n\n1,CAM_1,b,x,L2,E2,s2\n\n'))
    assert [found.sensors[number].description for number in (0, 1)] == ["Door, north", "b"]
    assert found.places[0].sub_fields == ("L1", "E1", "s1")
    assert found.warnings == []


def test_a_table_without_a_heading_is_told(written):
    found = read_configuration(written("c.csv", "0,CAM_0,Door,x,L1,E1,s1\n"))
    assert found.sensors == {}
    assert "has no row below its first line, which is the heading" in found.warnings[0]
