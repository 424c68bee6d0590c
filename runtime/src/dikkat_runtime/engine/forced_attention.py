"""Compute the cross-attention of a translator over a given target in one pass over numpy arrays, exact in float32."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dikkat_runtime.engine.contract import Engine, Steps
from dikkat_runtime.engine.hypotheses import Memory, TokenScores, require_finite
from dikkat_runtime.engine.position_tables import SINUSOIDAL
from dikkat_runtime.engine.products import linear, sigmoid, softmax
from dikkat_runtime.engine.settings import IMPORTED, STACK, Allowed, ModelSettings
from dikkat_runtime.engine.stack import Block, KeyValueCache, Linear, Norm, Stack, causal_mask, split_heads
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, source_ids

_OF_READERS = ("first_norm", "relative_bias", "relative_span", "relative_range", "embedding_dim", "output_transform")
FORCED: Allowed = {
    **STACK,
    **{name: IMPORTED[name] for name in _OF_READERS},
    "positions": (*SINUSOIDAL, "learned"),
    "score": ("scaled_dot", "dot"),
    "embedding_norm": (False,),
    "decoder_memory": ("attention", "ssru"),
    "add_source_eos": (True, False),
}
"""The settings of models that this pass computes."""


class ForcedAttention:
    """A forward pass over a source and a given target that returns the cross-attention of every target token."""

    def __init__(self, weights: Weights, settings: ModelSettings) -> None:
        self._encoder = Stack(weights, settings, "encoder", settings.encoder_layers, settings.source_matrix)
        self._decoder = _Decoder(weights, settings)
        self._where = weights.where
        self._add_source_eos = settings.add_source_eos
        self._forced = () if settings.target_prefix is None else (settings.target_prefix,)

    def __call__(self, source: Sequence[int], target: Sequence[int]) -> Array:
        """Return weights (L, H, T, S) of each of T target tokens over S source tokens; ids without marks, none empty.

        The row of a token is that of the step which wrote it. The weight on the end mark of the source is left out.
        """
        sources = np.array([source_ids(source, self._add_source_eos)])
        everything = np.ones((1, 1, 1, sources.shape[1]), bool)
        self._decoder.read(self._encoder(sources, everything), everything)
        fed = [BOS_ID, *self._forced, *target[:-1]]
        self._decoder(np.array([fed]), causal_mask(len(fed), len(fed)))
        first = len(self._forced)
        weights = np.stack([block.weights[0, :, first:, : len(source)] for block in self._decoder.cross_blocks])
        return require_finite(weights, self._where)

    def contexts(self, source: Sequence[int], target: Sequence[int]) -> Array:
        """Output (T, D) of the last layer's cross-attention for each of T target tokens; ids as for a call.

        The row of a token is what the step which wrote it read from the source, before the residual sum.
        """
        self(source, target)
        output: Array = self._decoder.cross_blocks[-1].context[0, len(self._forced) :]
        return require_finite(output, self._where)


class _Decoder(Stack):
    """A decoder with cross-attention over a source that was encoded before."""

    def __init__(self, weights: Weights, settings: ModelSettings) -> None:
        super().__init__(weights, settings, "decoder", 0, settings.target_matrix, settings.output_size)
        kind = _RecurrentBlock if settings.decoder_memory == "ssru" else _CrossBlock
        self.cross_blocks = [
            kind(weights, f"decoder.blocks.{number}", settings) for number in range(settings.decoder_layers)
        ]
        self.blocks = list[Block](self.cross_blocks)

    def read(self, memory: Array, mask: Array) -> None:
        """Attend to these states (1, S, D) from now on."""
        for block in self.cross_blocks:
            block.memory, block.mask = memory, mask


class _CrossBlock(Block):
    """A block with cross-attention between its two parts; it keeps weights and output of its last call."""

    memory: Array
    mask: Array
    weights: Array
    """(1, H, T, S)."""
    context: Array
    """(1, T, D), the output."""

    def __init__(self, weights: Weights, name: str, settings: ModelSettings) -> None:
        super().__init__(weights, name, settings)
        joined, width = self.splits[0], settings.model_dim
        rows = 2 * (self.splits[1] - joined) + joined
        self.cross_in = Linear(weights, f"{name}.cross_attention.in_projection", rows, width)
        self.cross_out = Linear(weights, f"{name}.cross_attention.out_projection", width, joined)
        self.cross_norm = Norm(weights, f"{name}.cross_residual.norm", settings)

    def between(self, x: Array) -> Array:
        """Return the residual sum (1, T, D) of `x` (1, T, D) and its cross-attention over the source."""
        if self.settings.norm_placement == "post":
            return self.cross_norm(x + self._attend_source(x))
        return x + self._attend_source(self.cross_norm(x))

    def _attend_source(self, x: Array) -> Array:
        settings = self.settings
        query = split_heads(np.split(self.cross_in(x), self.splits, axis=-1)[0], settings.num_heads)
        _, key, value = np.split(self.cross_in(self.memory), self.splits, axis=-1)
        key, value = split_heads(key, settings.num_kv_heads), split_heads(value, settings.num_kv_heads)
        if settings.num_kv_heads != settings.num_heads:
            group = settings.num_heads // settings.num_kv_heads
            key, value = key.repeat(group, axis=1), value.repeat(group, axis=1)
        scores = query @ key.swapaxes(2, 3) * np.float32(settings.inverse_temperature)
        self.weights = softmax(np.where(self.mask, scores, np.float32(-np.inf)))
        # (1, H, T, K) -> (1, T, H * K)
        self.context = self.cross_out((self.weights @ value).swapaxes(1, 2).reshape(*x.shape[:2], -1))
        return self.context


class _RecurrentBlock(_CrossBlock):
    """A block whose first part is a recurrent unit (Kim et al. 2019, section 3.1) in place of self-attention."""

    def _read_first(self, weights: Weights, name: str) -> None:
        # one layer, as the engine reads it, which may have opened these weights before
        self._recurrence = weights.recurrent(f"{name}.recurrence", self.settings.model_dim)

    def _first(
        self, x: Array, mask: Array, angles: tuple[Array, Array] | None, cache: KeyValueCache | None, layer: int
    ) -> Array:
        """Return max(c_t, 0) with c_t = f_t c_(t-1) + (1 - f_t) W x_t and f_t = sigmoid(W_f x_t + b_f)."""
        content, forget = np.split(linear(self._recurrence, x, self._threads), 2, axis=-1)
        forget = sigmoid(forget)
        states = (1 - forget) * content
        for position in range(1, x.shape[1]):
            states[:, position] += forget[:, position] * states[:, position - 1]
        return np.asarray(np.maximum(states, 0))


# Score given translations with a translator: the probability and the attention of every token.


_PROJECTED = 256
"""Tokens whose logits are in memory at once."""
_UNLISTED = -100.0
"""Nats from the likeliest word to those that are not listed: in float32 their probability is 0."""


@dataclass(frozen=True, slots=True)
class ForcedScores(TokenScores):
    """The scores of T target tokens, the end mark included, over S source tokens."""

    attention: Array
    """(T, S): cross-attention of the last layer, the mean of its heads; rows sum to one."""


@dataclass(frozen=True, slots=True)
class ForcedStep:
    """One step over targets that are read side by side; R of them have a token at this position."""

    position: int
    targets: Sequence[int]
    """(R,) numbers of these targets."""
    tokens: Array
    """(R,) their tokens here; the last of a target is the end mark."""
    logits: Array
    """(R, V), or (R, 0) where no logits are computed."""
    steps: Steps

    @property
    def normalizers(self) -> tuple[Array, Array]:
        """The largest logit of each row, and the logarithm of the sum of exp(logit - largest); (R, 1) each."""
        return self.steps.log_normalizers(self.logits)


def forced_steps(
    engine: Engine, memory: Memory, targets: Sequence[Sequence[int]], *, scored: bool = True
) -> Iterator[ForcedStep]:
    """Write the target of each source in `memory` (ids without end marks), and yield every step.

    It has logits if `scored`. Of a target that is longer than `Steps.limit` only the beginning is written.
    """
    steps = engine.steps(memory, 1)
    wanted = [[*target, EOS_ID][: steps.limit] for target in targets]
    rows = list(range(len(targets)))
    tokens = [BOS_ID] * len(rows)
    position = 0
    while rows:
        logits = steps.step(tokens, scored=scored)
        chosen = np.array([wanted[row][position] for row in rows])
        yield ForcedStep(position, rows, chosen, logits, steps)
        position += 1
        staying = [index for index, row in enumerate(rows) if position < len(wanted[row])]
        tokens = [wanted[rows[index]][position - 1] for index in staying]
        rows = [rows[index] for index in staying]
        steps.continue_from(staying, rows)


def forced_scores(
    engine: Engine, memory: Memory, targets: Sequence[Sequence[int]], *, scored: bool = True
) -> list[ForcedScores]:
    """Score the target of each source in `memory` (ids without end marks), all side by side.

    Tokens beyond `Steps.limit`, which the model cannot write, have the probability 0, and so have all where only the
    attention is asked for, not `scored`: most of the time goes to the words of the vocabulary. Where `memory` lists the
    words of each translation, a token is scored as by a search, among these alone, whether it is one of them or not.
    """
    scores = [np.tile((-np.inf, -np.inf, 0.0), (len(target) + 1, 1)) for target in targets]
    maps = [np.zeros((len(own) + 1, length)) for own, length in zip(targets, memory.lengths, strict=True)]
    states: list[Array] = []
    tokens: list[tuple[int, int, int]] = []
    for step in forced_steps(engine, memory, targets, scored=False):
        attention = step.steps.attention()
        states.append(step.steps.states())
        for row, (number, token) in enumerate(zip(step.targets, step.tokens.tolist(), strict=True)):
            maps[number][step.position] = attention[row, : memory.lengths[number]]
            tokens.append((number, step.position, token))
    # the output matrix is read once for the tokens of many steps
    every, steps = np.concatenate(states), step.steps
    for start in range(0, len(tokens) if scored else 0, _PROJECTED):
        some = tokens[start : start + _PROJECTED]
        logits = steps.project(every[start : start + _PROJECTED])
        if memory.words is not None:
            for row, (number, _, token) in zip(logits, some, strict=True):
                listed = np.append(memory.words[number], token)
                kept = row[listed]
                row.fill(kept.max() + _UNLISTED)
                row[listed] = kept
        for (number, position, _), own in zip(some, steps.token_scores(logits, np.array(some)[:, 2]), strict=True):
            scores[number][position] = own
    return [ForcedScores(*own) for own in zip(targets, scores, memory.lengths, maps, strict=True)]
