"""The native engines of classifiers and language models: stacks of blocks over the C kernels."""

from collections.abc import MutableMapping, Sequence
from typing import Literal

import numpy as np

from dikkat_runtime.engine.contract import EngineInfo, Rows
from dikkat_runtime.engine.hypotheses import Memory, require_finite
from dikkat_runtime.engine.native import EncoderKernel, computes_encoder
from dikkat_runtime.engine.options import Precision, log_normalizers
from dikkat_runtime.engine.products import activated, linear, softmax
from dikkat_runtime.engine.settings import ModelSettings
from dikkat_runtime.engine.stack import KeyValueCache, Linear, Norm, Stack, causal_mask
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.native.cpu import available_threads
from dikkat_runtime.native.library import library

Objective = Literal["causal", "masked", "prefix"]
Pooling = Literal["mean", "first", "attention", "max"]
MAX_LOGITS = 1 << 22
"""Most logits that are in memory at once where all tokens of a text are scored."""


class NativeStack:
    """The common part of the engines of texts: one stack of blocks, and the weights that it reads."""

    def __init__(
        self, settings: ModelSettings, arrays: MutableMapping[str, Array], where: str,
        stack: Literal["encoder", "decoder"], embedding: str, precision: Precision, threads: int | None,
        segments: int = 0,
    ) -> None:  # fmt: skip
        """Take over `arrays` by their names; `where` is their file, for messages. Raises as `NativeEngine`.

        Texts are of the first of so many `segments`, or of none.
        """
        threads = available_threads() if threads is None else threads
        self.info = EngineInfo("native", precision, threads, library()[1])
        # a language model has a few activations far larger than the rest, which groups keep from all others
        bits = 4 if precision == "int4" else 8 if precision == "int8" and stack == "decoder" else 0
        self.weights = Weights(arrays, where, precision == "int8", threads, bits)
        layers = settings.encoder_layers if stack == "encoder" else settings.decoder_layers
        segment = self.weights.array("segment_embedding", segments, settings.embedding_width)[0] if segments else None
        self.stack = own = Stack(self.weights, settings, stack, layers, embedding, segment=segment)
        self.kernel: EncoderKernel | None = None
        """What encodes in place of the blocks of the stack, where it computes all of these."""
        if stack == "encoder" and computes_encoder(settings, bits):
            self.kernel = EncoderKernel(
                settings, self.weights, own.embedding, float(own.scale), own.positions, own.angles, own.segment
            )
            if precision == "float32":
                self.kernel.split()
        self.width = settings.model_dim
        """D, the entries of a vector."""

    def hidden(self, rows: Rows) -> Memory:
        if self.kernel is not None:
            return Memory(self.kernel.run(rows), tuple(map(len, rows)))
        tokens, mask = padded(rows)
        return Memory(self.stack(tokens, mask[:, None, None, :]), tuple(map(len, rows)))


class NativeClassifier(NativeStack):
    """The native engine of a classifier: encoder, pooling and output layer."""

    def __init__(
        self, settings: ModelSettings, arrays: MutableMapping[str, Array], where: str, *, pooling: Pooling,
        outputs: int, is_binary: bool = False, per_token: bool = False, transform: str | None = None,
        transform_norm: bool = False, precision: Precision = "float32", threads: int | None = None,
    ) -> None:  # fmt: skip
        """A layer with the non-linearity `transform`, and with a norm, may stand between pooling and output.

        Where it is `per_token`, each id has logits of its own.

        Raises as `NativeStack`.
        """
        super().__init__(settings, arrays, where, "encoder", "embedding.weight", precision, threads)
        self.pooling, self._per_token = pooling, per_token
        width = settings.model_dim
        self._is_binary, outputs = is_binary, 1 if is_binary else outputs
        self._output = Linear(self.weights, "output", outputs, width)
        self._activation = transform
        self._dense = None if transform is None else Linear(self.weights, "transform.dense", width, width)
        self._norm = Norm(self.weights, "transform.norm", settings) if transform_norm else None
        self._query = self.weights.array("pooling.query", settings.model_dim) if pooling == "attention" else None
        self.weights.check_all_used()

    def pool(self, memory: Memory) -> Array:
        """Return one vector (B, D) a text, pooled in the way of the classifier."""
        return require_finite(self._pooled(memory), self.weights.where)

    def _pooled(self, memory: Memory) -> Array:
        if self._query is None:
            return pooled_by(memory, self.pooling)
        states, mask = memory.states, length_mask(memory)
        scores = states @ self._query * np.float32(states.shape[-1] ** -0.5)
        shares = softmax(np.where(mask, scores, np.float32(-np.inf)))
        # (B, 1, S) x (B, S, D) -> (B, D)
        return np.asarray((shares[:, None, :] @ states)[:, 0])

    def _transformed(self, pooled: Array) -> Array:
        if self._dense is None or self._activation is None:
            return pooled
        x = _after(self._activation, self._dense(pooled), self.info.threads)
        return x if self._norm is None else self._norm(x)

    def _shown_states(self, rows: Rows, shown: Array) -> Memory:
        tokens, mask = padded(rows)
        mask &= shown
        states = self.stack(tokens, mask[:, None, None, :])
        # what is shown moves to the front, since a text is pooled by its length
        states = np.take_along_axis(states, np.argsort(~mask, axis=1, kind="stable")[..., None], axis=1)
        return Memory(states, tuple(mask.sum(axis=1).tolist()))

    def logits(self, rows: Rows, shown: Array | None = None) -> Array:
        if self._per_token:
            return require_finite(self._output(self._transformed(self.hidden(rows).states)), self.weights.where)
        if self.kernel is not None and self.pooling == "mean" and shown is None:
            vectors = self.kernel.run(rows, pools=True)
        else:
            vectors = self.pool(self.hidden(rows) if shown is None else self._shown_states(rows, shown))
        logits = self._output(self._transformed(vectors))
        require_finite(logits, self.weights.where)
        return np.pad(logits, ((0, 0), (1, 0))) if self._is_binary else logits


