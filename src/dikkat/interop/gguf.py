"""GGUF, the file of llama.cpp: its typed metadata, its blocks of few bits, and its tokenizer, as Hugging Face has them.

What is read is described by the names of Hugging Face, so that the tables of families serve both.
"""

import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dikkat.interop.checkpoint_folder import Checkpoint, ForeignSettings
from dikkat_runtime.errors import DataError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.text.foreign_json import require_regular, shown
from dikkat_runtime.text.pieces import LLAMA_PIECE, QWEN_PIECE

SUFFIX = ".gguf"
_MAGIC = b"GGUF"
_MAX_COUNT = 1 << 24
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class _Stored:
    shape: tuple[int, ...]
    kind: int
    offset: int


class GgufFile:
    """Read metadata and table of tensors of a file. Raises `DataError` for a damaged one."""

    def __init__(self, path: Path) -> None:
        require_regular(path)
        self.path = path
        self.values: dict[str, Any] = {}
        self.tensors: dict[str, _Stored] = {}
        self._data = np.memmap(path, np.uint8, mode="r")
        self._at = 0
        try:
            self._read()
        except (struct.error, UnicodeDecodeError, ValueError, KeyError, ArithmeticError, TypeError) as error:
            raise DataError("{path}: not a readable GGUF file ({error})", path, shown(str(error))) from None

    def _read(self) -> None:
        if self._bytes(4) != _MAGIC or self._number("I") not in (2, 3):
            raise ValueError("no magic number of version 2 or 3")
        count, pairs = self._number("Q"), self._number("Q")
        if max(count, pairs) > _MAX_COUNT:
            raise ValueError("more tensors than any model has")
        for _ in range(pairs):
            name = self._string()
            self.values[name] = self._value(self._number("I"))
        for _ in range(count):
            name, rank = self._string(), self._number("I")
            if rank > 4:
                raise ValueError(f"a tensor of {rank} dimensions")
            # the innermost dimension is written first
            shape = tuple(self._number("Q") for _ in range(rank))[::-1]
            self.tensors[name] = _Stored(shape, self._number("I"), self._number("Q"))
        alignment = self.values.get("general.alignment", 32)
        self._start = -(-self._at // alignment) * alignment

    def _bytes(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise ValueError("it ends too early")
        self._at += count
        return self._data[self._at - count : self._at].tobytes()

    def _number(self, code: str) -> Any:
        (value,) = struct.unpack(f"<{code}", self._bytes(struct.calcsize(f"<{code}")))
        return value

    def _string(self) -> str:
        return self._bytes(self._number("Q")).decode()

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._number(_SCALARS[kind])
        inner, count = self._number("I"), self._number("Q")
        if count > _MAX_COUNT:
            raise ValueError("a list longer than any vocabulary")
        return [self._value(inner) for _ in range(count)]

    def tensor(self, name: str) -> Tensor:
        """Return the numbers of a tensor in float32. Raises `DataError` for a kind of blocks that is not read."""
        stored = self.tensors[name]
        kind = _KINDS.get(stored.kind)
        if kind is None:
            raise DataError(
                "{path}: {name} is quantised in a way that is not supported (number {kind}); known: {known}"
            ).fill(self.path, shown(name), stored.kind, ", ".join(known.name for known in _KINDS.values()))
        numbers = math.prod(stored.shape)
        start, size = self._start + stored.offset, numbers // kind.numbers * kind.bytes
        if numbers % kind.numbers or start + size > len(self._data):
            raise DataError("{path}: {name} reaches beyond the file; download it again", self.path, shown(name))
        blocks = self._data[start : start + size].reshape(-1, kind.bytes)
        return torch.from_numpy(np.array(kind.read(blocks), np.float32).reshape(stored.shape))


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    numbers: int
    bytes: int
    read: Callable[[Array], Array]


def _halves(blocks: Array, start: int) -> Array:
    return np.ascontiguousarray(blocks[:, start : start + 2]).view(np.float16).astype(np.float32)


def _nibbles(packed: Array) -> Array:
    """Return the low halves of the bytes, then the high ones."""
    return np.concatenate((packed & 15, packed >> 4), axis=-1)


def _bfloat16(blocks: Array) -> Array:
    return (np.ascontiguousarray(blocks).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def _q4_k(blocks: Array) -> Array:
    """Read 8 parts of 32 numbers, each with a scale and a least number in six bits."""
    packed = blocks[:, 4:16]
    low, middle, high = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate((low & 63, (high & 15) | ((low >> 6) << 4)), axis=1)
    least = np.concatenate((middle & 63, (high >> 4) | ((middle >> 6) << 4)), axis=1)
    # (N, 4, 32) -> (N, 4, 64) -> (N, 8, 32)
    numbers = _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    scaled = (_halves(blocks, 0) * scales)[..., None] * numbers
    return np.asarray(scaled - (_halves(blocks, 2) * least)[..., None])


def _q6_k(blocks: Array) -> Array:
    """Read 16 parts of 16 numbers of six bits, each with a scale of eight."""
    low, high = blocks[:, :128].reshape(-1, 2, 1, 64), blocks[:, 128:192].reshape(-1, 2, 1, 32)
    scales = blocks[:, 192:208].view(np.int8).astype(np.float32).reshape(-1, 16, 1)
    low = (low >> np.array([0, 4], np.uint8).reshape(1, 1, 2, 1)) & 15
    high = (high >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)) & 3
    numbers = (low.reshape(-1, 16, 16) | (high.reshape(-1, 16, 16) << 4)).astype(np.int8) - 32
    return np.asarray(_halves(blocks, 208)[:, None] * scales * numbers)


_KINDS = {
    0: _Kind("F32", 1, 4, lambda blocks: np.ascontiguousarray(blocks).view(np.float32)),
    1: _Kind("F16", 1, 2, lambda blocks: np.ascontiguousarray(blocks).view(np.float16)),
    30: _Kind("BF16", 1, 2, _bfloat16),
    8: _Kind("Q8_0", 32, 34, lambda blocks: _halves(blocks, 0) * blocks[:, 2:].view(np.int8)),
    2: _Kind("Q4_0", 32, 18, lambda blocks: _halves(blocks, 0) * (_nibbles(blocks[:, 2:]).astype(np.int8) - 8)),
    3: _Kind("Q4_1", 32, 20, lambda blocks: _halves(blocks, 0) * _nibbles(blocks[:, 4:]) + _halves(blocks, 2)),
    12: _Kind("Q4_K", 256, 144, _q4_k),
    14: _Kind("Q6_K", 256, 210, _q6_k),
}

# The names of Hugging Face.

_NAMES = {
    "token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head", "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
_SETTINGS = {
    "hidden_size": "embedding_length", "num_hidden_layers": "block_count", "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count", "num_key_value_heads": "attention.head_count_kv",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon", "rope_theta": "rope.freq_base",
    "max_position_embeddings": "context_length", "head_dim": "attention.key_length",
}  # fmt: skip
ARCHITECTURES = ("llama", "qwen2", "qwen3")


def gguf_settings(file: GgufFile) -> ForeignSettings:
    """Return the settings of a file by the names of Hugging Face. Raises `DataError` for an architecture not read."""
    kind = file.values.get("general.architecture")
    if kind not in ARCHITECTURES:
        raise DataError("{path}: the architecture {kind} of GGUF is not supported; known: {known}").fill(
            file.path, shown(repr(kind)), ", ".join(ARCHITECTURES)
        )
    if file.values.get(f"{kind}.rope.scaling.type", "none") != "none" or "rope_freqs.weight" in file.tensors:
        raise DataError(
            "{path}: a scaling of rotary positions is not supported in GGUF; name the folder instead", file.path
        )
    values = {name: file.values[f"{kind}.{own}"] for name, own in _SETTINGS.items() if f"{kind}.{own}" in file.values}
    size = len(file.values.get("tokenizer.ggml.tokens", ()))
    own = {"model_type": kind, "vocab_size": size, "tie_word_embeddings": "output.weight" not in file.tensors}
    values["chat_template"] = file.values.get("tokenizer.chat_template")
    for name in ("bos", "eos"):
        if (token := file.values.get(f"tokenizer.ggml.{name}_token_id")) is not None:
            values[f"{name}_token"] = file.values["tokenizer.ggml.tokens"][token]
    return ForeignSettings(file.path, {**values, **own})


@dataclass(frozen=True, slots=True)
class GgufCheckpoint(Checkpoint):
    """Hold the weights of a file by the names of Hugging Face."""

    file: GgufFile
    heads: Mapping[str, int]
    """Heads whose rows the converter put in pairs, by the names of their weights there."""

    def _opened(self) -> dict[Path, Any]:
        return {self.path: self}

    def get_tensor(self, own: str) -> Tensor:
        """Return the numbers of a tensor, in the order of rows of Hugging Face."""
        tensor = self.file.tensor(own)
        if (heads := self.heads.get(own)) is None:
            return tensor
        # (N * K, D) -> (N, K / 2, 2, D) -> (N, 2, K / 2, D)
        pairs = tensor.view(heads, len(tensor) // heads // 2, 2, *tensor.shape[1:])
        return pairs.transpose(1, 2).reshape(tensor.shape)


def gguf_checkpoint(file: GgufFile, theirs: ForeignSettings) -> GgufCheckpoint:
    """Return the weights of a file, without values. Raises `DataError` for a tensor whose name is not known."""
    weights, stored, heads = {}, {}, {}
    for own, tensor in file.tensors.items():
        number = re.match(r"blk\.(\d+)\.", own)
        module, _, parameter = own.removeprefix(number.group() if number else "").rpartition(".")
        if module not in _NAMES:
            raise DataError("{where}: this model has no weight {name}{more}", file.path, shown(own), "")
        name = f"{f'layers.{number.group(1)}.' if number else ''}{_NAMES[module]}.{parameter}"
        weights[name] = torch.empty(tensor.shape, device="meta")
        stored[name] = (file.path, own)
        if theirs.values["model_type"] == "llama" and module in ("attn_q", "attn_k"):
            heads[own] = theirs.number("num_attention_heads" if module == "attn_q" else "num_key_value_heads")
    return GgufCheckpoint(file.path, weights, (), stored, file, heads)


# The tokenizer.

_PATTERNS = {"llama-bpe": LLAMA_PIECE, "qwen2": QWEN_PIECE}
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4


def gguf_tokenizer(file: GgufFile) -> bytes:
    """Return the tokenizer of a file as a tokenizer.json. Raises `DataError` for one that is not read."""
    kind, tokens = file.values.get("tokenizer.ggml.model"), file.values.get("tokenizer.ggml.tokens", [])
    kinds = file.values.get("tokenizer.ggml.token_type", [1] * len(tokens))
    model: dict[str, Any] = {"type": "BPE", "vocab": {token: number for number, token in enumerate(tokens)}}
    if kind == "gpt2":
        model["merges"] = [merge.split(" ") for merge in file.values.get("tokenizer.ggml.merges", [])]
        own = _byte_level(file)
    elif kind == "llama":
        scores = file.values.get("tokenizer.ggml.scores", [0.0] * len(tokens))
        model |= {"merges": _merges(tokens, scores, kinds), "byte_fallback": True, "fuse_unk": True}
        model["unk_token"] = tokens[file.values.get("tokenizer.ggml.unknown_token_id", 0)]
        own = _spaced(file)
    else:
        raise DataError(
            "{path}: the tokenizer {kind} of GGUF is not supported; known: gpt2, llama", file.path, shown(repr(kind))
        )
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": number, "content": token, **flags, "special": kinds[number] != _USER_DEFINED}
        for number, token in enumerate(tokens)
        if kinds[number] in (_CONTROL, _USER_DEFINED, _UNKNOWN)
    ]
    return json.dumps({"version": "1.0", "added_tokens": added, **own, "model": model}).encode()


def _byte_level(file: GgufFile) -> dict[str, Any]:
    name = file.values.get("tokenizer.ggml.pre", "default")
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    if name in _PATTERNS:
        split = {"type": "Split", "pattern": {"Regex": _PATTERNS[name]}, "behavior": "Isolated", "invert": False}
        parts = [split, {**level, "use_regex": False}]
    elif name in ("smollm", "default", "gpt-2"):
        parts = [{"type": "Digits", "individual_digits": True}, level] if name == "smollm" else [level]
    else:
        raise DataError("{path}: the pre-tokenizer {name} of GGUF is not supported; known: {known}").fill(
            file.path, shown(repr(name)), ", ".join(("default", "gpt-2", "smollm", *_PATTERNS))
        )
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": parts}, "decoder": level}


def _spaced(file: GgufFile) -> dict[str, Any]:
    """Return the components of SentencePiece: words begin with a mark, and bytes write what has no entry."""
    replaced = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    first = [{"type": "Prepend", "prepend": "▁"}] if file.values.get("tokenizer.ggml.add_space_prefix", True) else []
    decoders = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        *([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if first else []),
    ]  # fmt: skip
    return {
        "normalizer": {"type": "Sequence", "normalizers": [*first, replaced]},
        "decoder": {"type": "Sequence", "decoders": decoders},
    }


def _merges(tokens: Sequence[str], scores: Sequence[float], kinds: Sequence[int]) -> list[list[str]]:
    """Return the merges that make each piece, those of the better pieces first, as SentencePiece applies them."""
    known = {token: number for number, token in enumerate(tokens) if kinds[number] == _NORMAL}
    merges = [
        (-scores[number], known[token[:cut]], known[token[cut:]], token[:cut], token[cut:])
        for token, number in known.items()
        for cut in range(1, len(token))
        if token[:cut] in known and token[cut:] in known
    ]
    return [[first, second] for *_, first, second in sorted(merges)]
