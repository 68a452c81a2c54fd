"""What a model is: any Python object or function that turns frames into detections."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

from sluice.errors import ModelError
from sluice.models.detections import Detections
from sluice.models.frame import Frame
from sluice.models.labels import names_by_id
from sluice.models.options import check_options, name_of
from sluice.models.prompting import Prompted
from sluice.models.results import check_results
from sluice.models.swap import Calls
from sluice.models.whole import check_text


@runtime_checkable
class Model(Protocol):
    """A model as a user writes it. Only `infer` must be there.

    Optional members:
        labels: sequence of the classes' names, by class id.
        load(): reads weights; called once, before anything else.
        warm_up(): runs what makes the first call slow; called once, after `load`.
        close(): frees what `load` took; called once, after the last call.
        rehearse(calls): called once, after `warm_up`, where it is to take the place of a model that runs: prepares for
            `Calls` as that one had.
        begin(frames): begins what ``infer`` does and returns a `Begun`, or None where it cannot; so the next batch can
            be begun while a GPU, or other threads, work on this one.

    All of them are called on one thread, the model's own.
    """

    def infer(self, frames: list[Frame]) -> Sequence[Any]:
        """One result per frame, in order: `Detections`, a supervision, Ultralytics or torchvision result, or None."""
        ...


class Begun(Protocol):
    """Frames that are worked on. They keep their pixels until `finish` has returned.

    It may have a method ``notify(wake)``, which has ``wake()`` called by any thread once `ready` may have become true
    and returns True; without one, or where it returns False, `ready` is asked again and again.

    Attributes:
        valid: whether the results are `Detections` that need no validation.
    """

    valid: bool

    def ready(self) -> bool:
        """Whether `finish` would return without waiting."""
        ...

    def finish(self) -> Any:
        """The results, as ``infer`` returns them; waits for them."""
        ...


class AdaptedModel(Prompted):
    """Any model with every member there: results checked and filtered, optional members forwarded where they exist.

    Attributes:
        target: the user's object or function.
        name: its name for messages.
        confidence, iou, max_detections, classes: filters on the results, None where the model's own stand. `classes`
            holds ids or labels; labels are looked up after `load`.
    """

    def __init__(
        self,
        target: Any,
        *,
        name: str | None = None,
        labels: Sequence[str] | None = None,
        confidence: float | None = None,
        iou: float | None = None,
        max_detections: int | None = None,
        classes: Sequence[int | str] | None = None,
    ) -> None:
        self.target = target
        self.name = name or name_of(target)
        self.confidence = confidence
        self.iou = iou
        self.max_detections = max_detections
        self.classes = classes
        self._infer: Callable[[list[Frame]], Any] = target.infer if hasattr(target, "infer") else target
        self._labels = None if labels is None else tuple(labels)
        self._class_ids: frozenset[int] | None = None
        self._loaded = self._begun = False

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes by class id: those given, else the model's own; empty if it has none.

        Raises:
            ModelError: the model's own are neither a sequence of names nor a mapping from class ids to names.
        """
        if self._labels is not None:
            return self._labels
        own = getattr(self.target, "labels", None)
        if own is None or callable(own):
            return ()
        if isinstance(own, Mapping):
            names = names_by_id(own)
            if names is None:
                keys = ", ".join(repr(key) for key in list(own)[:3])
                raise ModelError(
                    f"labels of {self.name} is a mapping from {keys}; right is one from class ids to names"
                )
            return names
        if isinstance(own, (str, bytes)) or not isinstance(own, Iterable):
            raise ModelError(
                f"labels of {self.name} is {own!r}; right is a sequence of the classes' names, by class id"
            )
        return tuple(str(label) for label in own)

    def load(self) -> None:
        """The model's own `load`, then the check of the classes asked for; only once, until `close`.

        What an earlier attempt took that failed is given back first.

        Raises:
            ModelError: a class label that the model does not have.
        """
        if self._loaded:
            return
        if self._begun:
            self.close()
        self._begun = True
        self._forward("load")
        self.load_prompt()
        for number, label in enumerate(self.labels):
            check_text(f"label {number} of {self.name}", label)
        self.labels_changed()
        self._loaded = True

    def labels_changed(self) -> None:
        """Look up the classes asked for among the labels.

        Raises:
            ModelError: a class label that the model does not have.
        """
        if self.classes is not None:
            self._class_ids = class_ids_of(self.classes, self.labels, self.name)

    def warm_up(self) -> None:
        """The model's own `warm_up`, if it has one."""
        self._forward("warm_up")

    def rehearse(self, calls: Calls) -> None:
        """The model's own `rehearse`, if it has one."""
        rehearse = getattr(self.target, "rehearse", None)
        if rehearse is not None:
            rehearse(calls)

    def close(self) -> None:
        """The model's own `close`, if it has one."""
        self._loaded = self._begun = False
        self._forward("close")

    def infer(self, frames: list[Frame]) -> list[Detections]:
        """Validated and filtered detections, one per frame; loads the model first if that was not done.

        Raises:
            ModelError: the model returned something else, see `check_results`.
        """
        self.load()
        # A list of its own, which it may empty: results are counted against the frames that went in.
        return self._checked(self._infer(list(frames)), frames)

    def begin(self, frames: list[Frame]) -> BegunModel | None:
        """Begin what `infer` does without waiting for it; None where the model does not do that."""
        begin = getattr(self.target, "begin", None)
        if begin is None:
            return None
        self.load()
        begun = begin(list(frames))
        if begun is None:
            return None
        return BegunModel(begun, self._filtered if begun.valid else functools.partial(self._checked, frames=frames))

    def _checked(self, found: Any, frames: list[Frame]) -> list[Detections]:
        return self._filtered(check_results(found, frames, self.name))

    def _filtered(self, results: list[Detections]) -> list[Detections]:
        return [
            result.filter(
                confidence=self.confidence,
                classes=self._class_ids,
                iou=self.iou,
                max_detections=self.max_detections,
            )
            for result in results
        ]

    def _forward(self, name: str) -> None:
        method = getattr(self.target, name, None)
        if method is not None:
            method()


