"""Record attention weights from outside: fused kernels stay on, and only the maps asked for are computed."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from dikkat.nn.multi_head_attention import MultiHeadAttention


class MapName(NamedTuple):
    """The origin of a map: stack ("encoder", "decoder", …), layer from 0, kind."""

    stack: str
    layer: int
    kind: Literal["self", "cross"]


@contextmanager
def record_attention(
    model: nn.Module, wanted: Callable[[MapName], bool] = lambda name: True
) -> Iterator[dict[MapName, list[Tensor]]]:
    """Record the weights of every attention in `model` whose name is `wanted`, those of PyTorch's own layers included.

    Yields a dictionary that fills while the body runs: one (B, H, T, S) float32 tensor a forward call, in order,
    detached from the graph and owned by the dictionary alone. An attention that is not run has no entry. Weights are
    those before dropout. In stepwise decoding each call adds one row (T = 1); the cross-attention rows of one
    sentence's hypotheses come as its T queries. Raises `ValueError` if two attentions of `model` would get one name.
    """
    attentions: dict[MapName, MultiHeadAttention | nn.MultiheadAttention] = {}
    for path, module in model.named_modules():
        is_attention = isinstance(module, MultiHeadAttention | nn.MultiheadAttention)
        if is_attention and wanted(name := name_of(path)):
            if name in attentions:
                raise ValueError(
                    f"two attentions are both called {name}, the second at {path!r}: record one part alone"
                )
            attentions[name] = module
    maps: dict[MapName, list[Tensor]] = {}
    with ExitStack() as handles:
        for name, module in attentions.items():
            append = partial(_append, maps, name)
            if isinstance(module, MultiHeadAttention):
                handles.callback(module.read_weights(append).remove)
            else:
                handles.enter_context(_weights_of_torch(module, append))
        yield maps


@contextmanager
def _weights_of_torch(module: nn.MultiheadAttention, take: Callable[[Tensor], None]) -> Iterator[None]:
    """Let an attention of PyTorch return the weights of each head, which its layers do not ask for."""

    def ask(_: nn.Module, args: Any, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args[:4], {**settings, "need_weights": True, "average_attn_weights": False}

    def answer(_: nn.Module, args: Any, output: tuple[Tensor, Tensor]) -> None:
        weights = output[1].detach().float()
        take(weights if weights.ndim == 4 else weights[None])

    # the fused path of an encoder layer calls no module
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    handles = [module.register_forward_pre_hook(ask, with_kwargs=True), module.register_forward_hook(answer)]
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        for handle in handles:
            handle.remove()


def _append(maps: dict[MapName, list[Tensor]], name: MapName, weights: Tensor) -> None:
    maps.setdefault(name, []).append(weights)


def name_of(path: str) -> MapName:
    """Return the name of the attention module at `path`, such as `encoder.blocks.0.self_attention`.

    The stack is what holds the list of blocks, so a wrapper around the model (`module.encoder.blocks.0…`) changes
    nothing.
    """
    parts = path.split(".")
    # PyTorch's decoder layer calls its cross-attention so
    kind: Literal["self", "cross"] = "cross" if {"cross_attention", "multihead_attn"} & set(parts) else "self"
    position = next((index for index, part in enumerate(parts) if part.isdigit()), None)
    if position is None:
        return MapName(parts[0], 0, kind)
    return MapName(parts[max(0, position - 2)], int(parts[position]), kind)
