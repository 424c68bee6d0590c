"""Faults of the seed documents in projections, dropout, positions and layers that have no test where the part lives.

Every test states a property, shows that the faulty form, written out here, lacks it, and that ours has it. The others
stand beside the part (docs/checklist.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from tests.unit.models.small import config, real_tokens, small_model, some_tokens
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.models.factory import build_model
from dikkat.nn import Dropout, EncoderBlock, LearnedPositions, MultiHeadAttention, SinusoidalPositions
from dikkat.nn.blocks import DecoderBlock
from dikkat.nn.cache import CrossAttentionCache, SelfAttentionCache
from dikkat.nn.positions import sinusoids

# F10, F11, F15, F17: the projections ----------------------------------------------------------------------------------


def rotation(width: int) -> nn.Module:
    return nn.utils.parametrizations.orthogonal(nn.Linear(width, width, bias=False))


def our_projection(width: int) -> nn.Module:
    """The query projection of an attention of ours, as a module of its own."""
    module = MultiHeadAttention(width, 1, query_dim=width, key_dim=width + 1, value_dim=width, bias=False)
    return module.query_projection


@pytest.mark.seed("F10")
def test_a_learned_projection_is_any_linear_map_and_not_a_rotation() -> None:
    """To double one coordinate and forget another is easily learned by ours; a rotation keeps every length."""

    def learns_to_stretch_and_forget(build: Callable[[int], nn.Module]) -> bool:
        torch.manual_seed(0)
        projection, x = build(4), torch.randn(64, 4)
        wanted = x * torch.tensor([2.0, 1.0, 0.5, 0.0])
        optimizer = torch.optim.Adam(projection.parameters(), lr=0.05)
        for _ in range(200):
            loss = F.mse_loss(projection(x), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item() < 1e-3

    assert not learns_to_stretch_and_forget(rotation)
    assert learns_to_stretch_and_forget(our_projection)
    weight = small_model().encoder.blocks[0].self_attention.in_projection.weight[:16]  # type: ignore[union-attr, index]
    assert (weight @ weight.T - torch.eye(16)).abs().max() > 0.1
    # orthogonal by option: PyTorch's parametrization takes our attention as it is
    module = MultiHeadAttention(8, 2, bias=False)
    nn.utils.parametrizations.orthogonal(module.out_projection)
    x = torch.randn(5, 8)
    torch.testing.assert_close(module.out_projection(x).norm(dim=-1), x.norm(dim=-1))


class DividedHeads(nn.Module):
    """Knows one width of a head only: the model's divided by the number of heads."""

    def __init__(self, model_dim: int, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.head_dim = model_dim // num_heads
        self.fused, self.joined = 3 * num_heads * self.head_dim, num_heads * self.head_dim


class OurHeads(nn.Module):
    def __init__(self, model_dim: int, num_heads: int, head_dim: int) -> None:
        super().__init__()
        module = MultiHeadAttention(model_dim, num_heads, head_dim=head_dim)
        self.fused, self.joined = module.in_projection.out_features, module.out_projection.in_features


@pytest.mark.seed("F11")
def test_heads_are_as_wide_as_the_formula_or_as_the_code_says() -> None:
    """The formula has h matrices of the full width d, fused R^{3hd}, joined by W in R^{d x hd}; the code has d / h."""

    def is_so(build: type[DividedHeads] | type[OurHeads], head_dim: int) -> bool:
        heads = build(8, 4, head_dim)
        return (heads.fused, heads.joined) == (3 * 4 * head_dim, 4 * head_dim)

    assert is_so(DividedHeads, 2)
    assert not is_so(DividedHeads, 8)
    assert is_so(OurHeads, 2)
    assert is_so(OurHeads, 8)


class PlainNumbers(nn.Module):
    """Random matrices that no optimizer knows of; the data itself is the query."""

    def __init__(self) -> None:
        super().__init__()
        self.key_weight, self.value_weight = torch.rand(4, 4), torch.rand(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x @ self.key_weight, x @ self.value_weight)

    def weights(self) -> list[Tensor]:
        return [self.key_weight, self.value_weight]


class ByParameter(nn.Module):
    """The first form of the book: three `nn.Parameter`."""

    def __init__(self) -> None:
        super().__init__()
        self.three = nn.ParameterList(nn.Parameter(torch.rand(4, 4)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(*(x @ weight for weight in self.three))

    def weights(self) -> list[Tensor]:
        return list(self.three)


class ByLinear(nn.Module):
    """The second form of the book, and ours: `nn.Linear`."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(4, 1, query_dim=4, key_dim=4, value_dim=4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x)

    def weights(self) -> list[Tensor]:
        return list(self.attention.in_projection.weight.split(4))


Projected = type[PlainNumbers] | type[ByParameter] | type[ByLinear]


def moved(kind: Projected) -> list[bool]:
    """Which of its projections one step of training changes."""
    module = kind()
    before = [weight.detach().clone() for weight in module.weights()]
    x = torch.randn(2, 5, 4)
    optimizer = torch.optim.SGD([*module.parameters(), torch.zeros(1, requires_grad=True)], lr=0.1)
    loss = (module(x) - 1).square().sum()
    if loss.requires_grad:
        loss.backward()
    optimizer.step()
    return [not torch.equal(old, new) for old, new in zip(before, module.weights(), strict=True)]


@pytest.mark.seed("F15")
def test_linear_and_parameter_are_both_random_and_both_trained() -> None:
    def is_random(kind: Projected) -> bool:
        return not torch.equal(kind().weights()[0], kind().weights()[0])

    assert is_random(PlainNumbers)
    assert not any(moved(PlainNumbers))
    for kind in (ByParameter, ByLinear):
        assert is_random(kind)
        assert all(moved(kind))


@pytest.mark.seed("F17")
def test_the_query_has_a_trained_matrix_like_key_and_value() -> None:
    assert moved(PlainNumbers) == [False, False], "no query matrix, and two that stay as they were drawn"
    assert moved(ByLinear) == [True, True, True]
    model = small_model()
    model(some_tokens(2, 5), some_tokens(2, 6), real_tokens([5, 3], 5)).square().sum().backward()
    for module in (part for part in model.modules() if isinstance(part, MultiHeadAttention)):
        gradient = module.in_projection.weight.grad
        assert gradient is not None
        assert all(part.abs().max() > 0 for part in gradient.split(module.splits))


# F25, F28, F30, F31: dropout, positions, layers -----------------------------------------------------------------------


@pytest.mark.seed("F25")
def test_what_is_promised_of_dropout_is_rate_and_scale_and_no_mask() -> None:
    """A seeded print is one generator's; two right implementations differ in it and agree in what counts."""

    def unscaled(x: Tensor) -> Tensor:
        return x * (torch.rand_like(x) >= 0.5)

    def rate_and_scale(drop: Callable[[Tensor], Tensor]) -> bool:
        torch.manual_seed(123)
        result = drop(torch.ones(400, 400))
        rate = (result == 0).float().mean().item()
        return abs(rate - 0.5) < 0.01 and set(result.unique().tolist()) == {0.0, 2.0}

    torchs, ours = nn.Dropout(0.5), Dropout(0.5)
    masks = []
    for drop in (torchs, ours):
        torch.manual_seed(123)
        masks.append(drop(torch.ones(6, 6)))
    assert not torch.equal(*masks), "a test of the mask would refuse one of two right forms"
    assert not rate_and_scale(unscaled)
    assert rate_and_scale(torchs)
    assert rate_and_scale(ours)


class LearnedSinusoids(nn.Module):
    """What the seed's sentence would make of the positions: a pattern that training changes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(sinusoids(64, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]]


@pytest.mark.seed("F28")
def test_sinusoidal_positions_are_fixed_unless_learned_ones_are_chosen() -> None:
    def stays_as_it_was(build: Callable[[int], nn.Module]) -> bool:
        positions, layer, x = build(8), nn.Linear(8, 8), torch.zeros(1, 5, 8)
        before = positions(x).clone()
        optimizer = torch.optim.SGD([*positions.parameters(), *layer.parameters()], lr=0.5)
        layer(positions(x)).square().sum().backward()
        optimizer.step()
        return torch.equal(positions(x), before)

    assert not stays_as_it_was(LearnedSinusoids)
    assert stays_as_it_was(SinusoidalPositions)
    assert not stays_as_it_was(lambda width: LearnedPositions(width, 64))
    chosen = {name: build_model(config(positions=name), 1).positions for name in ("sinusoidal", "learned")}
    assert [sum(1 for _ in part.parameters()) for part in chosen.values()] == [0, 1]


@pytest.mark.seed("F30")
def test_the_figure_and_the_formula_are_two_layouts_with_two_names() -> None:
    formula, figure = torch.tensor([0.8415, 0.5403, 0.0100, 0.99995]), torch.tensor([0.84, 0.0001, 0.54, 1.0])

    def gives_both(layouts: Sequence[Tensor]) -> bool:
        """The formula's numbers by the first table, the figure's by the last, to the digits printed."""
        return bool((layouts[0][1] - formula).abs().max() < 5e-5 and (layouts[-1][1] - figure).abs().max() < 5e-3)

    interleaved, concatenated = sinusoids(3, 4), sinusoids(3, 4, "concatenated")
    assert not gives_both([interleaved])
    assert not gives_both([concatenated])
    assert gives_both([interleaved, concatenated])
    # the same waves in another order where the frequencies agree, and other frequencies elsewhere
    assert torch.equal(interleaved[:, 0], concatenated[:, 0])
    assert not torch.allclose(interleaved[:, 2], concatenated[:, 1])


class NormAfterAttentionOnly(EncoderBlock):
    def __init__(self) -> None:
        super().__init__(16, 4, 32)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        cache: SelfAttentionCache | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        x = self.self_residual(x, lambda y: self.self_attention(y, mask=mask, cache=cache, position_ids=places))
        return x + self.feed_forward(x)


@pytest.mark.seed("F31")
def test_every_sub_layer_has_its_norm() -> None:
    def comes_out_normalised(block: nn.Module) -> bool:
        output = block(3 * torch.randn(2, 5, 16))
        return bool((output.var(-1, unbiased=False) - 1).abs().max() < 1e-2 and output.mean(-1).abs().max() < 1e-4)

    assert not comes_out_normalised(NormAfterAttentionOnly())
    assert comes_out_normalised(EncoderBlock(16, 4, 32))
    norms = [name for name, part in DecoderBlock(16, 4, 32).named_modules() if isinstance(part, nn.LayerNorm)]
    assert norms == ["self_residual.norm", "cross_residual.norm", "feed_forward_residual.norm"]


@pytest.mark.seed("F31")
def test_every_decoder_layer_projects_keys_and_values_of_its_own() -> None:
    """And the end of the model, which the seed leaves out: logits over the vocabulary, for a softmax."""
    model, memory = small_model(decoder_layers=3), torch.randn(1, 5, 16)

    def layers_differ(caches: Sequence[CrossAttentionCache]) -> bool:
        pairs = [(one, other) for index, one in enumerate(caches) for other in caches[index + 1 :]]
        return all(not torch.allclose(one.key, other.key) and not torch.allclose(one.value, other.value)
                   for one, other in pairs)  # fmt: skip

    ours = model.start_cache(memory, torch.ones(1, 5, dtype=torch.bool)).cross_attention
    assert not layers_differ([ours[0]] * 3), "keys and values that the top of the encoder made once for all"
    assert layers_differ(ours)
    logits = model(some_tokens(1, 5), some_tokens(1, 4), real_tokens([5], 5))
    assert logits.shape[-1] == config().vocab_size
    torch.testing.assert_close(logits.softmax(-1).sum(-1), torch.ones(1, 4))
    assert (logits < 0).any(), "not yet probabilities"
