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


def top(values: Float[Tensor, "N M"], k: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """The `k` largest of each row and where they stand, largest first, the lowest index first among equals.

    `values` is float32 without NaN and `k` at most its width. A wide row is cut into blocks: an entry of the top k
    lies in one of the k blocks that rank first by their largest entry (ties again to the lowest), for otherwise k
    blocks each hold an entry that ranks before it. So only k blocks are searched, at about the price of one maximum.
    """
    if ranking.runs_natively(values):
        return ranking.top(values, k)
    if k == 1:
        # which promises the first of equal entries
        largest, places = values.max(dim=-1, keepdim=True)
        return largest, places
    rows, width = values.shape
    num_blocks = -(-width // _BLOCK)
    if num_blocks <= 2 * k:
        return _top_by_key(values, k)
    # (N, M) -> (N, blocks, 64); what is filled in ranks behind every true entry
    blocks = F.pad(values, (0, num_blocks * _BLOCK - width), value=float("-inf")).view(rows, num_blocks, _BLOCK)
    _, best_blocks = _top_by_key(blocks.amax(dim=-1), k)
    # in rising order, so that a lower place among the candidates is a lower index in the row
    best_blocks, _ = best_blocks.sort(dim=-1)
    # (N, k, 64) -> (N, k * 64)
    candidates = blocks.gather(1, best_blocks.unsqueeze(-1).expand(-1, -1, _BLOCK)).flatten(1)
    found, places = _top_by_key(candidates, k)
    return found, best_blocks.gather(1, places // _BLOCK) * _BLOCK + places % _BLOCK


def normalizers(logits: Float[Tensor, "N M"]) -> tuple[Float[Tensor, "N 1"], Float[Tensor, "N 1"]]:
    """The largest logit of each row, and the logarithm of the sum of exp(logit - largest).

    A logit less the first, less the second, is its log-probability: never above 0, whatever the size of the logits
    exact to rounding, and the same whatever the other rows.
    """
    if ranking.runs_natively(logits):
        return ranking.normalizers(logits)
    # the largest log-probability is 0 less that logarithm; half the time of `torch.logsumexp`, which is several kernels
    return logits.amax(dim=-1, keepdim=True), -logits.log_softmax(dim=-1).amax(dim=-1, keepdim=True)


def _top_by_key(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The same by integer keys: the bits of a float in the order of the numbers above, the reversed index below.

    No two keys of a row are equal, so `torch.topk` has no choice left.
    """
    last = values.shape[-1] - 1
    # adding 0 turns -0.0 into 0.0: equal numbers must have equal bits
    bits = (values + 0.0).view(torch.int32).long()
    # the bits of negative floats rise with their size; flip all but the sign
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    keys = (ordered << 32) | torch.arange(last, -1, -1, device=values.device)
    indices = last - (keys.topk(k, dim=-1).values & 0xFFFFFFFF)
    return values.gather(-1, indices), indices
