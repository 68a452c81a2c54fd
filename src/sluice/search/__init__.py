"""Embeddings of objects and frames, kept with their time and place, and searched for what looks or reads like them.

`Recorder` writes and `Archive` searches; any number of searches may run while one recorder writes.
"""

from sluice.search.archive import Archive, Hit
from sluice.search.entries import Entry
from sluice.search.recorder import Recorder

__all__ = ["Archive", "Entry", "Hit", "Recorder"]
