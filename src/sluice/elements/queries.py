"""Answers to the queries that every element needs: latency and allocation."""

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.structures import required_structure


def frame_duration(caps: Gst.Caps | None) -> int:
    """Return the nanoseconds between two frames by the caps' framerate; 0 without caps or with a variable rate."""
    if caps is None or caps.get_size() == 0:
        return 0
    found, numerator, denominator = required_structure(caps, 0).get_fraction("framerate")
    return Gst.SECOND * denominator // numerator if found and numerator > 0 else 0


def add_latency(sinkpad: Gst.Pad, query: Gst.Query, own: int) -> bool:
    """Ask upstream and add ``own`` nanoseconds to its latency; an unlimited maximum stays unlimited."""
    if not sinkpad.peer_query(query):
        return False
    live, minimum, maximum = query.parse_latency()
    if live:
        bounded = maximum != Gst.CLOCK_TIME_NONE
        query.set_latency(live, minimum + own, maximum + own if bounded else maximum)
    return True


def raise_pool_minimum(query: Gst.Query, buffers: int) -> bool:
    """Add ``buffers`` to what every pool in an answered ALLOCATION query must hold; return whether there was a pool."""
    for index in range(query.get_n_allocation_pools()):
        pool, size, minimum, maximum = query.parse_nth_allocation_pool(index)
        query.set_nth_allocation_pool(index, pool, size, minimum + buffers, maximum + buffers if maximum else 0)
    return bool(query.get_n_allocation_pools())


def ask_latency(pad: Gst.Pad) -> tuple[bool, int, int] | None:
    """Ask a pad's peer for (live, least, most) latency in nanoseconds; None when it does not know."""
    query = Gst.Query.new_latency()
    return query.parse_latency() if pad.peer_query(query) else None
