"""The bundled corpus: English sentences with their French or Turkish translation, read from a table in the package.

`tools/phrasebook` in the repository writes the table from a small grammar, so that the English alone determines the
translation. The other way, from Turkish, some of it has to be guessed.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dikkat.data.lessons import Link, Phrase, PhrasebookSplit
from dikkat_runtime.errors import DataError, UsageError, msg, nearest

__all__ = ["MAX_PAIRS", "PAIRS", "PhrasebookSplit", "languages_of_pair", "phrasebook", "phrasebook_split"]

PAIRS = ("en-fr", "en-tr", "tr-en")
"""What is translated into what; a language alone, "fr", is what English is translated into."""
MAX_PAIRS = 28_000
"""The most pairs of one part that may be asked for, and how many distinct sentences there are from each language."""
DATA = Path(__file__).with_name("phrasebook.tsv.gz")
COLUMNS = ("en", "fr", "tr", "part", "part_from_tr", "link")
"""A sentence in three languages, its part where English or Turkish is the source, and the words linked in English."""
REPEATED = "repeated"
"""The part of a sentence whose Turkish has been there before: he and she are one word."""


@cache
def _table() -> list[dict[str, str]]:
    try:
        with gzip.open(DATA, "rt", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    except (OSError, EOFError, zlib.error) as error:
        raise DataError("{path}: cannot be read: {error}; reinstall dikkat", DATA, error) from error


def languages_of_pair(pair: str) -> tuple[str, str]:
    """The languages of a pair, or English and the one that is named. Raises `UsageError` for what is not a pair."""
    whole = pair if "-" in pair else f"en-{pair}"
    if whole not in PAIRS:
        hint = nearest(pair, (*PAIRS, "fr", "tr")) or msg("; choose one of {pairs}", ", ".join(PAIRS))
        raise UsageError('the phrasebook has no pair "{pair}"{hint}', pair, hint)
    source, _, target = whole.partition("-")
    return source, target


def _check(**counts: int) -> None:
    for name, count in counts.items():
        if not 1 <= count <= MAX_PAIRS:
            template = "{name} must be between 1 and {max_pairs} pairs of the phrasebook, but it is {count}"
            raise UsageError(template, name, MAX_PAIRS, count)


def _sentences(source: str) -> Iterator[tuple[dict[str, str], str]]:
    """Each distinct sentence of a language, in the order of the table, with its part."""
    column = "part_from_tr" if source == "tr" else "part"
    return ((row, row[column]) for row in _table() if row[column] != REPEATED)


def phrasebook(pair: str, count: int = 20_000) -> list[Phrase]:
    """Return distinct sentences with their translation, of one of `PAIRS`; "fr" is what English is translated into.

    English determines its translation; Turkish, which has one word for he and she, does not. Raises `UsageError` for
    another pair or a count outside 1 to `MAX_PAIRS`, and `DataError` where the package is damaged.
    """
    source, target = languages_of_pair(pair)
    _check(count=count)
    numbered = zip(range(1, count + 1), _sentences(source), strict=False)
    return [Phrase(row[source], row[target], line) for line, (row, _) in numbered]


def phrasebook_split(pair: str, train: int = 25_000, validation: int = 500, test: int = 1000) -> PhrasebookSplit:
    """Return pairs to train on, to validate on and to test on, whose content words are not combined so in training.

    A part has fewer pairs than it is asked for where the table has no more. Raises `UsageError` and `DataError` like
    `phrasebook`.
    """
    source, target = languages_of_pair(pair)
    wanted = {"train": train, "validation": validation, "test": test}
    _check(**wanted)
    parts: dict[str, list[Phrase]] = {part: [] for part in wanted}
    for row, part in _sentences(source):
        if part and len(parts[part]) < wanted[part]:
            link = Link(*map(int, row["link"].split("-"))) if source == "en" and row["link"] else None
            parts[part].append(Phrase(row[source], row[target], len(parts[part]) + 1, link))
    return PhrasebookSplit(**parts)
