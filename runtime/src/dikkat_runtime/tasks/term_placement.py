"""Terms put into translations that lack them, in place of the words which translate their source.

To search again under a constraint costs several times as much, and where the model does not know the term it loses the
rest of the sentence. So the translation is read once more: the words that look at the source of the term give way to
it, and all others stay. The model chooses among forms, suffixes and elisions.
"""

import re
import unicodedata
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.forced_attention import forced_scores
from dikkat_runtime.engine.hypotheses import Memory
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.tasks.batches import BATCH_SIZE, by_length, search_all
from dikkat_runtime.tasks.compiled import token_positions
from dikkat_runtime.text.casing import capitalized
from dikkat_runtime.text.demanded import Demanded, begins_sentence, held_spans
from dikkat_runtime.text.segmentation import is_spaceless
from dikkat_runtime.text.suffixes import takes_suffixes, with_suffixes_of
from dikkat_runtime.text.tokenizer import Tokenizer

CLEAR = 0.2
"""Share of its attention from which the word that looks at a source most translates it; docs/decisions.md says why."""
_WHOLLY = 0.75
"""Share from which words next to it belong to the same translation."""
_AS_CLEAR = 0.9
"""Share of the highest from which a word in front translates the source as well."""
_FAINT = 0.5
"""Share of `CLEAR` that is enough for a word whose article looks at the source clearly."""
_CLITIC = 2
"""Most letters of a word in front that is an article or a pronoun, and stays."""
_ARTICLES = {
    "de": "der die das den dem des ein eine einen einem einer eines",
    "en": "a an the",
    "es": "el la los las un una unos unas",
    "fr": "le la les un une des du",
    "it": "il lo la i gli le un uno una",
    "nl": "de het een",
    "pt": "o a os as um uma uns umas",
}
"""Words that look at the noun after them, by language."""
_MAX_WAYS = 32
_NEXT_WORDS = re.compile(r"(?:[\W_]*[^\W_]+){0,2}")
"""The words after a term that count in the choice of its form."""
_MAX_ALONE = 10_000
"""Terms whose translations alone are kept."""
_WORD = re.compile(r"[^\W_]+")
_WORD_WITH_SUFFIX = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Lacking:
    """A translation of a source that lacks terms."""

    source: str
    source_ids: tuple[int, ...]
    target: str
    terms: tuple[Demanded, ...]
    """The terms that it lacks."""
    kept: tuple[Demanded, ...] = ()
    """The demands that it meets."""
    begun: int = 0
    """Characters at its beginning that stay as they are."""


@dataclass(frozen=True, slots=True)
class _Change:
    """Words to replace, and the forms that may take their position."""

    start: int
    end: int
    forms: tuple[str, ...]
    source: str
    """The term that they translate."""
    border: int
    """Characters before them that stay as they are."""


class _Reading(NamedTuple):
    """A translation as the tokenizer writes it, with the characters of its tokens and of those of its source."""

    text: str
    tokens: Sequence[Span]
    source_tokens: Sequence[Span]
    attention: Array
    """(T, S)."""


class _Way(NamedTuple):
    """A text that holds a term, and one whose likelihood counts before its own, or none."""

    text: str
    probe: str = ""
    far: int = 0
    """Characters at the end of both that are alike in all ways and too far from the term to count."""

    @property
    def near(self) -> tuple[str, str]:
        """The parts of both texts that count."""
        text, probe = (whole[: len(whole) - self.far] for whole in self[:2])
        return text, probe


