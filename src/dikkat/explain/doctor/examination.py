"""The checks of the doctor, in the order of their dependencies, and the examination that runs them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from dikkat.explain.doctor.proof import Proof
from dikkat.explain.doctor.rows import masked_rows_at_work, uneven_rows
from dikkat.explain.doctor.specimen import ExaminableModel, Specimen, distance, draw, worst
from dikkat.explain.doctor.visibility import (
    changed_by_batch,
    changed_by_padding,
    met_outside_attention,
    seen_future,
    seen_future_in_training,
)
from dikkat.nn.recorder import MapName, record_attention
from dikkat_runtime.messages import msg

ROWS = 2
"""Hypotheses of one sentence, as in beam search."""
FIRST = MapName("decoder", 0, "self")


def misplaced_steps(specimen: Specimen) -> tuple[float, str]:
    """Compare the attention of the first decoder layer at step t with teacher forcing of t+1 tokens.

    The sentence is one token over and over, so that nothing but its position tells one place from another. Teacher
    forcing ends at t, so it has no future that it could see.
    """
    target = specimen.target[:, :1].expand_as(specimen.target)
    length = target.shape[1]
    with torch.no_grad():
        steps = specimen.begin()
        with record_attention(specimen.model, lambda name: name == FIRST) as maps:
            for position in range(length):
                steps.step(target[:, position])
            for position in range(length):
                specimen.forced(target[:, : position + 1])
    # (B, H, 1, S) of the steps, (B, H, T, S) of teacher forcing -> (B, H, S)
    rows = [weights[:, :, -1] for weights in maps[FIRST]]
    stepped, forced = rows[:length], rows[length:]
    return worst(
        {
            msg("step {position}").fill(position): distance(stepped[position], forced[position])
            for position in range(length)
        }
    )


def cached_steps_difference(specimen: Specimen) -> tuple[float, str]:
    """Compare the logits of cached steps with teacher forcing; two hypotheses a sentence are swapped half-way."""
    targets = specimen.tokens(specimen.source.shape[0] * ROWS, specimen.target.shape[1])
    half = targets.shape[1] // 2
    swapped = torch.arange(len(targets), device=targets.device).view(-1, ROWS).flip(1).flatten()
    # row r begins as the hypothesis beside it
    joined = torch.cat((targets[swapped, :half], targets[:, half:]), dim=1)
    with torch.no_grad():
        forced = specimen.forced(joined, ROWS)
        stepped = _walk(specimen, targets, half, swapped)
    return worst(
        {
            msg("step {position}").fill(position): distance(stepped[:, position], forced[:, position])
            for position in range(targets.shape[1])
        }
    )


def _walk(specimen: Specimen, targets: Tensor, half: int, swapped: Tensor) -> Float[Tensor, "R T V"]:
    steps = specimen.begin(ROWS)
    before = [steps.step(targets[:, position])[swapped] for position in range(half)]
    steps.reorder(swapped)
    after = [steps.step(targets[:, position]) for position in range(half, targets.shape[1])]
    return torch.stack([*before, *after], dim=1)


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


Measure = Callable[[Specimen], tuple[float, str]]
"""Returns the violation, and where it is. The model is in evaluation mode and the generator seeded."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Hold a property of a sound model, and the function that measures its violation."""

    name: str
    says: str
    measure: Measure
    limit: float
    rests_on: tuple[str, ...] = ()
    """Claims that this one depends on; when one of them fails, a violation here is no fault of its own."""
    of_writing: bool = False
    """Whether the claim is about predicting each next token; models that do not are skipped."""
    of_attending: bool = False
    """Whether the claim is about positions that only attention connects; a recurrent decoder is skipped."""
    of_source: bool = False
    """Whether the claim is about a padded source; a language model reads texts of one length and is skipped."""


