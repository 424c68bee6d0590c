"""Read pairs from two aligned files, one table, catalog (.po) or memory (.tmx), or installed catalogs.

Reading streams; memory does not grow with the file. A pair is two lines of text: a line break inside a CSV or JSON
field becomes a space. Lines of a table with nothing in them are skipped.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from dikkat.data.alignment import shift_line
from dikkat.data.gettext_catalogs import read_catalogs
from dikkat.data.languages import GETTEXT, languages_of
from dikkat.data.pairs import Pair, lines_of
from dikkat.data.translations import SUFFIXES, Census, LanguageChoice, read_translations
from dikkat_runtime.documents.formats import find_format, require_format
from dikkat_runtime.documents.memories import plain_text
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.errors import DataError, DikkatError, UsageError, joined, msg, nearest, plural
from dikkat_runtime.rows.dialect import Dialect, read_table
from dikkat_runtime.rows.line_rows import json_entries
from dikkat_runtime.rows.parquet_rows import parquet_entries
from dikkat_runtime.text.file_kinds import named_kind
from dikkat_runtime.text.packed import without_packing
from dikkat_runtime.text.text_files import read_lines, read_text_lines, reading_errors

__all__ = ["Column", "LanguageChoice", "Pair", "languages_of", "read_inputs", "read_pairs"]

Column = str | int | None
"""A header name, a 1-based number (also as digits in a string), or the default of the format."""
DEFAULT_KEYS = (("source", "target"), ("src", "tgt"))
_LINE_BREAKS = re.compile(r"[\r\n]+")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
Note = Callable[[str], None]
"""Takes one line about how the data is read."""

_KNOWN = msg(
    ".tsv, .csv, .jsonl, .po, .mo, .xlf, .tmx (each also compressed), .parquet, two aligned files or documents, or"
    " gettext:LANGUAGE"
)
_DOCUMENTS = (msg("SubRip subtitles"), msg("WebVTT subtitles"), "Markdown", "HTML", msg("Word document"))


def read_pairs(
    data: Sequence[str],
    source_column: Column = None,
    target_column: Column = None,
    *,
    languages: LanguageChoice | None = None,
    roles: tuple[str, str] = ("source", "target"),
    note: Note = lambda line: None,
) -> Iterator[Pair]:
    """Yield the pairs of `data`: two paths of aligned files, the path of one table, .po or .tmx, or `gettext:LANGUAGE`.

    Columns choose the sides of a table: TSV and CSV take a 1-based number or a name in the first line (default: those
    called source and target, or src and tgt, else 1 and 2); JSONL takes keys, looked up in "translation" too. What
    separates the columns and whether there is a header is found, and reported to `note`, where a side is called by its
    role. So is what was read of a memory, an XLIFF file or a catalog, of whose languages `languages` chooses two.
    Raises `UsageError` at once, and `DataError` or `MissingInputError` with file and line while reading.
    """
    inputs = read_inputs(data, source_column, target_column, languages=languages, roles=roles, note=note)
    return numbered_pairs(inputs)


def numbered_pairs(inputs: Sequence[tuple[str, Iterator[Pair]]]) -> Iterator[Pair]:
    """All pairs of `read_inputs`, whose lines tell of which file they are where there are several."""
    if len(inputs) == 1:
        return inputs[0][1]
    return chain.from_iterable(_numbered(pairs, lines_of(name)) for name, pairs in inputs)


def _numbered(pairs: Iterator[Pair], line_of: Callable[[int], int]) -> Iterator[Pair]:
    return (Pair(pair.source, pair.target, line_of(pair.line)) for pair in pairs)


def read_inputs(
    data: Sequence[str],
    source_column: Column = None,
    target_column: Column = None,
    *,
    languages: LanguageChoice | None = None,
    roles: tuple[str, str] = ("source", "target"),
    note: Note = lambda line: None,
    lenient: bool = False,
) -> list[tuple[str, Iterator[Pair]]]:
    """The pairs of `read_pairs`, apart for each file, or two files, with its name.

    With `lenient`, bytes of lines and tables that are not UTF-8 become the replacement character.
    """
    columns, choice = (source_column, target_column), languages or LanguageChoice()
    groups = _groups(data)
    if columns != (None, None) and not any(table_kind(names[0]) for names in groups):
        raise UsageError(
            "columns can be chosen in a table (.tsv, .csv, .jsonl, .parquet), not in {kind}", _kind(groups[0])
        )
    if len(groups) > 1:
        # the last of many files should not be missed after hours
        for file in chain.from_iterable(groups):
            if not file.startswith(GETTEXT):
                with reading_errors(Path(file)):
                    pass
    inputs: list[tuple[str, Iterator[Pair]]] = []
    for names in groups:
        name, kind = names[0], _suffix(names[0])
        if name.startswith(GETTEXT):
            pairs = _read_catalogs(name.removeprefix(GETTEXT))
        elif len(names) == 2:
            paths = Path(name), Path(names[1])
            read_as = find_format(name)
            is_document = read_as is not None and read_as.name in _DOCUMENTS
            pairs = _read_documents(*paths) if is_document else _read_aligned(*paths, lenient)
        elif kind in SUFFIXES:
            pairs = _counted(Path(name), kind, choice, note)
        elif kind in (".jsonl", ".parquet"):
            pairs = read_object_pairs(Path(name), columns, kind)
        else:
            # a number that is none is said before anything is read
            numbers = [_number(column) for column in columns]
            pairs = _read_columns(Path(name), columns, numbers, roles, note, lenient)
        inputs.append((" ".join(names), pairs))
    return inputs


def _groups(data: Sequence[str]) -> list[tuple[str, ...]]:
    """The names that are read together: of files of lines, and of documents of one language, each two."""
    groups: list[tuple[str, ...]] = []
    waiting = ""
    for name in data:
        is_whole = name.startswith(GETTEXT) or bool(table_kind(name)) or _suffix(name) in SUFFIXES
        if is_whole and not waiting:
            groups.append((name,))
        elif not is_whole and waiting:
            groups.append((waiting, name))
            waiting = ""
        elif not is_whole:
            waiting = name
        else:
            raise UsageError(
                "{file}: a file of one language needs the other one right after it, not {name}", waiting, name
            )
    if waiting and groups:
        raise UsageError(
            "{file}: a file of one language needs the other one right after it; known: {known}", waiting, _KNOWN
        )
    if waiting:
        raise _unreadable(waiting)
    if not groups:
        raise UsageError("no data is named; known: {known}", _KNOWN)
    return groups


def _kind(names: tuple[str, ...]) -> str:
    if len(names) == 2:
        return msg("aligned files")
    if names[0].startswith(GETTEXT):
        return "catalogs"
    return msg(
        "a file of translations ({suffix}); name the languages with --source-language and so on", _suffix(names[0])
    )


def _counted(path: Path, kind: str, choice: LanguageChoice, note: Note) -> Iterator[Pair]:
    """Pairs of a file of translations; what was read is reported at its end."""
    census = Census(str(path))
    yield from read_translations(path, kind, choice, census)
    note(census.line())


def _read_documents(source: Path, target: Path) -> Iterator[Pair]:
    """Segments of two documents of like build, such as a page and its translation; raises `DataError` for others."""
    segments = [_segments(path) for path in (source, target)]
    if len(segments[0]) != len(segments[1]):
        raise DataError(
            "{source} has {segments}, but {target} has {count:,}; documents are paired only where they have the "
            "same number"
        ).fill(source, plural(len(segments[0]), "segment"), target, len(segments[1]))
    for (line, ours), (_, theirs) in zip(*segments, strict=True):
        yield Pair(ours, theirs, line)


def _segments(path: Path) -> list[tuple[int, str]]:
    with reading_errors(path):
        data = path.read_bytes()
    segments = require_format(str(path), data).read(data, str(path), Options()).segments
    return [(segment.line, plain_text(segment.content)) for segment in segments]


def _unreadable(name: str) -> DikkatError:
    """Why no pairs can be read from one file of this name: what it is, where its content or its name tells."""
    kind = named_kind(_suffix(name))
    if kind is not None or Path(name).is_file():
        next(read_text_lines(Path(name)), None)  # raises for a file that is missing, or whose content tells what it is
    if kind is not None:
        return DataError("{name}: is {kind}", name, kind)
    return UsageError("{name}: cannot tell from its name how to read pairs from it; known: {known}", name, _KNOWN)


def table_kind(name: str) -> str:
    """Return `.tsv`, `.csv`, `.jsonl` or `.parquet`; empty for what is not a table."""
    suffix = _suffix(name)
    return suffix if suffix in (".tsv", ".csv", ".jsonl", ".parquet") else ""


def _suffix(name: str) -> str:
    return Path(without_packing(Path(name)).lower()).suffix


def _read_catalogs(language: str) -> Iterator[Pair]:
    if not language:
        raise UsageError("{gettext} needs a language, as in {gettext}fr", GETTEXT)
    return read_catalogs(language)


def _read_aligned(source: Path, target: Path, lenient: bool) -> Iterator[Pair]:
    sources, targets = read_text_lines(source, lenient=lenient), read_text_lines(target, lenient=lenient)
    for number, (ours, theirs) in enumerate(zip_longest(sources, targets), start=1):
        if ours is None:
            raise _unequal((source, target), (number - 1, number + sum(1 for _ in targets)))
        if theirs is None:
            raise _unequal((source, target), (number + sum(1 for _ in sources), number - 1))
        yield Pair(ours, theirs, number)


def _unequal(paths: tuple[Path, Path], counts: tuple[int, int]) -> DataError:
    message = msg(
        "{file} has {lines}, but {other} has {count:,}", paths[0], plural(counts[0], "line"), paths[1], counts[1]
    )
    if all(path.is_file() for path in paths):  # a pipe cannot be read again
        line = shift_line(read_lines(paths[0]), read_lines(paths[1]))
        if line > min(counts):
            message += "; " + msg("{shorter} seems to be cut off", paths[counts[1] < counts[0]])
        else:
            message += "; " + msg("the pairing seems to shift near line {line}", line)
    return DataError("{text}; line N of one file must translate line N of the other", message)


def _number(column: Column) -> int | None:
    """0-based index of a column that is given as a 1-based number."""
    if isinstance(column, int) or (column is not None and column.isascii() and column.isdigit()):
        if int(column) < 1:
            raise UsageError("columns are counted from 1, so there is no column {column}", column)
        return int(column) - 1
    return None


def _read_columns(
    path: Path,
    columns: tuple[Column, Column],
    numbers: list[int | None],
    roles: tuple[str, str],
    note: Note,
    lenient: bool,
) -> Iterator[Pair]:
    dialect, rows = read_table(path, lenient=lenient)
    are_named = any(column is not None and index is None for column, index in zip(columns, numbers, strict=True))
    if are_named or dialect.header:
        dialect = replace(dialect, header=tuple(cell.strip() for cell in next(rows)[1]))
    source, target = (
        index if index is not None else default if column is None else _named_column(path, str(column), dialect)
        for column, index, default in zip(columns, numbers, _default_columns(dialect), strict=True)
    )
    if not dialect.is_plain or (columns == (None, None) and (source, target) != (0, 1)):
        indices = zip(roles, (source, target), strict=True)
        chosen = joined(", ", (msg("{role} = column {column}", msg(role), index + 1) for role, index in indices))
        note(msg("{path}: {dialect}, {chosen}", path, dialect, chosen))
    for line, row in rows:
        if len(row) <= max(source, target):
            have = msg("1 column") if len(row) == 1 else msg("{count} columns", len(row))
            how = "" if dialect.delimiter == "\t" else msg(" separated by {separator}", dialect.separator)
            raise DataError("{path}:{line}: {columns}{separator}, but column {column} is asked for").fill(
                path, line, have, how, max(source, target) + 1
            )
        yield Pair(one_line(row[source]), one_line(row[target]), line)


def _default_columns(dialect: Dialect) -> tuple[int, int]:
    """The columns called source and target, or src and tgt, else the first two."""
    names = [name.casefold() for name in dialect.header]
    for keys in DEFAULT_KEYS:
        if all(key in names for key in keys):
            return names.index(keys[0]), names.index(keys[1])
    return 0, 1


def _named_column(path: Path, name: str, dialect: Dialect) -> int:
    if name not in dialect.header:
        raise UsageError('{path}:1: no column is called "{name}"{nearest}; known: {header}').fill(
            path, name, nearest(name, dialect.header), ", ".join(dialect.header)
        )
    return dialect.header.index(name)


# Pairs of texts out of objects.


def read_object_pairs(path: Path, columns: tuple[Column, Column], suffix: str) -> Iterator[Pair]:
    """Yield pairs of the objects of a file under two keys, by default source and target, or src and tgt.

    Raises `UsageError` at once, `DataError` while reading.
    """
    kind = "Parquet" if suffix == ".parquet" else "JSONL"
    if any(isinstance(column, int) for column in columns):
        raise UsageError("columns of {kind} are named, not numbered", kind)
    if (columns[0] is None) != (columns[1] is None):
        raise UsageError("for {kind}, name the column of the source and that of the target, or neither", kind)
    return _read_objects(
        path, None if columns[0] is None else (str(columns[0]), str(columns[1])), object_entries(path, suffix)
    )


def _read_objects(
    path: Path, keys: tuple[str, str] | None, entries: Iterator[tuple[int, dict[str, Any]]]
) -> Iterator[Pair]:
    for number, entry in entries:
        where = f"{path}:{number}"
        keys = keys or _default_keys(entry, where)
        yield Pair(text_of(entry, keys[0], where), text_of(entry, keys[1], where), number)


def object_entries(path: Path, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a `.jsonl` file with their lines, or the rows of a `.parquet` table with their numbers.

    A `translation` of several fields gives these as well, as in data sets of Hugging Face.
    """
    for number, entry in parquet_entries(path) if kind == ".parquet" else json_entries(path):
        nested = entry.get("translation")
        yield number, {**entry, **nested} if isinstance(nested, dict) else entry


