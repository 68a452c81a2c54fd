"""What streams end in, behind the last element that all share: a branch each, one for all together, or nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app.gst import link_pads, make_element
from sluice.app.options import Options
from sluice.app.outputs import Mp4Branch, output_paths
from sluice.app.sources import Source
from sluice.app.streams.branch import Branch, BranchFactory
from sluice.app.streams.stream import Stream
from sluice.errors import SluiceError

_log = logging.getLogger(__name__)
_WHOLE = -1  # the number of the branch of the tiled picture


class Endings:
    """What stands behind the last common element of a run.

    Attributes:
        tiled: whether all streams end in one picture.
        branches: what the streams end in, by their numbers; of the tiled picture by -1; empty without output.
        elements: what posts EOS once all is written: the branches' bins, or one sink for nothing, and whatever else
            the graph adds.
    """

    def __init__(
        self,
        pipeline: Gst.Pipeline,
        last: Gst.Element,
        options: Options,
        sources: Sequence[Source],
        make_branch: BranchFactory | None,
    ) -> None:
        """Build and link what all streams share.

        Args:
            pipeline: where it is added.
            last: the last common element.
            options: of the run.
            sources: those known now, by which files are named.
            make_branch: makes branches in place of files.

        Raises:
            ConfigurationError: an element is missing, or a file cannot be written.
        """
        self.tiled = False
        self.branches: dict[int, Branch] = {}
        self.elements: list[Gst.Element] = []
        self._pipeline = pipeline
        self._make_branch = make_branch
        self._changing = threading.Lock()  # of `branches` and `elements`
        self._splitter: Gst.Element | None = None
        self._folder = Path()
        self._only: Path | None = None
        self._whole: Path | None = None
        if options.out is None and make_branch is None:
            self._throw_away(last)
            return
        if options.out is not None:
            self._choose_paths(Path(options.out).expanduser(), sources, options)
        watch_batches = getattr(make_branch, "watch_batches", None)
        if watch_batches is not None:  # outputs that may show all streams in one picture
            watch_batches(last.get_static_pad("src"))
        self.tiled = options.tile or self._whole is not None
        self._splitter = make_element("sluicetiler" if self.tiled else "sluicedemux")
        pipeline.add(self._splitter)
        last.link(self._splitter)
        if self.tiled:
            self._add(_WHOLE, None, "tiled")

    @property
    def demuxer(self) -> Gst.Element | None:
        """What gives each stream a branch of its own; None where none has."""
        return None if self.tiled else self._splitter

    @property
    def whole(self) -> Branch | None:
        """The branch of the tiled picture."""
        return self.branches.get(_WHOLE)

    def join(self, stream: Stream) -> None:
        """Give a stream its branch, where streams have their own.

        Raises:
            ConfigurationError: it cannot be made.
        """
        if self.demuxer is None:
            return
        stream.branch, stream.branch_pad = self._add(stream.number, stream.source, stream.name)
        stream.summary.output = None if stream.branch.path is None else str(stream.branch.path)

    def leave(self, stream: Stream) -> None:
        """Finish and take away a stream's branch; its frames have left, or are given up."""
        branch, pad = stream.branch, stream.branch_pad
        if branch is None:
            return
        with self._changing:
            self.branches.pop(stream.number, None)
            if branch.bin in self.elements:
                self.elements.remove(branch.bin)
        branch.end()
        if pad is not None and self._splitter is not None:
            pad.unlink(branch.bin.get_static_pad("sink"))
            self._splitter.release_request_pad(pad)
        branch.bin.set_locked_state(True)
        branch.bin.set_state(Gst.State.NULL)
        self._pipeline.remove(branch.bin)
        branch.close()
        stream.branch_pad = None

    def end(self) -> None:
        """Finish the files with what has arrived there, and give up the frames still on their way; may wait."""
        for branch in list(self.branches.values()):
            branch.end()

    def close(self) -> None:
        """Let go of what the branches hold; everything has stopped."""
        for branch in list(self.branches.values()):  # streams may be coming and leaving still, on threads of their own
            try:
                branch.close()
            except SluiceError as error:  # of one whose outputs were closed before it was there
                _log.warning("the outputs of a stream could not be closed: %s", error)

    def _throw_away(self, last: Gst.Element) -> None:
        sink = make_element("fakesink", sync=False, enable_last_sample=False)
        sink.set_property("async", False)
        self.elements.append(sink)
        self._pipeline.add(sink)
        last.link(sink)

    def _choose_paths(self, out: Path, sources: Sequence[Source], options: Options) -> None:
        """Choose where the videos are written: one file for all, one for the only stream, or one each in a folder."""
        paths = output_paths(out, sources, options.tile)
        is_file = out.suffix.lower() == ".mp4" and not out.is_dir()
        alone = len(sources) == 1 and not options.service
        if options.tile or (is_file and not alone):
            self._whole = paths[0]
        elif is_file:
            self._only = paths[0]
        else:
            self._folder = out

    def _add(self, number: int, source: Source | None, name: str) -> tuple[Branch, Any]:
        """Make a branch and let the frames of its stream flow into it; return it and the pad that they come from."""
        if self._make_branch is not None:
            branch = self._make_branch(number, source, name)
        elif number == _WHOLE:
            assert self._whole is not None
            branch = Mp4Branch("out_tiled", self._whole)
        else:
            branch = Mp4Branch(f"out_{number}", self._only or self._folder / f"{name}.mp4")
        with self._changing:
            self.branches[number] = branch
            self.elements.append(branch.bin)
        self._pipeline.add(branch.bin)
        branch.bin.sync_state_with_parent()
        splitter = self._splitter
        assert splitter is not None
        pad = splitter.get_static_pad("src") or splitter.request_pad_simple(f"src_{number}")
        link_pads(pad, branch.bin.get_static_pad("sink"))
        return branch, pad
