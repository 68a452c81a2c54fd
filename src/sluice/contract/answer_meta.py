"""What a slow model said about some time of a stream, as user metadata on the frame that was passing when it arrived.

The data are a JSON text (`sluice.contract.user_meta`), so that copies of the batch, sluicedemux, recordings and
programs in other languages carry and read them; the descriptor of its type is `ANSWER`.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from sluice.contract.metadata import FrameMeta
from sluice.contract.user_meta import attach_text, find, payload_json
from sluice.errors import ContractError

ANSWER = "SLUICE.ANSWER"
"""Descriptor of the user metas with an answer."""


@dataclass(frozen=True)
class Answer:
    """One answer and the time it speaks of.

    Attributes:
        stream: number of the stream.
        segment: number of the segment within its stream, from 0, as selected: those that were lost leave gaps.
        text: what the model said.
        mode: "text", "json" or "labels": what `value` is.
        value: the JSON value, or the label; None for a text.
        start_pts, end_pts: times of the first and the last picture in the stream, in nanoseconds; None if unknown.
        start_utc, end_utc: their wall-clock times in nanoseconds since 1970; None if unknown.
        cause: why the segment was selected: "time", "object:LABEL", "line:NAME" or "ask".
        pictures: how many pictures the model saw.
        model: name of the model.
        seconds: from the last picture to the answer.
    """

    stream: int
    segment: int
    text: str
    mode: str = "text"
    value: Any = None
    start_pts: int | None = None
    end_pts: int | None = None
    start_utc: int | None = None
    end_utc: int | None = None
    cause: str = "time"
    pictures: int = 1
    model: str = ""
    seconds: float = 0.0


_FIELDS = {field.name for field in fields(Answer)}


def attach_answer(frame: FrameMeta, answer: Answer) -> None:
    """Put an answer on a frame; copies of the frame have it too.

    Raises:
        ContractError: its value cannot be written as JSON.
        StaleBufferError: the frame's lease has ended.
    """
    try:
        text = json.dumps(asdict(answer), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ContractError(f"an answer's value cannot be written as JSON: {error}") from error
    attach_text(frame, ANSWER, text)


def read_answers(frame: FrameMeta) -> list[Answer]:
    """Return the answers on a frame, in the order in which they arrived.

    Raises:
        ContractError: a meta of this type holds something else.
        StaleBufferError: the frame's lease has ended.
    """
    return [_answer(payload_json(user)) for user in reversed(find(frame, ANSWER))]


def _answer(members: Any) -> Answer:
    try:
        return Answer(**{name: value for name, value in members.items() if name in _FIELDS})
    except (AttributeError, TypeError) as error:
        raise ContractError(f"a user meta {ANSWER} holds no answer: {error}") from error
