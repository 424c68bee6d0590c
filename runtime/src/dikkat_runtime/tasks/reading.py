"""Read lines as a model has met text, and write its translation as the line was written.

A line is normalised, and its symbols are carried past the model. A piece in capitals, in title case or with several
final marks is read as usual text, and its translation is written in the same manner.
"""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import DataError
from dikkat_runtime.tasks.surrogates import Protected, protect, without_symbols
from dikkat_runtime.text.casing import lower
from dikkat_runtime.text.normalizing import (
    PAIRS,
    Speller,
    enclosed,
    inner_pairs,
    normalized,
    quotation_marks,
    straightened,
    symbol_spans,
)
from dikkat_runtime.text.recasing import Case, case_of, cased, has_small_words, recased
from dikkat_runtime.text.segmentation import Encode, ReadingLimits
from dikkat_runtime.text.sentences import writes_ordinals

MAX_ENCODED = 10_000
"""Pieces that are kept as they are read, about: those of the lines that are read ahead."""
_ASCII = frozenset(map(chr, range(128)))
FINAL_MARKS = re.compile(r"(?<![\s!?])\s?(?P<marks>[!?](?:\s?[!?])+)$")
FINAL_MARK = re.compile(r"[.!?…。！？｡؟۔।]$")
"""The mark at the end of a sentence, in any of the scripts that have one of their own."""
FORMALITY_MARKS = {"more": ">>formal<< ", "less": ">>informal<< "}
"""What a text begins with for a translator that has learned formality (Sennrich et al. 2016, naacl.org N16-1005)."""
LANGUAGE_MARK = re.compile(r">>[^<>\s]+<<\s*")


@dataclass(frozen=True, slots=True)
class Manner:
    """The manner in which a piece is written, for its translation."""

    case: Case = "usual"
    keeps_small: bool = False
    """True if a title leaves short words small."""
    final_marks: str = ""
    """Several marks at the end, such as "!!!"; else empty."""


USUAL = Manner()


