"""Run an exported folder by Keras, to compare what it computes with the run it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import torch
from torch import Tensor

from dikkat.interop.keras_export.generate import Generator
from dikkat.interop.keras_export.translate import ROWS, Translator
from dikkat.interop.text_parity import ClassifyingProgram
from dikkat_runtime.engine.native_texts import padded
from dikkat_runtime.errors import msg
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID


class KerasClassifier(ClassifyingProgram):
    """Classify with the model of a folder, by ids as the network reads them."""

    def __init__(self, folder: Path) -> None:
        self.program = _name()
        self._model = keras.models.load_model(folder / "model.keras")

    def computed(self, name: str, ids: Array, mask: Array) -> Array:
        """Return the output `name` for a batch of ids (B, S), whose padding the model knows by itself."""
        values: Array = keras.ops.convert_to_numpy(self._model({"input_ids": ids.astype("int32")})[name])
        return values


class KerasWriter:
    """Continue texts with the model of a folder, by ids, greedily: text with its cache, logits of the whole model."""

    def __init__(self, folder: Path) -> None:
        self.program = _name()
        self._generator = Generator(folder)

    def write(self, prompts: Sequence[Sequence[int]], longest: int) -> list[tuple[list[int], Tensor]]:
        written = self._generator.greedy(prompts, longest)
        rows = [[*prompt, *ids] for prompt, ids in zip(prompts, written, strict=True)]
        inputs = {"input_ids": padded(rows)[0].astype("int32")}
        if self._generator.reads_prefix:
            inputs["prefix_lengths"] = np.array([[len(prompt)] for prompt in prompts], dtype="int32")
        logits = torch.from_numpy(keras.ops.convert_to_numpy(self._generator.model(inputs)["logits"]))
        return [(ids, own[: len(row)]) for ids, own, row in zip(written, logits, rows, strict=True)]


class KerasTranslator:
    """Translate greedily with the model of a folder, by ids as our tokenizers give them."""

    def __init__(self, folder: Path) -> None:
        self.program = _name()
        self._translator = Translator(folder)

    def logits_and_maps(self, source: Sequence[int], target: Sequence[int]) -> tuple[Tensor, Tensor]:
        ids = {"source_ids": [[*source, EOS_ID]], "target_ids": [[BOS_ID, *target]]}
        outputs = self._translator.model({name: np.array(rows, dtype="int32") for name, rows in ids.items()})
        logits, maps = (keras.ops.convert_to_numpy(outputs[name])[0] for name in ("logits", "cross_attentions"))
        return torch.from_numpy(logits), torch.from_numpy(maps)

    def greedy(self, sources: Sequence[Sequence[int]], longest: int) -> list[list[int]]:
        rows: list[list[int]] = []
        for start in range(0, len(sources), ROWS):
            written, _ = self._translator.greedy([[*row, EOS_ID] for row in sources[start : start + ROWS]], longest)
            rows += written.tolist()
        return [row[: row.index(EOS_ID)] if EOS_ID in row else row for row in rows]


def _name() -> str:
    return msg("Keras {version} on {backend}", keras.__version__, keras.backend.backend())
