"""The base class of elements that work at once on the buffer they are given; offered by `sluice.elements.base`."""

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstBase", "1.0")
from gi.repository import Gst, GstBase

from sluice.elements.events import event_type
from sluice.elements.guard import Code, guarded, post_warning
from sluice.elements.lifecycle import Lifecycle


class InPlaceElement(Lifecycle, GstBase.BaseTransform):  # type: ignore[misc]
    """A synchronous element that works on the buffer it is given and passes it on; abstract.

    By default it runs in passthrough mode: the very buffer that came in goes on, never copied, even when it is shared
    behind a tee, and metadata is written in place. A subclass that writes pixels calls ``self.set_passthrough(False)``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.set_in_place(True)
        self.set_passthrough(True)
        self.srcpad.add_probe(Gst.PadProbeType.EVENT_UPSTREAM, _drop_qos)

    @guarded(Gst.StateChangeReturn.FAILURE)
    def do_change_state(self, transition: Gst.StateChange) -> Gst.StateChangeReturn:
        return self.change_state(transition)

    @guarded(Gst.FlowReturn.ERROR)
    def do_transform_ip(self, buffer: Gst.Buffer) -> Gst.FlowReturn:
        """Have `process` work on a buffer."""
        # GST_BASE_TRANSFORM_FLOW_DROPPED by its other name, which the bindings have.
        return Gst.FlowReturn.OK if self.process(buffer) else Gst.FlowReturn.CUSTOM_SUCCESS

    @guarded(failure=False)
    def do_set_caps(self, incoming: Gst.Caps, _outgoing: Gst.Caps) -> bool:
        """Tell the subclass the caps; its exception refuses them."""
        self.on_caps(incoming)
        return True

    @guarded(failure=False)
    def do_sink_event(self, event: Gst.Event) -> bool:
        """Show an event to the subclass before it goes on."""
        self.on_event(event)
        return bool(GstBase.BaseTransform.do_sink_event(self, event))

    def on_caps(self, caps: Gst.Caps) -> None:
        """Take the caps of the buffers that follow, or raise."""

    def on_event(self, event: Gst.Event) -> None:
        """Look at an event from upstream, flushes included; it goes on in any case."""

    def process(self, buffer: Gst.Buffer) -> bool:
        """Work on a buffer; False drops it. An exception ends the stream.

        Attributes ``stream`` and ``frame`` of the exception are shown in the element error.
        """
        raise NotImplementedError

    def warn(self, text: str, code: Code = Gst.LibraryError.SETTINGS) -> None:
        """Post a warning message; its domain is that of the code."""
        post_warning(self, text, code=code)

    def passes_qos(self) -> bool:
        """Whether QoS events go upstream, where they make decoders drop frames: only when the policy is freshest."""
        return False


@guarded(Gst.PadProbeReturn.OK)
def _drop_qos(pad: Gst.Pad, info: Gst.PadProbeInfo) -> Gst.PadProbeReturn:
    element = pad.get_parent_element()
    if event_type(info.get_event()) == Gst.EventType.QOS and element is not None and not element.passes_qos():
        return Gst.PadProbeReturn.DROP
    return Gst.PadProbeReturn.OK
