"""The chunked smoothed cross-entropy against `torch.nn.functional.cross_entropy` in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat import kernels
from dikkat.kernels import cross_entropy, library
from dikkat.kernels.cross_entropy import smoothed_cross_entropy
from dikkat.kernels.int8_products import product

WIDTH, VOCABULARY = 12, 37
CHUNKS = {"one chunk": 1 << 21, "many even chunks": 16 * VOCABULARY, "smaller than 16 rows": 1}

needs_kernels = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")


def cross_entropy_of_the_paper(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Compute `smoothed_cross_entropy` as it is written in the paper, with all logits in memory."""
    log_probabilities = (hidden @ weight.t()).log_softmax(dim=-1)
    likelihood = -log_probabilities.gather(1, targets[:, None])[:, 0]
    loss = (1.0 - smoothing) * likelihood - smoothing * log_probabilities.mean(dim=-1)
    return loss.sum(), likelihood.sum()


def random_case(rows: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states (N, D), output matrix (V, D) and targets (N,); logits of a spread of about ten."""
    generator = torch.Generator().manual_seed(rows)
    hidden = torch.randn(rows, WIDTH, generator=generator).mul_(1.5).to(dtype).requires_grad_()
    weight = torch.randn(VOCABULARY, WIDTH, generator=generator).to(dtype).requires_grad_()
    return hidden, weight, torch.randint(VOCABULARY, (rows,), generator=generator)


def reference(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Summed loss and its gradients, by torch in float64."""
    exact_hidden, exact_weight = (x.detach().double().requires_grad_() for x in (hidden, weight))
    logits = exact_hidden @ exact_weight.t()
    loss = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    loss.backward()
    assert exact_hidden.grad is not None
    assert exact_weight.grad is not None
    return loss.detach(), exact_hidden.grad, exact_weight.grad


def relative_error(ours: Tensor | None, exact: Tensor) -> float:
    assert ours is not None
    return float((ours.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("rows", [1, 16, 48, 50], ids=lambda rows: f"{rows}rows")
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("chunk", CHUNKS.values(), ids=CHUNKS)
def test_loss_and_gradients_are_those_of_torch(
    monkeypatch: pytest.MonkeyPatch, chunk: int, smoothing: float, rows: int
) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK_ENTRIES", chunk)
    hidden, weight, targets = random_case(rows)
    loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, smoothing)
    loss.backward()
    exact, hidden_gradient, weight_gradient = reference(hidden, weight, targets, smoothing)
    assert float(loss.detach()) == pytest.approx(float(exact), rel=1e-5)
    assert relative_error(hidden.grad, hidden_gradient) <= 1e-5
    assert relative_error(weight.grad, weight_gradient) <= 1e-5
    plain, _, _ = reference(hidden, weight, targets, 0.0)
    assert float(likelihood) == pytest.approx(float(plain), rel=1e-5)


def test_the_readable_reference_is_torch_in_float64() -> None:
    hidden, weight, targets = (x.detach() for x in random_case(50))
    loss, likelihood = cross_entropy_of_the_paper(hidden.double(), weight.double(), targets, 0.1)
    assert float(loss) == pytest.approx(float(reference(hidden, weight, targets, 0.1)[0]), rel=1e-12)
    assert float(likelihood) == pytest.approx(float(reference(hidden, weight, targets, 0.0)[0]), rel=1e-12)


def in_eight_bits(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Loss and gradients of 50 rows of twelve entries."""
    hidden, weight, targets = random_case(50)
    torch.manual_seed(seed)
    loss, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1, products="int8")
    loss.backward()
    assert hidden.grad is not None
    assert weight.grad is not None
    return loss.detach(), hidden.grad, weight.grad


@pytest.mark.parametrize("rows", [1024, 20])
@pytest.mark.parametrize("backend", [pytest.param("native", marks=needs_kernels), "torch"])
def test_in_eight_bits_the_loss_is_near_and_the_mean_of_sampled_gradients_is(
    rows: int, backend: kernels.Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean is the exact gradient at rounded logits: the error of 64 draws is an eighth of that of one."""
    monkeypatch.setattr(cross_entropy, "SAMPLED_ROWS", rows)
    hidden, weight, targets = (x.detach() for x in random_case(50))
    logits = product(hidden, weight).double().requires_grad_()
    F.cross_entropy(logits, targets, label_smoothing=0.1, reduction="sum").backward()
    assert logits.grad is not None
    exact = (logits.grad @ weight.double(), logits.grad.t() @ hidden.double())
    with kernels.use(backend):
        samples = [in_eight_bits(seed) for seed in range(64)]
    wanted, *_ = reference(hidden, weight, targets, 0.1)
    assert 1e-6 < abs(float(samples[0][0]) / float(wanted) - 1) < 5e-3
    for index, gradient in enumerate(exact, 1):
        error = sum(relative_error(sample[index], gradient) for sample in samples) / len(samples)
        assert 1e-3 < error < 0.03
        assert relative_error(torch.stack([sample[index] for sample in samples]).mean(0), gradient) < error / 6


def test_in_eight_bits_the_samples_are_those_of_the_seed() -> None:
    first, again, other = in_eight_bits(1), in_eight_bits(1), in_eight_bits(2)
    assert all(map(torch.equal, first, again))
    assert torch.equal(first[0], other[0])
    assert not torch.equal(first[1], other[1])
    assert not torch.equal(first[2], other[2])


def test_each_chunk_is_used_and_the_last_may_be_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """50 rows in chunks of 16: the sums over each chunk alone add up to the sum over all."""
    monkeypatch.setattr(cross_entropy, "CHUNK_ENTRIES", 1)
    hidden, weight, targets = random_case(50)
    whole, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    parts = [
        float(smoothed_cross_entropy(hidden[rows], weight, targets[rows], 0.1)[0].detach())
        for rows in (slice(0, 16), slice(16, 32), slice(32, 48), slice(48, 50))
    ]
    assert min(parts) > 0
    assert float(whole.detach()) == pytest.approx(sum(parts), rel=1e-6)


def test_gradient_follows_the_scale_of_what_comes_after() -> None:
    hidden, weight, targets = random_case(20)
    loss, _ = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    (loss * 2.5 / 20).backward()
    _, hidden_gradient, weight_gradient = reference(hidden, weight, targets, 0.1)
    assert relative_error(hidden.grad, hidden_gradient * 2.5 / 20) <= 1e-5
    assert relative_error(weight.grad, weight_gradient * 2.5 / 20) <= 1e-5


def test_gradient_joins_that_of_a_matrix_used_elsewhere_too() -> None:
    """Tied embeddings: the same matrix makes the hidden states and the logits."""
    _, weight, targets = random_case(20)
    smoothed_cross_entropy(weight[targets] * 2.0, weight, targets, 0.1)[0].backward()
    exact = weight.detach().double().requires_grad_()
    F.cross_entropy(exact[targets] * 2.0 @ exact.t(), targets, label_smoothing=0.1, reduction="sum").backward()
    assert exact.grad is not None
    assert relative_error(weight.grad, exact.grad) <= 1e-5


def test_bfloat16_stays_within_its_rounding() -> None:
    hidden, weight, targets = random_case(200, torch.bfloat16)
    loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    assert loss.dtype == likelihood.dtype == torch.float32
    loss.backward()
    exact, hidden_gradient, weight_gradient = reference(hidden, weight, targets, 0.1)
    assert float(loss.detach()) == pytest.approx(float(exact), rel=2e-3)
    assert hidden.grad is not None
    assert hidden.grad.dtype == torch.bfloat16
    assert relative_error(hidden.grad, hidden_gradient) <= 2e-2
    assert relative_error(weight.grad, weight_gradient) <= 2e-2


def test_huge_logits_stay_finite() -> None:
    """The largest logit is taken off before the exponential."""
    hidden, weight, targets = random_case(8)
    big = (hidden * 1000).detach().requires_grad_()
    loss, likelihood = smoothed_cross_entropy(big, weight, targets, 0.1)
    loss.backward()
    exact, _, _ = reference(big, weight, targets, 0.1)
    assert float(loss.detach()) == pytest.approx(float(exact), rel=1e-5)
    assert torch.isfinite(likelihood)
    assert big.grad is not None
    assert bool(torch.isfinite(big.grad).all())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradient_the_values_are_the_same(mode: type[torch.no_grad]) -> None:
    hidden, weight, targets = random_case(50)
    with_gradient = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    with mode():
        without = smoothed_cross_entropy(hidden, weight, targets, 0.1)
    assert [float(x) for x in without] == [float(x.detach()) for x in with_gradient]
    assert not without[0].requires_grad


def test_likelihood_carries_no_gradient() -> None:
    loss, likelihood = smoothed_cross_entropy(*random_case(5), 0.1)
    assert loss.requires_grad
    assert not likelihood.requires_grad


def test_no_rows_have_no_loss() -> None:
    hidden, weight, targets = random_case(1)
    loss, likelihood = smoothed_cross_entropy(hidden[:0], weight, targets[:0], 0.1)
    loss.backward()
    assert (float(loss.detach()), float(likelihood)) == (0.0, 0.0)
    assert weight.grad is not None
    assert not weight.grad.any()
