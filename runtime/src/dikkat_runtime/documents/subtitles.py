"""Read subtitles (`.srt`, `.vtt`): a sentence over several cues is translated as one and cut at the cues' borders.

Times, numbers, notes and styles stay. A line has at most 42 characters where two lines can hold the text.
Source: W3C, WebVTT (2019).
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from dikkat_runtime.documents.alignment import Span
from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.html import escaper, unescaped
from dikkat_runtime.documents.markup_ends import nested_pairs
from dikkat_runtime.documents.segments import (
    Content,
    Edit,
    Item,
    Options,
    Segment,
    Tag,
    is_language,
    is_unchanged,
    parted,
    plain,
    render,
    stripped,
    tagged,
)
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.placeholders import has_words

MAX_LINE_LENGTH = 42
"""Most characters of a line, as in the guides of broadcasters."""
_CLOCK = r"(?:\d{1,9}:)?\d{1,2}:\d{2}[,.]\d{1,3}"
_TIME = re.compile(rf"(?P<start>{_CLOCK})[ \t]*+-->[ \t]*+(?P<end>{_CLOCK})[^\n]*")
_NO_CUE = re.compile(r"NOTE(?:[ \t\r\n]|\Z)|(?:STYLE|REGION)[ \t]*+(?:\r?\n|\Z)")
_NOT_NOTE = re.compile(r"WEBVTT(?=\s|\Z)|(?:STYLE|REGION)[ \t]*+(?:\r?\n|\Z).*|NOTE(?=\s)", re.DOTALL)
_LINE = re.compile(r"[^\n]+\n?|\n")
_LINE_BREAK = re.compile(r"(?<![ \t])[ \t]*+\r?\n[ \t]*")
_TAG = re.compile(r"<[^<>]*>|\{[^{}]*\}")
_POSITION = re.compile(r"\{\\[^{}]*\}")
_SPAN = re.compile(r"<(?P<close>/)?(?P<name>[A-Za-z]\w*+)?[^<>]*+>|&(?:lrm|rlm|zwj|zwnj|shy);|\{\\[^{}]*+\}")
"""A span of WebVTT, its time, a mark that is not seen, or a position as other formats have it."""
_VOICE = re.compile(r"<v[.\s][^<>]*+>")
_SPEAKER = re.compile(r"(?:\{[^{}]*\}|<[^<>]*>|[ \t])*[-–—][ \t]*(?=\S)")
_SENTENCE_END = re.compile(r"[.!?…。！？♪:)\]\"”»]\s*$")
_MAX_GAP = 2.0
"""Most seconds between two cues of one sentence."""
NOTES = msg("notes and other blocks without times, left as they are")
RUBY = msg("readings of ruby, left as they are")
FOREIGN = msg("spans in another language than the model reads, left as they are")
TOO_LONG = msg("cues need a line of more than {max_line_length} characters", MAX_LINE_LENGTH)


@dataclass(frozen=True, slots=True)
class _Cue:
    start: int
    end: int
    text: str
    begins: float
    ends: float


def read_srt(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the cues of a SubRip file. Raises `DataError` for a file without any."""
    file = DecodedFile.decode(data, name, language=options.source_language)
    return _read(file, _positioned, lambda source: str, Counter())


