"""``sluicemsgbroker``: takes the messages that a converter attached to frames to a broker, a file or standard output.

The buffer goes on untouched. With nothing linked to its source pad the element is a sink, as nvmsgbroker is; linked, it
sits in the middle of a pipeline and needs neither a tee nor a queue. Messages leave on threads of their own behind a
bounded queue, so that neither the disk nor a broker holds up the video.

The element counts as a sink in both cases, and posts its own EOS message once every message is written or acknowledged:
the pipeline's EOS therefore also means that all messages are where they belong. With a broker that is away, EOS comes
after eos-timeout, and the messages stay in the spool for the next run.

Imports gi and the standard library only; the contract is imported at NULL→READY.
"""

from typing import TYPE_CHECKING, Any

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstBase", "1.0")
from gi.repository import GLib, GObject, Gst, GstBase

from sluice.elements.base import InPlaceElement, guarded, post_error
from sluice.elements.guard import post_info
from sluice.elements.msgbroker_sink import Preroll, make_sink
from sluice.errors import ConfigurationError

if TYPE_CHECKING:
    from sluice.elements.msgbroker_output import Output

ON_ERROR = ("fail", "skip")
OVERFLOW = ("auto", "wait", "drop-oldest", "drop-newest")
START = ("continue", "wait", "fail")
HANDOVER = ("auto", "queued", "written")
COUNTERS = ("queued", "written", "sent", "acknowledged", "spooled", "dropped", "failed", "reconnects")

_CHOICES = {"on-error": ON_ERROR, "overflow": OVERFLOW, "start-policy": START, "handover": HANDOVER}

# Read at the start.
_READ = (
    "proto",
    "location",
    "append",
    "rotate-size",
    "rotate-count",
    "proto-lib",
    "topic",
    "config",
    "queue-size",
    "overflow",
    "spool",
    "spool-size",
    "spool-fsync",
    "eos-timeout",
    "eos-timeout-away",
)


def _hidden(name: str, blurb: str) -> Any:
    """A text property that may hold a password: what is read back, and shown by tools, has none."""

    def get(element: Any) -> str:
        value = element.addresses.get(name, "")
        if not value:
            return ""  # all that gst-inspect sees, which may run where numpy is not
        from sluice.messages.brokers import hide_secrets

        return hide_secrets(value)

    def put(element: Any, value: str | None) -> None:
        element.addresses[name] = value or ""

    return GObject.Property(type=str, default="", nick=name, blurb=blurb, getter=get, setter=put)


