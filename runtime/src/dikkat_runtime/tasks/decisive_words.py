"""Find the words that decided the labels of a text, by any engine: what each label loses where a word is left out."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.tasks.classifier import BATCH_SIZE, Classification, Classifier
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer
from dikkat_runtime.text.tokenizer import Tokenizer

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Letters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, Chinese and Japanese."""


_CHUNK = re.compile(r"(?P<tag></?[A-Za-z][^<>]*>)|(?:(?!</?[A-Za-z][^<>]*>)\S)+")
"""Pattern of a tag of HTML, with the spaces in it, or of text between white space and tags."""
_AROUND = ".,;:!?…\"'“”‘’«»„()[]{}¿¡。，、；：！？（）「」『』"
"""Punctuation before and after words, which is not part of them."""


class TypedWord(NamedTuple):
    """One word of a text."""

    text: str
    """In its own case and whole characters, with the punctuation at it."""
    tokens: tuple[int, ...]
    """Indices of its tokens, rising; tokens of the space before it are among them."""

    @property
    def bare(self) -> str:
        """The word without the punctuation around it; a word of punctuation alone stays as it is."""
        return self.text.strip(_AROUND) or self.text


def typed_words(tokenizer: Tokenizer, text: str, language: str = "") -> list[TypedWord]:
    """Return the words of `text`, split at white space, with all tokens of `Tokenizer.encode(text, language)` in order.

    A tag of HTML is a word of its own.

    Where a script has no spaces, each token, or the few that share a character, is a word.
    """
    text, spans = tokenizer.spans(text, language)
    words = _words(text, spans)
    number = 0
    tokens: list[list[int]] = [[] for _ in words]
    for index, (start, end) in enumerate(spans):
        visible = next((at for at in range(start, end) if not text[at].isspace()), end)
        while number + 1 < len(words) and words[number][1] <= visible:
            number += 1
        if words:
            tokens[number].append(index)
    return [TypedWord(text[start:end], tuple(indices)) for (start, end), indices in zip(words, tokens, strict=True)]


def _words(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    inside = {index for start, end in spans for index in range(start + 1, end)}
    words: list[tuple[int, int]] = []
    for chunk in _CHUNK.finditer(text):
        start = chunk.start()
        if chunk["tag"]:
            words.append(chunk.span())
            continue
        for index in range(start + 1, chunk.end()):
            if index not in inside and _may_part(text[index - 1], text[index]):
                words.append((start, index))
                start = index
        words.append((start, chunk.end()))
    return words


def _may_part(before: str, after: str) -> bool:
    """Return whether a word may end between two adjacent characters."""
    return unicodedata.category(after)[0] != "M" and bool(_UNSPACED.match(before) or _UNSPACED.match(after))


@dataclass(frozen=True, slots=True, eq=False)
class DecisiveWords:
    """Hold the words that the model read of a text, as typed but without punctuation, with their part in a decision."""

    answer: Classification
    label: str
    """What is explained: the class of the text, or one of its labels."""
    words: tuple[str, ...]
    occlusion: Array
    """By how much the log-odds of the label fall, in nats, when the word is hidden; below zero it spoke against."""
    leads: tuple[float, ...] = ()
    """By how many nats the label leads the next class: what the encoder adds to that, then what the word table does if
    there is one. No attention shows the part of the table. Nothing where a text may have several labels."""

    def strongest(self, most: int) -> list[tuple[str, float]]:
        """Return the `most` words without which the label would lose or gain most."""
        return sorted(zip(self.words, self.occlusion.tolist(), strict=True), key=lambda pair: -abs(pair[1]))[:most]


def decisive_words(classifier: Classifier, text: str) -> list[DecisiveWords]:
    """Return the words that decided, for each label that `text` got, or for the likeliest where it got none.

    Raises `DataError` for a text without words, and `UsageError` for an imported classifier.
    """
    if isinstance(classifier.tokenizer, ForeignTokenizer):
        raise UsageError("the words that decided are known for classifiers trained here, not for imported ones")
    (ids,) = classifier.encode([text])
    if not ids:
        raise DataError("there is nothing to decide in an empty text; give a few words")
    (answer,) = classifier.classify([text])
    words = typed_words(classifier.tokenizer, text.strip(), classifier.language)
    groups = read_groups(classifier, words)
    numbers = [number for number, group in enumerate(groups) if group]
    typed = [word.text for word in words]
    without = [" ".join((*typed[:number], *typed[number + 1 :])) for number in numbers]
    known = classifier.table_logits([text, *without])
    encoded = _occluded(classifier, classifier.read(ids), [groups[number] for number in numbers])
    logits = (encoded + known) / classifier.decision.temperature
    bare = tuple(words[number].bare for number in numbers)
    return [
        DecisiveWords(answer, name, bare, *_decided(classifier, name, logits, encoded[0], known[0]))
        for name in answer.labels or (answer.label,)
    ]


def read_groups(classifier: Classifier, words: list[TypedWord]) -> list[list[int]]:
    """Return where the tokens of each word stand after `<bos>` in what is read; none of a word that is not read."""
    kept = classifier.kept(range(sum(len(word.tokens) for word in words)))
    position = {token: number for number, token in enumerate(kept, start=1)}
    return [[position[token] for token in word.tokens if token in position] for word in words]


def _decided(
    classifier: Classifier, label: str, logits: Array, encoded: Array, known: Array
) -> tuple[Array, tuple[float, ...]]:
    """Return the falls of the log-odds of a label, and its leads by part."""
    index = classifier.labels.index(label)
    if classifier.is_multi_label:
        return logits[0, index] - logits[1:, index], ()
    others = np.delete(logits, index, axis=1)
    largest = others.max(axis=1)
    # from logits, since a probability near 1 no longer knows how near
    odds = logits[:, index] - largest - np.log(np.exp(others - largest[:, None]).sum(axis=1))
    parts = np.stack([encoded] if classifier.table is None else [encoded, known]) / classifier.decision.temperature
    rivals = parts.sum(axis=0)
    rivals[index] = -np.inf
    return odds[0] - odds[1:], tuple((parts[:, index] - parts[:, int(rivals.argmax())]).tolist())


def _occluded(classifier: Classifier, row: list[int], groups: list[list[int]]) -> Array:
    """Return what the encoder says (G + 1, C) of the whole text, then of the text with each group hidden."""
    shown = np.ones((len(groups) + 1, len(row)), bool)
    for number, group in enumerate(groups, start=1):
        shown[number, group] = False
    blocks = [shown[start : start + BATCH_SIZE] for start in range(0, len(shown), BATCH_SIZE)]
    return np.concatenate([classifier.encoder_logits([row] * len(block), block) for block in blocks])