class NativeEncoder(NativeStack):
    """The native engine of an imported sentence encoder, pooled as its makers did."""

    def __init__(
        self, settings: ModelSettings, arrays: MutableMapping[str, Array], where: str, *, segments: int,
        pooling: str, has_pooler: bool, normalize: bool, dense: Sequence[tuple[int, str]] = (),
        precision: Precision = "float32", threads: int | None = None,
    ) -> None:  # fmt: skip
        """A text is of the first of `segments` kinds; its vector is divided by its length where they `normalize`.

        The `pooling` is a name of `pooled_by` or "pooler", and layers of the widths and non-linearities `dense` follow.

        Raises as `NativeStack`.
        """
        super().__init__(settings, arrays, where, "encoder", "embedding.weight", precision, threads, segments)
        self._pooling, self._normalizes, width = pooling, normalize, settings.model_dim
        self._pooler = Linear(self.weights, "pooler.dense", width, width) if has_pooler else None
        widths = [width, *(outputs for outputs, _ in dense)]
        self._dense = [
            (Linear(self.weights, f"dense.{number}.dense", outputs, widths[number]), activation)
            for number, (outputs, activation) in enumerate(dense)
        ]
        self.width = widths[-1]
        self.weights.check_all_used()

    def pool(self, memory: Memory) -> Array:
        """Return one vector (B, D) a text."""
        vectors = pooled_by(memory, "first" if self._pooling == "pooler" else self._pooling)
        if self._pooling == "pooler" and self._pooler is not None:
            vectors = np.tanh(self._pooler(vectors))
        for layer, activation in self._dense:
            vectors = _after(activation, layer(vectors), self.info.threads)
        if self._normalizes:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        return require_finite(vectors, self.weights.where)


