"""sluicemetafile: what is recorded comes back, field by field; other videos and broken files are named."""

import json
import re
import threading
from collections import Counter

import numpy as np
import pytest

from elements.batch_feed import Feed, Given, Gst, grey, make_buffer
from playing import play, stats_of
from sluice import elements, recording
from sluice.contract import batching, infer_meta, user_meta
from sluice.contract.metadata import BatchMeta, Lease
from sluice.errors import ConfigurationError, SluiceError
from sluice.recording import Recording, RecordingWriter, read_frame

BOX = [10.0, 8.0, 20.0, 30.0, 0.875]
SIZE = (64, 48)


@pytest.fixture(autouse=True)
def registered():
    elements.register("sluicemetafile")


def stats(feed):
    return stats_of(feed.get("m"))


def everything(pts=40_000_000):
    """Return a batch of two streams with all that can be recorded on the first frame."""
    rows = [BOX, [0.1, 0.2, 0.3, 0.4, 0.5]]
    frames = [Given(rows, number=5, pts=pts, rotation=[30.0, -89.9], ntp=7), Given(stream=3, pts=pts, seen=False)]
    buffer = make_buffer(frames)
    with Lease() as lease:
        frame = BatchMeta.of(buffer, lease).frames[0]
        frame.misc = (1, -2, 3, -(2**63))
        first, second = frame.objects[::-1]
        fill_object(first)
        second.parent = first
        classifier = second.add_classifier(9, "color")
        classifier.add_label("red", class_id=3, label_id=1, probability=0.3, num_classes=7)
        classifier.add_label("dark", class_id=4, probability=0.1)
        second.add_classifier(10, None).add_label("größe")
        infer_meta.attach_keypoints(second, np.array([[1, 2, 0.1], [3, 4, 0.2]], np.float32), unique_id=4)
        infer_meta.attach_embeddings(second, np.array([0.1, -2.5, 1e-30], np.float32), unique_id=5)
        infer_meta.attach_embeddings(frame, np.array([9.5], np.float32), unique_id=6)
        infer_meta.attach_segmentation(
            frame, np.array([[0, 1], [-1, 2]], np.int32), np.full((3, 2, 2), 0.1, np.float32), classes=3, unique_id=7
        )
        user_meta.attach_json(second, "ACME.SCORE", {"score": 0.5, "name": "Ä"})
        user_meta.attach_text(second, "ACME.SCORE", "a second one")
        user_meta.attach_bytes(frame, "ACME.BLOB", b"\x00\xff\n")
        user_meta.attach_json(frame, 8200, [1, 2])
        fill_display(frame)
    return buffer


def fill_object(obj):
    obj.object_id = 2**63 + 1
    obj.tracker_box, obj.detector_box = (-1.5, 2.5, 3.1, 4.1), (-7.0, 0.1, 1.0, 2.0)
    obj.tracker_confidence = 0.7
    obj.mask, obj.mask_threshold = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4), 0.4
    obj.misc = (5, 6, 7, 8)
    obj.rect.border_width, obj.rect.border_color = 5, (0.1, 0.2, 0.3, 0.4)
    obj.rect.has_bg_color, obj.rect.bg_color = True, (0.5, 0.6, 0.7, 0.8)
    obj.text.display_text, obj.text.font_name, obj.text.font_size = "person 7 🙂", "Mono", 21
    obj.text.x_offset, obj.text.y_offset = 11, 12


def fill_display(frame):
    display = frame.add_display()
    display.num_lines = display.num_circles = display.num_arrows = display.num_rects = display.num_labels = 1
    (line,), (circle,), (arrow,), (rect,) = display.lines, display.circles, display.arrows, display.rects
    line.x1, line.y2, line.line_width, line.line_color = 3, 9, 2, (1.0, 0.5, 0.25, 0.1)
    circle.xc, circle.radius, circle.has_bg_color = 20, 4, True
    arrow.x2, arrow.arrow_head = 30, 2
    rect.box, rect.rotation_angle = (1.0, 2.0, 3.0, 4.0), 12.5
    display.texts[0].display_text = "Exit=1"


def bare(pts=40_000_000, size=SIZE, number=5):
    return make_buffer([Given(number=number, pts=pts, seen=False), Given(stream=3, pts=pts, seen=True)], size=size)


