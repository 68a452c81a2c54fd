"""Other processes of this program: started with a socket to talk over, so that no command line tells what they do."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection


class Spawned:
    """A process that runs a module of ours, in a session of its own.

    Ctrl-C reaches the process that started it alone, which then ends all in order.

    Attributes:
        process: the process.
        connection: what is sent here is received by whoever called `connect` there, and the other way round.
    """

    def __init__(self, module: str, passed: Sequence[int] = ()) -> None:
        """Start ``python -m MODULE FD``, where `connect` takes FD.

        Args:
            module: of this package.
            passed: file descriptors that it is to have under the same numbers.
        """
        ours, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno(), *passed],
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        )
        theirs.close()
        self.connection = Connection(ours.detach())
        with contextlib.suppress(OSError):  # it may have ended already, which is seen at the first receipt
            self.connection.send(list(sys.path))


def connect(descriptor: int) -> Connection:
    """Return the connection to the process that started this one, and look for modules where that one does.

    Signals that end a program are the other process's affair: a terminal and systemd send them to both.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave_to_the_other)  # not SIG_IGN, which programs started from here would keep
    connection = Connection(descriptor)
    sys.path[:] = connection.recv()  # before anything of the user's is imported
    return connection


def how_it_ended(status: int) -> str:
    """Say how a process ended, by the exit status that `subprocess` tells."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal has no name
        return f"killed by signal {-status}"


def _leave_to_the_other(*_: object) -> None:
    """Do nothing."""
