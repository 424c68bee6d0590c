"""Learn from sentence pairs which words translate each other, by IBM model 1 (Brown et al. 1993) in both directions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.tasks.aligner import WORD, Spans, word_spans

Matrix = NDArray[np.float64]
Ids = NDArray[np.int64]
_ROUNDS = 5
_MAX_CELLS = 4_000_000
"""Pairs of words of one sentence pair, in all: they take 250 MB, and no further sentence pair is read."""
_KEPT = 50
"""Thousandths, under which both probabilities of a link are too low to be kept."""
_UNLINKED = [0, 0]
_CERTAIN = 1000


@dataclass(frozen=True, slots=True)
class WordLinks:
    """Hold how well the S words of a source and the T words of its translation explain each other."""

    source: Sequence[int]
    """(S,): the highest probability of each word given one of the translation, in thousandths."""
    target: Sequence[int]
    """(T,): the same of the words of the translation."""
    target_spans: Spans


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Hold the words that translate each other, in lower case, signs too."""

    links: Mapping[str, Mapping[str, Sequence[int]]]
    """Of a source word and a target word: the probability of the second given the first, and the other way round, in
    thousandths."""

    @classmethod
    def fit(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        """Return the lexicon of sentence pairs; of very many the first ones count."""
        numbers: tuple[dict[str, int], dict[str, int]] = ({}, {})
        known: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
        read: tuple[list[list[int]], list[list[int]]] = ([], [])
        cells = 0
        for pair in pairs:
            for text, own, pieces, rows in zip(pair, numbers, known, read, strict=True):
                for piece in text.split():
                    if piece not in pieces:
                        pieces[piece] = [own.setdefault(word, len(own)) for word in words(piece)]
                rows.append(list(dict.fromkeys(chain.from_iterable(map(pieces.__getitem__, text.split())))))
            cells += len(read[0][-1]) * len(read[1][-1])
            if cells > _MAX_CELLS:
                break
        links: dict[str, dict[str, list[int]]] = {}
        sources, targets = map(list, numbers)
        for source, target, forward, backward in _linked(*read, len(targets)) if cells else ():
            links.setdefault(sources[source], {})[targets[target]] = [forward, backward]
        return cls(links)

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """Return the lexicon of its links as JSON. Raises `ValueError` or another where they are not."""
        links = np.array([_UNLINKED, *chain.from_iterable(known.values() for known in content.values())])
        if links.dtype.kind != "i" or links.shape[1:] != (2,) or links.min() < 0 or links.max() > _CERTAIN:
            raise ValueError("its lexicon has other numbers")
        return cls(content)

    def compare(self, source: str, target: str) -> WordLinks:
        """Return how well the words of a source and of its translation explain each other."""
        spans = word_spans(target)
        own_words, others = words(source), [target[start:end].lower() for start, end in spans]
        best, of_source = dict.fromkeys(others, 0), list[int]()
        for own in own_words:
            known = self.links.get(own, {})
            # numbers, and names that nobody has translated, stay as they are
            is_copied = own in best and (not known or any(map(str.isdigit, own)))
            most = _CERTAIN if is_copied else 0
            for other in known.keys() & best.keys():
                forward, backward = known[other]
                if forward > best[other]:
                    best[other] = forward
                if backward > most:
                    most = backward
            if is_copied:
                best[own] = _CERTAIN
            of_source.append(most)
        return WordLinks(of_source, [best[other] for other in others], spans)


def words(text: str) -> list[str]:
    """Return the words and signs of a text in lower case."""
    return [word.lower() for word in WORD.findall(text)]


def _linked(sources: Sequence[list[int]], targets: Sequence[list[int]], size: int) -> list[list[int]]:
    """Return the numbers of both words of each link, one of `size` of the target, and its two probabilities."""
    own, other = (np.array(list(chain.from_iterable(rows)), np.int64) for rows in (sources, targets))
    lengths = [np.array(list(map(len, rows))) for rows in (sources, targets)]
    # a word belongs to all words of the other side of its sentence pair together
    others = np.repeat(lengths[1], lengths[0])
    of_source = np.repeat(np.arange(len(own)), others)
    begin = np.repeat(np.cumsum(lengths[1]) - lengths[1], lengths[0]) - (np.cumsum(others) - others)
    of_target = np.arange(len(of_source)) + begin[of_source]
    keys, cells = np.unique(own[of_source] * size + other[of_target], return_inverse=True)
    own, other = np.divmod(keys, size)
    both = np.c_[_probabilities(own, cells, of_target), _probabilities(other, cells, of_source)]
    rows = np.c_[own, other, np.rint(1000 * both).astype(np.int64)]
    links: list[list[int]] = rows[rows[:, 2:].max(axis=1) > _KEPT].tolist()
    return links


def _probabilities(conditions: Ids, cells: Ids, owners: Ids) -> Matrix:
    """Return the probability of links (`cells`) given words in `conditions` (N,), whose `owners` are known, by EM."""
    links: Matrix = np.ones(len(conditions))
    for _ in range(_ROUNDS):
        shares = links[cells]
        shares /= np.bincount(owners, shares)[owners]
        counts = np.bincount(cells, shares)
        links = counts / np.bincount(conditions, counts)[conditions]
    return links