def described(buffer):
    """Return everything about a buffer's frames as values, by other means than the recording's."""
    with Lease() as lease:
        return [describe_frame(frame) for frame in BatchMeta.of(buffer, lease).frames]


def describe_frame(frame):
    objects = frame.objects
    places = {obj.address: place for place, obj in enumerate(objects)}
    shown = [
        {
            kind: [fields(item) for item in getattr(display, kind)]
            for kind in ("rects", "texts", "lines", "arrows", "circles")
        }
        for display in frame.display_metas
    ]
    return {
        **fields(frame),
        "objects": [describe_object(obj, places) for obj in objects],
        "shown": shown,
        **results(frame),
    }


def describe_object(obj, places):
    parent = obj.parent
    mask = obj.mask
    classifiers = [(fields(item), [fields(label) for label in item.labels]) for item in obj.classifiers]
    return {
        **fields(obj),
        "rect": fields(obj.rect),
        "text": fields(obj.text),
        "mask": None if mask is None else mask.tolist(),
        "parent": None if parent is None else places[parent.address],
        "classifiers": classifiers,
        **results(obj),
    }


def fields(view):
    """All plain fields of a view."""
    found = {}
    for cls in type(view).__mro__:
        for name, member in vars(cls).items():
            if hasattr(member, "__set__") and not isinstance(member, property) and not name.startswith("_"):
                found[name] = getattr(view, name)
    return found


def results(owner):
    users = [
        (user.meta_type, user_meta.payload(user)) for user in owner.user_metas if user_meta.kind_of(user) is not None
    ]
    return {
        "user": users,
        "keypoints": [(item.component, item.points.tolist()) for item in infer_meta.keypoints(owner)],
        "embeddings": [(item.component, item.features.tolist()) for item in infer_meta.embeddings(owner)],
        "maps": [
            (item.component, item.classes, item.class_map.tolist(), item.probabilities.tolist())
            for item in infer_meta.segmentations(owner)
        ],
    }


def record(path, *batches):
    with Feed(f"sluicemetafile name=m record-to={path}") as feed:
        for held in batches:
            feed.pass_on(held)
        return stats(feed)


def test_everything_comes_back_field_by_field(tmp_path):
    path = tmp_path / "run.jsonl"
    original = described(everything())
    assert original[0]["objects"][1]["object_id"] == 2**63 + 1
    assert original[0]["objects"][0]["keypoints"]
    assert record(path, [everything()]) == {"frames": 2, "dropped": 0, "left-out": 0, "mismatched": 0}
    with Feed(f"sluicemetafile name=m replay-from={path}") as feed:
        buffer = feed.pass_on([bare()])
        assert stats(feed)["mismatched"] == 0
    replayed = described(buffer)
    # The mux makes these anew; they are not part of a recording.
    for frame in (*original, *replayed):
        del frame["ntp_timestamp"]
    assert replayed == original


def test_recording_changes_nothing(tmp_path):
    with Feed(f"sluicemetafile record-to={tmp_path / 'run.jsonl'}") as feed:
        assert described(feed.pass_on([everything()])) == described(everything())


def test_a_recording_of_a_replay_is_the_same_file(tmp_path):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    record(first, [everything()], [everything(80_000_000)])
    with Feed(f"sluicemetafile replay-from={first} record-to={second}") as feed:
        feed.pass_on([bare(80_000_000)])
    lines = first.read_text().splitlines()
    # Frames of the same number: the last recorded one counts.
    assert second.read_text().splitlines() == [lines[0], *lines[3:]]


def test_the_file_is_json_lines_with_a_head(tmp_path):
    path = tmp_path / "run.jsonl"
    record(path, [everything()])
    head, first, second = map(json.loads, path.read_text().splitlines())
    assert head == {"format": recording.FORMAT}
    assert (first["stream"], first["frame"], first["pts"], first["size"]) == (0, 5, 40_000_000, [64, 48])
    assert [user["type"] for user in first["objects"][1]["user"]] == ["ACME.SCORE", "ACME.SCORE"]
    assert (second["stream"], second["objects"], second["inferred"]) == (3, [], False)


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (lambda: bare(number=6), r"stream 0, frame 6: the recording .*run.jsonl has no such frame"),
        (lambda: bare(pts=1), r"stream 0, frame 5: its timestamp is 1 ns, and 40000000 ns in the recording"),
        (lambda: bare(size=(32, 24)), r"stream 0, frame 5: its surface is 32x24, and was 64x48"),
    ],
)
def test_another_video_is_named(tmp_path, buffer, message):
    path = tmp_path / "run.jsonl"
    record(path, [everything()])
    with Feed(f"sluicemetafile name=m replay-from={path}") as feed:
        feed.give([buffer()])
        error = feed.error(10)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(error)
    with Feed(f"sluicemetafile name=m on-mismatch=skip replay-from={path}") as feed:
        assert described(feed.pass_on([buffer()]))[0]["objects"] == []
        assert stats(feed)["mismatched"] >= 1


