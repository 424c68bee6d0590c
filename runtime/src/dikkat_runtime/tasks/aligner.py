"""Align the words of a translation with those of its source by the translator's own attention."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dikkat_runtime.engine.forced_attention import FORCED, ForcedAttention
from dikkat_runtime.engine.settings import model_settings
from dikkat_runtime.errors import UsageError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.native.cpu import available_threads
from dikkat_runtime.run.config import read_config, section
from dikkat_runtime.run.parts import CONFIG, WEIGHTS
from dikkat_runtime.tasks.opening import load_tokenizers, open_weights
from dikkat_runtime.text.tokenizer import Tokenizer

Span = tuple[int, int]
"""The first character, and the one after the last."""
Spans = Sequence[Span]


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """The cross-attention of a translation over its source."""

    source: str
    target: str
    """Both texts as the tokenizer composes them."""
    source_spans: Spans
    target_spans: Spans
    """The characters of each token, without a space before a word."""
    weights: Array
    """(L, H, T, S): the rows of each head sum to one, less the weight on the end mark of the source."""


class Aligner:
    """An aligner attends from a given translation to its source."""

    def __init__(
        self, attention: ForcedAttention, tokenizers: tuple[Tokenizer, Tokenizer], target_language: str = ""
    ) -> None:
        """`tokenizers` are those of source and target, which may be one."""
        self._attention, self._tokenizers, self._target_language = attention, tokenizers, target_language

    @classmethod
    def load(cls, path: str | Path) -> "Aligner":
        """Return the aligner of a translator's run directory.

        Raises `UsageError` for a model that it cannot compute, else as `Translator.load`.
        """
        run = Path(path)
        config = read_config(run, "translator")
        language = str(section(config, "data", run).get("target_language", ""))
        return cls(forced_attention(run, config), load_tokenizers(run, config), language)

    @staticmethod
    def computes(path: str | Path) -> bool:
        """Return whether the model of a run directory can be aligned. Raises as `load`, but reads no weights."""
        run = Path(path)
        try:
            model_settings(read_config(run, "translator"), str(run / "config.json"), FORCED)
        except UsageError:
            return False
        return True

    def attend(self, source: str, target: str) -> CrossAttention:
        """Return the weights of every layer and head for a given translation; none where either text is empty."""
        (reads, writes), language = self._tokenizers, self._target_language
        ids, target_ids = reads.encode(source), writes.encode(target, language)
        weights = self._attention(ids, target_ids) if ids and target_ids else np.zeros((0, 0, 0, 0), np.float32)
        (source, spans), (target, target_spans) = token_spans(reads, source), token_spans(writes, target, language)
        return CrossAttention(source, target, spans, target_spans, weights)


def word_weights(weights: Array, words: tuple[Spans, Spans], tokens: tuple[Spans, Spans]) -> Array:
    """Return weights (T', S') of target words on source words from those (T, S) of tokens.

    Rows sum to one, or are zero. `words` and `tokens` are the characters of those of the target and of the source.
    """
    shares = _shares(words[0], tokens[0]) @ weights @ _shares(words[1], tokens[1]).T
    total = shares.sum(axis=1, keepdims=True)
    return np.asarray(shares / np.where(total > 0, total, 1), np.float32)


def forced_attention(run: Path, config: Mapping[str, Any]) -> ForcedAttention:
    """Return the computation of a translator's cross-attention. Raises `UsageError` where it cannot be computed."""
    settings = model_settings(config, str(run / CONFIG), FORCED)
    return ForcedAttention(open_weights(run / WEIGHTS, settings, available_threads()), settings)


def token_spans(tokenizer: Tokenizer, text: str, language: str | None = None) -> tuple[str, Spans]:
    """Return the composed text, and the characters of each token, without a space before a word."""
    written, spans = tokenizer.spans(text, language)
    return written, [(end - len(written[start:end].lstrip()) if start < end else start, end) for start, end in spans]


def _shares(words: Spans, tokens: Spans) -> Array:
    """Return (W, N): 1 where a token has a character in a word."""
    word, token = np.array(words).reshape(-1, 2), np.array(tokens).reshape(-1, 2)
    return ((token[None, :, 1] > word[:, None, 0]) & (token[None, :, 0] < word[:, None, 1])).astype(np.float32)


_SPACELESS = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
)
"""Letters of scripts without spaces between words: each is a word here."""
WORD = re.compile(rf"[{_SPACELESS}]|(?:(?![{_SPACELESS}])\w)+(?:[-.,:/@'’](?=\w)(?:(?![{_SPACELESS}])\w)+)*|[^\w\s]")


def word_spans(text: str) -> list[Span]:
    """Return words, and signs one by one, without white space.

    A sign between letters is in a word: l'ami, Ankara'da.
    """
    return [match.span() for match in WORD.finditer(text)]


def is_sign(text: str, span: Span) -> bool:
    """Return whether a span is of punctuation or symbols alone."""
    return not any(map(str.isalnum, text[slice(*span)]))


_FLOOR, _ROUNDS = 0.01, 20
"""Number added to each weight before rows and columns are balanced, and the number of rounds of balancing."""


def balanced(weights: Array, are_signs: Sequence[bool], source_signs: Sequence[bool]) -> Array:
    """Return weights (T, S) with rows that sum to one, and equal sums of the source words (Sinkhorn 1967).

    So an article aligns with the article, though its attention is on the noun. Signs attend to signs alone.
    """
    signs, sources = np.array(are_signs, bool), np.array(source_signs, bool)
    result = np.zeros_like(weights)
    for rows, columns in ((~signs, ~sources), (signs, sources)):
        # (T', S')
        part = weights[np.ix_(rows, columns)].astype(np.float64) + _FLOOR
        if not part.size:
            continue
        for _ in range(_ROUNDS):
            part *= part.shape[0] / part.shape[1] / part.sum(axis=0, keepdims=True)
            part /= part.sum(axis=1, keepdims=True)
        result[np.ix_(rows, columns)] = part
    return result


def best_run(gains: Array, free: Array) -> tuple[Span, float]:
    """Return the shortest run of free words that gains most (Bentley 1984), and its gain."""
    best, best_gain = (0, 0), 0.0
    start, total = 0, 0.0
    (gaining,) = np.nonzero(free & (gains > 0))
    if not len(gaining):
        return best, best_gain
    # no run begins before the first word that gains, or ends after the last one
    first, last = int(gaining[0]), int(gaining[-1]) + 1
    pairs = zip(gains[first:last].tolist(), free[first:last].tolist(), strict=True)
    for number, (gain, is_free) in enumerate(pairs, start=first):
        if not is_free or total + gain <= 0:
            start, total = number + 1, 0.0
            continue
        if total <= 0:
            start = number
        total += gain
        if total > best_gain + 1e-6:
            best, best_gain = (start, number + 1), total
    return best, best_gain
