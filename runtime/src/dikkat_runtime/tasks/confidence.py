"""Estimate the probability that a translation is right, of each word and of the whole, by a fit on the run's data."""

import json
import re
from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal, Self

import numpy as np

from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.forced_attention import ForcedScores, forced_scores
from dikkat_runtime.engine.hypotheses import TokenScores
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.files import read_regular, write_atomically
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.strict_json import parse_json
from dikkat_runtime.special_tokens import EOS_ID
from dikkat_runtime.tasks.aligner import token_spans
from dikkat_runtime.tasks.batches import by_length
from dikkat_runtime.tasks.lexicon import Ids, Lexicon, Matrix, WordLinks
from dikkat_runtime.tasks.logistic import Logistic
from dikkat_runtime.text.negation import negates
from dikkat_runtime.text.placeholders import has_words, lost
from dikkat_runtime.text.repetition import is_loop
from dikkat_runtime.text.tokenizer import Tokenizer

# Features of a translation for its confidence: token probabilities, margins, and links to the words of the source.


SENTENCE_FEATURES = (
    "mean log-probability", "sum of log-probabilities", "lowest margin", "mean entropy", "lowest surprise",
    "links of the source", "links of the target", "word ratio",
)  # fmt: skip
GIVEN_FEATURES = (*SENTENCE_FEATURES, "log-probability of the end", "certainty of all words")
"""Features of a translation that somebody gives."""
WORD_FEATURES = (
    "lowest log-probability", "mean log-probability", "lowest margin", "highest entropy", "log-probability before",
    "log-probability behind", "sentence", "length", "link", "links of the sentence",
)  # fmt: skip
_MODELS = {
    "sentence": SENTENCE_FEATURES,
    "word": WORD_FEATURES,
    "given_sentence": GIVEN_FEATURES,
    "given_word": WORD_FEATURES,
}
_WORD = "[\u0e00-\u0eff\u3001-\u30ff\u3400-\u9fff]|[^\\s\u0e00-\u0eff\u3001-\u30ff\u3400-\u9fff]+"
_FLOOR = -20.0


def words_of(text: str) -> list[re.Match[str]]:
    """Return the words between spaces; in scripts without spaces, the characters."""
    return list(re.finditer(_WORD, text))


Spans = tuple[Ids, Ids]
"""Starts and ends, both rising."""


def features_of(
    targets: Sequence[str], scores: Sequence[TokenScores], tokens: Spans, links: Sequence[WordLinks]
) -> tuple[Matrix, Matrix, list[list[str]]]:
    """Return the features of B translations, those of their W words, and the words of each.

    `GIVEN_FEATURES`, but the last, names the numbers of the first (B, 9), and `WORD_FEATURES` those of the second
    (W, 10). `tokens` are the spans that `PairScorer.spans` returns.
    """
    log_p, margins, entropies = np.concatenate([own.values for own in scores]).astype(np.float64).T
    log_p, margins = np.clip(log_p, _FLOOR, -_FLOOR), np.clip(margins, _FLOOR, -_FLOOR)
    firsts, lengths = starts_of([own.values for own in scores])[:-1], np.array([len(own.values) for own in scores])
    sums, spread = (np.add.reduceat(x, firsts) for x in (log_p, entropies))
    (_, sources, of_source), (linked, linked_words, of_target) = (
        _logarithms(side) for side in ([own.source for own in links], [own.target for own in links])
    )
    sentences = (
        sums / lengths, sums, np.minimum.reduceat(margins, firsts), spread / lengths,
        np.minimum.reduceat(log_p + entropies, firsts), of_source, of_target,
        np.log((linked_words + 1) / (sources + 1)), log_p[firsts + lengths - 1],
    )  # fmt: skip
    texts = [words_of(target) for target in targets]
    lines, owners = starts_of(targets, 1)[:-1], np.repeat(np.arange(len(texts)), list(map(len, texts)))
    words = _joined([[word.span() for word in own] for own in texts], lines)
    first, last = _covered(words, tokens, firsts[owners])
    link = _covered(words, _joined([own.target_spans for own in links], lines), np.full(len(owners), len(linked)))
    counts, ends = last + 1.0 - first, (firsts + lengths)[owners]
    features = (
        _over(np.minimum, log_p, first, last), _over(np.add, log_p, first, last) / counts,
        _over(np.minimum, margins, first, last), _over(np.maximum, entropies, first, last),
        np.where(first > firsts[owners], log_p[first - 1], 0.0),
        np.where(last + 1 < ends, log_p[np.minimum(last + 1, ends - 1)], 0.0),
        (sums / lengths)[owners], counts, _over(np.minimum, linked, *link), of_target[owners],
    )  # fmt: skip
    return np.stack(sentences, axis=1), np.stack(features, axis=1), [[word[0] for word in own] for own in texts]


