"""Record the attention maps of one text, after a check that they fit into memory."""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import nn

from dikkat.explain.attention_map import AttentionMap, Kind, Stack, axes_of, require_known_map
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.recorder import MapName, name_of, record_attention
from dikkat_runtime.errors import DataError

MAX_TOKENS = 5000
"""Limit of the tokens of one side of a text. It is checked before a text is translated for its maps."""
MAX_WEIGHTS = 2**28
"""Limit of the attention weights of one sentence: 1 GiB in float32, two layers of four heads on 5,000 tokens."""

Wanted = Callable[[MapName], bool]


def everything(name: MapName) -> bool:
    """Return True: every map is wanted."""
    return True


def require_short(tokens: int, limit: int = MAX_TOKENS) -> None:
    """Raise `DataError` for a text of more than `limit` tokens."""
    if tokens > limit:
        raise DataError("the text has {tokens:,} tokens, over the limit of {limit:,}; shorten it", tokens, limit)


class AttentionRecorder:
    """Record the attention weights of `model`.

    Fused kernels stay on: only the maps that are `wanted` are computed a second time, as matrices.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        modules = model.named_modules()
        self._heads = {name_of(path): part.num_heads for path, part in modules if isinstance(part, MultiHeadAttention)}

    @property
    def layers(self) -> dict[tuple[Stack, Kind], int]:
        """Count the layers of each kind of attention, in the order of the model."""
        counts: dict[tuple[Stack, Kind], int] = {}
        for name in self._heads:
            stack_and_kind = cast(Stack, name.stack), name.kind
            counts[stack_and_kind] = max(counts.get(stack_and_kind, 0), name.layer + 1)
        return counts

    def choose(self, stack: Stack, kind: Kind, layer: int | None = None, head: int | None = None) -> Wanted:
        """Return the filter that lets the maps of one attention, layer and head pass.

        Layers and heads are numbered from 0; None stands for every one. Raises `UsageError`, whose message counts from
        1 and lists the choices that this model has.
        """
        known = [
            (cast(Stack, name.stack), name.kind, name.layer, number)
            for name, heads in self._heads.items()
            for number in range(heads)
        ]
        require_known_map(known, stack, kind, layer, head)
        return lambda name: (name.stack, name.kind) == (stack, kind) and layer in (None, name.layer)

    def record(
        self, compute: Callable[[], object], reads: Sequence[str], writes: Sequence[str], wanted: Wanted = everything
    ) -> tuple[AttentionMap, ...]:
        """Run `compute` once on one text and return the attention maps that it made.

        `reads` are the S source tokens, `writes` the T tokens that the decoder is fed. Raises `DataError` where the
        wanted maps hold more than `MAX_WEIGHTS` weights.
        """
        source, output = tuple(reads), tuple(writes)
        self._check_size(len(source), len(output), wanted)
        with torch.inference_mode(), record_attention(self.model, wanted) as recorded:
            compute()
        maps = []
        for name, (weights,) in recorded.items():
            stack = cast(Stack, name.stack)
            queries, keys = axes_of(stack, name.kind, source, output)
            for head, head_weights in enumerate(weights[0].float().cpu().numpy()):
                maps.append(AttentionMap(head_weights, queries, keys, stack, name.layer, head, name.kind))
        return tuple(maps)

    def _check_size(self, reads: int, writes: int, wanted: Wanted) -> None:
        sizes = [
            heads * rows * columns
            for name, heads in self._heads.items()
            if wanted(name)
            for rows, columns in [axes_of(cast(Stack, name.stack), name.kind, reads, writes)]
        ]
        if sum(sizes) > MAX_WEIGHTS:
            both = " and ".join(f"{count:,} {side}" for count, side in ((reads, "source"), (writes, "output")) if count)
            raise DataError(
                "the maps of {tokens} tokens hold {weights:,} weights, over the limit of {limit:,}; choose a "
                "kind and one layer, or shorten the text"
            ).fill(both, sum(sizes), MAX_WEIGHTS)
