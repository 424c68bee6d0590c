"""Small translators as Marian writes them, by numpy alone, and what Marian computes with them, in float64.

The formulas are those of src/models/transformer.h, src/layers/generic.h (the norm), src/rnn/cells.h (SSRU) and
src/tensors/cpu/tensor_operators.cpp (sines) in marian-dev. Matrices are inputs x outputs, vectors (1, D).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.unit.interop.translators import phrases, sentencepiece_model

Array = NDArray[np.float64]
Options = dict[str, str]

DIM, HEADS, HIDDEN, LAYERS, PIECES = 32, 4, 48, 2, 300
POST_NORM: Options = {
    "dec-cell": "ssru", "dec-depth": str(LAYERS), "dim-emb": str(DIM), "dim-vocabs": "\n  - 300\n  - 300",
    "enc-depth": str(LAYERS), "input-types": "[]", "layer-normalization": "false", "lemma-dim-emb": "0",
    "output-omit-bias": "false", "right-left": "false", "skip": "false", "tied-embeddings": "false",
    "tied-embeddings-all": "true", "tied-embeddings-src": "false", "transformer-decoder-autoreg": "self-attention",
    "transformer-dim-ffn": str(HIDDEN), "transformer-ffn-activation": "swish", "transformer-ffn-depth": "2",
    "transformer-heads": str(HEADS), "transformer-no-projection": "false", "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d", "transformer-postprocess-top": '""', "transformer-preprocess": '""',
    "transformer-tied-layers": "\n  []", "transformer-train-position-embeddings": "false", "type": "transformer",
    "ulr": "false", "version": "v1.12.0",
}  # fmt: skip
"""Options as they stand in a file of Marian, of a Transformer as in the paper."""
RECURRENT = {"transformer-decoder-autoreg": "rnn", "transformer-ffn-activation": "relu"}
SEPARATE = {"tied-embeddings-all": "false", "tied-embeddings": "true"}
UNTIED = {"tied-embeddings-all": "false", "tied-embeddings": "false"}


def marian_weights(options: Options, seed: int = 1, spread: float = 0.3) -> dict[str, NDArray[np.float32]]:
    """Random weights of that standard deviation by Marian's names; the end mark is probable, so that outputs end."""
    draw = np.random.default_rng(seed)
    weights: dict[str, NDArray[np.float32]] = {}

    def matrix(name: str, inputs: int, outputs: int, bias: str = "") -> None:
        weights[name] = draw.normal(0, spread, (inputs, outputs)).astype(np.float32)
        if bias:
            weights[bias] = draw.normal(0, 0.1, (1, outputs)).astype(np.float32)

    def norm(name: str) -> None:
        weights[f"{name}_ln_scale"] = draw.normal(1, 0.2, (1, DIM)).astype(np.float32)
        weights[f"{name}_ln_bias"] = draw.normal(0, 0.2, (1, DIM)).astype(np.float32)

    shared = options["tied-embeddings-all"] == "true"
    for name in ("Wemb",) if shared else ("encoder_Wemb", "decoder_Wemb"):
        matrix(name, PIECES, DIM)
    if options["tied-embeddings-all"] == options["tied-embeddings"] == "false":
        matrix("decoder_ff_logit_out_Wt", PIECES, DIM)
    weights["decoder_ff_logit_out_b"] = draw.normal(0, 0.2, (1, PIECES)).astype(np.float32)
    weights["decoder_ff_logit_out_b"][0, :2] = (4, -30)
    recurrent = options["transformer-decoder-autoreg"] == "rnn"
    for stack, kinds in (("encoder", ("self",)), ("decoder", ("rnn" if recurrent else "self", "context"))):
        for layer in (f"{stack}_l{number}" for number in range(1, LAYERS + 1)):
            for kind in kinds:
                if kind == "rnn":
                    matrix(f"{layer}_rnn_W", DIM, DIM)
                    matrix(f"{layer}_rnn_Wf", DIM, DIM, f"{layer}_rnn_bf")
                    norm(f"{layer}_rnn_ffn")
                    continue
                for part in "qkvo":
                    matrix(f"{layer}_{kind}_W{part}", DIM, DIM, f"{layer}_{kind}_b{part}")
                norm(f"{layer}_{kind}_Wo")
            matrix(f"{layer}_ffn_W1", DIM, HIDDEN, f"{layer}_ffn_b1")
            matrix(f"{layer}_ffn_W2", HIDDEN, DIM, f"{layer}_ffn_b2")
            norm(f"{layer}_ffn_ffn")
    # as it is, the token written last would be the most probable one, since the output matrix is the embedding
    weights[f"decoder_l{LAYERS}_ffn_ffn_ln_scale"] *= -1
    return weights


def vocabularies(options: Options) -> tuple[str, str]:
    """The files of the vocabularies of the two sides."""
    return ("vocab.spm", "vocab.spm") if options["tied-embeddings-all"] == "true" else ("source.spm", "target.spm")


def marian_folder(
    folder: Path, options: Options, weights: Mapping[str, NDArray[np.float32]], decoder: str = "normalize: 1\n"
) -> Path:
    """A folder with model.npz, decoder.yml and vocabularies; `decoder` is the rest of decoder.yml."""
    folder.mkdir(parents=True)
    names = vocabularies(options)
    for name, texts in zip(names, phrases(), strict=True):
        if not (folder / name).exists():
            (folder / name).write_bytes(sentencepiece_model(texts, PIECES))
    listed = "".join(f"  - {name}\n" for name in names)
    (folder / "decoder.yml").write_text(f"relative-paths: true\nmodels:\n  - model.npz\nvocabs:\n{listed}{decoder}")
    arrays: dict[str, Any] = {**weights, "special:model.yml": np.frombuffer(_text(options), np.int8)}
    np.savez(folder / "model.npz", **arrays)
    return folder


