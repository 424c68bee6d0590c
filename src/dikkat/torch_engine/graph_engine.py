"""The engine for a GPU: search in fixed buffers, whose steps are recorded once and played again as CUDA graphs."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention import sdpa_kernel

from dikkat.kernels.attention import FOR_ANY_LENGTH
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.masks import length_mask
from dikkat.nn.positions import BeyondPositionsError, LearnedPositions
from dikkat.torch_engine.engine import TorchEngine
from dikkat.torch_engine.static_search import BeamSearch, GreedySearch, StaticDecoder, StaticSearch
from dikkat.torch_engine.stepper import Outcome, gather_hypotheses, pad_sources
from dikkat_runtime.engine.contract import PLAIN_SEARCH, SearchRequest
from dikkat_runtime.engine.hypotheses import Hypothesis, Memory
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, Precision, SamplingOptions
from dikkat_runtime.errors import DataError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run.parts import WEIGHTS

STEPS = 4
"""Steps between two looks at what is over; even, see `StaticCache`."""
MIN_SENTENCES = 16
MAX_SENTENCES = 1024
MAX_STEP_BY_STEP = 128
"""Sentences that are searched together where no buffers are fixed."""
SHARE_OF_MEMORY = 0.5
"""Most of a GPU's memory that the buffers of all shapes take together."""
MAX_BYTES_ON_CPU = 1 << 30
TYPES = {"float32": torch.float32, "float16": torch.float16}


class DeviceMemory(Memory):
    """The encoder states of a batch of sources, which stay on the device until somebody reads them elsewhere."""

    __slots__ = ("_on_device",)
    _on_device: Tensor

    def __init__(self, on_device: Float[Tensor, "B S D"], lengths: tuple[int, ...]) -> None:
        object.__setattr__(self, "_on_device", on_device)
        object.__setattr__(self, "lengths", lengths)
        object.__setattr__(self, "words", None)

    @property
    def on_device(self) -> Float[Tensor, "B S D"]:
        """The states in the type that the model computes with."""
        return self._on_device

    @property
    def states(self) -> Array:
        """The states (B, S, D) as an array of float32, zeros at padding."""
        array: Array = self._on_device.float().cpu().numpy()
        return array


