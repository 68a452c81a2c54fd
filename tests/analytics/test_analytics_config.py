"""nvdsanalytics' configuration files: what is read, and what is refused by name."""

from pathlib import Path

import pytest

from sluice.analytics import DirectionRule, LineRule, Mode, RegionRule, StreamRules, read_config
from sluice.errors import ConfigurationError

FULL = """# A comment
[property]
enable=1
config-width=1280
config-height=720
osd-mode=1
display-font-size=10
display-obj-cnt=1
obj-cnt-win-in-ms=0

[roi-filtering-stream-0]
enable=1
#roi-OLD=1;1;2;2;3;3
roi-A b=10;20;30;20;30;40;
inverse-roi=1
class-id=-1

[overcrowding-stream-0]
roi-OC=0;0;10;0;10;10;0;10
time-threshold=2000
object-threshold=3
class-id=0;2

[line-crossing-stream-3]
line-crossing-Exit=5;0;5;9;0;5;10;5
class-id=1
extended=1
mode=strict

[direction-detection-stream-3]
direction-South=0;0;0;10
class-id=0

[line-crossing-stream-4]
enable=0
line-crossing-Off=5;0;5;9;0;5;10;5
"""


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        path = tmp_path / "config.txt"
        path.write_text(text)
        return read_config(path)

    return read_text


def test_every_key(read):
    config = read(FULL)
    assert (config.enable, config.width, config.height) == (True, 1280, 720)
    assert (config.osd_mode, config.font_size, config.show_counts) == (1, 10, True)
    everything = frozenset()
    crowd = ((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0))
    line = LineRule("Exit", ((5.0, 0.0), (5.0, 9.0)), ((0.0, 5.0), (10.0, 5.0)), frozenset({1}), True, Mode.STRICT)
    assert config.streams == {
        0: StreamRules(
            regions=(RegionRule("A b", ((10.0, 20.0), (30.0, 20.0), (30.0, 40.0)), everything, inverse=True),),
            crowds=(RegionRule("OC", crowd, frozenset({0, 2}), object_threshold=3, time_threshold=2_000_000_000),),
        ),
        3: StreamRules(
            lines=(line,),
            directions=(DirectionRule("South", ((0.0, 0.0), (0.0, 10.0)), frozenset({0}), Mode.BALANCED),),
        ),
    }


def test_the_published_example(data):
    folder = data / "nvinfer-configs/NVIDIA-AI-IOT+deepstream_python_apps/apps/deepstream-nvdsanalytics"
    config = read_config(folder / "config_nvdsanalytics_c02.txt")
    assert sorted(config.streams) == [0, 1, 2]
    assert [rule.name for rule in config.streams[0].regions] == ["C02"]
    assert [rule.name for rule in config.streams[0].directions] == ["South", "North"]
    assert config.streams[1].crowds == ()
    assert config.streams[1].lines[0].classes == {0}
    assert config.streams[2].regions[0].inverse


def test_the_example_of_the_documentation(read):
    page = (Path(__file__).parents[2] / "docs" / "analytics.md").read_text()
    rules = read(page.partition('```ini title="lines.txt"\n')[2].partition("```")[0]).streams[0]
    found = [rule.name for rule in (*rules.lines, *rules.regions, *rules.crowds, *rules.directions)]
    assert found == ["exit", "door", "hall", "South"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[property]\nconfig-widht=3\n", r"\[property\] has no key config-widht; there are enable, config-width"),
        ("[property]\nosd-mode=3\n", r"osd-mode=3: right would be a whole number from 0 to 2"),
        ("[property]\nconfig-width=0\n", r"config-width=0: right would be a whole number from 1 on"),
        ("[property]\nobj-cnt-win-in-ms=500\n", r"obj-cnt-win-in-ms=500"),
        ("[property]\nenable=yes\n", r"enable=yes: right would be 0 or 1"),
        ("[roi-stream-0]\n", r"\[roi-stream-0\] is no group of nvdsanalytics; .*\[line-crossing-stream-N\]"),
        ("[roi-filtering-stream-0]\nroi-A=1;2;3;4\n", r"roi-A=1;2;3;4: right would be 3 or more points"),
        ("[roi-filtering-stream-0]\nroi-A=1;2;3;4;5;6;7\n", r"roi-A=.*3 or more points"),
        ("[roi-filtering-stream-0]\nroi-A=1;2;3;nan;5;6\n", r"roi-A=.*3 or more points"),
        ("[roi-filtering-stream-0]\nroi-A=1;2;3;1e200;5;6\n", r"roi-A=.*3 or more points"),
        ("[roi-filtering-stream-0]\nmode=strict\n", r"has no key mode; there are .*inverse-roi, roi-LABEL"),
        ("[line-crossing-stream-0]\nline-crossing-L=0;0;9;0;0;5\n", r"line-crossing-L=.*4 points"),
        ("[line-crossing-stream-0]\nline-crossing-L=0;0;9;0;0;5;9;5\n", r"does not run along the line"),
        ("[line-crossing-stream-0]\nline-crossing-L=0;0;0;9;4;5;4;5\n", r"two different ends"),
        ("[line-crossing-stream-0]\nmode=exact\n", r"mode=exact: right would be strict, balanced or loose"),
        ("[direction-detection-stream-0]\ndirection-N=1;1;1;1\n", r"direction-N=.*two different points"),
        ("[overcrowding-stream-0]\nclass-id=car\n", r"class-id=car: right would be class ids as in 0;2"),
        ("no group\n", r"config.txt"),
    ],
)
def test_what_is_wrong_is_named(read, text, message):
    with pytest.raises(ConfigurationError, match=message):
        read(text)


def test_a_missing_file(tmp_path):
    with pytest.raises(ConfigurationError, match=r"nothing\.txt"):
        read_config(tmp_path / "nothing.txt")
    with pytest.raises(ConfigurationError, match=r"/dev/zero cannot be read: it is a folder, device or pipe"):
        read_config("/dev/zero")


def test_a_file_that_windows_has_saved(tmp_path):
    path = tmp_path / "config.txt"
    path.write_bytes(b"\xef\xbb\xbf[property]\r\nenable=1\r\nconfig-width=640\r\nconfig-height=360\r\n")
    assert (read_config(path).width, read_config(path).height) == (640, 360)
