"""What stands at the end of the pipeline: annotated MP4 files, live outputs, or nothing."""

from sluice.app.outputs.encoding import ENCODERS, find_encoder
from sluice.app.outputs.files import check_distinct, distinct_names, output_paths
from sluice.app.outputs.mp4 import Mp4Branch

__all__ = ["ENCODERS", "Mp4Branch", "check_distinct", "distinct_names", "find_encoder", "output_paths"]
