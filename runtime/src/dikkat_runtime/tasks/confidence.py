"""Estimate the probability that a translation is right, of each word and of the whole, by a fit on the run's data."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.forced_attention import ForcedScores, forced_scores
from dikkat_runtime.engine.products import sigmoid
from dikkat_runtime.errors import DataError
from dikkat_runtime.files import read_regular, write_atomically
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.strict_json import parse_json
from dikkat_runtime.tasks.batches import by_length
from dikkat_runtime.tasks.lexicon import Lexicon, WordLinks
from dikkat_runtime.text.placeholders import has_words, lost
from dikkat_runtime.text.repetition import is_loop
from dikkat_runtime.text.tokenizer import Tokenizer

Matrix = NDArray[np.float64]
_ROUNDS = 50
_MAX_VALUE = 30.0
"""Largest logit; beyond it a probability is 0 or 1 in float64."""


@dataclass(frozen=True)
class Logistic:
    """A logistic model: a weight for each feature, and an intercept."""

    weights: Matrix
    """(F + 1,), the intercept last."""

    @classmethod
    def fit(cls, features: Matrix, labels: Sequence[float], *, ridge: float = 1.0) -> Self:
        """Fit weights (F + 1,) of greatest likelihood for `features` (N, F), less `ridge` / 2 times their squares.

        The squares are those of the weights of standardised features.
        """
        means, scales = features.mean(axis=0), features.std(axis=0)
        scales = np.where(scales > 1e-9, scales, 1.0)
        x = np.c_[(features - means) / scales, np.ones(len(features))]
        y = np.asarray(labels, np.float64)
        # the ridge on the intercept is tiny: it keeps the fit of one-sided labels finite
        penalty = np.diag([ridge] * features.shape[1] + [0.1])
        weights = np.zeros(x.shape[1])
        for _ in range(_ROUNDS):
            p = sigmoid(x @ weights)
            gradient = x.T @ (y - p) - penalty @ weights
            hessian = (x * (p * (1 - p))[:, None]).T @ x + penalty
            step = np.linalg.solve(hessian, gradient)
            weights = weights + step
            if np.abs(step).max() < 1e-8:
                break
        slopes = weights[:-1] / scales
        return cls(np.r_[slopes, weights[-1] - slopes @ means])

    def logits(self, features: Matrix) -> Matrix:
        """Return logits (N,) of features (N, F)."""
        scores: Matrix = features @ self.weights[:-1] + self.weights[-1]
        return np.clip(scores, -_MAX_VALUE, _MAX_VALUE)

    def probabilities(self, features: Matrix) -> Matrix:
        """Return probabilities (N,) of features (N, F)."""
        return sigmoid(self.logits(features))

    @classmethod
    def from_json(cls, content: Mapping[str, float], names: Sequence[str]) -> Self:
        """Return the model of a JSON object, a weight under each name. Raises `ValueError` where it has others."""
        weights = np.array(list(content.values()), np.float64)
        if list(content) != [*names, "intercept"] or not np.isfinite(weights).all():
            raise ValueError("it has other features")
        return cls(weights)


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


# Features of a translation for its confidence: token probabilities, margins, and links to the words of the source.


SENTENCE_FEATURES = (
    "mean log-probability", "sum of log-probabilities", "lowest margin", "mean entropy", "share of unlikely tokens",
    "lowest surprise", "source length", "links of the source", "links of the target", "word ratio",
)  # fmt: skip
WORD_FEATURES = (
    "lowest log-probability", "mean log-probability", "lowest margin", "highest entropy", "log-probability before",
    "log-probability behind", "sentence", "length", "link", "links of the sentence",
)  # fmt: skip
_WORD = "[\u0e00-\u0eff\u3001-\u30ff\u3400-\u9fff]|[^\\s\u0e00-\u0eff\u3001-\u30ff\u3400-\u9fff]+"
_UNLIKELY = -2.0
"""Nats, below which a token is unlikely."""
_FLOOR = -20.0


Words = list[re.Match[str]]


def words_of(text: str) -> Words:
    """Return the words between spaces; in scripts without spaces, the characters."""
    return list(re.finditer(_WORD, text))


def sentence_features(scores: ForcedScores, links: WordLinks) -> list[float]:
    """Return the numbers that `SENTENCE_FEATURES` names."""
    log_p = np.maximum(scores.log_probabilities, _FLOOR)
    features = (
        log_p.mean(),
        log_p.sum(),
        np.clip(scores.margins.min(), _FLOOR, -_FLOOR),
        scores.entropies.mean(),
        (log_p < _UNLIKELY).mean(),
        (log_p + scores.entropies).min(),
        np.log(scores.attention.shape[1]),
        _mean(links.source),
        _mean(links.target),
        np.log((len(links.target) + 1) / (len(links.source) + 1)),
    )
    return list(map(float, features))


def word_features(
    scores: ForcedScores, words: Words, spans: Sequence[tuple[int, int]], links: WordLinks
) -> list[list[float]]:
    """Return for each word the numbers that `WORD_FEATURES` names; `spans` are those of the tokens in the text."""
    # lists, since arrays of a few numbers are slower
    log_p, margins = (np.clip(own, _FLOOR, -_FLOOR).tolist() for own in (scores.log_probabilities, scores.margins))
    entropies, of_target = scores.entropies.tolist(), links.target.tolist()
    mean, mean_link = sum(log_p) / len(log_p), _mean(links.target)
    rows = []
    for word in words:
        first, last = word.span()
        own = [n for n, (start, end) in enumerate(spans) if start < last and max(end, start + 1) > first] or [0]
        linked = [of_target[n] for n, (start, end) in enumerate(links.target_spans) if start < last and end > first]
        first, last = own[0], own[-1]
        likely = [log_p[n] for n in own]
        rows.append([
            min(likely), sum(likely) / len(own), min(margins[n] for n in own), max(entropies[n] for n in own),
            log_p[first - 1] if first else 0.0, log_p[last + 1] if last + 1 < len(log_p) else 0.0,
            mean, float(len(own)), min(linked, default=0.0), mean_link,
        ])  # fmt: skip
    return rows


def _mean(values: Matrix) -> float:
    return float(values.mean()) if len(values) else 0.0


FILE = "confidence.json"
VERSION = 2
MAX_FILE_SIZE = 32 << 20
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
    lexicon: Lexicon
    """The words of the training pairs."""

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
                Logistic.from_json(content["sentence"], SENTENCE_FEATURES),
                Logistic.from_json(content["word"], WORD_FEATURES),
                str(content["right"]),
                int(content["pairs"]),
                Lexicon.from_json(content["lexicon"]),
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            raise DataError("{path}: damaged ({error}); delete it, and it is fitted again", path, error) from None

    def write(self, run: Path) -> None:
        """Write the calibration to a run directory. Raises `DiskError` or `CannotCreateError`."""
        content = {
            "version": VERSION,
            "right": self.right,
            "pairs": self.pairs,
            "sentence": dict(zip((*SENTENCE_FEATURES, "intercept"), self.sentence.weights.tolist(), strict=True)),
            "word": dict(zip((*WORD_FEATURES, "intercept"), self.word.weights.tolist(), strict=True)),
            "lexicon": self.lexicon.links,
        }
        write_atomically(run / FILE, (json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n").encode())


class PairScorer:
    """A scorer of sources and given translations by the model."""

    def __init__(self, engine: Engine, tokenizers: tuple[Tokenizer, Tokenizer], languages: tuple[str, str]) -> None:
        """`tokenizers` are those of source and target, which may be one."""
        self._engine, (self._source, self._target), self.languages = engine, tokenizers, languages

    def scores(self, sources: Sequence[str], targets: Sequence[str]) -> list[ForcedScores | None]:
        """Return the model's scores of each pair; None where the source has no tokens."""
        ids = self._source.encode_batch(list(sources), self.languages[0])
        written = self._target.encode_batch(list(targets), self.languages[1])

        def scored(batch: Sequence[int]) -> list[ForcedScores]:
            memory = self._engine.encode([ids[index] for index in batch])
            return forced_scores(self._engine, memory, [written[index] for index in batch])

        return by_length(list(map(len, ids)), scored)

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
        links = calibration.lexicon.compare(source, target)
        probability = float(calibration.sentence.probabilities(np.array([sentence_features(scores, links)]))[0])
        if not words:
            return flagged(Confidence(probability), flags)
        features = np.array(word_features(scores, words, self.scorer.spans(target), links))
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
