"""What ``sluiceindex`` does with a buffer's frames: hands the embeddings that are due to the archive."""

from collections.abc import Iterator, Mapping

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract import bulk, infer_meta
from sluice.contract.metadata import UNTRACKED, BatchMeta, FrameMeta, Lease, ObjectMeta
from sluice.elements.frame_facts import pts_of, time_of, utc_of
from sluice.errors import ContractError
from sluice.search import Entry, Recorder

_SECOND = 1_000_000_000
_MOST_TRACKS = 10_000  # remembered per stream
_FRAME, _UNTRACKED = "frame", "untracked"

Key = int | str


class Indexing:
    """One per start of the element."""

    def __init__(self, recorder: Recorder, every: float, component: int) -> None:
        """Record at most every so many seconds per track; only what one component made, or any for 0."""
        self._recorder = recorder
        self._every = round(every * _SECOND)
        self._component = component
        self._last: dict[int, dict[Key, int]] = {}
        self._entries = 0

    @property
    def refused(self) -> int:
        """Entries that the archive could not take."""
        return self._recorder.refused

    def counts(self) -> dict[str, int]:
        """Return the element's counters."""
        recorder = self._recorder
        told = {name: getattr(recorder, name) for name in ("written", "dropped", "refused", "expired")}
        return {"entries": self._entries, **told}

    def forget(self, stream: int | None) -> None:
        """Forget the tracks of a stream, or of all."""
        if stream is None:
            self._last.clear()
        else:
            self._last.pop(stream, None)

    def close(self) -> None:
        """Finish the archive."""
        self._recorder.close()

    def work(self, buffer: Gst.Buffer, names: Mapping[int, str]) -> None:
        """Take what is due from a buffer's frames.

        Raises:
            ContractError: the buffer carries no batch metadata.
            SluiceError: the archive cannot be written.
        """
        with Lease() as lease:
            batch = BatchMeta.of(buffer, lease)
            if batch is None:
                raise ContractError(
                    "the buffer carries no batch metadata; sluicemux or sluiceinfer must stand before sluiceindex"
                )
            for frame in batch.frames:
                for entry in self._due(frame, names.get(frame.source_id, str(frame.source_id))):
                    self._entries += 1
                    self._recorder.put(entry)

    def _due(self, frame: FrameMeta, name: str) -> Iterator[Entry]:
        last = self._last.setdefault(frame.source_id, {})
        now = time_of(frame)
        taken: set[Key] = set()
        if self._is_due(last, _FRAME, now):
            for found in self._made(frame):
                taken.add(_FRAME)
                yield _entry(frame, name, found)
        if frame.num_objects:
            yield from self._objects(frame, name, last, now, taken)
        for key in taken:
            last.pop(key, None)
            last[key] = now
        while len(last) > _MOST_TRACKS:
            del last[next(iter(last))]

    def _objects(self, frame: FrameMeta, name: str, last: dict[Key, int], now: int, taken: set[Key]) -> Iterator[Entry]:
        found = bulk.read_objects(frame)
        rows = found.rows
        for address, identity, box, label in zip(
            rows["address"].tolist(), rows["object_id"].tolist(), rows["box"].tolist(), found.labels, strict=True
        ):
            key: Key = _UNTRACKED if identity == UNTRACKED else identity
            if not self._is_due(last, key, now):
                continue
            for made in self._made(ObjectMeta(address, frame.lease, frame.provider)):
                taken.add(key)
                known = None if identity == UNTRACKED else identity
                yield _entry(frame, name, made, object_id=known, label=label, box=tuple(box))

    def _is_due(self, last: dict[Key, int], key: Key, now: int) -> bool:
        before = last.get(key)
        return before is None or not 0 <= now - before < self._every

    def _made(self, owner: FrameMeta | ObjectMeta) -> list[infer_meta.Embedding]:
        found = infer_meta.embeddings(owner)
        return [one for one in found if self._component in (0, one.component)][:1]


def _entry(frame: FrameMeta, name: str, found: infer_meta.Embedding, **more: object) -> Entry:
    return Entry(
        vector=found.features,
        stream=frame.source_id,
        name=name,
        frame=frame.frame_num,
        pts=pts_of(frame),
        utc=utc_of(frame),
        component=found.component,
        **more,  # type: ignore[arg-type]
    )
