"""How a property of ``sluiceinfer`` is described; the tables are in ``infer_properties`` and ``infer_scope``.

Imports gi and the standard library only: it is read when GStreamer scans its plugins.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst


class Change(Enum):
    """When a property that is set while the element runs takes effect."""

    AT_START = "at the next start"
    WITH_MODEL = "with the next change of model, or at the next start"
    SWAPS = "it is the change of model"
    PROMPTS = "between two batches, once it is encoded"
    AT_ONCE = "at once"


@dataclass(frozen=True)
class Property:
    """One property: GObject's type, the default, the text that gst-inspect shows, the limits, when a change counts."""

    name: str
    type: Any
    default: Any
    blurb: str
    limits: tuple[Any, ...] = ()
    change: Change = Change.AT_START

    def declaration(self) -> tuple[Any, ...]:
        """Return the entry of ``__gproperties__``."""
        at_start = self.change is Change.AT_START
        mutable = Gst.PARAM_MUTABLE_READY if at_start else Gst.PARAM_MUTABLE_PLAYING
        flags = GObject.ParamFlags.READWRITE | GObject.ParamFlags(mutable)
        default = () if self.type == GObject.TYPE_POINTER else (self.default,)
        return (self.type, self.name, self.blurb, *self.limits, *default, flags)
