"""`inspect_model`: what is in a network file, which head it has, and why."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from sluice.errors import ModelError
from sluice.models.head import Head, examine
from sluice.models.nvinfer import is_configuration
from sluice.models.nvinfer.inspection import ConfigInspection, inspect_config
from sluice.runtimes import TensorInfo, choose_runtime, open_network

MOST_SHOWN = 100
"""Characters of a text from the file."""


@dataclass(frozen=True)
class Inspection:
    """What was found in a network file. ``str()`` is the text for people; the decoders that were rejected are in it
    where none fits, and with ``verbose``.

    Attributes:
        path: the file.
        runtime: name of the runtime that opened it.
        inputs, outputs: its tensors as the file declares them.
        metadata: texts the exporter left in the file.
        decoder: name of the decoder that recognised the head; None if none did.
        why: the evidence for that decoder, or that there is none.
        rejected: the other decoders, each with its reason.
        labels: the label table that would be used; labels_from says where it comes from.
        preprocessing: what would be put in, in words.
        fragment: the element for gst-launch that runs this model; None without a decoder.
        verbose: say in the text why the other decoders were rejected, even if one fits.
    """

    path: Path
    runtime: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    metadata: dict[str, str]
    decoder: str | None
    why: str
    rejected: dict[str, str]
    labels: tuple[str, ...]
    labels_from: str
    preprocessing: str
    fragment: str | None = None
    verbose: bool = False

    def __str__(self) -> str:
        lines = [f"{self.path} ({self.runtime})"]
        lines += [f"  input   {item}" for item in self.inputs]
        lines += [f"  output  {item}" for item in self.outputs]
        lines += [f"  meta    {key}: {_on_a_line(value)}" for key, value in sorted(self.metadata.items())]
        lines.append(f"  head    {self.decoder or 'not recognised'}: {self.why}")
        lines.append(f"  labels  {len(self.labels)} from {self.labels_from}")
        lines.append(f"  picture {self.preprocessing}")
        lines += [f"  use     {self.fragment}"] if self.fragment else []
        if self.verbose or self.decoder is None:
            lines += [f"  not     {name}: {why}" for name, why in self.rejected.items()]
        elif self.rejected:
            lines.append(f"  not     {len(self.rejected)} other decoders; --verbose says why")
        return "\n".join(lines)


def _on_a_line(text: str) -> str:
    """A text without ends of lines, and with a mark where it is cut off."""
    text = " ".join(text.split())
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def inspect_model(path: str | Path, runtime: str = "auto", *, verbose: bool = False) -> Inspection | ConfigInspection:
    """Open a network file, or the network of a configuration file of nvinfer, and say what is in it.

    Args:
        path: the file.
        runtime: see `sluice.runtimes.open_network`.
        verbose: let the text say why each of the other decoders was rejected.

    Raises:
        ModelError: the file is missing or cannot be opened.
        ConfigurationError: there is no such runtime, or a configuration file has a wrong value.
    """
    if is_configuration(str(path)):
        return inspect_config(path, runtime)
    path = Path(path)
    network = open_network(path, runtime)
    info = network.info
    try:
        known = examine(network, path)
        head: Head | None = known
        why_not = known.why_not
    except ModelError as error:  # an input that is no picture: still worth showing
        head, why_not = None, str(error)
    finally:
        network.close()
    verdicts = head.verdicts if head else {}
    decoder = head.decoder if head else None
    return Inspection(
        path=path,
        runtime=choose_runtime(path, runtime),
        inputs=info.inputs,
        outputs=info.outputs,
        metadata=info.metadata,
        decoder=decoder,
        why=verdicts[decoder].why if decoder else why_not,
        rejected={name: verdict.why for name, verdict in verdicts.items() if name != decoder},
        labels=head.labels if head else (),
        labels_from=head.labels_from if head else "nowhere",
        preprocessing=_words(head) if head else "unknown",
        fragment=_fragment(path, runtime, head) if head and decoder else None,
        verbose=verbose,
    )


def _fragment(path: Path, runtime: str, head: Head) -> str:
    """The element with the properties that this model needs, as typed in a shell."""
    words = ["gst-launch-1.0 ... ! sluiceinfer", f"model={shlex.quote(str(path))}"]
    if head.decoder == "embedding":  # of the objects that a detector before it found
        words.append("process-mode=secondary unique-id=2")
    if runtime != "auto":
        words.append(f"runtime={runtime}")
    if not head.labels and head.verdicts[head.decoder or ""].classes > 1:
        words.append("labels=LABELS.txt")
    return " ".join([*words, "! ..."])


def _words(head: Head) -> str:
    spec = head.preprocessing
    if spec is None:
        return f"{head.width}x{head.height}; what it wants is not known without its head"
    padded = f"aspect kept, {spec.fit}, padded with {spec.pad}"
    fit = {"stretch": "stretched", "crop": "its middle"}.get(spec.fit, padded)
    numbers = "unscaled" if spec.neutral else f"x {spec.scale:.6g}, mean {spec.mean}, std {spec.std}"
    batch = "any batch" if head.batch is None else f"batch {head.batch}"
    return f"{spec.width}x{spec.height} {spec.layout} {spec.dtype}, {spec.order}, {fit}, {numbers}, {batch}"
