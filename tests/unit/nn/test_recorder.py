"""The recorder: names, exactness, ownership, and that it leaves no trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.nn.forms import taking
from tests.unit.nn.reference import numpy_attention
from torch import Tensor, nn

from dikkat.nn.blocks import DecoderBlock, EncoderBlock
from dikkat.nn.masks import causal_mask, key_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention, Observation
from dikkat.nn.recorder import MapName, name_of, record_attention


class Stack(nn.Module):
    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)


class Pair(nn.Module):
    """An encoder block and two decoder blocks in the shape of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Stack([EncoderBlock(8, 2, 16, attention_dropout=0.5)])
        self.decoder = Stack([DecoderBlock(8, 2, 16) for _ in range(2)])

    def forward(self, x: Tensor, y: Tensor, real: Tensor) -> Tensor:
        memory = self.encoder.blocks[0](x, key_mask(real))
        for block in self.decoder.blocks:
            y = block(y, memory, causal_mask(y.shape[1]), key_mask(real))
        return y


NAMES = [
    MapName("encoder", 0, "self"),
    MapName("decoder", 0, "self"),
    MapName("decoder", 0, "cross"),
    MapName("decoder", 1, "self"),
    MapName("decoder", 1, "cross"),
]


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor, Tensor]:
    real = torch.tensor([[True, True, True, True], [True, True, False, False]])
    return torch.randn(2, 4, 8), torch.randn(2, 3, 8), real


def listeners(model: nn.Module) -> int:
    return sum(len(part._readers) for part in model.modules() if isinstance(part, MultiHeadAttention))


