"""Compiles every Triton kernel for NVIDIA's GPUs, which needs none, and prints their names; see test_gpu_compile.py."""

from __future__ import annotations

import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from sluice.models.gpu import kernels, masks, preprocess
from sluice.models.gpu.table import FLOATS, ROW

MASKS = {
    "values": "*fp16",
    "places": "*i64",
    "weights": "*fp32",
    "samples": "*fp64",
    "cells": "*i64",
    "pixels": "*i64",
    "packed": "*u8",
    "targets": "*i64",
    "seen": "*i32",
}
POINTERS = {
    kernels.letterbox_kernel: {"table": "*i64", "floats": "*fp32", "target": "*fp16"},
    kernels.suppression_kernel: dict.fromkeys(("boxes", "scores", "classes", "kept"), "*fp32") | {"iou": "fp32"},
    kernels.mask_kernel: MASKS,
    kernels.visible_kernel: MASKS,
}
SHARED = {"CHANNELS": 32, "BLOCK": masks.BLOCK, "PROGRAMS": masks.PROGRAMS, "FEW": 16}
CONSTANTS = {
    kernels.letterbox_kernel: {"ROW": ROW, "FLOATS": FLOATS, "ROUND": False, "BLOCK": preprocess.BLOCK},
    kernels.suppression_kernel: {"AGNOSTIC": False, "BLOCK": 1024},
    kernels.mask_kernel: SHARED,
    kernels.visible_kernel: SHARED,
}


def compiled(kernel, capability: int) -> bytes:
    """A kernel's machine code for a compute capability such as 90; its numbers are int32."""
    names = kernel.arg_names
    constants = {(names.index(name),): value for name, value in CONSTANTS[kernel].items() if name in names}
    types = {n: "constexpr" if n in CONSTANTS[kernel] else POINTERS[kernel].get(n, "i32") for n in names}
    made = triton.compile(ASTSource(kernel, types, constants), target=GPUTarget("cuda", capability, 32))
    return made.asm["cubin"]


if __name__ == "__main__":
    for kernel in POINTERS:
        assert compiled(kernel, int(sys.argv[1])), kernel
        print(kernel.__name__)
