"""A delivery from an endpoint: its transport, its spool and where that lies."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from sluice.messages.brokers.delivery import Delivery
from sluice.messages.brokers.endpoint import Endpoint, from_url
from sluice.messages.spool import Spool
from sluice.messages.writer import Overflow

NO_SPOOL = "none"


def open_delivery(
    endpoint: Endpoint,
    *,
    spool: str = "",
    spool_size: int = 1 << 30,
    fsync: bool = False,
    overflow: Overflow = Overflow.WAIT,
    patience: float = 10.0,
    patience_away: float | None = None,
    on_away: Callable[[str], None],
    on_refused: Callable[[str], None],
    on_wait: Callable[[str], object] = str,
    on_back: Callable[[str], object] = str,
) -> Delivery:
    """Start to deliver to an endpoint.

    Args:
        endpoint: where to.
        spool: file of messages not acknowledged; "none" keeps them in memory, "" finds a place for this endpoint.
        spool_size: the most bytes of messages there.
        fsync: wait for the disk at each write, so that messages survive a power failure too.
        overflow: what to do when the spool is full.
        patience: see `Delivery`, as for the rest.
        patience_away: see `Delivery`.
        on_away: see `Delivery`.
        on_refused: see `Delivery`.
        on_wait: see `Delivery`.
        on_back: see `Delivery`.

    Raises:
        ConfigurationError: the client library is missing, an option cannot be used, or the spool cannot.
    """
    transport = endpoint.transport()
    spool = spool or endpoint.options["spool"]
    path = None if spool == NO_SPOOL else Path(spool).expanduser() if spool else default_spool(endpoint)
    return Delivery(
        transport,
        Spool(path, capacity=spool_size, fsync=fsync),
        overflow=overflow,
        patience=patience,
        # Messages in memory alone would be lost by not waiting.
        patience_away=None if path is None else patience_away,
        on_away=on_away,
        on_refused=on_refused,
        on_wait=on_wait,
        on_back=on_back,
        id_in_payload=endpoint.flag("id-in-payload"),
        scrub=endpoint.scrub,
    )


def default_spool(endpoint: Endpoint) -> Path:
    """Return the file that the next run with this endpoint will find again, in the user's folder for such state."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser())
    name = re.sub(r"[^\w.-]+", "-", endpoint.shown.replace("://", "-"))[:80].strip("-")
    mark = hashlib.sha256(endpoint.shown.encode()).hexdigest()[:8]
    return state / "sluice" / "spool" / f"{name}-{mark}.db"


def spool_of_process(location: str, process: int) -> str:
    """Return where one of several processes that send to one endpoint has its spool: the first where one alone has it.

    Args:
        location: the endpoint's URL.
        process: counted from 0.

    Raises:
        ConfigurationError: the URL cannot be used.
    """
    endpoint = from_url(location)
    given = endpoint.options["spool"]
    if given == NO_SPOOL:
        return given
    path = Path(given).expanduser() if given else default_spool(endpoint)
    return str(path if process == 0 else path.with_name(f"{path.stem}-{process}{path.suffix}"))
