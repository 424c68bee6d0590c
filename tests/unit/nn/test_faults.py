"""Faults of the seed documents in the bricks (seed-checklist, section 1.6).

Every test states a property, shows that the faulty form, written out here, lacks it, and that ours has it.
The faults of whole models stand in tests/unit/models/test_faults.py.
"""

from __future__ import annotations

import gc
import inspect
import math
import pkgutil
import weakref
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.nn.reference import numpy_attention, to_numpy
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

import dikkat.models
import dikkat.nn
from dikkat.nn.blocks import EncoderBlock, PostNormResidual
from dikkat.nn.cache import SelfAttentionCache
from dikkat.nn.functional import attention, fused_attention
from dikkat.nn.masks import causal_mask, key_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.positions import SinusoidalPositions, sinusoids
from dikkat.nn.recorder import record_attention

Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""Query, key, value and a boolean mask to the output."""


def reference(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    return attention(query, key, value, mask)[0]


OURS: list[Attend] = [reference, fused_attention]


def qkv(width: int = 4, size: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (torch.randn(2, 2, size, width) for _ in range(3))
    return query, key, value


def is_formula(attend: Attend, mask: Tensor | None, width: int = 4) -> bool:
    query, key, value = qkv(width)
    expected, _ = numpy_attention(query, key, value, mask)
    return bool(np.allclose(to_numpy(attend(query, key, value, mask)), expected, rtol=0, atol=1e-5))


def raises(action: Callable[[], object]) -> bool:
    try:
        action()
    except Exception:
        return True
    return False


# F1, F27: positions ---------------------------------------------------------------------------------------------------


@pytest.mark.seed("F1")
def test_even_columns_are_sines_and_odd_ones_cosines() -> None:
    """The seed's formula names column 2 where it means column 2i: all other even columns stay empty."""

    def faulty(length: int, width: int) -> Tensor:
        table, positions = torch.zeros(length, width), torch.arange(length)
        table[:, 2] = torch.sin(positions / 10000 ** (2 / width))
        for column in range(1, width, 2):
            table[:, column] = torch.cos(positions / 10000 ** ((column - 1) / width))
        return table

    def follows_the_paper(build: Callable[[int, int], Tensor]) -> bool:
        angles = np.arange(9)[:, None] / 10000 ** (np.arange(4) * 2 / 8)
        table = to_numpy(build(9, 8))
        return bool(
            np.allclose(table[:, 0::2], np.sin(angles), atol=1e-6)
            and np.allclose(table[:, 1::2], np.cos(angles), atol=1e-6)
        )

    assert not follows_the_paper(faulty)
    assert follows_the_paper(sinusoids)


class PlainAttributePositions(nn.Module):
    """A table of 1,000 rows as a plain attribute, filled for an even width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        angles = torch.arange(1000)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        self.table = torch.zeros(1, 1000, width)
        self.table[:, :, 0::2], self.table[:, :, 1::2] = torch.sin(angles), torch.cos(angles)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[:, : x.shape[1]].to(x.dtype)


F27 = {
    "moves with the module": lambda build: build(8).to("meta").table.device.type == "meta",
    "any length": lambda build: build(8)(torch.zeros(1, 1001, 8)).shape == (1, 1001, 8),
    "odd width": lambda build: build(7)(torch.zeros(1, 3, 7)).shape == (1, 3, 7),
}


@pytest.mark.seed("F27")
@pytest.mark.parametrize("name", F27)
def test_positions_are_a_buffer_for_any_length_and_width(name: str) -> None:
    def holds(build: Callable[[int], nn.Module]) -> bool:
        try:
            return bool(F27[name](build))
        except RuntimeError:
            return False

    assert not holds(PlainAttributePositions)
    assert holds(SinusoidalPositions)


# F2, F3: the modules themselves ---------------------------------------------------------------------------------------

F02_FAULTY = """
def group_heads(x):
    return x.transpose(1, 2).contiguous().
        view(2, 5, 8)
