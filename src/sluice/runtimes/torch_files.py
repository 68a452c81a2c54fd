"""What a PyTorch file is, told from its archive alone: nothing in it is loaded or run."""

from __future__ import annotations

import pickletools
import zipfile
from enum import Enum
from pathlib import Path


class TorchFile(Enum):
    """Kinds of PyTorch files."""

    TORCHSCRIPT = "a TorchScript archive (torch.jit.save)"
    EXPORT = "an exported program (torch.export.save)"
    ULTRALYTICS = "an Ultralytics checkpoint"
    RFDETR = "an RF-DETR checkpoint"
    CHECKPOINT = "a checkpoint (torch.save): weights, or pickled Python objects"
    OTHER = "no PyTorch archive"


def torch_file(path: str | Path) -> TorchFile:
    """Which kind of PyTorch file this is.

    All are zip archives. TorchScript has code beside its data; an exported program has a model in JSON; a checkpoint
    has one pickle, whose texts (module names, the names of weights) say who wrote it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if any(name.endswith("/constants.pkl") for name in names):
                return TorchFile.TORCHSCRIPT
            if any("models/" in name and name.endswith(".json") for name in names):
                return TorchFile.EXPORT
            data = next((name for name in names if name.endswith("/data.pkl") or name == "data.pkl"), None)
            texts = set() if data is None else _texts(archive.read(data))
    except (OSError, zipfile.BadZipFile):
        return TorchFile.OTHER
    if data is None:
        return TorchFile.OTHER
    if any(text.startswith("ultralytics.") for text in texts):
        return TorchFile.ULTRALYTICS
    # The two-stage heads that only this family has beside its learned reference points.
    if any(text.endswith("refpoint_embed.weight") for text in texts):
        return TorchFile.RFDETR
    return TorchFile.CHECKPOINT


def _texts(pickle: bytes) -> set[str]:
    """All texts of a pickle, the names of what it would import among them; it is read as a list of orders, not run."""
    try:
        return {argument for _, argument, _ in pickletools.genops(pickle) if isinstance(argument, str)}
    except ValueError:  # no pickle, or cut off
        return set()
