"""What the tests of the doctor examine, and what is read off an examination."""

from __future__ import annotations

from itertools import cycle
from typing import Literal, get_args, get_origin

from tests.unit.models.small import small_model

from dikkat.config import ModelConfig
from dikkat.explain.doctor import CLAIMS, Proof, examine
from dikkat.explain.doctor.specimen import draw
from dikkat.models.encoder_decoder import EncoderDecoder

NOT_SOUND: dict[str, object] = {"selection": "argmax"}
"""With pre-norm, which truly leaves parameters untrained: see `test_a_choice_that_no_training_reaches_is_told`."""


def dropping_model() -> EncoderDecoder:
    """With dropout everywhere, as when it is trained."""
    return small_model(dropout=0.1, attention_dropout=0.1)


def named(proofs: list[Proof], outcome: str) -> set[str]:
    return {proof.name for proof in proofs if proof.outcome == outcome}


def diagnosis(model: EncoderDecoder) -> tuple[set[str], set[str]]:
    """Which proofs fail, and which follow from those."""
    proofs = examine(model)
    return named(proofs, "fail"), named(proofs, "follows")


def violation(model: EncoderDecoder, name: str) -> Proof:
    """One proof alone, with nothing else to blame."""
    claim = next(claim for claim in CLAIMS if claim.name == name)
    result, where = claim.measure(draw(model.eval(), seed=1))
    return Proof(name, claim.says, result, claim.limit, where)


def offered() -> list[dict[str, object]]:
    """Each choice by name or by yes and no that the configuration offers, whatever is added to it, and some numbers.

    Pre and post norm in turn.
    """
    choices: list[dict[str, object]] = [
        {"num_heads": 1},
        {"num_kv_heads": 2},
        {"num_kv_heads": 1, "positions": "rotary"},
        {"head_dim": 5, "attention_bias": False},
        {"inverse_temperature": 0.7},
        {"attention_window": 0},
        {"attention_window": 2},
        {"attention_window": 1, "global_tokens": 2, "num_kv_heads": 2},
        {"dropout": 0.3, "attention_dropout": 0.3},
    ]
    for name, field in ModelConfig.model_fields.items():
        values = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        values = (False, True) if field.annotation is bool else values
        choices += [{name: value} for value in values]
    placements = cycle(("pre", "post"))
    return [{"norm_placement": next(placements), **choice} for choice in choices if choice != NOT_SOUND]
