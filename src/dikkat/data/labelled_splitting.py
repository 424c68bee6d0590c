"""Split labelled texts so that, where possible, every class is both trained and validated on."""

from array import array
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dikkat.config import DataConfig
from dikkat.data.labelled import LabelledText
from dikkat.data.near_duplicates import text_key
from dikkat.data.splitting import GIANT_SHARE, HeldOut, quotas_of, split_texts

IntArray = NDArray[np.int64]


class KeyGroups:
    """Hold which texts have a key in common; a group is a number, and the groups are in the order of their keys."""

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        """`keys` (N,) has one a text."""
        self._order = np.argsort(keys, kind="stable")
        ordered = keys[self._order]
        self._starts = np.flatnonzero(np.diff(ordered, prepend=~ordered[:1]))
        self._ends = np.append(self._starts[1:], len(keys))

    def __len__(self) -> int:
        return len(self._starts)

    def size(self, group: int) -> int:
        return int(self._ends[group] - self._starts[group])

    def members(self, group: int) -> IntArray:
        return self._order[self._starts[group] : self._ends[group]]

    def with_any(self, is_chosen: NDArray[np.bool_]) -> list[int]:
        """Return the groups that have one of the chosen texts (N,), the smallest first, then by their first text."""
        numbers = np.flatnonzero(np.logical_or.reduceat(is_chosen[self._order], self._starts))
        sizes = self._ends[numbers] - self._starts[numbers]
        firsts = self._order[self._starts[numbers]]
        groups: list[int] = numbers[np.lexsort((firsts, sizes))].tolist()
        return groups


MAX_SHARE = 0.2
"""Largest share of the texts that is held out for validation, when many classes are rare."""
_TRAIN, _VALIDATION, _TEST = range(3)


def split_labelled(texts: Sequence[LabelledText], config: DataConfig, seed: int) -> HeldOut:
    """Hold out texts as `split_texts` does, then move groups of near-duplicates until no class with two is missing.

    A class that training lacks gets its smallest group back from where it is held out; one that validation lacks gets
    its smallest group from training, as long as validation has at most a fifth of the texts. Raises as `split_texts`.
    """
    keys, labels = array("Q"), _LabelSets()
    for example in texts:
        keys.append(text_key(example.text, seed))
        labels.add(example.labels)
    groups = KeyGroups(np.frombuffer(keys, np.uint64) if keys else np.empty(0, np.uint64))
    held_out = _filled(groups, quotas_of(len(texts), config), max(1, len(texts) // GIANT_SHARE))
    if held_out is None:
        # a group over the quota is held out, or there are too few
        held_out = split_texts([example.text for example in texts], config, seed)
    if not held_out.validation:
        return held_out
    parts = np.full(len(texts), _TRAIN, np.int8)
    parts[held_out.validation], parts[held_out.test] = _VALIDATION, _TEST
    _balance(parts, groups, labels)
    return HeldOut(*(np.flatnonzero(parts == part).tolist() for part in (_VALIDATION, _TEST)))


class _LabelSets:
    """Which labels each text has: a number a text, of one of the different sets of labels."""

    def __init__(self) -> None:
        self._numbers, self._of_text = dict[tuple[str, ...], int](), array("i")
        self._sets: list[tuple[str, ...]] = []

    def add(self, labels: tuple[str, ...]) -> None:
        if labels not in self._numbers:
            self._numbers[labels] = len(self._sets)
            self._sets.append(labels)
        self._of_text.append(self._numbers[labels])

    @property
    def of_texts(self) -> NDArray[np.int32]:
        return np.frombuffer(self._of_text, np.int32)

    def count(self, texts: NDArray[np.bool_] | NDArray[np.int64]) -> Counter[str]:
        numbers, counts = np.unique(self.of_texts[texts], return_counts=True)
        counted = Counter[str]()
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            counted.update(dict.fromkeys(self._sets[number], count))
        return counted

    def with_any(self, wanted: set[str]) -> NDArray[np.bool_]:
        """Whether each text has one of these labels."""
        return np.array([not wanted.isdisjoint(labels) for labels in self._sets], np.bool_)[self.of_texts]

    @property
    def labels(self) -> set[str]:
        return {label for labels in self._sets for label in labels}


def _filled(groups: KeyGroups, quotas: tuple[int, int], largest: int) -> HeldOut | None:
    """Parts filled in turn with groups in their order, as far as the quotas reach; None where one stays empty."""
    parts = HeldOut([], [])
    for group in range(len(groups)):
        if all(quota == len(part) for part, quota in zip(parts, quotas, strict=True)):
            break
        if groups.size(group) <= largest:
            parts.take(groups.members(group).tolist(), quotas, largest)
    return None if any(quota and not part for part, quota in zip(parts, quotas, strict=True)) else parts


def _balance(parts: NDArray[np.int8], groups: KeyGroups, labels: _LabelSets) -> None:
    """Move groups between parts; `parts` (N,) says in which part each text is."""
    trained, validated = labels.count(parts == _TRAIN), labels.count(parts == _VALIDATION)
    for part, counted in ((_TEST, Counter[str]()), (_VALIDATION, validated)):
        for group in groups.with_any(parts == part):
            own = labels.count(groups.members(group))
            if not own.keys() <= trained.keys():
                parts[groups.members(group)] = _TRAIN
                # -= and += of a counter look at all labels there are
                counted.subtract(own)
                trained.update(own)
    num_validated = int((parts == _VALIDATION).sum())
    missing = {label for label in labels.labels if not validated[label]}
    for group in groups.with_any((parts == _TRAIN) & labels.with_any(missing)):
        own = labels.count(groups.members(group))
        is_wanted = any(not validated[label] for label in own)
        stays = all(trained[label] > number for label, number in own.items())
        fits = num_validated + groups.size(group) <= MAX_SHARE * len(parts)
        if is_wanted and stays and fits:
            parts[groups.members(group)] = _VALIDATION
            num_validated += groups.size(group)
            trained.subtract(own)
            validated.update(own)
