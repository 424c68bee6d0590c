"""The linear model over tokens and their pairs: its formula, its hash, and what padding and hidden tokens do."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from dikkat.config import ClassifierConfig, ModelConfig
from dikkat.models.factory import build_classifier
from dikkat.nn.layers import NgramTable
from dikkat_runtime.engine.native_texts import ngram_scores
from dikkat_runtime.text.text_ngrams import pair_rows, token_rows

TOKENS = torch.tensor([[5, 6, 7, 5, 6], [9, 4, 0, 0, 0], [8, 0, 0, 0, 0]])
REAL = TOKENS > 0
ROWS = 1 << 18


def filled(outputs: int = 3) -> NgramTable:
    table = NgramTable(97, outputs)
    torch.nn.init.normal_(table.embedding)
    return table


def row_of(first: int, second: int | None = None) -> int:
    """The hash with Python's integers, which know no overflow."""
    mixed = first * 461_845_907 + (0 if second is None else (second + 1) * 374_761_393)
    return mixed % (2**31 - 1) % 97


def by_loop(table: NgramTable, ids: list[int]) -> torch.Tensor:
    """A tenth of the sum over tokens and pairs, each looked up on its own."""
    rows = [row_of(token) for token in ids] + [row_of(*pair) for pair in pairwise(ids)]
    return 0.1 * torch.stack([table.embedding[row] for row in rows]).sum(dim=0)


def test_the_score_is_the_sum_over_tokens_and_pairs_and_padding_has_none() -> None:
    table = filled()
    expected = torch.stack([by_loop(table, ids) for ids in ([5, 6, 7, 5, 6], [9, 4], [8])])
    torch.testing.assert_close(table(TOKENS, REAL), expected, rtol=0, atol=1e-5)
    native = ngram_scores(table.embedding.detach().numpy(), TOKENS.numpy(), REAL.numpy())
    np.testing.assert_allclose(native, expected.detach().numpy(), rtol=0, atol=1e-5)


def test_a_hidden_token_takes_its_pairs_with_it() -> None:
    table, shown = filled(), torch.tensor([[True, True, False, True, True]])
    expected = by_loop(table, [5, 6]) + by_loop(table, [5, 6])
    torch.testing.assert_close(table(TOKENS[:1], shown)[0], expected, rtol=0, atol=1e-5)


def test_a_sum_in_bfloat16_loses_no_addends() -> None:
    table = NgramTable(97, 1)
    torch.nn.init.ones_(table.embedding)
    table.embedding.data = table.embedding.data.bfloat16()
    tokens = torch.arange(1, 401)[None]
    assert table(tokens, tokens > 0).item() == pytest.approx(79.9, abs=0.01)


def test_the_hash_spreads_pairs_evenly_and_keeps_their_order() -> None:
    """200,000 random pairs of a vocabulary of 20,000 fill as many rows as 200,000 throws of a fair die."""
    ids = torch.from_numpy(np.random.default_rng(1).integers(4, 20_000, (200_000, 2)))
    numbers = pair_rows(ids, ROWS)
    assert 0 <= int(numbers.min()) <= int(numbers.max()) < ROWS
    expected = ROWS * (1 - (1 - 1 / ROWS) ** 200_000)
    # the deviation is below the root of the number of throws
    assert abs(len(numbers.unique()) - expected) < 2 * 200_000**0.5
    assert (pair_rows(ids.flip(1), ROWS) == numbers).float().mean() < 1e-3
    assert (token_rows(ids[:, :1], ROWS) == numbers).float().mean() < 1e-3


def test_the_hash_of_the_largest_ids_is_exact_in_float64() -> None:
    """The browser engine has no other numbers."""
    ids = np.full((1, 2), float((1 << 22) - 1))
    assert pair_rows(ids, ROWS)[0, 0] == pair_rows(ids.astype(np.int64), ROWS)[0, 0]
    assert (ids * 461_845_907 + (ids + 1) * 374_761_393 < 2.0**53).all()


@pytest.mark.parametrize("objective", ["cross_entropy", "binary"])
def test_the_logits_are_the_mean_of_the_parts(objective: str) -> None:
    sizes = {"vocab_size": 20, "model_dim": 8, "num_heads": 2, "feed_forward_dim": 16, "encoder_layers": 1}
    head_config = ClassifierConfig(ngram_rows=97, objective=objective)
    model = build_classifier(ModelConfig(**sizes, dropout=0.0), head_config, 2, seed=1).eval()
    torch.nn.init.normal_(model.output.weight)
    alone = model(TOKENS, REAL)
    assert model.ngram_table is not None
    torch.nn.init.normal_(model.ngram_table.embedding)
    scores = model.ngram_table(TOKENS, REAL)
    # a single output is the logit of the second class
    expected = (2.0 * alone + (scores if objective == "cross_entropy" else torch.nn.functional.pad(scores, (1, 0)))) / 2
    torch.testing.assert_close(model(TOKENS, REAL), expected, rtol=0, atol=1e-6)
    assert len(model.parts(TOKENS, REAL)) == 2


def test_word_dropout_hides_no_token_from_the_table() -> None:
    sizes = {"vocab_size": 20, "model_dim": 8, "num_heads": 2, "feed_forward_dim": 16, "encoder_layers": 1}
    model = build_classifier(ModelConfig(**sizes), ClassifierConfig(ngram_rows=97, word_dropout=0.9), 2, seed=1)
    assert model.ngram_table is not None
    torch.nn.init.normal_(model.ngram_table.embedding)
    model.train()
    torch.testing.assert_close(model.parts(TOKENS, REAL)[1], model.ngram_table(TOKENS, REAL))
