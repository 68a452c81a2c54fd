"""``sluicevlm``: asks a vision-language model, or another slow thinker, about segments of each stream.

Frames pass by without waiting; the pictures of a segment are copied when they are selected, and the model is asked on
threads of its own behind a bounded queue. An answer returns as user metadata (`sluice.contract.answer_meta`) on the
frame of its stream that passes when it arrives, or, with ``policy=wait``, on the last frame of its segment.

Every segment that was begun ends as an answer or as one of the reasons in ``stats``, and in an element message
``sluice-vlm``: ``event`` (answered, dropped or failed), ``stream``, ``name``, ``segment``, ``cause``, ``reason``,
``text``, and of an answer ``answer`` (JSON).

Imports gi and the standard library only; the rest is imported at NULL→READY.
"""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

from sluice.elements import events
from sluice.elements.base import InFlightElement, Pending, guarded
from sluice.elements.frame_caps import pad_template
from sluice.elements.guard import post_warning, printable
from sluice.elements.vlm_properties import DEFAULTS, GPROPERTIES, SELECTION
from sluice.errors import SluiceError

if TYPE_CHECKING:
    from sluice.contract.answer_meta import Answer
    from sluice.elements.vlm_frames import VlmFrames
    from sluice.elements.vlm_held import Placed
    from sluice.vlm.backends import Backend
    from sluice.vlm.failures import NoAnswer
    from sluice.vlm.pictures import Encoder
    from sluice.vlm.service import Request, Service

ASK = "sluice-vlm-ask"
"""Structure of the custom event, from upstream or downstream, that begins a segment; fields `stream` (name or number as
text; all streams without it) and `prompt`."""

MESSAGE = "sluice-vlm"


