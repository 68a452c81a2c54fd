"""Which decoder reads a network: by shapes, names and metadata first, by the values of a run on noise where needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sluice.errors import ModelError
from sluice.models.decoders import DECODERS, Recognition, candidates_of, recognise_all
from sluice.models.decoders.base import Arrays, no
from sluice.models.labels import COCO_80
from sluice.runtimes import NetworkInfo


def recognise(
    info: NetworkInfo, width: int, height: int, probe: Callable[[], Arrays], labels: int = 0
) -> dict[str, Recognition]:
    """What every decoder says of a network, after it has looked at the values where the shapes are its own.

    Args:
        info: the network.
        width, height: size of its input.
        probe: runs the network once on noise; called if any decoder's shapes fit.
        labels: number of labels that the user gave; 0 for none. Where several heads remain, those of another number of
            classes are ruled out; without labels those of another number than COCO's 80, if one is left.
    """
    verdicts = recognise_all(info, width, height)
    open_ = {name: verdict for name, verdict in verdicts.items() if verdict.fits or verdict.possible}
    if open_:
        outputs = probe()
        empty = not all(array.size for array in outputs)
        for name, verdict in open_.items():
            decoder = DECODERS[name]
            if empty and decoder.needs_nms:  # only what suppresses boxes itself may give none
                verdicts[name] = no(f"a run gave nothing: {', '.join(str(list(array.shape)) for array in outputs)}")
            else:
                verdicts[name] = decoder.confirm(info, width, height, verdict, outputs)
    return _by_labels(verdicts, labels)


def choose(verdicts: dict[str, Recognition]) -> tuple[str | None, str]:
    """The only decoder that fits, or None; and why there is none or which could be named."""
    fitting = [name for name, verdict in verdicts.items() if verdict.fits]
    possible = [name for name, verdict in verdicts.items() if verdict.possible]
    if len(fitting) == 1:
        return fitting[0], ""
    if not fitting and not possible:
        return None, "no decoder recognises the outputs"
    named = fitting or possible
    return None, (
        "nothing in the file tells which decoder reads its outputs; name the right one with the model option "
        f"decoder={' or decoder='.join(named)}"
    )


def by_name(name: str, verdicts: dict[str, Recognition], path: str) -> str:
    """The decoder that a decoder's or family's name means for this network.

    Raises:
        ConfigurationError: there is no decoder or family of that name.
        ModelError: the network's shapes are of none of them; with their reasons.
    """
    candidates = candidates_of(name)
    allowed = [item for item in candidates if verdicts[item].fits] or [
        item for item in candidates if verdicts[item].possible
    ]
    if not allowed:
        reasons = "; ".join(
            verdicts[item].why if len(candidates) == 1 else f"{item}: {verdicts[item].why}" for item in candidates
        )
        raise ModelError(f"{path} does not fit the decoder {name!r}: {reasons}")
    return allowed[0]


def _by_labels(verdicts: dict[str, Recognition], labels: int) -> dict[str, Recognition]:
    """The verdicts with the number of labels, else COCO's of classes, as evidence where it decides between several."""
    if choose(verdicts)[0] is not None:
        return verdicts
    told = f"{labels} labels were given" if labels else f"{len(COCO_80)} is COCO's number of classes"
    labels = labels or len(COCO_80)
    candidates = [name for name, verdict in verdicts.items() if verdict.fits] or [
        name for name, verdict in verdicts.items() if verdict.possible
    ]
    right = [name for name in candidates if verdicts[name].classes == labels]
    if len(right) != 1:
        return verdicts
    result = dict(verdicts)
    for name in candidates:
        verdict = verdicts[name]
        if name in right:
            why = f"{verdict.why.partition('; but')[0]}, and {told}"
            result[name] = replace(verdict, fits=True, possible=False, why=why)
        else:
            why = f"{verdict.why.partition('; but')[0]}; but {told}"
            result[name] = replace(verdict, fits=False, possible=True, why=why)
    return result
