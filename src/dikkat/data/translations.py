"""Pairs out of files of translations: memories (`.tmx`), XLIFF, and gettext catalogs (`.po`, `.mo`), read as streams.

Codes of formatting are left out, placeholders stay. The readers of `dikkat_runtime.documents` know the formats; here is
decided what of a file is fit to learn from.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from dikkat.data.gettext_catalogs import Message, align, read_catalog
from dikkat.data.pairs import Pair
from dikkat_runtime.documents.memories import plain_text
from dikkat_runtime.documents.po import charset_of_catalog, stream_po
from dikkat_runtime.documents.segments import Content
from dikkat_runtime.documents.tmx import MemoryUnit, of_language, stream_tmx
from dikkat_runtime.documents.xliff import stream_xliff
from dikkat_runtime.errors import DataError, UsageError, joined, msg, nearest, plural
from dikkat_runtime.text.packed import open_unpacked
from dikkat_runtime.text.text_files import read_lines, reading_errors, require_charset

# The census of a file of translations: its pairs, their languages, and what was passed over and why.


@dataclass(slots=True)
class Census:
    """Counts of what is read of a file; it grows while the file is read."""

    name: str
    pairs: int = 0
    languages: tuple[str, str] = ("", "")
    """As the file writes them; empty where it says nothing."""
    choice: str = ""
    """Why these two, where the file holds more."""
    skipped: Counter[str] = field(default_factory=Counter)
    """For each reason how many were passed over, in words that follow the number."""
    remarks: Counter[str] = field(default_factory=Counter)
    """What else was met, how often."""

    def line(self) -> str:
        between = (
            msg(" of {sources} and {targets}", self.languages[0] or "?", self.languages[1] or "?")
            if any(self.languages)
            else ""
        )
        line = msg("{name}: {pairs}{between}{choice}", self.name, plural(self.pairs, "pair"), between, self.choice)
        if self.skipped:
            reasons = (msg("{count:,} {reason}", count, reason) for reason, count in self.skipped.most_common())
            line += msg("; skipped: {reasons}", joined(", ", reasons))
        remarks = (msg("; {what}: {count:,}", what, count) for what, count in sorted(self.remarks.items()))
        return joined("", (line, *remarks))


SUFFIXES = (".tmx", ".xlf", ".xliff", ".sdlxliff", ".mxliff", ".mqxliff", ".po", ".pot", ".mo", ".gmo")
"""Endings of files in which each text stands with its translation."""
_FIRST_UNITS = 1_000
"""Units of a memory by which its languages are chosen."""
_UNDONE = ("new", "needs-", "initial")


@dataclass(slots=True)
class LanguageChoice:
    """The two languages that are wanted, and those that were found; a file says which it is in by tags."""

    source: str = ""
    target: str = ""
    """Empty where any will do."""
    tags: tuple[str, str] = ("", "")
    """Of what was read so far, as the files write them."""

    def take(self, source: str, target: str) -> None:
        """Keep the languages that one file was read as for the files after it."""
        self.tags = (self.tags[0] or source, self.tags[1] or target)

    @property
    def wanted(self) -> tuple[str, str]:
        """The languages that the user asked for, else those of the files before."""
        return self.source or self.tags[0], self.target or self.tags[1]


def read_translations(path: Path, suffix: str, choice: LanguageChoice, census: Census) -> Iterator[Pair]:
    """Pairs of the file at `path`, whose kind its `suffix` tells, in the languages of `choice`; `census` grows.

    Raises `DataError` with the line for a damaged file, `UsageError` for a language that is not in it, and
    `MissingInputError`.
    """
    if suffix == ".tmx":
        pairs = _memory(path, choice, census)
    elif suffix in (".po", ".pot"):
        pairs = _catalog(path, choice, census)
    elif suffix in (".mo", ".gmo"):
        pairs = _compiled(path, census)
    else:
        pairs = _xliff(path, choice, census)
    for pair in pairs:
        census.pairs += 1
        yield pair


def _memory(path: Path, choice: LanguageChoice, census: Census) -> Iterator[Pair]:
    with reading_errors(path), open_unpacked(path) as file:
        units = stream_tmx(file, str(path), census.remarks)
        first = list(islice(units, _FIRST_UNITS))
        source, target, census.choice = _chosen(path, first, choice)
        for unit in chain(first, units):
            ours, theirs = unit.content(source), unit.content(target)
            if ours is None or theirs is None:
                census.skipped[msg("without a text in {language}", source if ours is None else target)] += 1
            elif pair := _pair(ours, theirs, unit.line, census):
                yield pair
                census.languages = (source, target)
                choice.take(source, target)


def _chosen(path: Path, units: list[MemoryUnit], choice: LanguageChoice) -> tuple[str, str, str]:
    """Return source and target as written: what is wanted, else of the header, else commonest; and how chosen."""
    counts = Counter(tag for unit in units for tag in unit.segments)
    wanted = tuple(_tag(counts, language) for language in choice.wanted)
    for named, tag in zip((choice.source, choice.target), wanted, strict=True):
        if named and not tag:
            raise UsageError('{path}: has no language "{language}"{nearest}; known: {known}').fill(
                path, named, nearest(named, counts), ", ".join(counts)
            )
    ranked = [tag for tag, _ in counts.most_common()]
    source = wanted[0] or _tag(counts, units[0].source_language if units else "")
    source = source or next((tag for tag in ranked if tag != wanted[1]), "")
    target = wanted[1] or next((tag for tag in ranked if of_language({tag: ()}, source) is None), "")
    if not source or not target:
        raise DataError("{path}: holds texts in one language alone ({counts}), so there are no pairs in it").fill(
            path, ", ".join(counts)
        )
    if len(counts) < 3:
        return source, target, ""
    held = ", ".join(f"{tag} {count:,}" for tag, count in counts.most_common())
    why = msg(" (it holds {languages}; choose others with --source-language and --target-language)", held)
    return source, target, why


def _tag(counts: Mapping[str, int], language: str) -> str:
    """The tag of a language as the file writes it; empty where it lacks the language."""
    return of_language({tag: tag for tag in counts}, language) or "" if language else ""


def _xliff(path: Path, choice: LanguageChoice, census: Census) -> Iterator[Pair]:
    with reading_errors(path), open_unpacked(path) as file:
        for segment in stream_xliff(file, str(path), census.remarks):
            _check_languages(path, segment.languages, choice)
            census.languages = segment.languages
            if not segment.target:
                census.skipped[msg("not translated")] += 1
            elif segment.is_machine_made:
                census.skipped[msg("translated by a machine")] += 1
            elif segment.state.startswith(_UNDONE):
                census.skipped[msg("in the state {state}", segment.state)] += 1
            elif pair := _pair(segment.source, segment.target, segment.line, census):
                choice.take(*segment.languages)
                yield pair


def _check_languages(path: Path, stated: tuple[str, str], choice: LanguageChoice) -> None:
    for side, tag, wanted in zip(("source", "target"), stated, choice.wanted, strict=True):
        if tag and wanted and of_language({tag: ()}, wanted) is None and of_language({wanted: ()}, tag) is None:
            raise UsageError(
                "{path}: its {side} is in {tag}, but {language} was asked for; give --{option}-language {tag}, "
                "or leave it out"
            ).fill(path, msg(side), tag, wanted, side)


def _pair(source: Content, target: Content, line: int, census: Census) -> Pair | None:
    texts = plain_text(source), plain_text(target)
    if all(texts):
        return Pair(*texts, line)
    census.skipped[msg("with nothing on a side")] += 1
    return None


def _catalog(path: Path, choice: LanguageChoice, census: Census) -> Iterator[Pair]:
    stated = ""
    for message in stream_po(_catalog_lines(path), str(path)):
        if message.language and message.language != stated:
            stated = message.language
            _check_languages(path, ("", stated), choice)
            choice.take("", stated)
            census.languages = ("", stated)
        if message.is_fuzzy:
            census.skipped["fuzzy"] += 1
        elif not any(message.targets):
            census.skipped[msg("not translated")] += 1
        else:
            if len(message.sources) > 1 and not message.rule.is_known:
                census.remarks[msg("plurals of a catalog that states no rule for them, read as n != 1")] += 1
            forms = (message.rule.singular or 0, message.rule.many)
            yield from _aligned(Message(message.sources, message.targets), forms, message.line, census)


def _aligned(message: Message, forms: tuple[int, int], line: int, census: Census) -> Iterator[Pair]:
    pairs = [Pair(*pair, line) for pair in align(message, forms)]
    if not pairs:
        census.skipped[msg("equal to their sources, or without words")] += 1
    yield from pairs


def _catalog_lines(path: Path) -> Iterator[str]:
    """The lines of a catalog with their ends, in the charset that it states."""
    with reading_errors(path), open_unpacked(path) as file:
        charset = require_charset(charset_of_catalog(file.read(1 << 16)) or "utf-8", str(path))
    if charset.lower().replace("-", "") in ("utf8", "ascii", "usascii"):
        yield from (f"{line}\n" for line in read_lines(path))
        return
    with reading_errors(path), open_unpacked(path) as file:
        for number, raw in enumerate(file, start=1):
            try:
                yield raw.decode(charset)
            except UnicodeDecodeError as error:
                raise DataError("{path}:{line}: byte {byte:,} of the line is not valid {charset}").fill(
                    path, number, error.start + 1, charset
                ) from None


def _compiled(path: Path, census: Census) -> Iterator[Pair]:
    with reading_errors(path), open_unpacked(path) as file:
        data = file.read()
    try:
        messages, forms = read_catalog(data, str(path))
    except (ValueError, ArithmeticError) as error:
        raise DataError("{path}: damaged, or not a compiled catalog ({error})", path, error) from None
    for number, message in enumerate(messages, start=1):
        yield from _aligned(message, forms, number, census)
