"""Write texts on with the `model.keras` next to this file, by Keras 3 on TensorFlow, JAX or PyTorch.

    KERAS_BACKEND=jax python generate.py "The start of a text"

In Python: `Generator().generate(["..."])`. Needs the packages keras, numpy and tokenizers, and a backend.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from tokenizers import Tokenizer

ROWS = 16
"""Texts of a batch."""
STEPS = 32
"""Tokens that a cache holds at first; it doubles. Few lengths are few shapes to compile."""
Array = Any


class Generator:
    """Continue a text by the most probable token, with a cache of the tokens so far."""

    def __init__(self, folder: str | Path = Path(__file__).parent) -> None:
        folder = Path(folder)
        self.settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.encode_special_tokens = True  # "<eos>" in a text is text
        self.model: Any = keras.models.load_model(folder / "model.keras")
        value = {layer.name: layer.output for layer in self.model.layers}
        numbers = range(self.settings["decoder_layers"])
        cache, new = (
            [value[f"{kind}_{part}_{number}"] for number in numbers for part in ("keys", "values")]
            for kind in ("cache", "new")
        )
        self.reads_prefix = "prefix_lengths" in value
        prefix = [value["prefix_lengths"]] if self.reads_prefix else []
        inputs = [value["input_ids"], value["token_positions"], value["cache_positions"], *prefix, *cache]
        self.step = keras.Model(inputs, [self.model.output["logits"], *new])
        self.cache_shapes = [(one.shape[1], one.shape[3]) for one in cache]  # heads and their width

    def generate(self, prompts: Sequence[str], max_new_tokens: int | None = None) -> list[str]:
        """Return each prompt and what is written after it, of `max_new_tokens` at most.

        A text ends before that at an end mark, or where it has as many tokens as the model reads. An empty prompt
        begins a text. Raises `ValueError` for a prompt without tokens where no mark begins a text, or with too many.
        """
        begin, rows = self.settings["bos_token_id"], []
        for text in prompts:
            if self.settings["dotted_lower_case"]:
                # lower case of the language, which tokenizer.json does not know
                text = unicodedata.normalize("NFC", text).replace("İ", "i").replace("I", "ı").lower()
            ids = self.tokenizer.encode(text, add_special_tokens=False).ids
            rows.append(ids or ([] if begin is None else [begin]))
        texts: list[str] = []
        for start in range(0, len(rows), ROWS):
            batch = rows[start : start + ROWS]
            for row, written in zip(batch, self.greedy(batch, max_new_tokens), strict=True):
                texts.append(self.tokenizer.decode([*row, *written], skip_special_tokens=True))
        return texts

    def greedy(self, prompts: Sequence[Sequence[int]], max_new_tokens: int | None = None) -> list[list[int]]:
        """Return the ids that are written after those of each prompt, without the end mark."""
        longest = self.settings["max_new_tokens"] if max_new_tokens is None else max_new_tokens
        lengths, most = np.array([len(row) for row in prompts], dtype="int32"), self.settings["max_tokens"]
        if lengths.min() < 1 or lengths.max() > most:
            wrong = lengths.min() if lengths.min() < 1 else lengths.max()
            raise ValueError(f"a prompt has {wrong} tokens, but the model takes 1 to {most}")
        # a multiple of 16, padded at the end: few shapes to compile; -1: no token
        ids = np.zeros((len(prompts), -(-int(lengths.max()) // 16) * 16), dtype="int32")
        positions = np.full_like(ids, -1)
        for number, row in enumerate(prompts):
            ids[number, : len(row)] = row
            positions[number, : len(row)] = np.arange(len(row))
        cache = Cache(len(ids), self.cache_shapes)
        written: list[list[int]] = [[] for _ in prompts]
        is_done, last = np.zeros(len(ids), dtype=bool), lengths - 1
        while True:
            logits = self._read(ids, positions, lengths, cache)[np.arange(len(ids)), last]
            logits[:, self.settings["never_written"]] = -np.inf
            tokens = logits.argmax(axis=-1).astype("int32")
            is_done |= [len(row) >= longest for row in written]
            is_done |= tokens == (-1 if self.settings["eos_token_id"] is None else self.settings["eos_token_id"])
            for row, token, stops in zip(written, tokens.tolist(), is_done, strict=True):
                row += [] if stops else [token]
            # the token that was written last need not be read
            steps = np.array([len(row) for row in written], dtype="int32")
            is_done |= (steps >= longest) | (lengths + steps > most)
            if is_done.all():
                return written
            ids, last = tokens[:, None], np.zeros(len(tokens), dtype="int32")
            # what is done reads padding
            positions = np.where(is_done, -1, lengths + steps - 1).astype("int32")[:, None]

    def _read(self, ids: Array, positions: Array, lengths: Array, cache: Cache) -> Array:
        """Return the logits (B, T, V) of the next tokens `ids` (B, T), which the cache then holds."""
        prefix = [lengths[:, None]] if self.reads_prefix else []
        cache.grow(ids.shape[1])
        logits, *new = self.step.predict_on_batch([ids, positions, cache.positions, *prefix, *cache.parts])
        cache.add(positions, new)
        return np.array(logits)


class Cache:
    """Hold the keys and values (B, heads, P, width) of what was read, and the positions (B, P); -1: no token."""

    def __init__(self, rows: int, shapes: Sequence[tuple[int, int]]) -> None:
        self.length = 0
        self.positions = np.full((rows, STEPS), -1, dtype="int32")
        self.parts: list[Array] = [np.zeros((rows, heads, STEPS, width), "float32") for heads, width in shapes]

    def grow(self, count: int) -> None:
        """Make place for `count` more tokens."""
        while self.length + count > self.positions.shape[1]:
            self.positions = np.concatenate((self.positions, np.full_like(self.positions, -1)), axis=1)
            self.parts = [np.concatenate((part, np.zeros_like(part)), axis=2) for part in self.parts]

    def add(self, positions: Array, new: Sequence[Array]) -> None:
        """Hold what was read at `positions` (B, T), too."""
        both = slice(self.length, self.length + positions.shape[1])
        self.positions[:, both] = positions
        for part, value in zip(self.parts, new, strict=True):
            part[:, :, both] = value
        self.length = both.stop


def main() -> None:
    """Write each argument on to standard output, or what standard input holds, without its last line break."""
    arguments = [os.fsencode(one) for one in sys.argv[1:]] or [sys.stdin.buffer.read().removesuffix(b"\n")]
    for text in Generator().generate([one.decode("utf-8") for one in arguments]):
        sys.stdout.buffer.write(f"{text}\n".encode())


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:  # a prompt that is too long, or no UTF-8
        sys.exit(f"generate.py: {error}")
