"""`Frame`: pixels converted once and only when asked, and what happens after it is released."""

from __future__ import annotations

import numpy as np
import pytest
from array_surfaces import noise

from sluice.errors import StaleBufferError
from sluice.models.frame import Frame, FrameObject


class Counted:
    """A surface that counts how often its pixels are read."""

    def __init__(self, surface):
        self._surface, self.reads = surface, 0

    def __getattr__(self, name):
        return getattr(self._surface, name)

    def host_plane(self, index):
        self.reads += 1
        return self._surface.host_plane(index)


def test_nothing_is_read_until_asked_and_each_order_is_converted_once():
    surface = Counted(noise("I420", 32, 24))
    frame = Frame(surface, stream=3, number=7, pts=40)
    assert (frame.width, frame.height, frame.stream, frame.number, frame.pts) == (32, 24, 3, 7, 40)
    assert surface.reads == 0
    assert frame.rgb() is frame.rgb()
    reads = surface.reads
    frame.rgb()
    assert surface.reads == reads
    assert np.array_equal(frame.bgr(), frame.rgb()[..., ::-1])


def test_converted_pixels_outlive_the_surface_and_others_say_why_not():
    frame = Frame(noise("NV12", 32, 24), stream=3, number=7, pts=40)
    rgb = frame.rgb()
    frame.release()
    assert frame.rgb() is rgb
    with pytest.raises(StaleBufferError, match="frame 7 of stream 3"):
        frame.bgr()
    with pytest.raises(StaleBufferError):
        frame.planes()


def test_a_view_does_not_outlive_the_surface():
    frame = Frame(noise("RGB", 32, 24), stream=0, number=0, pts=0)
    frame.rgb()
    frame.release()
    with pytest.raises(StaleBufferError):
        frame.rgb()


def test_objects_are_a_list_of_their_own():
    thing = FrameObject(id=None, label="car", class_id=2, score=0.5, xyxy=(1, 2, 3, 4))
    objects = [thing]
    frame = Frame(noise("RGB", 8, 8), stream=0, number=0, pts=None, objects=objects)
    objects.clear()
    assert frame.objects == [thing]
    assert (frame.objects[0].angle, frame.objects[0].id) == (0.0, None)