"""


@pytest.mark.seed("F2")
def test_every_source_file_is_python_and_is_imported() -> None:
    """A dot at the end of a line is a syntax error, which is found only by whoever imports the file."""
    assert raises(lambda: compile(F02_FAULTY, "seed", "exec"))
    imported = []
    for package in (dikkat.nn, dikkat.models):
        for result in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            module = import_module(result.name)
            compile(inspect.getsource(module), result.name, "exec")
            imported.append(result.name)
        files = {path.stem for path in Path(package.__path__[0]).glob("*.py")} - {"__init__"}
        assert files <= {name.rsplit(".", 1)[-1] for name in imported}
    assert len(imported) >= 15


class NoSuperLayer(nn.Module):
    """Parts are assigned before `nn.Module` is initialised, one is never made, the dropout rate is not used."""

    convolution: nn.Module

    def __init__(self, model_dim: int, dropout: float) -> None:
        self.attention = MultiHeadAttention(model_dim, 2)
        self.norm = nn.LayerNorm(model_dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.convolution(self.attention(x)))


class UnusedDropoutLayer(nn.Module):
    """The same one step further: it runs, but the dropout rate is still not used."""

    def __init__(self, model_dim: int, dropout: float) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(model_dim, 2)
        self.norm = nn.LayerNorm(model_dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.attention(x))


def block_of(model_dim: int, dropout: float) -> EncoderBlock:
    return EncoderBlock(model_dim, 2, 16, dropout=dropout)


@pytest.mark.seed("F3")
def test_a_layer_can_be_built_run_and_drops_out() -> None:
    x = torch.randn(2, 5, 8)

    def drops_out(build: Callable[[int, float], nn.Module]) -> bool:
        layer = build(8, 0.5)
        trained, evaluated = layer.train()(x), layer.eval()(x)
        return not torch.allclose(trained, evaluated) and torch.equal(evaluated, layer(x))

    assert raises(lambda: NoSuperLayer(8, 0.5))
    assert not drops_out(UnusedDropoutLayer)
    assert drops_out(block_of)
    # every part is registered: all that a block is made of is found by state_dict
    parts = {name.split(".")[0] for name in block_of(8, 0.5).state_dict()}
    assert parts == {"self_attention", "feed_forward", "self_residual", "feed_forward_residual"}


# F7, F8, F9, F18, F19, F38: attention as a function -------------------------------------------------------------------


@pytest.mark.seed("F7")
def test_the_scale_is_read_from_the_query() -> None:
    """A module's own width (8 here) as scale is wrong for any query of another width (3 here)."""

    def faulty(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        return torch.softmax(query @ key.transpose(-2, -1) / math.sqrt(8), -1) @ value

    assert not is_formula(faulty, None, width=3)
    for ours in OURS:
        assert is_formula(ours, None, width=3)


@pytest.mark.seed("F7", "A22")
def test_an_explicit_scale_gives_the_printed_numbers() -> None:
    """The seed's check divides 3-wide products by 8; the true 1/sqrt(3) gives 8.4e-26 where it prints 3.7266e-06."""
    key = torch.tensor([[10.0, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]])
    value = torch.tensor([[1.0, 0, 0], [10, 0, 0], [100, 5, 0], [1000, 6, 0]])
    query = torch.tensor([[0.0, 10, 0], [0, 0, 10], [10, 10, 0]])
    output, weights = attention(query, key, value, beta=1 / 8)
    assert weights[0, 0].item() == pytest.approx(3.7266e-06, rel=1e-4)
    assert weights[1].tolist() == pytest.approx([1.8633e-06, 1.8633e-06, 0.5, 0.5], rel=1e-4)
    expected = torch.tensor([[10.004, 4.0993e-05, 0], [549.998, 5.5, 0], [5.502, 2.0497e-05, 0]])
    torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-9)
    assert attention(query, key, value)[1][0, 0].item() == pytest.approx(8.4e-26, rel=5e-3)


class WidthsDecideAttention(nn.Module):
    """Takes given input widths for the sign of cross-attention."""

    def __init__(self, model_dim: int, widths: tuple[int, int, int] | None = None) -> None:
        super().__init__()
        self.is_cross = widths is not None
        self.inner = MultiHeadAttention(model_dim, 2)

    def forward(self, query: Tensor, memory: Tensor | None = None) -> Tensor:
        if self.is_cross:
            assert memory is not None
            return self.inner(query, memory)
        return self.inner(query)


def with_widths(model_dim: int, widths: tuple[int, int, int] | None = None) -> MultiHeadAttention:
    query, key, value = widths or (None, None, None)
    return MultiHeadAttention(model_dim, 2, query_dim=query, key_dim=key, value_dim=value)


@pytest.mark.seed("F8")
def test_widths_set_widths_and_the_inputs_decide_what_is_attended_to() -> None:
    x, memory = torch.randn(1, 3, 8), torch.randn(1, 4, 8)

    def self_attends_with_given_widths(build: Callable[..., nn.Module]) -> bool:
        module = build(8, (8, 8, 8))
        return not raises(lambda: module(x))

    def cross_attends_without_widths(build: Callable[..., nn.Module]) -> bool:
        module = build(8)
        return not torch.allclose(module(x, memory), module(x, memory + torch.randn(1, 4, 8)))

    for holds in (self_attends_with_given_widths, cross_attends_without_widths):
        assert not holds(WidthsDecideAttention)
        assert holds(with_widths)


