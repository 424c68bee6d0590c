"""What the kinds of trained models have in common for whoever wants vectors: text to ids, ids to hidden states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.config import EncoderConfig, RunConfig, first_complaint
from dikkat.explain.attention_map import Stack
from dikkat.models.factory import Factory
from dikkat.models.sentence_encoder import SentenceEncoder
from dikkat.nn.masks import causal_mask, key_mask
from dikkat.nn.pooling import MeanPooling
from dikkat.pipelines.classification import Classifier
from dikkat.pipelines.classifier_preparation import read_ids
from dikkat.pipelines.language_model import LanguageModel
from dikkat.pipelines.settings import run_config
from dikkat.pipelines.translation import Translator
from dikkat.pipelines.weights import build_checked, load_weights
from dikkat.run_directory import RunDirectory
from dikkat.text.foreign_tokenizer import ForeignTokenizer
from dikkat_runtime.errors import UsageError
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID
from dikkat_runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Trunk:
    """A trained model as far as its hidden states."""

    model: nn.Module
    """What computes the hidden states, its attentions included."""
    stack: Stack
    """Which of its stacks does."""
    encode: Callable[[str], list[int]]
    """Ids of a text that is not empty, without special tokens."""
    read: Callable[[list[int]], list[int]]
    """The ids that the model is given: not more than it can read, between the special tokens that it expects."""
    longest: int
    """Most ids of a text that are read."""
    pieces: Callable[[Sequence[int]], list[str]]
    """A label for each id."""
    width: int
    """D, numbers in a vector."""
    hidden: Callable[[Tensor, Tensor], Tensor]
    """Ids (B, S) and a mask that is True at real ones to hidden states (B, S, D)."""
    pooled: Callable[[Tensor, Tensor], Tensor]
    """Hidden states and mask to vectors of the whole (B, D)."""


def load_trunk(path: Path) -> Trunk:
    """The trunk of a run directory, whatever was trained or imported into it.

    Raises `MissingInputError` or `DataError` naming the file, and `UsageError` for a task that this version does not
    know.
    """
    run = RunDirectory.open(path)
    task = run.read_config().get("task")
    if task not in _LOADERS:
        raise UsageError(f'{path}: holds a "{task}", which this version has no vectors of')
    return _LOADERS[task](run)


def _translator(run: RunDirectory) -> Trunk:
    """The encoder, which reads as in training: with the end mark. The vector of a line is the mean."""
    translator = Translator.load(run.path)
    longest = _longest(translator.config, translator.config.data.max_length, special=1)
    return Trunk(
        model=translator.model,
        stack="encoder",
        encode=translator.encode,
        read=lambda ids: [*ids[:longest], EOS_ID],
        longest=longest,
        pieces=translator.tokenizer.labels,
        width=translator.config.model.model_dim,
        hidden=translator.model.encode,
        pooled=MeanPooling(),
    )


def classifier_trunk(classifier: Classifier) -> Trunk:
    """The encoder with its own pooling: the vector of a line is what its class is read off."""
    settings = classifier.config.classifier
    return Trunk(
        model=classifier.model,
        stack="encoder",
        encode=lambda text: classifier.encode([text])[0],
        read=lambda ids: read_ids(ids, settings),
        longest=settings.max_tokens,
        pieces=classifier.tokenizer.labels,
        width=classifier.config.model.model_dim,
        hidden=classifier.model.encode,
        pooled=classifier.model.pooling,
    )


def _language_model(run: RunDirectory) -> Trunk:
    """States before the output matrix; a causal model's token knows only what stands before it. A line has the mean."""
    found = LanguageModel.load(run.path)
    tokenizer = found.tokenizer
    before = [BOS_ID] if isinstance(tokenizer, Tokenizer) else []
    longest = _longest(found.config, found.context, special=len(before))

    def hidden(tokens: Tensor, mask: Tensor) -> Tensor:
        seen = key_mask(mask)
        if found.model.objective == "causal":
            seen = seen & causal_mask(tokens.shape[1])
        return found.model.hidden(tokens, seen)

    return Trunk(
        model=found.model,
        stack="decoder",
        encode=tokenizer.encode,
        read=lambda ids: [*before, *ids[:longest]],
        longest=longest,
        pieces=tokenizer.labels,
        width=found.config.model.model_dim,
        hidden=hidden,
        pooled=MeanPooling(),
    )


def _encoder(run: RunDirectory) -> Trunk:
    """An imported encoder, pooled as its makers did."""
    settings = run.read_config()
    config = run_config(settings, str(run.config))
    try:
        around = EncoderConfig.model_validate(settings.get("encoder", {}))
    except ValidationError as error:
        raise UsageError(f"{run.config}: encoder.{first_complaint(error)}") from None
    model = build_checked(run, config.model, partial(Factory(config.model).sentence_encoder, around)).eval()
    load_weights(model, run)
    tokenizer = ForeignTokenizer.load(run.tokenizer, config.model.vocab_size)
    longest = _longest(config, around.max_length, special=tokenizer.frame_size)
    return Trunk(
        model=model,
        stack="encoder",
        encode=tokenizer.encode,
        read=lambda ids: tokenizer.framed(ids[:longest]),
        longest=longest,
        pieces=tokenizer.labels,
        width=config.model.model_dim,
        hidden=model,
        pooled=_sentence_pooling(model, around),
    )


_LOADERS: dict[Any, Callable[[RunDirectory], Trunk]] = {
    "translator": _translator,
    "classifier": lambda run: classifier_trunk(Classifier.load(run.path)),
    "lm": _language_model,
    "encoder": _encoder,
}


def _sentence_pooling(model: SentenceEncoder, around: EncoderConfig) -> Callable[[Tensor, Tensor], Tensor]:
    mean = MeanPooling()

    def pooled(hidden: Tensor, mask: Tensor) -> Tensor:
        if around.pooling == "mean":
            vectors = mean(hidden, mask)
        else:
            vectors = hidden[:, 0] if around.pooling == "first" else model.summary(hidden)
        return F.normalize(vectors, dim=-1) if around.normalize else vectors

    return pooled


def _longest(config: RunConfig, limit: int, special: int) -> int:
    """Ids of a text that have room beside the special ones: what was trained on, or less where positions end before."""
    room = min(limit, config.model.max_positions) if config.model.positions == "learned" else limit
    return room - special
