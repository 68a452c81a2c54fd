"""What a ``sluiceinfer`` gives its model: whole frames, regions of them, or the objects that are already on them.

Imports gi and the standard library only: it is read when GStreamer scans its plugins.
"""

import re
from dataclasses import dataclass
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, GObject

from sluice.elements.enums import enumeration
from sluice.elements.infer_property import Change, Property
from sluice.errors import ConfigurationError

MODES = {"primary": 1, "secondary": 2}


def _limit(side: str, bound: str) -> Property:
    none = "" if bound == "min" else "; 0: any"
    return Property(
        f"input-object-{bound}-{side}",
        GObject.TYPE_UINT,
        0,
        f"Secondary: objects {'below' if bound == 'min' else 'above'} this {side} in pixels are passed over{none}",
        (0, GLib.MAXINT),
    )


SCOPE_PROPERTIES = (
    Property(
        "process-mode",
        enumeration("SluiceProcessMode", MODES),
        MODES["primary"],
        "'primary' (or 1): the model is given frames; 'secondary' (or 2): it is given the objects that are already on "
        "the frames, each cut out, and what it finds is attached to them",
    ),
    Property(
        "infer-on-gie-id",
        int,
        -1,
        "Secondary: only objects that the element of this unique-id made; -1: anybody's",
        (-1, GLib.MAXINT),
    ),
    Property(
        "infer-on-class-ids",
        str,
        None,
        "Secondary: only objects of these classes, such as 0:2:3; default: all",
    ),
    _limit("width", "min"),
    _limit("height", "min"),
    _limit("width", "max"),
    _limit("height", "max"),
    Property(
        "secondary-reinfer-interval",
        int,
        -1,
        "Secondary: frames after which a tracked object is inferred again; in between, its last classification and "
        "embedding are attached. -1: never, for models that give these; every frame, for all others",
        (-1, GLib.MAXINT),
    ),
    Property(
        "classifier-async-mode",
        bool,
        False,
        "Secondary: buffers do not wait for the model; what it says of a tracked object is attached from then on. "
        "Objects without an id are passed over",
    ),
    Property(
        "roi-params",
        str,
        None,
        "Regions that the model is given in place of the frame, per stream, as STREAM=left;top;width;height;left;..., "
        "with commas between streams; or the path of a configuration file of nvdspreprocess. Streams without any are "
        "given whole, and so are pictures that became so small that they have none. Default: none",
    ),
    Property(
        "clip-object-outside-roi",
        bool,
        True,
        "With roi-params: boxes that reach over their region are cut at its edge",
    ),
    Property(
        "output-tensor-meta",
        bool,
        False,
        "Attach the network's raw outputs as NvDsInferTensorMeta, on the host. For network files",
        change=Change.WITH_MODEL,
    ),
)


@dataclass(frozen=True)
class Scope:
    """What the model is given, checked.

    Attributes:
        secondary: objects rather than frames.
        component: whose objects; None for anybody's.
        class_ids: of which classes; None for all.
        least, most: width and height below or above which objects are passed over; 0 in `most` for any.
        interval: frames after which a tracked object is inferred again; None as the results have it.
        asynchronous: buffers do not wait.
        regions: text of the property roi-params.
        clip: boxes are cut at the edge of their region.
        outputs: raw outputs are attached.
    """

    secondary: bool = False
    component: int | None = None
    class_ids: frozenset[int] | None = None
    least: tuple[int, int] = (0, 0)
    most: tuple[int, int] = (0, 0)
    interval: int | None = None
    asynchronous: bool = False
    regions: str | None = None
    clip: bool = True
    outputs: bool = False

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> "Scope":
        """Check the values of an element's properties.

        Raises:
            ConfigurationError: a value cannot be used; names the property and what would be right.
        """
        mode = values["process-mode"]
        mode = MODES.get(mode.strip().lower(), mode) if isinstance(mode, str) else mode
        if mode not in (*MODES.values(), "1", "2"):
            raise ConfigurationError(
                f"process-mode is {values['process-mode']!r}; right is primary (1) or secondary (2)"
            )
        scope = cls(
            secondary=int(mode) == MODES["secondary"],
            component=None if values["infer-on-gie-id"] < 0 else values["infer-on-gie-id"],
            class_ids=parse_class_ids(values["infer-on-class-ids"]),
            least=(values["input-object-min-width"], values["input-object-min-height"]),
            most=(values["input-object-max-width"], values["input-object-max-height"]),
            interval=None if values["secondary-reinfer-interval"] < 0 else values["secondary-reinfer-interval"],
            asynchronous=values["classifier-async-mode"],
            regions=values["roi-params"] or None,
            clip=values["clip-object-outside-roi"],
            outputs=values["output-tensor-meta"],
        )
        if scope.asynchronous and not scope.secondary:
            raise ConfigurationError("classifier-async-mode is set; it needs process-mode=secondary")
        if scope.asynchronous and scope.outputs:
            raise ConfigurationError("classifier-async-mode and output-tensor-meta are set; right is one of them")
        if scope.regions and scope.secondary:
            raise ConfigurationError("roi-params is set with process-mode=secondary; regions are parts of frames")
        return scope


def parse_class_ids(text: str | None) -> frozenset[int] | None:
    """Read class ids between which any other character stands, as nvinfer does; negative ones are left out.

    Raises:
        ConfigurationError: there is no number in the text.
    """
    if not text or not text.strip():
        return None
    numbers = [int(word) for word in re.findall(r"-?\d+", text)]
    if not numbers:
        raise ConfigurationError(f"infer-on-class-ids is {text!r}; right are class ids such as 0:2:3")
    return frozenset(number for number in numbers if number >= 0)
