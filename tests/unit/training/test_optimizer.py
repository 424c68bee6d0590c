"""AdamW against `torch.optim`, Muon against numpy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.unit.training.toy import toy_model
from torch import Tensor

from dikkat.config import TrainingConfig
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters

Matrix = NDArray[np.float64]
RATES = (1.0, 0.7, 0.3, 0.9, 0.1, 0.5)


def optimizer(**settings: Any) -> Optimizer:
    return Optimizer(FlatParameters(toy_model()), TrainingConfig(**{"optimizer": "adamw", **settings}))


def gradients(like: Tensor, scale: float) -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(like.shape, generator=generator) * scale for _ in RATES]


@pytest.mark.parametrize("scale", [1e-4, 1.0], ids=["not clipped", "clipped"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adamw_is_that_of_torch(scale: float, weight_decay: float) -> None:
    ours = optimizer(learning_rate=0.01, weight_decay=weight_decay, clip_norm=0.5, beta1=0.8, beta2=0.95)
    theirs = torch.nn.Parameter(ours.parameters.master.clone())
    adamw = torch.optim.AdamW([theirs], betas=(0.8, 0.95), eps=1e-9, weight_decay=weight_decay)
    for update, (rate, gradient) in enumerate(zip(RATES, gradients(theirs, scale), strict=True), start=1):
        theirs.grad = gradient.clone()
        norm = torch.nn.utils.clip_grad_norm_([theirs], 0.5)
        assert (float(norm) > 0.5) == (scale == 1.0)
        adamw.param_groups[0]["lr"] = rate * 0.01
        adamw.step()
        assert ours.step(gradient.clone(), update, rate) == pytest.approx(float(norm), rel=1e-6)
        assert float((ours.parameters.master - theirs).detach().abs().max()) <= 1e-6


def test_clipping_keeps_the_gradient_up_to_the_limit() -> None:
    """After one step the first moment is (1 - beta1) times the clipped gradient."""
    ours = optimizer(clip_norm=2.0, beta1=0.9)
    gradient = torch.randn(ours.parameters.master.shape)
    assert ours.step(gradient.clone(), 1, 1.0) == pytest.approx(float(gradient.norm()))
    assert float(ours.first.norm()) == pytest.approx(0.1 * 2.0, rel=1e-5)
    gentle = optimizer(clip_norm=2.0, beta1=0.9)
    gentle.step(gradient / gradient.norm(), 1, 1.0)
    assert float(gentle.first.norm()) == pytest.approx(0.1, rel=1e-5)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("asking", [True, False], ids=["as a processor", "as a GPU"])
def test_a_gradient_that_is_not_finite_changes_nothing(kind: str, bad: float, asking: bool) -> None:
    ours = optimizer(optimizer=kind)

    def step(gradient: Tensor, update: int) -> Tensor:
        if asking:
            return ours.step(gradient, update, 1.0)
        ours.update_if_finite(gradient, update, 1.0, norm := gradient.norm())
        return norm

    good = gradients(ours.parameters.master, 1.0)
    step(good[0], 1)
    before = [ours.parameters.master.clone(), *(tensor.clone() for tensor in ours.state().values())]
    broken = good[1].clone()
    broken[17] = bad
    assert not step(broken, 2).isfinite()
    after = [ours.parameters.master, *ours.state().values()]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    twin = optimizer(optimizer=kind)
    twin.parameters.master.copy_(before[0])
    twin.load_state(dict(zip(twin.state(), before[1:], strict=True)))
    assert step(good[2].clone(), 3).isfinite()
    twin.step(good[2], 3, 1.0)
    assert not torch.equal(ours.parameters.master, before[0])
    assert torch.equal(ours.parameters.master, twin.parameters.master)
    assert torch.equal(ours.parameters.working, ours.parameters.master)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_step_reaches_the_copy_that_the_model_computes_with(kind: str) -> None:
    flat = FlatParameters(model := toy_model(), torch.bfloat16)
    config = TrainingConfig.model_validate({"optimizer": kind, "learning_rate": 0.1})
    Optimizer(flat, config).step(torch.randn(flat.master.shape), 1, 1.0)
    assert torch.equal(flat.working, flat.master.to(torch.bfloat16))
    assert torch.equal(model.output_weight, flat.named(flat.working)["output_weight"])


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_state_goes_on_exactly(kind: str) -> None:
    first, second = optimizer(optimizer=kind), optimizer(optimizer=kind)
    steps = gradients(first.parameters.master, 1.0)
    for update, gradient in enumerate(steps, start=1):
        first.step(gradient.clone(), update, 0.5)
        if update == 3:
            second.load_state({name: tensor.clone() for name, tensor in first.state().items()})
            second.parameters.master.copy_(first.parameters.master)
        if update > 3:
            second.step(gradient.clone(), update, 0.5)
    assert torch.equal(first.parameters.master, second.parameters.master)


def newton_schulz(matrix: Matrix) -> Matrix:
    """Five iterations of the odd quintic in float64, written from the paper's coefficients."""
    x = matrix / np.linalg.norm(matrix)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x - 4.7750 * gram @ x + 2.0315 * gram @ gram @ x
    return x


def test_muon_updates_are_those_of_a_float64_twin() -> None:
    ours = optimizer(optimizer="muon", matrix_learning_rate=0.02, weight_decay=0.1, learning_rate=0.01)
    flat = ours.parameters
    name = next(span.name for span in flat.spans if span.shape == (24, 16) and span.name.startswith("encoder"))
    momentum: Matrix = np.zeros((24, 16))
    for update, (rate, gradient) in enumerate(zip(RATES, gradients(flat.master, 1.0), strict=True), start=1):
        start = flat.named(flat.master)[name].double().numpy()
        wanted: Matrix = flat.named(gradient)[name].double().numpy()
        momentum = 0.95 * momentum + wanted
        direction = newton_schulz(wanted + 0.95 * momentum)
        step = -rate * 0.02 * 0.2 * np.sqrt(24) * direction
        twin: Matrix = start * (1 - rate * 0.02 * 0.1) + step
        ours.step(gradient.clone(), update, rate)
        after = flat.named(flat.master)[name].double().numpy()
        assert np.linalg.norm(after - twin) <= 0.03 * np.linalg.norm(step), "bfloat16 products, five times over"


def test_muon_leaves_embeddings_and_vectors_to_adamw() -> None:
    """With a gradient under the limit, what is not a matrix moves as in a run of AdamW alone."""
    settings = {"learning_rate": 0.01, "clip_norm": 1e6, "weight_decay": 0.1}
    muon, adamw = optimizer(optimizer="muon", **settings), optimizer(**settings)
    for update, (rate, gradient) in enumerate(zip(RATES, gradients(muon.parameters.master, 1.0), strict=True), start=1):
        muon.step(gradient.clone(), update, rate)
        adamw.step(gradient.clone(), update, rate)
    ours, theirs = (item.parameters.named(item.parameters.master) for item in (muon, adamw))
    for name, tensor in ours.items():
        is_matrix = tensor.dim() == 2 and name != "output_weight"  # which is the tied embedding
        assert torch.allclose(tensor, theirs[name], atol=1e-6) != is_matrix, name
