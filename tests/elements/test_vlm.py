"""sluicevlm: frames pass, segments are asked about by stream id, answers return; whatever the model does."""

import gc
import itertools
import json
import threading
import time
import weakref
from collections import Counter

import pytest

from elements.batch_feed import Feed, Given, Gst, make_buffer
from playing import stats_of
from sluice import elements
from sluice.contract import gstref, user_meta
from sluice.contract.answer_meta import ANSWER, Answer, attach_answer, read_answers
from sluice.contract.metadata import BatchMeta, Lease
from sluice.elements import events
from vlm.chat_server import ChatServer, Reply
from waiting import until

SECOND = Gst.SECOND

MODEL = """
import threading, time
CALLS, GATE = [], threading.Event()
class Model:
    def answer(self, images, prompt):
        CALLS.append((len(images), images[0].shape, prompt))
        GATE.wait()
        if "raise" in prompt:
            raise ValueError("no idea")
        return f"answer to {prompt}"
class Sleeps(Model):
    def answer(self, images, prompt):
        time.sleep(600)
"""


@pytest.fixture
def model(tmp_path):
    """A user's file with a model, and its globals: what it was called with, and the gate that holds it back."""
    elements.register("sluicevlm")
    path = tmp_path / "thinker.py"
    path.write_text(MODEL)
    return path


def feed(model, options="every=1", name="Model", **more):
    return Feed(f"sluicevlm name=v backend={model}:{name} {options}", **more)


def module_of(element):
    return __import__("sys").modules[type(element._backend._target).__module__]


def answers(buffer):
    """The answers on a batch: (stream of the frame, answer)."""
    with Lease() as lease:
        return [
            (frame.source_id, answer) for frame in BatchMeta.of(buffer, lease).frames for answer in read_answers(frame)
        ]


def at(seconds, stream=0, rows=(), **more):
    return Given(list(rows), stream=stream, number=int(seconds * 10), pts=round(seconds * SECOND), **more)


def stats(element):
    return {name: int(count) for name, count in stats_of(element).items() if int(count)}


def told(feed, count, seconds=40, warnings=None):
    """The element messages so far, until there are `count`; texts of warnings go to a list."""
    found = []
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        message = feed.message(Gst.MessageType.ELEMENT | Gst.MessageType.WARNING, 1)
        if message is None:
            continue
        if message.type == Gst.MessageType.WARNING:
            if warnings is not None:
                warnings.append((message.parse_warning()[0].message, message.parse_warning()[1]))
        elif message.get_structure().get_name() == "sluice-vlm":
            structure = message.get_structure()
            found.append({key: structure.get_value(key) for key in ("event", "stream", "name", "segment", "text")})
            found[-1] |= {"reason": structure.get_string("reason"), "answer": structure.get_string("answer")}
    assert len(found) == count, found
    return found


def test_frames_pass_while_the_model_thinks_and_the_answer_comes_with_a_later_one(model) -> None:
    with feed(model, 'every=1 prompt="who is on {name}?" names=0=gate') as line:
        element = line.get("v")
        for number in range(10):
            assert answers(line.push(at(number / 10))) == []
        until(lambda: len(module_of(element).CALLS) == 1)
        assert module_of(element).CALLS == [(1, (48, 64, 3), "who is on gate?")]
        module_of(element).GATE.set()
        (event,) = told(line, 1)
        assert event["event"] == "answered"
        ((stream, answer),) = answers(line.push(at(0.95)))
        assert answers(line.push(at(0.96))) == []
        shown = json.loads(element.get_property("answers"))
    assert stream == 0
    assert (answer.text, answer.start_pts, answer.end_pts) == ("answer to who is on gate?", 0, 0)
    assert (answer.segment, answer.cause, answer.model, answer.pictures) == (0, "time", f"{model}:Model", 1)
    assert shown["gate"] == [json.loads(event["answer"])]


def test_each_stream_gets_its_own_answer_wherever_it_lies_in_the_batch(model) -> None:
    with feed(model, "every=100 prompt={stream}") as line:
        element = line.get("v")
        line.push(at(0, 3), at(0, 1), at(0, 2))
        module_of(element).GATE.set()
        told(line, 3)
        found = answers(line.push(at(0.1, 2), at(0.1, 1)))
        found += answers(line.push(at(0.2, 3), at(0.2, 2)))
    assert [(stream, answer.stream, answer.text) for stream, answer in found] == [
        (number, number, f"answer to {number}") for number in (2, 1, 3)
    ]