@dataclass(frozen=True)
class Reading:
    """A reading turns lines into what one model reads, and its translations into the manner of their lines."""

    ids_of: Encode
    characters: Callable[[], frozenset[str]]
    """Returns the characters that the vocabulary has met."""
    languages: tuple[str, str]
    """The languages of source and translation."""
    usual_forms: Mapping[str, str] = field(default_factory=dict)
    """The words of the training text in small letters, and their usual forms; the most frequent first."""
    unmet_marks: Callable[[], frozenset[str]] = frozenset
    """Returns the opening marks of ASCII that the vocabulary has not met."""
    _encoded: dict[str, tuple[str, Manner]] = field(default_factory=dict, repr=False, compare=False)
    """Pieces that were encoded, as they are read, until somebody asks for them."""

    @cached_property
    def _known(self) -> frozenset[str]:
        unmet = self.unmet_marks()
        return (self.characters() | _ASCII) - {mark for opening in unmet for mark in (opening, PAIRS[opening])} | {"'"}

    @cached_property
    def _without_quotes(self) -> frozenset[str]:
        return self._known - {'"', "'"}

    @cached_property
    def _speller(self) -> Speller:
        return Speller(self.usual_forms, self.languages[0])

    def plain(self, text: str) -> str:
        """Return a line in characters that the model has met."""
        return normalized(text, self._known)

    def protected(self, line: str) -> Protected:
        """Return a line as the model reads it, with marks for its placeholders, symbols and enclosing quotation marks.

        White space around it is gone.
        """
        quoted = enclosed(line.strip(), self.languages[1])
        if quoted is None:
            return self._with_symbols(line)
        start, end, opening, closing = quoted
        return self._with_symbols(line.strip()[start:end], opening, closing)

    def _with_symbols(self, line: str, opening: str = "", closing: str = "") -> Protected:
        """Return a line with marks for its placeholders and symbols; `opening` and `closing` are written around it."""
        typed = normalized(line, self._without_quotes).strip()
        text = straightened(typed, self._known)
        pairs = inner_pairs(typed, self._known, self.unmet_marks())
        paired = {index for pair in pairs for index in pair}
        spans = symbol_spans(text, self._known, has_ordinals=writes_ordinals(self.languages[0]), skipped=paired)
        symbols = [(start, end, text[start:end]) for start, end in spans]
        # a space inside a mark belongs to it
        spaced = [
            ((first, first + 1 + (typed[first + 1] == " ")), (last - (typed[last - 1] == " "), last + 1))
            for first, last in pairs
        ]
        for pair in spaced:
            own = [typed[start:end] for start, end in pair]
            marks = own if own[0].isascii() else quotation_marks(self.languages[1])
            symbols += ((start, end, mark) for (start, end), mark in zip(pair, marks, strict=True))
        pairs = [(first, last) for (first, _), (last, _) in spaced]
        symbols.sort()
        if not opening:
            return protect(text, symbols, pairs)
        symbols = [(start + 1, end + 1, written) for start, end, written in symbols]
        enclosed_symbols = [(0, 1, opening), *symbols, (len(text) + 1, len(text) + 2, closing)]
        return protect(f'"{text}"', enclosed_symbols, [(first + 1, last + 1) for first, last in pairs])

    def piece(self, text: str) -> tuple[str, Manner]:
        """Return a piece of a line as usual text, and the manner in which it is written."""
        return self._encoded.pop(text, None) or self._read(text)

    def _read(self, text: str) -> tuple[str, Manner]:
        mark = LANGUAGE_MARK.match(text)
        beginning, rest = (text[: mark.end()], text[mark.end() :]) if mark else ("", text)
        final = FINAL_MARKS.search(rest)
        marks = final["marks"] if final else ""
        if final:
            rest = rest[: final.start("marks")] + ("?" if "?" in marks else "!")
        case = case_of(rest)
        if case == "usual":
            return beginning + self._speller.corrected(rest), Manner(final_marks=marks)
        read = recased(rest, case, self.languages[0], self._count_tokens, self.usual_forms)
        if case == "capitals" and read == rest:
            return beginning + rest, Manner(final_marks=marks)
        return beginning + self._speller.corrected(read), Manner(case, has_small_words(rest), marks)

    def encode(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """Return the ids of pieces as the model reads them, with marks for placeholders and without symbols."""
        pieces = [self._read(text) for text in texts]
        if len(self._encoded) > MAX_ENCODED:
            self._encoded.clear()
        self._encoded.update(zip(texts, pieces, strict=True))
        return self.ids_of([without_symbols(read) for read, _ in pieces])

    def written(self, translation: str, manner: Manner, names: Container[str] = ()) -> str:
        """Return a translation in the manner of its source; `names`, which stand for placeholders, stay."""
        if manner == USUAL or not translation.strip():
            return translation
        text = cased(translation, manner.case, self.languages[1], names, keeps_small=manner.keeps_small)
        return f"{FINAL_MARK.sub('', text)}{manner.final_marks}" if manner.final_marks else text

    def _count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of words inside a text."""
        return [len(ids) for ids in self.ids_of([f" {text}" for text in texts])]


_SHARE = 0.005
"""Share of training lines with several sentences, below which the model has learned nothing from them."""
_SLACK = 1.25
"""Factor by which a sentence may be longer than the longest of the training data before it is cut."""


def default_limits(max_length: int, max_positions: int | None) -> ReadingLimits:
    """Return the limits where no training lines are recorded: `data.max_length`, and the learned positions.

    `max_positions` is None where positions are not learned.
    """
    most = max_length
    if max_positions is not None:
        # the longest translation of n tokens and an end mark must fit into the table of positions
        options = DecodingOptions()
        available = max_positions - options.max_length_offset
        most = min(most, max(1, int(available / options.max_length_factor) - 1))
    return ReadingLimits(most, most, several_sentences=True)


def limits_of_profile(profile: Mapping[str, Any], most: int, where: str) -> ReadingLimits:
    """Return the limits from the recorded profile of the training lines; `most` is the longest possible piece.

    A sentence is read whole up to a quarter more tokens than the longest training line had. Several sentences are read
    together up to the 99.9th percentile of the training lines, where at least one line in 200 had several; else each is
    read alone. Raises `DataError` naming the file `where` for an invalid profile.
    """
    try:
        longest, usual, several = (profile[name] for name in ("longest", "usual", "several_sentences"))
        is_sound = 1 <= int(usual) <= int(longest) and 0 <= float(several) <= 1
    except (KeyError, TypeError, ValueError, OverflowError):
        is_sound = False
    if not is_sound:
        raise DataError("{where}: data_source.source_lines is damaged; restore it from a copy of the run", where)
    return ReadingLimits(min(most, int(_SLACK * longest)), min(most, int(usual)), several >= _SHARE)


def limits_of_run(config: Mapping[str, Any], where: str) -> ReadingLimits:
    """Return the limits of a run from its settings. Raises `DataError` where they are damaged."""
    data, model = config.get("data"), config.get("model")
    try:
        is_learned = model["positions"] == "learned"  # type: ignore[index]
        usual = default_limits(int(data["max_length"]), int(model["max_positions"]) if is_learned else None)  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        raise DataError("{where}: damaged: it has no data.max_length; restore the file", where) from None
    profile: Any = data_source(config).get("source_lines")
    return usual if profile is None else limits_of_profile(profile, usual.longest, where)


def usual_forms_of(config: Mapping[str, Any], language: str) -> dict[str, str]:
    """Return the words that the settings of a run record, in small letters, and their usual forms."""
    return {lower(form, language): form for form in str(data_source(config).get("words") or "").split()}


def data_source(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the settings of a run say of its data; nothing where they have no such section."""
    source: Any = config.get("data_source")
    return source if isinstance(source, dict) else {}
