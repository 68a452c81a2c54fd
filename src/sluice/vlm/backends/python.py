"""A user's own class: ``answer(images, prompt) -> str``."""

from __future__ import annotations

import inspect
from typing import Any

from sluice.errors import ConfigurationError
from sluice.vlm.backends import BackendOptions, Question, not_too_long
from sluice.vlm.failures import NoAnswer, Reason


class PythonBackend:
    """Calls an object's ``answer(images, prompt)``, or a function of the two, on one thread.

    ``images`` are uint8 arrays [height, width, 3] in the order red, green, blue, oldest first. ``load()`` and
    ``close()`` are called where the object has them.
    """

    most_at_once: int | None = 1

    def __init__(self, target: Any, name: str, options: BackendOptions) -> None:
        """Take an object, a class that is made without arguments, or a function.

        Raises:
            ConfigurationError: it has no ``answer``.
        """
        self._target = target() if inspect.isclass(target) else target
        answer = getattr(self._target, "answer", self._target if inspect.isfunction(self._target) else None)
        if not callable(answer):
            raise ConfigurationError(f"{name} has no answer(images, prompt) -> str")
        self._answer = answer
        self._options = options
        self.name = options.model or name

    def open(self) -> None:
        """Have the object load what it needs."""
        self._call("load")

    def answer(self, question: Question) -> str:
        """Return what the object says; raises NoAnswer for what is no text, or too long, and what the object raises."""
        said = self._answer([picture.rgb() for picture in question.pictures], question.prompt)
        if not isinstance(said, str):
            raise NoAnswer(
                Reason.BAD_RESPONSE, f"answer() of {self.name} returned {type(said).__name__}; right is a text (str)"
            )
        return not_too_long(said, self._options.most_characters)

    def cancel(self) -> None:
        """A call into a user's code cannot be ended from outside."""

    def close(self) -> None:
        """Have the object give back what it took."""
        self._call("close")

    def _call(self, name: str) -> None:
        function = getattr(self._target, name, None)
        if callable(function):
            function()