CLAIMS = (
    Claim(msg("no NaN"), msg("weights, logits and gradients are finite in float32 and bfloat16"), not_finite, 0.0),
    Claim(
        msg("positions meet only in attention"),
        msg("with attention silenced, a token changes nothing at another position"),
        met_outside_attention,
        1e-6,
        (msg("no NaN"),),
        of_attending=True,
    ),
    Claim(
        msg("no future in evaluation"),
        msg("later target tokens do not change earlier logits"),
        seen_future,
        1e-6,
        (msg("no NaN"), msg("positions meet only in attention")),
        of_writing=True,
    ),
    Claim(
        msg("no future in training"),
        msg("later target tokens do not change earlier logits, with dropout on and drawn alike"),
        seen_future_in_training,
        1e-6,
        (msg("no NaN"), msg("positions meet only in attention")),
        of_writing=True,
    ),
    Claim(
        msg("padding changes nothing"),
        msg("neither more padding nor what the mask hides changes a logit (float64)"),
        changed_by_padding,
        1e-6,
        (msg("no NaN"), msg("positions meet only in attention")),
        of_source=True,
    ),
    Claim(
        msg("batch changes nothing"),
        msg("a sentence has the same logits alone and among others"),
        changed_by_batch,
        1e-5,
        (msg("no NaN"),),
    ),
    Claim(
        msg("positions advance"),
        msg("at step t the first decoder layer weighs a repeated token as teacher forcing does at t"),
        misplaced_steps,
        1e-5,
        (msg("no NaN"), msg("positions meet only in attention")),
        of_writing=True,
        of_attending=True,
    ),
    Claim(
        msg("step = teacher forcing"),
        msg("cached steps of two hypotheses that are exchanged give the logits of teacher forcing"),
        cached_steps_difference,
        1e-5,
        (
            msg("no NaN"),
            msg("positions meet only in attention"),
            msg("no future in evaluation"),
            msg("padding changes nothing"),
            msg("positions advance"),
        ),
        of_writing=True,
    ),
    Claim(
        msg("fully masked rows"),
        msg("a query that may attend to nothing gives zero, with finite gradients"),
        masked_rows_at_work,
        1e-6,
        (msg("no NaN"),),
    ),
    Claim(
        msg("weights sum to one"),
        msg("every row of weights sums to one, as recorded and as used; none is negative"),
        uneven_rows,
        1e-5,
        (msg("no NaN"),),
    ),
    Claim(
        msg("every parameter learns"), msg("a training step has a gradient for each parameter"), without_gradient, 0.0
    ),
)
"""A claim may only rest on earlier ones."""


def examine(model: ExaminableModel, seed: int = 1) -> list[Proof]:
    """Check every claim that applies to `model`, on sentences drawn from `seed`; nothing is left changed.

    Raises `UsageError` for a model with fewer learned positions than the sentences need.
    """
    was_training = model.training
    proofs: list[Proof] = []
    with torch.random.fork_rng(devices=[]):
        specimen = draw(model, seed)
        for claim in CLAIMS:
            if (
                specimen.writes >= claim.of_writing
                and specimen.reads_source >= claim.of_source
                and specimen.only_attends >= claim.of_attending
            ):
                proofs.append(_try(claim, specimen, proofs))
    model.train(was_training)
    return proofs


def _try(claim: Claim, specimen: Specimen, earlier: list[Proof]) -> Proof:
    specimen.model.eval()
    torch.manual_seed(specimen.seed)
    try:
        violation, where = claim.measure(specimen)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # a model that cannot even be run with these sentences has the fault that is looked for, or another
        violation, where = float("inf"), f"{type(error).__name__}: {' '.join(str(error).split())}"
    proof = Proof(claim.name, claim.says, violation, claim.limit, where)
    if proof.passed:
        return Proof(claim.name, claim.says, violation, claim.limit)
    culprit = next((proof.name for proof in earlier if proof.name in claim.rests_on and proof.outcome == "fail"), None)
    return Proof(claim.name, claim.says, violation, claim.limit, where, culprit)
