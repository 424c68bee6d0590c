"""Search for one source several times, each time after given tokens, reusing the states of tokens that stay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dikkat_runtime.engine.constraints import Constraint
from dikkat_runtime.engine.contract import Hypothesis
from dikkat_runtime.engine.decoding import length_penalties
from dikkat_runtime.engine.hypotheses import NEVER, Row, Sentence
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.engine.steps_contract import Steps
from dikkat_runtime.engine.stepwise import search_on
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID


class ResumableSearch:
    """A beam search over one source whose outputs begin with given tokens."""

    def __init__(self, steps: Steps, options: DecodingOptions, beam_size: int, source_length: int) -> None:
        """`steps` has `beam_size` rows; the source has `source_length` tokens, its end mark included."""
        self._steps, self._options, self._beam_size = steps, options, beam_size
        self._source_length = source_length
        self._fed: list[int] = []
        self._scores: list[Array] = []
        """Log-probabilities (V,) of what follows each token that was fed."""

    def search(self, kept: Sequence[int], constraint: Constraint) -> list[Hypothesis]:
        """Return the hypotheses, best first, that begin with the tokens `kept` and meet the constraint as a whole."""
        options, steps = self._options, self._steps
        cap = options.length_cap(self._source_length) + constraint.missing(constraint.start)
        cap = cap if steps.limit is None else min(cap, steps.limit)
        kept = list(kept[: cap - 1])
        state, log_probability = constraint.start, self._read(kept)
        for token in kept:
            state = constraint.after(state, token)
        rows = [Row(kept, log_probability if rank == 0 else NEVER, state) for rank in range(self._beam_size)]
        if self._beam_size > 1:
            steps.continue_from([0] * self._beam_size, [0] * self._beam_size)
        n_best = options.n_best if isinstance(options, BeamOptions) else 1
        penalties = length_penalties(cap, options.alpha, steps.forced)
        return search_on(steps, options, n_best, penalties, [Sentence(0, cap, rows, constraint)])[0]

    def _read(self, kept: Sequence[int]) -> np.float32:
        """Feed all new tokens but the last; return the log-probability of all."""
        wanted = [BOS_ID, *kept][: len(kept)]
        known = 0
        while known < min(len(wanted), len(self._fed)) and wanted[known] == self._fed[known]:
            known += 1
        self._steps.rewind(known)
        del self._fed[known:], self._scores[known:]
        for token in wanted[known:]:
            logits = self._steps.step([token])
            largest, log_sums = self._steps.log_normalizers(logits)
            self._fed.append(token)
            self._scores.append((logits - largest - log_sums)[0])
        total = np.float32(0)
        for scores, token in zip(self._scores, kept, strict=True):
            total = scores[token] + total
        return total
