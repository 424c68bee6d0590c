"""Seed 000: attention as a function on sets, the key-value store, and the encoder's parts, row by row.

Rows that are not here have their test where the part lives: docs/checklist.md says where.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.docs.checklist.fitting import fit, padded, tiny_model
from tests.unit.nn.reference import to_numpy
from torch import Tensor, nn
from torch.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

from dikkat.config import ClassifierConfig, ModelConfig
from dikkat.models.encoder_decoder import Encoder
from dikkat.models.factory import build_classifier, build_model
from dikkat.nn import (
    EncoderBlock,
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    PostNormResidual,
    SinusoidalPositions,
    TokenEmbedding,
    key_mask,
    record_attention,
)
from dikkat.nn.functional import attention
from dikkat.nn.multi_head_attention import Observation
from dikkat_runtime.special_tokens import EOS_ID, PAD_ID

# attention as a function ----------------------------------------------------------------------------------------------


@pytest.mark.seed("A2")
def test_attention_maps_sets_until_positions_are_added() -> None:
    """Attention imposes no order: attn(PX) = P attn(X) without positions, and not with them."""
    module, positions = MultiHeadAttention(16, 4), SinusoidalPositions(16)
    for _ in range(5):
        x, order = torch.randn(1, 7, 16), torch.randperm(7)
        assert not torch.equal(order, torch.arange(7))
        torch.testing.assert_close(module(x[:, order]), module(x)[:, order], rtol=0, atol=1e-6)
        placed = module(positions(x[:, order])) - module(positions(x))[:, order]
        assert placed.abs().max() > 1e-2


@pytest.mark.seed("A3")
def test_the_column_form_is_the_row_form_transposed() -> None:
    """h is a weighted sum of the inputs, H = XA with X of n x t, inputs as columns."""
    columns = torch.randn(5, 7, dtype=torch.float64)
    x = to_numpy(columns)
    powers = np.exp(x.T @ x)
    a = powers / powers.sum(axis=0)
    rows = columns.T
    output, weights = attention(rows, rows, rows, score="dot")
    np.testing.assert_allclose(to_numpy(output.T), x @ a, rtol=0, atol=1e-7)
    np.testing.assert_allclose(to_numpy(weights.T), a, rtol=0, atol=1e-7)
    one_by_one = sum(a[i, 2] * x[:, i] for i in range(7))
    np.testing.assert_allclose(to_numpy(output[2]), one_by_one, rtol=0, atol=1e-7)


@pytest.mark.seed("A4")
def test_the_docs_say_which_input_wins_a_tie() -> None:
    """Hard attention has a one-hot a; on a tie the lowest index wins, and the documentation says so."""
    assert "the lowest index on a tie" in " ".join((attention.__doc__ or "").split())
    key = torch.tensor([[0.0, 1.0], [2.0, 0.0], [2.0, 5.0]])
    output, weights = attention(torch.tensor([[1.0, 0.0]]), key, key, hard=True)
    assert weights.tolist() == [[0.0, 1.0, 0.0]]
    assert torch.equal(output[0], key[1])


@pytest.mark.seed("A5")
@pytest.mark.parametrize("score", ["scaled_dot", "dot", "additive"])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_soft_weights_are_positive_and_sum_to_one(score: str, size: float) -> None:
    """Soft attention: weights of at least 0 whose sum is 1, for every row that may attend to anything."""
    query, key, value = size * torch.randn(4, 3, 9, 8), size * torch.randn(4, 3, 40, 8), torch.randn(4, 3, 40, 2)
    mask = torch.rand(4, 1, 9, 40) < 0.4
    mask[0, 0, 0] = False
    for allowed in (None, mask):
        _, weights = attention(query, key, value, allowed, score=score)  # type: ignore[arg-type]
        expected = torch.ones(4, 3, 9) if allowed is None else mask.any(-1).float().expand(4, 3, 9)
        assert weights.min() >= 0
        torch.testing.assert_close(weights.sum(-1), expected, rtol=0, atol=1e-6)
        assert allowed is None or (weights[~mask.expand_as(weights)] == 0).all()


RECIPES = (
    "Spaghetti alla bolognese",
    "Lentil salad with bulgur",
    "Lasagne al forno",
    "Cannelloni with spinach",
    "Baked salmon",
    "Apple and almond tart",
    "Courgette frittata",
)


def bigrams(text: str) -> Counter[str]:
    return Counter(a + b for a, b in pairwise(text.lower()))


def as_vectors(texts: list[str]) -> Tensor:
    """(texts, bigrams), counts of pairs of letters, of length one."""
    counts = [bigrams(text) for text in texts]
    known = sorted(set().union(*counts))
    return nn.functional.normalize(torch.tensor([[float(count[pair]) for pair in known] for count in counts]), dim=-1)


@pytest.mark.seed("A7")
def test_a_recipe_book_is_a_key_value_store() -> None:
    """The query is compared with every title: argmax gives the lasagne recipe, softmax all in order, as shares of 1."""
    query, keys = as_vectors(["lasagne", *RECIPES]).split([1, len(RECIPES)])
    pages = torch.randn(len(RECIPES), 300)  # what a title stands for may be of any width
    result, weights = attention(query, keys, pages, hard=True)
    assert [RECIPES[index] for index in weights[0].nonzero()[:, 0].tolist()] == ["Lasagne al forno"]
    assert torch.equal(result[0], pages[2])

    def likeness(title: str) -> float:
        ours, theirs = bigrams("lasagne"), bigrams(title)
        lengths = [math.sqrt(sum(n * n for n in counts.values())) for counts in (ours, theirs)]
        return sum(ours[pair] * theirs[pair] for pair in ours) / math.prod(lengths)

    _, soft = attention(query, keys, pages, score="dot", beta=5.0)
    ranked = sorted(zip(soft[0].tolist(), RECIPES, strict=True), reverse=True)
    assert ranked[0][1] == "Lasagne al forno"
    assert sum(share for share, _ in ranked) == pytest.approx(1.0, abs=1e-6)
    assert ranked[-1][0] > 0, "every recipe is returned"
    alike = [likeness(title) for _, title in ranked]
    assert all(first >= second - 1e-6 for first, second in pairwise(alike))
    assert len({round(likeness(title), 4) for title in RECIPES}) >= 5, "the order says something"


@pytest.mark.seed("A9")
def test_one_query_is_its_row_of_the_batch() -> None:
    """One query gives a = softargmax(Kq), h = Va; all queries at once give the same, row by row."""
    module, x = MultiHeadAttention(16, 4), torch.randn(2, 6, 16)
    together, (output, weights) = module(x), attention(x, x, x)
    for t in range(6):
        one = x[:, t : t + 1]
        single, own = attention(one, x, x)
        torch.testing.assert_close(single, output[:, t : t + 1], rtol=0, atol=1e-6)
        torch.testing.assert_close(own, weights[:, t : t + 1], rtol=0, atol=1e-6)
        torch.testing.assert_close(module(one, x), together[:, t : t + 1], rtol=0, atol=1e-6)
    a = np.exp(to_numpy(x[0]) @ to_numpy(x[0, 3]) / 4)
    np.testing.assert_allclose(to_numpy(output[0, 3]), to_numpy(x[0]).T @ a / a.sum(), rtol=0, atol=1e-6)


def spread(width: int, score: str) -> float:
    """Standard deviation of the scores that the weights of standard normal queries and keys come from."""
    query, key = torch.randn(400, width, dtype=torch.float64), torch.randn(400, width, dtype=torch.float64)
    _, weights = attention(query, key, key, score=score)  # type: ignore[arg-type]
    # the logarithm of a weight is its score, less one number for the whole row
    return weights.log().var(dim=-1).mean().sqrt().item()


@pytest.mark.seed("A10")
def test_beta_keeps_the_temperature_the_same_at_every_width() -> None:
    """beta = 1/sqrt(d), the length of a vector of ones; without it the scores spread as sqrt(d)."""
    widths = (16, 64, 256, 1024)
    for width in widths:
        assert torch.ones(width).norm().item() == pytest.approx(width**0.5)
        assert 0.9 < spread(width, "scaled_dot") < 1.1
        assert 0.9 < spread(width, "dot") / width**0.5 < 1.1
    slope = np.polyfit(np.log(widths), np.log([spread(width, "dot") for width in widths]), 1)[0]
    assert slope == pytest.approx(0.5, abs=0.02)


def products_and_operations(module: MultiHeadAttention, *inputs: Tensor) -> tuple[int, int]:
    """Matrix products that a forward launches, and the multiplications and additions in them."""
    with torch.no_grad(), profile() as seen:
        module(*inputs)
    # apart from the profiler, which would see the counter's own dispatch too
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        module(*inputs)
    launched = {event.key: event.count for event in seen.key_averages()}
    return sum(launched.get(f"aten::{name}", 0) for name in ("mm", "addmm", "bmm")), counted.get_total_flops()


@pytest.mark.seed("A11")
@pytest.mark.usefixtures("without_kernels")  # the counter sees PyTorch's products only
@pytest.mark.parametrize("bias", [True, False])
def test_one_stacked_product_does_the_work_of_three(bias: bool) -> None:
    """W_q, W_k and W_v stacked give q, k and v in one product to R^3d: the same numbers for no more work."""
    module, x = MultiHeadAttention(32, 4, bias=bias), torch.randn(2, 9, 32)
    stacked = nn.functional.linear(x, module.in_projection.weight, module.in_projection.bias)
    assert stacked.shape == (2, 9, 3 * 32)
    biases = [None] * 3 if module.in_projection.bias is None else module.in_projection.bias.chunk(3)
    for part, weight, own in zip(stacked.chunk(3, -1), module.in_projection.weight.chunk(3), biases, strict=True):
        torch.testing.assert_close(part, nn.functional.linear(x, weight, own), rtol=0, atol=1e-6)
    # with a key and a value of its own, each of the three is projected by itself
    packed, three = products_and_operations(module, x), products_and_operations(module, x, x, x.clone())
    torch.testing.assert_close(module(x), module(x, x, x.clone()), rtol=0, atol=1e-6)
    assert packed[1] == three[1] > 0
    assert three[0] - packed[0] == 2
    assert packed[0] == 4, "one for q, k and v, two for scores and sum, one for the output"


# the encoder and what is made of it -----------------------------------------------------------------------------------

LETTERS, FIRST = 8, 4


@pytest.mark.seed("A13")
def test_the_encoder_output_serves_another_task(tmp_path: Path) -> None:
    """What passes the bottleneck of an encoder-decoder that copies its input is exported and used for another task."""
    rows = padded(torch.randint(FIRST, FIRST + LETTERS, (400, 4)).tolist())
    model = tiny_model(FIRST + LETTERS, seed=1, dropout=0.0)
    assert fit(model, rows, rows, 250, seed=1) < 0.1, "chance is log 8 = 2.1"
    with torch.no_grad():
        exported = model.encode(rows, rows != PAD_ID).numpy()
    np.savez(tmp_path / "memory.npz", memory=exported, ids=rows.numpy())

    # another task, in numpy alone: does the letter 7 occur?
    loaded = np.load(tmp_path / "memory.npz")
    assert loaded["memory"].shape == (400, 5, 32)
    features = np.hstack((loaded["memory"].mean(axis=1), np.ones((400, 1))))
    occurs = (loaded["ids"] == 7).any(axis=1)
    solution = np.linalg.lstsq(features[:300], occurs[:300] * 2.0 - 1.0, rcond=None)[0]
    right = ((features[300:] @ solution > 0) == occurs[300:]).mean()
    assert max(occurs[300:].mean(), 1 - occurs[300:].mean()) < 0.75 < 0.9 < right


@pytest.mark.seed("A14")
def test_encoder_blocks_of_the_same_shape_stack() -> None:
    """Self-attention, add and norm, feed-forward, add and norm; 1 to 12 of these keep the shape of the input."""
    block, x = EncoderBlock(8, 2, 16).eval(), torch.randn(2, 5, 8)
    first = block.self_residual.norm(x + block.self_attention(x))
    second = block.feed_forward_residual.norm(first + block.feed_forward(first))
    torch.testing.assert_close(block(x), second, rtol=0, atol=1e-6)
    mask = key_mask(torch.tensor([[True] * 5, [True, True, False, False, False]]))
    for depth in range(1, 13):
        stack = Encoder([EncoderBlock(8, 2, 16) for _ in range(depth)], nn.Identity())
        assert len(stack.blocks) == depth
        assert stack(x, mask).shape == x.shape


@pytest.mark.seed("A15")
@pytest.mark.parametrize("eps", [1e-6, 1e-2])
def test_add_and_norm_gives_mean_0_and_variance_1_at_every_position(eps: float) -> None:
    """A residual sum, then a layer norm along the width, with an epsilon (1e-6 in the code) that is a setting."""
    x = torch.randn(2, 5, 64) * torch.rand(2, 5, 1) * 10 + torch.randn(2, 5, 1)
    normed = PostNormResidual(64, eps=eps)(x, torch.sin)
    total = to_numpy(x + torch.sin(x))
    expected = (total - total.mean(-1, keepdims=True)) / np.sqrt(total.var(-1, keepdims=True) + eps)
    np.testing.assert_allclose(to_numpy(normed), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(normed.mean(-1), torch.zeros(2, 5), rtol=0, atol=1e-6)
    variance = torch.from_numpy(total.var(-1) / (total.var(-1) + eps)).float()
    torch.testing.assert_close(normed.var(-1, unbiased=False), variance, rtol=0, atol=1e-5)
    assert eps > 1e-3 or (variance > 0.999).all()
    assert EncoderBlock(8, 2, 16, norm_eps=eps).self_residual.norm.eps == eps


@pytest.mark.seed("A16")
@pytest.mark.parametrize("width", [8, 5])
def test_two_convolutions_of_width_one_are_the_feed_forward_network(width: int) -> None:
    """The "1D-convolution" is two dense layers at each position, and its output may have another width."""
    network, x = FeedForward(8, 12, output_dim=width), torch.randn(2, 5, 8)
    first, second = nn.Conv1d(8, 12, kernel_size=1), nn.Conv1d(12, width, kernel_size=1)
    first.load_state_dict({"weight": network.inner.weight[..., None], "bias": network.inner.bias})
    second.load_state_dict({"weight": network.outer.weight[..., None], "bias": network.outer.bias})
    convolved = second(torch.relu(first(x.transpose(1, 2)))).transpose(1, 2)
    assert convolved.shape == (2, 5, width)
    torch.testing.assert_close(network(x), convolved, rtol=0, atol=1e-6)


# the code of the seed -------------------------------------------------------------------------------------------------


@pytest.mark.seed("A21")
def test_heads_divide_the_width_and_each_input_may_have_its_own() -> None:
    """MHA(d_model, num_heads, p, d_input): heads divide the width, or an error says so; d_input is three widths."""
    for width, heads in ((8, 3), (32, 5)):
        with pytest.raises(ValueError, match=f"but {heads} does not divide {width}; set head_dim to free the two"):
            MultiHeadAttention(width, heads)
    module = MultiHeadAttention(8, 2, query_dim=6, key_dim=7, value_dim=9, dropout=0.1).eval()
    query, key, value = torch.randn(2, 4, 6), torch.randn(2, 5, 7), torch.randn(2, 5, 9)
    assert module(query, key, value).shape == (2, 4, 8)
    parts = (module.query_projection, module.key_projection, module.value_projection)
    assert [part.in_features for part in parts] == [6, 7, 9]
    with pytest.raises(ValueError, match="value must have the width 9, but has 7"):
        module(query, key, key)


A22 = (
    ([0.0, 10, 0], [3.7266e-06, 0.99999, 3.7266e-06, 3.7266e-06], [10.004, 4.0993e-05, 0]),
    ([0.0, 0, 10], [1.8633e-06, 1.8633e-06, 0.5, 0.5], [549.998, 5.5, 0]),
    ([10.0, 10, 0], [0.5, 0.5, 1.8633e-06, 1.8633e-06], [5.502, 2.0497e-05, 0]),
)
"""Query, weights, output; weights that are not printed follow from the printed ones by symmetry."""


@pytest.mark.seed("A22")
@pytest.mark.parametrize(("query", "weights", "output"), A22)
def test_the_check_of_the_notebook(query: list[float], weights: list[float], output: list[float]) -> None:
    """scaled_dot_product_attention returns H and A; at the scale 1/8 these are the numbers that the notebook prints."""
    key = torch.tensor([[10.0, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]])
    value = torch.tensor([[1.0, 0, 0], [10, 0, 0], [100, 5, 0], [1000, 6, 0]])
    result, chosen = attention(torch.tensor([query]), key, value, beta=1 / 8)
    assert chosen[0].tolist() == pytest.approx(weights, rel=5e-5)
    assert result[0].tolist() == pytest.approx(output, rel=5e-5, abs=1e-12)


def transparent(width: int, heads: int) -> MultiHeadAttention:
    """Attention whose four matrices are the identity."""
    module = MultiHeadAttention(width, heads, bias=False)
    with torch.no_grad():
        module.in_projection.weight.copy_(torch.eye(width).repeat(3, 1))
        module.out_projection.weight.copy_(torch.eye(width))
    return module


@pytest.mark.seed("A23")
def test_grouping_undoes_splitting_exactly() -> None:
    """split_heads makes (bs, h, n, d_k) of (bs, n, d), and group_heads makes it whole again, bit for bit."""
    module, x = transparent(12, 3), torch.randn(2, 5, 12)
    seen: list[Observation] = []
    module.observe(seen.append)
    # each position attends to itself alone, so that what was split is only put together again
    assert torch.equal(module(x, mask=torch.eye(5, dtype=torch.bool)), x)
    for split in seen[0][:3]:
        assert split is not None
        assert split.shape == (2, 3, 5, 4)
        assert all(torch.equal(split[:, head], x[..., 4 * head : 4 * head + 4]) for head in range(3))


@pytest.mark.seed("A24")
@pytest.mark.parametrize("widths", [{}, {"query_dim": 6, "key_dim": 7, "value_dim": 9}], ids=["one width", "three"])
def test_the_weights_have_a_row_a_query_and_a_column_a_key(widths: dict[str, int]) -> None:
    """forward(X_q, X_k, X_v) gives H and A, with as many queries and keys as one likes."""
    module = MultiHeadAttention(12, 3, **widths)  # type: ignore[arg-type]
    inputs = [
        torch.randn(2, n, widths.get(name, 12)) for name, n in (("query_dim", 4), ("key_dim", 6), ("value_dim", 6))
    ]
    seen: list[Observation] = []
    module.observe(seen.append)
    with record_attention(module) as maps:
        output = module(*inputs)
    ((weights,),) = maps.values()
    assert output.shape == (2, 4, 12)
    assert weights.shape == (2, 3, 4, 6)
    summed = (weights @ seen[0].value).transpose(1, 2).flatten(2)
    torch.testing.assert_close(module.out_projection(summed), output, rtol=0, atol=1e-5)


@pytest.mark.seed("A26")
@pytest.mark.parametrize("width", [8, 32])
def test_positions_are_sines_and_cosines(width: int) -> None:
    """E(p, 2i) = sin(p / 10000^(2i/d)) and E(p, 2i+1) = cos(p / 10000^(2i/d)), added to the embedding."""
    x = torch.randn(2, 50, width)
    added = to_numpy(SinusoidalPositions(width)(x) - x)
    for p in range(50):
        for i in range(width // 2):
            angle = p / 10000 ** (2 * i / width)
            np.testing.assert_allclose(added[:, p, 2 * i], math.sin(angle), rtol=0, atol=2e-6)
            np.testing.assert_allclose(added[:, p, 2 * i + 1], math.cos(angle), rtol=0, atol=2e-6)


@pytest.mark.seed("A27")
def test_an_encoder_turns_ids_into_vectors() -> None:
    """Encoder(num_layers, d_model, heads, ff, vocab, max_pos, p): ids of (bs, n) become vectors of (bs, n, d)."""
    ids = torch.tensor([[5, 9, 7, EOS_ID], [6, EOS_ID, PAD_ID, PAD_ID]])
    config = ModelConfig(
        vocab_size=20, model_dim=16, num_heads=2, feed_forward_dim=32, encoder_layers=3, decoder_layers=1, dropout=0.1,
        norm_placement="post",
    )  # fmt: skip
    model = build_model(config, seed=1)
    assert model.encode(ids, ids != PAD_ID).shape == (2, 4, 16)
    # as in the notebook: word and fixed position, then a norm of their own
    embedding, positions, norm = TokenEmbedding(20, 16), SinusoidalPositions(16), LayerNorm(16, eps=1e-12)
    embedded = norm(positions(embedding(ids)))
    stack = Encoder([EncoderBlock(16, 2, 32, dropout=0.1) for _ in range(3)], nn.Identity())
    encoded = stack(embedded, key_mask(ids != PAD_ID))
    assert encoded.shape == (2, 4, 16)
    table = to_numpy(embedding(ids) + positions(torch.zeros(1, 4, 16)))
    expected = (table - table.mean(-1, keepdims=True)) / np.sqrt(table.var(-1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(to_numpy(embedded), expected, rtol=0, atol=1e-5)
    # and as our classifier computes them
    head_config = ClassifierConfig()
    classifier = build_classifier(
        config.model_copy(update={"embedding_norm": True}), head_config, num_classes=2, seed=1
    )
    classifier.encoder.load_state_dict(stack.state_dict())
    classifier.embedding.load_state_dict(embedding.state_dict())
    encoded = stack.eval()(LayerNorm(16, eps=config.norm_eps)(positions(embedding(ids))), key_mask(ids != PAD_ID))
    torch.testing.assert_close(classifier.eval().encode(ids, ids != PAD_ID), encoded, rtol=0, atol=1e-6)
