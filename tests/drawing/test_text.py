"""Glyphs of every script, and texts that are no texts."""

import threading

import numpy as np
import pytest
from pictures import Picture

from sluice.drawing.painter import Painter
from sluice.drawing.shapes import Overlay, Text
from sluice.drawing.text import MAX_SIDE, render


@pytest.mark.parametrize(
    "text",
    [
        "person 12",
        "Straße",
        "Привет",
        "العربية",
        "中文字符",
        "日本語",
        "한국어",
        "😀👩‍👩‍👧",
        "a\nb",
        "\t",
        "e\u0301",
        "\u202eabc",
    ],
)
def test_every_script_has_glyphs_or_boxes(text: str) -> None:
    coverage = render(text, "Sans", 14)
    assert coverage.dtype == np.uint8
    assert coverage.ndim == 2
    assert coverage.any() or not text.strip()


def test_a_newline_starts_a_line_and_size_scales() -> None:
    one, two, large = render("Hg", "Sans", 12), render("Hg\nHg", "Sans", 12), render("Hg", "Sans", 24)
    assert two.shape[0] == pytest.approx(2 * one.shape[0], abs=2)
    assert large.shape[1] == pytest.approx(2 * one.shape[1], abs=4)


@pytest.mark.parametrize("text", ["\ud800", "a\0b", "\uffff", "x" * 100_000, "\n" * 5000, "\u0300" * 300])
def test_odd_texts_are_drawn_within_bounds(text: str) -> None:
    coverage = render(text, "Sans", 12)
    assert max(coverage.shape) <= MAX_SIDE


@pytest.mark.parametrize("font", ["", "no such font anywhere", "Sans,Serif Bold 40", "\0", "\ud800", "x" * 10_000])
def test_any_font_name_draws_something(font: str) -> None:
    assert render("abc", font, 12).any()


def test_the_background_is_as_large_as_nvdsosd_makes_it() -> None:
    picture = Picture("RGB", 200, 80)
    glyphs = render("Car 12", "Sans", 14)
    text = Text("Car 12", 20, 30, "Sans", 14, background=(0.0, 0.0, 1.0, 1.0))
    Painter().draw(picture.canvas(), Overlay(texts=[text]))
    rows, columns = np.nonzero((picture.rgb() != 128).any(axis=2))
    assert (columns.min(), rows.min()) == (20, 30)
    assert (columns.max() + 1, rows.max() + 1) == (20 + glyphs.shape[1] + 14, 30 + glyphs.shape[0] + 7)


def test_an_empty_text_has_a_background_and_size_0_nothing() -> None:
    picture = Picture("RGB", 100, 80)
    painter = Painter()
    painter.draw(picture.canvas(), Overlay(texts=[Text("", 10, 10, "Sans", 0, background=(1.0, 1.0, 1.0, 1.0))]))
    assert (picture.rgb() == 128).all()
    painter.draw(picture.canvas(), Overlay(texts=[Text("", 10, 10, "Sans", 14, background=(1.0, 1.0, 1.0, 1.0))]))
    columns = np.nonzero((picture.rgb() != 128).any(axis=(0, 2)))[0]
    assert (columns.min(), columns.max()) == (10, 23)


def test_negative_positions_are_moved_to_the_edge() -> None:
    moved, at_edge = Picture("GRAY8", 90, 40), Picture("GRAY8", 90, 40)
    Painter().draw(moved.canvas(), Overlay(texts=[Text("abc", -30, -7)]))
    Painter().draw(at_edge.canvas(), Overlay(texts=[Text("abc", 0, 0)]))
    assert (moved.rgb() == at_edge.rgb()).all()


def test_the_caches_stay_within_their_bounds() -> None:
    painter = Painter()
    picture = Picture("RGB", 640, 360)
    for number in range(400):
        painter.draw(picture.canvas(), Overlay(texts=[Text(f"number {number}", number % 7, number % 5, size=120)]))
    assert painter.cached_bytes <= Painter.MAX_CACHED_BYTES
    before = painter.cached_bytes
    painter.draw(picture.canvas(), Overlay(texts=[Text("number 399", 399 % 7, 399 % 5, size=120)]))
    assert painter.cached_bytes == before


def test_the_second_drawing_from_the_cache_is_the_first() -> None:
    painter = Painter()
    text = Overlay(texts=[Text("same", 3, 5, color=(1.0, 0.5, 0.0, 0.7))])
    first, second = Picture("NV12", 90, 40), Picture("NV12", 90, 40)
    painter.draw(first.canvas(), text)
    painter.draw(second.canvas(), text)
    assert all((a == b).all() for a, b in zip(first.planes, second.planes, strict=True))


def test_threads_render_at_the_same_time() -> None:
    expected = render("thread", "Sans", 16)
    found: list[bool] = []

    def work() -> None:
        found.extend(bool((render("thread", "Sans", 16) == expected).all()) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 200