def read_vtt(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the cues of a WebVTT file. Raises `DataError` for a file without any."""
    file = DecodedFile.decode(data, name, language=options.source_language)
    if not re.match(r"WEBVTT(?:[ \t\r\n]|\Z)", file.text):
        raise DataError('{name}:1: a WebVTT file begins with "WEBVTT"', name)
    remarks: Counter[str] = Counter()
    return _read(file, partial(_spans, options.source_language, remarks), _escaper, remarks)


ReadText = Callable[[str, int], Content]
"""Returns the content of a text on one line; the numbers of its pairs are above the one that is given."""
Escaper = Callable[[str], Callable[[str], str]]
"""Returns for a source the function that escapes its translation."""


def _escaper(source: str) -> Callable[[str], str]:
    escape = escaper(source)
    return lambda text: escape(text).replace("-->", "--&gt;")


def _read(file: DecodedFile, read: ReadText, escape: Escaper, remarks: Counter[str]) -> TextDocument:
    cues = list(_cues(file, remarks))
    if not cues and file.text.replace("WEBVTT", "").strip():
        raise DataError("{name}: holds no cue (a line such as 00:00:01,000 --> 00:00:02,000)", file.name)
    groups: list[list[_Cue]] = []
    for cue in cues:
        if groups and _goes_on(groups[-1][-1], cue):
            groups[-1].append(cue)
        else:
            groups.append([cue])
    segments = [segment for group in groups for segment in _segments(file, group, read, escape, remarks)]
    return TextDocument(file, segments, remarks, markup=read is _positioned)


def _cues(file: DecodedFile, remarks: Counter[str]) -> Iterable[_Cue]:
    for begin, end in _blocks(file.text):
        block = file.text[begin:end]
        times = list(_TIME.finditer(block))
        if not times or block.count("\n", 0, times[0].start()) > 1 or _NO_CUE.match(block):
            remarks[NOTES] += has_words(_NOT_NOTE.sub("", block))
            continue
        time = times[-1]
        start = begin + time.end()
        text = file.text[start:end]
        first = start + len(text) - len(text.lstrip("\r\n"))
        last = start + len(text.rstrip())
        if first < last and has_words(file.text[first:last]):
            yield _Cue(first, last, file.text[first:last], _seconds(time["start"]), _seconds(time["end"]))


def _blocks(text: str) -> Iterator[Span]:
    """Yield the lines between two that are empty or, as editors leave them, of spaces; a lone "\\r" parts them too."""
    start = end = 0
    for line in _LINE.finditer(text):
        written = line[0].removesuffix("\n").removesuffix("\r")
        skipped = written.rfind("\r") + 1
        is_empty = not written[skipped:].strip(" \t")
        if skipped or is_empty:
            if start < end:
                yield start, end
            start = end = line.end() if is_empty else line.start() + skipped
        end = end if is_empty else line.end()
    if start < end:
        yield start, end


def _seconds(time: str) -> float:
    return sum(60.0**power * float(part) for power, part in enumerate(reversed(time.replace(",", ".").split(":"))))


def _goes_on(one: _Cue, other: _Cue) -> bool:
    text = _TAG.sub("", other.text).lstrip("-–—… \"'«“")
    before, after = _VOICE.findall(one.text), _VOICE.match(other.text)
    is_near = 0 <= other.begins - one.ends <= _MAX_GAP
    is_near = is_near and not (after and before and before[-1] != after[0])
    ends = _SENTENCE_END.search(re.sub(r"<[^<>]*>", "", one.text)) is not None
    return is_near and not ends and bool(text) and not _is_dialogue(one.text) and not _is_dialogue(other.text)


def _is_dialogue(text: str) -> bool:
    lines = text.split("\n")
    return sum(_SPEAKER.match(line) is not None for line in lines) > 1 or (
        len(lines) > 1 and all(map(_VOICE.match, lines))
    )


def _segments(
    file: DecodedFile, cues: Sequence[_Cue], read: ReadText, escape: Escaper, remarks: Counter[str]
) -> list[Segment]:
    if len(cues) == 1 and _is_dialogue(cues[0].text):
        segments = []
        for line in re.finditer(r"[^\r\n]+", cues[0].text):
            dash = _SPEAKER.match(line[0])
            start = cues[0].start + line.start() + (dash.end() if dash else 0)
            span = (start, cues[0].start + line.end())
            text = file.text[slice(*span)]
            content = _content(text, span[0], read)
            segments.append(file.segment(*span, content, partial(render, escape=escape(text))))
        return segments
    items: list[Item] = []
    for number, cue in enumerate(cues):
        if number:
            items.append(Tag("void", f"\n{number}", number, is_text=True))
        items += _content(cue.text, cue.start, read)
    content = tuple(items)

    def edits(translation: Content) -> Iterable[Edit]:
        if is_unchanged(translation, content):
            return
        for cue, part in zip(cues, _cut(translation, [len(cue.text) for cue in cues]), strict=True):
            text = _folded(part, escape(cue.text), file.newline)
            remarks[TOO_LONG] += any(len(_TAG.sub("", line)) > MAX_LINE_LENGTH for line in text.split(file.newline))
            yield Edit(cue.start, cue.end, text)

    return [Segment(content, edits, file.line(cues[0].start))]


def _content(text: str, start: int, read: ReadText) -> Content:
    """Return the text of a cue on one line, with its spans, positions and times as tags."""
    return tuple(item for item in read(_LINE_BREAK.sub(" ", text), start + 1) if item != "")


def _positioned(text: str, first: int) -> Content:
    """Return the text of a cue of SubRip, whose other tags are found in its text."""
    return tuple(tagged((text,), _POSITION, lambda match: Tag("void", match[0], first + match.start())))


def _spans(language: str, remarks: Counter[str], text: str, first: int) -> Content:
    """Return the text of a cue of WebVTT, with ruby; a span in another language than the source is a word."""
    matches = list(_SPAN.finditer(text))
    partner = nested_pairs(
        (number, match["name"], not match["close"]) for number, match in enumerate(matches) if match["name"]
    )
    closes = {close: opening for opening, close in partner.items()}
    items: list[Item] = []
    position = number = 0
    while number < len(matches):
        match = matches[number]
        items.append(unescaped(text[position : match.start()]))
        position = match.end()
        pair, ends = first + closes.get(number, number), match["name"] == "v" and match.start() > 0
        is_foreign = match["name"] == "lang" and not is_language(match[0][len("<lang") : -1], language)
        if number in partner and (is_foreign or match["name"] == "rt"):
            remarks[FOREIGN if is_foreign else RUBY] += 1
            number = partner[number]
            position = matches[number].end()
            items.append(Tag("word" if is_foreign else "void", text[match.start() : position], pair))
        elif number in partner or number in closes:
            items.append(Tag("open" if number in partner else "close", match[0], pair, ends_sentence=ends))
        else:
            items.append(Tag("void", match[0], pair, ends_sentence=ends))
        number += 1
    return (*items, unescaped(text[position:]))


def _cut(content: Content, lengths: Sequence[int]) -> list[Content]:
    """Return the parts of a translation for the cues: cut at the tags between cues, else by the cues' lengths."""
    contents = parted(content, lambda tag: tag.kind == "void" and re.fullmatch(r"\n\d+", tag.markup) is not None)
    parts: Sequence[Sequence[Item]] = contents
    if len(contents) != len(lengths) or not all(has_words(plain(part)) for part in contents):
        parts = _by_length([item for part in contents for item in (*part, " ")][:-1], lengths)
    return [stripped(tuple(part)) for part in _closed(parts)]


def _by_length(items: Sequence[Item], lengths: Sequence[int]) -> list[list[Item]]:
    words = [word for item in items for word in (re.findall(r"\S+\s*|\s+", item) if isinstance(item, str) else [item])]
    total, share = sum(len(word) for word in words if isinstance(word, str)), 0
    all_lengths = sum(lengths)
    borders = [length / all_lengths * total for length in accumulate(lengths[:-1])]
    parts: list[list[Item]] = [[] for _ in lengths]
    for word in words:
        size = len(word) if isinstance(word, str) else 0
        parts[bisect_right(borders, share + size / 2)].append(word)
        share += size
    return parts


def _closed(parts: Sequence[Sequence[Item]]) -> list[list[Item]]:
    """Return parts in which each pair is closed; a pair over several parts is opened again."""
    closed = []
    opened: list[Tag] = []
    for part in parts:
        items: list[Item] = list(opened)
        for item in part:
            if isinstance(item, Tag) and item.kind == "open":
                opened.append(item)
            elif isinstance(item, Tag) and item.kind == "close" and opened:
                opened.pop()
            items.append(item)
        for tag in reversed(opened):
            name = re.findall(r"[A-Za-z]\w*", tag.markup)[0]
            items.append(Tag("close", f"</{name}>", is_text=tag.is_text))
        closed.append(items)
    return closed


def _folded(content: Content, escape: Callable[[str], str], newline: str) -> str:
    """Return the text of a cue on one line, or on two of about one length."""
    text = plain(content)
    spaces = [index for index, character in enumerate(text) if character == " "]
    if len(text) <= MAX_LINE_LENGTH or not spaces:
        return render(content, escape)
    middle = min(spaces, key=lambda index: abs(2 * index - len(text)))
    items: list[Item] = []
    position = 0
    for item in content:
        if isinstance(item, str) and position <= middle < position + len(item):
            index = middle - position
            items += [item[:index], Tag("void", newline), item[index + 1 :]]
        else:
            items.append(item)
        position += len(item) if isinstance(item, str) else 0
    return render(tuple(items), escape)
