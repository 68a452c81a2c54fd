"""What becomes of the memory of large pictures."""

import subprocess
import sys

import pytest

# Blocks of a frame's size with a small one between each: freed, they are holes in an arena, unless they lie apart.
LINES = """
import ctypes, os, sys
from sluice.app.allocation import PICTURE_BYTES, keep_pictures_apart

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
said = keep_pictures_apart()
libc.free(libc.malloc(8 * PICTURE_BYTES))  # as some larger block was before
before = resident()
frames = []
for _ in range(20):
    frames.append(libc.malloc(PICTURE_BYTES + 1))
    ctypes.memset(frames[-1], 1, PICTURE_BYTES)
    libc.malloc(100_000)
for frame in frames:
    libc.free(frame)
print(said, round(resident() - before))
"""


@pytest.mark.parametrize(("setting", "said"), [({}, True), ({"MALLOC_MMAP_THRESHOLD_": "30000000"}, False)])
def test_memory_of_freed_pictures_goes_back_to_the_system(monkeypatch, setting, said):
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    found = subprocess.run([sys.executable, "-c", LINES], check=True, capture_output=True, text=True).stdout.split()
    assert found[0] == str(said)
    assert (int(found[1]) < 10) == said
