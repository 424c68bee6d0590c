"""The contract of an engine over the modules of a translator, as they are."""

from collections.abc import Sequence
from copy import copy
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.cache import CrossAttentionCache, DecoderCache
from dikkat.nn.masks import length_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.positions import LearnedPositions
from dikkat.nn.recorder import MapName, name_of, record_attention
from dikkat.torch_engine.ranking import top
from dikkat.torch_engine.stepper import CachedModel, pad_sources
from dikkat.torch_engine.strategies import batch_decoder
from dikkat_runtime.engine.contract import PLAIN_SEARCH, EngineInfo, SearchRequest
from dikkat_runtime.engine.hypotheses import Hypothesis, Memory, Sentence, not_finite, require_finite
from dikkat_runtime.engine.neighbours import Neighbours, NeighboursOfBatch
from dikkat_runtime.engine.options import DecodingOptions, SamplingOptions
from dikkat_runtime.engine.stepwise import stepwise_search
from dikkat_runtime.errors import DataError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run.parts import WEIGHTS
from dikkat_runtime.special_tokens import BOS_ID, source_ids

# Single steps of a model in PyTorch, for the search under constraints that all engines share.


class TorchSteps:
    """Feeds every row one token at a time; all sources have equally many rows."""

    def __init__(
        self,
        model: CachedModel[Any],
        attending: EncoderDecoder,
        memory: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B S"],
        beam_size: int,
        neighbours: Sequence[Neighbours | None] = (),
        where: str = WEIGHTS,
    ) -> None:
        """`beam_size` rows for each source of `memory`; `mask` is True at real positions.

        Each source has its `neighbours`, which make the tokens that followed like states likelier.

        `attending` is the module of `model`, whose attention is read; `where` is the file of its weights, for messages.
        """
        self._model, self._beam_size, self._where = model, beam_size, where
        self._cache = model.start_cache(memory, mask, rows_per_sentence=beam_size)
        self.forced = int(self._cache.length)
        """The number of tokens that every target begins with, which were fed before."""
        self._owners = list(range(len(memory)))
        self._device = memory.device
        self._start = model, memory, mask
        self._attending = attending
        names = (_cross_attention(path, part) for path, part in attending.named_modules())
        self._last = max(filter(None, names), key=lambda name: name.layer)
        self._looked_at: Array = np.empty((0, 0))
        self._states: Array = np.empty((0, 0))
        self._neighbours = NeighboursOfBatch.of(neighbours)
        self._single: DecoderCache | None = None
        """Of one row, to which `rewind` goes back."""

    @property
    def limit(self) -> int | None:
        """Most tokens that a row can be fed: as many as there are learned positions, else without end."""
        positions = self._attending.positions_of_target
        return positions.max_positions - self.forced if isinstance(positions, LearnedPositions) else None

    @property
    def length(self) -> int:
        return int(self._cache.length) - self.forced

    @torch.inference_mode()
    def step(self, tokens: Sequence[int], *, scored: bool = True) -> Array:
        ids = torch.tensor(list(tokens), device=self._device)
        with record_attention(self._attending, self._last.__eq__) as recorded:
            states = self._attending.step_states(ids, self._cache)
            logits = self._projected(states) if scored else np.empty((len(ids), 0), np.float32)
        # (B, H, rows, S) -> (R, S)
        (weights,) = next(iter(recorded.values()))
        self._looked_at = weights.mean(dim=1).flatten(0, 1).cpu().numpy()
        self._states = states.float().cpu().numpy()
        if self._neighbours is not None and scored:
            owners = [owner for owner in self._owners for _ in range(self._beam_size)]
            self._neighbours.add_to(logits, self._states, owners)
        return logits

    def attention(self) -> Array:
        """Return the last layer's cross-attention of the last step, (R, S), as the mean of its heads."""
        return self._looked_at

    def states(self) -> Array:
        return self._states

    def _projected(self, states: Float[Tensor, "N D"]) -> Array:
        return np.array(in_range(self._attending.project(states), self._where).float().cpu().numpy())

    @torch.inference_mode()
    def project(self, states: Array) -> Array:
        own = torch.from_numpy(np.ascontiguousarray(states)).to(self._device, self._attending.output_weight.dtype)
        return self._projected(own)

    @torch.inference_mode()
    def continue_from(self, parents: Sequence[int], owners: Sequence[int]) -> None:
        if self._cache is self._single:
            self._cache = _forked(self._single, len(parents))
            self._beam_size = len(parents)
            return
        staying = [owner for owner, _ in groupby(owners)]
        number_of = {owner: number for number, owner in enumerate(self._owners)}
        kept = [number_of[owner] for owner in staying]
        if kept != list(range(len(self._owners))):
            self._cache.drop(torch.tensor(kept, dtype=torch.int64, device=self._device))
        new_start = {owner: number * self._beam_size for number, owner in enumerate(staying)}
        # a parent's number among the rows of its own source stays
        rows = [
            new_start[owner] + parent - number_of[owner] * self._beam_size
            for parent, owner in zip(parents, owners, strict=True)
        ]
        if rows:
            self._cache.reorder(torch.tensor(rows, dtype=torch.int64, device=self._device))
        self._owners = staying

    @torch.inference_mode()
    def rewind(self, length: int) -> None:
        if self._single is None:
            model, memory, mask = self._start
            self._single = model.start_cache(memory, mask)
        for layer in self._single.layers:
            layer.length = length + self.forced
        self._cache, self._owners, self._beam_size = self._single, [0], 1

    def finish(self, sentences: Sequence[Sentence], penalties: Array, n_best: int, early_stop_rank: int) -> None:
        """Leave the search to single steps, which every module and hook sees."""

    def top(self, values: Array, k: int) -> tuple[Array, Array]:
        largest, indices = top(torch.from_numpy(np.ascontiguousarray(values)), k)
        return largest.numpy(), indices.numpy()

    def log_normalizers(self, logits: Array) -> tuple[Array, Array]:
        largest = logits.max(axis=1, keepdims=True)
        return largest, np.log(np.exp(logits - largest).sum(axis=1, keepdims=True))

    def token_scores(self, logits: Array, tokens: Array) -> Array:
        rows = np.arange(len(tokens))
        scores = logits - np.add(*self.log_normalizers(logits))
        others = scores.copy()
        others[rows, tokens] = -np.inf
        own, entropies = scores[rows, tokens], -(np.exp(scores) * scores).sum(axis=1)
        return np.stack([own, own - others.max(axis=1), entropies], axis=1)


