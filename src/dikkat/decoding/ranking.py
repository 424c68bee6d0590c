"""What decoding asks of logits: log-probabilities, and the largest of many, with one answer on every device.

`torch.topk` leaves open which of several equal entries it returns, and equal logits are common in bfloat16: here the
lowest index wins. Native kernels and PyTorch find the same entries; their sums differ in the last bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from dikkat.native import ranking

_BLOCK = 64
_SIZES = range(256, 32, -32)
"""Of blocks, where they need not be filled up: of whole vectors, whose largest entry is found several times as fast."""
_FEW = 512
"""Entries that are ranked at once; of more, those of the best blocks are cut into blocks again."""
_LOW = 0xFFFF
"""Half of the bits of a float, which are zero where it is a number of bfloat16."""


@dataclass(frozen=True, slots=True)
class TopSums:
    """The largest sums of an entry and what its row has more, largest first; of equals the first."""

    values: Float[Tensor, "N k"]
    rows: Int[Tensor, "N k"]
    places: Int[Tensor, "N k"]
    """In the row."""


def top(values: Float[Tensor, "N M"], k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """The `k` largest of each row and where they stand, largest first, the lowest index first among equals.

    `values` is float32 without NaN and `k` at most its width.
    """
    if ranking.runs_natively(values):
        return ranking.top(values, k)
    found = _top_sums(values.unsqueeze(1), values.new_zeros(len(values), 1), k)
    return found.values, found.places


def _top_sums(values: Float[Tensor, "N R M"], more: Float[Tensor, "N R"], k: int) -> TopSums:
    """A wide row is cut into blocks: an entry of the top k lies in one of the k blocks that rank first by their largest
    entry (ties again to the lowest), for otherwise k blocks each hold an entry that ranks before it. So only k blocks
    are searched, at about the price of one `amax`, which takes a tenth of the time of a `max` that also says where.
    Nor are other sums made: the sum of the largest entry, rounded, is the largest of a block.
    """
    blocks = _in_blocks(values, k)
    rows, num_blocks, size = blocks.shape[1:]
    if rows * num_blocks <= 2 * k:
        found, places = _best((values + more.unsqueeze(2)).flatten(1), k)
        return TopSums(found, places // values.shape[2], places % values.shape[2])
    _, best_blocks = _best((blocks.amax(dim=-1) + more.unsqueeze(2)).flatten(1), k)
    # in rising order, so that a lower place among the candidates is a lower row, or a lower index in the row
    best_blocks, _ = best_blocks.sort(dim=-1)
    # (N, R * blocks, size) -> (N, k, size)
    candidates = blocks.flatten(1, 2).gather(1, best_blocks.unsqueeze(2).expand(-1, -1, size))
    candidates = (candidates + more.gather(1, best_blocks // num_blocks).unsqueeze(2)).flatten(1)
    found, places = (_best if candidates.shape[1] <= _FEW else top)(candidates, k)
    within = best_blocks.gather(1, places // size)
    return TopSums(found, within // num_blocks, within % num_blocks * size + places % size)


def _in_blocks(values: Tensor, k: int) -> Tensor:
    """(N, R, M) -> (N, R, blocks, size), more than 2k where there are as many, without a copy where one of the sizes
    divides M; what is filled in ranks last.
    """
    rows, width = values.shape[1:]
    size = next((size for size in _SIZES if width % size == 0 and rows * (width // size) > 2 * k), _BLOCK)
    missing = -width % size
    filled = F.pad(values, (0, missing), value=float("-inf")) if missing else values
    return filled.unflatten(-1, (-1, size))


def _best(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The same by integer keys: the bits of a float in the order of the numbers above, the reversed index below.

    No two keys of a row are equal, so `torch.topk` has no choice left. Of one, `max` promises the first of equals.
    """
    if k == 1:
        largest, place = values.max(dim=-1, keepdim=True)
        return largest, place
    last = values.shape[-1] - 1
    # adding 0 turns -0.0 into 0.0: equal numbers must have equal bits
    bits = (values + 0.0).view(torch.int32)
    # the bits of negative floats rise with their size; flip all but the sign
    negative = bits >> 31
    reversed_index = torch.arange(last, -1, -1, device=values.device)
    if values.is_cpu and last <= _LOW and not bool((bits & _LOW).any()):
        # numbers of bfloat16 leave half of the bits to the index; only a processor knows without waiting
        keys = (bits ^ (negative & 0x7FFF0000)) + reversed_index.int()
        indices = last - (keys.topk(k, dim=-1).values & _LOW).long()
    else:
        keys = torch.add(reversed_index, bits ^ (negative & 0x7FFFFFFF), alpha=1 << 32)
        indices = last - (keys.topk(k, dim=-1).values & 0xFFFFFFFF)
    return values.gather(-1, indices), indices


class NextTokens:
    """What a model says about the next token of every row, in float32."""

    logits: Float[Tensor, "R V"]
    """For choosing: minus infinity at the tokens that are never emitted."""

    def __init__(self, logits: Float[Tensor, "R V"], never: Sequence[int]) -> None:
        """The tokens in `never` are not emitted, but have their share of the probability. `logits` is changed.

        PyTorch makes the log-probabilities of all tokens at once; native code finds the largest logit of each row and
        the logarithm of the sum of exp(logit - largest), and a logit less both is its log-probability.
        """
        self.logits = logits
        self._native = ranking.runs_natively(logits)
        self._parts = ranking.normalizers(logits) if self._native else (logits.log_softmax(dim=-1),)
        for token in never:
            logits[:, token] = -torch.inf
            if not self._native:
                self._parts[0][:, token] = -torch.inf

    def log_probabilities(self, tokens: Int[Tensor, "R c"]) -> Float[Tensor, "R c"]:
        """The model's own, for scoring: never above 0, falling as the logits fall, exact to rounding whatever the size
        of the logits, and the same whatever the other rows; minus infinity of what is never emitted.
        """
        if not self._native:
            return self._parts[0].gather(1, tokens)
        largest, log_sums = self._parts
        return self.logits.gather(1, tokens) - largest - log_sums

    def best(self, before: Float[Tensor, "B k"], count: int) -> TopSums:
        """The `count` best continuations of each sentence, whose k hypotheses have the log-probabilities `before`:
        their log-probability, the hypothesis that is continued, and the token.
        """
        if not self._native:
            return _top_sums(self._parts[0].unflatten(0, before.shape), before, count)
        per_row = min(count, self.logits.shape[1])
        _, tokens = top(self.logits, per_row)
        # (R, c) -> (B, k, c) -> (B, k c)
        sums = (before.unsqueeze(2) + self.log_probabilities(tokens).unflatten(0, before.shape)).flatten(1)
        found, places = top(sums, count)
        return TopSums(found, places // per_row, tokens.view(len(before), -1).gather(1, places))
