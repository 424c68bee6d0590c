"""Run an exported translator by ONNX Runtime, to compare what it computes with the run it was made of."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dikkat.interop.text_parity import ClassifyingProgram
from dikkat_runtime.engine.native_texts import padded
from dikkat_runtime.errors import msg
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID, source_ids

ENCODER, DECODER = "onnx/encoder_model.onnx", "onnx/decoder_model_merged.onnx"
"""Files of a folder, as transformers.js looks for them."""
_ROWS = 64
"""Sentences of a batch."""
Arrays = dict[str, Array]


class OnnxTranslator:
    """Translate greedily with the graphs of a folder, by ids as our tokenizers give them."""

    def __init__(self, folder: Path, *, add_source_eos: bool = True) -> None:
        self._add_source_eos = add_source_eos
        self.program = runtime_name()
        self._encoder, self._decoder = (opened(folder / name) for name in (ENCODER, DECODER))

    def logits_and_maps(self, source: Sequence[int], target: Sequence[int]) -> tuple[Tensor, Tensor]:
        outputs = self._step([BOS_ID, *target], self._encoded([source]), None)
        maps = [outputs[name] for name in outputs if name.startswith("cross_attentions.")]
        return torch.from_numpy(outputs["logits"][0]), torch.from_numpy(np.concatenate(maps))

    def greedy(self, sources: Sequence[Sequence[int]], longest: int) -> list[list[int]]:
        batches = (sources[start : start + _ROWS] for start in range(0, len(sources), _ROWS))
        return [row for batch in batches for row in self._batch(batch, longest)]

    def _batch(self, sources: Sequence[Sequence[int]], longest: int) -> list[list[int]]:
        memory = self._encoded(sources)
        rows: list[list[int]] = [[] for _ in sources]
        tokens, is_done, cache = np.full(len(rows), BOS_ID), np.zeros(len(rows), dtype=bool), None
        while not is_done.all() and len(rows[0]) < longest:
            outputs = self._step(tokens, memory, cache)
            tokens = outputs["logits"][:, -1].argmax(axis=-1)
            is_done |= tokens == EOS_ID
            for row, token in zip(rows, tokens.tolist(), strict=True):
                row.append(token)
            cache = {name: array for name, array in outputs.items() if name.startswith("present.")}
        return [row[: row.index(EOS_ID)] if EOS_ID in row else row for row in rows]

    def _encoded(self, sources: Sequence[Sequence[int]]) -> Arrays:
        ids, mask = padded([source_ids(row, self._add_source_eos) for row in sources])
        feeds = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
        memory = self._encoder.run(["last_hidden_state"], feeds)[0]
        return {"encoder_hidden_states": memory, "encoder_attention_mask": feeds["attention_mask"]}

    def _step(self, tokens: Sequence[int] | Array, memory: Arrays, cache: Arrays | None) -> Arrays:
        """Return all outputs for the next tokens of each sentence, after a cache of `present` or none."""
        rows = len(memory["encoder_attention_mask"])
        feeds = {**memory, "input_ids": np.array(tokens, dtype=np.int64).reshape(rows, -1)}
        return run_step(self._decoder, feeds, cache)


def runtime_name() -> str:
    # only where it is installed
    import onnxruntime

    return msg("ONNX Runtime {version}", onnxruntime.__version__)


def opened(path: Path) -> Any:
    """Return a session of ONNX Runtime, with the threads of PyTorch."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run_step(session: Any, feeds: Arrays, cache: Arrays | None) -> Arrays:
    """Return all outputs of a decoder for `feeds`, after the `present` of outputs before, or none."""
    feeds, rows = dict(feeds), len(feeds["input_ids"])
    for declared in session.get_inputs():
        if declared.name.startswith("past_key_values."):
            name = declared.name.replace("past_key_values", "present")
            sizes = [size if isinstance(size, int) else 0 for size in declared.shape[1:]]
            feeds[declared.name] = cache[name] if cache else np.zeros((rows, *sizes), dtype=np.float32)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


# Run an exported classifier or language model by ONNX Runtime, to compare what it computes with its run.

MODEL = "onnx/model.onnx"
"""File of a folder, as transformers.js looks for it."""


class OnnxClassifier(ClassifyingProgram):
    """Classify with the graph of a folder, by ids as the network reads them."""

    def __init__(self, folder: Path) -> None:
        self.program = runtime_name()
        self._session = opened(folder / MODEL)

    def computed(self, name: str, ids: Array, mask: Array) -> Array:
        values: Array = self._session.run([name], {"input_ids": ids, "attention_mask": mask.astype(np.int64)})[0]
        return values


class OnnxWriter:
    """Continue texts with the graph of a folder, by ids, greedily and with its cache."""

    def __init__(self, folder: Path) -> None:
        self.program = runtime_name()
        self._session = opened(folder / MODEL)

    def write(self, prompts: Sequence[Sequence[int]], longest: int) -> list[tuple[list[int], Tensor]]:
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
