"""Texts with a label each: reading, normalising and cutting what is too long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dikkat.data.cleaning import normalise
from dikkat.data.readers import read_pairs
from dikkat.errors import DataError, UsageError

_JSON_KEYS = ("label", "text")


class LabelledText(NamedTuple):
    """A text, its label, and where it stands: a 1-based line of its file."""

    label: str
    text: str
    line: int


def read_labelled(
    data: Sequence[str], label_column: str | None = None, text_column: str | None = None
) -> Iterator[LabelledText]:
    """Labelled texts of one table (TSV, CSV, JSONL, each also .gz), or of two aligned files, labels first.

    Columns are 1-based numbers (default: label 1, text 2) or names; the keys of JSONL are by default `label` and
    `text`. Raises `UsageError`, `MissingInputError` or `DataError` with file and line, also for an empty label or text.
    """
    columns = (label_column, text_column)
    if len(data) == 1 and data[0].lower().removesuffix(".gz").endswith(".jsonl"):
        columns = (label_column or _JSON_KEYS[0], text_column or _JSON_KEYS[1])
    elif (label_column or "1") == (text_column or "2"):
        raise UsageError(
            f"label and text are both column {label_column or '1'}: choose two with --label-column and --text-column"
        )
    for pair in read_pairs(data, *columns):
        label, text = normalise(pair.source), normalise(pair.target)
        for what, found in (("label", label), ("text", text)):
            if not found:
                raise DataError(f"{' '.join(data)}:{pair.line}: the {what} is empty; fill it in, or remove the line")
        yield LabelledText(label, text, pair.line)


def shortened(ids: Sequence[int], most: int, beginning: float) -> list[int]:
    """At most `most` ids: of more, the first ones up to the share `beginning` of `most`, then the last ones."""
    if len(ids) <= most:
        return list(ids)
    first = round(most * beginning)
    return [*ids[:first], *ids[len(ids) - (most - first) :]]
