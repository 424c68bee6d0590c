"""Turn hypotheses of ids into text, and translations of pieces into that of the line; count what a user should know."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal

from dikkat_runtime.engine.constraints import Prefix
from dikkat_runtime.engine.hypotheses import Hypothesis, TokenScores
from dikkat_runtime.errors import UsageError, msg, plural
from dikkat_runtime.errors import joined as listed
from dikkat_runtime.tasks.confidence import CERTAIN, Confidence, Flag
from dikkat_runtime.text.demanded import Demanded
from dikkat_runtime.text.glossary import Term
from dikkat_runtime.text.placeholders import KINDS, Kind
from dikkat_runtime.text.segmentation import join
from dikkat_runtime.text.tokenizer import Tokenizer

Event = Literal[
    "cut", "long word", "carriage return", "loop", "unfinished", "misplaced", "direction", "symbols", "words lost"
]

_MESSAGES: dict[Event, str] = {
    "cut": "{lines} had a sentence that the model cannot read in one piece and that was cut",
    "long word": "{lines} had a word that the model cannot read in one piece and that was copied",
    "carriage return": "{lines} had a carriage return (\\r) inside, which ends a sentence here, not a line; tr '\\r' "
    "'\\n' makes lines of them",
    "loop": "{lines} came out as a loop, translated again without repeating three tokens",
    "unfinished": "{lines} had a translation that reached the length limit and ends unfinished",
    "misplaced": "{lines} had a placeholder that the model did not place; it was put at the same relative position of "
    "the line",
    "direction": "{lines} had direction controls, which may show a text in another order than it is read; they are "
    "left out",
    "symbols": "{lines} had more symbols than can be kept",
    "words lost": "{lines} had a prefix after which the model lost words of the line",
}
_SHOWN_TERMS = 10
_SHOWN_LINES = 10
_PLURALS: dict[Kind, str] = {
    "placeholder": "placeholders", "tag": "tags", "URL": "URLs", "e-mail": msg("e-mail addresses"), "number": "numbers",
}  # fmt: skip


@dataclass(slots=True)
class _Tally:
    """How often something happened, and in which lines at first."""

    count: int = 0
    lines: list[int] = field(default_factory=list)
    example: str = ""

    @property
    def first(self) -> int:
        return self.lines[0]

    def add(self, line: int, example: str = "") -> None:
        self.example = self.example or example
        self.count += 1
        if len(self.lines) < _SHOWN_LINES and line not in self.lines[-1:]:
            self.lines.append(line)

    def shown(self, *, numbered: bool) -> str:
        if not numbered:
            return f"{self.count:,}"
        numbers = ", ".join(map(str, self.lines))
        more = ", …" if self.count > len(self.lines) else ""
        return msg("line {numbers}{more}" if len(self.lines) == 1 else "lines {numbers}{more}").fill(numbers, more)


@dataclass(slots=True)
class TranslationNotes:
    """Counters of lines, numbered from 1, by event."""

    _events: dict[Event, _Tally] = field(default_factory=dict)
    _lost: dict[Kind, _Tally] = field(default_factory=dict)
    _had: dict[Kind, int] = field(default_factory=dict)
    _last: dict[Event, int] = field(default_factory=dict)
    _flags: dict[Flag, _Tally] = field(default_factory=dict)
    _abstained: _Tally = field(default_factory=_Tally)
    _terms: Counter[str] = field(default_factory=Counter)
    _term_lines: _Tally = field(default_factory=_Tally)
    _changed: _Tally = field(default_factory=_Tally)
    _unplaced: dict[str, _Tally] = field(default_factory=dict)

    def add(self, event: Event, line: int) -> None:
        """Count an event once a line, whatever the number of its pieces."""
        if self._last.get(event) != line:
            self._last[event] = line
            self._events.setdefault(event, _Tally()).add(line)

    def count(self, event: Event) -> int:
        """Return the number of lines to which this happened."""
        return self._events.get(event, _Tally()).count

    def compare(self, line: int, had: set[Kind], lost: list[tuple[Kind, str]]) -> None:
        """Note the kinds of protected text that a line `had`, and those of them that were `lost`."""
        for kind in had:
            self._had[kind] = self._had.get(kind, 0) + 1
        for kind, example in dict(reversed(lost)).items():
            self._lost.setdefault(kind, _Tally()).add(line, example)

    def flagged(self, flag: Flag, line: int) -> None:
        """Note a fault of a line that is visible without the model."""
        self._flags.setdefault(flag, _Tally()).add(line)

    def abstained(self, line: int) -> None:
        """Note a line that was left empty, since its translation is not sure enough."""
        self._abstained.add(line)

    def demanded(self, line: int, demands: Sequence[Demanded], unmet: Sequence[Demanded], *, changed: bool) -> None:
        """Note the `demands` on a piece of a line and the `unmet` ones.

        `changed` is True where the translation is another one than without them.
        """
        terms = [demand for demand in demands if demand.reason == "term"]
        if not terms:
            return
        for term in terms:
            self._terms[_arrow(term)] += term.count
        self._term_lines.add(line, "")
        if changed:
            self._changed.add(line)
        for term in unmet:
            if term.reason == "term":
                self._unplaced.setdefault(_arrow(term), _Tally()).add(line)

    @property
    def unplaced(self) -> dict[str, int]:
        """The number of times that each term, "term → translation", was not placed."""
        return {term: tally.count for term, tally in self._unplaced.items()}

    def lines(self) -> list[str]:
        """Return one line for each kind of event, and one for all losses."""
        messages: list[str] = []
        for event, said in _MESSAGES.items():
            if tally := self._events.get(event):
                text = msg(said, plural(tally.count, "line"))
                messages.append(
                    msg("{text} ({order}line {first})", text, "" if tally.count == 1 else msg("first "), tally.first)
                )
        messages += self.glossary_lines()
        if self._flags:
            shown_flags = (
                msg("{flag} in {lines} (line {first})", msg(flag), plural(tally.count, "line"), tally.first)
                for flag, tally in self._flags.items()
            )
            messages.append(msg("flagged: {flags}", listed("; ", shown_flags)))
        if count := self._abstained.count:
            messages.append(
                msg("{lines} left empty by --abstain (first line {first})").fill(
                    plural(count, "line"), self._abstained.first
                )
            )
        losses = [self._loss(kind) for kind in KINDS if kind in self._lost]
        return [*messages, msg("lost or changed: {losses}", listed("; ", losses))] if losses else messages

    def glossary_lines(self, *, numbered: bool = True) -> list[str]:
        """Return the lines on the use of a glossary and its terms that were not placed, `numbered` by lines."""
        if not self._terms:
            return []
        used = [f"{shown(term)} ({count:,})" for term, count in self._terms.most_common(_SHOWN_TERMS)]
        messages: list[str] = [
            msg(
                "glossary: {terms} in {texts}, {count:,} of them changed to contain the required terms: "
                "{examples}{more}"
            ).fill(
                plural(self._terms.total(), "term"),
                plural(self._term_lines.count, "text"),
                self._changed.count,
                ", ".join(used),
                _more(len(self._terms) - len(used)),
            )
        ]
        if self._unplaced:
            named = [
                msg("{term} ({where})", shown(term), tally.shown(numbered=numbered))
                for term, tally in list(self._unplaced.items())[:_SHOWN_TERMS]
            ]
            count = sum(self.unplaced.values())
            messages.append(
                msg("glossary: {terms} not placed, since other words would be lost: {examples}{more}").fill(
                    plural(count, "term"), listed(", ", named), _more(len(self._unplaced) - len(named))
                )
            )
        return messages

    def _loss(self, kind: Kind) -> str:
        tally, had = self._lost[kind], self._had[kind]
        example = tally.example if len(tally.example) <= 60 else f"{tally.example[:60]}…"
        lines = msg("line" if had == 1 else "lines")
        return msg("{names} in {count:,} of {total:,} {lines} (line {first}: {example})").fill(
            msg(_PLURALS[kind]), tally.count, had, lines, tally.first, shown(example)
        )


def _arrow(term: Demanded) -> str:
    return f"{term.source} → {'|'.join(term.forms)}"


def _more(count: int) -> str:
    return msg(" and {count:,} more", count) if count > 0 else ""


def shown(text: str) -> str:
    """Return a text with its control characters escaped for a terminal."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of one line."""

    text: str
    score: float
    """Log-probability divided by the length (to the power of the length penalty), in nats a token; see `Hypothesis`."""
    tokens: tuple[str, ...]
    """The subwords of `text` as the model wrote them; none of a copied text."""
    alternatives: "tuple[Translation, ...]" = ()
    """The next best ones, when several were requested; of a line in pieces, the next best of each piece."""
    finished: bool = True
    """True if the model ended it itself, before the length limit."""
    confidence: Confidence | None = None
    """The probability that it is right, where that was requested."""
    unplaced: tuple[Term, ...] = ()
    """The terms of a glossary that it does not hold as demanded."""
    loses_words: bool = False
    """True if what it had to begin with made the model lose words of the line."""
    token_scores: TokenScores | None = field(default=None, repr=False, compare=False)
    """Those of the search that wrote it, until its confidence is estimated."""

    @property
    def flags(self) -> tuple[Flag, ...]:
        """The faults that are known without a judge of confidence."""
        happened: dict[Flag, bool] = {"term not placed": bool(self.unplaced), "words lost": self.loses_words}
        return tuple(flag for flag, has in happened.items() if has)


