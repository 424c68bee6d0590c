"""Read tables (`.tsv`, `.csv`) and JSON lines: one column is translated into another, which may be added."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from dikkat_runtime.documents.alignment import Span
from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.segments import Content, Edit, Edits, Options, Segment, render
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.rows.dialect import Dialect, find_dialect, first_lines, require_columns
from dikkat_runtime.rows.line_rows import json_object
from dikkat_runtime.text.foreign_json import shown
from dikkat_runtime.text.placeholders import has_words

_KNOWN_SOURCES, _KNOWN_TARGETS = ("source", "src", "text"), ("target", "tgt", "translation")
ADDED = "translation"
"""The name of a column that is added."""
DONE = msg("rows that are translated already")


def read_table(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the rows of a table. Raises `UsageError` for a column that is missing, `DataError` for broken quotation."""
    file = DecodedFile.decode(data, name, language=options.source_language)
    dialect = find_dialect(first_lines(line.removesuffix("\r") for line in file.text.split("\n")), name)
    rows = list(_rows(file, dialect))
    if not rows:
        return TextDocument(file, [])
    head = [_value(file.text[slice(*cell)]).strip() for cell in rows[0]]
    source, is_head = _column(name, head, options.source_column, _KNOWN_SOURCES, 0)
    target, target_in_head = _column(name, head, options.target_column, _KNOWN_TARGETS, len(head))
    first = 1 if is_head or target_in_head or dialect.header else 0
    remarks: Counter[str] = Counter()
    segments = []
    also = list(_cell_edits(file, rows[0], target, dialect)((ADDED,)) if first and target >= len(head) else ())
    for row in rows[first:]:
        where = f"{name}:{file.line(row[0][0])}"
        require_columns([file.text[slice(*cell)] for cell in row], dialect, where)
        if source >= len(row):
            raise DataError("{where}: {count} columns, but column {column} is asked for", where, len(row), source + 1)
        text = file.text[slice(*row[source])]
        text = _value(text) if dialect.is_quoted else text
        edits = _cell_edits(file, row, target, dialect)
        if target != source and target < len(row) and _value(file.text[slice(*row[target])]).strip():
            remarks[DONE] += 1
        elif has_words(text):
            segments.append(Segment((text,), edits, file.line(row[0][0])))
        else:
            also += edits((text,))
    return TextDocument(file, segments, remarks, also)


def _rows(file: DecodedFile, dialect: Dialect) -> Iterable[list[Span]]:
    """Return the cells of each row, with their quotation marks."""
    quoted, mark = r'"(?:[^"]|"")*"' if dialect.is_quoted else r"(?!)", re.escape(dialect.delimiter)
    cell = re.compile(rf"({quoted}|[^{mark}\r\n]*)({mark}|\r?\n|\Z)")
    position, row = 0, list[Span]()
    while position < len(file.text) or row:
        match = cell.match(file.text, position)
        if match is None:
            raise DataError("{name}:{line}: a quotation mark without its partner", file.name, file.line(position))
        row.append(match.span(1))
        position = match.end()
        if match[2] != dialect.delimiter:
            if row != [match.span(1)] or match[1]:
                yield row
            row = []
            if not match[2]:
                return


def _is_quoted(cell: str) -> bool:
    return re.fullmatch(r'"(?:[^"]|"")*"', cell) is not None


def _value(cell: str) -> str:
    return cell[1:-1].replace('""', '"') if _is_quoted(cell) else cell


def _column(name: str, head: Sequence[str], wanted: str | None, known: Sequence[str], default: int) -> tuple[int, bool]:
    """Return the number of a column, and whether the first row names it."""
    names = [cell.strip().casefold() for cell in head]
    if wanted is None:
        index = next((names.index(cell) for cell in known if cell in names), None)
        return (default, False) if index is None else (index, True)
    if wanted.casefold() in names:
        return names.index(wanted.casefold()), True
    if wanted.isdecimal() and int(wanted) >= 1:
        return int(wanted) - 1, False
    raise UsageError('{name}:1: no column is called "{column}"; known: {known}', name, wanted, shown(", ".join(head)))


def _cell_edits(file: DecodedFile, row: Sequence[Span], index: int, dialect: Dialect) -> Edits:
    before = file.text[slice(*row[index])] if index < len(row) else ""

    def edits(translation: Content) -> Iterable[Edit]:
        text = render(translation, str)
        if not dialect.is_quoted:
            text = re.sub(r"[\t\r\n]", " ", text)
        elif _is_quoted(before) or (re.search(rf'^"|[\r\n{re.escape(dialect.delimiter)}]', text) and '"' not in before):
            text = '"' + text.replace('"', '""') + '"'
        if index < len(row):
            yield Edit(*row[index], text)
        else:
            end = row[-1][1]
            yield Edit(end, end, dialect.delimiter * (index + 1 - len(row)) + text)

    return edits


def read_json_lines(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the objects of a file, one a line. Raises `DataError` for another line, `UsageError` for a missing key."""
    file = DecodedFile.decode(data, name, language=options.source_language)
    remarks: Counter[str] = Counter()
    segments = []
    position = 0
    for number, line in enumerate(file.text.split("\n"), start=1):
        if line.strip():
            spans = _members(line, f"{name}:{number}")
            source = _key(spans, options.source_column, _KNOWN_SOURCES, f"{name}:{number}")
            target = options.target_column or next((key for key in _KNOWN_TARGETS if key in spans), ADDED)
            segment = _object_segment(file, line, position, spans, source, target, remarks)
            if segment is not None:
                segments.append(segment)
        position += len(line) + 1
    return TextDocument(file, segments, remarks)


def _object_segment(
    file: DecodedFile, line: str, position: int, spans: dict[str, Span], source: str, target: str,
    remarks: Counter[str],
) -> Segment | None:  # fmt: skip
    text = json.loads(line[slice(*spans[source])])
    if not isinstance(text, str) or not has_words(text):
        return None
    if target in spans and target != source and json.loads(line[slice(*spans[target])]):
        remarks[DONE] += 1
        return None
    ascii_only = line.isascii() and "\\u" in line

    def edits(translation: Content) -> Iterable[Edit]:
        written = json.dumps(render(translation, str), ensure_ascii=ascii_only)
        if target in spans:
            start, end = spans[target]
            yield Edit(position + start, position + end, written)
        else:
            end = position + line.rindex("}")
            yield Edit(end, end, f", {json.dumps(target, ensure_ascii=False)}: {written}")

    return Segment((text,), edits, file.line(position))


def _key(spans: dict[str, Span], wanted: str | None, known: Sequence[str], where: str) -> str:
    chosen = wanted if wanted is not None else next((key for key in known if key in spans), None)
    if chosen is None or chosen not in spans:
        missing = (
            msg('no key is called "{key}"', wanted) if wanted else msg("none of {known} is a key", ", ".join(known))
        )
        raise UsageError("{where}: {error}; known: {columns}", where, missing, ", ".join(spans))
    return chosen


def _members(line: str, where: str) -> dict[str, Span]:
    """Return for each key of an object the span of its value."""
    json_object(line, where)
    decoder, members = json.JSONDecoder(), dict[str, Span]()
    position = _between(line, line.index("{") + 1)
    while line[position] == '"':
        key, position = decoder.raw_decode(line, position)
        start = _between(line, position)
        _, end = decoder.raw_decode(line, start)
        members[key] = (start, end)
        position = _between(line, end)
    return members


def _between(line: str, position: int) -> int:
    """Return where the next key or value of an object begins."""
    while line[position] in " \t\r\n,:":
        position += 1
    return position
