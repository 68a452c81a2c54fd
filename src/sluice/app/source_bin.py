"""One stream's bin: opens a `Source`, decodes it, turns it upright and gives it a format that the mux takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from sluice.app import damage
from sluice.app.decoders import EXPOSE, SKIP, TRY, check_available, family, is_video_decoder, keep_on_gpu, refuses
from sluice.app.flow import PadFlow, StreamFlow
from sluice.app.frame_memory import HOST, NAMES, FrameMemory
from sluice.app.gst import add_chain, link_pads, make_element
from sluice.app.images import ImageFeed
from sluice.app.region import Region, RegionTeller, size_at
from sluice.app.source_setup import check_scheme, set_up
from sluice.app.sources import IMAGE_RATE, Source
from sluice.app.streams.policy import StreamPolicy
from sluice.app.upright import make_upright
from sluice.contract.structures import required_structure
from sluice.elements.guard import guarded, post_error
from sluice.errors import ConfigurationError

#: Raw formats that sluicemux takes; anything else a decoder makes is converted to the nearest of them.
MUX_FORMATS = ("I420", "NV12", "RGB", "BGR", "RGBA", "BGRA", "BGRx", "GRAY8", "YUY2")
# Frames between a decoder and the mux. A source whose newest frames count loses the oldest where all wait; one whose
# frames all count has fewer large ones waiting: one of 1080p.
_QUEUED_FRAMES = 4
_QUEUED_BYTES = 3_000_000
# What decoders call the number of their threads: libav's, and libvpx's. Each thread of libav holds frames of its own.
_THREADS = ("max-threads", "threads")
# Libav decoding straight into the frames that it gives away. It keeps most of them for reference, mapped for writing,
# so that GStreamer copies each into newly allocated memory. Without it libav's pictures are copied into a pool's, which
# takes 1.8 ms of a core less for one of 1080p.
_DIRECT = "direct-rendering"
# A file whose end has been read gives its first picture within so many seconds, or never.
_DECODING_BEGINS = 10.0


class SourceBin:
    """The elements that open one source once, and what was seen of it.

    Attributes:
        bin: the ``Gst.Bin`` with a ghost pad "src", to be linked to the mux. EOS does not leave it: see `ended`.
        problems: what went wrong with pictures that are not fatal, as text.
    """

    def __init__(
        self,
        source: Source,
        name: str,
        number: int,
        flow: StreamFlow,
        policy: StreamPolicy,
        *,
        frame_limit: int = 0,
        decoder_threads: int = 0,
        memory: FrameMemory | None = None,
        again: bool = False,
    ) -> None:
        """Build the bin.

        Args:
            source: what is opened.
            name: the bin's name, unlike that of any other that the pipeline has or had.
            number: of the stream.
            flow: that of the stream, which takes this bin for its present source.
            policy: how the frames are delivered.
            frame_limit: the stream ends after so many frames; 0: no limit.
            decoder_threads: how many threads a decoder in software uses; 0: as many as it likes.
            memory: decides whether frames in GPU memory stay there; None: they do.
            again: whether the stream had a source before, so that its times must go on.

        Raises:
            ConfigurationError: an element is missing.
        """
        self.source = source
        self.policy = policy
        self.problems: list[str] = []
        self._without_video = False
        self.bin = Gst.Bin.new(name)
        # Else a decodebin that begins, or is closed before it has begun, takes the whole pipeline out of PLAYING.
        self.bin.set_property("async-handling", True)
        self._flow = flow
        self._limit = frame_limit
        self._decoder_threads = decoder_threads
        self._memory = memory
        self._handlers: list[tuple[Gst.Element, int]] = []
        self._decoded: PadFlow | None = None
        self._decoded_pad: Gst.Pad | None = None
        self._decoder = ""
        self._encoded: PadFlow | None = None
        self._encoded_pad: Gst.Pad | None = None
        self._demuxed: list[PadFlow] = []
        self._exhausted: float | None = None
        self._any_memory = 0  # where in the tail frames of any memory may enter
        self._tail = self._build_tail()
        self._queued = PadFlow(self.pad)
        flow.watch(self.pad, retimed=again or source.live or policy.loop)
        self._region = RegionTeller(self.pad, number, policy.region)
        {"uri": self._open_uri, "images": self._open_images, "test": self._open_test}[source.kind]()

    @property
    def frames_in(self) -> int:
        """Frames that left the decoder."""
        return self._decoded.read().buffers if self._decoded else 0

    @property
    def frames_dropped(self) -> int:
        """Frames that gave way to newer ones in front of the mux; final once the source ended."""
        if not self.policy.freshest(self.source.live):
            return 0
        return max(0, self.frames_in - self._queued.read().buffers - self.waiting)

    @property
    def packets(self) -> int:
        """Encoded pictures, or parts of them, that came to the decoder."""
        return self._encoded.read().buffers if self._encoded else 0

    @property
    def waiting(self) -> int:
        """Frames that wait in front of the mux."""
        return int(self._tail[-1].get_property("current-level-buffers"))

    def picture(self) -> tuple[str, int, int]:
        """Return the name of the decoding element, and width and height of its pictures; "" and 0 where not known."""
        caps = self._decoded_pad.get_current_caps() if self._decoded_pad is not None else None
        if caps is None:
            return self._decoder, 0, 0
        structure = required_structure(caps, 0)
        return self._decoder, structure.get_int("width")[1], structure.get_int("height")[1]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the pictures that go to the mux, turned upright; zeros before they are known."""
        return size_at(self.pad)

    @property
    def region_fault(self) -> str:
        """Why the model is given the whole picture in place of the policy's region; "" where it is not."""
        return self._region.fault

    def set_region(self, region: Region | None) -> None:
        """Have the model be given another region, or the whole picture, from the next frame on; may wait."""
        self._region.change(self.pad, region)

    @property
    def memory(self) -> str:
        """Which memory its frames go to the mux in: "system", "NVMM" or "CUDAMemory"; "" where not known."""
        caps = self.pad.get_current_caps()
        features = caps.get_features(0) if caps is not None else None
        if features is None:
            return ""
        return next((name for feature, name in NAMES.items() if features.contains(feature)), HOST)

    @property
    def codec(self) -> str:
        """How the pictures are encoded, as "h264"; "" where that is not known, or they are not."""
        caps = self._encoded_pad.get_current_caps() if self._encoded_pad is not None else None
        if caps is None:
            return ""
        structure = required_structure(caps, 0)
        known, version = structure.get_int("mpegversion")
        name: str = structure.get_name()
        return name.removeprefix("video/").removeprefix("x-") + (str(version) if known else "")

    @property
    def pad(self) -> Gst.Pad:
        """The pad between this bin's queue and the mux."""
        return self._tail[-1].get_static_pad("src")

    @property
    def ended(self) -> bool:
        """Whether the source has ended, and its last frame left for the mux."""
        return self._queued.read().ended

    @property
    def ended_on_request(self) -> bool:
        """Whether the frame limit was reached; what the elements in front of it complain about later is no failure."""
        return self._limit > 0 and self.frames_in >= self._limit

    def give_up_if_empty(self, now: float) -> None:
        """Fail a file that was read to its end without a stream that can be decoded: decodebin waits for one for ever.

        Args:
            now: seconds that only grow; called every now and then.
        """
        flows = self._demuxed
        if self.source.live or self._decoded is not None or not flows or not all(flow.read().ended for flow in flows):
            return
        if self._exhausted is None:
            self._exhausted = now
        elif now - self._exhausted > _DECODING_BEGINS:
            self._exhausted = math.inf
            post_error(self.bin, ConfigurationError("it ends before its first picture"))

    def fraction(self, frame_limit: int | None) -> float | None:
        """How much of the stream was decoded, 0..1; None where its length is unknown."""
        if self._decoded is None or self._decoded_pad is None:
            return None
        counts = self._decoded.read()
        test = self.source.test
        total = frame_limit or (test.frames if test is not None else len(self.source.images))
        if total:
            return min(1.0, counts.buffers / total)
        known, duration = self._decoded_pad.query_duration(Gst.Format.TIME)
        if self.source.live or not known or duration <= 0 or counts.last_end is None:
            return None
        shown = counts.last_end - (counts.segment_start or 0)
        return float(min(1.0, max(0.0, shown / duration)))

    def end(self) -> bool:
        """Have the source end behind the frames decoded so far. Waits for room in the queue: not for every thread.

        Returns:
            False where the source never started, so that nothing will come and there is nothing to wait for.
        """
        entry = self._tail[-1].get_static_pad("sink")
        if not entry.is_active():
            return False
        entry.send_event(Gst.Event.new_eos())
        return True

    def close(self) -> None:
        """Disconnect the handlers, which otherwise keep this object and the elements alive in a circle."""
        for element, handler in self._handlers:
            element.disconnect(handler)
        self._handlers.clear()

    def damage(self) -> list[str]:
        """Return what shows that the stream is damaged; to be called after its end, before the bin is stopped."""
        if self._decoded is None:
            return []
        decoded = self._decoded.read()
        found = [*self.problems, *damage.marked(decoded)]
        demuxed = [counts for counts in (flow.read() for flow in self._demuxed) if counts.buffers]
        if self.source.live or not demuxed:
            return found
        found += damage.missing_at_start(decoded, demuxed)
        known, duration = self._decoded_pad.query_duration(Gst.Format.TIME) if self._decoded_pad else (False, 0)
        if known and (not self._limit or decoded.buffers < self._limit):
            found += damage.missing_at_end(demuxed, duration)
        return found

    def _connect(self, element: Gst.Element, signal: str, handler: Callable[..., Any]) -> None:
        self._handlers.append((element, element.connect(signal, handler)))

    def _build_tail(self) -> list[Gst.Element]:
        """Add what stands between the decoder and the mux; each part passes frames on untouched where it can."""
        formats = Gst.Caps.from_string(f"video/x-raw, format={{{', '.join(MUX_FORMATS)}}}")
        freshest = self.policy.freshest(self.source.live)
        tail = [
            make_element("videoconvert"),
            make_element("capsfilter", caps=formats),
            make_upright(),
        ]
        self._any_memory = len(tail)
        if self.policy.loop and not self.source.live:  # it takes a camera's place, and so its pace
            tail.append(make_element("clocksync", sync_to_first=True))
        tail.append(
            make_element(
                "queue",
                max_size_buffers=_QUEUED_FRAMES,
                max_size_bytes=0 if freshest else _QUEUED_BYTES,
                max_size_time=0,
                leaky="downstream" if freshest else "no",
            )
        )
        add_chain(self.bin, *tail)
        self.bin.add_pad(Gst.GhostPad.new("src", tail[-1].get_static_pad("src")))
        return tail

    def _join(self, pad: Gst.Pad, entry: Gst.Element) -> None:
        """Link the decoder's pad to the tail and count what passes it."""
        self._decoded_pad = pad
        self._decoded = PadFlow(pad, self._limit)
        link_pads(pad, entry.get_static_pad("sink"))

    def _open_uri(self) -> None:
        check_scheme(self.source)
        check_available(self.policy.decoder)
        if self.policy.decoder == "auto" and not self.source.uri.lower().startswith("rtsp"):
            decoder = make_element("uridecodebin3", uri=self.source.uri)
            self._connect(decoder, "select-stream", self._select_stream)
        else:
            # uridecodebin3 does not let anybody choose the decoder. And of RTSP it has the parser put pictures together
            # from single NAL units, which in GStreamer 1.22 takes pictures of several slices apart: all but key frames
            # come out green.
            decoder = make_element("uridecodebin", uri=self.source.uri)
            self._connect(decoder, "autoplug-select", self._select_decoder)
            self._connect(decoder, "no-more-pads", self._on_all_pads)
        self._connect(decoder, "source-setup", lambda _, element: set_up(element, self.policy))
        self._connect(decoder, "pad-added", self._on_pad)
        self._connect(self.bin, "deep-element-added", self._on_element)
        self.bin.add(decoder)

    @guarded(failure=0)
    def _select_stream(self, _decoder: Gst.Element, collection: Gst.StreamCollection, stream: Gst.Stream) -> int:
        """Take the first video stream and nothing else, so that sound, subtitles and second cameras are not decoded."""
        streams = [collection.get_stream(i) for i in range(collection.get_size())]
        videos = [s.get_stream_id() for s in streams if s.get_stream_type() & Gst.StreamType.VIDEO]
        if not videos and not self._without_video:
            self._without_video = True
            post_error(self.bin, ConfigurationError("there is no video stream in it"))
        return int(stream.get_stream_id() in videos[:1])

    @guarded(failure=TRY)
    def _select_decoder(self, _decoder: Gst.Element, _pad: Gst.Pad, caps: Gst.Caps, factory: Gst.ElementFactory) -> int:
        """Take no decoder but those of the family that was chosen, and decode no sound."""
        if required_structure(caps, 0).get_name().startswith(("audio/", "text/", "application/x-subtitle")):
            return EXPOSE
        wanted = self.policy.decoder
        return SKIP if wanted != "auto" and refuses(factory, wanted) else TRY

    @guarded(failure=None)
    def _on_all_pads(self, _decoder: Gst.Element) -> None:
        if self._decoded is None:
            post_error(self.bin, ConfigurationError("there is no video stream in it"))

    @guarded(failure=None)
    def _on_pad(self, _decoder: Gst.Element, pad: Gst.Pad) -> None:
        caps = pad.get_current_caps() or pad.query_caps(None)
        if self._decoded is not None or caps.is_empty():
            return
        if not required_structure(caps, 0).get_name().startswith("video/"):
            return
        self._join(pad, self._entry_for(caps))

    def _entry_for(self, caps: Gst.Caps) -> Gst.Element:
        """Return what frames with some caps go into. The converters of the tail read the host's memory only."""
        features = caps.get_features(0)
        in_system_memory = features is None or features.contains(Gst.CAPS_FEATURE_MEMORY_SYSTEM_MEMORY)
        feature = next((name for name in NAMES if not in_system_memory and features.contains(name)), "")
        stays = self._memory is None or self._memory.stays(feature)
        if in_system_memory:
            return self._tail[0]
        if stays or not feature:
            entry = self._tail[self._any_memory]
            self._tail[self._any_memory - 1].unlink(entry)  # it would wait for frames for ever
            return entry
        download = make_element("sluicehost")
        self.bin.add(download)
        download.link(self._tail[0])
        download.sync_state_with_parent()
        return download

    @guarded(failure=None)
    def _on_element(self, _bin: Gst.Bin, _sub_bin: Gst.Bin, element: Gst.Element) -> None:
        factory = element.get_factory()
        kind = (factory.get_metadata("klass") or "") if factory is not None else ""
        if is_video_decoder(kind):
            self._decoder = factory.get_name()
            self._encoded_pad = element.get_static_pad("sink")
            self._encoded = PadFlow(self._encoded_pad)
            for name in _THREADS:
                if element.find_property(name) is not None:
                    element.set_property(name, self._decoder_threads)
            if element.find_property(_DIRECT) is not None:
                element.set_property(_DIRECT, False)
            if family(self._decoder, kind) == "nvdec" and (self._memory is None or self._memory.may_stay()):
                keep_on_gpu(element, asked=self.policy.decoder == "nvdec")
        if "Demux" in kind:
            self._connect(element, "pad-added", lambda _, pad: self._demuxed.append(PadFlow(pad)))

    def _open_images(self) -> None:
        appsrc = make_element("appsrc", format="time", block=False, max_buffers=2)
        feed = ImageFeed(self.source.images, IMAGE_RATE, self.problems)
        self._connect(appsrc, "need-data", feed.need_data)
        self.bin.add(appsrc)
        self._join(appsrc.get_static_pad("src"), self._tail[0])

    def _open_test(self) -> None:
        test = self.source.test
        assert test is not None
        generator = make_element(
            "videotestsrc",
            pattern=test.pattern,
            num_buffers=test.frames or -1,
            is_live=self.source.live,
        )
        size = f"width={test.width}, height={test.height}, framerate={test.fps}/1"
        caps = make_element("capsfilter", caps=Gst.Caps.from_string(f"video/x-raw, format=I420, {size}"))
        add_chain(self.bin, generator, caps)
        self._join(caps.get_static_pad("src"), self._tail[0])
