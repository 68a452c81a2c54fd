"""Memory is given back, and seldom."""

from __future__ import annotations

from sluice.app.allocation import Trimmer


def test_memory_is_given_back_once_in_a_while() -> None:
    now = [100.0]
    trimmer = Trimmer(lambda: now[0])
    done = trimmer.trim()  # False only where the C library can't
    assert not trimmer.trim()
    now[0] += 9.9
    assert not trimmer.trim()
    now[0] += 0.2
    assert trimmer.trim() == done