def copied(text: str) -> Translation:
    """Return the translation of a text that is left as it is."""
    return Translation(text, 0.0, ())


def translations_of(
    hypotheses: Sequence[Sequence[Hypothesis]], tokenizer: Tokenizer, begun: Sequence[tuple[str, Prefix] | None] = ()
) -> list[Translation]:
    """Return the translation of each sentence from its hypotheses, best first; `begun` has the typed beginnings."""
    flat = [hypothesis for of_sentence in hypotheses for hypothesis in of_sentence]
    texts = iter(tokenizer.decode_batch([hypothesis.tokens for hypothesis in flat]))

    def translation(hypothesis: Hypothesis, typed: tuple[str, Prefix] | None) -> Translation:
        # a translation is one line, whatever the model writes
        text = next(texts).replace("\n", " ")
        if typed is not None:
            text = typed[0] + typed[1].continuation(hypothesis.tokens).decode("utf-8", "replace").replace("\n", " ")
        tokens = tuple(tokenizer.labels(hypothesis.tokens))
        own = hypothesis.token_scores
        return Translation(text, hypothesis.score, tokens, finished=hypothesis.finished, token_scores=own)

    typed = begun or [None] * len(hypotheses)
    translations = [
        [translation(hypothesis, own) for hypothesis in of_sentence]
        for of_sentence, own in zip(hypotheses, typed, strict=True)
    ]
    return [replace(best, alternatives=tuple(others)) if others else best for best, *others in translations]


