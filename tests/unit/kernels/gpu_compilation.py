"""Compiles every Triton kernel for an H100 or H200, as the functions of `dikkat.kernels.gpu` launch it, without a GPU.

A process of its own, since Triton decides once in a process whether it compiles kernels or interprets them. One line of
JSON for each kernel compiled, of `python -m tests.unit.kernels.gpu_compilation`; tensors are shapes without memory.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from dikkat.kernels.calls import adjacent
from dikkat.kernels.gpu import attention, columns, cross_entropy, dropout, layer_norm
from dikkat.kernels.gpu.probe import launch_all

TARGET = GPUTarget("cuda", 90, 32)


class _AbsentGpu:
    """What Triton asks the driver of a GPU before it compiles."""

    def get_current_target(self) -> GPUTarget:
        return TARGET

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def compiled(launch: Any) -> list[Any]:
    """All kernels that a call of a function launches, compiled and not started."""
    kernels, run = [], JITFunction.run

    def compile_only(self: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        kernels.append(run(self, *arguments, grid=grid, warmup=True, **options))

    JITFunction.run = compile_only
    try:
        launch()
    finally:
        JITFunction.run = run
    return kernels


def usage(kernel: Any) -> dict[str, Any]:
    """Registers of a thread and bytes spilled, as the assembler of CUDA tells them, and bytes of shared memory."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(kernel.asm["ptx"])
        assembler = triton.knobs.nvidia.ptxas.path
        command = [assembler, "-v", "--gpu-name=sm_90a", str(source), "-o", str(source.with_suffix(".cubin"))]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers, stores = (int(re.findall(rf"(\d+) {what}", told)[-1]) for what in ("registers", "bytes spill stores"))
    return {
        "kernel": kernel.name,
        "warps": kernel.metadata.num_warps,
        "shared": kernel.metadata.shared,
        "registers": registers,
        "spilled": stores,
        "cubin": len(kernel.asm["cubin"]),
    }


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def launches() -> Iterator[tuple[str, Any]]:
    """A name and a call for every kernel, type and tile that occurs in training."""
    yield "probe", lambda: launch_all(torch.device("meta"), torch.bfloat16)
    for dtype in (torch.bfloat16, torch.float32):
        of = str(dtype).removeprefix("torch.")
        for entries in (2, 100, 32000):
            logits, targets = empty(8192, entries, dtype=dtype), empty(8192, dtype=torch.int64)
            yield f"loss {of} {entries}", lambda x=logits, y=targets: cross_entropy.smoothed_softmax(x, y, 0.1)
        for seed in (3, 2**31, 2**62):
            x = empty(1000, 512, dtype=dtype)
            for residual in (None, x):
                call = lambda x=x, y=residual, seed=seed: dropout.add_dropped(y, x, seed, -26214, 1.1)  # noqa: E731
                yield f"dropout {of} {seed} {'alone' if residual is None else 'added'}", call
        for width in (16, 40, 512, 1000, 1024, 4096):
            yield f"norm {of} {width}", lambda dtype=dtype, width=width: _normalize(dtype, width)
        for width in (24, 200, 512, 2048):
            for kept in (dtype, torch.float32):
                rows, sums = empty(5000, width, dtype=dtype), empty(width, dtype=kept)
                yield f"sum {of} {width} {kept}", lambda x=rows, s=sums: columns.sum_rows(x, s)
                yield f"gated {of} {width} {kept}", lambda x=rows, s=sums: columns.sum_gated_rows(x, x, s)
    for queries, keys in ((1, 16), (33, 64), (65, 128)):
        for width in (8, 24, 32, 64):
            yield f"attention {queries} {keys} {width}", lambda q=queries, k=keys, w=width: _attend(q, k, w)


def _normalize(dtype: torch.dtype, width: int) -> None:
    x, weight = empty(5000, width, dtype=dtype), empty(width, dtype=dtype)
    _, statistics = layer_norm.forward(x, weight, weight, 1e-5)
    layer_norm.backward(x, x, weight, statistics)


def _attend(queries: int, keys: int, width: int) -> None:
    query, key = (empty(8, length, 8, width).transpose(1, 2) for length in (queries, keys))
    mask = empty(8, 1, 1, keys, dtype=torch.bool).expand(8, 8, queries, keys)
    attention.attention_forward(query, key, key, mask, 0.125)
    attention.attention_backward(query, query, key, key, mask, 0.125, [*adjacent(query), *adjacent(key, key)])


def main() -> None:
    triton.runtime.driver.set_active(_AbsentGpu())
    seen = set()
    for name, call in launches():
        try:
            kernels = compiled(call)
        except Exception as error:
            print(json.dumps({"launch": name, "error": f"{type(error).__name__}: {error}"}), flush=True)
            continue
        for kernel in kernels:
            if kernel.hash not in seen:
                seen.add(kernel.hash)
                print(json.dumps({"launch": name, **usage(kernel)}), flush=True)


if __name__ == "__main__":
    main()
