"""Translate lines of text with the `model.keras` next to this file, by Keras 3 on TensorFlow, JAX or PyTorch.

    KERAS_BACKEND=jax python translate.py < source.txt

In Python: `Translator().translate(["..."])`. Needs the packages keras, numpy and tokenizers, and a backend.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import keras
import numpy as np
from tokenizers import Tokenizer

ROWS = 64
"""Sentences of a batch."""
STEPS = 32
"""Tokens that a cache holds at first; it doubles. Few lengths are few shapes to compile."""
Array = Any


class Translator:
    """Translate by greedy search, with a cache of the tokens so far."""

    def __init__(self, folder: str | Path = Path(__file__).parent) -> None:
        folder = Path(folder)
        self.settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.source, self.target = (
            Tokenizer.from_file(str(folder / self.settings[f"{side}_tokenizer"])) for side in ("source", "target")
        )
        self.source.encode_special_tokens = True  # "<eos>" in a text is text
        self.model: Any = keras.models.load_model(folder / "model.keras")
        value = {layer.name: layer.output for layer in self.model.layers}
        numbers = range(self.settings["decoder_layers"])
        memory, cache, new = (
            [value[f"{kind}_{part}_{number}"] for number in numbers for part in ("keys", "values")]
            for kind in ("memory", "cache", "new")
        )
        source, maps = value["source_ids"], self.model.output["cross_attentions"]
        self.encoder = keras.Model([source], memory)
        positions = [value["target_ids"], value["target_positions"], value["cache_positions"]]
        self.decoder = keras.Model([source, *positions, *memory, *cache], [self.model.output["logits"], maps, *new])

    def translate(self, texts: Sequence[str], longest: int | None = None) -> list[tuple[str, Array]]:
        """Return the translation of each text and its cross-attention (layers, heads, target tokens, source tokens).

        The tokens of the target are those written and, where it was, the end mark. A blank text stays blank.
        """
        if self.settings["dotted_lower_case"]:
            # lower case of the language, which tokenizer.json does not know
            texts = [unicodedata.normalize("NFC", text).replace("İ", "i").replace("I", "ı").lower() for text in texts]
        bos, eos = self.settings["bos_token_id"], self.settings["eos_token_id"]
        sources = [one.ids for one in self.source.encode_batch(list(texts))]
        results: list[tuple[str, Array]] = [("", None)] * len(texts)
        filled = [number for number, text in enumerate(texts) if text.strip()]
        for start in range(0, len(filled), ROWS):
            rows = filled[start : start + ROWS]
            written, maps = self.greedy([sources[row] for row in rows], longest)
            for row, tokens, weights in zip(rows, written, maps, strict=True):
                words = list(takewhile(lambda token: token != eos, tokens))
                text = self.target.decode([token for token in words if token != bos], skip_special_tokens=False)
                results[row] = text, weights[:, :, : len(words) + (len(words) < len(tokens)), : len(sources[row])]
        return results

    def greedy(self, sources: Sequence[Sequence[int]], longest: int | None = None) -> tuple[Array, Array]:
        """Return the ids (B, T) that follow each source, which ends in an end mark, and weights (B, L, H, T, S).

        `longest` is the most tokens to write, the end mark included. Raises `ValueError` for a source that is too long.
        """
        longest = self.settings["max_length"] if longest is None else longest
        length, most = max(map(len, sources)), self.settings["max_source_length"]
        if most is not None and length > most:
            raise ValueError(f"a text has {length} tokens, but the model takes {most}: cut it into sentences")
        # a multiple of 16, padded at the end: few shapes to compile
        length = -(-length // 16) * 16 if most is None else min(most, -(-length // 16) * 16)
        pad, bos, eos = (self.settings[f"{name}_token_id"] for name in ("pad", "bos", "eos"))
        ids = np.full((len(sources), length), pad, dtype="int32")
        for row, source in zip(ids, sources, strict=True):
            row[: len(source)] = source
        memory = self.encoder.predict_on_batch([ids])
        keys: list[Array] = [np.zeros((*part.shape[:2], STEPS, part.shape[3]), part.dtype) for part in memory]
        # -1: no token yet
        positions = np.full((len(ids), STEPS), -1, dtype="int32")
        tokens, is_done = np.full(len(ids), bos, dtype="int32"), np.zeros(len(ids), dtype=bool)
        written, maps = [], []
        for step in range(longest):
            if step == positions.shape[1]:
                positions = np.concatenate((positions, np.full_like(positions, -1)), axis=1)
                keys = [np.concatenate((part, np.zeros_like(part)), axis=2) for part in keys]
            logits, weights, *new = self.decoder.predict_on_batch(
                [ids, tokens[:, None], np.full((len(ids), 1), step, dtype="int32"), positions, *memory, *keys]
            )
            positions[:, step] = step
            for part, value in zip(keys, new, strict=True):
                part[:, :, step] = value[:, :, 0]
            logits[:, :, [pad, bos]] = -np.inf  # never written
            tokens = logits[:, 0].argmax(axis=-1).astype("int32")
            written.append(tokens)
            maps.append(weights)
            is_done |= tokens == eos
            if is_done.all():
                break
        return np.stack(written, axis=1), np.concatenate(maps, axis=3)


def main() -> None:
    """Translate the lines of standard input to standard output."""
    lines = sys.stdin.buffer.read().decode("utf-8").split("\n")
    last = lines.pop()  # empty after the last line break
    ends = ["\n"] * len(lines)
    if last:
        lines, ends = [*lines, last], [*ends, ""]
    translator = Translator()
    for start in range(0, len(lines), ROWS):
        rows = slice(start, start + ROWS)
        for (text, _), end in zip(translator.translate(lines[rows]), ends[rows], strict=True):
            sys.stdout.buffer.write((text + end).encode("utf-8"))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:  # a text that is too long, or no UTF-8
        sys.exit(f"translate.py: {error}")
