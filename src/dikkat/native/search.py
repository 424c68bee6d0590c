"""Beam search by native steps over tensors: the same hypotheses, to the bit, as decoding/beam.py finds."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from typing import NamedTuple

import torch
from torch import Tensor

from dikkat.native.decoder import DecoderSteps
from dikkat.native.library import library

NEVER = float("-inf")


class Marks(NamedTuple):
    """Ids with a meaning of their own; only the last is ever emitted."""

    padding: int
    begin: int
    end: int


class Found(NamedTuple):
    """What the k places of each sentence hold when it is over, in the order of the batch, best first."""

    live_tokens: Tensor
    """(B, k, L) of hypotheses still growing; L is the longest cap."""
    live: Tensor
    """(B, k), their log-probabilities."""
    ended_tokens: Tensor
    """(B, k, L), without the end mark."""
    ended_lengths: Tensor
    """(B, k), with the end mark."""
    ended: Tensor
    """(B, k), their log-probabilities."""
    scores: Tensor
    """(B, k); minus infinity where a place is free."""
    over_at: Tensor
    """(B,), tokens that each live hypothesis had when the sentence was over; 0 before."""


class _Search(ctypes.Structure):
    """`Search` of search.c."""

    _fields_ = (
        *((name, c_int64) for name in ("beam", "best", "longest", *Marks._fields)),
        *((name, c_void_p) for name in ("caps", "penalties", "positions", "logits")),
        *((name, c_void_p) for name in ("tokens", "next_tokens", "next_slots", "parents", "is_taken", "waiting")),
        *((name, c_void_p) for name in ("ranked", "ranked_tokens", "candidates", "candidate_places")),
        *((name, c_void_p) for name in ("live_tokens", "history", "live")),
        *((name, c_void_p) for name in ("ended_tokens", "ended_lengths", "ended", "scores", "over_at", "scratch")),
    )


class BeamSearch:
    """The search of a batch by `steps` that have not begun, and that nobody else takes from now on."""

    def __init__(self, steps: DecoderSteps, best: int, caps: Tensor, penalties: Tensor, marks: Marks) -> None:
        """At most `caps` (B,) tokens of each sentence are emitted, the end mark included; a hypothesis of n tokens
        scores its log-probability over `penalties[n]`; the `best` of each sentence are wanted.

        Raises `IndexError` for a mark that the vocabulary lacks, a cap without a penalty or more wanted than searched.
        """
        sentences, k, longest = len(caps), steps.rows_per_sentence, len(penalties) - 1
        rows, vocabulary = sentences * k, steps.job.vocabulary
        for name, indices, first, last in (
            ("a mark", marks, 0, vocabulary - 1),
            ("a cap", caps.tolist(), 1, longest),
            ("the number wanted", [best], 1, k),
        ):
            if any(not first <= index <= last for index in indices):
                raise IndexError(f"{name} must lie between {first} and {last}")
        if rows != steps.rows or vocabulary < 2:
            raise ValueError(f"{sentences} caps are not for {steps.rows} rows of a vocabulary of {vocabulary}")
        whole, ranked = torch.int64, min(k + 1, vocabulary)
        live = torch.full((sentences, k), NEVER)
        live[:, 0] = 0.0
        self.found = Found(
            live_tokens=torch.full((sentences, k, longest), marks.padding),
            live=live,
            ended_tokens=torch.full((sentences, k, longest), marks.padding),
            ended_lengths=torch.ones(sentences, k, dtype=whole),
            ended=torch.full((sentences, k), NEVER),
            scores=torch.full((sentences, k), NEVER),
            over_at=torch.zeros(sentences, dtype=whole),
        )
        self._steps = steps
        self._kept = {
            "caps": caps.to(whole).contiguous(),
            "penalties": penalties.to(torch.float32).contiguous(),
            "logits": torch.empty(rows, vocabulary),
            "tokens": torch.full((rows,), marks.begin),
            **{name: torch.empty(rows, dtype=whole) for name in ("next_tokens", "next_slots", "parents", "is_taken")},
            "waiting": torch.empty(sentences, dtype=whole),
            "ranked": torch.empty(rows, ranked),
            "ranked_tokens": torch.empty(rows, ranked, dtype=whole),
            "candidates": torch.empty(sentences, 2 * k),
            "candidate_places": torch.empty(sentences, 2 * k, dtype=whole),
            "history": torch.empty(sentences, k, longest, dtype=whole),
            **self.found._asdict(),
        }
        addresses = {name: tensor.data_ptr() for name, tensor in self._kept.items()}
        loaded = library()
        assert loaded is not None
        loaded.search_scratch.restype = c_int64
        self._library = loaded
        self._job = _Search(beam=k, best=best, longest=longest, **marks._asdict(), **addresses)

    @property
    def is_over(self) -> bool:
        """Whether all sentences are."""
        return int(self._steps.job.rows) == 0

    @property
    def ends_at_once(self) -> bool:
        """Whether each thread searches on with sentences of its own, so that one call takes all steps of all."""
        return self._scratch_size() > 0

    def go_on(self, positions: Tensor) -> None:
        """One step for each row of `positions` (n, D), unless it is over before: what is added to the embeddings.

        Where it `ends_at_once`, that is the last call, and there must be enough of them.
        """
        job, positions = self._steps.job, positions.to(torch.float32).contiguous()
        if positions.shape[1:] != (job.width,):
            raise ValueError(f"the model is {job.width} wide, but positions have the shape {tuple(positions.shape)}")
        end = job.length + len(positions)
        while job.capacity < end:
            self._steps.grow()
        scratch = torch.empty(self._scratch_size())
        self._job.positions, self._job.scratch = positions.data_ptr(), scratch.data_ptr()
        search = self._library.search_apart if len(scratch) else self._library.search_together
        search(ctypes.byref(self._job), ctypes.byref(job), c_int64(end))

    def _scratch_size(self) -> int:
        return int(self._library.search_scratch(ctypes.byref(self._job), ctypes.byref(self._steps.job)))
