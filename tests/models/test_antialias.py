"""Pillow's linear interpolation, pixel by pixel from its definition."""

from __future__ import annotations

import numpy as np
import pytest

from sluice.models.antialias import antialiased


def weights(source, target, pixel):
    """The weight of each source pixel for one of the target's, by its distance in pixels of the target."""
    scale = source / target
    reach = max(1.0, scale)
    centre = (pixel + 0.5) * scale
    values = [max(0.0, 1 - abs(i + 0.5 - centre) / reach) for i in range(source)]
    return np.array(values) / sum(values)


@pytest.mark.parametrize(
    ("source", "target"), [((37, 23), (9, 7)), ((20, 40), (19, 13)), ((5, 4), (11, 9)), ((64, 8), (8, 8))]
)
@pytest.mark.parametrize("channels", [(), (2,), (3,)])
def test_against_the_definition(source, target, channels):
    plane = np.random.default_rng(0).integers(0, 256, (*source[::-1], *channels), dtype=np.uint8)
    found = antialiased(plane, target)
    assert (found.shape, found.dtype) == ((*target[::-1], *channels), np.uint8)
    across = np.stack([weights(source[0], target[0], i) for i in range(target[0])])
    down = np.stack([weights(source[1], target[1], i) for i in range(target[1])])
    expected = np.einsum("ys,st...,xt->yx...", down, plane.astype(float), across)
    assert np.abs(found - expected).max() <= 0.51
