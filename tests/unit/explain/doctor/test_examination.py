"""No false alarm on any model that a configuration offers; nothing of the patient is changed."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.unit.explain.doctor.patients import NOT_SOUND, diagnosis, dropping_model, named, offered, violation
from tests.unit.models.small import small_model
from torch import Tensor

from dikkat.explain.doctor import CLAIMS, examine
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat_runtime.errors import UsageError

ALL = {claim.name for claim in CLAIMS}
OF_ATTENTION_ALONE = {"positions meet only in attention", "positions advance"}


@pytest.mark.parametrize("setting", offered(), ids=str)
def test_a_sound_model_of_any_kind_passes(setting: dict[str, object]) -> None:
    proofs = examine(small_model(**setting))
    expected = ALL - OF_ATTENTION_ALONE if setting.get("decoder_memory") == "ssru" else ALL
    assert named(proofs, "pass") == expected, [proof for proof in proofs if not proof.passed]


@pytest.mark.parametrize("norm_placement", ["pre", "post"])
@pytest.mark.parametrize("seed", range(4))
def test_no_seed_raises_a_false_alarm(seed: int, norm_placement: str) -> None:
    proofs = examine(small_model(norm_placement=norm_placement, dropout=0.1), seed)
    assert named(proofs, "pass") == ALL, [proof for proof in proofs if not proof.passed]


def test_a_choice_that_no_training_reaches_is_told() -> None:
    """A true finding, not a false alarm: one-hot weights have no gradient, so what only compares is never trained.

    With pre-norm that is the norm before the query of each cross-attention.
    """
    model = small_model(norm_placement="pre", **NOT_SOUND)
    assert diagnosis(model) == ({"every parameter learns"}, set())
    result = violation(model, "every parameter learns")
    # weight and bias in each of two decoder blocks; in self-attention the values share the norm
    assert (result.violation, result.where) == (4.0, "decoder.blocks.0.cross_residual.norm.weight")


def test_post_norm_lets_the_same_choice_learn() -> None:
    """There each norm stands in the residual stream, past every comparison."""
    assert diagnosis(small_model(norm_placement="post", **NOT_SOUND)) == (set(), set())


@pytest.mark.parametrize(
    "size",
    [
        {"model_dim": 4, "num_heads": 1, "feed_forward_dim": 4, "encoder_layers": 1, "decoder_layers": 1},
        {"model_dim": 96, "num_heads": 6, "feed_forward_dim": 200, "encoder_layers": 4, "decoder_layers": 3},
        {"vocab_size": 4},
        {"vocab_size": 3000},
        {"positions": "learned", "max_positions": 10},
    ],
    ids=str,
)
def test_no_size_raises_a_false_alarm(size: dict[str, object]) -> None:
    proofs = examine(small_model(**size))
    assert named(proofs, "pass") == ALL, [proof for proof in proofs if not proof.passed]


def test_too_few_learned_positions_are_no_fault_of_the_model() -> None:
    """One line, instead of proofs that fail because the doctor's own sentences do not fit."""
    model = small_model(positions="learned", max_positions=9)
    with pytest.raises(UsageError, match=r"sentences of 10 tokens, .* only max_positions = 9; .* at least 10"):
        examine(model)


def test_large_logits_are_no_false_alarm() -> None:
    """A trained model is surer than an untrained one; rounding grows with its logits."""
    model = small_model(tie_embeddings=False)
    with torch.no_grad():
        model.output_weight.mul_(100.0)
    assert diagnosis(model) == (set(), set())


def test_every_claim_rests_on_earlier_ones_only() -> None:
    names = [claim.name for claim in CLAIMS]
    assert len(set(names)) == len(names)
    for index, claim in enumerate(CLAIMS):
        assert set(claim.rests_on) <= set(names[:index])


@pytest.mark.parametrize("training", [True, False])
def test_the_patient_is_left_as_it_was(training: bool) -> None:
    model = dropping_model().train(training)
    before = copy.deepcopy(model.state_dict())
    model.output_weight.grad = torch.ones_like(model.output_weight)
    generator = torch.random.get_rng_state()
    examine(model)
    assert model.training is training
    assert torch.equal(torch.random.get_rng_state(), generator)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(model.output_weight.grad, torch.ones_like(model.output_weight))
    assert all(parameter.grad is None for parameter in model.parameters() if parameter is not model.output_weight)


def test_a_model_that_cannot_be_run_fails_with_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(self: EncoderDecoder, tokens: Tensor, cache: object) -> Tensor:
        raise RuntimeError("this model\ncannot step")

    monkeypatch.setattr(EncoderDecoder, "step", step)
    first = examine(small_model())[0]
    assert (first.outcome, first.violation) == ("fail", float("inf"))
    assert first.where == "RuntimeError: this model cannot step"


def test_two_faults_are_both_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dikkat.models.encoder_decoder.key_mask", lambda real: torch.ones_like(real)[:, None, None])
    model = small_model()
    model.register_parameter("stray", torch.nn.Parameter(torch.ones(2)))
    assert diagnosis(model)[0] == {"padding changes nothing", "every parameter learns"}
