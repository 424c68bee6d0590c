"""Switched-off heads: equal to zero columns in the output projection, in every path, and nothing left behind."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.unit.models.small import small_model, some_tokens
from torch import Tensor

from dikkat.explain.head_analysis.importance import HeadName, head_names, without_heads
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.torch_engine.strategies import greedy
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import UsageError

OFF = [
    HeadName("encoder", 0, "self", 1),
    HeadName("encoder", 0, "self", 3),
    HeadName("decoder", 1, "self", 0),
    HeadName("decoder", 1, "cross", 2),
]


def with_zero_columns(model: EncoderDecoder) -> EncoderDecoder:
    """The same by hand: head h of width 4 is read by columns 4 h ... 4 h + 3."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for stack, layer, kind, head in OFF:
            weight = other.get_parameter(f"{stack}.blocks.{layer}.{kind}_attention.out_projection.weight")
            weight[:, 4 * head : 4 * head + 4] = 0.0
    return other


@pytest.fixture
def sentences() -> tuple[Tensor, Tensor, Tensor]:
    source = some_tokens(3, 6)
    return source, some_tokens(3, 5), torch.arange(6) < torch.tensor([6, 4, 5])[:, None]


@pytest.mark.parametrize("training", [True, False])
def test_a_head_off_is_a_zero_column(sentences: tuple[Tensor, Tensor, Tensor], training: bool) -> None:
    source, target, mask = sentences
    model = small_model().train(training)
    wanted = with_zero_columns(model)(source, target, mask)
    whole = model(source, target, mask)
    with without_heads(model, OFF):
        result = model(source, target, mask)
    torch.testing.assert_close(result, wanted, rtol=0, atol=1e-6)
    assert (result - whole).abs().max() > 0.01
    assert torch.equal(model(source, target, mask), whole)


def test_stepwise_decoding_is_without_the_heads_too(sentences: tuple[Tensor, Tensor, Tensor]) -> None:
    source, target, mask = sentences
    model = small_model()
    with torch.inference_mode(), without_heads(model, OFF):
        cache = model.start_cache(model.encode(source, mask), mask)
        steps = torch.stack([model.step(token, cache) for token in target.unbind(1)], dim=1)
        result = greedy(model, source, mask, DecodingOptions())
        whole = model(source, target, mask)
    torch.testing.assert_close(steps, whole, rtol=0, atol=1e-5)
    assert [item.tokens for item in result] == [
        item.tokens for item in greedy(with_zero_columns(model), source, mask, DecodingOptions())
    ]


def test_no_gradient_reaches_a_head_that_is_off(sentences: tuple[Tensor, Tensor, Tensor]) -> None:
    source, target, mask = sentences
    model = small_model().train()
    with without_heads(model, OFF):
        model(source, target, mask).square().sum().backward()
    of_off = model.get_parameter("decoder.blocks.1.cross_attention.out_projection.weight").grad
    assert of_off is not None
    assert not of_off[:, 8:12].any()
    assert of_off[:, :8].abs().amin() > 0


def test_an_infinite_head_is_zero_when_off() -> None:
    model = small_model()
    with torch.no_grad():
        # the value rows of head 2 of 4: after 16 rows of queries and 16 of keys
        model.get_parameter("encoder.blocks.0.self_attention.in_projection.bias")[40:44] = torch.inf
    source, mask = some_tokens(1, 4), torch.ones(1, 4, dtype=torch.bool)
    assert not model.encode(source, mask).isfinite().all()
    with without_heads(model, [HeadName("encoder", 0, "self", 2)]):
        assert model.encode(source, mask).isfinite().all()


def test_heads_are_on_again_after_an_error(sentences: tuple[Tensor, Tensor, Tensor]) -> None:
    model = small_model()
    whole = model(*sentences)
    with pytest.raises(KeyError), without_heads(model, OFF):
        raise KeyError
    assert torch.equal(model(*sentences), whole)


def test_names() -> None:
    names = head_names(small_model())
    assert len(names) == len(set(names)) == 2 * 4 + 2 * 2 * 4
    assert names[5] == HeadName("encoder", 1, "self", 1)
    assert str(names[5]) == "encoder layer 2, self, head 2"


@pytest.mark.parametrize(
    "wrong",
    [
        HeadName("encoder", 0, "self", 4),
        HeadName("decoder", 2, "self", 0),
        HeadName("encoder", 0, "cross", 0),
        HeadName("encoder", -1, "self", 0),
    ],
)
def test_a_head_there_is_not(wrong: HeadName) -> None:
    choices = "encoder self (2 layers of 4 heads), decoder self (2 layers of 4 heads), decoder cross (2 layers of 4"
    with pytest.raises(UsageError) as error, without_heads(small_model(), [wrong]):
        pass
    assert str(error.value).startswith(f"there is no head {wrong}; choose from {choices}")