def _default_keys(entry: dict[str, Any], where: str) -> tuple[str, str]:
    for keys in DEFAULT_KEYS:
        if all(key in entry for key in keys):
            return keys
    known = ", ".join(entry)
    texts = [key for key, value in entry.items() if isinstance(value, str)]
    if len(texts) < 2:
        raise DataError(
            "{where}: does not hold two texts, source and target; its keys are: {known}", where, known or "none"
        )
    example = " ".join(
        f"--{side}-column {shlex.quote(key)}" for side, key in zip(("source", "target"), texts, strict=False)
    )
    raise DataError(
        "{where}: neither source and target nor src and tgt are keys; name both with {example}; its keys are: {known}"
    ).fill(where, example, known)


def text_of(entry: dict[str, Any], key: str, where: str) -> str:
    """The text under `key`, on one line; raises `DataError` where there is none."""
    if key not in entry:
        raise DataError('{where}: no key is called "{key}"{nearest}; known: {known}').fill(
            where, key, nearest(key, entry), ", ".join(entry)
        )
    text = entry[key]
    if type(text) is int:  # a label is often a number; true and false are of type bool
        return str(text)
    if not isinstance(text, str):
        raise DataError('{where}: "{key}" must be a text, not {name}', where, key, type(text).__name__)
    if _HALF_CHARACTER.search(text):
        raise DataError(
            '{where}: "{key}" holds half of a surrogate pair (\\ud800 to \\udfff), which is not a character'
        ).fill(where, key)
    return one_line(text)


def one_line(text: str) -> str:
    """The text with a space for each run of line breaks."""
    return _LINE_BREAKS.sub(" ", text) if "\n" in text or "\r" in text else text
