"""Linear layers in eight bits: near the exact layer, and only where they were asked for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.native.library import library, why_absent
from dikkat.nn import MultiHeadAttention
from dikkat.nn.eight_bit import Gate, eight_bit_linear, eight_bit_product, eight_bit_products
from dikkat.nn.feed_forward import FeedForward
from dikkat.nn.few_rows import Projection, project
from dikkat.nn.residual import PreNormResidual


def gradients(product: Tensor, *of: Tensor) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    towards = torch.randn(product.shape, generator=generator)
    return list(torch.autograd.grad((product.float() * towards).sum(), of))


def distance(found: Tensor, exact: Tensor) -> float:
    return float((found.detach().double() - exact.detach().double()).norm() / exact.detach().double().norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_results_and_gradients_are_a_hundredth_away(bias: bool, dtype: torch.dtype) -> None:
    """One part in 254 at most is lost of the largest of a row; of normal numbers that is about 0.7 % of a product."""
    torch.manual_seed(0)
    x, weight = torch.randn(5, 60, 96), torch.randn(40, 96)
    given = [each.to(dtype).requires_grad_() for each in (x, weight, *((torch.randn(40),) if bias else ()))]
    wanted = [each.detach().double().requires_grad_() for each in given]
    found, exact = eight_bit_linear(*given), F.linear(*wanted)
    assert found.dtype == dtype
    assert 1e-3 < distance(found, exact) < 0.015
    for place, (ours, theirs) in enumerate(zip(gradients(found, *given), gradients(exact, *wanted), strict=True)):
        assert distance(ours, theirs) < 0.02
        if place == 2:
            # sums of rows are not rounded
            assert distance(ours, theirs) < (1e-5 if dtype == torch.float32 else 5e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rectified_it_is_the_layer_and_its_relu_to_the_bit(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(shape).to(dtype).requires_grad_() for shape in ((5, 60, 96), (70, 96), (70,)))
    found, apart = eight_bit_linear(x, weight, bias, rectifies=True), eight_bit_linear(x, weight, bias).relu()
    assert torch.equal(found, apart)
    assert 0.3 < float((found == 0).float().mean()) < 0.7
    for ours, theirs in zip(gradients(found, x, weight, bias), gradients(apart, x, weight, bias), strict=True):
        assert torch.equal(ours, theirs)


class Layers:
    """A feed-forward network in bfloat16, its input, and how often a ReLU's gradient was a pass of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        torch.manual_seed(0)
        self.layers = FeedForward(48, 96).bfloat16()
        self.x = torch.randn(3, 40, 48).bfloat16().requires_grad_()
        self.passes = 0
        stop = torch.ops.aten.threshold_backward

        def counted(*given: object) -> Tensor:
            self.passes += 1
            return stop(*given)

        monkeypatch.setattr(torch.ops.aten, "threshold_backward", counted)

    def learn(self) -> list[Tensor]:
        with eight_bit_products():
            return gradients(self.layers(self.x), self.x, *self.layers.parameters())


@pytest.mark.skipif(library() is None, reason=f"no native kernels: {why_absent()}")
def test_the_layer_behind_stops_the_gradient_of_the_relu_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Layers(monkeypatch)
    joined = network.learn()
    assert network.passes == 0
    monkeypatch.setattr(Gate, "is_of", lambda *_: False)
    for ours, theirs in zip(joined, network.learn(), strict=True):
        assert torch.equal(ours, theirs)
    assert network.passes == 1


