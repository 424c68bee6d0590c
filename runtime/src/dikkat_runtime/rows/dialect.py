"""Detect how a table of text is written: its separator, whether quotation marks count, and its header.

The separator is the one that gives the same number of columns to nearly all of the first few hundred records, counted
outside quotation marks. Nothing else is read of a table than these records before its rows are.
"""

import csv
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from statistics import median
from typing import AnyStr

from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.files import MAX_LINE_LENGTH
from dikkat_runtime.text.packed import without_packing
from dikkat_runtime.text.text_files import read_text_lines

# Decide whether the first row of a table names its columns.


_COLUMN_NAMES = """
    source src target tgt trg text texts sentence sentences translation translated original reference ref hypothesis
    id ids index idx no nr num number line row key name title comment comments note notes url link date lang language
    label labels class classes category tag topic intent sentiment polarity rating stars score review reviews
    message tweet content body question answer query input output x y document abstract subject domain quality license
    attribution split origin
    kaynak hedef metin cümle çeviri etiket sınıf konu yorum başlık dil puan
    texte phrase traduction cible étiquette langue avis note titre
    quelle ziel satz übersetzung sprache bewertung
    texto frase traducción origen destino etiqueta idioma reseña clase
"""
_HEADER_NAMES = frozenset(_COLUMN_NAMES.split())
"""Words that name columns."""

_LANGUAGE_NAMES = """
    english french german spanish italian portuguese turkish dutch russian ukrainian polish czech greek arabic hebrew
    persian hindi chinese mandarin japanese korean vietnamese thai indonesian swedish norwegian danish finnish hungarian
    romanian bulgarian serbian croatian latin esperanto catalan
    français anglais allemand espagnol italien turc russe chinois arabe deutsch englisch französisch spanisch türkisch
    español inglés francés alemán türkçe ingilizce fransızca almanca ispanyolca
    en eng fr fra de deu ger es spa it ita pt por tr tur nl nld ru rus uk ukr pl pol cs ces el ell ar ara he heb fa hi
    hin zh zho cmn ja jpn ko kor vi vie th tha id ind sv swe no nb da dan fi fin hu hun ro ron bg sr hr la eo epo ca cat
"""
_LANGUAGES = frozenset(_LANGUAGE_NAMES.split())

_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"[-+]?\d+(?:[.,:/\u00a0-]\d+)*\s?%?")
_FEW_WORDS = 4
"""Most words in the name of a column."""
_MIN_ROWS = 8
"""Fewest rows for which a contrast to the first one is meaningful."""
_MAX_CLASSES = 30
_ALIKE = 0.02
"""Share of rows below that may look like names as well."""


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first of `rows` names the columns: by its words, or by its contrast to the rows below."""
    if not rows:
        return False
    first, others = rows[0], rows[1:]
    cells = [cell.strip() for cell in first if cell.strip()]
    # a text that is its own translation is not a header, but of several columns two may have one name
    if not others or not cells or len(set(cells)) < min(2, len(cells)) or not all(map(_may_be_name, cells)):
        return False
    if all(map(_is_name, cells)):
        return True
    if len(others) < _MIN_ROWS:
        return False
    columns = list(zip_longest(*others, fillvalue=""))[: len(first)]
    if any(all(map(is_number, column)) for column in columns):
        return True
    below = [(cell.strip(), column) for cell, column in zip(first, columns, strict=False) if cell.strip()]
    if any(_names_long_text(*cells) for cells in below) and any(
        _is_name(cell) or _names_classes(cell, column) for cell, column in below
    ):
        return True
    is_unlike = _is_alone(others) or any(_is_of_another_script(*cells) for cells in below)
    return is_unlike and all(_names_long_text(*cells, times=1.5) for cells in below)


def is_number(text: str) -> bool:
    """Return whether a cell holds a number, a date or a time, and no words."""
    return _NUMBER.fullmatch(text.strip()) is not None


def _may_be_name(cell: str) -> bool:
    return len(_WORD.findall(cell)) <= _FEW_WORDS and not is_number(cell) and cell[-1] not in ".!?。！？…"


def _is_name(cell: str) -> bool:
    words = [word.rstrip("0123456789") for word in _WORD.findall(cell.casefold())]
    return bool(words) and all(word in _HEADER_NAMES or word in _LANGUAGES or not word for word in words) and any(words)


def _names_long_text(cell: str, column: Sequence[str], times: float = 3.0) -> bool:
    return times * len(cell) <= median(map(len, column))


def _is_alone(others: Sequence[Sequence[str]]) -> bool:
    """Whether hardly a row below the first could be one of names too: they are sentences, or long."""
    alike = sum(all(map(_may_be_name, filter(None, map(str.strip, row)))) for row in others)
    return alike <= _ALIKE * len(others)


def _is_of_another_script(cell: str, column: Sequence[str]) -> bool:
    """Whether a cell has no letter of the script that its column is written in: a table is named in one language."""
    script = _script(" ".join(column))
    return bool(script) and script not in map(_script, cell) and bool(_script(cell))


def _script(text: str) -> str:
    """The script of most letters, as Unicode names them; that of Chinese and Japanese is one."""
    names = (unicodedata.name(letter, "").partition(" ")[0] for letter in text if letter.isalpha())
    counts = Counter("CJK" if name in ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA") else name for name in names)
    return max(counts, key=lambda name: counts[name], default="")


def _names_classes(cell: str, column: Sequence[str]) -> bool:
    """Whether the column repeats few values and the first row has none of them."""
    values = set(column)
    return cell not in values and len(values) <= min(_MAX_CLASSES, len(column) // 4)


SAMPLE_LINES = 400
"""Lines that are read to detect the dialect."""
_SAMPLE_CHARACTERS = 2_000_000
_CONSISTENT = 0.9
"""Least share of records with the same number of columns."""
_DELIMITERS = ("\t", ";", "|", ",")
"""Where several fit equally, the one that is least often part of a text or a number."""
_NAMES = {"\t": msg("tab"), ";": "';'", "|": "'|'", ",": "','"}
_SHOWN = 60
_QUOTED = re.compile(r'"(?:[^"]|"")*"')

Row = tuple[int, list[str]]
"""The line that a row begins on, and its cells."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Hold how a table is written."""

    delimiter: str
    is_quoted: bool
    """Whether a cell may stand in quotation marks, with separators and line breaks in it."""
    num_columns: int
    """Number of columns of nearly every row."""
    header: tuple[str, ...] = ()
    """Names of the columns, empty where the first row is data."""

    def __str__(self) -> str:
        header = ""
        if self.header:
            header = msg(", a header row ({header})", ", ".join(f"“{_shorten(name)}”" for name in self.header))
        return msg("columns separated by {separator}{header}", self.separator, header or msg(", no header row"))

    @property
    def separator(self) -> str:
        """Return the delimiter by name, for messages."""
        return _NAMES[self.delimiter]

    @property
    def is_plain(self) -> bool:
        """Return whether it is what a .tsv is expected to be: tabs, no quotation marks, no header."""
        return self.delimiter == "\t" and not self.is_quoted and not self.header


