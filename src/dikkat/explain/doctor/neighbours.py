"""Check that neither padding nor the other sentences of a batch change a result."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from dikkat.explain.doctor.specimen import EXTRA, Specimen, distance, worst
from dikkat_runtime.special_tokens import PAD_ID


def changed_by_padding(specimen: Specimen) -> tuple[float, str]:
    """Measure what more padding changes, and what other tokens behind the mask change, in float64.

    More padding is another shape, and in float32 that alone regroups sums; float64 leaves only what is really seen.
    """
    exact = specimen.of_type(torch.float64)
    full = exact.every_token
    alone = exact.logits(exact.source, exact.target, full)
    longer, longer_mask = F.pad(exact.source, (0, EXTRA), value=PAD_ID), F.pad(full, (0, EXTRA), value=False)
    appended = distance(exact.logits(longer, exact.target, longer_mask), alone)
    ragged = exact.logits(exact.source, exact.target, exact.mask)
    hidden = torch.where(exact.mask, exact.source, exact.others(exact.source))
    behind = distance(exact.logits(hidden, exact.target, exact.mask), ragged)
    return worst({f"{EXTRA} more columns of padding": appended, "other tokens behind the mask": behind})


def changed_by_batch(specimen: Specimen) -> tuple[float, str]:
    """Measure what reading each sentence alone changes; all have one length, so that no padding is involved."""
    together = specimen.logits(specimen.source, specimen.target, specimen.every_token)
    rows = [
        specimen.logits(specimen.source[row, None], specimen.target[row, None], specimen.every_token[row, None])
        for row in range(specimen.source.shape[0])
    ]
    return worst({f"sentence {row}": distance(alone[0], together[row]) for row, alone in enumerate(rows)})