def test_wait_answers_each_segment_on_its_own_last_frame(model) -> None:
    with feed(model, "every=1 frames=2 policy=wait prompt={pts}") as line:
        module_of(line.get("v")).GATE.set()
        found = {}
        for number in range(21):
            line.send(at(number / 10), at(number / 10 + 0.25, 1))
        line.source.end_of_stream()
        for number in range(21):
            sample = line.sink.try_pull_sample(10 * SECOND)
            found[number] = [(stream, answer.text, answer.start_pts) for stream, answer in answers(sample.get_buffer())]
        assert line.message(Gst.MessageType.EOS | Gst.MessageType.ERROR).type == Gst.MessageType.EOS
        counted = stats(line.get("v"))
    assert {number: rows for number, rows in found.items() if rows} == {
        5: [(0, "answer to 0.500", 0), (1, "answer to 0.750", SECOND // 4)],
        15: [(0, "answer to 1.500", SECOND), (1, "answer to 1.750", SECOND + SECOND // 4)],
    }
    assert (counted["asked"], counted["answered"], counted["incomplete"]) == (6, 4, 2)


def test_wait_holds_back_at_most_so_many_buffers_and_never_deadlocks(model) -> None:
    with feed(model, "every=100 policy=wait max-held=4 max-queued=1") as line:
        done = threading.Event()

        def give():
            for number in range(40):
                line.send(at(number / 10, number % 4))
            done.set()

        thread = threading.Thread(target=give)
        thread.start()
        until(lambda: stats(line.get("v")).get("asked") == 4)
        assert line.sink.try_pull_sample(SECOND // 5) is None
        module_of(line.get("v")).GATE.set()
        streams = []
        for _ in range(40):
            sample = line.sink.try_pull_sample(10 * SECOND)
            streams += [stream for stream, _ in answers(sample.get_buffer())]
        thread.join()
    assert streams == [0, 1, 2, 3]


def test_the_account_under_newest_and_oldest(model) -> None:
    for policy, kept in (("newest", [0, 4, 5]), ("oldest", [0, 1, 2])):
        with feed(model, f"every=1 concurrency=1 max-queued=2 policy={policy}") as line:
            element = line.get("v")
            calls = module_of(element).CALLS
            for number in range(6):
                line.push(at(number))
                if not number:
                    until(lambda calls=calls: len(calls) == 1)
            module_of(element).GATE.set()
            outcomes = told(line, 6)
            counted = stats(element)
        assert sorted(one["segment"] for one in outcomes if one["event"] == "answered") == kept
        dropped = [one for one in outcomes if one["event"] == "dropped"]
        assert {one["reason"] for one in dropped} == {"queue-full"}
        assert (counted["asked"], counted["answered"], counted["queue-full"]) == (6, 3, 3)


def test_an_exception_is_counted_named_and_told_with_its_traceback_and_the_stream_goes_on(model) -> None:
    with feed(model, "every=1 prompt=raise") as line:
        module_of(line.get("v")).GATE.set()
        for number in range(30):
            line.push(at(number / 10))
        warnings = []
        events_told = told(line, 3, warnings=warnings)
        ((text, debug),) = warnings
        assert line.message(Gst.MessageType.WARNING, 0) is None
        counted = stats(line.get("v"))
        assert line.error() is None
    assert {(one["event"], one["reason"]) for one in events_told} == {("failed", "model-error")}
    assert "stream 0: segment" in text
    assert "ValueError: no idea" in text
    assert "thinker.py" in debug
    assert (counted["asked"], counted["model-error"]) == (3, 3)


def test_objects_in_prompts_and_as_triggers(model) -> None:
    options = 'every=0 trigger=object:person cooldown=0 prompt="{cause}: {objects}"'
    with feed(model, options) as line:
        module_of(line.get("v")).GATE.set()
        line.push(at(0))
        row = [4.0, 4.0, 10.0, 10.0, 0.9]
        line.push(at(1, rows=[row, row]))
        line.push(at(2, rows=[row]))
        (event,) = told(line, 1)
    assert event["text"] == "answer to object:person: 2 person"


def test_a_line_that_sluiceanalytics_saw_crossed(model) -> None:
    with feed(model, "every=0 trigger=line:exit prompt={cause}") as line:
        module_of(line.get("v")).GATE.set()
        for number, crossings in enumerate(([], [{"line": "entry", "id": 1}], [{"line": "exit", "id": 1}])):
            buffer = make_buffer([at(number)])
            with Lease() as lease:
                frame = BatchMeta.of(buffer, lease).frames[0]
                user_meta.attach_json(frame, "SLUICE.ANALYTICS", {"analytics": {"crossings": crossings}})
            line.give([buffer])
            del buffer
            line.sink.try_pull_sample(10 * SECOND)
        (event,) = told(line, 1)
    assert event["text"] == "answer to line:exit"
    assert event["segment"] == 0


def test_programs_ask_by_signal_and_by_event(model) -> None:
    with feed(model, "every=0 names=0=gate prompt=usual") as line:
        element = line.get("v")
        module_of(element).GATE.set()
        heard = []
        element.connect("answered", lambda _element, stream, text: heard.append((stream, json.loads(text)["text"])))
        assert not element.emit("ask", "gate", "who?")
        line.push(at(0), at(0, 1))
        assert element.emit("ask", "gate", "who is on {name}?")
        assert element.emit("ask", "1", None)
        assert not element.emit("ask", "nobody", None)
        assert not element.emit("ask", "gate", "{wrong}")
        line.push(at(1), at(1, 1))
        texts = [one["text"] for one in told(line, 2)]
        assert sorted(texts) == ["answer to usual", "answer to who is on gate?"]
        structure = Gst.Structure.new_empty("sluice-vlm-ask")
        structure.set_value("prompt", "all?")
        line.sink.get_static_pad("sink").push_event(Gst.Event.new_custom(Gst.EventType.CUSTOM_UPSTREAM, structure))
        line.push(at(2), at(2, 1))
        assert [one["text"] for one in told(line, 2)] == ["answer to all?"] * 2
        until(lambda: len(heard) == 4)
    assert Counter(stream for stream, _ in heard) == {0: 2, 1: 2}


def test_settings_change_while_it_runs_and_wrong_ones_are_refused(model) -> None:
    with feed(model, "every=1 prompt=one") as line:
        element = line.get("v")
        module_of(element).GATE.set()
        line.push(at(0))
        told(line, 1)
        element.set_property("prompt", "two")
        line.push(at(0.1))
        assert told(line, 1)[0]["text"] == "answer to two"
        element.set_property("prompt", "{nobody}")
        assert element.get_property("prompt") == "two"
        assert "prompt was not changed" in line.message(Gst.MessageType.WARNING, 5).parse_warning()[0].message
        element.set_property("enable", False)
        line.push(at(5))
        element.set_property("enable", True)
        line.push(at(6))
        assert told(line, 1)[0]["segment"] == 1


def test_the_settings_of_single_streams(model, tmp_path) -> None:
    path = tmp_path / "vlm.yml"
    path.write_text("prompt: common\nstreams:\n  yard: {prompt: 'own {name}'}\n  2: {every: 0}\n")
    with feed(model, f"every=1 config-file={path} names=1=yard") as line:
        module_of(line.get("v")).GATE.set()
        line.push(at(0), at(0, 1), at(0, 2))
        assert sorted(one["text"] for one in told(line, 2)) == ["answer to common", "answer to own yard"]


def test_streams_that_end_jump_or_go_are_accounted_for(model) -> None:
    with feed(model, "every=1 frames=2") as line:
        element = line.get("v")
        line.push(at(0), at(0, 1), at(0, 2))
        line.event(events.stream_eos(0))
        line.event(events.pad_deleted(1))
        line.push(at(0.2, 2))
        line.push(at(0, 2))
        line.push(at(0.5, 2))
        outcomes = told(line, 3)
        assert [(one["stream"], one["reason"]) for one in outcomes] == [(n, "incomplete") for n in (0, 1, 2)]
        until(lambda: len(module_of(element).CALLS) == 1)
        line.event(events.pad_deleted(2))
        module_of(element).GATE.set()
        line.push(at(0, 5))
        (answer,) = told(line, 1)
        assert (answer["event"], answer["stream"]) == ("answered", 2)
        assert stats(element)["undelivered"] == 1


def test_stop_with_a_model_that_sleeps_for_ten_minutes(model) -> None:
    line = feed(model, "every=1", name="Sleeps")
    with line:
        line.push(at(0))
        until(lambda: stats(line.get("v")).get("pending") == 1)
        time.sleep(0.05)
        began = time.monotonic()
        line.pipeline.set_state(Gst.State.NULL)
        took = time.monotonic() - began
    assert took < 2
    assert stats(line.get("v"))["stopped"] == 1


def test_stop_and_flush_with_buffers_held_back(model) -> None:
    with feed(model, "every=1 policy=wait") as line:
        line.send(at(0))
        line.send(at(0.1))
        until(lambda: stats(line.get("v")).get("asked") == 1)
        source = line.source
        assert source.send_event(Gst.Event.new_flush_start())
        assert source.send_event(Gst.Event.new_flush_stop(True))
        assert told(line, 1)[0]["reason"] == "flushed"
        line.send(at(7))
        until(lambda: stats(line.get("v")).get("asked") == 2)
        began = time.monotonic()
        line.pipeline.set_state(Gst.State.NULL)
        assert time.monotonic() - began < 2
        counted = stats(line.get("v"))
        assert counted["asked"] == counted["flushed"] + counted.get("stopped", 0) == 2


@pytest.mark.parametrize("policy", ["newest", "oldest"])
def test_the_end_of_a_stream_does_not_wait_for_answers_that_nobody_holds_frames_for(model, policy) -> None:
    with feed(model, f"every=1 policy={policy}") as line:
        element = line.get("v")
        line.push(at(0))
        until(lambda: len(module_of(element).CALLS) == 1)
        line.source.end_of_stream()
        assert line.message(Gst.MessageType.EOS | Gst.MessageType.ERROR).type == Gst.MessageType.EOS
        module_of(element).GATE.set()
        (outcome,) = told(line, 1)
        assert outcome["event"] == "answered"
        assert stats(element)["answered"] == 1


@pytest.mark.parametrize("policy", ["newest", "oldest"])
def test_a_flush_leaves_requests_alone_that_no_frame_waits_for(model, policy) -> None:
    with feed(model, f"every=1 policy={policy}") as line:
        element = line.get("v")
        line.push(at(0))
        until(lambda: len(module_of(element).CALLS) == 1)
        assert line.source.send_event(Gst.Event.new_flush_start())
        assert line.source.send_event(Gst.Event.new_flush_stop(True))
        module_of(element).GATE.set()
        (outcome,) = told(line, 1)
        assert outcome["event"] == "answered"
        line.push(at(5))
        assert line.error() is None


def test_the_end_waits_for_the_last_answer_under_wait(model) -> None:
    with feed(model, "every=1 policy=wait") as line:
        element = line.get("v")
        line.send(at(0))
        until(lambda: len(module_of(element).CALLS) == 1)
        line.source.end_of_stream()
        assert line.sink.try_pull_sample(SECOND // 5) is None
        module_of(element).GATE.set()
        sample = line.sink.try_pull_sample(10 * SECOND)
        assert [answer.segment for _, answer in answers(sample.get_buffer())] == [0]
        assert line.message(Gst.MessageType.EOS | Gst.MessageType.ERROR).type == Gst.MessageType.EOS


def test_a_hundred_streams_are_all_answered_and_none_starves(model) -> None:
    with feed(model, "every=1 concurrency=4 prompt={stream}") as line:
        element = line.get("v")
        module_of(element).GATE.set()
        asked = 0
        for second, first in itertools.product(range(2), range(0, 100, 5)):
            asked += 5
            later = itertools.count()

            def all_are_taken(second=second, first=first, asked=asked, later=later):
                moment = second + next(later) / 1000
                line.push(*(at(moment, stream) for stream in range(first, first + 5)))
                return stats(element).get("asked") == asked

            # While too many pictures wait for the encoder a frame is left out, and the next wanted in its place.
            until(all_are_taken, "five segments more")
        until(lambda: stats(element).get("answered", 0) + stats(element).get("queue-full", 0) == 200)
        outcomes = told(line, 200)
    answered = Counter(one["stream"] for one in outcomes if one["event"] == "answered")
    assert set(answered) == set(range(100))
    assert all(one["text"] == f"answer to {one['stream']}" for one in outcomes if one["event"] == "answered")


def test_it_starts_again_after_a_stop(model) -> None:
    line = feed(model, "every=1")
    for _ in range(2):
        with line:
            module_of(line.get("v")).GATE.set()
            line.push(at(0))
            assert told(line, 1)[0]["event"] == "answered"


FAULTS = {
    "unreachable": Reply(drop=True),
    "rate-limited": Reply(status=429, headers={"retry-after": "0"}, body=b"{}"),
    "server-error": Reply(status=500, body=b"oops"),
    "refused": Reply(status=401, body=b"{}"),
    "bad-response": Reply(body=b"<html>"),
    "too-large": Reply(text="x" * 5_000_000),
    "timed-out": Reply(hang=True),
    "invalid-answer": Reply(text="maybe"),
}


@pytest.mark.parametrize("reason", FAULTS)
def test_faults_of_an_endpoint_leave_the_stream_alone(reason) -> None:
    elements.register("sluicevlm")
    with ChatServer(answer=lambda asked: FAULTS[reason]) as server:
        seconds = 0.4 if reason == "timed-out" else 60
        options = f"model=m every=0.5 retries=0 timeout={seconds} labels=yes;no concurrency=1 max-queued=8"
        with Feed(f"sluicevlm name=v backend={server.url} {options}") as line:
            seen = []
            for number in range(20):
                buffer = line.push(at(number / 10), at(number / 10, 1))
                with Lease() as lease:
                    seen += [(one.source_id, one.frame_num) for one in BatchMeta.of(buffer, lease).frames]
                del buffer
            warnings = []
            outcomes = told(line, 8, warnings=warnings)
            counted = stats(line.get("v"))
            assert line.error() is None
    assert seen == [(stream, number) for number in range(20) for stream in (0, 1)]
    assert {(one["event"], one["reason"]) for one in outcomes} == {("failed", reason)}
    assert counted["asked"] == counted[reason] == 8
    assert [reason in text for text, _ in warnings] == [True]


def test_stop_with_requests_in_flight() -> None:
    elements.register("sluicevlm")
    with ChatServer(answer=lambda asked: Reply(hang=True)) as server:
        with Feed(
            f"sluicevlm name=v backend={server.url} model=m every=1 timeout=600 concurrency=4 max-queued=8"
        ) as line:
            for number in range(6):
                line.push(at(number))
            until(lambda: len(server.asked) == 4)
            began = time.monotonic()
            line.pipeline.set_state(Gst.State.NULL)
            took = time.monotonic() - began
            counted = stats(line.get("v"))
        until(lambda: server.aborted == 4)
    assert took < 2
    assert (counted["asked"], counted["stopped"]) == (6, 6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("", "backend is not set"),
        ("backend=nobody", "there is no back end 'nobody'"),
        ("backend=http://h/v1", "model is not set"),
        ("backend=http://h/v1 model=m policy=fastest", "policy is 'fastest'; there are newest, oldest, wait"),
        ("backend=http://h/v1 model=m prompt={x}", "unknown placeholder {x}"),
        ("backend=http://h/v1 model=m trigger=person", "right is object:LABEL"),
        ("backend=http://h/v1 model=m overlap=1", "overlap is 1"),
        ("backend=http://h/v1 model=m names=gate", "right is NUMBER=NAME"),
        ("backend=http://h/v1 model=m request-options=[]", "right is a JSON object"),
        ("backend=http://h/v1 model=m schema-file=/no/such.json", "cannot be read"),
        ("backend=http://h/v1 model=m config-file=/no/such.yml", "cannot be read"),
        ("backend=no_such_file.py:Model", "there is no model file 'no_such_file.py'"),
        ("backend=sluice.errors:SluiceError", "has no answer(images, prompt)"),
    ],
)
def test_wrong_properties_are_refused_at_the_start(options, says) -> None:
    elements.register("sluicevlm")
    assert says in Feed(f"sluicevlm name=v {options}").refusal().message


def test_a_single_raw_stream_without_a_mux(model) -> None:
    pipeline = Gst.parse_launch(
        f"videotestsrc num-buffers=20 ! video/x-raw,format=I420,width=64,height=48,framerate=10/1 ! "
        f"sluicevlm name=v backend={model}:Model every=1 policy=wait ! appsink name=sink sync=false max-buffers=0"
    )
    pipeline.set_state(Gst.State.PAUSED)
    module_of(pipeline.get_by_name("v")).GATE.set()
    pipeline.set_state(Gst.State.PLAYING)
    sink, found = pipeline.get_by_name("sink"), []
    for number in range(20):
        buffer = sink.try_pull_sample(10 * SECOND).get_buffer()
        found += [(number, answer.end_pts) for _, answer in answers(buffer)]
    pipeline.set_state(Gst.State.NULL)
    assert found == [(0, 0), (10, SECOND)]


def test_answers_are_copied_with_a_batch_and_outlive_it() -> None:
    buffer = make_buffer([at(0)])
    given = Answer(0, 1, "a \ud800\0 street", "json", {"n": [1, None, "ü"]}, start_pts=5, cause="line:exit")
    with Lease() as lease:
        attach_answer(BatchMeta.of(buffer, lease).frames[0], given)
        attach_answer(BatchMeta.of(buffer, lease).frames[0], Answer(0, 2, "later"))
    copy = buffer.copy()
    assert [answer for _, answer in answers(buffer)] == [given, Answer(0, 2, "later")]
    del buffer
    with Lease() as lease:
        frame = BatchMeta.of(copy, lease).frames[0]
        assert {answer.segment for answer in read_answers(frame)} == {1, 2}
        assert len(user_meta.find(frame, ANSWER)) == 2


FORMATS = ("I420", "NV12", "RGB", "BGR", "RGBA", "BGRA", "BGRx", "RGBx", "YUY2")


@pytest.mark.parametrize("pixel_format", FORMATS)
def test_the_model_sees_the_stream_in_its_own_colours(pixel_format, tmp_path) -> None:
    elements.register("sluicevlm")
    path = tmp_path / "mean.py"
    path.write_text(
        "class Mean:\n    def answer(self, images, prompt):\n"
        "        return ' '.join(f'{value:.0f}' for value in images[0].reshape(-1, 3).mean(axis=0))\n"
    )
    pipeline = Gst.parse_launch(
        "videotestsrc pattern=solid-color foreground-color=0xffc83214 num-buffers=2 ! "
        f"video/x-raw,format={pixel_format},width=64,height=48,framerate=10/1 ! "
        f"sluicevlm name=v backend={path}:Mean policy=wait ! fakesink"
    )
    pipeline.set_state(Gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(10 * SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    known = json.loads(pipeline.get_by_name("v").get_property("answers"))
    pipeline.set_state(Gst.State.NULL)
    assert message.type == Gst.MessageType.EOS
    ((answer,),) = known.values()
    assert [abs(int(seen) - shown) < 5 for seen, shown in zip(answer["text"].split(), (200, 50, 20), strict=True)]


def test_nothing_is_left_of_an_element_that_is_gone(model) -> None:
    before = set(threading.enumerate())
    left = []
    with ChatServer(answer=lambda asked: Reply(hang=True)) as server:
        for backend in (f"{model}:Model", f"{server.url} model=m"):
            with Feed(f"sluicevlm name=v backend={backend} every=1") as line:
                for number in range(3):
                    line.push(at(number))
                left.append(weakref.ref(line.get("v")))
                if backend.startswith("/"):
                    module_of(line.get("v")).GATE.set()
            del line
    until(lambda: gc.collect() >= 0 and not any(reference() for reference in left))
    names = ("sluice-vlm-0", "sluice-vlm-encoder", "sluice-vlm-http")
    until(lambda: not [one for one in set(threading.enumerate()) - before if one.name in names])


def test_buffers_leave_unshared(model) -> None:
    counts = []
    with Feed(f"sluicevlm backend={model}:Model every=0.1 ! identity name=id signal-handoffs=true") as line:
        line.get("id").connect(
            "handoff", lambda _element, buffer: counts.append(gstref.refcount(gstref.address(buffer)))
        )
        for number in range(20):
            line.push(at(number / 10))
    assert counts == [1] * 20
