"""Other Python threads beside what is measured, as a program around a pipeline may have them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def busy_threads(count: int) -> Iterator[None]:
    """Run threads that do nothing but Python arithmetic, and so hold the interpreter as much as they may."""
    stop = threading.Event()

    def spin() -> None:
        number = 0
        while not stop.is_set():
            number = (number * 3 + 1) % 1_000_003

    threads = [threading.Thread(target=spin, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
