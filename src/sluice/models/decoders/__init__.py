"""Decoders: one file per family of detection heads; each recognises its own from shapes, names and metadata."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from sluice.errors import ConfigurationError
from sluice.models.decoders.base import Decoder, Recognition
from sluice.models.decoders.fastestdet import FastestdetDecoder
from sluice.models.decoders.nanodet import NanodetDecoder
from sluice.models.decoders.yolov8 import EndToEndDecoder, Yolov8Decoder
from sluice.models.decoders.yolox import Yolov5Decoder, YoloxDecoder

if TYPE_CHECKING:
    from sluice.runtimes.base import NetworkInfo

__all__ = ["DECODERS", "Decoder", "Recognition", "named_decoder", "recognise_all"]

#: All decoders by name. When several fit, the first is taken.
DECODERS: dict[str, type[Decoder]] = {
    decoder.name: decoder
    for decoder in (YoloxDecoder, Yolov5Decoder, Yolov8Decoder, EndToEndDecoder, NanodetDecoder, FastestdetDecoder)
}


def recognise_all(info: NetworkInfo, width: int, height: int) -> dict[str, Recognition]:
    """What every decoder says of a network with an input of this size."""
    return {name: decoder.recognise(info, width, height) for name, decoder in DECODERS.items()}


def named_decoder(name: str) -> type[Decoder]:
    """The decoder of a name.

    Raises:
        ConfigurationError: there is none; with the names there are.
    """
    if name not in DECODERS:
        near = difflib.get_close_matches(name, DECODERS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"there is no decoder {name!r}{hint} (there are: {', '.join(DECODERS)})")
    return DECODERS[name]
