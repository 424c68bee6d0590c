"""An engine of several translators that share their vocabularies and average the probabilities of each token."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from dikkat_runtime.engine.contract import PLAIN_SEARCH, Engine, SearchRequest, Steps
from dikkat_runtime.engine.hypotheses import Hypothesis, Memory, Sentence
from dikkat_runtime.engine.native import NativeEngine, StepDecoder
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.engine.stepwise import stepwise_search
from dikkat_runtime.native.arrays import Array, aligned


class EnsembleEngine:
    """The engines of K members, which read the same ids and write with the mean of their probabilities.

    A `Memory` and the states of the decoder hold those of all members side by side, (…, K * D).
    """

    def __init__(self, members: Sequence[Engine]) -> None:
        """At least one member, all with the same vocabulary and width."""
        self.members = tuple(members)
        self.info = replace(members[0].info, members=len(members), has_shortlist=False)

    def encode(self, sources: Sequence[Sequence[int]], *, threads: int | None = None) -> Memory:
        memories = [member.encode(sources, threads=threads) for member in self.members]
        return Memory(np.concatenate([memory.states for memory in memories], axis=2), memories[0].lengths)

    def search(
        self, memory: Memory, options: DecodingOptions, asked: SearchRequest = PLAIN_SEARCH
    ) -> list[list[Hypothesis]]:
        natives = [member for member in self.members if isinstance(member, NativeEngine)]
        if asked.needs_steps(options) or len(natives) < len(self.members):
            begin = partial(self.steps, memory, neighbours=asked.neighbours)
            return stepwise_search(begin, memory, options, asked)
        decoders = [
            native.search_decoder(part, options, replace(asked, neighbours=near))
            for native, (part, near) in zip(natives, self._parts(memory, asked.neighbours), strict=True)
        ]
        decoders[0].join(decoders[1:])
        return decoders[0].search(options)

    def steps(self, memory: Memory, beam_size: int, neighbours: Sequence[Neighbours | None] = ()) -> "EnsembleSteps":
        """Return single steps of all members side by side; see `Engine`."""
        parts = self._parts(memory, neighbours)
        return EnsembleSteps(
            [member.steps(part, beam_size, near) for member, (part, near) in zip(self.members, parts, strict=True)]
        )

    def _parts(
        self, memory: Memory, neighbours: Sequence[Neighbours | None]
    ) -> list[tuple[Memory, Sequence[Neighbours | None]]]:
        count = len(self.members)
        near = [[None] * count if one is None else _parts_of(one, count) for one in neighbours]
        of_members = list(zip(*near, strict=True)) if near else [()] * count
        parts = [aligned(states) for states in np.split(memory.states, count, axis=2)]
        return [(Memory(states, memory.lengths), own) for states, own in zip(parts, of_members, strict=True)]


def first_member(engine: Engine) -> Engine:
    """Return the engine itself, or the first member of several: that of states and maps, which have no mean."""
    return engine.members[0] if isinstance(engine, EnsembleEngine) else engine


def _parts_of(neighbours: Neighbours, count: int) -> list[Neighbours]:
    states = np.split(neighbours.states, count, axis=1)
    return [Neighbours(np.ascontiguousarray(part), neighbours.tokens) for part in states]


class EnsembleSteps:
    """Decoders of several members that are fed the same tokens."""

    def __init__(self, members: Sequence[Steps]) -> None:
        self._members, self.forced = members, members[0].forced
        self.limit = min((member.limit for member in members if member.limit is not None), default=None)
        self.top, self.log_normalizers = members[0].top, members[0].log_normalizers
        self.token_scores = members[0].token_scores

    @property
    def length(self) -> int:
        return self._members[0].length

    def step(self, tokens: Sequence[int], *, scored: bool = True) -> Array:
        """Return the logarithm (R, V) of the mean probability of the token that follows `tokens`, one a row."""
        logits = [member.step(tokens, scored=scored) for member in self._members]
        return self._mean(logits) if scored else logits[0]

    def project(self, states: Array) -> Array:
        """Return the logarithm (N, V) of the mean probability after states (N, K * D)."""
        parts = zip(self._members, np.split(states, len(self._members), axis=1), strict=True)
        return self._mean([member.project(own) for member, own in parts])

    def _mean(self, logits: Sequence[Array]) -> Array:
        total: Array = sum(np.exp(own - np.add(*self.log_normalizers(own))) for own in logits)
        # a probability that is 0 in float32 stays the lowest finite logit, which constraints tell from what is banned
        return np.log(np.maximum(total / np.float32(len(self._members)), np.finfo(np.float32).tiny))

    def attention(self) -> Array:
        return np.asarray(np.mean([member.attention() for member in self._members], axis=0))

    def states(self) -> Array:
        return np.concatenate([member.states() for member in self._members], axis=1)

    def continue_from(self, parents: Sequence[int], owners: Sequence[int]) -> None:
        for member in self._members:
            member.continue_from(parents, owners)

    def rewind(self, length: int) -> None:
        for member in self._members:
            member.rewind(length)

    def finish(
        self, sentences: Sequence[Sentence], penalties: Array, n_best: int, early_stop_rank: int
    ) -> list[list[Hypothesis]] | None:
        """Search on in C where all members can; else return None, and members agree on every single step."""
        decoders = [member for member in self._members if isinstance(member, StepDecoder)]
        if len(decoders) < len(self._members):
            return None
        decoders[0].join(decoders[1:])
        return decoders[0].finish(sentences, penalties, n_best, early_stop_rank)