@pytest.mark.seed("F9")
def test_hard_weights_are_one_hot_and_soft_ones_a_distribution() -> None:
    """One non-zero entry need not be 1, and a sum of absolute values of 1 admits negative ones."""

    def one_hot(weights: Tensor) -> bool:
        return bool((((weights == 1).sum(-1) == 1) & ((weights == 0).sum(-1) == weights.shape[-1] - 1)).all())

    def distribution(weights: Tensor) -> bool:
        return bool((weights >= 0).all() and torch.allclose(weights.sum(-1), torch.ones(weights.shape[:-1])))

    single_entry = torch.zeros(3, 4).scatter(-1, torch.tensor([[0], [2], [3]]), 0.7)
    assert bool((single_entry.count_nonzero(-1) == 1).all())
    assert not one_hot(single_entry)
    unit_norm = F.normalize(torch.randn(3, 4), p=1, dim=-1)
    assert torch.allclose(unit_norm.abs().sum(-1), torch.ones(3))
    assert not distribution(unit_norm)
    query, key, value = qkv()
    assert one_hot(attention(query, key, value, hard=True)[1])
    assert distribution(attention(query, key, value)[1])


@pytest.mark.seed("F18")
def test_a_mask_is_never_a_product_with_infinity() -> None:
    """0 * -inf is NaN: on and below the diagonal everything is lost."""

    def faulty(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        size = query.shape[-2]
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        return torch.softmax(scores + torch.ones(size, size).triu(1) * -math.inf, -1) @ value

    assert bool(faulty(*qkv(), None).isnan().all())
    assert not is_formula(faulty, causal_mask(5))
    for ours in OURS:
        assert is_formula(ours, causal_mask(5))


def without_scale(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    scores = query @ key.transpose(-2, -1)
    return torch.softmax(scores if mask is None else scores.masked_fill(~mask, -math.inf), -1) @ value


def with_minus_infinity(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    return without_scale(query / math.sqrt(query.shape[-1]), key, value, mask)


@pytest.mark.seed("F19")
def test_masked_scores_are_scaled() -> None:
    assert not is_formula(without_scale, causal_mask(5))
    for ours in OURS:
        assert is_formula(ours, causal_mask(5))


def barred_rows() -> Tensor:
    mask = causal_mask(5).clone()
    mask[..., :2, :] = False
    return mask


@pytest.mark.seed("F19")
def test_a_row_that_may_attend_to_nothing_is_zero_with_finite_gradients() -> None:
    """pytorch#41508: minus infinity everywhere makes softmax NaN, forwards and backwards."""

    def holds(attend: Attend) -> bool:
        query, key, value = (x.requires_grad_() for x in qkv())
        output = attend(query, key, value, barred_rows())
        output.sum().backward()
        gradients = [x.grad for x in (query, key, value) if x.grad is not None]
        return bool((output[..., :2, :] == 0).all()) and all(bool(g.isfinite().all()) for g in gradients)

    assert not holds(with_minus_infinity)
    for ours in OURS:
        assert holds(ours)


def with_a_million(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """-1e6 where nothing may be attended to, in the type of the scores."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-1e6).to(scores.dtype))
    return torch.softmax(scores, -1) @ value


@pytest.mark.seed("F38")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_length_zero_gives_no_weight_in_any_type(dtype: torch.dtype) -> None:
    """-1e6 everywhere makes uniform weights; in float16 it is minus infinity, so NaN."""

    def holds(attend: Attend) -> bool:
        query, key, value = (x.to(dtype) for x in qkv())
        return bool((attend(query, key, value, torch.zeros(2, 1, 1, 5, dtype=torch.bool)) == 0).all())

    assert not holds(with_a_million)
    for ours in OURS:
        assert holds(ours)


@pytest.mark.seed("F38")
def test_very_low_scores_do_not_let_masked_keys_through() -> None:
    """Where honest scores lie below -1e6, a masked key wins."""

    def holds(attend: Attend) -> bool:
        query, key, value = (
            torch.full((1, 1, 1, 4), -3e3),
            torch.full((1, 1, 2, 4), 3e3),
            torch.tensor([[[[1.0], [9.0]]]]),
        )
        return attend(query, key, value, torch.tensor([True, False])).item() == 1.0

    assert not holds(with_a_million)
    for ours in OURS:
        assert holds(ours)


# F20, F21, F22, F33, F34, F37: attention as a module ------------------------------------------------------------------


class RoundedHeads(nn.Module):
    """Divides the width by the number of heads and drops the rest."""

    def __init__(self, model_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, model_dim // num_heads


@pytest.mark.seed("F20")
def test_eight_wide_has_two_heads_of_four_and_no_three_heads() -> None:
    def refuses_three(build: Callable[[int, int], Any]) -> bool:
        try:
            build(8, 3)
        except ValueError as error:
            return "num_heads must divide model_dim, but 3 does not divide 8" in str(error)
        return False

    assert not refuses_three(RoundedHeads)
    assert refuses_three(MultiHeadAttention)
    two = MultiHeadAttention(8, 2)
    assert (two.num_heads, two.head_dim) == (2, 4)


class SavedMaskAttention(nn.Module):
    """Keeps a float mask of a fixed size as a persistent buffer."""

    def __init__(self, model_dim: int, num_heads: int, context_length: int = 256) -> None:
        super().__init__()
        self.inner = MultiHeadAttention(model_dim, num_heads)
        self.register_buffer("mask", torch.ones(context_length, context_length).tril())

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[1]
        assert isinstance(self.mask, Tensor)
        return self.inner(x, mask=self.mask[:size, :size].bool().expand(1, 1, size, size))


class CausalAttention(nn.Module):
    """Ours: the mask is computed for the input at hand."""

    def __init__(self, model_dim: int, num_heads: int) -> None:
        super().__init__()
        self.inner = MultiHeadAttention(model_dim, num_heads)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, mask=causal_mask(x.shape[1]))


@pytest.mark.seed("F21")
def test_no_mask_is_saved_and_no_length_is_too_long() -> None:
    def saves_only_weights(build: Callable[[int, int], nn.Module]) -> bool:
        module = build(8, 2)
        return set(module.state_dict()) == {name for name, _ in module.named_parameters()}

    def takes_300(build: Callable[[int, int], nn.Module]) -> bool:
        return not raises(lambda: build(8, 2)(torch.randn(1, 300, 8)))

    for holds in (saves_only_weights, takes_300):
        assert not holds(SavedMaskAttention)
        assert holds(CausalAttention)
    everything = nn.ModuleList([EncoderBlock(8, 2, 16), SinusoidalPositions(8)])
    assert set(everything.state_dict()) == {name for name, _ in everything.named_parameters()}


class BareAttention(nn.Module):
    """Causal self-attention that takes the input and nothing else, and gives the output and nothing else."""

    def __init__(self, model_dim: int) -> None:
        super().__init__()
        self.projection = nn.Linear(model_dim, 3 * model_dim)

    def forward(self, x: Tensor, mask: Tensor | None = None, cache: SelfAttentionCache | None = None) -> Tensor:
        q, k, v = self.projection(x).chunk(3, -1)
        return with_minus_infinity(q, k, v, causal_mask(x.shape[1])[0])


F22: dict[str, Callable[[Callable[..., nn.Module]], bool]] = {}


def f22(holds: Callable[[Callable[..., nn.Module]], bool]) -> Callable[[Callable[..., nn.Module]], bool]:
    F22[holds.__name__] = holds
    return holds


@f22
def padding_changes_nothing(build: Callable[..., nn.Module]) -> bool:
    """Padding stands on the left here, where a causal mask does not hide it."""
    module, x = build(), torch.randn(1, 4, 8)
    padded = torch.cat((torch.randn(1, 2, 8), x), dim=1)
    mask = causal_mask(6) & key_mask(torch.tensor([[False, False, True, True, True, True]]))
    return torch.allclose(module(padded, mask=mask)[:, 2:], module(x, mask=causal_mask(4)), atol=1e-6)


@f22
def a_cache_replaces_the_prefix(build: Callable[..., nn.Module]) -> bool:
    module, x, cache = build(), torch.randn(1, 4, 8), SelfAttentionCache()
    rows = [module(x[:, t : t + 1], cache=cache) for t in range(4)]
    return torch.allclose(torch.cat(rows, dim=1), module(x, mask=causal_mask(4)), atol=1e-5)


@f22
def weights_can_be_seen(build: Callable[..., nn.Module]) -> bool:
    module = build()
    with record_attention(module) as maps:
        module(torch.randn(1, 4, 8), mask=causal_mask(4))
    return [weights.shape[-2:] for calls in maps.values() for weights in calls] == [(4, 4)]


@pytest.mark.seed("F22")
@pytest.mark.parametrize("name", F22)
def test_padding_mask_cache_and_weights(name: str) -> None:
    assert not F22[name](lambda: BareAttention(8))
    assert F22[name](lambda: MultiHeadAttention(8, 2))


class SideEffectAttention(nn.Module):
    """Leaves its weights on itself: the last forward's only, with all of its graph."""

    def __init__(self, model_dim: int) -> None:
        super().__init__()
        self.projection = nn.Linear(model_dim, 3 * model_dim)
        self.weights = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.projection(x).chunk(3, -1)
        self.weights = torch.softmax(q @ k.transpose(-2, -1), -1)
        return self.weights @ v


def seen_by_side_effect(module: nn.Module, inputs: list[Tensor]) -> list[Tensor]:
    seen = []
    for x in inputs:
        module(x)
        assert isinstance(module, SideEffectAttention)
        seen = [module.weights]
    return seen


def seen_by_recorder(module: nn.Module, inputs: list[Tensor]) -> list[Tensor]:
    with record_attention(module) as maps:
        for x in inputs:
            module(x)
    return [weights for calls in maps.values() for weights in calls]


@pytest.mark.seed("F33")
def test_weights_are_given_out_detached_and_nothing_stays_behind() -> None:
    Look = Callable[[nn.Module, list[Tensor]], list[Tensor]]  # noqa: N806
    inputs = [torch.randn(1, 4, 8), torch.randn(1, 3, 8)]

    def every_call_is_kept(module: nn.Module, look: Look) -> bool:
        return [weights.shape[-1] for weights in look(module, inputs)] == [4, 3]

    def no_graph_is_held(module: nn.Module, look: Look) -> bool:
        return not any(weights.requires_grad for weights in look(module, inputs))

    def nothing_stays_behind(module: nn.Module, look: Look) -> bool:
        alive = [weakref.ref(weights) for weights in look(module, inputs)]
        gc.collect()
        return not any(reference() is not None for reference in alive)

    for holds in (every_call_is_kept, no_graph_is_held, nothing_stays_behind):
        assert not holds(SideEffectAttention(8), seen_by_side_effect)
        assert holds(MultiHeadAttention(8, 2), seen_by_recorder)


class NormOverPositions(nn.Module):
    """Layer norm over positions and features together, as with norm_shape [length, width]."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm([length, width])

    def forward(self, x: Tensor, sub_layer: Callable[[Tensor], Tensor]) -> Tensor:
        return self.norm(x + sub_layer(x))


@pytest.mark.seed("F34")
def test_the_norm_looks_along_the_last_dimension_only() -> None:
    def last_only(length: int, width: int) -> nn.Module:
        return PostNormResidual(width)

    def the_future_does_not_leak(build: Callable[[int, int], nn.Module]) -> bool:
        wrapper, x = build(5, 8), torch.randn(1, 5, 8)
        changed = x.clone()
        changed[:, 4] += 3 * torch.randn(8)
        return torch.allclose(wrapper(x, torch.zeros_like)[:, :4], wrapper(changed, torch.zeros_like)[:, :4], atol=1e-6)

    def any_length(build: Callable[[int, int], nn.Module]) -> bool:
        return not raises(lambda: build(5, 8)(torch.randn(1, 6, 8), torch.zeros_like))

    for holds in (the_future_does_not_leak, any_length):
        assert not holds(NormOverPositions)
        assert holds(last_only)


class ProjectedRows(TorchFunctionMode):
    """Counts the rows that pass through linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.linear:
            self.rows += args[0].numel() // args[0].shape[-1]
        return func(*args, **(kwargs or {}))


class InputsCached:
    """Remembers the inputs of attention and projects all of them again at each step."""

    def __init__(self) -> None:
        self.module, self.seen = MultiHeadAttention(8, 2), torch.empty(1, 0, 8)

    def step(self, x: Tensor) -> Tensor:
        self.seen = torch.cat((self.seen, x), dim=1)
        return self.module(x, self.seen)


class KeysAndValuesCached:
    def __init__(self) -> None:
        self.module, self.cache = MultiHeadAttention(8, 2), SelfAttentionCache()

    def step(self, x: Tensor) -> Tensor:
        return self.module(x, cache=self.cache)


@pytest.mark.seed("F37")
def test_a_step_projects_its_own_position_only() -> None:
    def work_stays_constant(build: Callable[[], InputsCached | KeysAndValuesCached]) -> bool:
        decoder, work = build(), []
        for _ in range(6):
            with ProjectedRows() as count:
                decoder.step(torch.randn(1, 1, 8))
            work.append(count.rows)
        return work[0] > 0 and len(set(work)) == 1

    assert not work_stays_constant(InputsCached)
    assert work_stays_constant(KeysAndValuesCached)
