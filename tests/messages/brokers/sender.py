"""Sends numbered messages of three streams, as a program that can be killed.

Usage: sender.py URL SPOOL FIRST COUNT RATE. Prints "NUMBER-PUT NUMBER-ON-DISK" after each message, then waits until all
are acknowledged, and prints the counters as JSON.
"""

import json
import sys
import time

from sluice.messages import Overflow, Writer
from sluice.messages.brokers import from_url, open_delivery

STREAMS = 3


def payload(number: int) -> bytes:
    return json.dumps({"stream": number % STREAMS, "n": number}).encode()


def main(url: str, spool: str, first: int, count: int, rate: float) -> None:
    def tell(text: str) -> None:
        print(f"sender: {text}", file=sys.stderr, flush=True)

    endpoint = from_url(url)
    delivery = open_delivery(endpoint, spool=spool, patience=60, on_away=tell, on_refused=tell)
    writer = Writer(delivery, capacity=4096, overflow=Overflow.WAIT, on_error=lambda error: tell(str(error)))
    start = time.monotonic()
    longest = late = 0.0
    for place in range(count):
        time.sleep(max(0.0, wait := start + place / rate - time.monotonic()))
        if wait > 0:
            late = max(late, time.monotonic() - start - place / rate)
        before = time.monotonic()
        writer.put(payload(first + place))
        longest = max(longest, time.monotonic() - before)
        print(first + place + 1, first + writer.counters.written, flush=True)
    writer.close(60)
    counters = {**vars(writer.counters), **vars(delivery.counters)}
    print(json.dumps({**counters, "longest_put": longest, "longest_late": late}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
