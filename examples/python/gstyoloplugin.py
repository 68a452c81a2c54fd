"""An element that runs a network from a file: YOLO and other detectors that ``sluice inspect`` recognises.

    gst-launch-1.0 -v sluicemux name=m width=1280 height=720 batch-size=1 batched-push-timeout=33000 ! \\
        gstyoloplugin model-path=M.onnx ! \\
        fpsdisplaysink text-overlay=false silent=false sync=false video-sink=fakesink \\
        uridecodebin uri=file:///V.mp4 ! m.sink_0

Preprocessing, runtime and decoding of the network's output come from ``load_model``; what is left for the element is to
lend it the frames of each buffer and to write what it found. For production use ``sluiceinfer model=M.onnx``: the same,
with the model on a thread of its own.
"""

import traceback

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstBase", "1.0")
from gi.repository import GObject, Gst, GstBase

# Nothing but gi and the standard library is imported up here; see gstexampleplugin.py.

FORMATS = "format={ NV12, RGBA, RGB }"
CAPS = Gst.Caps.from_string(
    f"video/x-raw(memory:NVMM), {FORMATS}; video/x-raw(memory:SluiceSurface); video/x-raw, {FORMATS}"
)


class GstYoloPlugin(GstBase.BaseTransform):
    __gstmetadata__ = ("YOLO detector", "Filter/Analyzer/Video", "Runs a detector from a file", "You <you@example.com>")
    __gsttemplates__ = (
        Gst.PadTemplate.new("sink", Gst.PadDirection.SINK, Gst.PadPresence.ALWAYS, CAPS),
        Gst.PadTemplate.new("src", Gst.PadDirection.SRC, Gst.PadPresence.ALWAYS, CAPS),
    )
    model_path = GObject.Property(type=str, nick="model-path", blurb="File of the network, such as yolo11n.onnx")
    confidence_threshold = GObject.Property(type=float, minimum=0.0, maximum=1.0, default=0.4, blurb="Least score")
    unique_id = GObject.Property(type=int, minimum=0, default=15, blurb="Tells whose objects these are")

    def __init__(self):
        super().__init__()
        self.model = None
        # Passthrough: the very buffer that comes in goes out, even when others share it. Metadata is written in place.
        self.set_passthrough(True)

    def do_start(self):
        return self.guarded(self.load)

    def do_stop(self):
        return self.guarded(self.unload)

    def do_set_caps(self, incoming, _outgoing):
        return self.guarded(self.configure, incoming)

    def do_transform_ip(self, buffer):
        return Gst.FlowReturn.OK if self.guarded(self.process, buffer) else Gst.FlowReturn.ERROR

    def do_src_event(self, event):
        # A sink that is late asks for fewer frames, and decoders then drop some that were never looked at.
        return True if event.type == Gst.EventType.QOS else GstBase.BaseTransform.do_src_event(self, event)

    def guarded(self, function, *arguments):
        """Call a function and say whether it succeeded. An exception that left a do_* method would count as success."""
        try:
            function(*arguments)
        except Exception as error:
            where = (Gst.StreamError.quark(), Gst.StreamError.FAILED)
            text = f"{type(error).__name__}: {error}"
            self.message_full(Gst.MessageType.ERROR, *where, text, traceback.format_exc(), __file__, str(function), 0)
            return False
        return True

    def load(self):
        """Load the network, so that a wrong file is refused before anything flows."""
        import sluice

        self.model = sluice.load_model(self.model_path, confidence=self.confidence_threshold)
        self.model.load()
        self.model.warm_up()

    def unload(self):
        if self.model is not None:
            self.model.close()

    def configure(self, caps):
        """Called before the first buffer and whenever size or format change."""
        from sluice.elements.infer_frames import BatchReader

        self.reader, self.number = BatchReader(caps), 0

    def process(self, buffer):
        """One call of the model for all frames of a batch; their pixels are lent to it, not copied."""
        from sluice.models.attach import attach_detections

        with self.reader.lend(buffer, self.number) as batch:
            for meta, frame, found in zip(batch.metas, batch.frames, self.model.infer(batch.frames), strict=True):
                # Also writes bInferDone, which tells the tracker that a detector has seen this frame.
                attach_detections(meta, found, self.model.labels, self.unique_id, (frame.width, frame.height))
        self.number += 1


__gstelementfactory__ = ("gstyoloplugin", Gst.Rank.NONE, GstYoloPlugin)