class TermPlacer:
    """Replaces words of translations by terms, by the attention and the scores of one translator."""

    def __init__(self, engine: Engine, tokenizers: tuple[Tokenizer, Tokenizer], languages: tuple[str, str]) -> None:
        """`tokenizers` and `languages` are those of source and target."""
        self._engine, (self._source, self._target), self._languages = engine, tokenizers, languages
        self._suffixes = takes_suffixes(languages[1])
        self._articles = frozenset(_ARTICLES.get(re.split("[-_]", languages[1].lower())[0], "").split())
        self._alone: dict[str, str] = {}
        """Translations of terms that were read alone."""

    def __call__(self, items: Sequence[Lacking]) -> list[str | None]:
        """Return each translation with its terms, None where no word clearly translates the source of one."""
        lengths = [len(item.source_ids) for item in items]
        return by_length(lengths, lambda batch: self._placed([items[number] for number in batch]))

    def _placed(self, items: Sequence[Lacking]) -> list[str | None]:
        memory, readings = self._read(items)
        texts: list[str | None] = []
        changes: list[list[_Change]] = []
        for item, reading in zip(items, readings, strict=True):
            own = self._changes(item, reading)
            changes.append(own or [])
            texts.append(reading.text if own else None)
        for turn in range(max(map(len, changes), default=0)):
            ways = {
                number: self._ways(text, changes[number][turn])
                for number, text in enumerate(texts)
                if text is not None and turn < len(changes[number])
            }
            for number, text in zip(ways, self._likeliest(memory, ways), strict=True):
                texts[number] = text
        return texts

    def _read(self, items: Sequence[Lacking]) -> tuple[Memory, list[_Reading]]:
        """Return the states of the sources, and how the model reads each translation."""
        source_spans = self._source.spans_batch([item.source for item in items], self._languages[0])
        spans = self._target.spans_batch([item.target for item in items], self._languages[1])
        memory = self._engine.encode([item.source_ids for item in items])
        ids = self._target.encode_batch([item.target for item in items], self._languages[1])
        scores = forced_scores(self._engine, memory, ids, scored=False)
        return memory, [
            _Reading(written, tokens, source_tokens, own.attention)
            for (written, tokens), (_, source_tokens), own in zip(spans, source_spans, scores, strict=True)
        ]

    def translated_by(self, items: Sequence[Lacking]) -> list[list[str]]:
        """Return the words that translate each span of the terms of each item, in order; "" where none clearly does.

        None does where the tokenizer writes the translation otherwise.
        """
        lengths = [len(item.source_ids) for item in items]
        readings = by_length(lengths, lambda batch: self._read([items[number] for number in batch])[1])
        results = list[list[str]]()
        for item, reading in zip(items, readings, strict=True):
            spans = [span for term in item.terms for span in term.spans]
            readable = reading if reading is not None and reading.text == item.target else None
            words = self._translating(readable, spans) if readable else [None] * len(spans)
            results.append([item.target[slice(*(own or (0, 0)))] for own in words])
        return results

    def _translating(self, reading: _Reading, spans: Sequence[Span], begun: int = 0) -> Iterator[Span | None]:
        """Yield the words after `begun` characters that translate each of the `spans`, None where none clearly does."""
        words = [word for word in self._words(reading.text, reading.tokens) if word[0] >= begun]
        articles = {n for n, (start, end) in enumerate(words) if reading.text[start:end].lower() in self._articles}
        for span in spans:
            positions = list(token_positions(reading.source_tokens, [span]))
            yield _translating(words, reading.tokens, reading.attention[:, positions].sum(axis=1), articles)

    def _changes(self, item: Lacking, reading: _Reading) -> list[_Change] | None:
        """Return what to replace, the last word first; None where no word clearly translates a term."""
        written = reading.text
        if not written.startswith(item.target[: item.begun]):
            return None
        taken = held_spans(written, item.kept)
        changes: list[tuple[Span, Demanded]] = []
        for term in item.terms:
            there = held_spans(written, [term])
            for own in self._translating(reading, term.spans, item.begun):
                if own is None or any(_overlap(own, other) for other in taken):
                    return None
                taken.append(own)
                if not any(_overlap(own, other) for other in there):
                    changes.append((own, term))
        changes.sort(key=lambda change: change[0])
        borders = [item.begun, *(end for (_, end), _ in changes)]
        return [
            _Change(*own, term.forms, term.source, border)
            for (own, term), border in zip(changes, borders[:-1], strict=True)
        ][::-1]

    def _words(self, text: str, tokens: Sequence[Span]) -> list[Span]:
        """Return the words of a text, in scripts without spaces its tokens."""
        words: list[Span] = []
        for match in (_WORD_WITH_SUFFIX if self._suffixes else _WORD).finditer(text):
            if any(map(is_spaceless, match[0])):
                start, end = match.span()
                words += [(max(start, a), min(end, b)) for a, b in tokens if a < end and b > start]
            else:
                words.append(match.span())
        return words

    def _ways(self, text: str, change: _Change) -> list[_Way]:
        """Return the texts in which a term stands for the words that it replaces."""
        language, border = self._languages[1], change.border
        before, written, after = text[: change.start], text[change.start : change.end], text[change.end :]
        match = _NEXT_WORDS.match(after)
        far = len(after) - (match.end() if match else 0)
        ways: list[_Way] = []
        for form in change.forms:
            forms = with_suffixes_of(form, written, self._lemma(change, written)) if self._suffixes else [form]
            if begins_sentence(text, change.start):
                forms = [capitalized(own, language) for own in forms]
            endings = [own for own in fitted(before, written, form, language) if own.text[:border] == text[:border]]
            for own, ending in product(forms, endings or [Ending(before)]):
                probe = ending.probe + written + after if ending.probe else ""
                ways.append(_Way(ending.text + own + after, probe, far))
        return list(dict.fromkeys(ways))[:_MAX_WAYS]

    def _lemma(self, change: _Change, written: str) -> str:
        """Return what the model writes for the source of a term alone, as many words as are `written`."""
        alone = self._alone if len(self._alone) < _MAX_ALONE else {}
        self._alone = alone
        if change.source not in alone:
            ids = self._source.encode(change.source, self._languages[0])
            (hypotheses,) = search_all(self._engine, [ids], DecodingOptions(scores=False))
            alone[change.source] = self._target.decode(hypotheses[0].tokens)
        words = [match[0] for match in _WORD_WITH_SUFFIX.finditer(alone[change.source])]
        return " ".join(words[: len(written.split())])

    def _likeliest(self, memory: Memory, ways: Mapping[int, Sequence[_Way]]) -> list[str]:
        asked = [
            (n, text)
            for n, own in ways.items()
            if len(own) > 1
            for text in dict.fromkeys(text for way in own for text in way.near if text)
        ]
        scores = dict(zip(asked, self._scores(memory, asked), strict=True))

        def score(number: int, way: _Way) -> tuple[float, float]:
            text, probe = way.near
            return scores.get((number, probe), 0.0), scores.get((number, text), 0.0)

        return [max(own, key=lambda way: score(number, way)).text for number, own in ways.items()]

    def _scores(self, memory: Memory, asked: Sequence[tuple[int, str]]) -> list[float]:
        """Return the log-probability of each text, without an end, as that of the source of this number."""
        scores: list[float] = []
        for start in range(0, len(asked), BATCH_SIZE):
            numbers, texts = zip(*asked[start : start + BATCH_SIZE], strict=True)
            ids = self._target.encode_batch(texts, self._languages[1])
            for own in forced_scores(self._engine, replace(memory.of(numbers), words=None), ids):
                scores.append(float(np.nan_to_num(own.log_probabilities[:-1], neginf=0.0).sum()))
        return scores


