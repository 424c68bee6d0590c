"""Estimate the probability that a translation is right, of each word and of the whole, by a fit on the run's data."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.forced_attention import ForcedScores, forced_scores
from dikkat_runtime.errors import DataError
from dikkat_runtime.files import read_regular, write_atomically
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.strict_json import parse_json
from dikkat_runtime.tasks.batches import BATCH_SIZE, length_batches
from dikkat_runtime.text.placeholders import has_words, lost
from dikkat_runtime.text.repetition import is_loop
from dikkat_runtime.text.tokenizer import Tokenizer

Matrix = NDArray[np.float64]
_ROUNDS = 50
_MAX_VALUE = 30.0
"""Largest logit; beyond it a probability is 0 or 1 in float64."""


@dataclass(frozen=True)
class Logistic:
    """A logistic model: a weight for each standardised feature, and an intercept."""

    means: Matrix
    scales: Matrix
    weights: Matrix
    """(F + 1,), the intercept last."""

    @classmethod
    def fit(cls, features: Matrix, labels: Sequence[bool], *, ridge: float = 1.0) -> Self:
        """Fit weights (F + 1,) of greatest likelihood for `features` (N, F), less `ridge` / 2 times their squares."""
        means, scales = features.mean(axis=0), features.std(axis=0)
        scales = np.where(scales > 1e-9, scales, 1.0)
        x = np.c_[(features - means) / scales, np.ones(len(features))]
        y = np.asarray(labels, np.float64)
        # the ridge on the intercept is tiny: it keeps the fit of one-sided labels finite
        penalty = np.diag([ridge] * features.shape[1] + [0.1])
        weights = np.zeros(x.shape[1])
        for _ in range(_ROUNDS):
            p = _sigmoid(x @ weights)
            gradient = x.T @ (y - p) - penalty @ weights
            hessian = (x * (p * (1 - p))[:, None]).T @ x + penalty
            step = np.linalg.solve(hessian, gradient)
            weights = weights + step
            if np.abs(step).max() < 1e-8:
                break
        return cls(means, scales, weights)

    def logits(self, features: Matrix) -> Matrix:
        """Return logits (N,) of features (N, F)."""
        scores: Matrix = (features - self.means) / self.scales @ self.weights[:-1] + self.weights[-1]
        return np.clip(scores, -_MAX_VALUE, _MAX_VALUE)

    def probabilities(self, features: Matrix) -> Matrix:
        """Return probabilities (N,) of features (N, F)."""
        return _sigmoid(self.logits(features))

    def as_json(self) -> dict[str, list[float]]:
        """Return the model as `from_json` reads it."""
        return {name: getattr(self, name).tolist() for name in ("means", "scales", "weights")}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], features: int) -> Self:
        """Return the model of a JSON object.

        Raises `ValueError` or `KeyError` where it is not a model of `features` features.
        """
        arrays = [np.array(content[name], np.float64) for name in ("means", "scales", "weights")]
        if [array.shape for array in arrays] != [(features,), (features,), (features + 1,)]:
            raise ValueError("it has other features")
        if not all(np.isfinite(array).all() for array in arrays):
            raise ValueError("a weight is not finite")
        return cls(*arrays)


def _sigmoid(logits: Matrix) -> Matrix:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logits, -_MAX_VALUE, _MAX_VALUE))))


_WORDS = {
    "en": r"\b(?:not|no|never|none|nobody|nothing|nowhere|neither|nor|without|cannot)\b|n['’]t\b",
    "fr": r"\b(?:ne|non|pas|jamais|rien|aucune?|personne|sans|ni|nulle? part)\b|\bn['’]",
    "de": r"\b(?:nicht|nichts|nie|niemals|niemand\w*|nein|kein\w*|ohne|weder|nirgends)\b",
    "es": r"\b(?:no|nunca|jamás|nada|nadie|ning[uú]n\w*|sin|ni|tampoco)\b",
    "pt": r"\b(?:não|nunca|jamais|nada|ninguém|nenhum\w*|sem|nem)\b",
    "it": r"\b(?:non|no|mai|niente|nulla|nessun\w*|senza|né)\b",
    "nl": r"\b(?:niet|niets|nooit|niemand|geen|nee|zonder|noch)\b",
    "tr": r"\b(?:değil\w*|yok\w*|hiç\w*|asla|hayır|ne)\b|s[ıiuü]z\b|\w{2,}m[aeıiuü](?:[yzdmscn]\w*|l[ıi]\w*|)\b",
}


def negates(text: str, language: str) -> bool | None:
    """Return whether a word or suffix of negation is in `text`; None for a language whose words are not listed here."""
    pattern = _WORDS.get(re.split("[-_.@]", language.lower(), maxsplit=1)[0])
    return None if pattern is None else re.search(pattern, text, re.IGNORECASE) is not None


# Features of a translation for its confidence: probabilities, margins, and shapes of the attention.


SENTENCE_FEATURES = (
    "mean log-probability", "lowest log-probability", "sum of log-probabilities", "mean margin", "lowest margin",
    "mean entropy", "highest entropy", "attention entropy", "uncovered source", "most covered", "length ratio",
    "share of unlikely tokens", "source length",
)  # fmt: skip
WORD_FEATURES = (
    "lowest log-probability", "mean log-probability", "lowest margin", "highest entropy", "attention entropy",
    "attention peak", "coverage", "log-probability before", "log-probability behind", "sentence", "length",
)  # fmt: skip
_WORD = "[\u0e00-\u0eff\u3001-\u30ff\u3400-\u9fff]|[^\\s\u0e00-\u0eff\u3001-\u30ff\u3400-\u9fff]+"
_UNLIKELY = -2.0
"""Nats, below which a token is unlikely."""
_FLOOR = -20.0


Words = list[re.Match[str]]


def words_of(text: str) -> Words:
    """Return the words between spaces; in scripts without spaces, the characters."""
    return list(re.finditer(_WORD, text))


def sentence_features(scores: ForcedScores) -> list[float]:
    """Return the numbers that `SENTENCE_FEATURES` names."""
    log_p = np.maximum(scores.log_probabilities, _FLOOR)
    margins = np.clip(scores.margins, _FLOOR, -_FLOOR)
    coverage = scores.attention[:, : scores.source_tokens].sum(axis=0)
    return [
        float(log_p.mean()),
        float(log_p.min()),
        float(log_p.sum()),
        float(margins.mean()),
        float(margins.min()),
        float(scores.entropies.mean()),
        float(scores.entropies.max()),
        float(_entropy(scores.attention).mean()),
        float(np.maximum(0, 1 - coverage).mean()) if len(coverage) else 0.0,
        float(coverage.max()) if len(coverage) else 0.0,
        abs(float(np.log(len(log_p) / scores.attention.shape[1]))),
        float((log_p < _UNLIKELY).mean()),
        float(np.log(scores.attention.shape[1])),
    ]


def word_features(scores: ForcedScores, words: Words, spans: Sequence[tuple[int, int]]) -> list[list[float]]:
    """Return for each word the numbers that `WORD_FEATURES` names; `spans` are those of the tokens in the text."""
    log_p = np.maximum(scores.log_probabilities, _FLOOR)
    entropy, coverage = _entropy(scores.attention), scores.attention.sum(axis=0)
    mean = float(log_p.mean())
    rows = []
    for word in words:
        first, last = word.span()
        own = [n for n, (start, end) in enumerate(spans) if start < last and max(end, start + 1) > first] or [0]
        first, last = own[0], own[-1]
        looked_at = scores.attention[own].mean(axis=0)
        rows.append(
            [
                float(log_p[own].min()),
                float(log_p[own].mean()),
                float(np.clip(scores.margins[own].min(), _FLOOR, -_FLOOR)),
                float(scores.entropies[own].max()),
                float(entropy[own].mean()),
                float(looked_at.max()),
                float(coverage[int(looked_at.argmax())]),
                float(log_p[first - 1]) if first else 0.0,
                float(log_p[last + 1]) if last + 1 < len(log_p) else 0.0,
                mean,
                float(len(own)),
            ]
        )
    return rows


def _entropy(attention: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entropy (T,) of rows (T, S), as a share of the highest possible."""
    highest = np.log(max(2, attention.shape[1]))
    safe = np.maximum(attention, 1e-12)
    return np.asarray(-(safe * np.log(safe)).sum(axis=1) / highest)


