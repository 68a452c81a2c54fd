"""What every element does when its state changes, and once per process: how often Python's threads take turns."""

import os
import sys

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.errors import ConfigurationError

SWITCH_INTERVAL = 0.0002
"""Seconds after which a Python thread that holds the GIL is asked for it. At Python's own 5 ms, one busy thread takes
eight streams that enter Python once per frame from about 12,000 frames/s to 420; at 0.2 ms to about 5,000."""


def set_switch_interval() -> float:
    """Set how often Python's threads change, from the variable SLUICE_SWITCH_INTERVAL (seconds) or `SWITCH_INTERVAL`.

    Raises:
        ConfigurationError: the variable is not a number of seconds above 0.
    """
    text = os.environ.get("SLUICE_SWITCH_INTERVAL", str(SWITCH_INTERVAL))
    try:
        sys.setswitchinterval(float(text))
    except ValueError:
        raise ConfigurationError(f"SLUICE_SWITCH_INTERVAL={text!r}: a number of seconds above 0 is needed") from None
    return sys.getswitchinterval()


class Lifecycle:
    """Calls the hooks `start` and `stop` of an element at NULL→READY and READY→NULL."""

    def start(self) -> None:
        """Import, check properties and load at NULL→READY; an exception fails the change and is posted."""

    def stop(self) -> None:
        """Give back at READY→NULL what `start` took; also called when `start` failed."""

    def change_state(self, transition: Gst.StateChange) -> Gst.StateChangeReturn:
        """Do what ``do_change_state`` has to, with the hooks; the class's own ``do_change_state`` guards it."""
        if transition == Gst.StateChange.NULL_TO_READY:
            set_switch_interval()
            try:
                self.start()
            except BaseException:
                self.stop()
                raise
        result = Gst.Element.do_change_state(self, transition)
        if transition == Gst.StateChange.READY_TO_NULL:
            self.stop()
        return result
