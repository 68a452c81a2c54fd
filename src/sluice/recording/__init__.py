"""Metadata of a run in a file, and back: text files with one JSON object per frame, described in docs/recording.md."""

from sluice.recording.frames import FORMAT, apply_frame, read_frame
from sluice.recording.reader import Recording
from sluice.recording.writer import RecordingWriter

__all__ = ["FORMAT", "Recording", "RecordingWriter", "apply_frame", "read_frame"]
