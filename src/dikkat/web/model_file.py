"""Write a trained model as one file for the browser engine: a header in JSON, then the numbers of every tensor.

`engine/model_file.js` reads it. All numbers are little-endian; a tensor begins at a multiple of 4 bytes.
"""

import ctypes
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dikkat.run_directory.tensor_files import quantize_rows
from dikkat_runtime.engine.options import Precision
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.native.cpu import available_threads
from dikkat_runtime.native.library import Grouped, library

FORMAT = 4
_ALIGNMENT = 8
_NEVER_IN_BYTES = ("positions.embedding", "word_table.", "comparison.bias.embedding")
"""Tensors that stay in float32: few numbers, or too few a row for one scale a row to make them smaller."""
KEPT_OF_TOKENIZER = ("normalizer", "pre_tokenizer", "decoder")
_KEPT_OF_VOCABULARY = (
    "type", "vocab", "merges", "byte_fallback", "ignore_merges", "unk_token", "continuing_subword_prefix",
    "max_input_chars_per_word",
)  # fmt: skip


@dataclass(frozen=True)
class WebModel:
    """Hold what the browser engine needs of one model."""

    task: str
    """"translator", "classifier", "tagger", "regressor" or "lm"."""
    name: str
    """Shown as the name of the model."""
    settings: Mapping[str, Any]
    """Fields of `ModelSettings`."""
    arrays: Mapping[str, Array]
    """Float32 weights by their names, and hashes, which are of unsigned 64-bit."""
    embeddings: Collection[str]
    """Names of the matrices that embed tokens."""
    tokenizers: Mapping[str, Any]
    """JSON of the tokenizers of "source" and "target"; the target's is None where both sides share one."""
    precision: Precision
    languages: tuple[str, str] = ("", "")
    """Languages of source and target."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What a kind of model adds to the header."""

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(array.size for array in self.arrays.values())

    def encode(self) -> bytes:
        tensors: dict[str, dict[str, Any]] = {}
        payload = bytearray()
        for name in sorted(self.arrays):
            tensors[name] = self._tensor(name, payload)
        header = {
            "format": FORMAT,
            "task": self.task,
            "name": self.name,
            "precision": self.precision,
            "sourceLanguage": self.languages[0],
            "targetLanguage": self.languages[1],
            "model": self.settings,
            "tokenizers": {side: _compact(tokenizer) for side, tokenizer in self.tokenizers.items()},
            **self.details,
            "tensors": tensors,
        }
        text = json.dumps(header, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()
        text += b" " * (-(4 + len(text)) % _ALIGNMENT)
        return len(text).to_bytes(4, "little") + text + bytes(payload)

    def _tensor(self, name: str, payload: bytearray) -> dict[str, Any]:
        """Append one tensor to the payload, and return its entry in the header."""
        array = self.arrays[name]
        entry: dict[str, Any] = {"shape": list(array.shape)}
        if array.dtype == np.uint64:
            return entry | {"type": "uint64", "offset": _append(payload, array.astype("<u8"))}
        if self.precision == "float32" or array.ndim != 2 or any(part in name for part in _NEVER_IN_BYTES):
            return entry | {"type": "float32", "offset": _append(payload, array.astype("<f4"))}
        is_output = name == "output_weight"
        if self.task == "lm":
            # as the native engine, which keeps eight bits for the output matrix and embeddings
            bits = 4 if self.precision == "int4" and not is_output and name not in self.embeddings else 8
            return entry | {"type": "grouped", "bits": bits, "offset": _append(payload, grouped_panels(array, bits))}
        quantized = quantize_rows(array)
        entry |= {"type": "int8", "offset": _append(payload, quantized.steps)}
        entry["scale"] = _append(payload, quantized.scale.astype("<f4"))
        if name in self.embeddings:
            entry["fine"] = _append(payload, quantized.fine)
        return entry


def grouped_panels(matrix: Array, bits: int) -> Array:
    """Return `matrix` (outputs, inputs) in groups of 32 inputs as the core reads them, of `bits` a weight.

    They are (panels of 16 outputs, groups, 1 + bits, 16) words: scale and offset of each output in bfloat16, then fours
    of weights. The C kernels pack the same words in panels of as many outputs as their vectors hold.
    """
    outputs, inputs = matrix.shape
    groups, size = -(-inputs // 32), 1 + bits
    weights = Weights({}, "", in_bytes=False, threads=available_threads())
    layer, one = weights.grouped(matrix, None, bits), Grouped(None, None, 1, 1, bits)
    length, panel = (library()[0].grouped_bytes(ctypes.byref(packed)) for packed in (layer, one))
    words = np.frombuffer(ctypes.string_at(layer.weight, length), "<u4")
    # (panels, G, W, parts of 16 outputs, 16) -> (panels, parts, G, W, 16)
    parts = words.reshape(-1, groups, size, panel // (64 * size), 16).transpose(0, 3, 1, 2, 4)
    return parts.reshape(-1, groups, size, 16)[: -(-outputs // 16)]


def _append(payload: bytearray, array: Array) -> int:
    offset = len(payload)
    payload += np.ascontiguousarray(array).tobytes()
    payload += b"\0" * (-len(payload) % _ALIGNMENT)
    return offset


def _compact(tokenizer: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Keep what the engine reads of a tokenizer.json."""
    if tokenizer is None:
        return None
    model = {name: tokenizer["model"][name] for name in _KEPT_OF_VOCABULARY if name in tokenizer["model"]}
    names = (*KEPT_OF_TOKENIZER, "added_tokens")
    return {name: tokenizer[name] for name in names if name in tokenizer} | {"model": model}
