"""What nvinfer does to boxes on the frame, and the looks that it gives to objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sluice.models.letterbox import Letterbox
from sluice.models.nvinfer.keys import ClassAttributes, Colour, Properties

Float = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ObjectStyle:
    """How an object is drawn, as nvinfer writes it into the metadata. Colours are r, g, b, a, each 0..1.

    Attributes:
        border_color, border_width: of the box; the width in pixels.
        bg_color: of the box's inside; None for none.
        font, font_size, font_color, text_bg_color: of the text.
        text_offset: pixels from the box's left top corner to the text's, across and down.
    """

    border_color: Colour = (1.0, 0.0, 0.0, 1.0)
    bg_color: Colour | None = None
    border_width: int = 3
    font: str = "Serif"
    font_size: int = 11
    font_color: Colour = (1.0, 1.0, 1.0, 1.0)
    text_bg_color: Colour | None = (0.0, 0.0, 0.0, 1.0)
    text_offset: tuple[int, int] = (0, -10)


#: The object of a classifier on whole frames: its box is the frame.
WHOLE_FRAME_STYLE = ObjectStyle(bg_color=None, border_width=6)


def style_of(class_id: int, classes: Sequence[ClassAttributes]) -> ObjectStyle:
    """The looks of an object of a class; red without a background where the class has no attributes."""
    if not 0 <= class_id < len(classes):
        return ObjectStyle()
    return ObjectStyle(classes[class_id].border_color, classes[class_id].bg_color)


def colours_of(
    class_ids: npt.NDArray[np.int32], classes: Sequence[ClassAttributes]
) -> tuple[Float | None, Float | None]:
    """Border and fill colours of objects, float32 [N,4], a fill of alpha 0 standing for none.

    Args:
        class_ids: int32 [N].
        classes: the configuration of each class.

    Returns:
        None in place of the borders where all are red, and of the fills where there are none.
    """
    styles = [style_of(number, classes) for number in class_ids.tolist()]
    border = np.array([style.border_color for style in styles], np.float32).reshape(-1, 4)
    fill = np.array([style.bg_color or (0.0, 0.0, 0.0, 0.0) for style in styles], np.float32).reshape(-1, 4)
    plain = (border == np.array(ObjectStyle().border_color, np.float32)).all()
    return None if plain else border, fill if fill[:, 3].any() else None


def on_frame(
    xyxy: Float,
    class_ids: npt.NDArray[np.int32],
    box: Letterbox,
    size: tuple[int, int],
    properties: Properties,
    classes: Sequence[ClassAttributes],
) -> tuple[Float, npt.NDArray[np.intp]]:
    """Boxes from the network's input to the frame, and nvinfer's filters on them.

    The steps and their order are nvinfer's. A left or top below 0 becomes 0 and the size stays, so that the box moves;
    and a box that reaches below the frame is dropped unless crop-objects-to-roi-boundary is set.

    Args:
        xyxy: float32 [N,4] in pixels of the input.
        class_ids: int32 [N], each with attributes in `classes`.
        box: where the frame lies in the input.
        size: width and height of the frame.
        properties, classes: the configuration.

    Returns:
        The boxes that remain, float32 [M,4]: left, top, right, bottom in pixels of the frame; and their rows in `xyxy`.
    """
    scale, offset = np.array(box.scale, np.float64), np.array([box.left, box.top], np.float64)
    places = np.maximum(((xyxy[:, :2] - offset) / scale).astype(np.float32), 0)
    sizes = ((xyxy[:, 2:] - xyxy[:, :2]) / scale).astype(np.float32)

    def of_class(name: str) -> Float:
        return np.array([getattr(item, name) for item in classes], np.float32)[class_ids]

    keep = ~np.isin(class_ids, properties.filter_out_class_ids)
    for axis, letter in enumerate("wh"):
        least, most = of_class(f"detected_min_{letter}"), of_class(f"detected_max_{letter}")
        keep &= (sizes[:, axis] >= least) & ((most == 0) | (sizes[:, axis] <= most))
    roi_top, roi_bottom = of_class("roi_top_offset"), size[1] - of_class("roi_bottom_offset")
    if properties.crop_objects_to_roi_boundary:
        places[:, 1] = np.maximum(places[:, 1], roi_top)
        sizes[:, 0] = np.minimum(sizes[:, 0], size[0] - places[:, 0])
        sizes[:, 1] = np.minimum(sizes[:, 1], roi_bottom - places[:, 1])
        keep &= (sizes > 0).all(axis=1)  # one that lay outside has nothing left to be written
    else:
        keep &= (places[:, 1] >= roi_top) & (places[:, 1] + sizes[:, 1] <= roi_bottom)
    rows = np.flatnonzero(keep)
    return np.concatenate([places[rows], places[rows] + sizes[rows]], axis=1), rows