def read_table(path: Path, *, lenient: bool = False) -> tuple[Dialect, Iterator[Row]]:
    """Return the dialect of the table in a file, and an iterator over all its rows, a header among them.

    Empty lines are not rows. Raises `DataError` where no separator gives the rows the same number of columns, and the
    iterator for bad quotation marks and for a row of too many columns, with file and line.
    """
    lines = _one_row_each(read_text_lines(path, lenient=lenient), path)
    sample = first_lines(lines)
    dialect = find_dialect(sample, str(path))
    if dialect.num_columns < 2:
        raise _no_columns(str(path), sample)
    rows = split_rows((f"{line}\n" for line in chain(sample, lines)), dialect, str(path))
    return dialect, ((line, require_columns(row, dialect, f"{path}:{line}")) for line, row in rows if row)


def find_dialect(sample: Sequence[str], name: str) -> Dialect:
    """Return the dialect of a table called `name` that begins with the lines of `sample`.

    Where no separator gives the rows the same number of columns, they have `num_columns` 0 and the likeliest separator.
    """
    plain = [line.split("\t") for line in sample if line]
    by_tabs = without_packing(Path(name)).lower().endswith(".tsv")
    delimiter, is_quoted = _choose(sample, plain, by_tabs)
    if not delimiter:
        return Dialect(*(("\t", False) if by_tabs else (_likeliest(sample), True)), 0)
    rows = list(_records(sample, delimiter)) if is_quoted else plain
    header = tuple(cell.strip() for cell in rows[0]) if has_header(rows) else ()
    return Dialect(delimiter, is_quoted, _agreement(map(len, rows))[1], header)


def _one_row_each(lines: Iterator[str], path: Path) -> Iterator[str]:
    """The lines, none of which may hold several rows that end as on old Macs; else raises `DataError`."""
    for number, line in enumerate(lines, start=1):
        before, carriage_return, after = line.partition("\r")
        if carriage_return and '"' not in line and any(mark in before and mark in after for mark in _DELIMITERS):
            raise DataError(
                "{path}:{line}: several rows in one line, with carriage returns (\\r) between them, as old Macs "
                "end lines; tr '\\r' '\\n' makes lines of them"
            ).fill(path, number)
        yield line


def first_lines(lines: Iterator[AnyStr]) -> list[AnyStr]:
    """Take the lines from the beginning of a table by which its dialect is found."""
    sample, size = list[AnyStr](), 0
    for line in islice(lines, SAMPLE_LINES):
        sample.append(line)
        size += len(line)
        if size > _SAMPLE_CHARACTERS:
            break
    return sample


