"""``sluicemsgbroker``: takes the messages that a converter attached to frames to a file or the standard output.

The buffer goes on untouched. With nothing linked to its source pad the element is a sink, as nvmsgbroker is; linked, it
sits in the middle of a pipeline and needs neither a tee nor a queue. Messages leave on a thread of their own behind a
bounded queue, so that the disk never holds up the video.

The element counts as a sink in both cases, and posts its own EOS message once every message is written: the pipeline's
EOS therefore also means that all messages are where they belong.

Imports gi and the standard library only; the contract is imported at NULL→READY.
"""

import ctypes
import threading
import weakref
from typing import TYPE_CHECKING, Any

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstBase", "1.0")
from gi.repository import GLib, GObject, Gst, GstBase

from sluice.elements.base import InPlaceElement, guarded, post_error
from sluice.errors import ConfigurationError, SluiceError

if TYPE_CHECKING:
    from sluice.messages import Writer

ON_ERROR = ("fail", "skip")
OVERFLOW = ("auto", "wait", "drop-oldest")

# A stop waits this long (seconds) for messages still queued; less than the two seconds a stop may take.
_PATIENCE = 1.5

# nvmsgbroker's properties that name a broker.
_OF_BROKERS = ("proto-lib", "conn-str", "config", "topic")


def _refused(name: str) -> Any:
    return GObject.Property(
        type=str, default="", nick=name, blurb="Refused: belongs to nvmsgbroker's network brokers; see proto"
    )


