"""Threads for models, used again by the next model when the one before has ended.

PyTorch keeps cuDNN's plans for each thread, and what they have taken is not given back when the thread ends: 55 MB of
the host's memory for YOLO26n and one batch size (PyTorch 2.11 on an H200, see docs/gpu-results.md). A model that is
changed every hour would fill the memory in days, were each on a new thread. On a used one the plans are found.
"""

from __future__ import annotations

import contextvars
import queue
import re
import sys
import threading
from collections.abc import Callable

MOST_SPARE = 2
"""Threads of a device that wait for a next model: one is needed for a change, as the old model works meanwhile."""


class ModelThread:
    """A function that runs on a thread which may have run others before.

    The thread is a daemon: a call that hangs can't keep the process alive.

    Args:
        body: what is run; it lets no exception out.
        name: the thread's name meanwhile.
        device: where the model is executed, as sluiceinfer's property says it; its threads are for that device alone.
    """

    def __init__(self, body: Callable[[], None], name: str, device: str = "auto") -> None:
        self.name, self.device = name, device
        self._body: Callable[[], None] | None = body
        self._over = threading.Event()
        with _lock:
            spare = _spare.get(device)
            thread = spare.pop() if spare else None
        (thread or _Thread()).jobs.put(self)

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the function, for so many seconds at most."""
        self._over.wait(timeout)

    def is_alive(self) -> bool:
        """Whether the function has not ended yet."""
        return not self._over.is_set()

    def run(self, thread: _Thread) -> bool:
        """Run the function, on `thread`; return whether that waits for a next one."""
        body, self._body = self._body, None
        assert body is not None
        stays = False
        try:
            contextvars.Context().run(body)
            del body  # who waits may look whether the model is gone
            stays = _as_new(self.device) and _spared(thread, self.device)
        finally:
            self._over.set()
        return stays


class _Thread:
    """A thread and the functions that it is given."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[ModelThread] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="model thread", daemon=True).start()

    def _run(self) -> None:
        while self._next():
            pass

    def _next(self) -> bool:
        current = threading.current_thread()
        current.name = "spare model thread"
        job = self.jobs.get()
        current.name = job.name
        return job.run(self)


_lock = threading.Lock()
_spare: dict[str, list[_Thread]] = {}


def _spared(thread: _Thread, device: str) -> bool:
    """Keep a thread for the next model of a device unless enough are kept."""
    with _lock:
        spare = _spare.setdefault(device, [])
        keep = len(spare) < MOST_SPARE
        if keep:
            spare.append(thread)
    return keep


def _as_new(device: str) -> bool:
    """Whether PyTorch is set on this thread as a device's model is given it; a model may have left it otherwise."""
    torch = sys.modules.get("torch")
    if torch is None:
        return True
    try:
        changed = [
            not torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"),
            torch.empty(0).device.type != "cpu",
        ]
        if torch.cuda.is_initialized():
            number = re.fullmatch(r"cuda:(\d+)", device)
            changed += [
                torch.cuda.current_device() != int(number[1] if number else 0),
                torch.cuda.current_stream() != torch.cuda.default_stream(),
            ]
    except (AttributeError, TypeError, RuntimeError):
        # Another thread imports it just now, it is older than 2.4, or the GPU has failed and says so at every call.
        return False
    return not any(changed)
