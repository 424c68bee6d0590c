"""The contract of an engine over the modules of a translator, as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.cache import DecoderCache
from dikkat.nn.masks import length_mask
from dikkat.torch_engine.padding import pad_sources
from dikkat.torch_engine.steps import TorchSteps, in_range
from dikkat.torch_engine.strategies import batch_decoder
from dikkat_runtime.engine.constraints import Constraint, length_caps, rows_of_beam
from dikkat_runtime.engine.contract import EngineInfo, Hypothesis, Memory
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.engine.outputs import require_finite
from dikkat_runtime.engine.stepwise import stepwise_beam_search
from dikkat_runtime.run.parts import WEIGHTS


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
        self,
        memory: Memory,
        options: DecodingOptions,
        *,
        numbers: Sequence[int] | None = None,
        threads: int | None = None,
        constraints: Sequence[Constraint | None] | None = None,
        neighbours: Sequence[Neighbours | None] = (),
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first; see `Engine`."""
        has_neighbours = any(own is not None for own in neighbours) and not isinstance(options, SamplingOptions)
        if constraints is not None or has_neighbours:
            beam_size, n_best = (options.beam_size, options.n_best) if isinstance(options, BeamOptions) else (1, 1)
            beam_size = rows_of_beam(beam_size, constraints)
            steps = self.steps(memory, beam_size, neighbours)
            caps = length_caps(memory.lengths, options, constraints)
            caps = caps if steps.limit is None else [min(cap, steps.limit) for cap in caps]
            return stepwise_beam_search(steps, options, beam_size, n_best, caps, constraints)
        states, mask = self._on_device(memory)
        numbers = range(len(memory.lengths)) if numbers is None else numbers
        # what decoding reads of the ids is their shape
        return batch_decoder(_EncodedModel(self.model, states, self._where), options)(mask.long(), mask, numbers)

    @torch.inference_mode()
    def steps(self, memory: Memory, beam_size: int, neighbours: Sequence[Neighbours | None] = ()) -> TorchSteps:
        """Single steps over sources that are read, with so many rows for each."""
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
