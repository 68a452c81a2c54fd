"""Sluice, which computes the network as its file is written, like all others."""

from sluice_loop import measure

measure()
