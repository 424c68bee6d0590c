"""Write a trained model as one file for the browser engine: a header in JSON, then the numbers of every tensor.

`engine/model_file.js` reads it. All numbers are little-endian; a tensor begins at a multiple of 4 bytes.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dikkat.run_directory.tensor_files import FINE_STEPS, quantize_rows
from dikkat_runtime.engine.options import Precision
from dikkat_runtime.engine.weights import packed_groups
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.native.cpu import available_threads

FORMAT = 4
_ALIGNMENT = 8
_NEVER_IN_BYTES = ("positions.embedding", "ngram_table.embedding", "word_table.")
"""Tensors that stay in float32: few numbers, or too few a row for one scale a row to make them smaller."""
KEPT_OF_TOKENIZER = ("normalizer", "pre_tokenizer", "decoder")
_KEPT_OF_VOCABULARY = ("type", "vocab", "merges", "byte_fallback", "ignore_merges", "unk_token")


@dataclass(frozen=True)
class WebModel:
    """Hold what the browser engine needs of one model."""

    task: str
    """"translator", "classifier" or "lm"."""
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
        """Return the bytes of the model file."""
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
        if self.precision == "float32" or array.ndim != 2 or name.startswith(_NEVER_IN_BYTES):
            return entry | {"type": "float32", "offset": _append(payload, array.astype("<f4"))}
        is_output = name == "output_weight"
        if self.task == "lm" and (is_output or name not in self.embeddings):
            # as the native engine, which keeps eight bits for the output matrix
            bits = 4 if self.precision == "int4" and not is_output else 8
            panels = grouped_panels(array, bits)
            entry |= {"type": "grouped", "bits": bits, "offset": _append(payload, panels)}
            if name in self.embeddings:
                entry["fine"] = _append(payload, _left_of_groups(array, panels))
            return entry
        quantized = quantize_rows(array)
        entry |= {"type": "int8", "offset": _append(payload, quantized.steps)}
        entry["scale"] = _append(payload, quantized.scale.astype("<f4"))
        if name in self.embeddings:
            entry["fine"] = _append(payload, quantized.fine)
        return entry


def grouped_panels(matrix: Array, bits: int) -> Array:
    """Return `matrix` (outputs, inputs) in groups of 32 inputs as the core reads them, of `bits` a weight.

    They are (panels of 16 outputs, groups, 1 + bits, 16) words: scale and least of each output in bfloat16, then fours
    of weights. The C kernels pack the same words in panels of as many outputs as their vectors hold.
    """
    outputs, inputs = matrix.shape
    groups, size = -(-inputs // 32), 1 + bits
    _, one = packed_groups(matrix[:1, :1], None, bits, 1)
    _, packed = packed_groups(matrix, None, bits, available_threads())
    words = packed.view("<u4").reshape(-1, groups, size, one.nbytes // (64 * size), 16)
    # (panels, G, W, 16-output parts, 16) -> (panels, parts, G, W, 16)
    return np.ascontiguousarray(words.transpose(0, 3, 1, 2, 4)).reshape(-1, groups, size, 16)[: -(-outputs // 16)]


def _left_of_groups(matrix: Array, panels: Array) -> Array:
    """Return what groups of eight bits leave of each entry (outputs, inputs), in parts of a step of its group."""
    outputs, inputs = matrix.shape
    # (panels, G, 16) -> (panels * 16, G, 1)
    ends = panels[:, :, 0].transpose(0, 2, 1).reshape(-1, panels.shape[1], 1)[:outputs]
    scale, least = (ends << 16).view("<f4"), (ends & np.uint32(0xFFFF0000)).view("<f4")
    # (panels, G, 8, 16, 4) -> (panels * 16, G, 32)
    fours = np.ascontiguousarray(panels[:, :, 1:]).view(np.uint8).reshape(*panels.shape[:2], 8, 16, 4)
    steps = fours.transpose(0, 3, 1, 2, 4).reshape(-1, panels.shape[1], 32)[:outputs]
    whole = np.pad(matrix, ((0, 0), (0, 32 * panels.shape[1] - inputs))).reshape(steps.shape)
    left = np.divide(whole - least, scale, out=steps.astype(np.float32), where=scale > 0) - steps
    parts: Array = np.rint(left * FINE_STEPS).clip(-127, 127).astype(np.int8)
    return parts.reshape(outputs, -1)[:, :inputs]


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
