"""The initial n-gram table of a classifier: what the words and word pairs of the training texts say of the classes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dikkat.data.corpus import Corpus
from dikkat.models.classifier import EncoderClassifier
from dikkat_runtime.ngrams import pair_rows, token_rows


def fill_ngram_table(model: EncoderClassifier, corpus: Corpus, num_classes: int, *, is_multi_label: bool) -> None:
    """Fill the table of `model`, if it has one, with the log-count ratios of `corpus`."""
    if model.ngram_table is None:
        return
    table = model.ngram_table.embedding
    ratios = log_count_ratios(text_counts(corpus, num_classes, len(table)), is_multi_label=is_multi_label)
    with torch.no_grad():
        # a single output is the logit of the second class, that of the first being 0
        table.copy_(ratios if table.shape[1] == num_classes else ratios[:, 1:] - ratios[:, :1])


def text_counts(corpus: Corpus, num_classes: int, rows: int) -> NDArray[np.float64]:
    """Count the texts (N, C) of each class, and in a last column of all, with an n-gram of each of N table `rows`."""
    counts = np.zeros((rows, num_classes + 1))
    for index in range(len(corpus)):
        ids = np.asarray(corpus.source(index), np.int64)
        present = np.unique(np.concatenate((token_rows(ids, rows), pair_rows(ids[None], rows)[0])))
        columns = np.append(np.asarray(corpus.target(index), np.int64), num_classes)
        counts[present[:, None], columns] += 1.0
    return counts


def log_count_ratios(counts: NDArray[np.float64], *, is_multi_label: bool) -> Tensor:
    """Compute the log-count ratios (N, C) of `counts`, in nats (Wang and Manning 2012).

    They compare the smoothed share of a row in a class with its geometric mean over the classes; where a text has any
    number of labels, with its share in the texts without that label.
    """
    with_label = _log_shares(counts[:, :-1])
    others = _log_shares(counts[:, -1:] - counts[:, :-1]) if is_multi_label else with_label.mean(axis=1, keepdims=True)
    return torch.from_numpy(with_label - others).float()


def _log_shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    smoothed = counts + 1.0
    shares: NDArray[np.float64] = np.log(smoothed) - np.log(smoothed.sum(axis=0))
    return shares