def _translating(words: Sequence[Span], tokens: Sequence[Span], looks: Array, articles: Container[int]) -> Span | None:
    """Return the adjacent words that look (T,) at a source, none of the `articles`; None where none clearly does."""
    shares = [
        max((float(looks[n]) for n, (a, b) in enumerate(tokens) if a < end and b > start), default=0.0)
        for start, end in words
    ]
    nouns = [0.0 if n in articles else share for n, share in enumerate(shares)]
    if max(shares, default=0.0) < CLEAR or max(nouns) < _FAINT * CLEAR:
        return None
    clearest = [n for n, share in enumerate(nouns) if share >= _AS_CLEAR * max(nouns)]
    # the first run of words that look alike, and of the words of one token the longest, which no elision has cut
    run = [n for n in clearest if n - clearest[0] == clearest.index(n)]
    first = last = max(run, key=lambda n: (nouns[n], words[n][1] - words[n][0]))
    while first and nouns[first - 1] >= _WHOLLY and words[first - 1][1] - words[first - 1][0] > _CLITIC:
        first -= 1
    while last + 1 < len(nouns) and nouns[last + 1] >= _WHOLLY:
        last += 1
    return words[first][0], words[last][1]


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


class Ending(NamedTuple):
    """A way in which the text before a word may end."""

    text: str
    probe: str = ""
    """Where spelling leaves the gender open: the text with an article that shows it, to try before the old word."""