def test_python_objects_are_left_out_with_a_warning(tmp_path):
    buffer = make_buffer([Given([BOX])])
    with Lease() as lease:
        frame = BatchMeta.of(buffer, lease).frames[0]
        user_meta.attach_object(frame, 8300, {"a": 1})
        user_meta.attach_object(frame.objects[0], 8300, {"a": 1})
    held = [buffer]
    del buffer
    with Feed(f"sluicemetafile name=m record-to={tmp_path / 'run.jsonl'}") as feed:
        feed.pass_on(held)
        assert stats(feed)["left-out"] == 2
        warning = feed.message(Gst.MessageType.WARNING, 0)
        assert "8300" in warning.parse_warning()[0].message
        assert feed.message(Gst.MessageType.WARNING, 0) is None


def test_a_single_stream_needs_no_mux(tmp_path):
    path = tmp_path / "run.jsonl"
    record(path, *([make_buffer([Given([BOX], number=number, pts=number * 40_000_000)])] for number in range(2)))
    with Feed(f"sluicemetafile name=m replay-from={path}") as feed:
        feed.source.set_caps(Gst.Caps.from_string("video/x-raw,format=GRAY8,width=64,height=48,framerate=25/1"))
        for number in range(2):
            buffer, _ = grey()
            buffer.pts = number * 40_000_000
            held = [buffer]
            del buffer
            (frame,) = described(feed.pass_on(held))
            assert (frame["frame_num"], len(frame["objects"])) == (number, 1)
        assert stats(feed)["mismatched"] == 0


def test_a_batch_without_metadata_is_named(tmp_path):
    with Feed(f"sluicemetafile record-to={tmp_path / 'run.jsonl'}") as feed:
        feed.give([batching.make_batch([grey()], 1)])
        assert "carries no batch metadata; put nvstreammux or sluicemux before" in feed.error(10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "neither record-to nor replay-from"),
        ("replay-from=/nowhere.jsonl", "cannot be read"),
        ("replay-from=/dev/zero", "a folder, device or pipe"),
        ("record-to=/nowhere/run.jsonl", "cannot be written"),
        ("record-to=/tmp/../tmp/x replay-from=/tmp/x", "are the same file"),
        ("record-to=/tmp/x on-mismatch=stop", "on-mismatch is 'stop'; there are error, skip"),
    ],
)
def test_what_fails_the_start(options, message):
    assert message in Feed(f"sluicemetafile {options}").refusal().message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "its first line tells no format; right is sluice-metadata/1"),
        ('{"format":"sluice-metadata/9"}\n', "its format is sluice-metadata/9"),
        ('{"format":"sluice-metadata/1"}\n{"stream":0,"frame":0,"pts"\n', "line 2: no whole frame"),
        ('{"format":"sluice-metadata/1"}\n{"frame":0}\n', "line 2: no whole frame"),
    ],
)
def test_a_file_that_is_no_recording(tmp_path, text, message):
    path = tmp_path / "run.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        Recording(path)