class SluiceVlm(InFlightElement):
    """The element; see ``gst-inspect-1.0 sluicevlm`` for its properties.

    A stream's number is its frames' ``source_id``. Its place is behind the tracker, so that prompts and triggers know
    of objects; on a single unbatched stream it works alone.
    """

    __gtype_name__ = "SluiceVlm"
    __gstmetadata__ = (
        "Sluice vision-language models",
        "Filter/Analyzer/Video",
        "Asks a slow model about segments of each stream and attaches its answers, without stopping the stream",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        pad_template("sink", Gst.PadDirection.SINK),
        pad_template("src", Gst.PadDirection.SRC),
    )
    __gproperties__ = GPROPERTIES
    __gsignals__: ClassVar[dict[str, Any]] = {
        "ask": (GObject.SignalFlags.RUN_LAST | GObject.SignalFlags.ACTION, bool, (str, str)),
        "answered": (GObject.SignalFlags.RUN_LAST, None, (int, str)),
    }

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, Any] = dict(DEFAULTS)
        self._work: VlmFrames | None = None
        self._service: Service | None = None
        self._encoder: Encoder | None = None
        self._backend: Backend | None = None
        self._holds = False
        self._running = False
        self._warned: set[str] = set()

    # Properties and signals

    @guarded(failure=None)
    def do_get_property(self, spec: GObject.ParamSpec) -> Any:
        if spec.name == "stats":
            return self._stats()
        return self._answers() if spec.name == "answers" else self._values[spec.name]

    @guarded(failure=None)
    def do_set_property(self, spec: GObject.ParamSpec, value: Any) -> None:
        """Set a property; while running, a wrong value is warned of and not taken."""
        before, self._values[spec.name] = self._values[spec.name], value
        if not self._running:
            return
        try:
            self._changed(spec.name)
        except SluiceError as error:
            self._values[spec.name] = before
            self._warn(f"{spec.name} was not changed: {error}")

    def _changed(self, name: str) -> None:
        from sluice.elements.stream_names import read_names
        from sluice.elements.vlm_setup import settings_of

        assert self._work is not None
        if name in SELECTION or name == "config-file":
            self._work.configure(settings_of(self._values))
        elif name == "names":
            self._work.set_names(read_names(self._values["names"]))
        elif name != "enable":
            self._warn(f"{name} was set while the element runs; it takes effect after the next change to NULL")

    @guarded(failure=False)
    def do_ask(self, stream: str, prompt: str | None) -> bool:
        """Have a segment of a stream (by name or number) begin at its next frame; False where it is not known."""
        try:
            return self._work is not None and self._work.ask(stream, prompt or None)
        except SluiceError as error:
            self._warn(f"a segment of stream {stream} was asked for in vain: {error}")
            return False

    def _stats(self) -> Gst.Structure:
        from sluice.vlm.failures import Reason

        numbers = dict.fromkeys(("frames", "pictures", "asked", "answered", "pending", "waiting", "undelivered"), 0)
        numbers |= {"suppressed": 0, **{reason.value: 0 for reason in Reason}}
        work, service = self._work, self._service
        if work is not None and service is not None:
            counters = work.counters
            numbers |= {"frames": counters.frames, "pictures": counters.pictures, "undelivered": counters.undelivered}
            numbers |= {"suppressed": work.suppressed(), **service.snapshot()}
            numbers |= {"pending": service.pending, "waiting": service.waiting}
            troubles = getattr(self._backend, "troubles", {})
            numbers |= {f"failed-{reason}": count for reason, count in dict(troubles).items()}
        return events.numbers_structure("sluicevlm-stats", numbers)

    def _answers(self) -> str:
        recent = {} if self._work is None else self._work.recent()
        return json.dumps({name: [asdict(answer) for answer in answers] for name, answers in recent.items()})

    # Start and stop

    def start(self) -> None:
        """Open the back end and start the threads; raises SluiceError for properties that cannot be used."""
        from sluice.contract import provider
        from sluice.elements.stream_names import read_names
        from sluice.elements.vlm_frames import VlmFrames
        from sluice.elements.vlm_setup import backend_of, policy_of, settings_of
        from sluice.vlm.pictures import Encoder, Encoding
        from sluice.vlm.queue import StreamQueue
        from sluice.vlm.service import Service

        values = self._values
        self._work = self._service = self._encoder = self._backend = None
        provider.provider()
        policy, settings = policy_of(values), settings_of(values)
        names = read_names(values["names"])
        self._holds = policy == "wait"
        self._warned = set()
        self._backend = backend_of(values, settings)
        self._backend.open()
        self._encoder = Encoder(Encoding(values["image-size"], values["jpeg-quality"]))
        work = VlmFrames(settings, self._encoder, model=self._backend.name, holds=self._holds, tell=self._tell)
        work.set_names(names)
        self._service = Service(self._backend, StreamQueue(policy, values["max-queued"]), work, values["concurrency"])
        work.start(self._service)
        self._work = work
        self._running = True

    def stop(self) -> None:
        """End all requests within two seconds; what does not end is abandoned, with a warning."""
        if not self._running:
            if self._backend is not None:
                self._backend.close()  # of a start that failed
            return
        self._running = False
        assert self._encoder is not None
        assert self._service is not None
        self._encoder.close()
        if not self._service.close():
            self._warn(
                "the model's own code did not return when the element stopped; it is abandoned, and its thread ends "
                "with it"
            )

    # The stream

    def in_flight(self) -> int:
        return int(self._values["max-held"]) if self._holds else 1

    def latency(self) -> int:
        return super().latency() if self._holds else 0

    def on_caps(self, caps: Gst.Caps) -> Gst.Caps:
        if self._work is not None:
            self._work.set_caps(caps)
        return caps

    def on_event(self, event: Gst.Event) -> Gst.Event | None:
        work = self._work
        if work is None:
            return event
        kind = events.event_type(event)
        if kind == Gst.EventType.EOS:
            work.end()
        elif kind == Gst.EventType.CUSTOM_DOWNSTREAM and self._is_ask(event):
            return None
        elif (said := events.parse_stream_event(event)) is not None:
            if said.kind == events.PAD_DELETED:
                work.remove(said.source_id)
            elif said.kind in (events.STREAM_EOS, events.STREAM_RESET):
                work.end(said.source_id)
            elif said.kind == events.STREAM_START and said.stream_id:
                work.named(said.source_id, said.stream_id)
        return event

    def on_src_event(self, event: Gst.Event) -> bool:
        if events.event_type(event) == Gst.EventType.CUSTOM_UPSTREAM and self._is_ask(event):
            return True
        return super().on_src_event(event)

    def _is_ask(self, event: Gst.Event) -> bool:
        """Take a request for a segment; False for any other event."""
        from sluice.contract.structures import structure_of

        structure = structure_of(event)
        if structure is None or structure.get_name() != ASK:
            return False
        stream, prompt = structure.get_string("stream"), structure.get_string("prompt")
        for name in [stream] if stream is not None else self._work.streams() if self._work is not None else []:
            self.do_ask(name, prompt)
        return True

    def on_flush(self) -> None:
        if self._work is not None:
            self._work.end()

    def submit(self, buffer: Gst.Buffer, _caps: Gst.Caps) -> "Pending[list[Placed]] | None":
        work = self._work
        assert work is not None
        return work.look(buffer) if self._values["enable"] else None

    def finish(self, buffer: Gst.Buffer, result: "list[Placed] | None") -> bool:
        if self._work is not None:
            self._work.attach(buffer, result)
        return True

    # What is told

    def _tell(self, request: "Request", outcome: "Answer | NoAnswer", trace: str) -> None:
        """Post the outcome of a segment; called on any thread."""
        structure = Gst.Structure.new_empty(MESSAGE)
        for name, number in (("stream", request.stream), ("segment", request.segment)):
            structure.set_value(name, GObject.Value(GObject.TYPE_UINT64, number))
        texts = {"name": request.name, "cause": request.cause}
        if isinstance(outcome, SluiceError):
            texts |= {
                "event": "dropped" if outcome.reason.dropped else "failed",
                "reason": outcome.reason.value,
                "text": str(outcome),
            }
        else:
            texts |= {"event": "answered", "text": outcome.text, "answer": json.dumps(asdict(outcome))}
        for name, text in texts.items():
            structure.set_value(name, printable(text))
        self.post_message(Gst.Message.new_element(self, structure))
        if not isinstance(outcome, SluiceError):
            self.emit("answered", request.stream, texts["answer"])
        elif not outcome.reason.dropped and outcome.reason.value not in self._warned:
            self._warned.add(outcome.reason.value)
            self._warn(
                f"stream {request.name}: segment {request.segment} has no answer ({outcome.reason.value}): {outcome}; "
                "more of these are only counted, see stats",
                trace,
                told_as="sluice-vlm",
            )

    def _warn(self, text: str, trace: str = "", told_as: str = "") -> None:
        post_warning(self, text, trace, told_as=told_as)
