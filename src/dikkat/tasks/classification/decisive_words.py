"""Show where the attention of a classifier went, word by word, and which part of its model decided."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dikkat.config import RunConfig
from dikkat.nn.recorder import record_attention
from dikkat.training.classification import pad_texts
from dikkat_runtime.errors import msg
from dikkat_runtime.tasks import decisive_words as by_any_engine
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.decisive_words import DecisiveWords, read_groups, typed_words
from dikkat_runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, eq=False)
class AttendedWords(DecisiveWords):
    """The words that decided the class of a text, with the attention that each got."""

    attention: NDArray[np.float64] = None  # type: ignore[assignment]
    """Share of the attention that reaches the pooled vector from the word; with the share of `<bos>` they sum to 1."""


def decisive_words(classifier: Classifier, text: str) -> AttendedWords:
    """Words of `text` and their parts in its class, by the PyTorch engine. Raises `DataError` where there is none."""
    (decisive,) = by_any_engine.decisive_words(classifier, text)
    (ids,) = classifier.encode([text])
    tokens, mask = pad_texts([classifier.read(ids)], torch.device("cpu"))
    # that of an imported classifier was refused
    words = typed_words(cast(Tokenizer, classifier.tokenizer), text.strip(), classifier.language)
    shares = _attention(classifier, tokens, mask)
    attention = np.array([shares[group].sum() for group in read_groups(classifier, words) if group])
    return AttendedWords(decisive.answer, decisive.label, decisive.words, decisive.occlusion, decisive.leads, attention)


def table_note(config: RunConfig) -> str:
    """Return what who looks at the attention of a classifier should know; nothing where it has no n-gram table."""
    if not config.classifier.word_table:
        return ""
    return msg("this is the attention of the encoder, which decides together with a table of words and word pairs")


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
