"""What DeepStream prints and writes of latencies, by the same variables."""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.contract.latency import ComponentLatency
from sluice.errors import ConfigurationError
from sluice.metrics.latency_records import LatencyReports, LatencyWriter, as_text, frame_latencies

ENABLE = "NVDS_ENABLE_LATENCY_MEASUREMENT"
COMPONENTS = "NVDS_ENABLE_COMPONENT_LATENCY_MEASUREMENT"
RECORDS = [
    ComponentLatency("nvstreammux-mux", 1000.25, 1010.5, 4, 7, 2),
    ComponentLatency("nvstreammux-mux", 1002.0, 1010.5, 5, 9, 3),
    ComponentLatency("sluiceinfer", 1011.0, 1021.0, 0, 0, 0),
]


@pytest.mark.parametrize(
    ("environment", "printed", "prefix"),
    [
        ({}, False, None),
        ({COMPONENTS: "1", "NVDS_PERF_CSV_PREFIX": "x"}, False, None),
        ({ENABLE: "1"}, False, None),
        ({ENABLE: "0", COMPONENTS: ""}, True, None),
        ({ENABLE: "1", COMPONENTS: "1", "NVDS_LATENCY_MEASUREMENT_SILENT": "1"}, False, None),
        ({ENABLE: "1", "NVDS_PERF_CSV_PREFIX": "x"}, False, "x"),
    ],
)
def test_the_variables_say_what_is_wanted(environment: dict[str, str], printed: bool, prefix: str | None) -> None:
    found = LatencyReports.of(environment)
    assert (found.printed, found.prefix, bool(found)) == (printed, prefix, printed or prefix is not None)


def test_a_frame_counts_from_its_decoder_or_else_from_the_muxer() -> None:
    frames = frame_latencies(RECORDS, 1050.0)
    assert [(f.source_id, f.frame_num, f.latency) for f in frames] == [(4, 7, 49.75), (5, 9, 48.0)]
    decoded = [ComponentLatency("nvv4l2decoder0", 900.0, 950.0, 0, 0, 0), *RECORDS]
    assert [f.latency for f in frame_latencies(decoded, 1050.0)] == [150.0, 48.0]


def test_texts_are_deepstreams() -> None:
    assert as_text(3, RECORDS[1:], frame_latencies(RECORDS[1:], 1050.0)) == (
        "\n************BATCH-NUM = 3**************\n"
        "Comp name = nvstreammux-mux source_id = 5 pad_index = 3 frame_num = 9               "
        "in_system_timestamp = 1002.000000 out_system_timestamp = 1010.500000               "
        "component_latency = 8.500000\n"
        "Comp name = sluiceinfer in_system_timestamp = 1011.000000 out_system_timestamp = 1021.000000               "
        "component latency= 10.000000\n"
        "Source id = 5 Frame_num = 9 Frame latency = 48.000000 (ms) \n"
    )


def test_files_have_a_row_for_each_record_and_frame(tmp_path: Path) -> None:
    out = io.StringIO()
    writer = LatencyWriter(LatencyReports(prefix=str(tmp_path / "perf")), out)
    writer.put(RECORDS, 1050.0)
    writer.put([ComponentLatency("nvstreammux-mux", 1040.25, 1045.0, 4, 8, 2)], 1060.25)
    writer.close()
    assert out.getvalue() == ""
    (component,) = tmp_path.glob(f"perf_id_{os.getpid()}_component_*.csv")
    (frame,) = tmp_path.glob(f"perf_id_{os.getpid()}_frame_*.csv")
    rows = list(csv.DictReader(component.open()))
    assert [(row["comp_name"], row["batch_num"], row["measurement_val"]) for row in rows] == [
        ("nvstreammux-mux", "0", "10.250000"),
        ("nvstreammux-mux", "0", "8.500000"),
        ("sluiceinfer", "0", "10.000000"),
        ("nvstreammux-mux", "1", "4.750000"),
    ]
    frames = list(csv.DictReader(frame.open()))
    assert [(row["source_id"], row["frame_num"], row["fps"], row["measurement_val"]) for row in frames] == [
        ("source_4", "7", "0.000000", "49.750000"),
        ("source_5", "9", "0.000000", "48.000000"),
        ("source_4", "8", "25.000000", "20.000000"),
    ]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"NVDS_PERF_CSV_PREFIX: '.*nowhere/x_id_.* cannot be written"):
        LatencyWriter(LatencyReports(prefix=str(tmp_path / "nowhere" / "x")), io.StringIO())


RUN = """
import sluice
sluice.Pipeline(["test:ball?frames=5", "test:snow?frames=5"], model=None, messages=MESSAGES).run()
"""


@pytest.mark.parametrize("messages", [None, "-"])
def test_a_run_reports_all_frames(tmp_path: Path, messages: str | None) -> None:
    environment = {**os.environ, ENABLE: "1", COMPONENTS: "1", "NVDS_PERF_CSV_PREFIX": str(tmp_path / "perf")}
    code = RUN.replace("MESSAGES", repr(messages))
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    text, other = (done.stdout, done.stderr) if messages is None else (done.stderr, done.stdout)
    assert "BATCH-NUM" not in other
    assert text.count("Frame latency = ") == 10
    assert text.count("Comp name = sluiceinfer ") == text.count("BATCH-NUM = ")
    (frame,) = tmp_path.glob("perf_id_*_frame_*.csv")
    assert len(list(csv.DictReader(frame.open()))) == 10


NVIDIAS = """
import ctypes, sys, time
out, sys.stdout = sys.stdout, sys.stderr  # where the run's own texts go
import sluice
from gi.repository import Gst
from sluice.contract import gstref
from sluice.contract.latency import component_latencies
from sluice.contract.metadata import BatchMeta
from sluice.contract.provider import provider
from sluice.metrics.latency_records import as_text
with sluice.Pipeline(["test:ball?live=1", "test:snow?live=1"], model=None) as pipeline:
    pipeline.start()
    read = provider()._gst.nvds_measure_buffer_latency
    read.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    seen = []
    def look(_pad, info):
        buffer = info.get_buffer()
        if len(seen) < 5:
            print("theirs", file=out, flush=True)
            read(gstref.address(buffer), (ctypes.c_double * 64)())
            seen.append(component_latencies(BatchMeta.of(buffer)))
            print("ours" + as_text(0, seen[-1], []), file=out, flush=True)
        return Gst.PadProbeReturn.OK
    tracker = next(e for e in pipeline.elements if e.get_factory().get_name() == "sluicetracker")
    tracker.get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, look)
    while len(seen) < 5:
        time.sleep(0.05)
"""


@pytest.mark.skipif(
    importlib.util.find_spec("nvidia") is None or importlib.util.find_spec("nvidia.deepstream_videodecode") is None,
    reason="nvidia-deepstream-videodecode-cu13 is not installed",
)
def test_texts_are_those_of_nvidias_own_library() -> None:
    environment = {**os.environ, "SLUICE_PROVIDER": "nvidia", ENABLE: "1", COMPONENTS: "1"}
    done = subprocess.run(
        [sys.executable, "-c", NVIDIAS], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    parts = done.stdout.split("theirs\n")[1:]
    assert len(parts) == 5
    for part in parts:
        theirs, ours = part.split("ours\n", 1)
        assert "Comp name = sluiceinfer" in theirs
        assert [line for line in ours.splitlines() if line.startswith("Comp")] == theirs.splitlines()
