"""Read texts with their labels, normalise them and cut those that are too long.

Choose the columns of label and text in a table: by the names in its header, or by their content.

Labels are few and short, texts are many and long. A number that counts the rows is neither.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dikkat.data.cleaning import CleaningReport, normalise
from dikkat.data.disk_arrays import record_blocks, sorted_records, text_hash
from dikkat.data.pairs import Pair
from dikkat.data.readers import object_entries, read_pairs, table_kind, text_of
from dikkat.data.stored_pairs import MappedPairs, StoredPairs, side_texts, without_duplicates
from dikkat_runtime.errors import DataError, UsageError, msg, nearest, plural
from dikkat_runtime.rows.dialect import read_table
from dikkat_runtime.text.foreign_json import shown

SAMPLE_ROWS = 2_000
"""Rows by which columns are told apart."""
_MIN_ROWS = 8
"""Fewest rows from which repetition is meaningful."""
_FAR_LONGER = 3
"""A third column counts as the text if it is this many times as long as the second."""

_CALLED_LABEL = """
label labels class classes category categories tag tags topic topics intent sentiment polarity rating stars target
etiket etiketler sınıf kategori konu duygu étiquette étiquettes classe catégorie etiqueta clase kategorie
"""
_LABEL_NAMES = frozenset(_CALLED_LABEL.split())
_CALLED_TEXT = """
text texts sentence sentences review comment message tweet content body question document utterance title source
metin cümle yorum mesaj texte phrase avis texto frase reseña satz
"""
_TEXT_NAMES = frozenset(_CALLED_TEXT.split())


def choose_columns(path: Path, separator: str | None, note: Callable[[str], None]) -> tuple[str, str]:
    """Return the columns of label and text, counted from 1; the first two where nothing says better.

    A choice that is not reported with the dialect of the table goes to `note`. Raises what `read_table` does.
    """
    dialect, rows = read_table(path)
    sample = [row for _, row in islice(rows, SAMPLE_ROWS + bool(dialect.header))][bool(dialect.header) :]
    label, text = _by_name(dialect.header) or _by_content(sample, separator)
    if dialect.is_plain and (label, text) != (0, 1):
        values = _values(sample, label, separator)
        note(
            msg(
                "{path}: label = column {label} ({count:,} different, such as “{example}”), text = column {text}, by "
                "what is in them; else name them with --label-column and --text-column"
            ).fill(path, label + 1, len(values), min(values), text + 1)
        )
    return str(label + 1), str(text + 1)


def _by_name(header: Sequence[str]) -> tuple[int, int] | None:
    names = [name.casefold() for name in header]
    labels = [index for index, name in enumerate(names) if name in _LABEL_NAMES]
    texts = [index for index, name in enumerate(names) if name in _TEXT_NAMES]
    return (labels[0], texts[0]) if labels and texts else None


def _by_content(rows: Sequence[Sequence[str]], separator: str | None) -> tuple[int, int]:
    columns = list(zip_longest(*rows, fillvalue=""))
    if len(rows) < _MIN_ROWS or len(columns) < 2:
        return 0, 1
    distinct = [len(_values(rows, index, separator)) for index in range(len(columns))]
    lengths = [sum(map(len, column)) / len(rows) for column in columns]
    few = [index for index in range(len(columns)) if 2 <= distinct[index] <= len(rows) / 2]
    label = 0
    if 0 not in few or (distinct[1] < distinct[0] and lengths[1] < lengths[0]):
        label = min(few, key=lambda index: distinct[index], default=0)
    others = [index for index in range(len(columns)) if index != label]
    longest = max(others, key=lambda index: lengths[index])
    if label == 0 and lengths[longest] < _FAR_LONGER * lengths[1]:
        longest = 1
    return label, longest


def _values(rows: Sequence[Sequence[str]], index: int, separator: str | None) -> set[str]:
    cells = {row[index].strip() for row in rows if index < len(row)}
    return {part.strip() for cell in cells for part in cell.split(separator)} if separator else cells


_JSON_KEYS = ("label", "text")
_ROLES = ("label", "text")

Columns = tuple[str | None, str | None]
"""Columns of label and text: names, or numbers from 1."""
Note = Callable[[str], None]


class LabelledText(NamedTuple):
    """Hold a text, its labels, and its 1-based line in its file."""

    labels: tuple[str, ...]
    """One label of a class; any number where a text may have several labels."""
    text: str
    line: int

    @property
    def label(self) -> str:
        return self.labels[0]


def read_labelled(
    data: Sequence[str],
    columns: Columns = (None, None),
    *,
    separator: str | None = None,
    note: Note = lambda line: None,
) -> Iterator[LabelledText]:
    """Yield labelled texts of one table (TSV, CSV, JSONL or Parquet), or of two aligned files, labels first.

    Columns that are not named are found by the header, or by what is in them (default: label 1, text 2); what was
    found is reported to `note`. The keys of JSONL are by default `label` and `text`, and a label there may be a list.
    With a `separator` a field holds any number of labels. Raises `UsageError`, `MissingInputError` or `DataError` with
    file and line, also for an empty text, and for an empty label where neither a list nor a `separator` allows it.
    """
    has_keys = len(data) == 1 and table_kind(data[0]) in (".jsonl", ".parquet")
    rows = _object_rows(Path(data[0]), columns) if has_keys else _table_rows(data, columns, separator, note)
    for field, text, line in rows:
        labels = _labels(field, separator)
        text = normalise(text)
        if labels is None or not text:
            where = f"{' '.join(data)}:{line}"
            if labels is None and separator is None and text:
                raise DataError(
                    "{where}: the label is empty; fill it in, or remove the line; where a text may have several "
                    "labels or none, name their separator with --label-separator"
                ).fill(where)
            what = msg("text" if labels else "label")
            raise DataError("{where}: the {part} is empty; fill it in, or remove the line", where, what)
        yield LabelledText(labels, text, line)


def _labels(field: str | list[str], separator: str | None) -> tuple[str, ...] | None:
    """The labels in a field, each once and on one line; None for one that must not be empty."""
    parts = field if isinstance(field, list) else field.split(separator) if separator else [field]
    labels = tuple(dict.fromkeys(filter(None, (" ".join(normalise(part).split()) for part in parts))))
    return labels if labels or separator or isinstance(field, list) else None


def _object_rows(path: Path, columns: Columns) -> Iterator[tuple[str | list[str], str, int]]:
    label_key, text_key = (named or default for named, default in zip(columns, _JSON_KEYS, strict=True))
    for number, entry in object_entries(path, table_kind(str(path))):
        where = f"{path}:{number}"
        value = entry.get(label_key)
        field: str | list[str]
        if isinstance(value, list):
            field = [text_of({label_key: label}, label_key, where) for label in value]
        else:
            field = text_of(entry, label_key, where)
        yield field, text_of(entry, text_key, where), number


def _table_rows(
    data: Sequence[str], columns: Columns, separator: str | None, note: Note
) -> Iterator[tuple[str, str, int]]:
    if len(data) == 1 and table_kind(data[0]) and columns == (None, None):
        columns = choose_columns(Path(data[0]), separator, note)
    elif (columns[0] or "1") == (columns[1] or "2"):
        raise UsageError(
            "label and text are both column {columns}: choose two with --label-column and --text-column"
        ).fill(columns[0] or "1")
    if len(data) == 1:
        yield from (pair[:3] for pair in read_pairs(data, *columns, roles=_ROLES, note=note))
        return
    rest = read_pairs(data, *columns)
    sample = list(islice(rest, SAMPLE_ROWS))
    # the second of two columns holds the labels
    swapped = _by_content([pair[:2] for pair in sample], separator) == (1, 0)
    if swapped:
        note(msg("{labels}: taken for the labels, and {texts} for the texts, by what is in them", data[1], data[0]))
    for pair in chain(sample, rest):
        yield (pair.target, pair.source, pair.line) if swapped else pair[:3]


def with_known_labels(
    texts: Iterator[LabelledText], data: Sequence[str], labels: Sequence[str]
) -> Iterator[LabelledText]:
    """Yield the texts of `data`. Raises `DataError` with file and line for a label that is not in `labels`."""
    for example in texts:
        for label in example.labels:
            if label not in labels:
                raise DataError(
                    '{data}:{line}: the label "{label}" was not in the training data{nearest}; known: {labels}'
                ).fill(" ".join(data), example.line, shown(label), nearest(label, labels), ", ".join(labels))
        yield example


# Labelled texts in a file without a name: as many as the disk holds, each read when it is asked for.

_BREAK = "\t"
"""Stands between labels, and cannot stand in one."""


class StoredLabels(MappedPairs[LabelledText]):
    """Hold labelled texts in their order, or some of them."""

    _pairs: StoredPairs

    def __init__(self, pairs: StoredPairs) -> None:
        super().__init__(pairs, lambda pair: LabelledText(_labels_of_pair(pair), pair.target, pair.line))

    @classmethod
    def store(
        cls, texts: Iterable[LabelledText], report: CleaningReport, directory: Path | None = None
    ) -> "StoredLabels":
        """Write texts to a file in `directory` that has no name there, but those that came before with the same labels.

        `report` counts what is read, kept and left out. Raises `DiskError` and what `texts` raises.
        """
        pairs = StoredPairs.store(_counted(texts, report), directory)
        return cls(
            without_duplicates(pairs, report, lambda pair: pair._replace(source=", ".join(_labels_of_pair(pair))))
        )

    @property
    def texts(self) -> Sequence[str]:
        return side_texts(self._pairs, "target")

    def without(self, dropped: NDArray[np.int64]) -> "StoredLabels":
        """Return the texts but those of the indices `dropped`, which ascend. Raises `DiskError`."""
        return StoredLabels(self._pairs.without([dropped]))

    def sample(self, most: int, seed: int) -> "StoredLabels":
        """Return about `most` of the texts, drawn by `seed`; all of them where they are no more. Raises `DiskError`."""
        return StoredLabels(self._pairs.sample(most, seed))


def _counted(texts: Iterable[LabelledText], report: CleaningReport) -> Iterator[Pair]:
    for example in texts:
        report.read += 1
        report.kept += 1
        yield Pair(_BREAK.join(example.labels), example.text, example.line)


def _labels_of_pair(pair: Pair) -> tuple[str, ...]:
    return tuple(filter(None, pair.source.split(_BREAK)))


# Describe what is unusual about a table of labelled texts, before anything is trained on it.

_SHOWN = 5
_TEXT = np.dtype([("text", "<u8"), ("index", "<i8"), ("labels", "<u8")])
_MIN_TEXTS = 10
"""Fewest texts for which nearly unique labels are unusual."""
_ID_SHARE, MAX_LABELS = 0.9, 10_000
"""Labels a text from which they are those of a column of ids, and labels that a classifier may have."""
_NUMBER = re.compile(r"[-+]?[0-9]*[.,]?[0-9]+(?:[eE][-+]?[0-9]+)?")
_MAX_NUMBERS, _NUMBERS_SHARE = 50, 0.02
"""Different numbers that may be classes, such as years or stars, and their share of the texts."""
_MANY_SHARE = 0.3


def require_classes(texts: Sequence[LabelledText], name: str) -> None:
    """Raise `DataError` where the labels are those of a column of ids, of quantities or of the texts themselves."""
    counts = _counts(texts)
    if all(text.labels == (text.text,) for text in texts):
        raise DataError("{name}: each label is its text; choose two columns with --label-column, --text-column", name)
    if len(counts) > MAX_LABELS or (len(texts) >= _MIN_TEXTS and len(counts) > _ID_SHARE * len(texts)):
        raise DataError(
            "{name}: {count:,} different labels on {texts:,} texts, such as {examples}: that looks like a column of "
            "ids or texts; name the right one with --label-column"
        ).fill(name, len(counts), len(texts), _listed(list(counts)[:2]))
    if len(counts) > max(_MAX_NUMBERS, _NUMBERS_SHARE * len(texts)) and all(map(_NUMBER.fullmatch, counts)):
        raise DataError(
            "{name}: {count:,} different numbers for labels, such as {examples}: that looks like a quantity; use ranges"
            " instead, such as low and high, or name the column of the classes with --label-column"
        ).fill(name, len(counts), _listed(list(counts)[:2]))


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
            msg("{count:,} different labels on {texts:,} texts: few texts to learn each from", len(counts), len(texts))
        )
    if single := [label for label, count in counts.items() if count == 1]:
        names = _listed(single)
        classes = msg("class {names} has", names) if len(single) == 1 else msg("classes {names} have", names)
        remarks.append(msg("{classes} a single text", classes))
    if alike := _alike_but_for_case(counts):
        remarks.append(msg("the labels {labels} differ only in case, and are two classes", _listed(alike)))
    count, index = _ambiguous(texts)
    if count:
        first = texts[index]
        remarks.append(
            msg("{texts} came before with another label, such as line {line}: “{text}”").fill(
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
        remarks.append(
            msg(
                "{same} {count:,} validation texts are in the training data too: scores on them do not say how "
                "well new texts are classified"
            ).fill("all" if seen == len(validation) else f"{seen:,} of", len(validation))
        )
    measured = _counts(validation)
    if missing := [label for label in _counts(train) if label not in measured]:
        remarks.append(
            msg("no validation text of {labels}: macro F1 is over the other {count:,}", _listed(missing), len(measured))
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
    """How many texts came before with other labels, and the index of the first; texts are identified by a hash."""
    count, first, text, labels = 0, -1, -1, -1
    rows = (
        (text_hash(example.text), index, text_hash("\n".join(sorted(example.labels))))
        for index, example in enumerate(texts)
    )
    for block in sorted_records(record_blocks(rows, _TEXT)):
        for own_text, index, own_labels in block.tolist():
            if own_text != text:
                text, labels = own_text, own_labels
            elif own_labels != labels:
                count, first = count + 1, index if first < 0 else min(first, index)
    return count, first


def _listed(labels: Sequence[str]) -> str:
    rest = msg(" and {count:,} more", len(labels) - _SHOWN) if len(labels) > _SHOWN else ""
    return ", ".join(f"“{label[:40]}”" for label in labels[:_SHOWN]) + rest
