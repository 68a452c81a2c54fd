"""What ``sluicevlm`` does with a buffer's frames: chooses pictures, asks about segments, and attaches the answers."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.contract.answer_meta import Answer, attach_answer
from sluice.contract.metadata import BatchMeta, FrameMeta, Lease
from sluice.elements.frame_facts import crossed_lines, pts_of, seen_objects, time_of, utc_of
from sluice.elements.infer_frames import BatchReader, surface_of
from sluice.elements.vlm_held import Held, Placed
from sluice.elements.vlm_pictures import copied
from sluice.vlm.config import Settings, StreamSettings
from sluice.vlm.failures import NoAnswer, Reason
from sluice.vlm.pictures import Encoder, Picture
from sluice.vlm.prompts import Prompt, Situation
from sluice.vlm.selection import NOTHING, Seen, Segment, StreamSelector
from sluice.vlm.service import Listener, Request, Service

KEPT_ANSWERS = 20
_MOST_READY = 64  # answers of one stream that wait for its next frame


@dataclass
class _Stream:
    """What is known of one stream, on the streaming thread."""

    number: int
    name: str
    settings: StreamSettings
    selector: StreamSelector[Picture]


@dataclass
class Counters:
    """What the element did since it was started, besides what `Service` counts."""

    frames: int = 0
    pictures: int = 0
    undelivered: int = 0
    suppressed: Counter[str] = field(default_factory=Counter)


class VlmFrames(Listener):
    """One per start of the element. `look` and `on_…` are called on the streaming thread, `attach` on the source task,
    `answered` and `lost` on the model's threads, the rest on any."""

    def __init__(
        self,
        settings: Settings,
        encoder: Encoder,
        *,
        model: str,
        holds: bool,
        tell: Callable[[Request, Answer | NoAnswer, str], None],
    ) -> None:
        """Choose by settings; `start` must be called before the first buffer.

        Args:
            settings: what each stream is asked, and when.
            encoder: makes the pictures' JPEGs.
            model: name of the model, for the answers.
            holds: whether buffers wait for their answers.
            tell: told of every outcome, with a traceback or "".
        """
        self.counters = Counters()
        self._settings = settings
        self._encoder = encoder
        self._model = model
        self._holds = holds
        self._tell = tell
        self._service: Service | None = None
        self._streams: dict[int, _Stream] = {}
        self._names: dict[int, str] = {}
        self._stream_ids: dict[int, str] = {}
        self._reader: BatchReader | None = None
        self._number = 0
        self._lock = threading.Lock()  # of what follows
        self._held: dict[Request, Held] = {}
        self._ready: dict[int, deque[Answer]] = {}
        self._recent: dict[str, deque[Answer]] = {}
        self._asks: deque[tuple[str, str | None]] = deque(maxlen=256)
        self._known: dict[str, int] = {}
        self._gone: set[int] = set()
        self._new_settings: Settings | None = None
        self._renamed = False

    def start(self, service: Service) -> None:
        """Have questions answered by a service whose listener this is."""
        self._service = service

    # From any thread

    def configure(self, settings: Settings) -> None:
        """Choose by other settings from the next buffer on; what was gathered for segments is lost."""
        with self._lock:
            self._new_settings = settings

    def set_names(self, names: Mapping[int, str]) -> None:
        """Name streams; what was gathered for one that gets another name is lost."""
        with self._lock:
            self._names = dict(names)
            self._renamed = True

    def ask(self, stream: str, prompt: str | None) -> bool:
        """Have a segment of a stream begin at its next frame.

        Args:
            stream: its name or number.
            prompt: in place of its own; placeholders are filled in.

        Returns:
            False where no such stream has come by yet.

        Raises:
            ConfigurationError: the prompt has an unknown placeholder.
        """
        if prompt is not None:
            Prompt(prompt)
        with self._lock:
            if stream not in self._known:
                return False
            self._asks.append((stream, prompt))
            return True

    def recent(self) -> dict[str, list[Answer]]:
        """Return the last answers by the streams' names, the newest last."""
        with self._lock:
            return {name: list(answers) for name, answers in self._recent.items()}

    def streams(self) -> list[str]:
        """Return the numbers of the streams that have come by, as texts."""
        with self._lock:
            return [key for key, number in self._known.items() if key == str(number)]

    def suppressed(self) -> int:
        """Return how many triggers began no segment."""
        streams = list(self._streams.values())
        return self.counters.suppressed.total() + sum(stream.selector.suppressed.total() for stream in streams)

    # On the streaming thread

    def set_caps(self, caps: Gst.Caps) -> None:
        """Take the caps of the buffers that follow."""
        self._reader = BatchReader(caps)

    def named(self, number: int, stream_id: str) -> None:
        """Take the id that a stream has of its own."""
        self._stream_ids[number] = stream_id
        if number in self._streams:
            self._forget(number)

    def end(self, number: int | None = None) -> None:
        """Abandon what was gathered of a stream that ends or jumps, or of all."""
        for stream in list(self._streams.values()):
            if number in (None, stream.number):
                self._abandon(stream)

    def remove(self, number: int) -> None:
        """Forget a stream that is gone; its answers have nowhere to go."""
        name = self._name_of(number)
        self._forget(number)
        with self._lock:
            self._gone.add(number)
            self._recent.pop(name, None)
            self.counters.undelivered += len(self._ready.pop(number, ()))

    def look(self, buffer: Gst.Buffer) -> Future[list[Placed]] | None:
        """Choose from a buffer's frames and ask about the segments that are complete.

        Returns:
            The answers that the buffer must wait for; None where it need not.
        """
        assert self._reader is not None
        self._take_settings()
        held = Held() if self._holds else None
        with Lease() as lease:
            metas = self._reader.metadata(buffer, self._number, lease)
            self._number += 1
            self.counters.frames += len(metas)
            wanted = [(place, meta) for place, meta in enumerate(metas) if self._wants(meta)]
            if not wanted:
                return None
            surfaces = self._reader.surfaces(buffer)
            try:
                for place, meta in wanted:
                    if not self._encoder.has_room(wait=self._holds):
                        continue  # the next frame is wanted in its place
                    picture = Picture(copied(surface_of(meta, surfaces)), pts_of(meta), utc_of(meta))
                    self._encoder.put(picture)
                    self.counters.pictures += 1
                    self._take(meta, picture, held, place)
            finally:
                surfaces.close()
        return self._waited_for(held)

    def _waited_for(self, held: Held | None) -> Future[list[Placed]] | None:
        if held is None or not held.places:
            return None
        held.seal()
        requests = list(held.places)
        held.future.add_done_callback(lambda done: self._given_up(requests) if done.cancelled() else None)
        return held.future

    def _take_settings(self) -> None:
        with self._lock:
            settings, self._new_settings = self._new_settings, None
            renamed, self._renamed = self._renamed, False
        self._settings = settings or self._settings
        for stream in list(self._streams.values()) if settings is not None or renamed else ():
            if settings is not None or stream.name != self._name_of(stream.number):
                self._forget(stream.number)

    def _forget(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            self._abandon(stream)
            self.counters.suppressed += stream.selector.suppressed
            with self._lock:
                self._known = {key: at for key, at in self._known.items() if at != number}

    def _stream(self, number: int) -> _Stream:
        stream = self._streams.get(number)
        if stream is None:
            name = self._name_of(number)
            with self._lock:
                self._known |= {str(number): number, name: number}
                self._gone.discard(number)
            settings = self._settings.of(number, name)
            stream = self._streams[number] = _Stream(number, name, settings, StreamSelector(settings.selection))
        return stream

    def _name_of(self, number: int) -> str:
        with self._lock:
            return self._names.get(number) or self._stream_ids.get(number) or str(number)

    def _abandon(self, stream: _Stream) -> None:
        for segment in stream.selector.abandon():
            request = self._request(stream, segment, stream.settings.prompt.text)
            self._drop(request, Reason.INCOMPLETE, f"its stream ended or jumped at {len(segment.pictures)} pictures")

    def _drop(self, request: Request, reason: Reason, text: str) -> None:
        if self._service is not None:
            self._service.drop(request, reason, text)

    def _wants(self, meta: FrameMeta) -> bool:
        stream = self._stream(meta.source_id)
        self._take_asks(stream)
        now = time_of(meta)
        if stream.selector.goes_back(now):
            self._abandon(stream)
        selection = stream.settings.selection
        seen = NOTHING
        if selection.triggers:
            objects = seen_objects(meta) if selection.watches_objects and meta.num_objects else ()
            seen = Seen(objects, crossed_lines(meta) if selection.watches_lines else ())
        return stream.selector.wants(now, seen)

    def _take_asks(self, stream: _Stream) -> None:
        if not self._asks:
            return
        with self._lock:
            mine = [ask for ask in self._asks if self._known.get(ask[0]) == stream.number]
            for ask in mine:
                self._asks.remove(ask)
        for _, prompt in mine:
            if not stream.selector.ask(prompt):
                self.counters.suppressed["ask"] += 1

    def _take(self, meta: FrameMeta, picture: Picture, held: Held | None, place: int) -> None:
        stream = self._stream(meta.source_id)
        for segment in stream.selector.take(picture):
            labels = [label for label, _ in seen_objects(meta)] if meta.num_objects else []
            prompt = stream.settings.prompt if segment.prompt is None else Prompt(segment.prompt)
            request = self._request(stream, segment, prompt.fill(_situation(stream, segment, labels)))
            if held is not None:
                held.add(request, place)
                with self._lock:
                    self._held[request] = held
            assert self._service is not None
            self._service.put(request)

    def _request(self, stream: _Stream, segment: Segment[Picture], prompt: str) -> Request:
        return Request(
            stream=stream.number,
            name=stream.name,
            segment=segment.number,
            cause=segment.cause,
            prompt=prompt,
            check=stream.settings.check,
            pictures=segment.pictures,
            model=self._model,
        )

    # On the source task

    def attach(self, buffer: Gst.Buffer, placed: Sequence[Placed] | None) -> None:
        """Put answers on a buffer's frames: those it waited for, or those that have arrived for its streams."""
        if not placed and not self._ready:
            return
        with Lease() as lease:
            batch = BatchMeta.of(buffer, lease)
            frames = batch.frames if batch is not None else []
            for place, answer in placed or ():
                attach_answer(frames[place], answer)
            for frame in frames:
                with self._lock:
                    ready = self._ready.pop(frame.source_id, ())
                for answer in ready:
                    attach_answer(frame, answer)

    # On the model's threads

    def answered(self, request: Request, answer: Answer) -> None:
        """Give an answer to the buffer that waits for it, or keep it for its stream's next frame."""
        with self._lock:
            if request.stream not in self._gone:
                self._recent.setdefault(request.name, deque(maxlen=KEPT_ANSWERS)).append(answer)
            held = self._held.pop(request, None)
            if held is None:
                self._keep_for_next_frame(answer)
        if held is not None:
            held.settle(request, answer)
        self._tell(request, answer, "")

    def _keep_for_next_frame(self, answer: Answer) -> None:
        if answer.stream in self._gone:
            self.counters.undelivered += 1
            return
        ready = self._ready.setdefault(answer.stream, deque())
        ready.append(answer)
        if len(ready) > _MOST_READY:
            ready.popleft()
            self.counters.undelivered += 1

    def lost(self, request: Request, why: NoAnswer, trace: str) -> None:
        """Let the buffer that waits for an answer go without it."""
        with self._lock:
            held = self._held.pop(request, None)
        if held is not None:
            held.settle(request, None)
        self._tell(request, why, trace)

    def _given_up(self, requests: Sequence[Request]) -> None:
        """A flush or a stop took the buffer that waited for these."""
        if self._service is not None:
            self._service.withdraw(requests, Reason.FLUSHED)


def _situation(stream: _Stream, segment: Segment[Picture], labels: Sequence[str]) -> Situation:
    first, last = segment.pictures[0], segment.pictures[-1]
    known = first.pts is not None and last.pts is not None
    return Situation(
        stream=stream.number,
        name=stream.name,
        pts=last.pts,
        utc=last.utc,
        duration=(last.pts or 0) - (first.pts or 0) if known else 0,
        frames=len(segment.pictures),
        labels=labels,
        cause=segment.cause,
    )