def in_range(logits: Float[Tensor, "R V"], where: str) -> Float[Tensor, "R V"]:
    """Return logits as they are. Raises `DataError` where they are not finite; `where` is the file of the weights.

    On a GPU only those of float16 are looked at, since it would have to be waited for.
    """
    is_half = logits.dtype == torch.float16
    # the largest of numbers is not finite where one of them is infinite or not a number
    if (is_half or logits.device.type == "cpu") and not bool(logits.amax().isfinite()):
        if not is_half:
            raise not_finite(where)
        precision = str(logits.dtype).removeprefix("torch.")
        raise DataError("{precision} is too narrow for the numbers of this model; use float32", precision)
    return logits


def _cross_attention(path: str, part: nn.Module) -> MapName | None:
    """The name of a module that looks at the source of a decoder."""
    name = name_of(path) if isinstance(part, MultiHeadAttention) else None
    return name if name and (name.stack, name.kind) == ("decoder", "cross") else None


def _forked(cache: DecoderCache, rows: int) -> DecoderCache:
    """A cache of so many rows, each of which goes on from the only row of `cache`, which stays as it is."""
    cross = [CrossAttentionCache(layer.key, layer.value) for layer in cache.cross_attention]
    forked = DecoderCache(cross, cache.mask, rows)
    forked.layers = [copy(layer) for layer in cache.layers]
    forked.reorder(torch.zeros(rows, dtype=torch.int64, device=cache.mask.device))
    return forked


# Compute what each target token reads from the source, with the modules of a translator.