class _Elision(NamedTuple):
    """The form of words before a vowel, and those before a consonant, each with an article of its gender."""

    vowel: str
    consonants: tuple[tuple[str, str], ...]


_FORMS: dict[str, tuple[_Elision, ...]] = {
    "fr": (
        _Elision("de l'", (("du", "d'un"), ("de la", "d'une"))),
        _Elision("à l'", (("au", "à un"), ("à la", "à une"))),
        _Elision("l'", (("le", "un"), ("la", "une"))),
        *(_Elision(f"{own}on", ((f"{own}on", "un"), (f"{own}a", "une"))) for own in "mts"),
        *(_Elision(f"{own}'", ((f"{own}e", ""),)) for own in ("d", "j", "m", "n", "s", "t", "qu", "jusqu", "lorsqu")),
        _Elision("cet", (("ce", ""),)),
        _Elision("bel", (("beau", ""),)),
        _Elision("nouvel", (("nouveau", ""),)),
        _Elision("vieil", (("vieux", ""),)),
    ),
    "en": (_Elision("an", (("a", ""),)),),
}
"""By language; longer forms come first."""
_EITHER = {"fr": "hy", "en": "hu"}
"""Letters that begin words with a vowel as well as words with a consonant."""
_VOWELS = "aeiouœæ"


def fitted(before: str, old: str, new: str, language: str) -> list[Ending]:
    """Return the endings of the text `before` an `old` word, that a `new` one replaces; the best known first.

    There are several where spelling leaves it open: l' says no gender, and h may be silent.
    """
    code = re.split("[-_]", language.lower(), maxsplit=1)[0]
    if code not in _FORMS:
        return [Ending(before)]
    (old_vowel, old_open), (new_vowel, new_open) = (_begins(word, code) for word in (old, new))
    endings = [Ending(before)] if new_open else []
    if (old_vowel or old_open) and not new_vowel:
        endings += _replaced(before, [(change.vowel, change.consonants) for change in _FORMS[code]])
    if (not old_vowel or old_open) and (new_vowel or new_open):
        pairs = [(form, ((change.vowel, ""),)) for change in _FORMS[code] for form, _ in change.consonants]
        endings += _replaced(before, sorted(pairs, key=lambda pair: -len(pair[0])))
    return list(dict.fromkeys(endings)) or [Ending(before)]


def _begins(word: str, code: str) -> tuple[bool, bool]:
    """Return whether a word begins with a vowel, and whether its spelling leaves that open."""
    first = unicodedata.normalize("NFD", word)[:1].lower()
    is_open = first in _EITHER[code]
    return first in _VOWELS and not is_open, is_open


def _replaced(before: str, changes: Sequence[tuple[str, tuple[tuple[str, str], ...]]]) -> list[Ending]:
    """Return a text with the first ending that it has replaced by each of the others; nothing where it has none."""
    plain = before.replace("’", "'")
    for ending, others in changes:
        end = ending if ending.endswith("'") else f"{ending} "
        start = len(plain) - len(end)
        if start < 0 or plain[start:].lower() != end or (start and plain[start - 1].isalnum()):
            continue
        kept, apostrophe, is_capital = before[:start], "’" if "’" in before else "'", before[start].isupper()
        endings = []
        for pair in others:
            spelled = [capitalized(form) if is_capital else form for form in pair]
            spaced = [form if form[-1:] in ("", "'") else f"{form} " for form in spelled]
            form, probe = (own.replace("'", apostrophe) for own in spaced)
            endings.append(Ending(kept + form, kept + probe if probe else ""))
        return endings
    return []
