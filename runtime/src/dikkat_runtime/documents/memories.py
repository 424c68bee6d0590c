"""Read translation memories for the desk: `.tmx`, and tables of a source, a tab and its translation."""

import html
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import fmean

from dikkat_runtime.documents.segments import Content, Tag
from dikkat_runtime.documents.tmx import stream_tmx
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import DataError, UsageError, msg, plural
from dikkat_runtime.tasks.corrections import KnownTranslations
from dikkat_runtime.tasks.translations import TranslationNotes
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.packed import open_unpacked
from dikkat_runtime.text.pair_faults import RATIO, is_copy, placeholders_differ, ratio, sentences_differ
from dikkat_runtime.text.placeholders import spans
from dikkat_runtime.text.text_files import read_lines, reading_errors

HEADER = ("source", "target")
SAMPLE_SIZE, MIN_PAIRS, MIN_TRIGRAMS, MAX_LENGTH = 32, 24, 600, 200
"""Pairs that tell the languages of a memory, fewest pairs and trigrams of a side, and characters of a source."""
MIN_LIKENESS, MIN_PROBABILITY, MARGIN = 0.57, 0.83, 0.1
"""Likeness to translations with such a mean probability of their tokens; what any may be nearer to the sources."""
_LETTERS = re.compile(r"[^\W\d_]+")


def read_memory(
    path: Path,
    languages: tuple[str, str],
    note: Callable[[str], object] = lambda line: None,
    *,
    translator: Translator | None = None,
) -> KnownTranslations:
    """Return what the memory at `path` holds from the first language to the second, with a `note` of the rest.

    A `translator` is asked whether the texts are in these languages. Raises `MissingInputError`, `DataError` with the
    line or for texts in others, and `UsageError` where a .tmx has no text in a language.
    """
    skipped: Counter[str] = Counter()
    rows = _units(path, languages, skipped) if memory_kind(path) == ".tmx" else _table(path)
    pairs = []
    for source, target in rows:
        if fault := _fault(source, target):
            skipped[fault] += 1
        else:
            pairs.append((source, target))
    if not pairs:
        raise DataError("{path}: holds nothing that is translated from {source} to {target}", path, *languages)
    known = KnownTranslations(pairs)
    if translator is not None and (likeness := _foreign_likeness(known, translator)) is not None:
        raise DataError(
            "{path}: its translations do not read like this run's {target} (likeness {likeness:.2f}); swap its sides, "
            "or give a memory from {source} to {target}"
        ).fill(path, languages[1], likeness, languages[0])
    line = msg("memory {path}: {pairs}", path, plural(len(known.kept), "pair"))
    for reason, count in skipped.most_common():
        line += msg("; skipped {count:,} {reason}", count, reason)
    note(line)
    return known


def _fault(source: str, target: str) -> str:
    """Return why a text cannot stand for the other; "" where it may."""
    if not source or not target:
        return msg("with nothing on a side")
    if is_copy(source, target):
        return msg("not translated")
    # the name of a tag may be translated, as that of <file>
    tags, more = (sum(count for (kind, _), count in spans(text).items() if kind == "tag") for text in (source, target))
    if placeholders_differ(source, target) or tags != more:
        return msg("with other placeholders or tags in the translation")
    if sentences_differ(source, target) or ratio(source, target) > RATIO:
        return msg("with more sentences or far more text on one side")
    return ""


def _foreign_likeness(known: KnownTranslations, translator: Translator) -> float | None:
    """Return how like the translations are to those of a translator; None where they may be in its language."""
    pairs = [pair for pair in known.kept if len(pair[0]) <= MAX_LENGTH]
    pairs = pairs[:: max(1, len(pairs) // SAMPLE_SIZE)][:SAMPLE_SIZE]
    sources, targets = (_trigrams(pair[side] for pair in pairs) for side in (0, 1))
    if len(pairs) < MIN_PAIRS or min(sources.total(), targets.total()) < MIN_TRIGRAMS:
        return None
    texts, greedy = [source for source, _ in pairs], BeamOptions(beam_size=1)
    lines = translator.stream(texts, greedy, notes=TranslationNotes(), memories=())
    # a translator that ends few of them writes no language
    if len(written := [line for line in lines if line.finished]) < MIN_PAIRS:
        return None
    probability, own = math.exp(fmean(line.score for line in written)), _trigrams(line.text for line in written)
    likeness = _cosine(own, targets)
    # a text in the target language comes back as it is
    is_nearer_to_sources = likeness < _cosine(own, sources) - MARGIN
    is_unlike = probability >= MIN_PROBABILITY and likeness < MIN_LIKENESS
    return likeness if is_nearer_to_sources or is_unlike else None


def _trigrams(texts: Iterable[str]) -> Counter[str]:
    letters = f" {' '.join(word for text in texts for word in _LETTERS.findall(text.lower()))} "
    return Counter(letters[start : start + 3] for start in range(len(letters) - 2))


def _cosine(some: Counter[str], others: Counter[str]) -> float:
    product = sum(count * others[trigram] for trigram, count in some.items())
    return product / max(1.0, math.hypot(*some.values()) * math.hypot(*others.values()))


def memory_kind(path: Path) -> str:
    """Return the ending of a file that holds texts with their translations; "" for any other name."""
    return next((suffix for suffix in reversed(path.suffixes) if suffix in (".tmx", ".tsv")), "")


def _units(path: Path, languages: tuple[str, str], skipped: Counter[str]) -> Iterator[tuple[str, str]]:
    seen: Counter[str] = Counter()
    matching = 0
    with reading_errors(path), open_unpacked(path) as file:
        for unit in stream_tmx(file, str(path), Counter()):
            seen.update(unit.segments.keys())
            texts = [unit.content(language) for language in languages]
            if missing := [name for name, text in zip(languages, texts, strict=True) if text is None]:
                skipped[msg("without a text in {language}", missing[0])] += 1
                continue
            matching += 1
            yield plain_text(texts[0] or ()), plain_text(texts[1] or ())
    if not matching:
        raise UsageError(
            "{path}: holds no unit from {source} to {target}, but texts in {languages}; give a memory of these "
            "languages, or another run"
        ).fill(path, *languages, ", ".join(seen))


def _table(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(read_lines(path), start=1):
        source, tab, target = line.partition("\t")
        if not tab and line.strip():
            raise DataError("{path}, line {line}: has no tab between a text and its translation", path, number)
        if number > 1 or (source.strip().lower(), target.partition("\t")[0].strip().lower()) != HEADER:
            yield source.strip(), target.partition("\t")[0].strip()


# The text of a segment with inline tags.
_TAG = re.compile(r"<[^<>]*>")
_SHOWN = re.compile(r'\s(?:equiv-text|equiv|disp)="([^"]*)"')


def plain_text(content: Content) -> str:
    """Return a text on one line, of whose tags those stay that stand for a placeholder."""
    return " ".join("".join(item if isinstance(item, str) else _shown(item) for item in content).split())


def _shown(tag: Tag) -> str:
    if tag.kind == "word":
        stated = _SHOWN.search(tag.markup)
        shown = html.unescape(stated[1] if stated else _TAG.sub("", tag.markup))
        if any(kind == "placeholder" for kind, _ in spans(shown)):
            return shown
    return " " if tag.ends_sentence or tag.markup.isspace() else ""
