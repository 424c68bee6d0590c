"""What decoding asks of logits: the k largest, with one answer on every device, and how to make log-probabilities.

`torch.topk` leaves open which of several equal entries it returns, and equal logits are common in bfloat16: here the
lowest index wins. Native kernels and PyTorch find the same entries; their sums differ in the last bits.
"""

from __future__ import annotations

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


def top(values: Float[Tensor, "N M"], k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """The `k` largest of each row and where they stand, largest first, the lowest index first among equals.

    `values` is float32 without NaN and `k` at most its width. A wide row is cut into blocks: an entry of the top k
    lies in one of the k blocks that rank first by their largest entry (ties again to the lowest), for otherwise k
    blocks each hold an entry that ranks before it. So only k blocks are searched, at about the price of one `amax`,
    which takes a tenth of the time of a `max` that also says where.
    """
    if ranking.runs_natively(values):
        return ranking.top(values, k)
    blocks = _in_blocks(values, k)
    _, num_blocks, size = blocks.shape
    if num_blocks <= 2 * k:
        return _best(values, k)
    _, best_blocks = _best(blocks.amax(dim=-1), k)
    # in rising order, so that a lower place among the candidates is a lower index in the row
    best_blocks, _ = best_blocks.sort(dim=-1)
    # (N, k, size) -> (N, k * size)
    candidates = blocks.gather(1, best_blocks.unsqueeze(-1).expand(-1, -1, size)).flatten(1)
    found, places = (_best if candidates.shape[1] <= _FEW else top)(candidates, k)
    return found, best_blocks.gather(1, places // size) * size + places % size


def _in_blocks(values: Tensor, k: int) -> Tensor:
    """(N, M) -> (N, blocks, size), more than 2k where there are as many, without a copy where one of the sizes divides
    M; what is filled in ranks last.
    """
    width = values.shape[-1]
    size = next((size for size in _SIZES if width % size == 0 and width // size > 2 * k), _BLOCK)
    missing = -width % size
    filled = F.pad(values, (0, missing), value=float("-inf")) if missing else values
    return filled.unflatten(-1, (-1, size))


def normalizers(logits: Float[Tensor, "N M"]) -> tuple[Float[Tensor, "N 1"], Float[Tensor, "N 1"]]:
    """The largest logit of each row, and the logarithm of the sum of exp(logit - largest).

    A logit less the first, less the second, is its log-probability: never above 0, whatever the size of the logits
    exact to rounding, and the same whatever the other rows.
    """
    if ranking.runs_natively(logits):
        return ranking.normalizers(logits)
    # the largest log-probability is 0 less that logarithm; half the time of `torch.logsumexp`, which is several kernels
    return logits.amax(dim=-1, keepdim=True), -logits.log_softmax(dim=-1).amax(dim=-1, keepdim=True)


def _best(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The same by integer keys: the bits of a float in the order of the numbers above, the reversed index below.

    No two keys of a row are equal, so `torch.topk` has no choice left. Of one, `max` promises the first of equals.
    """
    if k == 1:
        largest, place = values.max(dim=-1, keepdim=True)
        return largest, place
    last = values.shape[-1] - 1
    # adding 0 turns -0.0 into 0.0: equal numbers must have equal bits
    bits = (values + 0.0).view(torch.int32).long()
    # the bits of negative floats rise with their size; flip all but the sign
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    keys = (ordered << 32) | torch.arange(last, -1, -1, device=values.device)
    indices = last - (keys.topk(k, dim=-1).values & 0xFFFFFFFF)
    return values.gather(-1, indices), indices
