"""Describe what is unusual about a table of labelled texts, before anything is trained on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice

import numpy as np

from dikkat.data.disk_arrays import BLOCK, Records, sorted_records
from dikkat.data.labelled import LabelledText
from dikkat_runtime.errors import DataError
from dikkat_runtime.messages import msg, plural

_SHOWN = 5
_TEXT = np.dtype([("text", "<u8"), ("index", "<i8"), ("labels", "<u8")])
_MIN_TEXTS = 10
"""Fewest texts for which nearly unique labels are unusual."""
_ID_SHARE = 0.9
_MANY_SHARE = 0.3


def require_classes(texts: Sequence[LabelledText], name: str) -> None:
    """Raise `DataError` where the labels are those of an id column: nearly all different."""
    counts = _counts(texts)
    if len(texts) >= _MIN_TEXTS and len(counts) > _ID_SHARE * len(texts):
        raise DataError(
            "{name}: {count:,} different labels on {count2:,} texts, as {listed}: that looks like a column of ids or "
            "texts; name the right one with --label-column"
        ).fill(name, len(counts), len(texts), _listed(list(counts)[:2]))


def table_remarks(texts: Sequence[LabelledText]) -> list[str]:
    """Return lines on what is unusual about all texts that were read."""
    counts = _counts(texts)
    remarks: list[str] = []
    first = texts[0]
    others_repeat = min((count for label, count in counts.items() if label not in first.labels), default=0) > 1
    if len(first.labels) == 1 and counts[first.label] == 1 and others_repeat and len(first.text.split()) <= 2:
        remarks.append(
            msg(
                "line {line} looks like a header: its label “{label}” occurs nowhere else; remove the line if it is one"
            ).fill(first.line, first.label)
        )
    if len(texts) >= _MIN_TEXTS and len(counts) > _MANY_SHARE * len(texts):
        remarks.append(
            msg("{count:,} different labels on {count2:,} texts: few texts to learn each from").fill(
                len(counts), len(texts)
            )
        )
    if single := [label for label, count in counts.items() if count == 1]:
        remarks.append(msg("{classes} a single text").fill(_classes(single)))
    if alike := _alike_but_for_case(counts):
        remarks.append(msg("the labels {listed} differ only in case, and are two classes").fill(_listed(alike)))
    count, index = _ambiguous(texts)
    if count:
        first = texts[index]
        remarks.append(
            msg("{texts} came before with another label, as line {line}: “{text}”").fill(
                plural(count, "text"), first.line, first.text[:40]
            )
        )
    return remarks


def _alike_but_for_case(labels: Iterable[str]) -> list[str]:
    """The first two labels that differ in nothing but upper and lower case; none where all differ in more."""
    first: dict[str, str] = {}
    for label in labels:
        if (other := first.setdefault(label.casefold(), label)) != label:
            return [other, label]
    return []


def split_remarks(train: Sequence[LabelledText], validation: Sequence[LabelledText]) -> list[str]:
    """Return lines on what validation cannot measure."""
    remarks: list[str] = []
    if seen := texts_seen(train, validation):
        same = "all" if seen == len(validation) else f"{seen:,} of"
        remarks.append(
            msg(
                "{same} {count:,} validation texts stand in the training data too: scores on them do not say how well "
                "new texts are classified"
            ).fill(same, len(validation))
        )
    measured = _counts(validation)
    if missing := [label for label in _counts(train) if label not in measured]:
        remarks.append(
            msg("no validation text of {listed}: macro F1 is over the other {count:,}").fill(
                _listed(missing), len(measured)
            )
        )
    return remarks


def texts_seen(train: Sequence[LabelledText], validation: Sequence[LabelledText]) -> int:
    """Return how many of the texts of `validation` are among those of `train`, whatever their label."""
    asked = {example.text for example in validation}
    known = {example.text for example in train if example.text in asked}
    return sum(example.text in known for example in validation)


def _counts(texts: Sequence[LabelledText]) -> Counter[str]:
    return Counter(label for example in texts for label in example.labels)


def _ambiguous(texts: Iterable[LabelledText]) -> tuple[int, int]:
    """How many texts came before with other labels, and the index of the first of them; texts are told by a hash."""
    count, first, text, labels = 0, -1, -1, -1
    for block in sorted_records(_hashes(texts)):
        for own_text, index, own_labels in block.tolist():
            if own_text != text:
                text, labels = own_text, own_labels
            elif own_labels != labels:
                count, first = count + 1, index if first < 0 else min(first, index)
    return count, first


def _hashes(texts: Iterable[LabelledText]) -> Iterator[Records]:
    numbers = enumerate(texts)
    while rows := [
        (_hash(example.text), index, _hash("\n".join(sorted(example.labels))))
        for index, example in islice(numbers, BLOCK)
    ]:
        yield np.array(rows, _TEXT)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")


def _classes(labels: Sequence[str]) -> str:
    return (
        msg("class {listed} has").fill(_listed(labels))
        if len(labels) == 1
        else msg("classes {listed} have").fill(_listed(labels))
    )


def _listed(labels: Sequence[str]) -> str:
    rest = msg(" and {count:,} more").fill(len(labels) - _SHOWN) if len(labels) > _SHOWN else ""
    return ", ".join(f"“{label[:40]}”" for label in labels[:_SHOWN]) + rest