def joined(parts: Sequence[Translation], length_penalty: float) -> Translation:
    """Return the translation of a line from those of its pieces, scored as if it had been written in one."""
    if len(parts) == 1:
        return parts[0]
    ranks = max(len(part.alternatives) for part in parts)
    ranked = (
        [(part, *part.alternatives)[min(rank, len(part.alternatives))] for part in parts] for rank in range(ranks + 1)
    )
    best, *others = (_joined(own, length_penalty) for own in ranked)
    return replace(best, alternatives=tuple(others))


def prefixed(finished: str, parts: Sequence[Translation], length_penalty: float) -> Translation:
    """Return the translation of a line that begins with `finished` text and continues with its `parts`."""
    if not parts:
        return copied(finished)
    whole = joined(parts, length_penalty)
    text = parts[0].text
    for part in parts[1:]:
        text = text + part.text if text.endswith(" ") else join([text, part.text.strip()])
    others = tuple(replace(alternative, text=finished + alternative.text) for alternative in whole.alternatives)
    return replace(whole, text=finished + text, alternatives=others)


def _joined(parts: Sequence[Translation], length_penalty: float) -> Translation:
    # a copied piece has no tokens, and a score of 0
    lengths = [len(part.tokens) + part.finished if part.tokens else 0 for part in parts]
    total = sum(part.score * length**length_penalty for part, length in zip(parts, lengths, strict=True) if length)
    score = total / sum(lengths) ** length_penalty if any(lengths) else 0.0
    return Translation(
        join([part.text.strip() for part in parts]),
        score,
        tuple(chain.from_iterable(part.tokens for part in parts)),
        finished=all(part.finished for part in parts),
        unplaced=tuple(dict.fromkeys(term for part in parts for term in part.unplaced)),
        loses_words=any(part.loses_words for part in parts),
    )


