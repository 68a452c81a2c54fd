"""One sink pad of ``sluicemux``: what its caps say of the frames, and the queries it answers."""

import functools
from typing import Any

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import Gst, GstVideo

from sluice.contract.structures import required_structure, structure_of
from sluice.elements import events, queries

_DEFAULT_DURATION = Gst.SECOND // 30


class Input:
    """The state of one sink pad. The pad's thread changes it; ``announced`` and ``stream_id`` are the task's.

    Args:
        pad: the pad.
        number: the N of its name ``sink_N``, which is the frames' ``pad_index``.
        stream: its queue, a `sluice.contract.collector.Stream`.
    """

    def __init__(self, pad: Gst.Pad, number: int, stream: Any) -> None:
        self.pad = pad
        self.number = number
        self.stream = stream
        self.reset()

    def reset(self) -> None:
        """Begin anew, as at READY→PAUSED."""
        self.raw_format: Any = None
        """How the frames come, a `FrameFormat`; None before caps and for NvBufSurfaces."""
        self.stream_id = ""
        self.announced = False

    def set_caps(self, caps: Gst.Caps, form: Any) -> None:
        """Take the caps of the frames that follow.

        Raises:
            ContractError, ConfigurationError: they cannot be batched, or not together with the other streams'.
        """
        self.raw_format, format = form.accept(caps, self.number)
        structure = required_structure(caps, 0)
        source_id = events.ask(self.pad, "nv-sourceid", "source-id")
        self.stream.set_format(
            format,
            source_id=self.number if source_id is None else source_id,
            size=(structure.get_int("width")[1], structure.get_int("height")[1]),
            pipeline_size=form.size or (0, 0),
            duration=queries.frame_duration(caps) or _DEFAULT_DURATION,
        )

    def stats(self) -> dict[str, int]:
        """Return the pad's counts by name."""
        counts = self.stream.counts()
        names = ("frames_in", "frames_out", "discarded", "late", "refused", "untimed", "replaced")
        return {name.replace("_", "-"): getattr(counts, name) for name in names}


def obey(entry: Input, event: Gst.Event) -> bool:
    """Do what `events.delivery`, `events.absent` or `events.capture` asks for; False for any other event."""
    structure = structure_of(event)
    name = structure.get_name() if structure is not None else ""
    if name == events.ABSENT:
        entry.stream.set_absent()
    elif name == events.DELIVERY:
        entry.stream.set_freshest(required_structure(event).get_boolean("freshest")[1])
    elif name == events.CAPTURE:
        entry.stream.set_capture(required_structure(event).get_string("source") or None)
    else:
        return False
    return True


def answer_caps(pad: Gst.Pad, query: Gst.Query) -> bool:
    """Answer what the pad takes.

    Asked with a filter, as converters and sources do when they choose: those of its formats that can be batched.
    Asked without, as linking does, or with nothing but formats that cannot be batched: every raw format. So an element
    that can make no other is linked, and refused in words when its caps arrive, not by a bare "not-negotiated".
    """
    template = pad.get_pad_template_caps()
    wanted = query.parse_caps()
    if wanted is None:
        query.set_caps_result(template)
        return True
    chosen = wanted.intersect_full(_batchable(template), Gst.CapsIntersectMode.FIRST)
    query.set_caps_result(wanted.intersect(template) if chosen.is_empty() else chosen)
    return True


@functools.cache
def _batchable(template: Gst.Caps) -> Gst.Caps:
    """Return what of a pad template's caps can be batched."""
    from sluice.contract.batching import raw_caps_template

    taken = raw_caps_template()
    for index in range(template.get_size()):
        if template.get_features(index).contains("memory:NVMM"):
            taken.append(template.copy_nth(index))
    return taken


def answer_allocation(query: Gst.Query, buffers: int) -> bool:
    """Say that frames may have strides and offsets of their own (GstVideoMeta), and how many will be held."""
    caps, _need_pool = query.parse_allocation()
    if caps is None or caps.get_features(0).contains("memory:NVMM"):
        return False
    info = GstVideo.VideoInfo.new_from_caps(caps)
    if info is None:
        return False
    query.add_allocation_pool(None, info.size, buffers, 0)
    query.add_allocation_meta(GstVideo.video_meta_api_get_type(), None)
    return True
