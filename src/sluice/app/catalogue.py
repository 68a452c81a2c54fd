"""``sluice models``: what can be named as a model, and what executes and reads network files."""

from __future__ import annotations

from sluice.models.decoders import DECODERS
from sluice.models.loading import MODELS
from sluice.runtimes import FILES, RUNTIMES


def catalogue() -> str:
    """Return the list as lines for people."""
    width = max(map(len, [*MODELS, *RUNTIMES, *DECODERS]))
    files = {name: [suffix for suffix, readers in FILES.items() if name in readers] for name in RUNTIMES}
    lines = ["registered models (--model NAME):"]
    lines += [f"  {name:{width}} {model.about}" for name, model in MODELS.items()]
    lines += ["", "your own models:"]
    lines += ["  file.py:Class, file.py (the one model in it), package.module:Class", "", "runtimes (--runtime NAME):"]
    lines += [f"  {name:{width}} reads {', '.join(suffixes)}" for name, suffixes in files.items()]
    lines += ["", "decoders of network models, found from the file:"]
    lines += [
        f"  {name:{width}} {(decoder.__doc__ or '').strip().splitlines()[0]}" for name, decoder in DECODERS.items()
    ]
    return "\n".join(lines)