FILE = "confidence.json"
VERSION = 1
MAX_FILE_SIZE = 1 << 20
MAX_WHEN_FLAGGED = 0.5
"""Largest probability of a translation with a fault that is visible without the model."""
Flag = Literal["loop", "empty", "unfinished", "number lost", "negation lost", "term not placed", "words lost"]


@dataclass(frozen=True, slots=True)
class WordConfidence:
    """The probability that one word of a translation is right."""

    text: str
    probability: float
    """The probability that the word is right."""


@dataclass(frozen=True, slots=True)
class Confidence:
    """The probability that one translation is right, and its visible faults."""

    probability: float
    """The probability that it is right, as `Calibration.right` defines it."""
    words: tuple[WordConfidence, ...] = ()
    flags: tuple[Flag, ...] = ()
    """Faults that are known without the probabilities; with one, the probability is at most a half."""


CERTAIN = Confidence(1.0)
"""The confidence of a copied text."""


@dataclass(frozen=True)
class Calibration:
    """The models of features to probabilities that are fitted on the validation part of a run."""

    sentence: Logistic
    word: Logistic
    right: str
    """The definition of a right sentence, in words."""
    pairs: int
    """Number of pairs in the fit."""

    @classmethod
    def read(cls, run: Path) -> Self | None:
        """Return the calibration of a run directory, or None where there is none.

        Raises `DataError` for a damaged file.
        """
        path = checked(run, FILE)
        try:
            content = parse_json(read_regular(path, MAX_FILE_SIZE))
            if content["version"] != VERSION:
                raise ValueError("it is of another version")
            return cls(
                Logistic.from_json(content["sentence"], len(SENTENCE_FEATURES)),
                Logistic.from_json(content["word"], len(WORD_FEATURES)),
                str(content["right"]),
                int(content["pairs"]),
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError, OverflowError) as error:
            raise DataError("{path}: damaged ({error}); delete it, and it is fitted again", path, error) from None

    def write(self, run: Path) -> None:
        """Write the calibration to a run directory. Raises `DiskError` or `CannotCreateError`."""
        content = {
            "version": VERSION,
            "right": self.right,
            "pairs": self.pairs,
            "sentence": {"features": SENTENCE_FEATURES, **self.sentence.as_json()},
            "word": {"features": WORD_FEATURES, **self.word.as_json()},
        }
        write_atomically(run / FILE, (json.dumps(content, indent=1) + "\n").encode())