class SluiceMsgBroker(InPlaceElement):
    """The element; see ``gst-inspect-1.0 sluicemsgbroker`` for its properties."""

    __gtype_name__ = "SluiceMsgBroker"
    __gstmetadata__ = (
        "Sluice message broker",
        "Sink/Generic",
        "Brings the messages attached to frames to a message broker, a file or the standard output",
        "The Sluice developers",
    )
    __gsttemplates__ = (
        Gst.PadTemplate.new("sink", Gst.PadDirection.SINK, Gst.PadPresence.ALWAYS, Gst.Caps.new_any()),
        Gst.PadTemplate.new("src", Gst.PadDirection.SRC, Gst.PadPresence.ALWAYS, Gst.Caps.new_any()),
    )

    proto = GObject.Property(
        type=str,
        default="",
        blurb="Where messages go: kafka, mqtt, amqp, redis, nats, http, file or stdout; default: as location or "
        "proto-lib says, else stdout",
    )
    location = _hidden(
        "location", "A file, '-' or nothing for the standard output, or a URL: kafka://host:port/topic, mqtt://, …"
    )
    append = GObject.Property(
        type=bool,
        default=False,
        blurb="Add to the file instead of emptying it at the start; several may append to one file, whole lines. "
        "Without it, or with rotate-size, the file is this element's alone",
    )
    rotate_size = GObject.Property(
        type=GObject.TYPE_UINT64,
        default=0,
        nick="rotate-size",
        blurb="Begin a new file before one has more bytes; 0: never",
    )
    rotate_count = GObject.Property(
        type=GObject.TYPE_UINT, default=5, nick="rotate-count", blurb="How many older files are kept"
    )
    proto_lib = GObject.Property(
        type=str,
        default="",
        nick="proto-lib",
        blurb="As nvmsgbroker's: libnvds_kafka_proto.so and the like; the name alone matters, no library is loaded",
    )
    conn_str = _hidden("conn-str", "As nvmsgbroker's: host;port, host;port;topic, for AMQP host;port;user;password")
    config = GObject.Property(type=str, default="", blurb="File with options of the broker in group [message-broker]")
    topic = GObject.Property(type=str, default="", blurb="Topic, routing key, stream or subject; wins over the others")
    new_api = GObject.Property(type=bool, default=False, nick="new-api", blurb="Accepted; makes no difference")
    sleep_time = GObject.Property(
        type=GObject.TYPE_UINT, default=0, nick="sleep-time", blurb="Accepted; makes no difference: nothing is polled"
    )
    comp_id = GObject.Property(
        type=GObject.TYPE_UINT, default=0, nick="comp-id", blurb="Only messages with this component id; 0: all"
    )
    queue_size = GObject.Property(
        type=GObject.TYPE_UINT,
        default=4096,
        minimum=1,
        maximum=GLib.MAXINT32,
        nick="queue-size",
        blurb="The most messages that wait for the disk or the standard output",
    )
    overflow = GObject.Property(
        type=str,
        default="auto",
        blurb="When the queue or the spool is full: wait holds the stream up and loses nothing, drop-oldest and "
        "drop-newest drop and count; auto: drop-oldest for a live source, wait for any other",
    )
    handover = GObject.Property(
        type=str,
        default="auto",
        blurb="When a frame goes on: queued, at once; written, when its messages are in the spool or the file, so that "
        "no crash of the process loses them; auto: written with a broker and a source that is not live",
    )
    on_error = GObject.Property(
        type=str,
        default="fail",
        nick="on-error",
        blurb="When the disk takes no message, or the file cannot be opened: fail posts an error, skip posts a warning "
        "and counts, and the video goes on. What a broker refuses is always a warning",
    )
    start_policy = GObject.Property(
        type=str,
        default="continue",
        nick="start-policy",
        blurb="When the broker is away at the start: continue spools, wait holds the first frame up, fail is an error",
    )
    spool = GObject.Property(
        type=str,
        default="",
        blurb="File of messages that the broker has not acknowledged, sent by the next run; none: in memory only; "
        "default: one for this address and topic in the user's state folder",
    )
    spool_size = GObject.Property(
        type=GObject.TYPE_UINT64,
        default=1 << 30,
        minimum=1 << 16,
        nick="spool-size",
        blurb="The most bytes of messages in the spool; see overflow",
    )
    spool_fsync = GObject.Property(
        type=bool,
        default=False,
        nick="spool-fsync",
        blurb="Wait for the disk at each write, so that messages survive a power failure and not only a crash",
    )
    eos_timeout = GObject.Property(
        type=GObject.TYPE_UINT,
        default=10,
        nick="eos-timeout",
        blurb="Seconds that EOS waits for the broker's acknowledgements; then the rest stays in the spool",
    )
    eos_timeout_away = GObject.Property(
        type=GObject.TYPE_UINT,
        default=2,
        nick="eos-timeout-away",
        blurb="The same, while the broker cannot be reached; no difference with spool=none",
    )
    sync = GObject.Property(
        type=bool, default=False, blurb="Only false: messages are written as they come, not at their frame's time"
    )

    # A word of Python's grammar, which cannot be assigned to in the usual way.
    vars()["async"] = GObject.Property(
        type=bool, default=True, blurb="As a sink, be PAUSED with the first buffer only; no difference in the middle"
    )

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        super().__init__()
        make_sink(self)
        self._preroll = Preroll(self)
        self._output: Output | None = None
        self._last_counters: dict[str, int] = {}
        self._unopened = 0
        self._live_known = self._waits = False
        self._broker_known = False
        self._warned: set[str] = set()

    def _stats(self) -> Gst.Structure:
        """Return the counters as a structure of uint64 fields."""
        counted = self._output.counters if self._output is not None else self._last_counters
        structure = Gst.Structure.new_empty("sluicemsgbroker-stats")
        for name in COUNTERS:
            lost = self._unopened if name in ("queued", "failed") else 0
            structure.set_value(name, GObject.Value(GObject.TYPE_UINT64, counted.get(name, 0) + lost))
        return structure

    stats = GObject.Property(
        getter=_stats,
        type=Gst.Structure,
        flags=GObject.ParamFlags.READABLE,
        blurb="Counters since the last start: queued, written (to the file, or acknowledged), sent, acknowledged, "
        "spooled (now), dropped (no room, or not written in time at the stop), failed (refused by the disk or the "
        "broker), reconnects",
    )

    # Start and stop

    def start(self) -> None:
        from sluice.elements.msgbroker_output import Output, Reports

        self._check_properties()
        self._last_counters, self._unopened = {}, 0
        self._live_known, self._waits = "auto" not in (self.overflow, self.handover), self.handover == "written"
        self._broker_known, self._warned = self.start_policy != "wait", set()
        properties = {name: self.get_property(name) for name in _READ}
        given = {name: "" if value is None else value for name, value in properties.items()} | {
            name: self.addresses.get(name, "") for name in ("location", "conn-str")
        }
        try:
            self._output = Output(given, Reports(failure=self._on_failure, warning=self._warn, info=self._inform))
        except ConfigurationError as error:
            if self.on_error == "fail":
                raise
            self._warn(f"{error}; messages are counted as failed")
            return
        if self.start_policy == "fail":
            self._require_connection(self._output)

    def _require_connection(self, output: "Output") -> None:
        try:
            output.require_connection()
        except Exception:
            self.stop()
            raise

    def _check_properties(self) -> None:
        for name, values in _CHOICES.items():
            if self.get_property(name) not in values:
                raise ConfigurationError(f"{name} is {self.get_property(name)!r}; it can be {' or '.join(values)}")
        if self.sync:
            raise ConfigurationError(
                "sync can only be false; put `identity sync=true` before for messages in real time"
            )

    def stop(self) -> None:
        output, self._output = self._output, None
        if output is None:
            return
        if not output.close():
            self._warn("the messages could not be written in time for the stop; see stats")
        self._last_counters = output.counters

    @guarded(Gst.StateChangeReturn.FAILURE)
    def do_change_state(self, transition: Gst.StateChange) -> Gst.StateChangeReturn:
        """Change the state as a sink does where nothing is linked behind: ASYNC until a buffer, GAP or end has come."""
        output = self._output
        if transition == Gst.StateChange.READY_TO_PAUSED and output is not None:
            output.resume()
        if transition == Gst.StateChange.PAUSED_TO_READY and output is not None:
            # A streaming thread that waits for room, or for the broker, would block the change.
            output.release()
        preroll = self._preroll
        prerolls = not self.srcpad.is_linked() and self.get_property("async")
        if transition == Gst.StateChange.READY_TO_PAUSED and prerolls:
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
        elif self._output is not None and event.type == Gst.EventType.FLUSH_START:
            self._output.release()
        elif self._output is not None and event.type == Gst.EventType.FLUSH_STOP:
            self._output.resume()

    def process(self, buffer: Gst.Buffer) -> bool:
        from sluice.contract.metadata import BatchMeta, Lease
        from sluice.messages import read_payloads

        self._preroll.finish()
        with Lease() as lease:
            batch = BatchMeta.of(buffer, lease)
            payloads = [] if batch is None else read_payloads(batch, self.comp_id)
        if not self._live_known:
            self._adapt_to_source()
        if self._output is None:
            self._unopened += len(payloads)
        else:
            if not self._broker_known:
                self._output.wait_for_broker()
                self._broker_known = True
            if payloads:
                self._output.put(*payloads)
                if self._waits:
                    self._output.wait_written()
        return bool(self.srcpad.is_linked())  # with nothing linked behind, the buffer's way ends here

    def _adapt_to_source(self) -> None:
        """A live source cannot wait: the oldest message is dropped instead, and frames go on at once."""
        from sluice.messages import Overflow

        self._live_known = True
        query = Gst.Query.new_latency()
        live = self.sinkpad.peer_query(query) and query.parse_latency()[0]
        if self._output is not None and self.overflow == "auto" and live:
            self._output.set_overflow(Overflow.DROP_OLDEST)
        if self._output is not None and self.handover == "auto":
            self._waits = self._output.delivery is not None and not live

    # What a sink tells its pipeline

    @guarded(failure=False)
    def do_send_event(self, event: Gst.Event) -> bool:
        """Send an event upstream, but no seek where a sink behind sends it as well."""
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

        if self._output is None:
            post()
        else:
            self._output.when_written(post)

    def _on_failure(self, error: Exception) -> None:
        if self.on_error == "fail":
            post_error(self, error)
        elif (text := str(error)) not in self._warned:
            self._warned.add(text)
            self._warn(f"{text}; the video goes on, such messages are counted as failed")

    def _inform(self, text: str) -> None:
        post_info(self, text, Gst.ResourceError.WRITE)

    def _warn(self, text: str) -> None:
        self.warn(text, Gst.ResourceError.WRITE)
