"""Turn hypotheses of ids into text, and the translations of pieces into that of the line."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from dikkat_runtime.engine.constraints import Prefix
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.confidence import CERTAIN, Confidence, Flag
from dikkat_runtime.tasks.translation_notes import TranslationNotes
from dikkat_runtime.text.demanded import Demanded
from dikkat_runtime.text.glossary import Term
from dikkat_runtime.text.segmentation import join
from dikkat_runtime.text.tokenizer import Tokenizer


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
            rest = typed[1].continuation(hypothesis.tokens).decode("utf-8", "replace")
            text = typed[0] + rest.replace("\n", " ")
        tokens = tuple(tokenizer.labels(hypothesis.tokens))
        return Translation(text, hypothesis.score, tokens, finished=hypothesis.finished)

    typed = begun or [None] * len(hypotheses)
    translations = [
        [translation(hypothesis, own) for hypothesis in of_sentence]
        for of_sentence, own in zip(hypotheses, typed, strict=True)
    ]
    return [
        Translation(best.text, best.score, best.tokens, tuple(others), best.finished) for best, *others in translations
    ]


def joined(parts: Sequence[Translation], length_penalty: float) -> Translation:
    """Return the translation of a line from those of its pieces, scored as if it had been written in one."""
    if len(parts) == 1:
        return parts[0]
    ranks = max(len(part.alternatives) for part in parts)
    best, *others = (_joined([_ranked(part, rank) for part in parts], length_penalty) for rank in range(ranks + 1))
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


def _ranked(part: Translation, rank: int) -> Translation:
    every = (part, *part.alternatives)
    return every[min(rank, len(part.alternatives))]


def _joined(parts: Sequence[Translation], length_penalty: float) -> Translation:
    # a copied piece has no tokens, and a score of 0
    lengths = [len(part.tokens) + part.finished if part.tokens else 0 for part in parts]
    total = sum(part.score * length**length_penalty for part, length in zip(parts, lengths, strict=True) if length)
    score = total / sum(lengths) ** length_penalty if any(lengths) else 0.0
    tokens = tuple(chain.from_iterable(part.tokens for part in parts))
    text = join([part.text.strip() for part in parts])
    return Translation(
        text,
        score,
        tokens,
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
            if self.confidence:
                yield "\t".join([*before, f"{confidence.probability:.4f}", text, ", ".join(confidence.flags)])
            else:
                yield "\t".join([*before, text])


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
    forced: bool = False
    """True if the search ran under constraints."""
    changed: bool = False
    """True if the translation is another one than without demands."""
    unmet: tuple[Demanded, ...] = ()
    """Demands that the translation still does not meet."""
