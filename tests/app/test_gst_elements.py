"""What is in a bin is found whole, whatever comes and goes meanwhile."""

from __future__ import annotations

import threading

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.gst import elements_in

Gst.init(None)


def test_elements_are_all_found_while_others_come_and_go() -> None:
    """Adding an element makes iterators start anew, which must not be taken for the end."""
    outer, inner = Gst.Bin.new("outer"), Gst.Bin.new("inner")
    steady = [Gst.ElementFactory.make("identity", f"steady{number}") for number in range(30)]
    for element in steady:
        inner.add(element)
    outer.add(inner)
    stop, changes = threading.Event(), [0]

    def churn() -> None:
        while not stop.is_set():
            other = Gst.ElementFactory.make("identity")
            inner.add(other)
            inner.remove(other)
            changes[0] += 1

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        looks = 0
        while looks < 200 or changes[0] < 200:
            found = elements_in(inner)
            assert set(steady) <= set(found)
            assert len(found) == len(set(found))
            looks += 1
    finally:
        stop.set()
        churning.join()
    assert set(elements_in(outer)) == {inner}
    assert set(elements_in(outer, recurse=True)) == {inner, *steady}