def starts_of(rows: Sequence[Sized], gap: int = 0) -> Ids:
    """Return where each of some rows begins that stand one after the other, with gaps between, and their end."""
    return np.cumsum([0, *(len(row) + gap for row in rows)])


def given_features(sentences: Matrix, words: Sequence[Sequence[str]], logits: Matrix) -> Matrix:
    """Return all `GIVEN_FEATURES` of B translations: the last comes from the logits that their words are right."""
    owners = np.repeat(np.arange(len(words)), list(map(len, words)))
    odds: Matrix = -np.log(np.bincount(owners, np.exp(-logits), len(words)) + 1e-6)
    return np.column_stack([sentences, odds])


def _logarithms(rows: Sequence[Sequence[int]]) -> tuple[Matrix, Ids, Matrix]:
    """Return the logarithms of the thousandths in all rows, how many are in each, and their mean there."""
    counts = np.array(list(map(len, rows)))
    values = np.log(np.fromiter(chain.from_iterable(rows), np.float64) / 1000 + 1e-3)
    sums = np.bincount(np.repeat(np.arange(len(rows)), counts), values, len(rows))
    return values, counts, sums / np.maximum(counts, 1)


def _joined(spans: Sequence[Sequence[tuple[int, int]]], lines: Ids) -> Spans:
    """Return the spans in lines as those in the whole text, in which each line has its start."""
    starts, ends = np.array([*chain.from_iterable(spans)], np.int64).reshape(-1, 2).T
    shifts = np.repeat(lines, list(map(len, spans)))
    return starts + shifts, ends + shifts


def _covered(spans: Spans, others: Spans, default: Ids) -> Spans:
    """Return the first and the last of `others` that share something with each span; `default` where none does."""
    first, last = np.searchsorted(others[1], spans[0], "right"), np.searchsorted(others[0], spans[1]) - 1
    return np.where(first > last, default, first), np.where(first > last, default, last)


def _over(function: np.ufunc, values: Matrix, first: Ids, last: Ids) -> Matrix:
    """Return the function over the values from each first to its last; 0 beyond their end."""
    padded, pairs = np.append(values, [0.0, 0.0]), np.stack([first, last + 1], axis=1)
    return np.asarray(function.reduceat(padded, pairs.ravel())[::2])


