"""sluicemsgbroker: in the middle and at the end of a pipeline, at EOS, at a stop, and when the disk refuses."""

import json
import os
import threading
from pathlib import Path

import pytest

from elements.batch_feed import Feed, Given, Gst
from playing import play
from sluice import elements
from sluice.contract import gstref
from waiting import until

PERSON = [10.0, 8.0, 20.0, 30.0, 0.875]
CHAIN = "sluicemsgconv ! sluicemsgbroker name=b"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def stats(feed):
    structure = feed.get("b").get_property("stats")
    return {name: structure.get_value(name) for name in ("queued", "written", "dropped", "failed")}


def counts(**changes):
    return {"queued": 0, "written": 0, "dropped": 0, "failed": 0, **changes}


def test_in_the_middle_of_a_pipeline_the_buffer_goes_on_and_eos_means_written(tmp_path):
    path = tmp_path / "m.jsonl"
    with Feed(f"{CHAIN} location={path}") as feed:
        for number in range(200):
            feed.push(Given([PERSON], number=number), Given([PERSON], stream=1, number=number))
        assert feed.end().type == Gst.MessageType.EOS
        found = lines(path)
        assert stats(feed) == counts(queued=400, written=400)
    assert [(message["stream"], message["frame"]) for message in found] == [
        (stream, number) for number in range(200) for stream in (0, 1)
    ]


def test_with_nothing_behind_the_element_is_a_sink(tmp_path):
    path = tmp_path / "m.jsonl"
    with Feed(f"sluicemsgconv ! tee name=t t. ! queue ! sluicemsgbroker name=b location={path} t. ! queue") as feed:
        for number in range(20):
            feed.push(Given([PERSON], number=number))
        assert feed.end().type == Gst.MessageType.EOS
        assert [message["frame"] for message in lines(path)] == list(range(20))


def test_alone_at_the_end_it_carries_the_pipelines_eos(tmp_path):
    path = tmp_path / "m.jsonl"
    elements.register("sluicemsgbroker")
    pipeline = Gst.parse_launch(f"videotestsrc num-buffers=3 ! sluicemsgbroker location={path}")
    pipeline.set_state(Gst.State.PLAYING)
    bus = pipeline.get_bus()
    kinds = []
    while not kinds or kinds[-1] not in (Gst.MessageType.EOS, Gst.MessageType.ERROR):
        message = bus.timed_pop_filtered(
            10 * Gst.SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR | Gst.MessageType.STREAM_START
        )
        assert message is not None
        if message.src is pipeline or message.type == Gst.MessageType.ERROR:
            kinds.append(message.type)
    pipeline.set_state(Gst.State.NULL)
    assert kinds == [Gst.MessageType.STREAM_START, Gst.MessageType.EOS]
    assert path.read_text() == ""


def test_a_stop_without_eos_writes_what_was_queued(tmp_path):
    path = tmp_path / "m.jsonl"
    with Feed(f"{CHAIN} location={path}") as feed:
        for number in range(50):
            feed.push(Given([PERSON], number=number))
    assert len(lines(path)) == 50
    assert stats(feed) == counts(queued=50, written=50)


def test_the_standard_output_gets_the_messages(capfd):
    with Feed(CHAIN) as feed:
        feed.push(Given([PERSON], number=7))
        feed.end()
    (line,) = [line for line in capfd.readouterr().out.splitlines() if line.startswith("{")]
    assert json.loads(line)["frame"] == 7


def test_only_messages_with_its_component_id_are_taken(tmp_path):
    path = tmp_path / "m.jsonl"
    with Feed(f"sluicemsgconv comp-id=1 ! sluicemsgconv comp-id=2 ! sluicemsgbroker comp-id=2 location={path}") as feed:
        feed.push(Given([PERSON]))
        feed.end()
    assert len(lines(path)) == 1


def test_the_file_is_emptied_or_added_to(tmp_path):
    path = tmp_path / "m.jsonl"
    for options, expected in (("", 1), ("append=true", 2), ("", 1)):
        with Feed(f"{CHAIN} location={path} {options}") as feed:
            feed.push(Given([PERSON]))
        assert len(lines(path)) == expected


