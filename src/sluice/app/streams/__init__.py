"""The streams of a pipeline that come and go: what is chosen for each, what each is doing, and how it recovers."""

from sluice.app.streams.events import Event, EventLog
from sluice.app.streams.policy import RetryPolicy, StreamPolicy
from sluice.app.streams.states import StreamState, StreamStatus

__all__ = ["Event", "EventLog", "RetryPolicy", "StreamPolicy", "StreamState", "StreamStatus"]
