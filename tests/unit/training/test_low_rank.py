"""Low-rank updates: the gradient of the factors is autograd's, and only what they may change changes."""

from __future__ import annotations

import torch
from tests.unit.training.toy import toy_model

from dikkat.config import TrainingConfig
from dikkat.training.low_rank import SCALE, LowRankParameters, trained_parameters
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters


def moved(rank: int = 3) -> LowRankParameters:
    """Factors that are no longer those of the beginning."""
    flat = LowRankParameters(toy_model(), rank, seed=5)
    flat.master += torch.randn(flat.master.shape, generator=torch.Generator().manual_seed(1))
    return flat


def factors(flat: LowRankParameters) -> dict[str, torch.Tensor]:
    return {span.name: span.of(flat.master) for span in flat.spans}


def test_training_begins_with_the_weights_that_are_there() -> None:
    model = toy_model()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    flat = LowRankParameters(model, 2, seed=5)
    whole = flat.whole(flat.master)
    assert whole.keys() == before.keys()
    assert all(torch.equal(whole[name], tensor) for name, tensor in before.items())
    assert flat.master.numel() < flat.size == sum(tensor.numel() for tensor in before.values())


def test_the_model_computes_with_the_sum_and_its_gradient_is_that_of_autograd() -> None:
    flat, base = moved(), dict(toy_model().named_parameters())
    with flat.collect_gradients():
        sum((parameter.double() ** 3).sum() for parameter in flat.model.parameters()).backward()  # type: ignore[union-attr]
    wanted = {name: value.detach().double().requires_grad_() for name, value in factors(flat).items()}
    matrices = {name.removesuffix(".up") for name in wanted if name.endswith(".up")}
    assert matrices == {name for name, tensor in base.items() if tensor.dim() == 2 and ".blocks." in name}
    sums = [base[name].detach().double() + SCALE * wanted[f"{name}.up"] @ wanted[f"{name}.down"] for name in matrices]
    sum((one**3).sum() for one in sums).backward()  # type: ignore[union-attr]
    for span in flat.spans:
        gradient = wanted[span.name].grad
        assert gradient is not None
        # of sums of float32 whose addends cancel: to some units of the last place of the largest
        rounding = 1e-6 * float(gradient.abs().max())
        torch.testing.assert_close(span.of(flat.gradient).double(), gradient, rtol=1e-5, atol=rounding, msg=span.name)


def test_validation_and_saving_see_the_matrices_merged() -> None:
    flat, base = moved(), {name: value.detach().clone() for name, value in toy_model().named_parameters()}
    whole, by_name = flat.whole(flat.master), factors(flat)
    for name, tensor in base.items():
        update = SCALE * by_name[f"{name}.up"] @ by_name[f"{name}.down"] if f"{name}.up" in by_name else 0.0
        torch.testing.assert_close(whole[name], tensor + update)
    with flat.swapped(flat.master, torch.float32):
        assert all(torch.equal(parameter, whole[name]) for name, parameter in flat.model.named_parameters())


def test_an_optimizer_step_reaches_the_model() -> None:
    flat = trained_parameters(toy_model(), config := TrainingConfig(low_rank=2, optimizer="muon"), torch.float32)
    optimizer, losses = Optimizer(flat, config), []
    for update in range(1, 9):
        with flat.collect_gradients():
            loss = sum((part**2).sum() for part in flat.model.parameters() if part.dim() == 2)
            loss.backward()  # type: ignore[union-attr]
        losses.append(float(loss.detach()))  # type: ignore[union-attr]
        optimizer.step(flat.gradient, update, rate=1.0)
    assert losses[-1] < losses[0]


def test_without_a_rank_all_weights_are_trained() -> None:
    assert type(trained_parameters(toy_model(), TrainingConfig(), torch.float32)) is FlatParameters
