"""The properties of ``sluicemux``; those that ``nvstreammux`` has carry its names and meanings."""

from typing import Any

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GObject, Gst

_READY = GObject.ParamFlags.READWRITE | GObject.ParamFlags(Gst.PARAM_MUTABLE_READY)
_PLAYING = GObject.ParamFlags.READWRITE | GObject.ParamFlags(Gst.PARAM_MUTABLE_PLAYING)
_INT_MAX = 2**31 - 1
_UINT_MAX = 2**32 - 1

GPROPERTIES: dict[str, tuple[Any, ...]] = {
    "batch-size": (
        GObject.TYPE_UINT,
        "Batch size",
        "The most frames in a batch; must be set. A batch is full with one frame (max-same-source-frames) of each "
        "stream that has not ended, or with batch-size frames if that is less",
        *(0, 1024, 0, _READY),
    ),
    "batched-push-timeout": (
        GObject.TYPE_INT,
        "Batched push timeout",
        "Microseconds after the arrival of the oldest waiting frame when a batch that is not full leaves; "
        "-1: it waits until it is full",
        *(-1, _INT_MAX, 33000, _PLAYING),
    ),
    "max-same-source-frames": (
        GObject.TYPE_UINT,
        "Most frames of one stream",
        "The most frames of one stream in one batch",
        *(1, 1024, 1, _PLAYING),
    ),
    "sync-inputs": (
        GObject.TYPE_BOOLEAN,
        "Synchronise inputs",
        "Batch frames by their running time: early ones wait batched-push-timeout, late ones are discarded and counted",
        *(False, _READY),
    ),
    "max-latency": (
        GObject.TYPE_UINT,
        "Most latency",
        "Nanoseconds that frames may be late with sync-inputs, beyond the streams' own latency",
        *(0, _UINT_MAX, 0, _PLAYING),
    ),
    "width": (
        GObject.TYPE_UINT,
        "Width",
        "Scale every frame to this width in pixels (with height); 0: frames keep their own size",
        *(0, 32768, 0, _READY),
    ),
    "height": (
        GObject.TYPE_UINT,
        "Height",
        "Scale every frame to this height in pixels (with width); 0: frames keep their own size",
        *(0, 32768, 0, _READY),
    ),
    "enable-padding": (
        GObject.TYPE_BOOLEAN,
        "Enable padding",
        "When scaling, keep the aspect ratio and pad with black instead of stretching",
        *(False, _READY),
    ),
    "nvbuf-memory-type": (
        GObject.TYPE_INT,
        "Memory type",
        "0: as the frames come; 6 (system): frames in system memory leave as memory:NVMM batches of one format, "
        "which some NVIDIA elements take",
        *(0, 7, 0, _READY),
    ),
    "gpu-id": (
        GObject.TYPE_UINT,
        "GPU",
        "Number of the GPU, for the caps of memory:NVMM batches",
        *(0, 255, 0, _READY),
    ),
    "attach-sys-ts": (
        GObject.TYPE_BOOLEAN,
        "Attach system time",
        "ntp_timestamp is the wall clock's time of arrival; false: the sender's time from a timestamp/x-ntp reference "
        "timestamp (rtspsrc add-reference-timestamp-meta=true), 0 without one",
        *(True, _READY),
    ),
    "frame-num-reset-on-eos": (
        GObject.TYPE_BOOLEAN,
        "Reset on end",
        "Count a stream's frames from 0 again after its end",
        *(False, _READY),
    ),
    "frame-num-reset-on-stream-reset": (
        GObject.TYPE_BOOLEAN,
        "Reset on stream reset",
        "Count a stream's frames from 0 again after an nv-stream-reset event",
        *(False, _READY),
    ),
    "drop-pipeline-eos": (
        GObject.TYPE_BOOLEAN,
        "Drop pipeline EOS",
        "Streams may be added later: send no end of stream when all have ended, and do not warn while there is none",
        *(False, _PLAYING),
    ),
    "live-source": (
        GObject.TYPE_BOOLEAN,
        "Live source",
        "Accepted for nvstreammux's sake, without effect: the rule for batches is the same for live and other streams",
        *(False, _READY),
    ),
    "buffer-pool-size": (
        GObject.TYPE_UINT,
        "Buffer pool size",
        "Accepted for nvstreammux's sake, without effect: batches own the frames that came in, so there is no pool",
        *(4, 1024, 4, _READY),
    ),
    "num-surfaces-per-frame": (
        GObject.TYPE_UINT,
        "Surfaces per frame",
        "Accepted for nvstreammux's sake: always 1",
        *(1, 1, 1, _READY),
    ),
    "stats": (
        Gst.Structure,
        "Statistics",
        "Numbers per pad: sink_N-frames-in, -frames-out, -discarded (by flush, removal, stop or lateness), -late, "
        "-refused (by downstream), -untimed (without timestamp); batches, and "
        "released-discarded: frames that were waiting at pads when these were released",
        GObject.ParamFlags.READABLE,
    ),
}

_DEFAULT = -2
"""Place of the default value in a description, before the flags."""

DEFAULTS = {name: description[_DEFAULT] for name, description in GPROPERTIES.items() if name != "stats"}
