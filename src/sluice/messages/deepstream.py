"""DeepStream's messages of a frame, as nvmsgconv and its stock library make them, whatever the schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import IntEnum

from sluice.contract.metadata import FrameMeta
from sluice.errors import ConfigurationError
from sluice.messages import deepstream_minimal
from sluice.messages.deepstream_config import Configuration
from sluice.messages.deepstream_full import FullSchema
from sluice.messages.deepstream_objects import read_objects
from sluice.messages.event_meta import EventRecord, read_blobs, read_events
from sluice.messages.schema import utc_text


class PayloadType(IntEnum):
    """NvDsPayloadType, as far as nvmsgconv can make messages of it."""

    FULL = 0
    MINIMAL = 1
    PROTOBUF = 2
    CUSTOM = 257


CUSTOM_PAYLOAD = b"CUSTOM Schema\0"
"""What the stock library makes of payload-type 257."""

_NO_SENSOR = "0"

_EVENTLESS_FRAMES = 300
"""So many frames with objects and without any event message are no chance: ten seconds of a camera."""


@dataclass(frozen=True)
class Settings:
    """Properties of the same names of nvmsgconv; ``empty_frames`` is of ``sluicemsgconv``."""

    payload_type: PayloadType
    new_api: bool
    component_id: int = 0
    dummy_payload: bool = False
    empty_frames: bool = True


class DeepStreamMessages:
    """Makes the messages of frames."""

    def __init__(
        self, settings: Settings, configuration: Configuration | None, on_warning: Callable[[str], None]
    ) -> None:
        """Convert with a configuration, or without one where the schema needs none.

        Args:
            settings: what to make.
            configuration: sensors, places and modules.
            on_warning: told, once each, what a message lacks.

        Raises:
            ConfigurationError: the schema needs a configuration, or a package that is not installed.
        """
        if configuration is None and settings.payload_type is PayloadType.FULL:
            raise ConfigurationError(
                "payload-type 0 needs config: the file that describes sensors, places and analytics modules"
            )
        self._settings = settings
        self._configuration = configuration
        self._on_warning = on_warning
        self._warned: set[str] = set()
        self._eventless = 0
        self._full = FullSchema(configuration or Configuration(), self._miss)
        if settings.payload_type is PayloadType.PROTOBUF:
            from sluice.messages import deepstream_protobuf

            deepstream_protobuf.frame_class()
            self._per_frame = deepstream_protobuf.event_message
        else:
            self._per_frame = deepstream_minimal.event_message

    def messages(self, frame: FrameMeta) -> list[bytes]:
        """Return the messages of a frame, in the order of the lists of its events or objects.

        Args:
            frame: the frame, under a valid lease.
        """
        return self._of_objects(frame) if self._settings.new_api else self._of_events(frame)

    def _of_events(self, frame: FrameMeta) -> list[bytes]:
        events = read_events(frame, self._settings.component_id)
        self._count_eventless(frame, events)
        kind = self._settings.payload_type
        if kind is PayloadType.FULL:
            return [self._full.event(event) for event in events]
        if kind is PayloadType.CUSTOM:
            return [CUSTOM_PAYLOAD] * len(events)
        first = events[0] if events else None
        if self._settings.dummy_payload:
            first = _dummy(frame)
            # nvmsgconv puts it into the place of the first event, where there is one.
            events[:1] = [first] if events else []
        if first is None:
            return []
        sensor = self._sensor_of(first)
        try:
            return [self._per_frame(events, first.frame_id, first.timestamp, sensor)]
        except ValueError:
            self._warn(f"the event time {first.timestamp!r} is not of the form 2026-01-31T09:30:00.480Z: no message")
            return []

    def _of_objects(self, frame: FrameMeta) -> list[bytes]:
        kind = self._settings.payload_type
        source = frame.source_id
        objects = read_objects(frame, classifiers=kind is not PayloadType.PROTOBUF)
        if kind is PayloadType.CUSTOM:
            return [CUSTOM_PAYLOAD] * len(objects)
        now = _now()
        if kind is PayloadType.FULL:
            custom = read_blobs(frame)
            return [self._full.object(seen, source, now, custom) for seen in objects]
        if not objects and not self._settings.empty_frames:
            return []
        sensor = self._sensor(source) or _NO_SENSOR
        if kind is PayloadType.PROTOBUF:
            from sluice.messages import deepstream_protobuf

            return [deepstream_protobuf.object_message(objects, frame.frame_num, now, sensor)]
        return [deepstream_minimal.object_message(objects, frame.frame_num, now, sensor, read_blobs(frame))]

    def _count_eventless(self, frame: FrameMeta, events: Sequence[EventRecord]) -> None:
        """Tell once what is missing when objects come, but event messages never do."""
        if events:
            self._eventless = -1
        elif self._eventless >= 0 and frame.num_objects:
            self._eventless += 1
            if self._eventless == _EVENTLESS_FRAMES:
                of_component = f" with componentId {self._settings.component_id}" if self._settings.component_id else ""
                self._warn(
                    f"{_EVENTLESS_FRAMES} frames carried objects, but no event messages{of_component}, of which "
                    "messages are made; to make them of the objects set msg2p-newapi=true"
                )

    def _sensor_of(self, event: EventRecord) -> str:
        if event.sensor is not None:
            return event.sensor
        return _NO_SENSOR if self._configuration is None else self._sensor(event.sensor_id)

    def _sensor(self, number: int) -> str:
        """Return the id of a sensor, "" where the configuration has none of this number."""
        if self._configuration is None:
            return ""
        found = self._configuration.sensors.get(number)
        if found is None:
            self._miss(f"sensor{number}")
        return found.id if found else ""

    def _miss(self, group: str) -> None:
        self._warn(f"the messages lack what config does not tell: it has no group [{group}] with enable=1")

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._on_warning(text)


def _dummy(frame: FrameMeta) -> EventRecord:
    """Return the event that dummy-payload makes of a frame."""
    return EventRecord(frame_id=frame.frame_num, sensor_id=frame.source_id, timestamp=utc_text(frame.ntp_timestamp))


def _now() -> str:
    moment = datetime.now(timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
