"""The initial n-gram table: log-count ratios, compared with the formula of Wang and Manning (2012), counted by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from dikkat.config import ClassifierConfig, ModelConfig
from dikkat.data.corpus import Corpus
from dikkat.models.factory import build_classifier
from dikkat.tasks.classification.train import fill_ngram_table, log_count_ratios, text_counts
from dikkat_runtime.text.text_ngrams import pair_rows, token_rows

ROWS = 1009
TEXTS = [([1, 4, 5, 4], [0]), ([1, 4, 6], [1]), ([1, 6, 6, 6], [1])]


def counts_of(texts: list[list[int]]) -> np.ndarray:
    """How many of `texts` have a token or pair of each row: one text counts once."""
    counts = np.zeros(ROWS)
    for ids in texts:
        rows = {int(token_rows(token, ROWS)) for token in ids}
        rows |= {int(pair_rows(np.array([pair]), ROWS)[0, 0]) for pair in pairwise(ids)}
        counts[list(rows)] += 1.0
    return counts


def test_a_text_counts_once_however_often_it_has_a_word(tmp_path: Path) -> None:
    corpus = Corpus.build(tmp_path, "train", TEXTS)
    counts = text_counts(corpus, 2, ROWS)
    for column, classes in enumerate(([0], [1], [0, 1])):
        wanted = counts_of([ids for ids, (label,) in TEXTS if label in classes])
        np.testing.assert_array_equal(counts[:, column], wanted)


@pytest.mark.parametrize("objective", ["cross_entropy", "binary"])
def test_the_difference_of_two_classes_is_the_log_count_ratio(tmp_path: Path, objective: str) -> None:
    """r = log((p / |p|) / (q / |q|)), p and q being the smoothed counts of the two classes."""
    corpus = Corpus.build(tmp_path, "train", TEXTS)
    first, second = (1.0 + counts_of([ids for ids, (label,) in TEXTS if label == each]) for each in (0, 1))
    ratio = np.log((second / second.sum()) / (first / first.sum()))
    sizes = {"vocab_size": 12, "model_dim": 8, "num_heads": 2, "feed_forward_dim": 16, "encoder_layers": 1}
    head_config = ClassifierConfig(ngram_rows=ROWS, objective=objective)
    model = build_classifier(ModelConfig(**sizes), head_config, 2, seed=1)
    fill_ngram_table(model, corpus, 2, is_multi_label=False)
    assert model.ngram_table is not None
    table = model.ngram_table.embedding.detach().double().numpy()
    found = table[:, 0] if objective == "binary" else table[:, 1] - table[:, 0]
    np.testing.assert_allclose(found, ratio, atol=1e-5)


def test_a_label_is_compared_with_the_texts_without_it(tmp_path: Path) -> None:
    """The second text has both labels, the third none."""
    texts = [(ids, labels) for (ids, _), labels in zip(TEXTS, ([0], [0, 1], []), strict=True)]
    corpus = Corpus.build(tmp_path, "train", texts)
    found = log_count_ratios(text_counts(corpus, 2, ROWS), is_multi_label=True)
    for label in (0, 1):
        has = [1.0 + counts_of([ids for ids, labels in texts if (label in labels) is each]) for each in (True, False)]
        expected = np.log(has[0] / has[0].sum()) - np.log(has[1] / has[1].sum())
        np.testing.assert_allclose(found[:, label].numpy(), expected, atol=1e-5)


def test_three_classes_are_compared_with_their_mean(tmp_path: Path) -> None:
    texts = [(ids, [number]) for number, (ids, _) in enumerate(TEXTS)]
    found = log_count_ratios(text_counts(Corpus.build(tmp_path, "train", texts), 3, ROWS), is_multi_label=False)
    smoothed = np.stack([1.0 + counts_of([ids]) for ids, _ in texts], axis=1)
    shares = np.log(smoothed / smoothed.sum(axis=0))
    np.testing.assert_allclose(found.numpy(), shares - shares.mean(axis=1, keepdims=True), atol=1e-5)
    assert torch.isfinite(found).all()