FILE = "confidence.json"
VERSION = 3
MAX_FILE_SIZE = 32 << 20
EXACT = msg("equal to the reference")
"""The definition of right where most validation translations are so."""
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
    """The models of features to probabilities that are fitted on the validation part of a run.

    Those of given translations are fitted for errors in references: they tell whether there is one, and the others how
    good an own translation is.
    """

    sentence: Logistic
    word: Logistic
    given_sentence: Logistic
    given_word: Logistic
    right: str
    """The definition of a right sentence, in words."""
    pairs: int
    """Number of pairs in the fit."""
    lexicon: Lexicon
    """The words of the training pairs."""

    @classmethod
    def read(cls, run: Path) -> Self | None:
        """Return the calibration of a run directory, or None where there is none or one of an earlier version.

        Raises `DataError` for a damaged file, or one of a later version.
        """
        path = checked(run, FILE)
        try:
            content = parse_json(read_regular(path, MAX_FILE_SIZE))
            if content["version"] in range(VERSION):
                return None
            if content["version"] != VERSION:
                raise ValueError("it is of another version")
            fitted = (Logistic.from_json(content[name], features) for name, features in _MODELS.items())
            lexicon = Lexicon.from_json(content["lexicon"])
            sentence, word, given_sentence, given_word = fitted
            right, pairs = str(content["right"]), int(content["pairs"])
            return cls(sentence, word, given_sentence, given_word, right, pairs, lexicon)
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
            **{name: getattr(self, name).to_json(features) for name, features in _MODELS.items()},
            "lexicon": self.lexicon.links,
        }
        write_atomically(run / FILE, (json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n").encode())


class PairScorer:
    """A scorer of sources and given translations by the model."""

    def __init__(self, engine: Engine, tokenizers: tuple[Tokenizer, Tokenizer], languages: tuple[str, str]) -> None:
        """`tokenizers` are those of source and target, which may be one."""
        self._engine, (self._source, self._target), self.languages = engine, tokenizers, languages

    def scores(
        self, sources: Sequence[str], targets: Sequence[str], known: Sequence[TokenScores | None] = ()
    ) -> list[TokenScores | None]:
        """Return the model's scores of each pair; None where the source has no tokens.

        Those `known` count where their tokens write the target.
        """
        text_of, pairs = self._target.token_bytes.text, zip(known or [None] * len(targets), targets, strict=True)
        scores = [None if own is None or text_of(own.tokens) != target.encode() else own for own, target in pairs]
        missing = [index for index, own in enumerate(scores) if own is None]
        ids = self._source.encode_batch([sources[index] for index in missing], self.languages[0])
        written = self._target.encode_batch([targets[index] for index in missing], self.languages[1])

        def scored(batch: Sequence[int]) -> list[ForcedScores]:
            memory = self._engine.encode([ids[index] for index in batch])
            return forced_scores(self._engine, memory, [written[index] for index in batch])

        for index, own in zip(missing, by_length(list(map(len, ids)), scored), strict=True):
            scores[index] = own
        return scores

    def spans(self, targets: Sequence[str], scores: Sequence[TokenScores]) -> Spans:
        """Return the spans of all tokens in the text whose lines are these translations.

        An end mark has the line break; a token that is white space alone belongs to the character behind it.
        """
        known, content = self._target.token_bytes, "\n".join([*targets, ""]).encode()
        written = [b"\0" if i == EOS_ID else known.tokens[i] for own in scores for i in (*own.tokens, EOS_ID)]
        sizes, firsts = np.array(list(map(len, written))), starts_of([own.tokens for own in scores], 1)
        blank = np.array([token.decode("utf-8", "replace").isspace() for token in written])
        # the space that decoding drops; any other number of bytes has been written by other tokens
        more = np.add.reduceat(sizes, firsts[:-1]) - [len(target.encode()) + 1 for target in targets]
        sizes[firsts[:-1]] -= more
        ends = np.cumsum(sizes)
        starts, ends = np.where(blank, (ends, ends + 1), (ends - sizes, ends)).clip(0, len(content))
        heads = np.cumsum(np.r_[0, np.frombuffer(content, np.uint8) & 0xC0 != 0x80, 0])
        starts, ends, lines = heads[starts + 1] - 1, heads[ends], starts_of(targets, 1)
        for index in np.flatnonzero((more < 0) | (more > known.leading_space)).tolist():
            (start, end), line = firsts[index : index + 2], lines[index]
            text, own = token_spans(self._target, targets[index], self.languages[1])
            own = [*own, *[(len(text), len(text) + 1)] * (end - start - len(own))][: end - start]
            starts[start:end], ends[start:end] = np.array(own).T + line
        return starts, np.maximum(ends, starts + 1)


class Judge:
    """A judge estimates the probability that translations are right."""

    def __init__(self, scorer: PairScorer, calibration: Calibration) -> None:
        self.scorer, self.calibration = scorer, calibration

    def __call__(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        finished: Sequence[bool] | None = None,
        known: Sequence[TokenScores | None] = (),
    ) -> list[Confidence]:
        """Return the confidence in each translation; `finished` is True where the model ended it itself.

        Without it somebody else has written them. `known` are those of a search, as for `PairScorer.scores`.
        """
        results, own, is_given = [CERTAIN] * len(targets), self.calibration, finished is None
        chosen = [(n, one) for n, one in enumerate(self.scorer.scores(sources, targets, known)) if one is not None]
        if not chosen:
            return results
        scores, texts = [one for _, one in chosen], [targets[n] for n, _ in chosen]
        links = [own.lexicon.compare(sources[n], targets[n]) for n, _ in chosen]
        rows, of_words, words = features_of(texts, scores, self.scorer.spans(texts, scores), links)
        sentence, word = (own.given_sentence, own.given_word) if is_given else (own.sentence, own.word)
        rows = given_features(rows, words, word.logits(of_words)) if is_given else rows[:, : len(SENTENCE_FEATURES)]
        probabilities = iter(word.probabilities(of_words).tolist())
        for (n, _), probability, own_words in zip(chosen, sentence.probabilities(rows).tolist(), words, strict=True):
            confidence = Confidence(probability, tuple(map(WordConfidence, own_words, probabilities)))
            ended = finished is None or finished[n]
            results[n] = flagged(confidence, faults(sources[n], targets[n], self.scorer.languages, finished=ended))
        return results


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


def combined(parts: Sequence[Confidence], *, exact: bool) -> Confidence:
    """Return the confidence in a line from those of its pieces.

    Where a right translation is `exact`, all must be right; else the chrF of a line is the mean of theirs by length.
    """
    if len(parts) == 1:
        return parts[0]
    probabilities, lengths = [part.probability for part in parts], [max(1, len(part.words)) for part in parts]
    probability = float(np.prod(probabilities) if exact else np.average(probabilities, weights=lengths))
    flags = dict.fromkeys(flag for part in parts for flag in part.flags)
    return flagged(Confidence(probability, tuple(word for part in parts for word in part.words)), tuple(flags))


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
