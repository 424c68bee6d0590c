"""Compute log-probabilities and the largest of many logits, with one answer on every device.

`torch.topk` leaves open which of several equal entries it returns, and equal logits are common in bfloat16: here the
lowest index wins.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

_BLOCK = 64
_SIZES = range(256, 32, -32)
"""Block sizes that need no padding: whole vectors, whose largest entry is found several times as fast."""
_ENOUGH = 5
"""Fewest blocks of a row for which it is worth while to split it."""
_MAX_DIRECT = 512
"""Entries that are ranked directly; of more, those of the best blocks are split into blocks again."""
_LOW = 0xFFFF
"""Lower half of the bits of a float, which are zero for a number of bfloat16."""
_CHUNK = 1 << 17
"""Logits that a processor turns into probabilities in one pass: about as many as fit its second-level cache."""


def top(values: Float[Tensor, "N M"], k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """Return the `k` largest of each row and their indices, largest first, the lowest index first among equals.

    `values` is float32 without NaN and `k` at most its width.
    """
    blocks = _in_blocks(values, 2 * k + 1)
    sums = _top_sums(blocks.unsqueeze(1), blocks.amax(dim=-1).unsqueeze(1), (), k)
    return sums.values, sums.columns


@dataclass(frozen=True, slots=True)
class TopSums:
    """Hold the largest entries of a few rows, each less the amount of its row; largest first, of equals the first."""

    values: Float[Tensor, "N k"]
    rows: Int[Tensor, "N k"]
    columns: Int[Tensor, "N k"]
    """Column of each in its row."""


class NextTokens:
    """Hold the model's logits of the next token of every row."""

    def __init__(
        self,
        logits: Float[Tensor, "R V"],
        never: Sequence[int],
        *,
        scored: bool = True,
        blocked: Bool[Tensor, "R V"] | None = None,
    ) -> None:
        """The tokens in `never`, and in a row those that are `blocked`, are not emitted, but have their share of the
        probability. `logits` is changed.

        A logit less the largest of its row, less the logarithm of the sum of exp(logit - largest), is its
        log-probability, in float32 whatever the type of the logits. Only where they are `scored` are there any.
        """
        self._logits = logits
        self._maxima: Tensor | None = None
        # column by column: a list of indices would be copied to a GPU, which waits for it
        kept = torch.stack([logits[:, token] for token in never], dim=1).float()
        for token in never:
            logits[:, token].fill_(-torch.inf)
        self._blocks = _in_blocks(logits, _ENOUGH)
        if scored:
            self._maxima, self._largest, self._log_sums = _normalizers(self._blocks, kept)
        if blocked is not None:
            self._block(blocked)

    def _block(self, blocked: Bool[Tensor, "R V"]) -> None:
        self._logits.masked_fill_(blocked, -torch.inf)
        self._blocks = _in_blocks(self._logits, _ENOUGH)
        if self._maxima is not None:
            self._maxima = self._blocks.amax(dim=2).float()

    @property
    def logits(self) -> Float[Tensor, "R V"]:
        """Return logits in float32 for choosing: minus infinity at the tokens that are never emitted."""
        return self._logits.float()

    def log_probabilities(self, tokens: Int[Tensor, "R c"]) -> Float[Tensor, "R c"]:
        """Return the model's own log-probabilities of `tokens`, for scoring.

        They are never above 0, fall as the logits fall, are exact to rounding whatever the size of the logits, and do
        not depend on the other rows; minus infinity for tokens that are never emitted.
        """
        return self._logits.gather(1, tokens) - self._largest - self._log_sums

    def most_probable(self) -> Int[Tensor, "R"]:
        """Return the most probable token of each row, of equals the lowest."""
        maxima = _maxima(self._blocks) if self._maxima is None else self._maxima
        # of equals `max` promises the first
        block = maxima.max(dim=1).indices
        entries = self._blocks[torch.arange(len(block), device=block.device), block].float()
        return block * entries.shape[1] + entries.max(dim=1).indices

    def best(self, before: Float[Tensor, "B k"], count: int) -> TopSums:
        """Return the `count` best continuations of each sentence.

        Its k hypotheses have the log-probabilities `before`. Each continuation has its log-probability, the index of
        the hypothesis that is continued, and the token.
        """
        assert self._maxima is not None
        less = self._largest.view_as(before), self._log_sums.view_as(before), -before
        blocks, maxima = (tensor.unflatten(0, before.shape) for tensor in (self._blocks, self._maxima))
        sums = _top_sums(blocks, maxima, less, count)
        # what fills the last block up has the probability zero, if it is found at all
        return TopSums(sums.values, sums.rows, sums.columns.clamp_(max=self._logits.shape[1] - 1))