class PairScorer:
    """A scorer of sources and given translations by the model."""

    def __init__(self, engine: Engine, tokenizers: tuple[Tokenizer, Tokenizer], languages: tuple[str, str]) -> None:
        """`tokenizers` are those of source and target, which may be one."""
        self._engine, (self._source, self._target), self.languages = engine, tokenizers, languages

    def scores(self, sources: Sequence[str], targets: Sequence[str]) -> list[ForcedScores | None]:
        """Return the model's scores of each pair; None where the source has no tokens."""
        ids = self._source.encode_batch(list(sources), self.languages[0])
        written = self._target.encode_batch(list(targets), self.languages[1])
        results: list[ForcedScores | None] = [None] * len(ids)
        for batch in length_batches([len(source_ids) for source_ids in ids], BATCH_SIZE):
            own = forced_scores(self._engine, [ids[index] for index in batch], [written[index] for index in batch])
            for index, scores in zip(batch, own, strict=True):
                results[index] = scores
        return results

    def spans(self, target: str) -> list[tuple[int, int]]:
        """Return the span of each token of a translation, without the space before it."""
        written, spans = self._target.spans(target, self.languages[1])
        return [(end - len(written[start:end].lstrip()) if start < end else start, end) for start, end in spans]


class Judge:
    """A judge estimates the probability that translations are right."""

    def __init__(self, scorer: PairScorer, calibration: Calibration) -> None:
        self.scorer, self.calibration = scorer, calibration

    def __call__(
        self, sources: Sequence[str], targets: Sequence[str], finished: Sequence[bool] | None = None
    ) -> list[Confidence]:
        """Return the confidence in each translation; `finished` is True where the model ended it itself."""
        finished = [True] * len(sources) if finished is None else finished
        scores = self.scorer.scores(sources, targets)
        return [self._of(*pair) for pair in zip(sources, targets, scores, finished, strict=True)]

    def _of(self, source: str, target: str, scores: ForcedScores | None, finished: bool) -> Confidence:
        if scores is None:
            return CERTAIN
        calibration = self.calibration
        words = words_of(target)
        flags = faults(source, target, self.scorer.languages, finished=finished)
        probability = float(calibration.sentence.probabilities(np.array([sentence_features(scores)]))[0])
        if not words:
            return flagged(Confidence(probability), flags)
        features = np.array(word_features(scores, words, self.scorer.spans(target)))
        shown = zip(words, calibration.word.probabilities(features).tolist(), strict=True)
        of_words = tuple(WordConfidence(word[0], word_probability) for word, word_probability in shown)
        return flagged(Confidence(probability, of_words), flags)