def _choose(sample: Sequence[str], plain: list[list[str]], by_tabs: bool) -> tuple[str, bool]:
    """Separator and quoting; no separator where none fits."""
    tabs = sum(len(row) > 1 for row in plain)
    if tabs < len(plain) and _marks_join_lines(sample, len(plain)):
        return "\t", True
    if tabs and (tabs >= _CONSISTENT * len(plain) or (by_tabs and 2 * tabs >= len(plain))):
        return "\t", _are_quotes_meant(plain)
    shares = {}
    for delimiter in _DELIMITERS[1:]:
        share, columns = _agreement(map(len, _records(sample, delimiter)))
        if columns > 1 and share >= _CONSISTENT:
            shares[delimiter] = round(share, 2)
    return max(shares, key=lambda delimiter: shares[delimiter], default=""), True


def _marks_join_lines(sample: Sequence[str], num_lines: int) -> bool:
    """Whether lines without a tab are parts of cells in quotation marks, so that no row is without."""
    counts = [len(row) for row in _records(sample, "\t")]
    # after a mark that was left open few rows are found
    return min(counts, default=0) > 1 and num_lines / 2 <= len(counts) < num_lines


def _agreement(counts: Iterable[int]) -> tuple[float, int]:
    """Share of the rows with the commonest number of columns, and that number."""
    counter = Counter(counts)
    columns, rows = max(counter.items(), key=lambda item: item[1], default=(0, 0))
    return rows / max(1, counter.total()), columns


def _are_quotes_meant(rows: list[list[str]]) -> bool:
    """Whether the marks in rows that were split at tabs enclose cells: nearly all have them, or they are doubled."""
    cells = [cell for row in rows for cell in row]
    marked = [cell for cell in cells if cell.startswith('"')]
    if not marked or not all(map(_QUOTED.fullmatch, marked)):
        return False
    return len(marked) >= _CONSISTENT * len(cells) or any('""' in cell[1:-1] for cell in marked)


def _records(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """Rows up to the first that is not valid."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    try:
        yield from (row for row in reader if row)
    except csv.Error:
        return


def split_rows(lines: Iterable[str], dialect: Dialect, name: str) -> Iterator[Row]:
    """Yield the rows of lines with their ends, an empty list for an empty line; no line is read before its row.

    Raises `DataError` for a quotation mark that is left open.
    """
    if not dialect.is_quoted:
        bodies = (line.removesuffix("\n").removesuffix("\r") for line in lines)
        yield from ((number, line.split("\t") if line else []) for number, line in enumerate(bodies, start=1))
        return
    csv.field_size_limit(MAX_LINE_LENGTH)
    reader = csv.reader(lines, delimiter=dialect.delimiter, strict=True)
    begin = 1
    try:
        for row in reader:
            yield begin, row
            begin = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            "{path}:{line}: not valid CSV ({error}); is a quotation mark left open?", name, begin, error
        ) from None


def require_columns(row: list[str], dialect: Dialect, where: str) -> list[str]:
    """Return the row. Raises `DataError` for one with a separator too many: its cells are not in their columns.

    No text has tabs in it: further columns after tabs are remarks.
    """
    if dialect.num_columns and dialect.delimiter != "\t" and any(row[dialect.num_columns :]):
        raise DataError(
            "{where}: {count} columns, but the rows before have {expected} (separated by {separator}); "
            "put texts that contain {separator} in quotation marks"
        ).fill(where, len(row), dialect.num_columns, dialect.separator)
    return row


def _likeliest(sample: Sequence[str]) -> str:
    """Return the separator that parts most of the records; of several the one that gives most of them as many parts."""

    def fit(delimiter: str) -> tuple[float, float]:
        counts = [len(row) for row in _records(sample, delimiter)]
        return sum(count > 1 for count in counts) / (len(counts) or 1), _agreement(counts)[0]

    return max(_DELIMITERS[::-1], key=fit)


def _no_columns(name: str, sample: Sequence[str]) -> DataError:
    best = _likeliest(sample)
    lengths = [len(row) for row in _records(sample, best)]
    share, columns = _agreement(lengths)
    row, count = next(((row, count) for row, count in enumerate(lengths, 1) if count != columns), (1, columns))
    first = next((line for line in sample if line.strip()), "")
    if columns < 2:
        return DataError(
            "{path}:1: 1 column: no tab, semicolon, comma or | separates columns; the first is “{text}”"
        ).fill(name, _shorten(first))
    return DataError(
        "{path}: no tab, semicolon, comma or | gives its rows the same number of columns: with {separator}, "
        "{share:.0%} have {columns}, but row {row} has {count}; texts that contain it need quotation marks"
    ).fill(name, _NAMES[best], share, columns, row, count)


def _shorten(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[:_SHOWN])
    return shown if len(text) <= _SHOWN else f"{shown}…"