# Format translations as the lines that a command prints: text alone, or with scores and confidences.


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputStyle:
    """The parts of a translation that are printed."""

    scores: bool = False
    """Number and score before each text."""
    confidence: bool = False
    """The probability that it is right before each text, and after it its visible faults."""
    json: bool = False
    """All of it as one object of JSON, with the probability of each word."""
    abstain: float | None = None
    """Probability below which the text is left empty."""

    @property
    def needs_confidence(self) -> bool:
        """True if translations must have a confidence."""
        return self.confidence or self.json or self.abstain is not None

    def check(self, n_best: int, *, is_document: bool) -> None:
        """Raise `UsageError` for options that exclude each other."""
        if self.abstain is not None and not 0 <= self.abstain <= 1:
            raise UsageError("--abstain must be a probability from 0 to 1, not {value}", self.abstain)
        if self.needs_confidence and n_best != 1:
            raise UsageError("--confidence, --json and --abstain need one translation per line; leave out --n-best")
        if self.needs_confidence and is_document:
            raise UsageError("--confidence, --json and --abstain are for lines; leave out --out")

    def lines(self, translation: Translation, number: int, notes: TranslationNotes) -> Iterator[str]:
        """Yield the lines of the translation of a line, whose number counts from 1; `notes` counts those left empty."""
        confidence = translation.confidence or CERTAIN
        abstains = self.abstain is not None and confidence.probability < self.abstain
        if abstains:
            notes.abstained(number)
        for variant in (translation, *translation.alternatives):
            text = "" if abstains else variant.text
            if self.json:
                yield _as_json(variant, number, text)
                continue
            before = [str(number), f"{variant.score:.4f}"] if self.scores else []
            own = [f"{confidence.probability:.4f}", text, ", ".join(confidence.flags)] if self.confidence else [text]
            yield "\t".join([*before, *own])


def _as_json(translation: Translation, number: int, text: str) -> str:
    confidence = translation.confidence or CERTAIN
    return json.dumps(
        {
            "line": number,
            "translation": text,
            "score": None if math.isnan(translation.score) else round(translation.score, 4),
            "confidence": round(confidence.probability, 4),
            "flags": confidence.flags,
            "unplaced_terms": [{"source": term.source, "targets": term.targets} for term in translation.unplaced],
            "words": [{"text": word.text, "confidence": round(word.probability, 4)} for word in confidence.words],
        },
        ensure_ascii=False,
    )


@dataclass(frozen=True, slots=True)
class PieceRequest:
    """A text to translate with its conditions; equal requests have equal translations."""

    text: str
    ids: tuple[int, ...]
    """Ids of the text, without an end mark."""
    prefix: str = ""
    """The beginning of the translation."""
    demands: tuple[Demanded, ...] = ()
    """Words that the translation must hold."""
    is_closed: bool = False
    """True if the last word of the prefix is whole."""

    def is_begun_by(self, text: str) -> bool:
        """Return whether a translation begins with the prefix."""
        rest = text[len(self.prefix) :]
        return text.startswith(self.prefix) and not (self.is_closed and rest[:1].isalnum())


@dataclass(frozen=True, slots=True)
class PieceResult:
    """A translation, and how it was decoded."""

    translation: Translation
    looped: bool = False
    """True if the first output repeated itself in a loop."""
    changed: bool = False
    """True if the translation is another one than without demands."""
    unmet: tuple[Demanded, ...] = ()
    """Demands that the translation still does not meet."""