class BegunModel:
    """What `AdaptedModel.begin` returns: a `Begun` whose results are validated and filtered.

    Whatever the user's `ready` or `notify` raises is raised by `finish`: the thread that asks has other calls to make.
    """

    valid = True

    def __init__(self, begun: Begun, check: Callable[[Any], list[Detections]]) -> None:
        self._begun, self._check = begun, check
        self._broken: Exception | None = None

    def ready(self) -> bool:
        """Whether `finish` would return without waiting."""
        try:
            return self._broken is not None or bool(self._begun.ready())
        except Exception as error:
            self._broken = error
            return True

    def notify(self, wake: Callable[[], None]) -> bool:
        """Have `wake` called once `ready` may have become true; False where nobody will call it."""
        notify = getattr(self._begun, "notify", None)
        try:
            return notify is not None and bool(notify(wake))
        except Exception as error:
            self._broken = error
            return False

    def finish(self) -> list[Detections]:
        """As `AdaptedModel.infer`; raises the same, and what `ready` or `notify` raised."""
        if self._broken is not None:
            raise self._broken
        return self._check(self._begun.finish())


def as_model(
    candidate: Any,
    options: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    labels: Sequence[str] | None = None,
    confidence: float | None = None,
    iou: float | None = None,
    max_detections: int | None = None,
    classes: Sequence[int | str] | None = None,
) -> AdaptedModel:
    """Make a model of an instance, a class or a plain callable.

    Args:
        candidate: an object with ``infer(frames)``; a class of such objects; or a callable that takes the frames.
        options: keyword arguments for the class's constructor, checked against its signature.
        name: what messages call it; by default the name of the class or function.
        labels: label table in place of the model's own.
        confidence, iou, max_detections, classes: filters on every result, see `Detections.filter`.

    Raises:
        ModelError: saying why this cannot be a model, or which option the constructor does not take.
    """
    if isinstance(candidate, AdaptedModel):
        return candidate
    if inspect.isclass(candidate):
        if not callable(getattr(candidate, "infer", None)):
            raise ModelError(f"class {candidate.__qualname__} has no method infer(self, frames); a model needs one")
        target = candidate(**check_options(candidate, options or {}))
    elif options:
        raise ModelError(
            f"options {sorted(options)} were given for {name_of(candidate)}, which is no class: "
            "options are keyword arguments of a model class's constructor"
        )
    else:
        target = candidate
    if not hasattr(target, "infer") and not callable(target):
        raise ModelError(
            f"{candidate!r} cannot be a model; right is an object or class with infer(frames), or a function of frames"
        )
    _check_call(getattr(target, "infer", target))
    return AdaptedModel(
        target,
        name=name,
        labels=labels,
        confidence=confidence,
        iou=iou,
        max_detections=max_detections,
        classes=classes,
    )


def class_ids_of(classes: Sequence[int | str], labels: Sequence[str], name: str = "the model") -> frozenset[int]:
    """Class ids from ids and labels; a text of digits that is no label is an id.

    Raises:
        ModelError: naming a label that is not in the table, with the nearest that is.
    """
    ids = {label: number for number, label in reversed(list(enumerate(labels)))}
    found = set()
    for item in classes:
        if isinstance(item, str) and item in ids:
            found.add(ids[item])
        elif (isinstance(item, Integral) or str(item).isdecimal()) and int(item) in _CLASS_IDS:
            found.add(int(item))
        else:
            near = difflib.get_close_matches(str(item), labels, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            known = ", ".join(labels[:20]) + (", ..." if len(labels) > 20 else "") or "none"
            raise ModelError(f"{name} has no class {item!r}{hint} (its classes: {known})")
    return frozenset(found)


_CLASS_IDS = range(-(2**31), 2**31)  # those that detections can have


def _check_call(function: Any) -> None:
    """Refuse what cannot be called with one argument, the frames."""
    if not callable(function):
        raise ModelError(f"the model's infer is a {type(function).__name__}; right is a method infer(self, frames)")
    try:
        inspect.signature(function).bind([])
    except TypeError as error:
        raise ModelError(
            f"{name_of(function)} cannot be called with the list of frames: {error}; right is {_right_call(function)}"
        ) from error
    except ValueError:  # written in C, without a signature
        return


def _right_call(function: Any) -> str:
    """How it is to be defined, and where it is."""
    code = getattr(function, "__code__", None)
    place = f" in {code.co_filename}, line {code.co_firstlineno}" if code is not None else ""
    method = inspect.ismethod(function) or "." in getattr(function, "__qualname__", "")
    return f"def {getattr(function, '__name__', 'infer')}({'self, ' if method else ''}frames){place}"
