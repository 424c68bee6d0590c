"""Format translations as the lines that a command prints: text alone, or with scores and confidences."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.confidence import CERTAIN
from dikkat_runtime.tasks.translation_notes import TranslationNotes
from dikkat_runtime.tasks.translations import Translation


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
