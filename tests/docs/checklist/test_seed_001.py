"""Seed 001: the numbers of the attention chapter, from seeded weights carried into our own modules.

What the chapter builds as nn.Linear or torch.rand is built here in the same order after the same seed. Numbers with
four decimals are those that the original notebook prints; beside them stands numpy in float64 on the same weights. Rows
that are not here have their test where the part lives: docs/checklist.md says where.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tests.unit.nn.reference import Array, numpy_attention, to_numpy
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from dikkat.kernels import batch_invariant
from dikkat.nn import MultiHeadAttention, causal_mask, record_attention
from dikkat.nn.functional import attention, attention_scores, attention_weights
from dikkat.nn.multi_head_attention import Observation
from dikkat_runtime.cli.main import run

PRINTED = 5e-5  # four decimals
WORDS = "Your journey starts with one step"
JOURNEY = torch.tensor(
    [
        [0.43, 0.15, 0.89], [0.55, 0.87, 0.66], [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33], [0.77, 0.25, 0.10], [0.05, 0.80, 0.55],
    ]
)  # fmt: skip
BATCH = torch.stack((JOURNEY, JOURNEY))


def uniform_matrices(seed: int) -> list[Tensor]:
    """W_q, W_k, W_v of (3, 2), drawn by torch.rand."""
    torch.manual_seed(seed)
    return [torch.rand(3, 2) for _ in range(3)]


def linear_matrices(seed: int, heads: int = 1, width: int = 2) -> list[list[Tensor]]:
    """W_q, W_k, W_v of one head after the other, drawn as nn.Linear without bias; transposed to (3, K)."""
    torch.manual_seed(seed)
    return [[nn.Linear(3, width, bias=False).weight.detach().T for _ in range(3)] for _ in range(heads)]


def loaded(heads: Sequence[Sequence[Tensor]], mixing: nn.Linear | None = None) -> MultiHeadAttention:
    """Our module with W_q, W_k and W_v (3, K) of each head; side by side they come out as they are, unless mixed."""
    width = len(heads) * heads[0][0].shape[1]
    module = MultiHeadAttention(width, len(heads), query_dim=3, key_dim=3, value_dim=3, bias=mixing is not None)
    with torch.no_grad():
        # all queries, then all keys, then all values
        module.in_projection.weight.copy_(torch.cat([head[part].T for part in range(3) for head in heads]))
        module.out_projection.weight.copy_(torch.eye(width) if mixing is None else mixing.weight)
        if mixing is not None:
            module.in_projection.bias.zero_()
            module.out_projection.bias.copy_(mixing.bias)
    return module.eval()


def by_numpy(heads: Sequence[Sequence[Tensor]], x: Tensor, mask: Tensor | None = None) -> Array:
    """The heads' contexts side by side, in float64."""
    projected = [[x.double() @ part.double() for part in head] for head in heads]
    return np.concatenate([numpy_attention(q, k, v, mask)[0] for q, k, v in projected], axis=-1)


def near(found: Tensor, printed: Sequence[object], tolerance: float = PRINTED) -> None:
    np.testing.assert_allclose(to_numpy(found), np.array(printed, dtype=np.float64), rtol=0, atol=tolerance)


# what a user types ----------------------------------------------------------------------------------------------------

TYPED = ("Kedi uyudu!", "--vector", "0.2 -0.4", "--vector", "1.5 0.5", "--query", "uyudu")


@pytest.mark.seed("B2")
def test_words_and_vectors_are_typed_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence with a small vector for each word, as "Hello shiny sun!" has them; `explain` takes the user's own."""
    assert run(["explain", *TYPED, "--json"]) == 0
    messages = json.loads(capsys.readouterr().out)
    assert messages["keys"] == ["Kedi", "uyudu"]
    assert messages["query"] == {"number": 2, "token": "uyudu", "vector": [1.5, 0.5]}
    vectors = np.array([[0.2, -0.4], [1.5, 0.5]])
    powers = np.exp(vectors @ vectors[1])
    assert messages["weights"] == pytest.approx((powers / powers.sum()).tolist(), rel=1e-12)
    assert messages["total"] == pytest.approx((powers @ vectors / powers.sum()).tolist(), rel=1e-12)


