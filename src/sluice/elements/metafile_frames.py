"""What ``sluicemetafile`` does with a buffer's frames."""

import zlib
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.metadata import FrameMeta, Lease
from sluice.elements.infer_frames import BatchReader
from sluice.elements.surface_sizes import SurfaceSizes
from sluice.errors import ContractError
from sluice.recording import Recording, RecordingWriter, apply_frame, read_frame

# What reading a changed file comes to: no JSON, another kind of value, a member that is missing, a number too large.
_DAMAGE = (
    ContractError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    zlib.error,
)


@dataclass
class Counters:
    """What the element did since it was started; see the property ``stats``."""

    frames: int = 0
    dropped: int = 0
    left_out: int = 0
    mismatched: int = 0


class MetaFile:
    """Records and replays; one per start of the element."""

    def __init__(
        self,
        writer: RecordingWriter | None,
        recording: Recording | None,
        counters: Counters,
        *,
        skips: bool,
        warn: Callable[[str], None],
    ) -> None:
        """Work on what the element's properties name; `warn` is told what is left out, once of each kind."""
        self._writer = writer
        self._recording = recording
        self._counters = counters
        self._skips = skips
        self._warn = warn
        self._left_out: Tally[int] = Tally()
        self._sizes: SurfaceSizes | None = None
        self._reader: BatchReader | None = None
        self._number = 0

    def set_caps(self, caps: Gst.Caps) -> None:
        """Take the caps of the buffers that follow."""
        self._sizes, self._reader = SurfaceSizes(caps), BatchReader(caps)

    def work(self, buffer: Gst.Buffer) -> None:
        """Replay onto the frames of a buffer, then record them. A raw frame without metadata becomes a batch of one.

        Raises:
            ContractError: a batch carries no metadata, or a frame is not the one that was recorded.
        """
        with Lease() as lease:
            for frame, size in self._frames(buffer, lease):
                self._counters.frames += 1
                if self._recording is not None:
                    self._replay(self._recording, frame, size)
                if self._writer is not None:
                    self._record(self._writer, frame, size)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()

    def _frames(self, buffer: Gst.Buffer, lease: Lease) -> Iterator[tuple[FrameMeta, tuple[int, int]]]:
        if self._sizes is None or self._reader is None:
            raise ContractError("a buffer came before its caps")
        frames = self._reader.metadata(buffer, self._number, lease)
        self._number += 1
        return zip(frames, self._sizes.of(buffer, [frame.batch_id for frame in frames]), strict=True)

    def _replay(self, recording: Recording, frame: FrameMeta, size: tuple[int, int]) -> None:
        try:
            found = recording.find(frame.pad_index, frame.frame_num)
            wrong = recording.mismatch(found, frame.buf_pts, size)
            if wrong is None and found is not None:
                apply_frame(frame, found)
        except _DAMAGE as error:
            text = f"the recording is damaged, this frame of it cannot be written ({type(error).__name__}: {error})"
            raise _placed(ContractError(text), frame) from error
        if wrong is not None:
            self._counters.mismatched += 1
            if not self._skips:
                raise _placed(ContractError(wrong), frame)

    def _record(self, writer: RecordingWriter, frame: FrameMeta, size: tuple[int, int]) -> None:
        left_out: Tally[int] = Tally()
        writer.put(read_frame(frame, size, left_out))
        self._counters.dropped = writer.dropped
        self._counters.left_out += left_out.total()
        for meta_type in left_out.keys() - self._left_out.keys():
            self._warn(f"user metadata of type {meta_type} are left out: only their maker can read them")
        self._left_out.update(left_out)


def _placed(error: ContractError, frame: FrameMeta) -> ContractError:
    """Say of an error which frame it is about, for the element's message."""
    error.stream, error.frame = frame.pad_index, frame.frame_num  # type: ignore[attr-defined]
    return error
