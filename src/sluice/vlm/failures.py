"""Why a segment has no answer: the names of counters and events."""

from enum import Enum

from sluice.errors import SluiceError


class Reason(str, Enum):
    """Why a segment has no answer. The first group was never asked about, or nobody waits for the answer any more."""

    QUEUE_FULL = "queue-full"
    INCOMPLETE = "incomplete"
    FLUSHED = "flushed"
    STOPPED = "stopped"

    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed-out"
    RATE_LIMITED = "rate-limited"
    SERVER_ERROR = "server-error"
    REFUSED = "refused"
    BAD_RESPONSE = "bad-response"
    TOO_LARGE = "too-large"
    INVALID_ANSWER = "invalid-answer"
    MODEL_ERROR = "model-error"

    @property
    def dropped(self) -> bool:
        """Whether the segment was dropped here; False: the model or its endpoint failed."""
        return self in (Reason.QUEUE_FULL, Reason.INCOMPLETE, Reason.FLUSHED, Reason.STOPPED)


class NoAnswer(SluiceError):
    """A segment has no answer.

    Attributes:
        reason: why, as counted.
    """

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
