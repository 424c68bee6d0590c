"""Split pairs into training, validation and test parts between which no near-duplicate leaks.

Pairs that share a near key on either side belong to one group, and a group goes to one part as a whole. A random
split of the pairs themselves would put "I have 2 dogs." into training and "I have 3 dogs!" into the test.
"""

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dikkat.config import DataConfig
from dikkat.data.cleaning import shorten
from dikkat.data.disk_arrays import DiskArray, Records, record_blocks, sorted_records
from dikkat.data.labelled import LabelledText
from dikkat.data.pairs import Pair
from dikkat_runtime.errors import DataError, msg, plural

HELD_OUT_SHARE = 20
"""Validation and test each get at most one pair in this many; with fewer pairs nothing is held out."""
GIANT_SHARE = 100
"""A group of more than one pair in this many always trains: held out, it would be most of its part."""

_MARKUP = re.compile(
    r"%(?:\(\w+\)|\d+\$)?[-+#\d]*(?:\.\d+)?(?:hh|ll|[hlzjtq])?[diouxefgcsp@]"  # printf: %s, %2$d, %(name)s, %.1f
    r"|[$%]?\{[^{}\s]*\}"  # {name}, ${name}, {0}
    r"|</?[a-z][\w:-]*(?:\s+[\w:-]+\s*=\s*(?:'[^']*'|\"[^\"]*\"))*\s*/?>"  # <b>, </a>, <br/>, <a href="x">
    r"|&(?:[a-z][a-z0-9]*|#x?[0-9a-f]+);"  # &amp;, &#160;
)
_MNEMONICS = re.compile(r"[_&](?=\w)")
_NUMBERS = re.compile(r"\d+(?:[.,:\u00a0\u202f]\d+)*")


class HeldOut(NamedTuple):
    """Hold the indices of the pairs that are not trained on, ascending."""

    validation: list[int]
    test: list[int]


def near_key(text: str) -> str:
    """Return a text without case, numbers, punctuation, markup, placeholders and mnemonics.

    Numbers become 0. The four Turkish letters I, ı, İ, i become one, since which of them is meant by a capital
    depends on the language.
    """
    folded = text.casefold()
    if any(mark in folded for mark in "%{<&_"):
        folded = _MNEMONICS.sub("", _MARKUP.sub(" ", folded))
    return " ".join(_NUMBERS.sub("0", folded).translate(_WITHOUT_PUNCTUATION).split())


def split_pairs(pairs: Sequence[Pair], config: DataConfig, seed: int) -> HeldOut:
    """Hold out whole groups of near-duplicates, chosen by hash: a pure function of the texts and the seed.

    Each held-out part has at most 5 % of the pairs and at most the number in `config`, but never less than one group
    when there are 20 pairs or more; with fewer pairs all train. Raises `DataError` for fewer groups than parts.
    """
    return _split([pair_keys(pair, seed) for pair in pairs], "pair", config, [pair.source for pair in pairs])


def split_texts(texts: Sequence[str], config: DataConfig, seed: int) -> HeldOut:
    """Split texts that have a label instead of a translation; near-duplicates of a text stay together."""
    return _split([(text_key(text, seed),) for text in texts], "text", config, texts)


