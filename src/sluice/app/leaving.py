"""How the command's process ends."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys


def leave(status: object) -> None:
    """End the process at once, with all that is done at exits, where a model's call would not let Python end it.

    A call in C++ that returns to an interpreter in its last moments ends the process by SIGABRT, whatever its status
    was to be. Where no such call is being made this returns, and the process ends as usual.

    Args:
        status: what `SystemExit` carries: a number, None for 0, or a text for the standard error and 1.
    """
    instances = sys.modules.get("sluice.models.instance")
    if instances is None or instances.end_all():
        return
    atexit.unregister(instances.end_all)
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)
    number = status if isinstance(status, int) else int(status is not None)
    atexit._run_exitfuncs()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(number)
