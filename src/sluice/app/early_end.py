"""A signal that comes while the command is still importing: it ends the process in words and with the right status."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ends_at_once(number: int, *, status: int | None = None) -> Iterator[None]:
    """End the process at a signal, as long as no handler of the run itself takes their place.

    For what is only being prepared: nothing has begun that would have to be finished. Exceptions would not do, since
    they may be raised within any import.

    Args:
        number: of the signal; one that is ignored stays so.
        status: of the process then; None: 128 plus the signal's number.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        print(f"sluice: ended by {signal.Signals(number).name}", file=sys.stderr, flush=True)
        os._exit(128 + number if status is None else status)

    if signal.getsignal(number) is signal.SIG_IGN:
        yield
        return
    previous = signal.signal(number, leave)
    try:
        yield
    finally:
        signal.signal(number, previous)
