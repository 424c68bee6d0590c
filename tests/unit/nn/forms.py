"""The two forms of `fused_attention`, each to be had at any length and on any device."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal
from unittest.mock import patch

from dikkat.nn import functional

Form = Literal["kernel", "products"]
FORMS: tuple[Form, Form] = ("kernel", "products")


def taking(form: Form) -> AbstractContextManager[Any]:
    """PyTorch's fused kernel always, or what a CPU takes in full precision anyway."""
    return patch.object(functional, "takes_products", lambda *_, **__: False) if form == "kernel" else nullcontext()