class NativeLanguageModel(NativeStack):
    """The native engine of a language model: embedding, blocks and output matrix."""

    def __init__(
        self, settings: ModelSettings, arrays: MutableMapping[str, Array], where: str, *,
        objective: Objective = "causal", precision: Precision = "float32", threads: int | None = None,
    ) -> None:  # fmt: skip
        embedding = "output_weight" if settings.tie_embeddings else "embedding.weight"
        super().__init__(settings, arrays, where, "decoder", embedding, precision, threads)
        self.objective = objective
        # the tokens of a prefix look at those after them
        self.reads_ahead = objective == "causal"
        for block in self.stack.blocks:
            if block.distances is not None:
                block.distances.is_causal = objective == "causal"
        self._dense, self._norm, width = None, None, settings.model_dim
        if settings.output_transform is not None:
            width = settings.embedding_width
            self._dense = Linear(self.weights, "output_transform.dense", width, settings.model_dim)
            self._norm = Norm(self.weights, "output_transform.norm", settings, width)
        bias = self.weights.array("output_bias", settings.vocab_size) if self.weights.has("output_bias") else None
        # four bits of the output matrix cost more perplexity than those of all blocks
        self._output = self.weights.output(self.weights.table("output_weight", settings.vocab_size, width), bias)
        self.weights.check_all_used()

    def hidden(self, rows: Rows) -> Memory:
        """Return the state of every id; a causal model's state depends on no later id."""
        tokens, mask = padded(rows)
        seen = mask[:, None, None, :]
        if self.objective == "causal":
            seen = seen & causal_mask(tokens.shape[1], tokens.shape[1])
        return Memory(self.stack(tokens, seen), tuple(map(len, rows)))

    def pool(self, memory: Memory) -> Array:
        return require_finite(pooled_by(memory, "mean"), self.weights.where)

    def nats(self, windows: Array, skipped: Sequence[int]) -> float:
        length = windows.shape[1] - 1
        states = self.stack(windows[:, :-1], causal_mask(length, length))
        fresh = np.arange(length) >= np.array(skipped)[:, None]
        states, wanted, total = states[fresh], windows[:, 1:][fresh], 0.0
        some = max(1, MAX_LOGITS // self._output.outputs)
        for start in range(0, len(wanted), some):
            logits = self._logits(states[start : start + some])
            largest, log_sums = log_normalizers(logits, self.info.threads)
            right = np.take_along_axis(logits, wanted[start : start + some, None], axis=1)
            total += float((largest + log_sums - right).sum(dtype=np.float64))
        return total

    def start_cache(self) -> KeyValueCache:
        return KeyValueCache()

    def next_logits(self, tokens: Array, cache: KeyValueCache, count: int = 1) -> Array:
        """Return logits (R, V) of the token after `tokens` (R, T), which stand after the positions in the cache.

        Of one row they are those (count, V) after each of the last ones.
        The tokens of one call to a "prefix" model are a prefix, each token of which attends to all others.
        """
        length, total = tokens.shape[1], cache.length + tokens.shape[1]
        mask = np.ones((1, 1, 1, total), bool) if self.objective == "prefix" else causal_mask(length, total)
        return self._logits(self.stack(tokens, mask, cache)[:, -count:].reshape(-1, self.width))

    def _logits(self, states: Array) -> Array:
        """Return logits (N, V) of states (N, D)."""
        if self._dense is not None and self._norm is not None:
            activation = self.stack.settings.output_transform or ""
            states = self._norm(_after(activation, self._dense(states), self.info.threads))
        logits = linear(self._output, states, self.info.threads)
        if (cap := self.stack.settings.logit_softcap) is not None:
            logits = np.tanh(logits / np.float32(cap)) * np.float32(cap)
        return require_finite(logits, self.weights.where)


def padded(rows: Sequence[Sequence[int] | Array]) -> tuple[Array, Array]:
    """Return ids (B, S) with zeros after each row, and the mask that is True at real ones."""
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max()) < lengths[:, None]
    tokens = np.zeros(mask.shape, np.int64)
    tokens[mask] = np.concatenate([np.asarray(row, np.int64) for row in rows])
    return tokens, mask


def length_mask(memory: Memory) -> Array:
    """Return a mask (B, S) that is True at real positions."""
    return np.asarray(np.arange(memory.states.shape[1]) < np.array(memory.lengths)[:, None])


def pooled_by(memory: Memory, way: str) -> Array:
    """Return one vector (B, D) a text from its states at real positions.

    It is the first state, the last, the largest numbers, or a sum: the mean, one over the square root of the length, or
    one that counts position n n times.
    """
    mask = length_mask(memory)
    if way == "first":
        return np.asarray(memory.states[:, 0])
    if way == "max":
        return np.asarray(np.where(mask[..., None], memory.states, np.float32(-np.inf)).max(axis=1))
    count = mask.sum(axis=1, keepdims=True)
    order = np.arange(1, mask.shape[1] + 1)
    shares = {
        "mean": mask / count,
        "mean_sqrt_length": mask / np.sqrt(count),
        "weighted_mean": mask * order * 2 / (count * (count + 1)),
        "last": order == count,
    }[way]
    # (B, 1, S) x (B, S, D) -> (B, D)
    return np.asarray((shares.astype(np.float32)[:, None, :] @ memory.states)[:, 0])


def _after(activation: str, x: Array, threads: int) -> Array:
    """Return what follows the outputs `x` of a layer of a head."""
    if activation in ("tanh", "identity"):
        return np.tanh(x) if activation == "tanh" else x
    return activated(activation, x, threads)
