"""Where a frame's ``ntp_timestamp`` comes from: a user meta that sluicemux puts on frames of live streams."""

import ctypes
import functools

from sluice.contract._native import library
from sluice.contract.metadata import FrameMeta

CAPTURE_TIME = "SLUICE.CAPTURE_TIME"
"""Descriptor of the user meta; its data are a C string, "rtcp" or "arrival"."""


@functools.cache
def _copy_function() -> int:
    return ctypes.cast(library().sluice_capture_copy, ctypes.c_void_p).value or 0


def capture_time_from(frame: FrameMeta) -> str | None:
    """Return where a frame's ``ntp_timestamp`` comes from.

    Returns:
        "rtcp": the sender's clock, as its RTCP sender reports tell; "arrival": this machine's, when the frame came to
        the mux; None: it is not known (and 0 where the sender's was asked for), or nobody says.
    """
    for user in frame.user_metas:
        if user.copy_func == _copy_function():
            return (ctypes.c_char_p(user.data).value or b"").decode() or None
    return None
