"""The panel with what a slow model said: wrapped, bounded, shown for a while; on every pixel format."""

import numpy as np
import pytest

from sluice.contract.answer_meta import Answer
from sluice.drawing.answers import ShownAnswers
from sluice.drawing.canvas import Canvas
from sluice.drawing.painter import Painter
from sluice.drawing.shapes import Overlay, Panel
from sluice.drawing.text import render

SECOND = 1_000_000_000
LONG = "a long sentence about a street with many people and cars " * 40


def test_a_text_is_wrapped_between_words_and_cut_with_an_ellipsis() -> None:
    line = render("a street", "Sans", 12)
    wrapped = render("a street a street a street", "Sans", 12, (line.shape[1] + 4, 1000))
    assert wrapped.shape[1] <= line.shape[1] + 4
    assert wrapped.shape[0] == 3 * line.shape[0]
    cut = render(LONG, "Sans", 12, (200, 4 * line.shape[0]))
    assert cut.shape[0] <= 4 * line.shape[0]
    assert render("x" * 200, "Sans", 12, (100, 1000)).shape[1] <= 100
    assert render("two\nlines", "Sans", 12, (1000, 1)).shape[0] >= line.shape[0]
    assert render("", "Sans", 12, (0, -5)).shape[1] == 0


def painted(text, width=320, height=240, size=0):
    planes = [np.full((height, width, 3), 128, np.uint8)]
    Painter().draw(Canvas("RGB", planes, width, height), Overlay(panels=[Panel(text, size=size)]))
    return planes[0]


def test_the_panel_covers_the_bottom_and_never_more_than_half() -> None:
    for text, most in (("a street", 40), (LONG, 122)):
        picture = painted(text)
        rows = np.flatnonzero((picture != 128).any(axis=(1, 2)))
        assert rows[-1] == 239
        assert 240 - rows[0] <= most
        assert picture.max() > 200
        assert (picture[:120] == 128).all() or 240 - rows[0] > 120


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (3, 5), (16, 16), (4000, 20)])
def test_pictures_of_any_size(size) -> None:
    painted(LONG, *size)
    painted("a", *size, size=200)


@pytest.mark.parametrize("text", ["", "  \n ", "\0", "\ud800", "‮שלום", "a\tb\r\nc", "🚚" * 50])
def test_texts_of_any_kind(text) -> None:
    painted(text)


@pytest.mark.parametrize("pixel_format", ["I420", "NV12", "YUY2", "GRAY8", "BGRA"])
def test_planar_formats(pixel_format) -> None:
    shapes = {
        "I420": [(50, 64), (25, 32), (25, 32)],
        "NV12": [(50, 64), (25, 32, 2)],
        "YUY2": [(50, 64, 2)],
        "GRAY8": [(50, 64)],
        "BGRA": [(50, 64, 4)],
    }[pixel_format]
    planes = [np.full(shape, 100, np.uint8) for shape in shapes]
    Painter().draw(Canvas(pixel_format, planes, 64, 50), Overlay(panels=[Panel("street")]))
    assert (planes[0][-1] != 100).any()
    assert (planes[0][0] == 100).all()


def test_an_answer_is_shown_for_its_time_on_its_stream_and_a_newer_one_replaces_it() -> None:
    shown = ShownAnswers()

    def texts(stream, seconds, *answers):
        given = [Answer(stream, 0, text) for text in answers]
        return [panel.text for panel in shown.update(stream, round(seconds * SECOND), given, 10)]

    assert texts(0, 0) == []
    assert texts(0, 1, "one") == ["one"]
    assert texts(1, 2) == []
    assert texts(0, 10.9) == ["one"]
    assert texts(0, 11) == []
    assert texts(0, 12, "two", "three") == ["three"]
    assert texts(0, 3) == []
    texts(0, 4, "four")
    shown.forget(0)
    assert texts(0, 5) == []


def test_a_tiled_picture_shows_the_answers_of_all_its_streams() -> None:
    shown = ShownAnswers()

    def text(seconds, *answers):
        given = [Answer(stream, 0, said) for stream, said in answers]
        panels = shown.update(0, round(seconds * SECOND), given, 10)
        return panels[0].text if panels else ""

    assert text(0, (3, "three")) == "three"
    assert text(5, (1, "one")) == "1: one\n3: three"
    assert text(6, (1, "two")) == "1: two\n3: three"
    assert text(10) == "two"
    assert text(16) == ""
