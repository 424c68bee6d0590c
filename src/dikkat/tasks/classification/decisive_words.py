"""The words that decided: by leaving each out, and by where the attention went; and which part of the model did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dikkat.config import RunConfig
from dikkat.data.labelled import shortened
from dikkat.nn.recorder import record_attention
from dikkat.training.classification import pad_texts
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.tasks.classifier import BATCH_SIZE, Classification, Classifier
from dikkat_runtime.text.typed_words import typed_words


@dataclass(frozen=True, slots=True, eq=False)
class DecisiveWords:
    """The words that the model read of a text, as typed but without punctuation, each with its part in the decision."""

    answer: Classification
    words: tuple[str, ...]
    occlusion: NDArray[np.float64]
    """By how much the log-odds of the label fall, in nats, when the word is hidden; below zero it spoke against."""
    attention: NDArray[np.float64]
    """Share of the attention that reaches the pooled vector from the word; with the share of `<bos>` they sum to 1."""
    leads: tuple[float, ...]
    """By how many nats the label leads the next class: what the encoder adds to that, then what the n-gram table does
    if there is one. No attention shows the part of the table."""


def decisive_words(classifier: Classifier, text: str) -> DecisiveWords:
    """Words of `text` and their parts in its label. Raises `DataError` for a text without words."""
    (ids,) = classifier.encode([text])
    if not ids:
        raise DataError("there is nothing to decide in an empty text; give a few words")
    read = classifier.read(ids)
    (answer,) = classifier.classify([text])
    words, groups = _words(classifier, text)
    tokens, mask = pad_texts([read], torch.device("cpu"))
    label = classifier.labels.index(answer.label)
    known = classifier.table_logits([text, *_texts_without(classifier, text, words)])
    encoded = classifier.decision.encoder_weight * _occluded(classifier, tokens, mask, groups)
    whole, *without = (_log_odds(row, label) for row in (encoded + known) / classifier.decision.temperature)
    shares = _attention(classifier, tokens, mask)
    return DecisiveWords(
        answer,
        tuple(word for _, word in words),
        whole - np.array(without),
        np.array([shares[group].sum() for group in groups]),
        _leads(classifier, tokens, mask, label, known[0]),
    )


@torch.inference_mode()
def _leads(
    classifier: Classifier, tokens: Tensor, mask: Tensor, label: int, known: NDArray[np.float64]
) -> tuple[float, ...]:
    parts = torch.cat(classifier.model.parts(tokens, mask)).double()
    # the logits are their mean
    parts *= classifier.decision.encoder_weight / len(parts)
    if classifier.table is not None:
        parts = torch.stack((parts.sum(dim=0), torch.from_numpy(known)))
    parts /= classifier.decision.temperature
    others = parts.sum(dim=0)
    others[label] = -torch.inf
    return tuple((parts[:, label] - parts[:, others.argmax()]).tolist())


def table_note(config: RunConfig) -> str:
    """Return what who looks at the attention of a classifier should know; nothing where it has no n-gram table."""
    if not (config.classifier.ngram_rows or config.classifier.word_table):
        return ""
    return msg("attention is that of the encoder alone: a table of words and word pairs decides together with it")


def _texts_without(classifier: Classifier, text: str, words: Sequence[tuple[int, str]]) -> list[str]:
    """The text without each of `words`, which come with their numbers."""
    typed = typed_words(classifier.tokenizer, text.strip(), classifier.config.data.source_language)
    texts = [word.text for word in typed]
    return [" ".join((*texts[:number], *texts[number + 1 :])) for number, _ in words]


def _words(classifier: Classifier, text: str) -> tuple[list[tuple[int, str]], list[list[int]]]:
    """The words of which something is read, with their numbers, and where their tokens stand behind `<bos>`."""
    settings = classifier.config.classifier
    words = typed_words(classifier.tokenizer, text.strip(), classifier.config.data.source_language)
    num_tokens = sum(len(word.tokens) for word in words)
    kept = shortened(range(num_tokens), settings.max_tokens, settings.beginning)
    position = {token: number for number, token in enumerate(kept, start=1)}
    groups = [[position[token] for token in word.tokens if token in position] for word in words]
    read = [(number, word.bare) for number, word in enumerate(words) if groups[number]]
    return read, [groups[number] for number, _ in read]


@torch.inference_mode()
def _occluded(classifier: Classifier, tokens: Tensor, mask: Tensor, groups: list[list[int]]) -> NDArray[np.float64]:
    """Logits (G + 1, C) of the encoder for the whole text, then for the text with each group hidden."""
    masks = mask.repeat(len(groups) + 1, 1)
    for row, group in enumerate(groups, start=1):
        masks[row, group] = False
    rows = [classifier.model(tokens.expand(len(part), -1), part) for part in torch.split(masks, BATCH_SIZE)]
    return torch.cat(rows).double().numpy()


def _log_odds(row: NDArray[np.float64], label: int) -> float:
    """From logits, since a probability near 1 no longer knows how near."""
    others = np.delete(row, label)
    return float(row[label] - others.max() - np.log(np.exp(others - others.max()).sum()))


@torch.inference_mode()
def _attention(classifier: Classifier, tokens: Tensor, mask: Tensor) -> NDArray[np.float64]:
    """(S,): the weights of the pooling, followed back through the layers (rollout: Abnar and Zuidema 2020)."""
    with record_attention(classifier.model) as maps:
        hidden = classifier.model.encode(tokens, mask)
    shares = classifier.model.pooling.weights(hidden, mask)[0]
    for _, (weights,) in sorted(maps.items(), key=lambda item: -item[0].layer):
        # half passes by in the residual stream; (H, S, S) -> (S, S)
        shares = 0.5 * shares + 0.5 * shares @ weights[0].mean(dim=0)
    return np.asarray(shares.numpy(), np.float64)
