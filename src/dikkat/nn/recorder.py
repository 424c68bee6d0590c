"""Record attention weights from outside: fused kernels stay on, and only the maps asked for are computed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Literal, NamedTuple

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
    """Record the weights of every attention in `model` whose name is `wanted`.

    Yields a dictionary that fills while the body runs: one (B, H, T, S) float32 tensor a forward call, in order,
    detached from the graph and owned by the dictionary alone. An attention that is not run has no entry. Weights are
    those before dropout. In stepwise decoding each call adds one row (T = 1); the cross-attention rows of one
    sentence's hypotheses come as its T queries. Raises `ValueError` if two attentions of `model` would get one name.
    """
    attentions: dict[MapName, MultiHeadAttention] = {}
    for path, module in model.named_modules():
        if isinstance(module, MultiHeadAttention) and wanted(name := name_of(path)):
            if name in attentions:
                raise ValueError(
                    f"two attentions are both called {name}, the second at {path!r}: record one part alone"
                )
            attentions[name] = module
    maps: dict[MapName, list[Tensor]] = {}
    handles = [module.read_weights(partial(_append, maps, name)) for name, module in attentions.items()]
    try:
        yield maps
    finally:
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
    kind: Literal["self", "cross"] = "cross" if "cross_attention" in parts else "self"
    position = next((index for index, part in enumerate(parts) if part.isdigit()), None)
    if position is None:
        return MapName(parts[0], 0, kind)
    return MapName(parts[max(0, position - 2)], int(parts[position]), kind)
