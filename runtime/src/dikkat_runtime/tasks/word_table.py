"""Score texts by a table of the n-grams of their words and characters: a linear model that is exact about each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.native.arrays import Array, address, aligned
from dikkat_runtime.native.library import TablePart as Part
from dikkat_runtime.native.library import library
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.parts import WORD_TABLE
from dikkat_runtime.run.weights import read_arrays
from dikkat_runtime.text.text_ngrams import NgramReader, Ngrams

KINDS = ("words", "characters")
"""The kinds of n-grams, each of which may be in a table, as a part of its own."""
_TEXTS_AT_ONCE = 1_024
_PRIOR = 10
"""N-grams that the usual share of new ones counts for, so that a short text is not unlike the others by chance."""
_USUAL, _ERRORS = 0.99, 4.0
"""Share of the texts that are like those of training, at least, and standard deviations from their mean."""


class Novelty(NamedTuple):
    """Hold how many n-grams of texts like those of training a table does not know."""

    usual: float = 0.0
    """Mean share of a text."""
    most: float = 1.0
    """Share from which on a text is unlike them."""


class Features(NamedTuple):
    """The n-grams of some texts that a table knows, sorted by text and row, each once."""

    texts: Array
    """(G,), the index of the text."""
    rows: Array
    """(G,), the row of the table."""
    values: Array
    """(G,) float32: term frequency times inverse document frequency, of length 1 for each text."""
    known: Array
    """(B,), how many n-grams of each text the table knows, each as often as it occurs."""


class TablePart:
    """The n-grams of one kind, in rising order of their hashes."""

    def __init__(self, kind: str, hashes: Array, idf: Array) -> None:
        """`hashes` are (N,) unsigned 64-bit, each once; `idf` (N,) float32 are inverse document frequencies."""
        self.kind, self.hashes, self.idf = kind, hashes, idf
        # some four buckets a hash
        self._shift = np.uint64(62 - max(1, len(hashes)).bit_length())
        buckets = (hashes >> self._shift).astype(np.int64)
        counts = np.bincount(buckets, minlength=(1 << (64 - int(self._shift))) + 1)
        self._most = int(counts.max(initial=0))
        self._starts = np.minimum(np.cumsum(counts) - counts, max(0, len(hashes) - 1)).astype(np.int32)

    def ngrams(self, reader: NgramReader, texts: Sequence[str]) -> Ngrams:
        """Return all n-grams of this kind in `texts`."""
        return reader.word_ngrams(texts) if self.kind == "words" else reader.character_ngrams(texts)

    def structure(self, weights: Array) -> Part:
        """Return the part with its weights (N, K), as the kernels read it."""
        arrays = map(address, (self.hashes, self.idf, weights, self._starts))
        return Part(*arrays, len(self.hashes), int(self._shift), self.kind == "characters")

    def features(self, ngrams: Ngrams, count: int) -> Features:
        """Return those of the `ngrams` of `count` texts that the table knows."""
        known, rows = self._find(ngrams.hashes)
        size = max(1, len(self.hashes))
        pairs, counts = np.unique(ngrams.texts[known] * size + rows, return_counts=True)
        texts, rows = np.divmod(pairs, size)
        values = (1.0 + np.log(counts)) * self.idf[rows]
        norms = np.sqrt(np.bincount(texts, values * values, minlength=count))
        known_counts = np.bincount(ngrams.texts[known], minlength=count)
        return Features(texts, rows, np.asarray(values / norms[texts], np.float32), known_counts)

    def _find(self, wanted: Array) -> tuple[Array, Array]:
        """Return the indices of the hashes that there are, and the row of each: entries in its bucket."""
        empty = np.zeros(0, np.int64)
        indices, all_known, all_rows = np.arange(len(wanted)), [empty], [empty]
        rows = self._starts[(wanted >> self._shift).astype(np.int64)]
        for _ in range(self._most):
            entries = self.hashes[rows]
            is_same = entries == wanted[indices]
            all_known.append(indices[is_same])
            all_rows.append(rows[is_same])
            # the hashes rise: after a greater one there is nothing
            goes_on = (entries < wanted[indices]) & (rows + 1 < len(self.hashes))
            indices, rows = indices[goes_on], rows[goes_on] + 1
        return np.concatenate(all_known), np.concatenate(all_rows).astype(np.int64)


class WordTable:
    """A linear model over the n-grams of a text, in parts by their kind; its scores are logits."""

    def __init__(self, parts: Sequence[TablePart], weights: Sequence[Array], bias: Array, language: str = "") -> None:
        """`weights` are (N, K) for the N n-grams of each part, `bias` is (K,): K is C, or 1 for two classes."""
        self.parts = tuple(parts)
        self.weights, self.bias = tuple(aligned(block) for block in weights), bias.astype(np.float32)
        self._reader = NgramReader(language)
        self.novelty = Novelty()
        self.threads = 0
        """Threads of the kernel that scores; 0 where numpy does."""

    @property
    def size(self) -> int:
        """Return how many n-grams it knows."""
        return sum(len(part.hashes) for part in self.parts)

    def scores(self, texts: Sequence[str]) -> Array:
        """Return the logits (B, C) of texts in float32."""
        return self.read(texts)[0]

    def read(self, texts: Sequence[str]) -> tuple[Array, Array]:
        """Return the logits (B, C) of texts in float32, and the shares (B,) of their n-grams that it does not know."""
        blocks = [self._read(texts[start : start + _TEXTS_AT_ONCE]) for start in range(0, len(texts), _TEXTS_AT_ONCE)]
        return np.concatenate([scores for scores, _ in blocks]), np.concatenate([shares for _, shares in blocks])

    def learn_novelty(self, texts: Sequence[str]) -> None:
        """Learn from `texts` that it was not fitted to how much is usually new."""
        self.novelty = Novelty(float(self.read(texts)[1].mean()))
        shares = self.read(texts)[1]
        most = max(float(np.quantile(shares, _USUAL)), float(shares.mean() + _ERRORS * shares.std()))
        self.novelty = Novelty(self.novelty.usual, min(most, 1.0))

    def _read(self, texts: Sequence[str]) -> tuple[Array, Array]:
        total = np.tile(self.bias.astype(np.float64), (len(texts), 1))
        counts = np.zeros((2, len(texts)))
        (self._add_by_kernel if self.threads else self._add_by_numpy)(texts, total, counts)
        # a single output is the logit of the second of two classes, that of the first being 0
        scores = np.pad(total, ((0, 0), (1, 0)) if len(self.bias) == 1 else 0).astype(np.float32)
        return scores, (counts[0] - counts[1] + _PRIOR * self.novelty.usual) / (counts[0] + _PRIOR)

    def _add_by_kernel(self, texts: Sequence[str], total: Array, counts: Array) -> None:
        """Add to the logits (B, K) of texts, and to the numbers (2, B) of their n-grams and of those that are known."""
        joined, ends = self._reader.joined(texts)
        pairs = zip(self.parts, self.weights, strict=True)
        parts = (Part * len(self.parts))(*(part.structure(weights) for part, weights in pairs))
        text, end, scores, both = (address(array) for array in (joined, ends, total, counts))
        sizes = len(parts), len(self.bias)
        if library()[0].score_by_table(parts, *sizes, text, end, len(texts), scores, both, self.threads):
            raise MemoryError(msg("no memory left to score by words"))

    def _add_by_numpy(self, texts: Sequence[str], total: Array, counts: Array) -> None:
        """Add as `_add_by_kernel`, where there are no kernels."""
        for part, weights in zip(self.parts, self.weights, strict=True):
            ngrams = part.ngrams(self._reader, texts)
            features = part.features(ngrams, len(texts))
            counts += np.bincount(ngrams.texts, minlength=len(texts)), features.known
            if not len(features.texts):
                continue
            known, starts = np.unique(features.texts, return_index=True)
            addends = weights[features.rows].astype(np.float64) * features.values[:, None]
            total[known] += np.add.reduceat(addends, starts, axis=0)

    def arrays(self) -> dict[str, Array]:
        """Return its content as 32-bit integers by name, as `of_arrays` reads it."""
        arrays = {"bias": self.bias.astype(np.float32).view(np.int32)}
        arrays["novelty"] = np.array(self.novelty, np.float32).view(np.int32)
        for part, weights in zip(self.parts, self.weights, strict=True):
            arrays[f"{part.kind}.hashes"] = part.hashes.view(np.int32).reshape(-1, 2)
            arrays[f"{part.kind}.idf"] = part.idf.astype(np.float32).view(np.int32)
            arrays[f"{part.kind}.weights"] = np.ascontiguousarray(weights, np.float32).view(np.int32)
        return arrays

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Array], outputs: int, language: str = "") -> "WordTable":
        """Return the table that `arrays` gave. Raises `ValueError` or `LookupError` for arrays that are none."""
        floats = {name: np.ascontiguousarray(array).view(np.float32) for name, array in arrays.items()}
        parts, all_weights = [], []
        for kind in KINDS:
            if f"{kind}.hashes" not in arrays:
                continue
            hashes = np.ascontiguousarray(arrays[f"{kind}.hashes"]).view(np.uint64).reshape(-1)
            idf, weights = floats[f"{kind}.idf"], floats[f"{kind}.weights"]
            if idf.shape != hashes.shape or weights.shape != (len(hashes), outputs):
                raise ValueError(msg("its {kind} do not fit together", kind))
            if not (hashes[1:] > hashes[:-1]).all():
                raise ValueError(msg("its {kind} are not in order", kind))
            parts.append(TablePart(kind, hashes, idf))
            all_weights.append(weights)
        if floats["bias"].shape != (outputs,) or not all(
            np.isfinite(array).all() for array in (floats["bias"], *all_weights, *(part.idf for part in parts))
        ):
            raise ValueError("its numbers do not fit the classes, or are not finite")
        table = cls(parts, all_weights, floats["bias"], language)
        table.novelty = Novelty(*floats["novelty"].reshape(2).tolist())
        return table


def read_word_table(run: Path, outputs: int, language: str = "") -> WordTable:
    """Return the table of a classifier's run. Raises `MissingInputError` or `DataError`."""
    path = checked(run, WORD_TABLE)
    try:
        return WordTable.of_arrays(read_arrays(path, "I32"), outputs, language)
    except (ValueError, LookupError) as error:
        raise DataError("{path}: damaged ({error}); restore the file", path, error) from None
