"""What users and other programs give as text: addresses, properties, events, payloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readers import refusal

from contract.surface_samples import Gst
from sluice.elements import events
from sluice.elements.msgconv_properties import read_members
from sluice.messages.brokers.endpoint import Endpoint, from_properties, from_url, hide_secrets
from sluice.messages.brokers.kafka import partition_key
from sluice.messages.brokers.options import PROTOCOLS
from sluice.models.regions import read_regions, regions_of_event
from targets import Target

KINDS = {
    "nv-roi-update": events.ROI_UPDATE,
    "nv-infer-interval-update": events.INFER_INTERVAL_UPDATE,
    "nv-stream-segment-0": events.STREAM_SEGMENT,
    "nv-stream-start-0": events.STREAM_START,
    "update-caps-0": events.UPDATE_CAPS,
}

WORDS = (b"(uint)", b"(string)", b"://", b"=", b";", b"\\ud800")


def _refusing(read: Callable[[str], Any]) -> Callable[[bytes], None]:
    """Return a target of a text, which may be refused in words."""

    def run(content: bytes) -> None:
        text = content.decode("utf-8", "replace")
        assert refusal(lambda: read(text)) != ""

    return run


def _address(text: str) -> None:
    protocol, _, rest = text.partition(" ")
    hide_secrets(rest)
    endpoint: Endpoint = from_properties(protocol, rest) if protocol in PROTOCOLS else from_url(text)
    assert endpoint.scrub(endpoint.shown) is not None
    if endpoint.hosts:
        assert endpoint.host
        assert 0 < endpoint.port < 65536


def _regions(text: str) -> None:
    read_regions(f"{text}=" if "=" not in text else text)  # without the sign it would be a file's name


def _event(text: str) -> None:
    try:
        structure = Gst.Structure.from_string(text.replace("\0", " "))[0]
    except TypeError:  # PyGObject's way of saying that the constructor returned NULL
        return
    if structure is None or structure.get_name() not in KINDS:
        return
    event = events.new_event(KINDS[structure.get_name()], structure)
    events.parse_stream_event(event)
    fields = events.parse_control_event(event)
    if fields is not None:
        regions_of_event(fields)


def _target(read: Callable[[str], Any], *seeds: str) -> Target:
    return Target(
        _refusing(read),
        tuple(seed.encode() for seed in seeds),
        (b"(uint)", b"(string)", b"://", b"=", b";", b"\\ud800"),
    )


TARGETS = {
    "addresses": _target(
        _address,
        *(
            f"{described.schemes[0]}://user:word@host.example:1234/topic?ack-timeout=5"
            for described in PROTOCOLS.values()
        ),
        "amqp host;5672;user;word",
        "kafka [::1];9092;topic",
        "https://host.example/path?token=word",
    ),
    "regions-property": _target(_regions, "0=0;0;10;10;5;5;2;2,roi-params-src-1=1;1;8;8"),
    "stream-members": _target(read_members, '{"0": {"name": "gate"}, "1": {"name": "yard", "floor": 2}}'),
    "kafka-key": _target(
        lambda text: partition_key(text.encode(), "object.id"),
        '{"sensorId": "gate", "object": {"id": 5}}',
        '{"stream": 3}',
    ),
    "events": _target(
        _event,
        "nv-roi-update, stream_id=(string)0, roi-count=(uint)1, "
        "left_0=(uint)0, top_0=(uint)0, width_0=(uint)9, height_0=(uint)9;",
        "nv-stream-segment-0, source-id=(uint)1, serial=(guint64)4;",
        "nv-stream-start-0, source-id=(uint)1, stream-id=(string)a;",
        "update-caps-0, stream-id=(uint)1, stream-id-str=(string)a, "
        "width-val=(uint)6, height-val=(uint)4, frame-rate=(fraction)30/1;",
    ),
}
