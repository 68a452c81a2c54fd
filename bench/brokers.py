"""How each broker's delivery takes an outage: 200 messages a second, the server away for 20 s, our process killed.

    .venv/bin/python bench/brokers.py [--outage 20] [--rate 200] [BROKER ...]

A process sends; ten seconds later its server stops, in the middle of the outage the process is killed (-9) and started
again, and ten seconds after the server is back the last message is given. Printed per broker: messages given, messages
lost beside those in the queue in memory at the moment of the kill, the same for that queue, messages out of order,
duplicates, the longest `put` (what a streaming thread would have waited) beside the longest that the process was late
for another reason (a busy machine), and how many messages of 300 bytes a second the delivery brings through the spool
to the broker.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path

# In place of this folder, whose modules would hide the tests' packages.
sys.path[0] = str(Path(__file__).parents[1] / "tests")

from messages.brokers.sender import STREAMS
from messages.brokers.sending import Sender, firsts, numbers
from messages.brokers.servers import SERVERS
from sluice.messages import Overflow, Writer
from sluice.messages.brokers import from_url, open_delivery

AROUND = 10.0  # seconds of sending before and after the outage
COLUMNS = (
    "broker",
    "given",
    "lost",
    "lost from memory at the kill",
    "out of order",
    "duplicates",
    "longest put",
    "longest pause of the machine",
    "speed",
)
PAYLOADS = 5000
PAYLOAD = json.dumps({"stream": 0, "text": "x" * 270}).encode()


def outage(server, folder: Path, seconds: float, rate: float) -> list[str]:
    """Run the outage; return the columns of the table."""
    spool = folder / "spool.db"
    one = Sender(server.url, spool, 0, 1_000_000, rate)
    one.wait_given(int(AROUND * rate))
    server.stop()
    away = time.monotonic()
    time.sleep(seconds / 2)
    given, on_disk = one.kill()
    second = given + 1
    count = int((seconds / 2 + AROUND) * rate)
    two = Sender(server.url, spool, second, count, rate)
    time.sleep(max(0.0, away + seconds - time.monotonic()))
    server.start()
    counters = two.finish()
    found = numbers(server.read())
    missing = set(range(second + count)) - set(found)
    in_memory = missing & set(range(on_disk, second))
    disorder = 0
    for stream in range(STREAMS):
        seen = firsts(number for number in found if number % STREAMS == stream)
        disorder += sum(after < before for before, after in itertools.pairwise(seen))
    return [
        f"{second + count}",
        f"{len(missing - in_memory)}",
        f"{len(in_memory)}",
        f"{disorder}",
        f"{len(found) - len(set(found))}",
        f"{counters['longest_put'] * 1000:.1f} ms",
        f"{counters['longest_late'] * 1000:.1f} ms",
    ]


def throughput(server, folder: Path) -> str:
    """Return messages a second, all acknowledged."""
    delivery = open_delivery(
        from_url(server.url), spool=str(folder / "speed.db"), patience=300, on_away=print, on_refused=print
    )
    writer = Writer(delivery, capacity=PAYLOADS, overflow=Overflow.WAIT, on_error=print)
    delivery.wait_connected(30)
    start = time.monotonic()
    for _ in range(PAYLOADS):
        writer.put(PAYLOAD)
    while delivery.counters.acknowledged < PAYLOADS:
        time.sleep(0.005)
    seconds = time.monotonic() - start
    writer.close(10)
    return f"{PAYLOADS / seconds:,.0f}/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("brokers", nargs="*", metavar="BROKER", help=", ".join(SERVERS))
    parser.add_argument("--outage", type=float, default=20.0, help="seconds")
    parser.add_argument("--rate", type=float, default=200.0, help="messages a second")
    options = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for name in options.brokers or SERVERS:
        with tempfile.TemporaryDirectory() as folder:
            server = SERVERS[name](Path(folder))
            try:
                server.start()
                server.prepare()
                columns = outage(server, Path(folder), options.outage, options.rate)
                print(f"| {name} | {' | '.join(columns)} | {throughput(server, Path(folder))} |", flush=True)
            finally:
                server.close()


if __name__ == "__main__":
    main()
