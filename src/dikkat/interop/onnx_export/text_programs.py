"""Run an exported classifier or language model by ONNX Runtime, to compare what it computes with its run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dikkat.interop.onnx_export.program import Arrays, opened, run_step, runtime_name
from dikkat.interop.text_parity import ClassifyingProgram
from dikkat_runtime.engine.native_texts import padded
from dikkat_runtime.special_tokens import PAD_ID
from dikkat_runtime.tasks.batches import length_batches

MODEL = "onnx/model.onnx"
"""File of a folder, as transformers.js looks for it."""
_ROWS, _TOKENS = 32, 8192
"""Texts of a batch, and tokens, padding included."""


class OnnxClassifier(ClassifyingProgram):
    """Classify with the graph of a folder, by ids as the network reads them."""

    def __init__(self, folder: Path) -> None:
        self.program = runtime_name()
        self._session = opened(folder / MODEL)

    def output(self, name: str, rows: Sequence[Sequence[int]]) -> list[Tensor]:
        """Return the output `name` of each row, computed in batches of like length."""
        answers: list[Any] = [None] * len(rows)
        for batch in length_batches([len(row) for row in rows], _ROWS, _TOKENS):
            ids, mask = padded([rows[number] for number in batch])
            feeds = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
            for number, values in zip(batch, self._session.run([name], feeds)[0], strict=True):
                answers[number] = torch.from_numpy(values)
        return answers


class OnnxWriter:
    """Write on with the graph of a folder, by ids, greedily and with its cache."""

    def __init__(self, folder: Path) -> None:
        self.program = runtime_name()
        self._session = opened(folder / MODEL)

    def write(self, prompts: Sequence[Sequence[int]], longest: int) -> list[tuple[list[int], Tensor]]:
        """Return the ids written greedily after each prompt, `longest` of them, and the logits (P + T, V)."""
        most = max(map(len, prompts))
        # padding stands before a text
        ids = np.array([[PAD_ID] * (most - len(prompt)) + list(prompt) for prompt in prompts])
        mask = np.array([[0] * (most - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        cache: Arrays | None = None
        written, logits = [], []
        for _ in range(longest):
            outputs = run_step(self._session, {"input_ids": ids, "attention_mask": mask}, cache)
            cache = {name: array for name, array in outputs.items() if name.startswith("present.")}
            logits.append(outputs["logits"])
            ids = outputs["logits"][:, -1:].argmax(axis=-1)
            written.append(ids)
            mask = np.concatenate((mask, np.ones_like(ids)), axis=1)
        rows = np.concatenate(written, axis=1).tolist()
        scores = torch.from_numpy(np.concatenate(logits, axis=1))
        return [(row, own[most - len(prompt) :]) for row, own, prompt in zip(rows, scores, prompts, strict=True)]