def test_who_comes_between_the_layers_brings_the_pass_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook that lifts what the ReLU gave: gradients still stop where it gave zero, and only there."""
    network = Layers(monkeypatch)
    network.layers.inner.register_forward_hook(lambda _module, _given, output: output + 1.0)
    found = network.learn()
    assert network.passes == 1

    def exact(x: Tensor, w: Tensor, b: Tensor, v: Tensor, c: Tensor) -> Tensor:
        return F.linear(F.linear(x, w, b).relu() + 1.0, v, c)

    wanted = [each.detach().double().requires_grad_() for each in (network.x, *network.layers.parameters())]
    for ours, theirs in zip(found, gradients(exact(*wanted), *wanted), strict=True):
        # rounding moves a few entries across zero; a gate that is always open would be 0.7 away
        assert distance(ours, theirs) < 0.1


def test_a_gradient_that_was_changed_on_its_way_is_stopped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Layers(monkeypatch)
    hidden: list[Tensor] = []

    def change(_module: object, _given: object, output: Tensor) -> None:
        output.register_hook(lambda gradient: gradient + 1.0)
        hidden.append(output)

    network.layers.inner.register_forward_hook(change)
    with eight_bit_products():
        output = network.layers(network.x)
        of_bias = gradients(output, network.layers.inner.bias)[0]
    assert network.passes == 1
    flows = (hidden[0] > 0).flatten(0, 1).float()
    # the one that was added to every gradient counts where the ReLU let something through
    unchanged = Layers(monkeypatch).learn()[2]
    assert torch.allclose((of_bias - unchanged).float(), flows.sum(0), atol=1.0)


def test_a_gradient_of_another_use_is_stopped_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the ReLU gave is used once more; autograd adds that gradient, one everywhere, to the stopped one."""
    network = Layers(monkeypatch)
    hidden: list[Tensor] = []
    network.layers.inner.register_forward_hook(lambda _module, _given, output: hidden.append(output))
    with eight_bit_products():
        output = network.layers(network.x)
        loss = output.float().sum() + hidden[0].float().sum()
        of_bias = torch.autograd.grad(loss, network.layers.inner.bias, retain_graph=True)[0]
        alone = torch.autograd.grad(output.float().sum(), network.layers.inner.bias)[0]
    flows = (hidden[0] > 0).flatten(0, 1).float().sum(0)
    assert torch.allclose((of_bias - alone).float(), flows, atol=1.0)


def test_what_is_no_number_stays_none_behind_the_relu() -> None:
    x, weight = torch.randn(3, 32), torch.randn(8, 32)
    x[1, 4] = torch.nan
    found = eight_bit_linear(x, weight, rectifies=True)
    assert found[1].isnan().all()
    assert found[[0, 2]].isfinite().all()


def test_only_within_the_context_and_also_in_the_gradient_that_comes_after_it() -> None:
    layer, x = Projection(32, 16), torch.randn(2, 20, 32, requires_grad=True)
    exact = layer(x)
    assert eight_bit_product() is None
    with eight_bit_products():
        assert eight_bit_product() is not None
        rounded = layer(x)
        assert torch.equal(rounded, project(x, layer.weight, layer.bias))
    assert eight_bit_product() is None
    assert torch.equal(layer(x), exact)
    assert 0.0 < distance(rounded, exact) < 0.02
    assert not torch.equal(gradients(rounded, x)[0], gradients(exact, x)[0])


def test_an_error_within_it_ends_it() -> None:
    with pytest.raises(ZeroDivisionError), eight_bit_products():
        _ = 1 / 0
    assert eight_bit_product() is None


def test_only_gradients_that_are_asked_for_are_made() -> None:
    x, weight = torch.randn(4, 8), torch.randn(3, 8, requires_grad=True)
    found = eight_bit_linear(x, weight)
    found.sum().backward()
    assert x.grad is None
    assert weight.grad is not None


@pytest.mark.parametrize("cross", [False, True])
def test_attention_takes_part(cross: bool) -> None:
    """All its projections, also those of a part of the packed matrix."""
    attention, x, source = MultiHeadAttention(32, 4), torch.randn(2, 9, 32), torch.randn(2, 7, 32)
    arguments = (x, source) if cross else (x,)
    exact = attention(*arguments)
    with eight_bit_products():
        rounded = attention(*arguments)
    assert 1e-3 < distance(rounded, exact) < 0.05
    in_weight = attention.in_projection.weight
    assert distance(gradients(rounded, in_weight)[0], gradients(exact, in_weight)[0]) < 0.1


def test_a_block_learns_in_eight_bits() -> None:
    """Regression towards a fixed target falls as far as one can see, and for most of the way as fast as in float32."""

    def losses(eight_bit: bool) -> list[float]:
        torch.manual_seed(1)
        layer, residual = (
            torch.nn.Sequential(Projection(16, 64), torch.nn.ReLU(), Projection(64, 16)),
            PreNormResidual(16),
        )
        x, target, seen = torch.randn(4, 16, 16), torch.randn(4, 16, 16), []
        parameters = [*layer.parameters(), *residual.parameters()]
        optimizer = torch.optim.AdamW(parameters, lr=0.01)
        for _ in range(150):
            optimizer.zero_grad()
            if eight_bit:
                with eight_bit_products():
                    loss = (residual(x, layer) - target).square().mean()
            else:
                loss = (residual(x, layer) - target).square().mean()
            loss.backward()
            optimizer.step()
            seen.append(float(loss.detach()))
        return seen

    rounded, exact = losses(True), losses(False)
    assert max(rounded[-1], exact[-1]) < 0.005 * exact[0]
    half_way = next(step for step, loss in enumerate(exact) if loss < 0.1 * exact[0])
    assert abs(rounded[half_way] / exact[half_way] - 1) < 0.1
