"""Label tables: from files, and the 80 classes of COCO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from sluice.errors import ModelError
from sluice.runtimes.paths import is_file

_COCO_TEXT = (
    "person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, stop sign, "
    "parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe, backpack, umbrella, "
    "handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball glove, "
    "skateboard, surfboard, tennis racket, bottle, wine glass, cup, fork, knife, spoon, bowl, banana, apple, "
    "sandwich, orange, broccoli, carrot, hot dog, pizza, donut, cake, chair, couch, potted plant, bed, dining "
    "table, toilet, tv, laptop, mouse, remote, keyboard, cell phone, microwave, oven, toaster, sink, "
    "refrigerator, book, clock, vase, scissors, teddy bear, hair drier, toothbrush"
)
COCO_80 = tuple(_COCO_TEXT.split(", "))
#: Numbers that COCO left out of its 90 categories; its detectors of 91 classes keep the numbers, 0 being none.
_COCO_GAPS = frozenset((0, 12, 26, 29, 30, 45, 66, 68, 69, 71, 83))
_names = iter(COCO_80)
COCO_91 = tuple("" if number in _COCO_GAPS else next(_names) for number in range(91))


MOST_CLASSES = 100_000
"""Far beyond any network's; a larger number is a slip."""


def names_by_id(names: Mapping[Any, Any]) -> tuple[str, ...] | None:
    """Labels from a mapping such as ``{0: "person", 7: "truck"}``; numbers without a name are their own.

    Returns:
        None where there are other keys than class ids, whole numbers from 0 to below `MOST_CLASSES`.
    """
    if not all(isinstance(key, Integral) and 0 <= int(key) < MOST_CLASSES for key in names):
        return None
    return tuple(str(names.get(i, i)) for i in range(max(names, default=-1) + 1))


def read_labels(source: str | Path | Sequence[str] | None) -> tuple[str, ...] | None:
    """Labels from a file, from a text of several between ``,`` or ``;``, or a sequence as it is; None stays None.

    A file has one label a line, or all on one line between ``;`` as nvinfer's label files may have. Empty lines at the
    end and a byte order mark at the start do not count.

    Raises:
        ModelError: there is no such file, it is not UTF-8 text, or it is empty.
    """
    if source is None:
        return None
    if not isinstance(source, (str, Path)):
        return tuple(str(label) for label in source)
    if isinstance(source, str) and any(mark in source for mark in ",;") and not is_file(source):
        return tuple(label.strip() for label in source.rstrip(",; ").replace(";", ",").split(","))
    lines = read_lines(source)
    if len(lines) == 1 and ";" in lines[0]:
        lines = lines[0].rstrip("; ").split(";")
    if not lines:
        raise ModelError(f"the label file {str(source)!r} is empty; right is one label a line")
    return tuple(line.strip() for line in lines)


def read_lines(path: str | Path, key: str = "") -> list[str]:
    """The lines of a label file, without a byte order mark at its start and empty lines at its end.

    Args:
        path: the file.
        key: what messages begin with: the name of the key that names the file.

    Raises:
        ModelError: there is no such file, it is a pipe or a device, or it is not UTF-8 text.
    """
    try:
        if Path(path).exists() and not (is_file(path) or Path(path).is_dir()):  # reading might never end
            raise ModelError(f"{key}cannot read the label file {str(path)!r}: it is a pipe or a device")
        text = Path(path).read_text(encoding="utf-8-sig").rstrip()
        # Not splitlines: a form feed or U+2028 within a label would move all classes behind it.
        return text.split("\n") if text else []
    except OSError as error:
        raise ModelError(f"{key}cannot read the label file {str(path)!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{key}the label file {str(path)!r} is not UTF-8 text: {error}") from error
    except ValueError as error:  # a NUL in the name
        raise ModelError(f"{key}cannot read the label file {str(path)!r}: {error}") from error
