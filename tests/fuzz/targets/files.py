"""The files that users give; see `readers`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from readers import READERS, Reader, check

from targets import Target

WORDS = (
    b"!!int ",
    b"!!float ",
    b"!!bool ",
    b"!!timestamp ",
    b"!!binary ",
    b"!!set ",
    b"<<: ",
    b"&a ",
    b"*a",
    b"0x",
    b"=",
    b";",
)
FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-")


def _target(reader: Reader) -> Target:
    return Target(lambda content: check(reader, content, Path(FOLDER.name)), (reader.good.encode(),), WORDS)


TARGETS = {name: _target(reader) for name, reader in READERS.items()}
