"""Where each source lies in a tiled picture: plain geometry, no GStreamer and no pixels."""

import ctypes
import math
from collections.abc import Mapping
from typing import NamedTuple

from sluice.errors import ConfigurationError


class Area(NamedTuple):
    """A part of a picture in pixels, all four numbers even so that 4:2:0 chroma fits."""

    left: int
    top: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """The first column behind it."""
        return self.left + self.width

    @property
    def bottom(self) -> int:
        """The first row below it."""
        return self.top + self.height


class Shares(NamedTuple):
    """A place in a picture of any size: each number a part of its width or height, from 0 to 1."""

    left: float
    top: float
    width: float
    height: float

    def of(self, width: int, height: int) -> Area:
        """Return the place in a picture of this size, as nvmultistreamtiler rounds it."""
        return Area(
            int(self.left * width) & ~1,
            int(self.top * height) & ~1,
            int(self.width * width) & ~1,
            int(self.height * height) & ~1,
        )


class _CustomTile(ctypes.Structure):
    """One tile of nvmultistreamtiler's custom-tile-config."""

    _fields_ = (("source", ctypes.c_uint32), *((name, ctypes.c_float) for name in Shares._fields))


class _CustomTiles(ctypes.Structure):
    """nvmultistreamtiler's custom-tile-config."""

    _fields_ = (("tiles", ctypes.POINTER(_CustomTile)), ("length", ctypes.c_uint32))


def read_tiles(address: int) -> dict[int, Shares]:
    """Return the tiles by source that a C program tells at an address; it must have them there for this call."""
    told = _CustomTiles.from_address(address)
    return {
        tile.source: Shares(*(getattr(tile, name) for name in Shares._fields)) for tile in told.tiles[: told.length]
    }


def parse_tiles(text: str) -> dict[int, Shares]:
    """Read ``"source:left,top,width,height;…"``, places as parts of the picture.

    Raises:
        ConfigurationError: a part of the text is none; named.
    """
    tiles: dict[int, Shares] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        source, _, place = part.partition(":")
        try:
            number, shares = int(source), Shares(*map(float, place.split(",")))
        except (ValueError, TypeError):
            raise ConfigurationError(
                f"tiles: {part!r} is no tile; right is source:left,top,width,height as 0:0,0,0.5,1"
            ) from None
        if number < 0 or number in tiles:
            raise ConfigurationError(f"tiles: source {number} {'stands there twice' if number in tiles else 'is none'}")
        tiles[number] = shares
    return tiles


def reason_against(place: Shares) -> str | None:
    """Return why a place cannot be a tile, None if it can."""
    if not all(map(math.isfinite, place)) or min(place) < 0:
        return "it has a number below 0, or none"
    if place.left + place.width > 1 + _SLACK or place.top + place.height > 1 + _SLACK:
        return "it reaches beyond the picture"
    return None if min(place.width, place.height) > 0 else "it is empty"


_SLACK = 1e-6  # thirds and the like add up to a little more than 1 in float32


class Grid:
    """Rows and columns of equal tiles, as nvmultistreamtiler lays them out, for the sources known so far.

    With both `rows` and `columns` given, tile i is that of source i; a source beyond the last tile makes the grid grow
    as nvmultistreamtiler's does, to floor(sqrt(i + 1)) rows. With one of them 0 it is as large as needed, with both 0
    the grid is as square as possible; tiles then go to the known sources by number, without gaps. So they do with
    `sequential` (square-seq-grid), where a given grid grows by a row and a column when it has no tile left. Sources in
    `custom` have their tile there.
    """

    def __init__(
        self,
        width: int,
        height: int,
        rows: int = 0,
        columns: int = 0,
        *,
        sequential: bool = False,
        custom: Mapping[int, Shares] | None = None,
    ) -> None:
        self._width, self._height = width, height
        self._custom = {source: place.of(width, height) for source, place in (custom or {}).items()}
        self._rows, self._columns = rows, columns
        self._by_number = bool(rows and columns) and not sequential
        self._sources: list[int] = []

    @property
    def sources(self) -> list[int]:
        """The known sources in the order of their tiles."""
        return list(self._sources)

    def add(self, source: int) -> bool:
        """Know a source; returns whether that moves or resizes tiles."""
        if source in self._sources:
            return False
        before = self._places()
        self._sources = sorted([*self._sources, source])
        return bool(before) and self._changed(before)

    def remove(self, source: int) -> bool:
        """Forget a source; returns whether that moves or resizes tiles."""
        if source not in self._sources:
            return False
        before = self._places()
        self._sources.remove(source)
        return self._changed(before)

    @property
    def outgrown(self) -> bool:
        """Whether there are more rows or columns than were given, for sources that found no tile."""
        return bool(self._rows and self._columns) and self.shape != (self._rows, self._columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns now."""
        count = max(len(self._sources), 1)
        if self._by_number:
            last = self._sources[-1] if self._sources else 0
            if last < self._rows * self._columns:
                return self._rows, self._columns
            rows = math.isqrt(last + 1)
            return rows, math.ceil((last + 1) / rows)
        if self._rows and self._columns:
            more = 0
            while (self._rows + more) * (self._columns + more) < count:
                more += 1
            return self._rows + more, self._columns + more
        columns = self._columns or math.ceil(count / self._rows if self._rows else math.sqrt(count))
        return self._rows or math.ceil(count / columns), columns

    def tile(self, source: int) -> Area:
        """The tile of a known source.

        Raises:
            ConfigurationError: the picture is too small for as many tiles.
        """
        own = self._custom.get(source)
        if own is not None and own.width and own.height:
            return own
        rows, columns = self.shape
        width, height = self._width // columns & ~1, self._height // rows & ~1
        if not width or not height:
            raise ConfigurationError(
                f"a picture of {self._width}x{self._height} has no room for {rows} rows of {columns} tiles; set width "
                "and height to at least 2 pixels a tile"
            )
        index = source if self._by_number else self._sources.index(source)
        return Area(index % columns * width, index // columns * height, width, height)

    def _places(self) -> dict[int, Area]:
        return {source: self.tile(source) for source in self._sources}

    def _changed(self, before: dict[int, Area]) -> bool:
        after = self._places()
        return any(after[source] != area for source, area in before.items() if source in after)


def fit(area: Area, width: int, height: int) -> Area:
    """The largest part of an area with the shape of a width x height picture, in the middle of it."""
    scale = min(area.width / width, area.height / height)
    inner_width = min(max(round(width * scale) & ~1, 2), area.width)
    inner_height = min(max(round(height * scale) & ~1, 2), area.height)
    left = area.left + ((area.width - inner_width) // 2 & ~1)
    top = area.top + ((area.height - inner_height) // 2 & ~1)
    return Area(left, top, inner_width, inner_height)
