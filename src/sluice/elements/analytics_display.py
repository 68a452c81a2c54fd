"""What ``sluiceanalytics`` shows: its regions, lines and directions with their numbers, as display metas."""

import math
from collections.abc import Sequence

from sluice.analytics import AnalyticsConfig, FrameFindings, RegionRule, StreamRules
from sluice.analytics.geometry import Point
from sluice.contract.metadata import Color, FrameMeta

_SLOTS = 16  # MAX_ELEMENTS_IN_DISPLAY_META
_WIDTH = 2
_HEAD = 14.0  # length of an arrow's head in pixels
_HEAD_ANGLE = math.radians(150)
_GREEN: Color = (0.0, 1.0, 0.0, 1.0)
_RED: Color = (1.0, 0.0, 0.0, 1.0)
_YELLOW: Color = (1.0, 1.0, 0.0, 1.0)
_BLUE: Color = (0.0, 0.5, 1.0, 1.0)
_WHITE: Color = (1.0, 1.0, 1.0, 1.0)
_BLACK: Color = (0.0, 0.0, 0.0, 1.0)


class _Sheet:
    """Collects lines and texts for a frame, and adds them in as many display metas as they need."""

    def __init__(self, scale: tuple[float, float], font_size: int) -> None:
        self._scale = scale
        self._font_size = font_size
        self._lines: list[tuple[Point, Point, Color]] = []
        self._texts: list[tuple[str, Point]] = []

    def line(self, start: Point, end: Point, color: Color) -> None:
        self._lines.append((start, end, color))

    def arrow(self, start: Point, end: Point, color: Color) -> None:
        """Three lines, as nvdsanalytics draws it."""
        self.line(start, end, color)
        angle = math.atan2(end[1] - start[1], end[0] - start[0])
        for turn in (_HEAD_ANGLE, -_HEAD_ANGLE):
            tip = (end[0] + _HEAD * math.cos(angle + turn), end[1] + _HEAD * math.sin(angle + turn))
            self.line(end, tip, color)

    def outline(self, points: Sequence[Point], color: Color) -> None:
        for start, end in zip(points, (*points[1:], points[0]), strict=True):
            self.line(start, end, color)

    def text(self, text: str, place: Point) -> None:
        self._texts.append((text, place))

    def add_to(self, frame: FrameMeta) -> None:
        for first in range(0, max(len(self._lines), len(self._texts)), _SLOTS):
            display = frame.add_display()
            lines, texts = self._lines[first : first + _SLOTS], self._texts[first : first + _SLOTS]
            display.num_lines, display.num_labels = len(lines), len(texts)
            for line, (start, end, color) in zip(display.lines, lines, strict=True):
                (line.x1, line.y1), (line.x2, line.y2) = self._pixel(start), self._pixel(end)
                line.line_width, line.line_color = _WIDTH, color
            for shown, (text, place) in zip(display.texts, texts, strict=True):
                shown.display_text = text
                shown.x_offset, shown.y_offset = self._pixel(place)
                shown.font_name, shown.font_size, shown.font_color = "Serif", self._font_size, _WHITE
                shown.set_bg_clr, shown.text_bg_clr = True, _BLACK

    def _pixel(self, point: Point) -> tuple[int, int]:
        x, y = (max(0, round(value * factor)) for value, factor in zip(point, self._scale, strict=True))
        return x, y


def show(
    frame: FrameMeta, rules: StreamRules, found: FrameFindings, config: AnalyticsConfig, size: tuple[int, int]
) -> None:
    """Add display metas to a frame, whose surface has a size in pixels, as ``osd-mode`` says."""
    sheet = _Sheet((size[0] / config.width, size[1] / config.height), config.font_size)
    numbers = config.osd_mode == 2
    for region in rules.regions:
        sheet.outline(region.points, _GREEN)
        sheet.text(f"{region.name}={found.in_region[region.name]}" if numbers else region.name, region.points[0])
    for crowd in rules.crowds:
        _show_crowd(sheet, crowd, found, numbers)
    for direction in rules.directions:
        sheet.arrow(*direction.direction, _BLUE)
        sheet.text(direction.name, direction.direction[0])
    for line in rules.lines:
        sheet.line(*line.line, _YELLOW)
        sheet.arrow(*line.direction, _YELLOW)
        sheet.text(f"{line.name}={found.totals[line.name]}" if numbers else line.name, line.line[1])
    if config.show_counts and numbers:
        counts = ", ".join(f"{class_id}: {count}" for class_id, count in sorted(found.classes.items()))
        sheet.text(f"Objects by class {counts}", (0.0, 0.0))
    sheet.add_to(frame)


def _show_crowd(sheet: _Sheet, crowd: RegionRule, found: FrameFindings, numbers: bool) -> None:
    overcrowded = found.overcrowded[crowd.name]
    sheet.outline(crowd.points, _RED if overcrowded else _GREEN)
    count = f" OverCrowding={overcrowded}, Count={found.in_region[crowd.name]}" if numbers else ""
    sheet.text(f"{crowd.name}{count}", crowd.points[0])
