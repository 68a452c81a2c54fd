"""``DisplayMetadata``: shapes to draw on a frame, whatever its objects are."""

from typing import Any

from gi.repository import Gst

from sluice.contract.metadata import DisplayMeta
from sluice.pyservicemaker import osd
from sluice.pyservicemaker.base import Reading, Wrapper, refuse


class DisplayMetadata(Wrapper[DisplayMeta]):
    """Up to 16 shapes of each kind; acquire it from a batch, fill it, append it to a frame.

    A seventeenth is left out, as in NVIDIA's package, with a line in GStreamer's log.
    """

    __slots__ = ()
    _shown = ("n_rects", "n_labels", "n_lines", "n_arrows", "n_circles")
    n_rects = Reading[DisplayMeta, int](lambda view: view.num_rects, "Number of rectangles.")
    n_labels = Reading[DisplayMeta, int](lambda view: view.num_labels, "Number of texts.")
    n_lines = Reading[DisplayMeta, int](lambda view: view.num_lines, "Number of lines.")
    n_arrows = Reading[DisplayMeta, int](lambda view: view.num_arrows, "Number of arrows.")
    n_circles = Reading[DisplayMeta, int](lambda view: view.num_circles, "Number of circles.")

    def add_text(self, item: osd.Text, /) -> None:
        """Add a copy of a text."""
        self._add(item, osd.Text, "num_labels", "texts")

    def add_rect(self, item: osd.Rect, /) -> None:
        """Add a copy of a rectangle."""
        self._add(item, osd.Rect, "num_rects", "rects")

    def add_line(self, item: osd.Line, /) -> None:
        """Add a copy of a line."""
        self._add(item, osd.Line, "num_lines", "lines")

    def add_arrow(self, item: osd.Arrow, /) -> None:
        """Add a copy of an arrow."""
        self._add(item, osd.Arrow, "num_arrows", "arrows")

    def add_circle(self, item: osd.Circle, /) -> None:
        """Add a copy of a circle."""
        self._add(item, osd.Circle, "num_circles", "circles")

    def _add(self, item: Any, kind: type[Any], counter: str, places: str) -> None:
        if not isinstance(item, kind):
            refuse(f"add_{kind.__name__.lower()}", item, f"an osd.{kind.__name__}")
        view = self._need()
        count = getattr(view, counter)
        setattr(view, counter, count + 1)
        used = getattr(view, places)
        if len(used) == count + 1:
            item._store(used[count])
            return
        setattr(view, counter, count)
        Gst.warning(f"a display meta has room for {count} {places}; another one was left out")