@pytest.mark.seed("B23")
@pytest.mark.parametrize("language", ["en", "tr"])
def test_three_steps_with_the_numbers_of_the_user(language: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The summary of the process: scores, weights, context; exactly these three steps are printed."""
    assert run(["explain", *TYPED, "--language", language]) == 0
    parts = re.split(r"^(.*)\n-+\n", capsys.readouterr().out, flags=re.MULTILINE)
    headings, steps = parts[1::2], parts[2::2]
    titles = {"en": ("Scores", "Weights", "Context"), "tr": ("Puanlar", "Ağırlıklar", "Bağlam")}[language]
    word = {"en": "Step", "tr": "Adım"}[language]
    assert headings == [f"{word} {number}. {title}" for number, title in enumerate(titles, start=1)]
    vectors = np.array([[0.2, -0.4], [1.5, 0.5]])
    scores = vectors @ vectors[1]
    weights = np.exp(scores) / np.exp(scores).sum()
    for step, numbers in zip(steps, (scores, weights, weights @ vectors), strict=True):
        assert all(f"{number:.4f}" in step for number in numbers)


# seeded weights -------------------------------------------------------------------------------------------------------


@pytest.mark.seed("B9")
def test_queries_keys_and_values_of_seeded_matrices() -> None:
    """W_q, W_k and W_v of three rows and two columns make a query, a key and a value of every word."""
    matrices = uniform_matrices(123)
    seen: list[Observation] = []
    module = loaded([matrices])
    module.observe(seen.append)
    module(JOURNEY[None])
    query, key, value, _ = seen[0]
    near(query[0, 0, 1], [0.4306, 1.4551])
    for result, matrix in zip((query, key, value), matrices, strict=True):
        assert result[0, 0].shape == (6, 2)
        near(result[0, 0], (to_numpy(JOURNEY) @ to_numpy(matrix)).tolist(), 1e-6)


@pytest.mark.seed("B10")
def test_scores_weights_and_context_of_the_second_word() -> None:
    """The scores of q2, divided by the root of the key width and put through softmax, weigh the values."""
    query, key, value = (JOURNEY @ matrix for matrix in uniform_matrices(123))
    scores = attention_scores(query[1:2], key)
    near(scores, [[1.2705, 1.8524, 1.8111, 1.0795, 0.5577, 1.5440]])
    assert scores[0, 1].item() == pytest.approx(1.8524, abs=PRINTED)
    near(attention_weights(scores, beta=2**-0.5), [[0.1500, 0.2264, 0.2199, 0.1311, 0.0906, 0.1820]])
    context, weights = attention(query[1:2], key, value)
    near(weights, [[0.1500, 0.2264, 0.2199, 0.1311, 0.0906, 0.1820]])
    near(context, [[0.3061, 0.8210]])


V1 = [[0.2996, 0.8053], [0.3061, 0.8210], [0.3058, 0.8203], [0.2948, 0.7939], [0.2927, 0.7891], [0.2990, 0.8040]]
V2 = [
    [-0.0739, 0.0713], [-0.0748, 0.0703], [-0.0749, 0.0702], [-0.0760, 0.0685], [-0.0763, 0.0679], [-0.0754, 0.0693],
]  # fmt: skip


@pytest.mark.seed("B11")
def test_self_attention_with_uniform_matrices() -> None:
    """SelfAttention_v1: the contexts of all six words, seed 123."""
    matrices = [uniform_matrices(123)]
    near(loaded(matrices)(JOURNEY[None])[0], V1)
    near(loaded(matrices)(JOURNEY[None])[0], by_numpy(matrices, JOURNEY).tolist(), 1e-6)


@pytest.mark.seed("B12")
def test_self_attention_with_linear_layers() -> None:
    """SelfAttention_v2: the same with nn.Linear, seed 789."""
    matrices = linear_matrices(789)
    near(loaded(matrices)(JOURNEY[None])[0], V2)
    near(loaded(matrices)(JOURNEY[None])[0], by_numpy(matrices, JOURNEY).tolist(), 1e-6)


@pytest.mark.seed("B13")
def test_both_give_the_same_with_the_same_matrices() -> None:
    """Exercise 3.1: v1 with the transposed weights of v2 (seed 123) gives the output of v2."""
    ((w_query, w_key, w_value),) = heads = linear_matrices(123)
    v1, _ = attention(JOURNEY @ w_query, JOURNEY @ w_key, JOURNEY @ w_value)
    v2 = loaded(heads)(JOURNEY[None])[0]
    torch.testing.assert_close(v1, v2, rtol=0, atol=1e-6)
    near(v2, [
        [-0.5337, -0.1051], [-0.5323, -0.1080], [-0.5323, -0.1079],
        [-0.5297, -0.1076], [-0.5311, -0.1066], [-0.5299, -0.1081],
    ])  # fmt: skip


CAUSAL_ROWS = (
    [1.0],
    [0.5517, 0.4483],
    [0.3800, 0.3097, 0.3103],
    [0.2758, 0.2460, 0.2462, 0.2319],
    [0.2175, 0.1983, 0.1984, 0.1888, 0.1971],
    [0.1935, 0.1663, 0.1666, 0.1542, 0.1666, 0.1529],
)


@pytest.mark.seed("B14")
def test_a_causal_mask_before_softmax() -> None:
    """No word sees those after it; masking before softmax is masking after it and dividing by what is left."""
    module, mask = loaded(linear_matrices(789)), causal_mask(6)
    with record_attention(module) as maps:
        module(JOURNEY[None], mask=mask)
        module(JOURNEY[None])
    (before, unmasked) = next(iter(maps.values()))
    near(before[0, 0], [[*row, *[0.0] * (6 - len(row))] for row in CAUSAL_ROWS])
    after = unmasked * mask
    torch.testing.assert_close(before, after / after.sum(-1, keepdim=True), rtol=0, atol=1e-6)
    assert (before[~mask] == 0).all()


@pytest.mark.seed("B15")
@pytest.mark.parametrize("probability", [0.5, 0.1, 0.2])
def test_dropout_falls_on_the_weights(probability: float) -> None:
    """Dropout on weights: what is kept grows by 1/(1-p), 2 at p = 0.5, and the mean stays; evaluation drops nothing."""
    query, key, value = (JOURNEY @ matrix for matrix in linear_matrices(789)[0])
    _, whole = attention(query, key, value, causal_mask(6)[0, 0])
    shape = (1000, 10, 6, 2)  # 1,000 draws of ten heads
    query, key, value = (x.expand(shape) for x in (query, key, value))
    output, dropped = attention(query, key, value, causal_mask(6), dropout=probability)
    whole = whole.expand_as(dropped)
    kept = dropped > 0
    torch.testing.assert_close(dropped[kept], whole[kept] / (1 - probability), rtol=2e-4, atol=0)
    assert (~kept)[whole > 0].float().mean().item() == pytest.approx(probability, abs=0.01)
    assert dropped.sum().item() == pytest.approx(whole.sum().item(), rel=0.02)
    torch.testing.assert_close(output, dropped @ value)

    module = MultiHeadAttention(8, 2, dropout=probability)
    sound = MultiHeadAttention(8, 2)
    sound.load_state_dict(module.state_dict())
    x = torch.randn(2, 5, 8)
    assert not torch.allclose(module.train()(x), sound(x))
    assert torch.equal(module.eval()(x), sound(x))


B16 = [[-0.4519, 0.2216], [-0.5874, 0.0058], [-0.6300, -0.0632],
       [-0.5675, -0.0843], [-0.5526, -0.0981], [-0.5299, -0.1081]]  # fmt: skip
B17 = [[0.4772, 0.1063], [0.5891, 0.3257], [0.6202, 0.3860], [0.5478, 0.3589], [0.5321, 0.3428], [0.5077, 0.3493]]
"""The second head's columns; the first head's are those of B16."""
B18 = [[0.3190, 0.4858], [0.2943, 0.3897], [0.2856, 0.3593], [0.2693, 0.3873], [0.2639, 0.3928], [0.2575, 0.4028]]


@pytest.mark.seed("B16")
def test_causal_attention_on_a_batch() -> None:
    """CausalAttention on a batch of (2, 6, 3), seed 123, no dropout: both items give the same (6, 2)."""
    heads = linear_matrices(123)
    output = loaded(heads)(BATCH, mask=causal_mask(6))
    assert output.shape == (2, 6, 2)
    near(output, [B16, B16])
    near(output, by_numpy(heads, BATCH, causal_mask(6)[0]).tolist(), 1e-6)


@pytest.mark.seed("B17")
def test_two_heads_side_by_side() -> None:
    """MultiHeadAttentionWrapper: two causal heads of two columns, concatenated, seed 123."""
    heads = linear_matrices(123, heads=2)
    output = loaded(heads)(BATCH, mask=causal_mask(6))
    assert output.shape == (2, 6, 4)
    near(output, [[[*first, *second] for first, second in zip(B16, B17, strict=True)]] * 2)
    near(output, by_numpy(heads, BATCH, causal_mask(6)[0]).tolist(), 1e-6)


@pytest.mark.seed("B18")
def test_one_matrix_split_among_the_heads() -> None:
    """MultiHeadAttention with weight splits: two heads of one column each and an output matrix, seed 123."""
    ((query, key, value),) = linear_matrices(123)
    mixing = nn.Linear(2, 2)
    heads = [[part[:, head : head + 1] for part in (query, key, value)] for head in range(2)]
    output = loaded(heads, mixing)(BATCH, mask=causal_mask(6))
    assert output.shape == (2, 6, 2)
    near(output, [B18, B18])
    expected = by_numpy(heads, BATCH, causal_mask(6)[0]) @ to_numpy(mixing.weight).T + to_numpy(mixing.bias)
    near(output, expected.tolist(), 1e-6)


# sizes and costs ------------------------------------------------------------------------------------------------------


@pytest.mark.seed("B19")
def test_one_product_for_all_heads() -> None:
    """a @ a transposed of (1, 2, 3, 4) multiplies each head by itself, as a loop over the heads would."""
    a = torch.randn(1, 2, 3, 4)
    together = attention_scores(a, a)
    assert together.shape == (1, 2, 3, 3)
    for head in range(2):
        alone = [[sum(to_numpy(a[0, head, i]) * to_numpy(a[0, head, j])) for j in range(3)] for i in range(3)]
        near(together[0, head], alone, 1e-6)
        torch.testing.assert_close(together[0, head], attention_scores(a[0, head], a[0, head]), rtol=0, atol=1e-6)


@pytest.mark.seed("B20")
def test_two_columns_from_two_narrow_heads_and_the_size_of_gpt_2() -> None:
    """Exercises 3.2 and 3.3: d_out = 1 with two heads gives (2, 6, 2); MHA(768, 12 heads) has 2,360,064 parameters."""
    assert loaded(linear_matrices(123, heads=2, width=1))(BATCH, mask=causal_mask(6)).shape == (2, 6, 2)
    module = MultiHeadAttention(768, 12)
    # the chapter's class has a bias on its output alone
    module.in_projection.register_parameter("bias", None)
    assert sum(parameter.numel() for parameter in module.parameters()) == 2_360_064
    with torch.no_grad():
        assert module(torch.randn(1, 1024, 768), mask=causal_mask(1024)).shape == (1, 1024, 768)


@pytest.mark.seed("B22")
@pytest.mark.usefixtures("without_kernels")  # the counter sees PyTorch's products only
@pytest.mark.parametrize(("length", "width", "heads"), [(32, 64, 4), (17, 48, 6), (50, 24, 8)])
def test_heads_that_split_the_width_cost_as_one(
    length: int, width: int, heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why heads split the width: with w = heads x head width the cost is 8 n d w + 4 n^2 w, and w is d or heads x d."""
    # with many threads these are short sequences, and the rows of zeros they get are no cost of attention
    monkeypatch.setattr(batch_invariant, "min_rows", lambda: 0)
    counted = []
    for name, head_dim in (("split", width // heads), ("full", width)):
        module = MultiHeadAttention(width, heads, head_dim=head_dim)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            module(torch.randn(1, length, width))
        w = heads * head_dim
        formula = 8 * length * width * w + 4 * length**2 * w
        print(f"{name} heads: 8·{length}·{width}·{w} + 4·{length}²·{w} = {formula:,} operations")
        assert counter.get_total_flops() == formula
        counted.append(formula)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        MultiHeadAttention(width, 1)(torch.randn(1, length, width))
    assert counter.get_total_flops() == counted[0], "split heads cost as much as one head of the whole width"
    assert counted[1] == heads * counted[0]
