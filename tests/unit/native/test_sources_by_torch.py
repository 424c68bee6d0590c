"""What rows attend to in sources of every length, against float64, also after sentences have moved."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dikkat.native.layers import LinearWeights
from dikkat.native.layers_by_torch import PackedLinear
from dikkat.native.sources_by_torch import SourcesByTorch

pytestmark = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="PyTorch has no products of packed bfloat16 here"
)

LAYERS, HEADS, WIDTH = 2, 2, 16
BETA = 0.7
LENGTHS = {
    "of one length": [5] * 9,
    "of several, in no order": [3, 70, 21, 5, 40, 9] * 20,
    "a few long ones": [90, 3, 60] + [4] * 50,
    "more than a multiple of sixteen by little": [19, 18, 17] * 14 + [1] * 40,
}


def begun(lengths: list[int], places: int, rows: int) -> tuple[SourcesByTorch, Tensor, Tensor]:
    """The sources, and their keys and values (L, 2, B, S, H, K) in float64 with the mask (B, S)."""
    generator = torch.Generator().manual_seed(len(lengths))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    memory = torch.randn(*mask.shape, WIDTH, generator=generator) * mask.unsqueeze(2)
    weight = torch.randn(2 * LAYERS * WIDTH, WIDTH, generator=generator) / 4
    product = PackedLinear(LinearWeights(weight, torch.randn(len(weight), generator=generator)))
    made = product(memory.to(torch.bfloat16).flatten(0, 1)).double().view(*mask.shape, LAYERS, 2, HEADS, -1)
    found = SourcesByTorch(product, (LAYERS, HEADS), memory, mask, places, rows)
    return found, made.permute(2, 3, 0, 1, 4, 5), mask


def wanted(held: Tensor, mask: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """Of keys and values (2, B, S, H, K) and queries (B, rows, H, K): weights (B, rows, H, S), and what is read."""
    scores = torch.einsum("brhk,bshk->brhs", query.double(), held[0]) * BETA
    weights = scores.masked_fill(~mask[:, None, None], -torch.inf).softmax(-1)
    return weights, torch.einsum("brhs,bshk->brhk", weights, held[1])


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("kind", LENGTHS)
@torch.no_grad()
def test_rows_attend_to_their_own_source(kind: str, rows: int) -> None:
    lengths = LENGTHS[kind]
    sources, held, mask = begun(lengths, len(lengths) + 5, rows)
    staying = list(range(len(lengths)))
    places = dict(zip(staying, sources.places, strict=True))
    assert sorted(places.values()) == staying
    while True:
        room = max(places.values()) + 1
        query = torch.randn(room + (5 if len(staying) == len(lengths) else 0), rows, HEADS, WIDTH // HEADS).bfloat16()
        flat = query.view(-1, WIDTH)
        rows_of = torch.tensor([places[sentence] for sentence in staying])
        for layer in range(LAYERS):
            weights, read = wanted(held[layer][:, staying], mask[staying], query[rows_of])
            found = sources.attend(flat, layer, BETA).view_as(query)
            assert not found.isnan().any()
            torch.testing.assert_close(found[rows_of].double(), read, atol=0.03, rtol=0.03)
            seen = sources.weights(flat, layer, BETA).view(len(query), rows, HEADS, -1)[rows_of].double()
            width = min(seen.shape[-1], mask.shape[1])
            torch.testing.assert_close(seen[..., :width], weights[..., :width], atol=1e-5, rtol=0)
            assert not seen[..., width:].any()
            assert not weights[..., width:].any()
        if len(staying) == 1:
            return
        # two of three leave, long or short, and those behind take their places
        staying = staying[2::3] or staying[:1]
        taken = {places[sentence] for sentence in staying}
        free = [place for place in range(len(staying)) if place not in taken]
        moved = {places[sentence]: free.pop() for sentence in staying if places[sentence] >= len(staying)}
        sources.move(moved)
        sources.keep(len(staying))
        places = {sentence: moved.get(places[sentence], places[sentence]) for sentence in staying}