def test_every_map_has_its_name_and_shape(inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    model = Pair()
    with record_attention(model) as maps:
        model(*inputs)
    assert sorted(maps) == sorted(NAMES)
    shapes = {name: maps[name][0].shape for name in NAMES}
    assert shapes[NAMES[0]] == (2, 2, 4, 4)
    assert shapes[NAMES[1]] == shapes[NAMES[3]] == (2, 2, 3, 3)
    assert shapes[NAMES[2]] == shapes[NAMES[4]] == (2, 2, 3, 4)


def test_only_the_wanted_maps_are_computed(inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    model = Pair()
    with record_attention(model, lambda name: name.kind == "cross" and name.layer == 1) as maps:
        assert listeners(model) == 1
        model(*inputs)
    assert list(maps) == [MapName("decoder", 1, "cross")]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_maps_are_those_of_the_reference(
    training: bool, dtype: torch.dtype, inputs: tuple[Tensor, Tensor, Tensor]
) -> None:
    """Before dropout, so training changes nothing; compared with the formula on the very q and k that were used."""
    model, (x, y, real) = Pair().to(dtype).train(training), inputs
    used: list[Observation] = []
    attention = model.decoder.blocks[0].cross_attention
    assert isinstance(attention, MultiHeadAttention)
    attention.observe(used.append)
    with record_attention(model) as maps:
        model(x.to(dtype), y.to(dtype), real)
    query, key, _, mask = used[0]
    (recorded,) = maps[MapName("decoder", 0, "cross")]
    assert recorded.dtype == torch.float32
    np.testing.assert_allclose(recorded.numpy(), numpy_attention(query, key, key, mask)[1], rtol=0, atol=1e-5)
    assert (recorded[1, :, :, 2:] == 0).all()
    torch.testing.assert_close(recorded.sum(-1), torch.ones(2, 2, 3), rtol=0, atol=1e-6)
    (own,) = maps[MapName("decoder", 1, "self")]
    assert (own.triu(1) == 0).all()


def test_the_maps_times_the_values_are_the_output() -> None:
    """The weights recorded are the weights used."""
    module, x = MultiHeadAttention(8, 2), torch.randn(2, 5, 8)
    with record_attention(module) as maps:
        output = module(x, mask=causal_mask(5))
    ((weights,),) = maps.values()
    _, _, value = module.project_self(x)
    rebuilt = module.out_projection((weights @ value).transpose(1, 2).flatten(2))
    torch.testing.assert_close(output, rebuilt, rtol=0, atol=1e-5)


def test_one_map_a_call_in_order(inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    model, (x, y, real) = Pair(), inputs
    with record_attention(model) as maps:
        model(x, y, real)
        model(x[:, :3], y, real[:, :3])
    assert [tuple(weights.shape) for weights in maps[NAMES[0]]] == [(2, 2, 4, 4), (2, 2, 3, 3)]


def test_nothing_listens_before_or_after_even_after_an_error(inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    model = Pair()
    assert listeners(model) == 0
    with pytest.raises(ZeroDivisionError), record_attention(model):
        model(*inputs[:2], 1 // (len(NAMES) - listeners(model)))
    assert listeners(model) == 0
    with record_attention(model) as maps:
        pass
    model(*inputs)
    assert maps == {}


def test_an_attention_that_was_not_run_has_no_entry(inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    """So that the loop of the README, which takes one map a name, also works where one stack ran alone."""
    model, (x, _, real) = Pair(), inputs
    with record_attention(model) as maps:
        model.encoder.blocks[0](x, key_mask(real))
    assert [(name, tuple(weights.shape)) for name, (weights,) in maps.items()] == [(NAMES[0], (2, 2, 4, 4))]


def test_two_recorders_do_not_disturb_each_other(inputs: tuple[Tensor, Tensor, Tensor]) -> None:
    model = Pair().eval()
    with record_attention(model) as outer:
        with record_attention(model) as inner:
            model(*inputs)
        model(*inputs)
    assert [len(outer[name]) for name in NAMES] == [2] * 5
    assert [len(inner[name]) for name in NAMES] == [1] * 5
    assert all(torch.equal(outer[name][0], inner[name][0]) for name in NAMES)


def test_recording_leaves_the_fast_path_and_the_output_alone(
    inputs: tuple[Tensor, Tensor, Tensor],
) -> None:
    """With PyTorch's kernel forced on, it computes the output; only the maps come from the reference."""
    model = Pair().eval()
    with taking("kernel"):
        silent = model(*inputs)
        with record_attention(model) as maps:
            observed = model(*inputs)
    assert torch.equal(observed, silent)
    assert len(maps) == 5


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "choice", [{}, {"score": "additive"}, {"selection": "gumbel"}], ids=["dot", "additive", "drawn"]
)
def test_a_map_is_the_recorders_own(choice: dict[str, Any], dtype: torch.dtype) -> None:
    """What is done to it changes no gradient, and neither does recording: also with dropout, and with drawn weights."""
    module, x = MultiHeadAttention(8, 2, dropout=0.3, **choice).to(dtype), torch.randn(2, 5, 8).to(dtype)
    result = []
    for recording in (False, True):
        torch.manual_seed(3)
        with record_attention(module, (lambda _: True) if recording else (lambda _: False)) as maps:
            output = module(x, mask=causal_mask(5))
        assert len(maps) == recording
        for calls in maps.values():
            calls[0].fill_(torch.nan)
        gradients = torch.autograd.grad(output.float().square().sum(), list(module.parameters()), allow_unused=True)
        result.append((output, *(item for item in gradients if item is not None)))
    assert len(result[0]) == len(result[1]) > 4
    assert all(torch.equal(silent, recorded) for silent, recorded in zip(*result, strict=True))


def test_a_wrapper_around_the_model_changes_no_name() -> None:
    for path in ("decoder.blocks.3.cross_attention", "module.decoder.blocks.3.cross_attention"):
        assert name_of(path) == MapName("decoder", 3, "cross")
    assert name_of("blocks.2.self_attention") == MapName("blocks", 2, "self")
    assert name_of("") == MapName("", 0, "self")
    wrapped = nn.ModuleDict({"module": Pair()})
    with record_attention(wrapped) as maps:
        wrapped["module"](torch.randn(1, 4, 8), torch.randn(1, 3, 8), torch.ones(1, 4, dtype=torch.bool))
    assert sorted(maps) == sorted(NAMES)


def test_two_attentions_of_one_name_are_refused_before_anything_listens() -> None:
    twins = nn.ModuleDict({"left": Pair(), "right": Pair()})
    message = r"two attentions are both called .*'right\.encoder\.blocks\.0\.self_attention'"
    with pytest.raises(ValueError, match=message), record_attention(twins):
        raise AssertionError("the body must not run")
    assert listeners(twins) == 0