@pytest.mark.parametrize(
    ("found", "right"),
    [
        (r'"confidence":[\d.]+', '"confidence":[]'),
        (r'"class_id":\d+', '"class_id":1e999'),
        (r'"label":"\w+"', '"label":7'),
        (r'"box":\[[^]]*\]', '"box":[1]'),
        (r'"size":\[[^]]*\]', '"size":null'),
        (r'"pts":\d+', '"pts":"\\ud800"'),
        (r'"inferred":\w+', '"inferred":,'),
    ],
)
def test_a_changed_recording_is_named_with_the_frame(tmp_path, found, right):
    path = tmp_path / "run.jsonl"
    with Feed(f"sluicemetafile record-to={path}") as feed:
        feed.push(Given([[10.0, 8.0, 20.0, 30.0, 0.875]], number=5, pts=7))
        feed.end()
    text, changes = re.subn(found, right.replace("\\", "\\\\"), path.read_text(), count=1)
    assert changes == 1
    path.write_text(text)
    with Feed(f"sluicemetafile replay-from={path}") as feed:
        feed.send(Given(number=5, pts=7))
        error = feed.error(10)
    assert error.startswith("stream 0, frame 5: ")
    assert "recording" in error


class SlowFile:
    """A file whose disk stands still until it is let go; then it is full."""

    def __init__(self, file, error=None):
        self.file, self.error, self.go, self.lines = file, error, threading.Event(), 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, text):
        assert self.go.wait(20)
        if self.error:
            raise self.error
        self.file.write(text)
        self.lines += 1

    def flush(self):
        self.file.flush()


@pytest.fixture
def slow_disk(monkeypatch):
    made = []

    def use(error=None):
        real = recording.writer.Path.open

        def opened(path, *args, **options):
            made.append(SlowFile(real(path, *args, **options), error))
            return made[-1]

        monkeypatch.setattr(recording.writer.Path, "open", opened)
        return made

    return use


def test_a_slow_disk_costs_frames_and_no_time(tmp_path, slow_disk):
    files = slow_disk()
    writer = RecordingWriter(tmp_path / "run.jsonl", limit=3)
    for number in range(10):
        writer.put({"stream": 0, "frame": number, "pts": 0})
    assert writer.dropped == 7
    files[0].go.set()
    writer.close()
    assert (writer.written, files[0].lines) == (3, 4)


def test_a_full_disk_is_an_error(tmp_path, slow_disk):
    files = slow_disk(OSError(28, "No space left on device"))
    writer = RecordingWriter(tmp_path / "run.jsonl")
    writer.put({"stream": 0, "frame": 0})
    files[0].go.set()
    with pytest.raises(SluiceError, match="No space left"):
        writer.close()
    with pytest.raises(SluiceError, match="No space left"):
        writer.put({"stream": 0, "frame": 1})


def test_a_frame_without_objects_reads_and_counts_nothing():
    buffer = make_buffer([Given()])
    left_out = Counter()
    with Lease() as lease:
        found = read_frame(BatchMeta.of(buffer, lease).frames[0], SIZE, left_out)
    assert found["objects"] == []
    assert not left_out


@pytest.mark.parametrize("behind", ["", "sluicetracker !"])
def test_a_source_of_any_format_chooses_one_that_can_be_batched(behind, tmp_path):
    elements.register("sluicetracker")
    pipeline = Gst.parse_launch(
        f"videotestsrc num-buffers=2 ! sluicemetafile record-to={tmp_path / 'm.jsonl'} ! {behind} fakesink"
    )
    play(pipeline)


def test_the_formats_of_pads_are_those_that_can_be_batched():
    from sluice.contract.formats import FORMATS
    from sluice.elements.frame_caps import RAW_FORMATS

    assert set(RAW_FORMATS.strip("{ }").split(", ")) == set(FORMATS)


def test_of_a_recording_that_was_cut_off_the_whole_frames_are_replayed(tmp_path):
    path = tmp_path / "run.jsonl"
    record(path, [everything()])
    path.write_bytes(path.read_bytes()[:-40])
    with Feed(f"sluicemetafile replay-from={path} on-mismatch=skip name=m") as feed:
        got = feed.pass_on([bare()])
        told = feed.message(Gst.MessageType.WARNING, 5).parse_warning()[0].message
        assert "was cut off in its last line; its 1 whole frames are replayed" in told
        assert stats(feed)["mismatched"] == 1
        first, second = described(got)
    assert (len(first["objects"]), len(second["objects"])) == (2, 0)


def test_a_frame_that_cannot_be_written_ends_the_recording_by_name(tmp_path):
    writer = RecordingWriter(tmp_path / "run.jsonl")
    writer.put({"stream": 0, "frame": 0, "pts": object()})
    with pytest.raises(SluiceError, match="cannot be written: Object of type object"):
        writer.close()
