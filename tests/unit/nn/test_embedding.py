"""Token embedding: scale, sharing, and a bfloat16 gradient summed in float32."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from dikkat.nn.layers import TokenEmbedding


def test_rows_times_the_square_root_of_the_width() -> None:
    embedding = TokenEmbedding(10, 16)
    tokens = torch.tensor([[3, 0], [9, 3]])
    torch.testing.assert_close(embedding(tokens), embedding.weight[tokens] * 4.0)


def test_without_a_scale_rows_are_as_they_are() -> None:
    embedding, tokens = TokenEmbedding(10, 16, scaled=False), torch.tensor([[3, 0], [9, 3]])
    assert torch.equal(embedding(tokens), embedding.weight[tokens])


def test_embedded_tokens_have_unit_variance() -> None:
    """Drawn with deviation 1/sqrt(D), scaled by sqrt(D): as large as the sines that are added to them."""
    variance = TokenEmbedding(1000, 64)(torch.arange(1000)).var().item()
    assert abs(variance - 1) < 0.05


def test_projection_is_by_the_same_matrix_unscaled() -> None:
    embedding, hidden = TokenEmbedding(10, 4), torch.randn(2, 3, 4)
    torch.testing.assert_close(embedding.project(hidden), hidden @ embedding.weight.T)
    torch.testing.assert_close(embedding.project(hidden[0, 0]), embedding.weight @ hidden[0, 0])


@pytest.mark.parametrize("integers", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_is_the_sum_over_the_occurrences(dtype: torch.dtype, integers: torch.dtype) -> None:
    embedding = TokenEmbedding(7, 4).to(dtype)
    tokens = torch.randint(0, 6, (5, 9)).to(integers)
    upstream = torch.randn(5, 9, 4).to(dtype)
    embedding(tokens).backward(upstream)
    # each addend is rounded once when it is scaled, as the type demands; their sum is exact here
    addends = (upstream * embedding.scale).double()
    exact = torch.zeros(7, 4, dtype=torch.float64)
    for token, addend in zip(tokens.flatten().tolist(), addends.reshape(-1, 4), strict=True):
        exact[token] += addend
    assert embedding.weight.grad is not None
    assert embedding.weight.grad.dtype == dtype
    tolerance = 2**-8 if dtype == torch.bfloat16 else 1e-6
    torch.testing.assert_close(embedding.weight.grad.double(), exact, rtol=tolerance, atol=1e-6)
    assert (embedding.weight.grad[6] == 0).all()


def test_one_thousand_occurrences_lose_nothing_in_bfloat16() -> None:
    """A sum kept in bfloat16 stalls at 256 ones, since 256 + 1 rounds to 256."""
    tokens = torch.zeros(1000, dtype=torch.int64)
    embedding = TokenEmbedding(3, 1).bfloat16()
    embedding(tokens).sum().backward()
    stalled = torch.zeros(1, dtype=torch.bfloat16)
    for _ in range(1000):
        stalled += 1
    assert stalled.item() == 256
    assert embedding.weight.grad is not None
    assert embedding.weight.grad[:, 0].tolist() == [1000.0, 0.0, 0.0]


def test_without_a_gradient_bfloat16_looks_up_the_same_rows() -> None:
    embedding, tokens = TokenEmbedding(10, 16).bfloat16(), torch.randint(0, 10, (2, 3))
    with torch.no_grad():
        plain = embedding(tokens)
    assert torch.equal(embedding(tokens), plain)
    assert torch.equal(plain, F.embedding(tokens, embedding.weight) * 4.0)