class SluiceMsgBroker(InPlaceElement):
    """The element; see ``gst-inspect-1.0 sluicemsgbroker`` for its properties."""

    __gtype_name__ = "SluiceMsgBroker"
    __gstmetadata__ = (
        "Sluice message broker",
        "Sink/Generic",
        "Writes the messages attached to frames to a file or the standard output, one per line",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        Gst.PadTemplate.new("sink", Gst.PadDirection.SINK, Gst.PadPresence.ALWAYS, Gst.Caps.new_any()),
        Gst.PadTemplate.new("src", Gst.PadDirection.SRC, Gst.PadPresence.ALWAYS, Gst.Caps.new_any()),
    )

    proto = GObject.Property(
        type=str,
        default="",
        blurb="Where messages go: stdout, or file with location; default: file when location names one, else stdout",
    )
    location = GObject.Property(type=str, default="", blurb="The file to write; '-' or nothing: the standard output")
    append = GObject.Property(type=bool, default=False, blurb="Add to the file instead of emptying it at the start")
    comp_id = GObject.Property(
        type=GObject.TYPE_UINT, default=0, nick="comp-id", blurb="Only messages with this component id; 0: all"
    )
    queue_size = GObject.Property(
        type=GObject.TYPE_UINT,
        default=4096,
        minimum=1,
        maximum=GLib.MAXINT32,
        nick="queue-size",
        blurb="The most messages that wait to be written",
    )
    overflow = GObject.Property(
        type=str,
        default="auto",
        blurb="When the queue is full: wait holds the stream up and loses nothing, drop-oldest drops and counts; "
        "auto: drop-oldest for a live source, wait for any other",
    )
    on_error = GObject.Property(
        type=str,
        default="fail",
        nick="on-error",
        blurb="When a message cannot be written or the file cannot be opened: fail posts an error, skip posts a "
        "warning and counts, and the video goes on",
    )
    sync = GObject.Property(
        type=bool, default=False, blurb="Only false: messages are written as they come, not at their frame's time"
    )
    proto_lib = _refused("proto-lib")
    conn_str = _refused("conn-str")
    config = _refused("config")
    topic = _refused("topic")

    def __init__(self) -> None:
        super().__init__()
        _make_sink(self)
        self._preroll = _Preroll(self)
        self._writer: Writer | None = None
        self._last_counters: dict[str, int] = {}
        self._unopened = 0
        self._live_known = False

    def _stats(self) -> Gst.Structure:
        """Return the counters as a structure of uint64 fields."""
        counted = vars(self._writer.counters) if self._writer is not None else self._last_counters
        structure = Gst.Structure.new_empty("sluicemsgbroker-stats")
        for name in ("queued", "written", "dropped", "failed"):
            lost = self._unopened if name in ("queued", "failed") else 0
            structure.set_value(name, GObject.Value(GObject.TYPE_UINT64, counted.get(name, 0) + lost))
        return structure

    stats = GObject.Property(
        getter=_stats,
        type=Gst.Structure,
        flags=GObject.ParamFlags.READABLE,
        blurb="Counters since the last start: queued, written, dropped (no room, or not written in time at the stop), "
        "failed (could not be written)",
    )

    # Start and stop

    def start(self) -> None:
        from sluice.messages import Overflow, Writer, open_sink

        self._check_properties()
        self._last_counters, self._unopened, self._live_known = {}, 0, self.overflow != "auto"
        try:
            sink = open_sink(self.proto or "", self.location or "", append=self.append)
        except ConfigurationError as error:
            if self.on_error == "fail":
                raise
            self._warn(f"{error}; messages are counted as failed")
            return
        overflow = Overflow.WAIT if self.overflow == "auto" else Overflow(self.overflow)
        self._writer = Writer(sink, capacity=self.queue_size, overflow=overflow, on_error=self._on_write_error)

    def _check_properties(self) -> None:
        for name in _OF_BROKERS:
            if self.get_property(name):
                raise ConfigurationError(
                    f"{name} is set, but this element writes to a file or the standard output only; "
                    "set location=messages.jsonl, or use nvmsgbroker where DeepStream is installed"
                )
        for name, values in (("on-error", ON_ERROR), ("overflow", OVERFLOW)):
            if self.get_property(name) not in values:
                raise ConfigurationError(f"{name} is {self.get_property(name)!r}; it can be {' or '.join(values)}")
        if self.sync:
            raise ConfigurationError(
                "sync can only be false; put `identity sync=true` before for messages in real time"
            )

    def stop(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        if not writer.close(_PATIENCE):
            self._warn(f"the messages could not be written within {_PATIENCE} s of the stop; see stats")
        self._last_counters = vars(writer.counters)

    @guarded(Gst.StateChangeReturn.FAILURE)
    def do_change_state(self, transition: Gst.StateChange) -> Gst.StateChangeReturn:
        writer = self._writer
        if transition == Gst.StateChange.READY_TO_PAUSED and writer is not None:
            writer.resume()
        if transition == Gst.StateChange.PAUSED_TO_READY and writer is not None:
            # A streaming thread that waits for room would block the change.
            writer.release()
        preroll = self._preroll
        if transition == Gst.StateChange.READY_TO_PAUSED and not self.srcpad.is_linked():
            preroll.begin()
            result = super().do_change_state(transition)
            return Gst.StateChangeReturn.ASYNC if result == Gst.StateChangeReturn.SUCCESS else result
        if transition == Gst.StateChange.PAUSED_TO_PLAYING:
            preroll.wait()
        if transition == Gst.StateChange.PAUSED_TO_READY:
            preroll.give_up()
        return super().do_change_state(transition)

    # The stream

    def on_event(self, event: Gst.Event) -> None:
        if event.type == Gst.EventType.STREAM_START:
            self._tell_stream_start(event)
        elif event.type == Gst.EventType.GAP:
            self._preroll.finish()
        elif event.type == Gst.EventType.EOS:
            self._preroll.finish()
            self._tell_eos(event.get_seqnum())
        elif self._writer is not None and event.type == Gst.EventType.FLUSH_START:
            self._writer.release()
        elif self._writer is not None and event.type == Gst.EventType.FLUSH_STOP:
            self._writer.resume()

    def process(self, buffer: Gst.Buffer) -> bool:
        from sluice.contract.metadata import BatchMeta, Lease
        from sluice.messages import read_payloads

        self._preroll.finish()
        with Lease() as lease:
            batch = BatchMeta.of(buffer, lease)
            payloads = [] if batch is None else read_payloads(batch, self.comp_id)
        if not self._live_known:
            self._choose_overflow()
        if self._writer is None:
            self._unopened += len(payloads)
        else:
            for payload in payloads:
                self._writer.put(payload)
        return bool(self.srcpad.is_linked())  # with nothing linked behind, the buffer's way ends here

    def _choose_overflow(self) -> None:
        """Drop the oldest message rather than wait when the source is live, which cannot wait."""
        from sluice.messages import Overflow

        self._live_known = True
        query = Gst.Query.new_latency()
        if self._writer is not None and self.sinkpad.peer_query(query) and query.parse_latency()[0]:
            self._writer.set_overflow(Overflow.DROP_OLDEST)

    # What a sink tells its pipeline

    @guarded(failure=False)
    def do_send_event(self, event: Gst.Event) -> bool:
        if event.type == Gst.EventType.SEEK and self.srcpad.is_linked():
            # The pipeline sends seeks to every sink; the one behind sends this one upstream already.
            return True
        return bool(GstBase.BaseTransform.do_send_event(self, event))

    def _tell_stream_start(self, event: Gst.Event) -> None:
        message = Gst.Message.new_stream_start(self)
        message.set_seqnum(event.get_seqnum())
        known, group = event.parse_group_id()
        if known:
            message.set_group_id(group)
        self.post_message(message)

    def _tell_eos(self, seqnum: int) -> None:
        """Post EOS once everything queued before is written; the writer's thread does so, nobody waits."""

        def post() -> None:
            message = Gst.Message.new_eos(self)
            message.set_seqnum(seqnum)
            self.post_message(message)

        if self._writer is None:
            post()
        else:
            self._writer.when_written(post)

    def _on_write_error(self, error: Exception) -> None:
        where = repr(self.location) if self.location not in (None, "", "-") else "the standard output"
        told = SluiceError(f"a message could not be written to {where}: {error}")
        if self.on_error == "fail":
            told.__cause__ = error
            post_error(self, told)
        else:
            self._warn(f"{told}; the video goes on, such messages are counted as failed")

    def _warn(self, text: str) -> None:
        warning = GLib.Error.new_literal(Gst.ResourceError.quark(), text, int(Gst.ResourceError.WRITE))
        self.post_message(Gst.Message.new_warning(self, warning, ""))


class _Preroll:
    """A sink's asynchronous change to PAUSED, complete at its first buffer; without effect unless begun.

    GstBin forwards EOS only after it has told its own PLAYING. The thread that completes a pipeline's preroll tells
    PAUSED some time after it has woken the application, and where that has set PLAYING meanwhile, EOS never comes. Real
    sinks prevent it: their change to PLAYING waits until the completing thread is done, and so does this one.
    """

    def __init__(self, element: Gst.Element) -> None:
        # A proxy of the element, which owns this object: a reference would be a cycle.
        self._element = weakref.ref(element)
        self._pending = False
        self._thread = 0
        self._done = threading.Event()
        self._done.set()

    def begin(self) -> None:
        """Tell that the change takes until the first buffer; called before the pads are activated."""
        self._pending = True
        self._done.clear()
        self._post(Gst.Message.new_async_start)

    def finish(self) -> None:
        """Complete the change; called on the streaming thread at a buffer, a gap or the end."""
        if not self._pending:
            return
        self._pending = False
        self._thread = threading.get_ident()
        element = self._element()
        if element is not None:
            element.continue_state(Gst.StateChangeReturn.SUCCESS)
            self._post(Gst.Message.new_async_done, Gst.CLOCK_TIME_NONE)
        self._done.set()

    def wait(self) -> None:
        """Wait, in the change to PLAYING, for a completion that is under way; at most a second."""
        if not self._pending and self._thread != threading.get_ident():
            self._done.wait(1)

    def give_up(self) -> None:
        """End a change that no buffer has completed."""
        if self._pending:
            self._pending = False
            self._post(Gst.Message.new_async_done, Gst.CLOCK_TIME_NONE)
        self._done.set()

    def _post(self, make: Any, *arguments: Any) -> None:
        element = self._element()
        if element is not None:
            element.post_message(make(element, *arguments))


def _make_sink(element: Gst.Element) -> None:
    """Set the flag that makes bins count an element as a sink, which PyGObject has no way to set.

    Raises:
        SluiceError: the flags are not where GstObject has them on every 64-bit platform.
    """
    from sluice.contract import gstref

    # GstObject {GInitiallyUnowned object (24); GMutex lock (8); gchar *name (8); GstObject *parent (8); guint32 flags}
    flags = ctypes.c_uint32.from_address(gstref.address(element) + 48)
    if flags.value != element.flags:
        raise SluiceError(
            f"GstObject's flags are not at offset 48: {flags.value:#x} lies there, not {element.flags:#x}"
        )
    flags.value |= int(Gst.ElementFlags.SINK)
