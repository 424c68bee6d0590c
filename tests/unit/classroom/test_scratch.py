"""The chapter's classes print the chapter's numbers, since their first weights are drawn in its order."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from dikkat.lessons.classroom import scratch

JOURNEY = torch.tensor(
    [
        [0.43, 0.15, 0.89], [0.55, 0.87, 0.66], [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33], [0.77, 0.25, 0.10], [0.05, 0.80, 0.55],
    ]
)  # fmt: skip
BATCH = torch.stack((JOURNEY, JOURNEY))


def near(found: Tensor, printed: list[list[float]]) -> None:
    torch.testing.assert_close(found.detach(), torch.tensor(printed), rtol=0, atol=5e-5)


@pytest.mark.seed("B11")
def test_uniform_matrices() -> None:
    torch.manual_seed(123)
    near(
        scratch.SelfAttention_v1(3, 2)(JOURNEY),
        [[0.2996, 0.8053], [0.3061, 0.8210], [0.3058, 0.8203], [0.2948, 0.7939], [0.2927, 0.7891], [0.2990, 0.8040]],
    )


@pytest.mark.seed("B12")
def test_linear_layers() -> None:
    torch.manual_seed(789)
    near(
        scratch.SelfAttention_v2(3, 2)(JOURNEY),
        [
            [-0.0739, 0.0713],
            [-0.0748, 0.0703],
            [-0.0749, 0.0702],
            [-0.0760, 0.0685],
            [-0.0763, 0.0679],
            [-0.0754, 0.0693],
        ],
    )


CAUSAL = [
    [-0.4519, 0.2216],
    [-0.5874, 0.0058],
    [-0.6300, -0.0632],
    [-0.5675, -0.0843],
    [-0.5526, -0.0981],
    [-0.5299, -0.1081],
]


@pytest.mark.seed("B16")
def test_causal_attention_on_a_batch() -> None:
    torch.manual_seed(123)
    result = scratch.CausalAttention(3, 2, 6, 0.0)(BATCH)
    assert result.shape == (2, 6, 2)
    near(result[0], CAUSAL)
    near(result[1], CAUSAL)


@pytest.mark.seed("B17")
def test_two_heads_side_by_side_begin_with_the_single_one() -> None:
    torch.manual_seed(123)
    result = scratch.MultiHeadAttentionWrapper(3, 2, 6, 0.0, num_heads=2)(BATCH)
    assert result.shape == (2, 6, 4)
    near(result[0, :, :2], CAUSAL)


@pytest.mark.seed("B18")
def test_split_weights_and_a_mixing_layer() -> None:
    torch.manual_seed(123)
    result = scratch.MultiHeadAttention(3, 2, 6, 0.0, num_heads=2)(BATCH)
    near(
        result[0],
        [[0.3190, 0.4858], [0.2943, 0.3897], [0.2856, 0.3593], [0.2693, 0.3873], [0.2639, 0.3928], [0.2575, 0.4028]],
    )


@pytest.mark.seed("B18")
def test_all_four_layers_are_drawn_in_the_chapter_s_order() -> None:
    """With biases on query, key and value, each of which is drawn behind its weights."""
    torch.manual_seed(5)
    part = scratch.MultiHeadAttention(3, 4, 6, 0.0, num_heads=2, qkv_bias=True)
    torch.manual_seed(5)
    query, key, value = (nn.Linear(3, 4) for _ in range(3))
    mixing = nn.Linear(4, 4)
    q, k, v = (layer(BATCH).unflatten(-1, (2, 2)).transpose(1, 2) for layer in (query, key, value))
    mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(part(BATCH), mixing(mixed.transpose(1, 2).flatten(2)), rtol=0, atol=1e-5)


@pytest.mark.seed("F21")
def test_a_longer_text_is_refused_with_its_length() -> None:
    part = scratch.CausalAttention(3, 2, 6, 0.0)
    assert part(BATCH[:, :4]).shape == (2, 4, 2)
    with pytest.raises(ValueError, match="at most context_length = 6 tokens, but has 7"):
        part(torch.randn(1, 7, 3))


@pytest.mark.seed("B15")
def test_dropout_falls_on_the_weights_in_training_alone() -> None:
    part = scratch.CausalAttention(3, 2, 6, 0.5)
    assert not torch.equal(part(BATCH), part(BATCH))
    part.eval()
    assert torch.equal(part(BATCH), part(BATCH))
