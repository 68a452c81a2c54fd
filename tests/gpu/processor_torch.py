"""PyTorch for an engine without a GPU: streams and events that are done at once, and memory that is not pinned."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import torch


class Stream:
    """A stream, and an event on it, of a processor."""

    cuda_stream = 0

    def __init__(self, *_arguments):
        self.waits = 0

    def synchronize(self):
        self.waits += 1

    def record(self, _stream):
        pass

    def query(self):
        return True


class ProcessorTorch:
    """The module torch, but for what needs a GPU; graphs cannot be had."""

    cuda = SimpleNamespace(
        Stream=Stream, Event=Stream, stream=lambda _stream: contextlib.nullcontext(), device=contextlib.nullcontext
    )

    def __getattr__(self, name):
        return getattr(torch, name)

    @staticmethod
    def zeros(*shape, pin_memory=False, **more):
        return torch.zeros(*shape, **more)

    @staticmethod
    def empty(*shape, pin_memory=False, **more):
        return torch.empty(*shape, **more)