def _maxima(blocks: Float[Tensor, "R b M"]) -> Float[Tensor, "R b"]:
    """The largest entry of the blocks that may hold the largest of their row; of the others at most that."""
    if blocks.is_cpu and blocks.dtype == torch.bfloat16:
        # PyTorch compares whole numbers in a twelfth of the time; above zero their order is that of the bits
        bits = blocks.view(torch.int16).amax(dim=2)
        if bool((bits.amax(dim=1) > 0).all()):
            return bits.view(torch.bfloat16)
    return blocks.amax(dim=2)


def _normalizers(
    blocks: Float[Tensor, "R b M"], more: Float[Tensor, "R c"]
) -> tuple[Float[Tensor, "R b"], Float[Tensor, "R 1"], Float[Tensor, "R 1"]]:
    """Of rows in blocks, the largest entry of each block; and of these and `more` entries of the row, the largest, and
    the logarithm of the sum of exp(entry - largest).
    """
    rows = max(1, _CHUNK // blocks.shape[1:].numel()) if blocks.is_cpu else max(1, len(blocks))
    chunks: list[tuple[Tensor, Tensor, Tensor]] = []
    for chunk, other in zip(blocks.split(rows), more.split(rows), strict=True):
        entries = chunk.to(torch.float32, copy=True)
        maxima = entries.amax(dim=2)
        largest = torch.cat([maxima, other], dim=1).amax(dim=1, keepdim=True)
        # by blocks first, so that no sum is shared out to threads, as that of a single long row would be
        sums = entries.sub_(largest.unsqueeze(2)).exp_().sum(dim=2).sum(dim=1, keepdim=True)
        chunks.append((maxima, largest, (sums + (other - largest).exp_().sum(dim=1, keepdim=True)).log_()))
    maxima, largest, log_sums = (torch.cat(parts) for parts in zip(*chunks, strict=True))
    return maxima, largest, log_sums


def _top_sums(
    blocks: Float[Tensor, "N R b M"], maxima: Float[Tensor, "N R b"], less: Sequence[Float[Tensor, "N R"]], k: int
) -> TopSums:
    """An entry of the top k lies in one of the k blocks that rank first by their largest entry (ties again to the
    lowest), for otherwise k blocks each hold an entry that ranks before it. So only k blocks are searched, at about the
    price of one `amax`, which takes a tenth of the time of a `max` that also says where. Nor is anything subtracted
    from other blocks: rounding leaves the largest entry of a block the largest.
    """
    rows, num_blocks, size = blocks.shape[1:]
    if rows * num_blocks <= 2 * k:
        values = blocks.flatten(2).float()
        for amount in less:
            values = values - amount.unsqueeze(2)
        largest, columns = _best(values.flatten(1), k)
        return TopSums(largest, columns // values.shape[2], columns % values.shape[2])
    for amount in less:
        maxima = maxima - amount.unsqueeze(2)
    _, best_blocks = _best(maxima.flatten(1), k)
    # in rising order, so that a lower place among the candidates is a lower row, or a lower index in the row
    best_blocks, _ = best_blocks.sort(dim=-1)
    # (N, R b, M) -> (N, k, M)
    candidates = blocks.flatten(1, 2).gather(1, best_blocks.unsqueeze(2).expand(-1, -1, size)).float()
    for amount in less:
        candidates = candidates - amount.gather(1, best_blocks // num_blocks).unsqueeze(2)
    largest, columns = (_best if k * size <= _MAX_DIRECT else top)(candidates.flatten(1), k)
    within = best_blocks.gather(1, columns // size)
    return TopSums(largest, within // num_blocks, within % num_blocks * size + columns % size)


def _in_blocks(values: Float[Tensor, "N M"], least: int) -> Float[Tensor, "N blocks size"]:
    """At least so many, if the row is that long, without a copy where one of the sizes divides M; what is filled in
    ranks last. Otherwise one block.
    """
    width = values.shape[1]
    size = next((size for size in _SIZES if width % size == 0 and width // size >= least), _BLOCK)
    if -(-width // size) < least:
        return values.unsqueeze(1)
    missing = -width % size
    filled = F.pad(values, (0, missing), value=-torch.inf) if missing else values
    return filled.unflatten(1, (-1, size))


def _best(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Do the same by integer keys, no two alike: the bits of a float in the order above, the reversed index below."""
    if k == 1:
        largest, index = values.max(dim=-1, keepdim=True)
        return largest, index
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
