"""Check that numbers stay finite, forwards and backwards, and that every parameter learns."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.explain.doctor.specimen import Specimen


def not_finite(specimen: Specimen) -> tuple[float, str]:
    """Count entries that are NaN or infinite in weights, logits, steps and gradients, in float32 and bfloat16."""
    counts: dict[str, int] = {}
    for dtype in (torch.float32, torch.bfloat16):
        typed = specimen.of_type(dtype)
        for part, tensors in _numbers(typed).items():
            counts[f"{part} in {str(dtype).removeprefix('torch.')}"] = sum(_bad_entries(tensor) for tensor in tensors)
    # not the largest: what comes first is nearest to the cause
    first = next((part for part, count in counts.items() if count), "")
    return float(sum(counts.values())), first


def without_gradient(specimen: Specimen) -> tuple[float, str]:
    """Count parameters that one training step would leave unchanged."""
    still = [name for name, gradient in _gradients(specimen).items() if gradient is None or bool((gradient == 0).all())]
    return float(len(still)), still[0] if still else ""


def _numbers(specimen: Specimen) -> dict[str, list[Tensor]]:
    logits = specimen.logits(specimen.source, specimen.target, specimen.mask)
    gradients = [gradient for gradient in _gradients(specimen).values() if gradient is not None]
    # the sentences use few of the embeddings, so the weights are looked at themselves
    weights = [parameter.detach() for parameter in specimen.model.parameters()]
    steps = {"logits of the steps": _steps(specimen)} if specimen.writes else {}
    return {"weights": weights, "logits": [logits], **steps, "gradients": gradients}


def _steps(specimen: Specimen) -> list[Tensor]:
    with torch.no_grad():
        steps = specimen.begin()
        return [steps.step(specimen.target[:, position]) for position in range(specimen.target.shape[1])]


def _gradients(specimen: Specimen) -> dict[str, Tensor | None]:
    """Of the cross-entropy of a padded batch, in training mode. `grad` of the parameters is left alone."""
    model = specimen.model.train()
    logits = specimen.with_gradient(specimen.source, specimen.target[:, :-1], specimen.mask)
    # a classifier has fewer classes than the vocabulary has tokens, and one answer a sentence
    wanted = specimen.target[:, 1 : 1 + logits.shape[1]] % logits.shape[2]
    loss = F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())
    named = dict(model.named_parameters())
    gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    model.eval()
    return dict(zip(named, gradients, strict=True))


def _bad_entries(tensor: Tensor) -> int:
    return int((~tensor.isfinite()).sum())
