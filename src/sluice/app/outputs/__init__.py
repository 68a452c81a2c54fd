"""What stands at the end of the pipeline: annotated MP4 files, live outputs, or nothing."""

from sluice.app.outputs.encoding import ENCODERS, find_encoder
from sluice.app.outputs.files import check_distinct, distinct_names, folder_fault, output_paths
from sluice.app.outputs.live import LiveBranch
from sluice.app.outputs.live_outputs import TILED, LiveOutputs
from sluice.app.outputs.mp4 import Mp4Branch
from sluice.app.outputs.options import (
    ClipOptions,
    HlsOptions,
    OutputOptions,
    PictureOptions,
    RecordOptions,
    RtspOptions,
    WebRtcOptions,
)

__all__ = [
    "ENCODERS",
    "TILED",
    "ClipOptions",
    "HlsOptions",
    "LiveBranch",
    "LiveOutputs",
    "Mp4Branch",
    "OutputOptions",
    "PictureOptions",
    "RecordOptions",
    "RtspOptions",
    "WebRtcOptions",
    "check_distinct",
    "distinct_names",
    "find_encoder",
    "folder_fault",
    "output_paths",
]