def marian_binary(options: Options, weights: Mapping[str, NDArray[np.float32]], rounded: Collection[str]) -> bytes:
    """The same as one file, with the matrices `rounded` in eight bits; see src/common/binary.cpp in marian-dev."""
    entries = [("special:model.yml", 0x101, (len(_text(options)),), _text(options))]
    for name, array in weights.items():
        data, kind = array.tobytes(), 0x404
        if name in rounded:
            multiplier = np.float32(127 / np.abs(array).max())
            # Bergamot turns all matrices but embeddings, and keeps the sizes
            stored = array if "Wemb" in name else array.T
            data = np.round(stored * multiplier).astype(np.int8).tobytes() + multiplier.tobytes()
            kind = 0x4101
        entries.append((name, kind, array.shape, data))
    names = [name.encode() + b"\0" for name, *_ in entries]
    header = struct.pack("<QQ", 1, len(entries))
    for stored_name, (_, kind, shape, data) in zip(names, entries, strict=True):
        header += struct.pack("<QQQQ", len(stored_name), kind, len(shape), len(data))
    header += b"".join(names) + b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in entries)
    gap = -(len(header) + 8) % 256
    return header + struct.pack("<Q", gap) + bytes(gap) + b"".join(data for *_, data in entries)


def _text(options: Options) -> bytes:
    return "".join(f"{name}: {value}\n" for name, value in options.items()).encode() + b"\0"


class MarianFormulas:
    """Compute what Marian computes with these options and weights, sentence by sentence."""

    def __init__(self, options: Options, weights: Mapping[str, NDArray[np.float32]]) -> None:
        self.options = options
        self.weights = {name: array.astype(np.float64) for name, array in weights.items()}

    def log_probabilities(self, source: list[int], target: list[int]) -> Array:
        """(T, V) of each target position, where `source` ends with the end mark and `target` too."""
        weights = self.weights
        shared = weights.get("Wemb")
        sources = weights["encoder_Wemb"] if shared is None else shared
        targets = weights["decoder_Wemb"] if shared is None else shared
        outputs = weights.get("decoder_ff_logit_out_Wt", targets)
        memory = self._stack("encoder", sources[source], None)
        # the first input of the decoder is a vector of zeros
        shifted = np.concatenate((np.zeros((1, DIM)), targets[target[:-1]]))
        hidden = self._stack("decoder", shifted, memory)
        logits = hidden @ outputs.T + weights["decoder_ff_logit_out_b"]
        shifted_logits = logits - logits.max(-1, keepdims=True)
        return np.asarray(shifted_logits - np.log(np.exp(shifted_logits).sum(-1, keepdims=True)))

    def _stack(self, stack: str, embeddings: Array, memory: Array | None) -> Array:
        x = np.sqrt(DIM) * embeddings + _sines(len(embeddings))
        for layer in (f"{stack}_l{number}" for number in range(1, LAYERS + 1)):
            if memory is None:
                x = self._sub_layer(f"{layer}_self", x, None, causal=False)
            elif self.options["transformer-decoder-autoreg"] == "rnn":
                x = self._recurrence(f"{layer}_rnn", x)
            else:
                x = self._sub_layer(f"{layer}_self", x, None, causal=True)
            if memory is not None:
                x = self._sub_layer(f"{layer}_context", x, memory, causal=False)
            x = self._feed_forward(f"{layer}_ffn", x)
        return x

    def _sub_layer(self, name: str, x: Array, memory: Array | None, *, causal: bool) -> Array:
        keys = x if memory is None else memory
        query, key, value = (
            self._affine(inputs, f"{name}_W{part}", f"{name}_b{part}")
            .reshape(len(inputs), HEADS, DIM // HEADS)
            .swapaxes(0, 1)
            for inputs, part in ((x, "q"), (keys, "k"), (keys, "v"))
        )
        scores = query @ key.swapaxes(1, 2) / np.sqrt(DIM // HEADS)
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        joined = (shares / shares.sum(-1, keepdims=True) @ value).swapaxes(0, 1).reshape(len(x), DIM)
        return self._norm(f"{name}_Wo", x + self._affine(joined, f"{name}_Wo", f"{name}_bo"))

    def _recurrence(self, name: str, x: Array) -> Array:
        forget = _sigmoid(self._affine(x, f"{name}_Wf", f"{name}_bf"))
        fresh = x @ self.weights[f"{name}_W"]
        state, states = np.zeros(DIM), []
        for keep, new in zip(forget, fresh, strict=True):
            state = keep * state + (1 - keep) * new
            states.append(np.maximum(state, 0))
        return self._norm(f"{name}_ffn", x + np.stack(states))

    def _feed_forward(self, name: str, x: Array) -> Array:
        inner = self._affine(x, f"{name}_W1", f"{name}_b1")
        swish = self.options["transformer-ffn-activation"] == "swish"
        active = inner * _sigmoid(inner) if swish else np.maximum(inner, 0)
        return self._norm(f"{name}_ffn", x + self._affine(active, f"{name}_W2", f"{name}_b2"))

    def _norm(self, name: str, x: Array) -> Array:
        normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
        return np.asarray(normal * self.weights[f"{name}_ln_scale"] + self.weights[f"{name}_ln_bias"])

    def _affine(self, x: Array, matrix: str, bias: str) -> Array:
        return np.asarray(x @ self.weights[matrix] + self.weights[bias])


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _sines(length: int) -> Array:
    half = DIM // 2
    angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(half) / (half - 1))
    return np.concatenate((np.sin(angles), np.cos(angles)), axis=1)
