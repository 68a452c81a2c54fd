"""The elements of a whole run and how they are linked; starting and ending them is the job's affair.

sources → sluicemux → sluiceinfer → sluicetracker → (sluicemsgconv → sluicemsgbroker) → one of

* sluicedemux → per stream: drawing, encoding, one file
* sluicetiler → drawing, encoding, one file
* nothing
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app import handover
from sluice.app.collector import Collector
from sluice.app.frame_queue import FrameQueue, Gate
from sluice.app.gst import add_chain, describe, link_pads, make_element
from sluice.app.options import MOST_STREAMS_PER_BATCH, Options
from sluice.app.outputs import Mp4Branch, check_distinct, output_paths
from sluice.app.source_bin import SourceBin
from sluice.app.sources import Source
from sluice.errors import ConfigurationError

# A frame of a stream whose neighbours are slow waits so long for company, in microseconds: one frame at 25 fps.
_BATCH_TIMEOUT_US = 40_000


class Graph:
    """All elements of one run.

    Attributes:
        pipeline: the ``Gst.Pipeline``; the source bins are not in it before `add_source`.
        sources: one `SourceBin` per stream.
        branches: one `Mp4Branch` per stream; with tiling one for all; without output none.
        collector: what was seen behind the tracker, per stream.
        queue: frames for a program that iterates; None when nobody does.
        ends: what the streams end in, each of which posts EOS once all is written: the branches' bins in their order,
            or one sink for nothing, and the message broker if there is one.
    """

    def __init__(self, sources: list[Source], options: Options, iterated: bool) -> None:
        """Build and link everything.

        Raises:
            ConfigurationError: an element is missing or a value cannot be used.
        """
        check_distinct(sources, options)
        self.options = options
        self.pipeline = Gst.Pipeline.new()
        self.pipeline.set_property("message-forward", True)  # each end's own EOS is then seen on the bus
        self._object_name: str | None = None
        self._splitter: Gst.Element | None = None
        limit = options.frames or 0
        self.sources = [SourceBin(source, index, limit) for index, source in enumerate(sources)]
        batch_size = options.batch_size or min(len(sources), MOST_STREAMS_PER_BATCH)
        self.mux = make_element("sluicemux", batch_size=batch_size, batched_push_timeout=_BATCH_TIMEOUT_US)
        self.infer = self._make_infer()
        chain = [self.mux, self.infer]
        self.tracker: Gst.Element | None = None
        if options.tracker is not None:
            self.tracker = make_element(
                "sluicetracker", algorithm=options.tracker, keep_unconfirmed=options.keep_unconfirmed
            )
            chain.append(self.tracker)
        observed = chain[-1]
        self.ends: list[Gst.Element] = []
        if options.messages is not None:
            chain += [make_element("sluicemsgconv"), make_element("sluicemsgbroker", location=str(options.messages))]
        add_chain(self.pipeline, *chain)
        self._mux_pads = [self._request_mux_pad(index) for index in range(len(sources))]
        gates = [Gate(source.pad) for source in self.sources]
        self.queue = FrameQueue([source.live for source in sources], gates) if iterated else None
        self.collector = Collector([source.shown for source in sources], self.queue)
        self.collector.watch(observed)
        self.branches: list[Mp4Branch] = []
        self._finish(chain[-1], sources)
        if options.messages is not None:
            self.ends.append(chain[-1])

    @property
    def tiled(self) -> bool:
        """Whether all streams end in one picture."""
        return self.options.tile or (len(self.sources) > 1 and len(self.branches) == 1)

    def add_source(self, index: int) -> bool:
        """Put a source into the running pipeline and start it; return whether it could be started."""
        source = self.sources[index]
        self.pipeline.add(source.bin)
        link_pads(source.bin.get_static_pad("src"), self._mux_pads[index])
        if source.bin.sync_state_with_parent():
            return True
        # Left to itself it would be asked to start again by every later change of state, and fail that too.
        source.bin.set_locked_state(True)
        source.bin.set_state(Gst.State.NULL)
        return False

    def end_branches(self) -> None:
        """Finish the files with what has arrived there, and give up the frames still on their way; may wait."""
        for branch in self.branches:
            branch.end()

    def frames_out(self, index: int) -> int:
        """Frames of a stream that left the last element which keeps streams apart."""
        if self.branches and not self.tiled:
            return self.branches[index].frames_out
        return self.collector.counts[index].frames

    def stream_of(self, message: Gst.Message) -> tuple[str, int] | None:
        """Return ("source", stream) or ("branch", branch) where a message comes from one of those bins, else None."""
        bins = {source.bin: ("source", index) for index, source in enumerate(self.sources)}
        bins |= {branch.bin: ("branch", index) for index, branch in enumerate(self.branches)}
        element = message.src
        if element == self._splitter and not self.tiled and (stream := _stream_named(message)) is not None:
            return "branch", stream  # what it says of one of its pads
        while element is not None:
            if element in bins:
                return bins[element]
            element = element.get_parent()
        # An element that was removed since: the debug text still has its path.
        names = {f"/GstBin:{bin.get_name()}/": place for bin, place in bins.items()}
        return next((place for name, place in names.items() if name in describe(message)[1]), None)

    def inferred_with_errors(self) -> int:
        """Frames that the model failed on and that were passed on without detections."""
        return _count_of(self.infer, "errors")

    def unconfirmed(self) -> int:
        """Objects that the tracker removed, since they belonged to no confirmed track."""
        return 0 if self.tracker is None else _count_of(self.tracker, "removed")

    def close(self) -> None:
        """Stop everything and let go of what would keep it alive."""
        self.pipeline.set_state(Gst.State.NULL)
        for source in self.sources:
            source.bin.set_state(Gst.State.NULL)  # one that never got into the pipeline
            source.close()
        if self._object_name is not None:
            handover.forget(self._object_name)

    def _make_infer(self) -> Gst.Element:
        model = self.options.model
        if model is None or isinstance(model, str | Path):
            name = str(model or "none")
        else:
            name = self._object_name = handover.name_of(model)
        infer = make_element("sluiceinfer")
        for prop, value in self.options.infer_properties(name).items():
            infer.set_property(prop, value)
        return infer

    def _request_mux_pad(self, index: int) -> Gst.Pad:
        pad = self.mux.request_pad_simple(f"sink_{index}")
        if pad is None:
            raise ConfigurationError(f"sluicemux has no pad sink_{index}")
        return pad

    def _finish(self, last: Gst.Element, sources: list[Source]) -> None:
        """Build what stands behind the last common element."""
        options = self.options
        if options.out is None:
            sink = make_element("fakesink", sync=False)
            sink.set_property("async", False)
            self.ends.append(sink)
            self.pipeline.add(sink)
            last.link(sink)
            return
        paths = output_paths(options.out, sources, options.tile)
        splitter = make_element("sluicedemux" if len(paths) == len(sources) and not options.tile else "sluicetiler")
        self._splitter = splitter
        self.pipeline.add(splitter)
        last.link(splitter)
        for index, path in enumerate(paths):
            branch = Mp4Branch(f"out_{index}", path)
            self.branches.append(branch)
            self.ends.append(branch.bin)
            self.pipeline.add(branch.bin)
            pad = _splitter_pad(splitter, index)
            link_pads(pad, branch.bin.get_static_pad("sink"))


def _stream_named(message: Gst.Message) -> int | None:
    """Return the stream that the details of an error message name."""
    details = message.parse_error_details() if message.type == Gst.MessageType.ERROR else None
    found, stream = details.get_int("stream") if details is not None else (False, 0)
    return stream if found else None


def _splitter_pad(splitter: Gst.Element, index: int) -> Any:
    return splitter.get_static_pad("src") or splitter.request_pad_simple(f"src_{index}")


def _count_of(element: Gst.Element, name: str) -> int:
    """One of an element's counters."""
    found, value = element.get_property("stats").get_uint64(name)
    return value if found else 0