class TorchContexts:
    """Hold a translator in evaluation mode, and give the output of its last cross-attention."""

    def __init__(self, model: EncoderDecoder) -> None:
        self._model = model.eval()

    @torch.inference_mode()
    def __call__(self, source: Sequence[int], target: Sequence[int]) -> Array:
        """Return (T, D) for the ids of a source and of a target, without marks and not empty.

        A row is what cross-attention of the last decoder layer adds in the step that writes the token.
        """
        outputs: list[Tensor] = []

        def keep(module: nn.Module, arguments: object, output: Tensor) -> None:
            outputs.append(output)

        device = self._model.output_weight.device
        last = self._model.decoder.blocks[-1].get_submodule("cross_attention")
        with last.register_forward_hook(keep):
            sources = torch.tensor([source_ids(source, self._model.add_source_eos)], device=device)
            read = torch.ones_like(sources, dtype=torch.bool)
            targets = torch.tensor([[BOS_ID, *target[:-1]]], device=device)
            self._model.decode(targets, self._model.encode(sources, read), read)
        # nobody asks what the prefix of every target reads
        return np.asarray(outputs[-1][0, self._model.forced :].float().cpu().numpy())


class TorchEngine:
    """Encodes and searches with a model in evaluation mode; hooks and observers of its modules see every step."""

    def __init__(self, model: EncoderDecoder, *, why_not_native: str = "", where: str = WEIGHTS) -> None:
        """`why_not_native` is shown where nobody asked for this engine; `where` names the weights in messages."""
        self.model, self._where = model.eval(), where
        name = "torch" if self.device.type == "cpu" else f"torch:{self.device.type}"
        self.info = EngineInfo(name, "float32", torch.get_num_threads(), why_not_native=why_not_native)

    @property
    def device(self) -> torch.device:
        """The device on which the model computes."""
        return self.model.output_weight.device

    @torch.inference_mode()
    def encode(self, sources: Sequence[Sequence[int]], *, threads: int | None = None) -> Memory:
        """Read sources (ids without an end mark, none empty); PyTorch decides on its threads by itself."""
        ids, mask = pad_sources(sources, self.device, add_eos=self.model.add_source_eos)
        # what stands at padding is never read
        states = (self.model.encode(ids, mask) * mask[..., None]).float().cpu().numpy()
        return Memory(require_finite(states, self._where), tuple(mask.sum(dim=1).tolist()))

    def search(
        self, memory: Memory, options: DecodingOptions, asked: SearchRequest = PLAIN_SEARCH
    ) -> list[list[Hypothesis]]:
        constraints, neighbours = asked.constraints, asked.neighbours
        has_neighbours = any(own is not None for own in neighbours) and not isinstance(options, SamplingOptions)
        if constraints is not None or has_neighbours:
            return stepwise_search(partial(self.steps, memory, neighbours=neighbours), memory, options, asked)
        states, mask = self._on_device(memory)
        numbers = range(len(memory.lengths)) if asked.numbers is None else asked.numbers
        # what decoding reads of the ids is their shape
        return batch_decoder(_EncodedModel(self.model, states, self._where), options)(mask.long(), mask, numbers)

    @torch.inference_mode()
    def steps(self, memory: Memory, beam_size: int, neighbours: Sequence[Neighbours | None] = ()) -> TorchSteps:
        states, mask = self._on_device(memory)
        model = _EncodedModel(self.model, states, self._where)
        return TorchSteps(model, self.model, states, mask, beam_size, neighbours, self._where)

    def _on_device(self, memory: Memory) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B S"]]:
        # numpy has no bfloat16, so that a memory is float32 whatever the model computes with
        states = torch.from_numpy(np.asarray(memory.states)).to(self.device, self.model.output_weight.dtype)
        return states, length_mask(torch.tensor(memory.lengths), states.shape[1]).to(self.device)


class _EncodedModel:
    """A model whose source is read already."""

    def __init__(self, model: EncoderDecoder, states: Float[Tensor, "B S D"], where: str) -> None:
        self._model, self._states, self._where = model, states, where

    def encode(self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        return self._states

    def start_cache(
        self, memory: Float[Tensor, "B S D"], source_mask: Bool[Tensor, "B S"], *, rows_per_sentence: int = 1
    ) -> DecoderCache:
        return self._model.start_cache(memory, source_mask, rows_per_sentence=rows_per_sentence)

    def step(self, tokens: Int[Tensor, "R"], cache: DecoderCache) -> Float[Tensor, "R V"]:
        return in_range(self._model.step(tokens, cache), self._where)
