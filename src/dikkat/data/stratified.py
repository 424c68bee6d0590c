"""Split labelled texts so that, where possible, every class is both trained and validated on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from dikkat.config import DataConfig
from dikkat.data.labelled import LabelledText
from dikkat.data.splitting import Split, near_key, split_texts

MOST_SHARE = 0.2
"""Largest share of the texts that is held out for validation, when many classes are rare."""


def split_labelled(texts: Sequence[LabelledText], config: DataConfig, seed: int) -> Split:
    """Split with `split_texts`, then move groups of near-duplicates until no class with two groups is missing.

    A class that training lacks gets its smallest group back from where it is held out; one that validation lacks gets
    its smallest group from training, as long as validation has at most a fifth of the texts. Raises as `split_texts`.
    """
    split = split_texts([example.text for example in texts], config, seed)
    if not split.validation:
        return split
    train, validation, test = set(split.train), set(split.validation), set(split.test)
    trained, validated = _count(texts, split.train), _count(texts, split.validation)
    groups = _groups(texts)
    for part, counted in ((test, Counter[str]()), (validation, validated)):
        for group in groups:
            own = _count(texts, group)
            if part.issuperset(group) and not own.keys() <= trained.keys():
                part.difference_update(group)
                train.update(group)
                counted -= own
                trained += own
    for group in groups:
        own = _count(texts, group)
        is_wanted = any(not validated[label] for label in own)
        stays = all(trained[label] > number for label, number in own.items())
        fits = len(validation) + len(group) <= MOST_SHARE * len(texts)
        if is_wanted and stays and fits and train.issuperset(group):
            train.difference_update(group)
            validation.update(group)
            trained -= own
            validated += own
    return Split(sorted(train), sorted(validation), sorted(test))


def _groups(texts: Sequence[LabelledText]) -> list[list[int]]:
    """Near-duplicates together, the smallest groups first."""
    groups: dict[str, list[int]] = {}
    for index, example in enumerate(texts):
        groups.setdefault(near_key(example.text), []).append(index)
    return sorted(groups.values(), key=lambda group: (len(group), group))


def _count(texts: Sequence[LabelledText], indices: Iterable[int]) -> Counter[str]:
    return Counter(label for index in indices for label in texts[index].labels)