class Pipe:
    """A named pipe that nobody reads until told to: a disk that hangs."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read_all(self):
        """Start to read, and return a function that waits for the end and gives the lines."""
        os.set_blocking(self.reader, True)
        chunks = []

        def run():
            while chunk := os.read(self.reader, 1 << 16):
                chunks.append(chunk)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def result():
            thread.join(10)
            return b"".join(chunks).splitlines()

        return result


def big(number):
    """A frame whose message fills some pages of a pipe."""
    return Given([PERSON] * 200, number=number)


def test_a_file_source_waits_for_a_slow_sink_and_loses_nothing(tmp_path):
    pipe = Pipe(tmp_path / "pipe")
    with Feed(f"queue ! {CHAIN} location={pipe.path} queue-size=2") as feed:
        for number in range(30):
            feed.send(big(number))
        feed.source.end_of_stream()
        until(lambda: stats(feed)["queued"] - stats(feed)["written"] >= 3)
        assert feed.message(Gst.MessageType.EOS, 0) is None
        assert stats(feed)["queued"] < 30
        result = pipe.read_all()
        for _ in range(30):
            assert feed.sink.try_pull_sample(10 * Gst.SECOND) is not None
        assert feed.message(Gst.MessageType.EOS | Gst.MessageType.ERROR).type == Gst.MessageType.EOS
        assert stats(feed) == counts(queued=30, written=30)
    assert [json.loads(line)["frame"] for line in result()] == list(range(30))


def test_a_live_source_never_waits_and_drops_are_counted(tmp_path):
    pipe = Pipe(tmp_path / "pipe")
    with Feed(f"{CHAIN} location={pipe.path} queue-size=2", live=True) as feed:
        for number in range(30):
            feed.push(big(number))
        counted = stats(feed)
        assert counted["queued"] == 30
        assert counted["dropped"] > 0
        result = pipe.read_all()
        assert feed.end().type == Gst.MessageType.EOS
        counted = stats(feed)
        assert counted["written"] + counted["dropped"] == 30
    frames = [json.loads(line)["frame"] for line in result()]
    assert len(frames) == counted["written"]
    assert frames == sorted(frames)
    assert frames[-1] == 29


def test_a_hanging_sink_neither_blocks_the_stop_nor_goes_unsaid(tmp_path):
    pipe = Pipe(tmp_path / "pipe")
    with Feed(f"queue ! {CHAIN} location={pipe.path} queue-size=2") as feed:
        for number in range(30):
            feed.send(big(number))
        # One message is stuck in the pipe, two fill the queue.
        until(lambda: stats(feed)["queued"] - stats(feed)["written"] >= 3)
        feed.pipeline.set_state(Gst.State.NULL)
        counted = stats(feed)
        assert counted["dropped"] > 0
        assert counted["queued"] >= counted["written"] + counted["dropped"]
    pipe.read_all()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_an_error_that_names_the_file():
    with Feed(f"{CHAIN} location=/dev/full") as feed:
        feed.push(Given([PERSON]))
        assert feed.error(10) == "a message could not be written to '/dev/full': [Errno 28] No space left on device"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_with_on_error_skip_the_video_goes_on_and_failures_are_counted():
    with Feed(f"{CHAIN} location=/dev/full on-error=skip") as feed:
        for number in range(5):
            feed.push(Given([PERSON], number=number))
        warning = feed.message(Gst.MessageType.WARNING).parse_warning()[0].message
        assert "'/dev/full': [Errno 28] No space left on device; the video goes on" in warning
        assert feed.end().type == Gst.MessageType.EOS
        assert stats(feed) == counts(queued=5, failed=5)


def test_a_file_that_cannot_be_opened_goes_uncomplained_only_with_on_error_skip():
    refusal = Feed(f"{CHAIN} location=/nonexistent/m.jsonl").refusal()
    assert "location '/nonexistent/m.jsonl' cannot be written: No such file or directory" in refusal.message
    with Feed(f"{CHAIN} location=/nonexistent/m.jsonl on-error=skip") as feed:
        assert "messages are counted as failed" in feed.message(Gst.MessageType.WARNING).parse_warning()[0].message
        feed.push(Given([PERSON]))
        assert feed.end().type == Gst.MessageType.EOS
        assert stats(feed) == counts(queued=1, failed=1)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("proto=carrier-pigeon", "proto 'carrier-pigeon' is not known; kafka, mqtt, amqp, redis, nats, http, stdout"),
        ("proto=file", "location names no file"),
        ("conn-str=localhost;9092", "conn-str is set, but no broker is; set proto-lib=libnvds_kafka_proto.so"),
        ("config=c.txt", "config is set, but no broker is"),
        ("topic=t", "topic is set, but no broker is"),
        ("start-policy=never", "start-policy is 'never'; it can be continue or wait or fail"),
        ("overflow=block", "overflow is 'block'; it can be auto or wait or drop-oldest or drop-newest"),
        ("on-error=stop", "on-error is 'stop'; it can be fail or skip"),
        ("sync=true", "sync can only be false"),
    ],
)
def test_wrong_properties_are_refused_by_name(properties, words):
    assert words in Feed(f"sluicemsgbroker {properties}").refusal().message


def test_a_flush_does_not_lose_queued_messages(tmp_path):
    path = tmp_path / "m.jsonl"
    with Feed(f"{CHAIN} location={path}") as feed:
        feed.push(Given([PERSON], number=0))
        pad = feed.get("b").get_static_pad("sink")
        pad.send_event(Gst.Event.new_flush_start())
        pad.send_event(Gst.Event.new_flush_stop(False))
        segment = Gst.Segment()
        segment.init(Gst.Format.TIME)
        feed.event(Gst.Event.new_segment(segment))
        feed.push(Given([PERSON], number=1))
        assert feed.end().type == Gst.MessageType.EOS
        assert [message["frame"] for message in lines(path)] == [0, 1]


def test_it_counts_as_a_sink():
    elements.register("sluicemsgbroker")
    element = Gst.ElementFactory.make("sluicemsgbroker")
    assert element.flags & int(Gst.ElementFlags.SINK)
    holder = Gst.Bin.new()
    holder.add(element)
    assert holder.flags & int(Gst.ElementFlags.SINK)
    assert [gstref.address(found) for found in holder.iterate_sinks()] == [gstref.address(element)]


def test_a_seek_of_the_pipeline_goes_upstream_once(tmp_path):
    seeks = []

    def note(pad, info):
        if info.get_event().type == Gst.EventType.SEEK:
            seeks.append(info.get_event().get_seqnum())
        return Gst.PadProbeReturn.OK

    elements.register("sluicemsgbroker")
    pipeline = Gst.parse_launch(f"videotestsrc name=v ! sluicemsgbroker location={tmp_path / 'm'} ! fakesink sync=true")
    pipeline.get_by_name("v").get_static_pad("src").add_probe(Gst.PadProbeType.EVENT_UPSTREAM, note)
    pipeline.set_state(Gst.State.PAUSED)
    pipeline.get_state(10 * Gst.SECOND)
    assert pipeline.seek_simple(Gst.Format.TIME, Gst.SeekFlags.FLUSH, 2 * Gst.SECOND)
    pipeline.get_state(10 * Gst.SECOND)
    pipeline.set_state(Gst.State.NULL)
    assert len(seeks) == 1


def test_as_a_sink_it_prerolls_with_the_first_buffer_and_stops_without_one(tmp_path):
    elements.register("sluicemsgbroker")
    pipeline = Gst.parse_launch(f"valve name=v ! sluicemsgbroker location={tmp_path / 'm'}")
    source = Gst.ElementFactory.make("videotestsrc")
    pipeline.add(source)
    source.link(pipeline.get_by_name("v"))
    pipeline.get_by_name("v").set_property("drop", True)
    assert pipeline.set_state(Gst.State.PAUSED) == Gst.StateChangeReturn.ASYNC
    assert pipeline.get_state(0.1 * Gst.SECOND)[0] == Gst.StateChangeReturn.ASYNC
    pipeline.get_by_name("v").set_property("drop", False)
    assert pipeline.get_state(10 * Gst.SECOND)[:2] == (Gst.StateChangeReturn.SUCCESS, Gst.State.PAUSED)
    assert pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.SUCCESS
    assert pipeline.set_state(Gst.State.READY) == Gst.StateChangeReturn.SUCCESS
    pipeline.get_by_name("v").set_property("drop", True)
    assert pipeline.set_state(Gst.State.PAUSED) == Gst.StateChangeReturn.ASYNC
    assert pipeline.set_state(Gst.State.NULL) == Gst.StateChangeReturn.SUCCESS


def test_as_a_sink_with_async_false_it_waits_for_nothing(tmp_path):
    elements.register("sluicemsgbroker")
    pipeline = Gst.parse_launch(f"appsrc ! sluicemsgbroker sync=false async=false location={tmp_path / 'm'}")
    assert pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.SUCCESS
    pipeline.set_state(Gst.State.NULL)


def test_in_the_middle_it_waits_for_nothing(tmp_path):
    elements.register("sluicemsgbroker")
    pipeline = Gst.parse_launch(f"appsrc ! sluicemsgbroker location={tmp_path / 'm'} ! fakesink async=false")
    assert pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.SUCCESS
    pipeline.set_state(Gst.State.NULL)


@pytest.mark.parametrize("tail", ["", " ! fakesink"])
def test_the_end_reaches_a_program_that_plays_as_soon_as_the_pipeline_has_prerolled(tmp_path, tail):
    elements.register("sluicemsgbroker")
    for _ in range(20):
        pipeline = Gst.parse_launch(f"videotestsrc num-buffers=5 ! sluicemsgbroker location={tmp_path / 'm'}{tail}")
        pipeline.set_state(Gst.State.PAUSED)
        pipeline.get_state(10 * Gst.SECOND)
        play(pipeline)
