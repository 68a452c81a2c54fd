"""sluiceosd shows what a slow model said: on its stream, for its time, unless it is switched off."""

import gi
import pytest

gi.require_version("Gst", "1.0")
from gi.repository import Gst
from osd_streams import Stream, add_frame, planes, raw_buffer, raw_caps

from sluice.contract import counters
from sluice.contract.answer_meta import Answer, attach_answer
from sluice.contract.metadata import BatchMeta
from sluice.elements import events

CAPS = raw_caps("I420", 160, 120)


def frame(seconds: float, *answers: str) -> Gst.Buffer:
    buffer, _ = raw_buffer(CAPS)
    meta = add_frame(BatchMeta.attach(buffer, 1), 0, buf_pts=round(seconds * Gst.SECOND))
    for text in answers:
        attach_answer(meta, Answer(0, 0, text))
    return buffer


def drawn(options: str, *given: Gst.Buffer | Gst.Event) -> list[bool]:
    """Whether something was drawn on each of the frames; events are sent in their place."""
    with Stream(f"sluiceosd {options}", CAPS) as stream:
        stream.play()
        found = []
        for item in given:
            if isinstance(item, Gst.Event):
                assert stream.source.get_static_pad("src").push_event(item)
                continue
            stream.push(item)
            found.append(bool((planes(stream.pull().get_buffer(), CAPS)[0] != 100).any()))
        stream.finish()
    return found


def test_for_as_long_as_the_property_says() -> None:
    assert drawn("answer-seconds=2", frame(0), frame(1, "a street"), frame(2), frame(2.9), frame(3)) == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_switched_off_nothing_is_drawn_or_copied() -> None:
    copies = counters.copies()
    assert drawn("display-answers=false", frame(0, "a street"), frame(1)) == [False, False]
    assert counters.copies() == copies


@pytest.mark.parametrize("said", [events.stream_eos(0), events.stream_reset(0), events.pad_deleted(0)])
def test_a_stream_that_ends_takes_its_answer_with_it(said: Gst.Event) -> None:
    assert drawn("", frame(0, "a street"), said, frame(1)) == [True, False]


def test_another_streams_end_does_not() -> None:
    assert drawn("", frame(0, "a street"), events.stream_eos(1), frame(1)) == [True, True]


def test_long_texts_and_large_fonts_end_no_stream() -> None:
    assert drawn("answer-font-size=200", frame(0, "x" * 16_000, "a \ud800 \0 text")) == [True]
