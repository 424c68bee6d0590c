"""Rank texts for each other by their words, as a search engine does: Okapi BM25 (Robertson and Zaragoza 2009)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SATURATION, LENGTH = 1.2, 0.75
"""k1 and b."""
_ROWS_AT_ONCE = 256


def bm25_neighbours(texts: Sequence[str], count: int) -> NDArray[np.int64]:
    """Return (N, K) the indices of the `count` texts that each text as a query finds first, itself left out."""
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import CountVectorizer

    counts = CountVectorizer(token_pattern=r"\w+|[^\w\s]").fit_transform(texts).astype(np.float64)
    lengths = np.asarray(counts.sum(axis=1)).reshape(-1)
    frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log(1.0 + (len(texts) - frequency + 0.5) / (frequency + 0.5))
    rows = np.repeat(np.arange(len(texts)), np.diff(counts.indptr))
    damping = SATURATION * (1.0 - LENGTH + LENGTH * lengths[rows] / lengths.mean())
    weights = idf[counts.indices] * counts.data * (SATURATION + 1.0) / (counts.data + damping)
    documents = csr_array((weights, counts.indices, counts.indptr), shape=counts.shape).T.tocsr()
    ranked = []
    for start in range(0, len(texts), _ROWS_AT_ONCE):
        scores = (counts[start : start + _ROWS_AT_ONCE] @ documents).toarray()
        scores[np.arange(len(scores)), start + np.arange(len(scores))] = -np.inf
        ranked.append(np.argsort(-scores, axis=1, kind="stable")[:, : min(count, len(texts) - 1)])
    return np.concatenate(ranked)
