"""Vectors of lines of text, by any trained model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dikkat_runtime.engine.run_directory import read_config, section
from dikkat_runtime.engine.stack import Stack, causal_mask
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.generator import Generator
from dikkat_runtime.tasks.loading import padded
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.tokenizer import Tokenizer

BATCH_SIZE, WINDOW = 32, 512
"""Lines computed at once, and lines read ahead."""

Read = Callable[[list[int]], list[int]]
"""From the ids of a text to those that the model is given."""
Pool = Callable[[list[list[int]]], Array]
"""From rows of ids to a vector (D,) for each, (B, D)."""


class Embedder:
    """A trained translator (its encoder), classifier or language model, as a source of vectors."""

    def __init__(self, tokenizer: Tokenizer, read: Read, pool: Pool, width: int) -> None:
        """`width` is D, the numbers in a vector."""
        self._tokenizer, self._read, self._pool, self.width = tokenizer, read, pool, width

    @classmethod
    def load(cls, path: str | Path) -> Embedder:
        """The model of a run directory, in float32. Raises as the `load` of its kind."""
        run = Path(path)
        config = read_config(run)
        return _LOADERS[config["task"]](run, config)

    def stream(self, lines: Iterable[str], *, window: int = WINDOW) -> Iterator[Array]:
        """One vector (D,) a line, in order; that of a line of white space is zero."""
        reader = iter(lines)
        while texts := [line.strip() for line in islice(reader, window)]:
            vectors = np.zeros((len(texts), self.width), np.float32)
            rows = [self._read(ids) if ids else [] for ids in self._tokenizer.encode_batch(texts)]
            order = sorted((number for number, row in enumerate(rows) if row), key=lambda number: -len(rows[number]))
            for start in range(0, len(order), BATCH_SIZE):
                batch = order[start : start + BATCH_SIZE]
                vectors[batch] = self._pool([rows[number] for number in batch])
            yield from vectors


def _translator(run: Path, config: Mapping[str, Any]) -> Embedder:
    """The encoder, which reads as in training, with the end mark; the vector of a line is the mean."""
    translator = Translator.load(run)
    engine = translator.engine
    longest = _longest(config, int(section(config, "data", run)["max_length"]), special=1)

    def pool(rows: list[list[int]]) -> Array:
        # the engine puts the end mark there itself
        memory = engine.encode([row[:-1] for row in rows])
        lengths = np.array(memory.lengths, np.float32)[:, None]
        return np.asarray(memory.states.sum(axis=1) / lengths)

    width = int(section(config, "model", run)["model_dim"])
    return Embedder(translator.tokenizer, lambda ids: [*ids[:longest], EOS_ID], pool, width)


def _classifier(run: Path, config: Mapping[str, Any]) -> Embedder:
    """The encoder with its own pooling: the vector of a line is what its class is read off."""
    classifier = Classifier.load(run)

    def pool(rows: list[list[int]]) -> Array:
        tokens, mask = map(np.array, padded(rows))
        return classifier.model.pooled(tokens, mask)

    width = classifier.model.stack.settings.model_dim
    return Embedder(classifier.tokenizer, classifier.read, pool, width)


def _language_model(run: Path, config: Mapping[str, Any]) -> Embedder:
    """States before the output matrix, each of which knows what stands before it; the vector of a line is the mean."""
    generator = Generator.load(run)
    longest = _longest(config, generator.context, special=1)
    width = generator.stack.settings.model_dim
    return Embedder(generator.tokenizer, lambda ids: [BOS_ID, *ids[:longest]], _causal_mean(generator.stack), width)


def _causal_mean(stack: Stack) -> Pool:
    def pool(rows: list[list[int]]) -> Array:
        tokens, mask = map(np.array, padded(rows))
        states = stack(tokens, mask[:, None, None, :] & causal_mask(tokens.shape[1], tokens.shape[1]))
        shares = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
        return np.asarray((shares[:, None, :] @ states)[:, 0])

    return pool


_LOADERS: dict[str, Callable[[Path, Mapping[str, Any]], Embedder]] = {
    "translator": _translator,
    "classifier": _classifier,
    "lm": _language_model,
}


def _longest(config: Mapping[str, Any], limit: int, special: int) -> int:
    """Ids of a text that fit beside the special ones: what was trained on, or less where positions end before."""
    model = config["model"]
    return (min(limit, model["max_positions"]) if model["positions"] == "learned" else limit) - special
