"""The two forms of `fused_attention`, each to be had at any length and on any device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal
from unittest.mock import patch

from dikkat import kernels
from dikkat.kernels import attention

Form = Literal["kernel", "products"]
FORMS: tuple[Form, Form] = ("kernel", "products")


@contextmanager
def _pytorch_alone() -> Iterator[None]:
    with kernels.use("torch"), patch.object(attention, "takes_matmul", lambda *_: False):
        yield


def taking(form: Form) -> AbstractContextManager[Any]:
    """PyTorch's fused kernel always, or what a CPU takes in full precision anyway."""
    return _pytorch_alone() if form == "kernel" else nullcontext()
