"""Switch heads off and let the model run without them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.recorder import MapName, name_of
from dikkat_runtime.errors import UsageError
from dikkat_runtime.messages import joined, msg


class HeadName(NamedTuple):
    """Name one head; layer and head are counted from 0, shown from 1."""

    stack: str
    layer: int
    kind: Literal["self", "cross"]
    head: int

    def __str__(self) -> str:
        return msg("{stack} layer {layer}, {kind}, head {head}").fill(
            msg(self.stack), self.layer + 1, self.kind, self.head + 1
        )


def head_names(model: nn.Module) -> list[HeadName]:
    """Return every head of `model`, in the order of its modules."""
    return [HeadName(*name, head) for name, module in _attentions(model).items() for head in range(module.num_heads)]


@contextmanager
def without_heads(model: nn.Module, heads: Collection[HeadName]) -> Iterator[None]:
    """Set the outputs of `heads` to zero, before the output projection, while the body runs.

    The same as zeros in the columns of that projection which read these heads (Michel et al. 2019, section 2.3), in
    training, evaluation and stepwise decoding; no weight is touched, and the other heads compute what they always do.
    Raises `UsageError` for a head that `model` does not have.
    """
    attentions = _attentions(model)
    known = head_names(model)
    off: dict[MapName, list[int]] = {}
    for head in heads:
        if head not in known:
            raise UsageError("there is no head {head}; choose from {choices}").fill(head, _choices(known))
        off.setdefault(MapName(head.stack, head.layer, head.kind), []).append(head.head)
    with ExitStack() as handles:
        for name, numbers in off.items():
            module = attentions[name]
            hook = _silencer(module, numbers)
            handles.enter_context(module.out_projection.register_forward_pre_hook(hook))
        yield


def _silencer(module: MultiHeadAttention, heads: list[int]) -> Callable[[nn.Module, tuple[Tensor, ...]], Tensor]:
    off = torch.zeros(module.num_heads, dtype=torch.bool, device=next(module.parameters()).device)
    off[heads] = True
    # (H,) -> (H * K,)
    columns = off.repeat_interleave(module.head_dim)
    # filled, not multiplied: zero times infinity is not a number
    return lambda _, inputs: inputs[0].masked_fill(columns, 0.0)


def _attentions(model: nn.Module) -> dict[MapName, MultiHeadAttention]:
    return {name_of(path): module for path, module in model.named_modules() if isinstance(module, MultiHeadAttention)}


def _choices(known: list[HeadName]) -> str:
    """For example: encoder self (3 layers of 4 heads), decoder self (3 layers of 4 heads), …"""
    last: dict[tuple[str, str], HeadName] = {(name.stack, name.kind): name for name in known}
    return joined(
        ", ",
        (
            msg("{stack} {kind} ({layer} layers of {head} heads)").fill(msg(stack), kind, name.layer + 1, name.head + 1)
            for (stack, kind), name in last.items()
        ),
    )
