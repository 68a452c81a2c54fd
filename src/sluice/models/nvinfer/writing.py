"""What nvinfer does to boxes on the frame, and the colours that it gives to objects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sluice.models.letterbox import Letterbox
from sluice.models.nvinfer.keys import ClassAttributes, Properties

Float = npt.NDArray[np.float32]


RED, NOTHING = (1.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 0.0)


def colours_of(
    class_ids: npt.NDArray[np.int32], classes: Sequence[ClassAttributes]
) -> tuple[Float | None, Float | None]:
    """Border and fill colours of objects, float32 [N,4]: red, green, blue, alpha of 0..1; alpha 0 is no fill.

    Args:
        class_ids: int32 [N], each with attributes in `classes`.
        classes: the configuration of each class.

    Returns:
        None in place of the borders where all are red, which they are anyway, and of the fills where there are none.
    """
    borders = [item.border_color for item in classes]
    fills = [item.bg_color or NOTHING for item in classes]
    return (
        None if all(colour == RED for colour in borders) else np.array(borders, np.float32)[class_ids],
        np.array(fills, np.float32)[class_ids] if any(colour[3] for colour in fills) else None,
    )


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
