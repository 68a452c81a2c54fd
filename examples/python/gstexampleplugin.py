"""The smallest complete detector element of one's own: copy this file, then change ``load`` and ``detect``.

    gst-launch-1.0 videotestsrc num-buffers=100 ! gstexampleplugin ! sluiceosd ! videoconvert ! autovideosink

It stands where nvinfer stands: it takes the batches of ``nvstreammux`` or ``sluicemux``, and single frames too, and
passes each buffer on untouched with the objects it found in the metadata, where trackers, overlays and message
converters look for them. GStreamer finds it when the folder *above* ``python/`` is on GST_PLUGIN_PATH.

``detect`` runs on the streaming thread, which is right for work that is done well before the next frame comes. A slower
model belongs into ``sluiceinfer``, which gives it a thread of its own and needs no element, only a class.
"""

import traceback

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstBase", "1.0")
from gi.repository import GObject, Gst, GstBase

# Nothing but gi and the standard library is imported up here: GStreamer remembers a file that failed to import as one
# without elements, even after the fault is mended. Everything else is imported in do_start.

FORMATS = "format={ NV12, RGBA, RGB }"
CAPS = Gst.Caps.from_string(
    f"video/x-raw(memory:NVMM), {FORMATS}; video/x-raw(memory:SluiceSurface); video/x-raw, {FORMATS}"
)
LABELS = ("bright",)


class GstExamplePlugin(GstBase.BaseTransform):
    __gstmetadata__ = ("Example detector", "Filter/Analyzer/Video", "Finds bright areas", "You <you@example.com>")
    __gsttemplates__ = (
        Gst.PadTemplate.new("sink", Gst.PadDirection.SINK, Gst.PadPresence.ALWAYS, CAPS),
        Gst.PadTemplate.new("src", Gst.PadDirection.SRC, Gst.PadPresence.ALWAYS, CAPS),
    )
    model_engine = GObject.Property(type=str, nick="model-engine", blurb="File of the model")
    confidence_threshold = GObject.Property(type=float, minimum=0.0, maximum=1.0, default=0.8, blurb="Least score")

    def __init__(self):
        super().__init__()
        # Passthrough: the very buffer that comes in goes out, even when others share it. Metadata is written in place.
        self.set_passthrough(True)

    def do_start(self):
        return self.guarded(self.load)

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

    def configure(self, caps):
        """Called before the first buffer and whenever size or format change."""
        from sluice.elements.infer_frames import BatchReader

        self.reader, self.number = BatchReader(caps), 0

    def process(self, buffer):
        from sluice.models.attach import attach_detections

        with self.reader.lend(buffer, self.number) as batch:
            for meta, frame in zip(batch.metas, batch.frames, strict=True):
                # Also writes bInferDone, which tells the tracker that a detector has seen this frame.
                attach_detections(meta, self.detect(frame), LABELS, 15, (frame.width, frame.height))
        self.number += 1

    def load(self):
        """Change me: load ``self.model_engine``. What fails here stops the pipeline before anything flows."""
        import cv2

        self.cv2 = cv2

    def detect(self, frame):
        """Change me: a frame's pixels become boxes in pixels of the frame, as left, top, right, bottom."""
        import sluice

        grey = self.cv2.cvtColor(frame.rgb(), self.cv2.COLOR_RGB2GRAY)
        _, mask = self.cv2.threshold(grey, 255 * self.confidence_threshold, 255, self.cv2.THRESH_BINARY)
        count, _, stats, _ = self.cv2.connectedComponentsWithStats(mask)
        areas = [(x, y, x + w, y + h) for x, y, w, h, _ in stats[1:count].tolist()]
        scores = [grey[y0:y1, x0:x1].mean() / 255 for x0, y0, x1, y1 in areas]
        return sluice.Detections(xyxy=areas, scores=scores, class_ids=[0] * len(areas))


__gstelementfactory__ = ("gstexampleplugin", Gst.Rank.NONE, GstExamplePlugin)
