"""How fast embeddings are recorded and searched, on a processor.

    python bench/search.py [--entries 100000] [--size 512]

An archive of random vectors is written in a temporary folder; then it is searched with every vector compared, and by
the index, which is made once. Seconds are of the process's own time on all cores.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from sluice.search import Archive, Entry, Recorder


def timed(work, repeats: int = 5) -> float:
    """Median seconds of some calls."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times)


def record(folder: Path, table: np.ndarray) -> float:
    """Write all vectors; return the seconds it took."""
    recorder = Recorder(folder)
    began = time.process_time()
    for number, vector in enumerate(table):
        recorder.put(Entry(vector, stream=number % 8, name=f"cam{number % 8}", frame=number, pts=number, utc=number))
        while number - recorder.written > 3000:
            time.sleep(0.001)
    recorder.close()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=512)
    options = parser.parse_args()
    random = np.random.default_rng(1)
    table = random.normal(size=(options.entries, options.size)).astype(np.float32)
    with tempfile.TemporaryDirectory() as name:
        seconds = record(Path(name), table)
        print(f"recorded {options.entries / seconds:.0f} entries/s", flush=True)
        wanted = table[options.entries // 2] + 0.1 * random.normal(size=options.size)
        with Archive(name) as archive:
            archive.exact = options.entries
            print(f"every vector compared: {timed(lambda: archive.search(wanted)):.3f} s", flush=True)
            archive.exact = 10
            began = time.process_time()
            found = archive.search(wanted)
            print(f"index made and searched: {time.process_time() - began:.1f} s", flush=True)
            seconds = timed(lambda: archive.search(wanted))
            print(f"by the index, opened anew: {seconds:.3f} s; the nearest: {found[0].entry.frame}")
        kinds = {path.name: path.stat().st_size / 2**20 for path in Path(name).iterdir()}
        print(", ".join(f"{kind} {size:.0f} MiB" for kind, size in sorted(kinds.items())))


if __name__ == "__main__":
    main()