def faults(source: str, target: str, languages: tuple[str, str], *, finished: bool = True) -> tuple[Flag, ...]:
    """Return the faults of a translation that are visible without the model."""
    happened: dict[Flag, bool] = {
        "empty": has_words(source) and not target.strip(),
        "loop": is_loop(target.split(), finished) and not is_loop(source.split()),
        "unfinished": not finished,
        "number lost": any(kind == "number" for kind, _ in lost(source, target)[1]),
        "negation lost": negates(source, languages[0]) is True and negates(target, languages[1]) is False,
    }
    return tuple(flag for flag, has in happened.items() if has)


def flagged(confidence: Confidence, flags: Sequence[Flag]) -> Confidence:
    """Return the confidence with more faults, and the probability that is left with them."""
    if not flags:
        return confidence
    probability = min(confidence.probability, MAX_WHEN_FLAGGED)
    return replace(confidence, probability=probability, flags=(*confidence.flags, *flags))


def combined(parts: Sequence[Confidence]) -> Confidence:
    """Return the confidence in a line from those of its pieces, all of which must be right."""
    if len(parts) == 1:
        return parts[0]
    probability = float(np.prod([part.probability for part in parts]))
    flags = dict.fromkeys(flag for part in parts for flag in part.flags)
    return Confidence(probability, tuple(word for part in parts for word in part.words), tuple(flags))


def respelled(confidence: Confidence, text: str) -> Confidence:
    """Return the confidence with its words as they are spelled in `text`, whose words are the same but for casing."""
    spellings = words_of(text)
    if len(spellings) != len(confidence.words):
        return confidence
    words = (replace(word, text=own[0]) for word, own in zip(confidence.words, spellings, strict=True))
    return replace(confidence, words=tuple(words))


def renamed(confidence: Confidence, names: Sequence[tuple[str, str]]) -> Confidence:
    """Return the confidence with the second text of each pair replaced by the first in its words."""
    words = list(confidence.words)
    for shown, written in names:
        words = [replace(word, text=word.text.replace(written, shown)) for word in words]
    return replace(confidence, words=tuple(words))