class GraphEngine(TorchEngine):
    """Beam search and greedy decoding of many sentences at once; all else as the `TorchEngine` does it.

    The weights must not change. `why_not_static` says which models this computes.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        *,
        precision: Precision = "float32",
        why_not_native: str = "",
        records: bool | None = None,
        where: str = WEIGHTS,
    ) -> None:
        """Convert the weights of `model` to the precision.

        With `records` steps become CUDA graphs, by default where there is a GPU. `why_not_native` is shown where nobody
        asked for this engine, and `where` names the weights in messages.
        """
        for parameter in model.parameters():
            parameter.data = parameter.data.to(TYPES[precision])
        super().__init__(model, why_not_native=why_not_native, where=where)
        name = "graphs" if self.device.type == "cpu" else f"graphs:{self.device.type}"
        self.info = replace(self.info, name=name, precision=precision, batch_size=MAX_SENTENCES)
        is_cpu = self.device.type == "cpu"
        # graphs are played one after the other, and nothing in their scratch memory outlives one
        self._pool = torch.cuda.graph_pool_handle() if (not is_cpu if records is None else records) else None
        # what is recorded must not be on the default stream, and finds on its own what steps left there before
        self._stream = None if is_cpu else cast(Any, torch.cuda.Stream)(self.device)
        self._captures: OrderedDict[tuple[Any, ...], _CapturedSearch] = OrderedDict()
        self._lock = threading.Lock()
        memory = MAX_BYTES_ON_CPU if is_cpu else torch.cuda.get_device_properties(self.device).total_memory
        self._most_bytes = memory if is_cpu else int(SHARE_OF_MEMORY * memory)

    @torch.inference_mode()
    def encode(self, sources: Sequence[Sequence[int]], *, threads: int | None = None) -> Memory:
        """Read sources (ids without an end mark, none empty); their states stay on the device."""
        add_eos = self.model.add_source_eos
        ids, mask = pad_sources(sources, self.device, add_eos=add_eos)
        states = self.model.encode(ids, mask) * mask[..., None]
        return DeviceMemory(states, tuple(len(source) + add_eos for source in sources))

    def search(
        self, memory: Memory, options: DecodingOptions, asked: SearchRequest = PLAIN_SEARCH
    ) -> list[list[Hypothesis]]:
        states, mask = self._on_device(memory)
        results: list[list[Hypothesis]] = []
        has_neighbours = any(own is not None for own in asked.neighbours)
        is_plain = not isinstance(options, SamplingOptions) and not options.limits_repetition
        if not is_plain or asked.constraints is not None or has_neighbours:
            # as the `TorchEngine` does, a few sentences at a time: it has several copies of their logits
            numbers = range(len(memory.lengths)) if asked.numbers is None else asked.numbers
            for first in range(0, len(memory.lengths), MAX_STEP_BY_STEP):
                part = slice(first, first + MAX_STEP_BY_STEP)
                constraints = None if asked.constraints is None else asked.constraints[part]
                own = SearchRequest(numbers[part], constraints, asked.neighbours[part])
                results += super().search(DeviceMemory(states[part], memory.lengths[part]), options, own)
            return results
        with self._lock, torch.inference_mode(), sdpa_kernel(FOR_ANY_LENGTH), self._streaming():
            # sources that are padded to one length share a capture; a batch is as large as its buffers may be
            some = self._most_sentences(states.shape[1], options)
            for first in range(0, len(memory.lengths), some):
                part = slice(first, first + some)
                results += self._search(states[part], mask[part], memory.lengths[part], options, some)
        return results

    def _on_device(self, memory: Memory) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B S"]]:
        if not isinstance(memory, DeviceMemory):
            return super()._on_device(memory)
        states = memory.on_device
        return states, length_mask(torch.tensor(memory.lengths), states.shape[1]).to(self.device)

    @contextmanager
    def _streaming(self) -> Iterator[None]:
        """Compute on the stream of this engine, after what was begun before; an error leaves nothing of the buffers."""
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self.device))
        try:
            with nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
                yield
        except BaseException:
            self._captures.clear()
            raise

    def _search(
        self, states: Tensor, mask: Tensor, lengths: Sequence[int], options: DecodingOptions, most: int
    ) -> list[list[Hypothesis]]:
        caps = [options.length_cap(length) for length in lengths]
        capture = self._capture(min(most, _rounded_count(len(lengths))), _rounded_length(states.shape[1]), options)
        capture.start(states, mask, caps, options.alpha)
        # number of each sentence in the batch; None where the batch is filled up
        numbers: list[int | None] = [*range(len(caps)), *[None] * (capture.sentences - len(caps))]
        outcomes: list[Outcome] = []
        fed = 0
        while True:
            capture.take_steps(fed)
            fed += STEPS
            over = capture.search.over.tolist()
            staying = [index for index, is_over in enumerate(over) if not is_over]
            smaller = _rounded_count(len(staying))
            if staying and smaller > capture.sentences // 2:
                continue
            leaving = [index for index, is_over in enumerate(over) if is_over and numbers[index] is not None]
            if leaving:
                outcomes.append(self._outcome(capture.search, leaving, numbers, fed))
            if not staying:
                return gather_hypotheses(outcomes, len(caps))
            next_capture = self._capture(smaller, capture.sources, options)
            # the batch is filled up with a sentence that is over, of which there is at least one
            filler = over.index(True)
            kept = [*staying, *[filler] * (smaller - len(staying))]
            next_capture.search.copy_sentences(capture.search, torch.tensor(kept, device=self.device), fed)
            numbers = [*(numbers[index] for index in staying), *[None] * (smaller - len(staying))]
            capture = next_capture

    def _outcome(self, search: StaticSearch, leaving: list[int], numbers: Sequence[int | None], fed: int) -> Outcome:
        indices = torch.tensor(leaving, device=self.device)
        if not bool(search.sound[indices].all()):
            raise DataError("{precision} is too narrow for the numbers of this model; use float32", self.info.precision)
        positions = self.model.positions
        reached = int(search.over_at[indices].max())
        if isinstance(positions, LearnedPositions) and reached > positions.max_positions:
            raise BeyondPositionsError(
                f"a sequence must fit into max_positions = {positions.max_positions} learned positions, but reaches"
                f" {reached}; shorten it, or train with a larger max_positions or other positions"
            )
        outcome = search.outcome(indices, fed)
        return replace(outcome, sentences=torch.tensor([numbers[index] for index in leaving]))

    def _capture(self, sentences: int, sources: int, options: DecodingOptions) -> "_CapturedSearch":
        """Return the buffers and graphs for batches of a shape; those not used for longest make way for new ones."""
        capacity = -(-(options.length_cap(sources) + STEPS) // 16) * 16
        beam = options if isinstance(options, BeamOptions) and options.beam_size > 1 else None
        kind = options.scores if beam is None else (beam.beam_size, beam.n_best, beam.early_stop_rank)
        key = (sentences, sources, capacity, kind)
        if (capture := self._captures.get(key)) is not None:
            self._captures.move_to_end(key)
            return capture
        wanted = sentences * self._bytes_of_sentence(sources, options)
        while self._captures and wanted + sum(other.bytes for other in self._captures.values()) > self._most_bytes:
            self._captures.popitem(last=False)
        decoder = StaticDecoder(self.model, sentences, 1 if beam is None else beam.beam_size, sources, capacity)
        search = GreedySearch(decoder, options) if beam is None else BeamSearch(decoder, beam)
        self._captures[key] = capture = _CapturedSearch(search, wanted, self._pool)
        return capture

    def _most_sentences(self, length: int, options: DecodingOptions) -> int:
        """The sentences of up to so many tokens that fit into the memory, with a copy of half of them; at least one."""
        fitting = self._most_bytes // (2 * self._bytes_of_sentence(_rounded_length(length), options))
        return min(MAX_SENTENCES, 1 << max(0, fitting.bit_length() - 1))

    def _bytes_of_sentence(self, sources: int, options: DecodingOptions) -> int:
        """The bytes that a sentence takes, roughly: caches, of which there are two, and a few copies of the logits."""
        rows = options.beam_size if isinstance(options, BeamOptions) else 1
        weight = self.model.output_weight
        layers = len(self.model.decoder.blocks)
        positions = 2 * rows * options.length_cap(sources) + sources
        return weight.element_size() * (2 * layers * positions * weight.shape[1] + 8 * rows * weight.shape[0])


class _CapturedSearch:
    """The buffers for batches of one shape, and the CUDA graphs of the steps on them."""

    def __init__(self, search: StaticSearch, num_bytes: int, pool: Any) -> None:
        """Record graphs whose scratch memory comes from `pool`; with None, no graphs."""
        self.search, self.bytes, self._pool = search, num_bytes, pool
        self.sentences, self.sources = search.decoder.shape[0], search.decoder.sources
        self._graphs: dict[int, torch.cuda.CUDAGraph | None] = {}
        """By the positions that attention looks at; None after the first time."""

    def start(self, states: Tensor, mask: Tensor, caps: Sequence[int], alpha: float) -> None:
        """Begin with the encoder states (B, S, D) of at most as many sentences as the batch has."""
        count, length, width = states.shape
        memory = states.new_zeros(self.sentences, self.sources, width)
        memory[:count, :length] = states
        # a sentence that fills up the batch has one token
        real = torch.zeros(self.sentences, self.sources, dtype=torch.bool, device=states.device)
        real[:, 0] = True
        real[:count, :length] = mask
        self.search.decoder.start(memory, real)
        self.search.start(caps, alpha)

    def take_steps(self, fed: int) -> None:
        """Take `STEPS` steps after the first `fed`; what comes a second time is recorded, and then played again."""
        length = min(_rounded_length(fed + STEPS), self.search.decoder.capacity)
        if (graph := self._graphs.get(length)) is not None:
            graph.replay()
            return
        if self._pool is not None and length in self._graphs:
            graph = self._graphs[length] = self._recorded(length)
            graph.replay()
            return
        self._graphs[length] = None
        self._run(length)

    def _run(self, length: int) -> None:
        for _ in range(STEPS):
            self.search.step(length)

    def _recorded(self, length: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            self._run(length)
        finally:
            graph.capture_end()
        return graph


def _rounded_count(sentences: int) -> int:
    """Return the next power of two, so that few shapes occur."""
    return max(MIN_SENTENCES, 1 << (sentences - 1).bit_length()) if sentences else 0


def _rounded_length(tokens: int) -> int:
    """Return the next multiple of 16, of 32 above 64, and of 128 above 256, so that few shapes occur."""
    unit = 16 if tokens <= 64 else 32 if tokens <= 256 else 128
    return -(-tokens // unit) * unit
