"""The checks of the doctor, in the order of their dependencies, and the examination that runs them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from dikkat.explain.doctor.finiteness import not_finite, without_gradient
from dikkat.explain.doctor.proof import Proof
from dikkat.explain.doctor.rows import masked_rows_at_work, uneven_rows
from dikkat.explain.doctor.specimen import ExaminableModel, Specimen, draw
from dikkat.explain.doctor.steps import cached_steps_difference, misplaced_steps
from dikkat.explain.doctor.visibility import (
    changed_by_batch,
    changed_by_padding,
    met_outside_attention,
    seen_future,
    seen_future_in_training,
)

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
    Claim("no NaN", "weights, logits and gradients are finite in float32 and bfloat16", not_finite, 0.0),
    Claim(
        "positions meet only in attention",
        "with attention silenced, a token changes nothing at another position",
        met_outside_attention,
        1e-6,
        ("no NaN",),
        of_attending=True,
    ),
    Claim(
        "no future in evaluation",
        "later target tokens do not change earlier logits",
        seen_future,
        1e-6,
        ("no NaN", "positions meet only in attention"),
        of_writing=True,
    ),
    Claim(
        "no future in training",
        "later target tokens do not change earlier logits, with dropout on and drawn alike",
        seen_future_in_training,
        1e-6,
        ("no NaN", "positions meet only in attention"),
        of_writing=True,
    ),
    Claim(
        "padding changes nothing",
        "neither more padding nor what stands behind the mask changes a logit (float64)",
        changed_by_padding,
        1e-6,
        ("no NaN", "positions meet only in attention"),
        of_source=True,
    ),
    Claim(
        "batch changes nothing",
        "a sentence has the same logits alone and among others",
        changed_by_batch,
        1e-5,
        ("no NaN",),
    ),
    Claim(
        "positions advance",
        "at step t the first decoder layer weighs a repeated token as teacher forcing does at t",
        misplaced_steps,
        1e-5,
        ("no NaN", "positions meet only in attention"),
        of_writing=True,
        of_attending=True,
    ),
    Claim(
        "step = teacher forcing",
        "cached steps of two hypotheses that are exchanged give the logits of teacher forcing",
        cached_steps_difference,
        1e-5,
        (
            "no NaN",
            "positions meet only in attention",
            "no future in evaluation",
            "padding changes nothing",
            "positions advance",
        ),
        of_writing=True,
    ),
    Claim(
        "fully masked rows",
        "a query that may attend to nothing gives zero, with finite gradients",
        masked_rows_at_work,
        1e-6,
        ("no NaN",),
    ),
    Claim(
        "weights sum to one",
        "every row of weights sums to one, as recorded and as used; none is negative",
        uneven_rows,
        1e-5,
        ("no NaN",),
    ),
    Claim("every parameter learns", "a training step has a gradient for each parameter", without_gradient, 0.0),
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
