"""Sluice with `precision=int8`, which computes quantised networks in int8: no part of the goals."""

from sluice_loop import measure

measure(precision="int8")