def quotas_of(count: int, config: DataConfig) -> tuple[int, int]:
    """Return how many of `count` pairs are to be held out at most, for validation and for the test."""
    return min(config.validation_pairs, count // HELD_OUT_SHARE), min(config.test_pairs, count // HELD_OUT_SHARE)


def _split(keys: Sequence[tuple[int, ...]], what: str, config: DataConfig, texts: Sequence[str]) -> HeldOut:
    quotas = quotas_of(len(keys), config)
    groups = _groups(keys)
    needed = 1 + sum(map(bool, quotas))
    if needed > 1 and len(groups) < needed:
        raise DataError(
            "{count} in only {groups} of near-duplicates{alike}: too few to hold out whole groups; add more "
            "varied {unit}s, or name validation data with --valid"
        ).fill(plural(len(keys), what), plural(len(groups), "group"), _alike(groups, texts), what)
    return _hold_out(groups, quotas, largest=max(1, len(keys) // GIANT_SHARE))


def _alike(groups: list[list[int]], texts: Sequence[str]) -> str:
    """Two texts of the largest group, and why they are in it."""
    largest = max(groups, key=len)
    other = next((index for index in largest if texts[index] != texts[largest[0]]), None)
    if other is None:
        return ""
    return msg(
        " (differing in numbers, case or punctuation alone, or sharing a side, such as {first} and {second})"
    ).fill(shorten(texts[largest[0]]), shorten(texts[other]))


def _hold_out(groups: list[list[int]], quotas: tuple[int, int], largest: int) -> HeldOut:
    """Fill the parts in turn with groups, in their order, as far as the quotas reach."""
    parts, rest = HeldOut([], []), []
    for group in groups:
        for part, quota in zip(parts, quotas, strict=True):
            if len(group) <= min(largest, quota - len(part)):
                part += group
                break
        else:
            rest.append(group)
    # Few pairs in large groups: one group over the quota, even a giant, is better than a part with nothing in it.
    smallest = iter(sorted(rest, key=len))
    for part, quota in zip(parts, quotas, strict=True):
        if quota and not part:
            part += next(smallest)
        part.sort()
    return parts


def _groups(keys: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Connected components of entries that share a key, in the order of the hashes of their first (union-find)."""
    parents = list(range(len(keys)))
    owners: dict[int, int] = {}
    for index, own in enumerate(keys):
        for key in own:
            parents[_root(parents, index)] = _root(parents, owners.setdefault(key, index))
    members: dict[int, list[int]] = {}
    for index in range(len(keys)):
        members.setdefault(_root(parents, index), []).append(index)
    # The smallest hash in a group does not depend on the order of the entries, and no other group has it.
    return sorted(members.values(), key=lambda group: min(keys[index][0] for index in group))


def pair_keys(pair: Pair, seed: int) -> tuple[int, int]:
    """Return hashes of the near keys of source and target."""
    return _hash("source", pair.source, seed), _hash("target", pair.target, seed)


def text_key(text: str, seed: int) -> int:
    """Return the hash of the near key of a text that has no translation, 8 bytes."""
    return _hash("source", text, seed)


def _root(parents: list[int], index: int) -> int:
    while parents[index] != index:
        parents[index] = parents[parents[index]]
        index = parents[index]
    return index


def _hash(side: str, text: str, seed: int) -> int:
    """8 bytes; the side is part of it, so that a source never meets a target."""
    digest = blake2b(near_key(text).encode("utf-8", "replace"), digest_size=8, key=f"{side} {seed}".encode())
    return int.from_bytes(digest.digest(), "big")


class _CharacterMap(dict[int, str | None]):
    """A translation table that is filled as characters are met: letters, marks and digits stay, the rest is space."""

    def __missing__(self, code: int) -> str | None:
        category = unicodedata.category(chr(code))
        # Soft hyphens, joiners and marks of direction are invisible inside words.
        kept = None if category == "Cf" else chr(code) if category[0] in "LMN" else " "
        self[code] = kept
        return kept


# casefold turns I and i into i, İ into i + U+0307, and leaves ı.
_WITHOUT_PUNCTUATION = _CharacterMap({0x131: "i", 0x307: None})


# Hold out groups of near-duplicate pairs in memory that does not grow with the pairs.
#
# A group is followed from one of its pairs through the pairs that share a side with it, which are looked up on disk,
# and no further than a part has space for. Nearly all data fills its parts with the first few thousand groups.

_KEYS = np.dtype([("source", "<u8"), ("target", "<u8")])
_ENTRY = np.dtype([("key", "<u8"), ("index", "<i8")])
_STEP = 512
"""Of a sorted array on disk, one key in so many is kept in memory."""


def hold_out_pairs(pairs: Sequence[Pair], config: DataConfig, seed: int, directory: Path | None = None) -> HeldOut:
    """Return the indices of the pairs that `split_pairs` holds out; it does so itself where groups are few and large.

    Raises as `split_pairs`, and `DiskError`.
    """
    quotas = quotas_of(len(pairs), config)
    keys = DiskArray.of(record_blocks((pair_keys(pair, seed) for pair in pairs), _KEYS), _KEYS, directory)
    groups = _Groups(keys, directory)
    parts = HeldOut([], [])
    largest = max(1, len(keys) // GIANT_SHARE)
    while (most := max(min(largest, quota - len(part)) for part, quota in zip(parts, quotas, strict=True))) > 0:
        group = groups.next(most)
        if group is None:
            break
        for part, quota in zip(parts, quotas, strict=True):
            if len(group) <= min(largest, quota - len(part)):
                part += group
                break
    if any(quota and not part for part, quota in zip(parts, quotas, strict=True)):
        # a group over the quota is held out, so the sizes of all groups are needed
        return split_pairs(pairs, config, seed)
    return HeldOut(sorted(parts.validation), sorted(parts.test))


class _Groups:
    """Find groups of pairs that share a key, in the order of the smallest key of their sources."""

    def __init__(self, keys: DiskArray, directory: Path | None) -> None:
        self._keys = keys
        self._by_source, self._by_target = (_Index(keys, side, directory) for side in ("source", "target"))
        # one bit a pair
        self._seen = np.zeros(len(keys) // 8 + 1, np.uint8)
        self._firsts = self._by_source.firsts()

    def next(self, most: int) -> list[int] | None:
        """Return the next group of at most `most` pairs, or None where there is none left.

        A group that was passed over since it was larger is not looked at again: what a part has space for only shrinks.
        """
        for index, count in self._firsts:
            if count <= most and not self._is_seen(index):
                group = self._group_of(index, most)
                if group is not None:
                    return group
        return None

    def _group_of(self, first: int, most: int) -> list[int] | None:
        """Every pair that is connected with `first`; None where they are more than `most`, or were passed over."""
        members, waiting = {first}, [first]
        self._mark(first)
        while waiting:
            source, target = self._keys.read(waiting[-1], waiting.pop() + 1)[0]
            for index, key in ((self._by_source, source), (self._by_target, target)):
                alike = index.members(key, most)
                if alike is None:
                    return None
                for other in alike:
                    if other in members:
                        continue
                    if self._is_seen(other):
                        return None
                    self._mark(other)
                    members.add(other)
                    waiting.append(other)
            if len(members) > most:
                return None
        return list(members)

    def _is_seen(self, index: int) -> bool:
        return bool(self._seen[index >> 3] >> (index & 7) & 1)

    def _mark(self, index: int) -> None:
        self._seen[index >> 3] |= 1 << (index & 7)


class _Index:
    """The pairs in the order of the key of one side, on disk."""

    def __init__(self, keys: DiskArray, side: Literal["source", "target"], directory: Path | None) -> None:
        self._sorted = DiskArray.of(sorted_records(_entries(keys, side), directory), _ENTRY, directory)
        firsts = [self._sorted.read(start, start + 1)["key"] for start in range(0, len(self._sorted), _STEP)]
        self._every = np.concatenate(firsts) if firsts else np.empty(0, np.uint64)

    def members(self, key: np.uint64, most: int) -> list[int] | None:
        """Return the pairs of a key, ascending; None where they are more than `most`."""
        first, last = np.searchsorted(self._every, key, "left"), np.searchsorted(self._every, key, "right")
        if (last - first - 1) * _STEP > most:
            return None
        block = self._sorted.read(max(0, int(first) - 1) * _STEP, int(last) * _STEP)
        low, high = (int(np.searchsorted(block["key"], key, side)) for side in ("left", "right"))
        return None if high - low > most else block["index"][low:high].tolist()

    def firsts(self) -> Iterator[tuple[int, int]]:
        """Yield for each key its first pair, and a lower bound of how many pairs it has."""
        last: np.uint64 | None = None
        for block in self._sorted.blocks():
            keys = block["key"]
            starts = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
            counts = np.diff(starts, append=len(keys))
            begin = int(last is not None and keys[0] == last)
            last = keys[-1]
            yield from zip(block["index"][starts[begin:]].tolist(), counts[begin:].tolist(), strict=True)


def _entries(keys: DiskArray, side: Literal["source", "target"]) -> Iterator[Records]:
    start = 0
    for block in keys.blocks():
        entries: NDArray[np.void] = np.empty(len(block), _ENTRY)
        entries["key"], entries["index"] = block[side], np.arange(start, start + len(block))
        start += len(block)
        yield entries


# Split labelled texts so that, where possible, every class is both trained and validated on.


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
        size = groups.size(group)
        for part, quota in zip(parts, quotas, strict=True):
            if size <= min(largest, quota - len(part)):
                part += groups.members(group).tolist()
                break
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
