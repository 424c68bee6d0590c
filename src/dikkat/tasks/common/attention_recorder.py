"""The maps of one text by one model: which there are, whether they fit into memory, and the recording itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import nn

from dikkat.explain.attention_map import AttentionMap, Kind, Stack
from dikkat.explain.sentence_maps import axes_of, require_place
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.recorder import MapName, name_of, record_attention
from dikkat_runtime.errors import DataError

MOST_TOKENS = 5000
"""Of one side of a text: what is refused for its maps should not be translated first."""
MOST_WEIGHTS = 2**28
"""Of one sentence, 1 GiB in float32: two layers of four heads on 5,000 tokens."""

Wanted = Callable[[MapName], bool]


def everything(name: MapName) -> bool:
    """Wants every map."""
    return True


def require_short(tokens: int) -> None:
    """Raise `DataError` for a text of more than `MOST_TOKENS` tokens."""
    if tokens > MOST_TOKENS:
        raise DataError(f"the text has {tokens:,} tokens, over the limit of {MOST_TOKENS:,}; shorten it")


class AttentionRecorder:
    """Records the attention of `model`; fused kernels stay on, only what is `wanted` is computed again."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        modules = model.named_modules()
        self._heads = {name_of(path): part.num_heads for path, part in modules if isinstance(part, MultiHeadAttention)}

    @property
    def layers(self) -> dict[tuple[Stack, Kind], int]:
        """How many layers each kind of attention has, in the order of the model."""
        found: dict[tuple[Stack, Kind], int] = {}
        for name in self._heads:
            place = cast(Stack, name.stack), name.kind
            found[place] = max(found.get(place, 0), name.layer + 1)
        return found

    def choose(self, stack: Stack, kind: Kind, layer: int | None = None, head: int | None = None) -> Wanted:
        """What is `wanted` for maps of one attention, layer and head from 0 (None: every one).

        Raises `UsageError`, which counts from 1, with the choices that this model has.
        """
        places = [
            (cast(Stack, name.stack), name.kind, name.layer, number)
            for name, heads in self._heads.items()
            for number in range(heads)
        ]
        require_place(places, stack, kind, layer, head)
        return lambda name: (name.stack, name.kind) == (stack, kind) and layer in (None, name.layer)

    def record(
        self, compute: Callable[[], object], reads: Sequence[str], writes: Sequence[str], wanted: Wanted = everything
    ) -> tuple[AttentionMap, ...]:
        """The maps of `compute`, which runs the model once on one text: S tokens it reads, T that its decoder is fed.

        Raises `DataError` where the wanted maps hold more than `MOST_WEIGHTS` weights.
        """
        source, output = tuple(reads), tuple(writes)
        self._require_room(len(source), len(output), wanted)
        with torch.inference_mode(), record_attention(self.model, wanted) as recorded:
            compute()
        maps = []
        for name, (weights,) in recorded.items():
            stack = cast(Stack, name.stack)
            queries, keys = axes_of(stack, name.kind, source, output)
            for head, each in enumerate(weights[0].float().cpu().numpy()):
                maps.append(AttentionMap(each, queries, keys, stack, name.layer, head, name.kind))
        return tuple(maps)

    def _require_room(self, reads: int, writes: int, wanted: Wanted) -> None:
        sizes = [
            heads * rows * columns
            for name, heads in self._heads.items()
            if wanted(name)
            for rows, columns in [axes_of(cast(Stack, name.stack), name.kind, reads, writes)]
        ]
        if sum(sizes) > MOST_WEIGHTS:
            both = " and ".join(f"{count:,} {side}" for count, side in ((reads, "source"), (writes, "output")) if count)
            raise DataError(
                f"the maps of {both} tokens hold {sum(sizes):,} weights, over the limit"
                f" of {MOST_WEIGHTS:,}; choose a kind and one layer, or shorten the text"
            )
