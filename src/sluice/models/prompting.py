"""Open-vocabulary models: what they look for is a prompt, a list of texts, which may change while they run.

A model that takes one has two more members:

* ``encode_prompt(labels)`` returns what `use_prompt` needs, such as the texts' vectors. It is called on a thread of its
  own while the model runs, so it must not touch what ``infer`` uses. It may be missing.
* ``use_prompt(labels, encoded)`` has the model look for these from the next call of ``infer`` on; class ids count the
  labels. It is called on the model's own thread, between two batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluice.errors import ModelError


class Prompted:
    """The part of an adapted model that has to do with prompts.

    Attributes:
        target: the user's object or function.
        name: its name for messages.
        prompt: what it looks for; () for its own classes.
    """

    target: Any
    name: str
    prompt: tuple[str, ...] = ()
    _encoded: Any = None

    def load_prompt(self) -> None:
        """Use the prompt that was set before the model was loaded."""
        if self.prompt:
            encoded = self.encode_prompt(self.prompt)
            self.target.use_prompt(list(self.prompt), encoded)
            self._encoded = encoded

    def encode_prompt(self, labels: Sequence[str]) -> Any:
        """Return what `use_prompt` needs; may be called beside the model's own thread.

        Raises:
            ModelError: the model takes no prompt.
        """
        if not callable(getattr(self.target, "use_prompt", None)):
            raise ModelError(
                f"{self.name} takes no prompt: it has no use_prompt(labels, encoded), as open-vocabulary models have"
            )
        encode = getattr(self.target, "encode_prompt", None)
        return encode(list(labels)) if callable(encode) else None

    def use_prompt(self, labels: tuple[str, ...], encoded: Any) -> None:
        """Look for other things from the next batch on; if that fails, for the old ones again.

        Called on the model's own thread.
        """
        try:
            self.target.use_prompt(list(labels), encoded)
            self.labels_changed()
        except BaseException:
            if self.prompt:
                self.target.use_prompt(list(self.prompt), self._encoded)
            raise
        self.prompt, self._encoded = labels, encoded

    def labels_changed(self) -> None:
        """Take note of other labels, or raise; for overriding."""
