"""All parameters in one vector: the views are the model, nothing is there twice, nothing is left out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.unit.training.toy import toy_model
from torch import Tensor

from dikkat.config import ModelConfig, TrainingConfig
from dikkat.kernels.gradient_buffer import grad_buffer
from dikkat.models.factory import build_model
from dikkat.nn.layers import Linear, set_products
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters
from dikkat_runtime.special_tokens import BOS_ID

SIZES: dict[str, Any] = {
    "vocab_size": 20, "model_dim": 16, "num_heads": 2, "feed_forward_dim": 24, "encoder_layers": 1, "decoder_layers": 1,
}  # fmt: skip


def test_the_model_computes_with_the_vector() -> None:
    model = toy_model()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    flat = FlatParameters(model)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
    flat.master.zero_()
    assert all(not parameter.any() for parameter in model.parameters())
    assert flat.master.numel() == sum(tensor.numel() for tensor in before.values())


def squares(flat: FlatParameters) -> Tensor:
    return torch.stack([(parameter**2).sum() for parameter in flat.model.parameters()]).sum()


def test_what_flows_back_is_collected_in_the_vector() -> None:
    flat = FlatParameters(toy_model())
    flat.gradient.fill_(7.0)
    with flat.collect_gradients():
        squares(flat).backward()
    torch.testing.assert_close(flat.gradient, 2 * flat.master)
    with flat.collect_gradients():
        (flat.model.get_parameter("output_weight").sum() * 3.0).backward()
    expected = torch.zeros_like(flat.master)
    next(span for span in flat.spans if span.name == "output_weight").of(expected).fill_(3.0)
    assert torch.equal(flat.gradient, expected), "what nothing flowed to has no gradient left of the pass before"


def test_a_row_that_stays_zero_gets_no_gradient() -> None:
    model = build_model(ModelConfig(**SIZES, start_from_zero=True), seed=1)
    ordinary = build_model(ModelConfig(**SIZES), seed=1)
    flats = FlatParameters(model), FlatParameters(ordinary)
    span = next(span for span in flats[0].spans if span.shape == (20, 16))
    weights = [span.of(flat.master) for flat in flats]
    assert not weights[0][BOS_ID].any()
    assert torch.equal(weights[0][BOS_ID + 1 :], weights[1][BOS_ID + 1 :])
    with flats[0].collect_gradients():
        torch.stack([parameter.sum() for parameter in model.parameters()]).sum().backward()
    gradient = span.of(flats[0].gradient)
    assert not gradient[BOS_ID].any()
    assert int(gradient.any(1).sum()) == 19
    assert int(flats[0].gradient.count_nonzero()) == flats[0].gradient.numel() - 16


@pytest.mark.parametrize("vocabularies", [{}, {"target_vocab_size": 24}, {"tie_embeddings": False}])
def test_decoding_starts_from_zero_after_training(vocabularies: dict[str, Any]) -> None:
    model = build_model(ModelConfig(**SIZES, **vocabularies, start_from_zero=True), seed=1)
    flat = FlatParameters(model)
    optimizer = Optimizer(flat, TrainingConfig(weight_decay=0.1))
    source, target = torch.tensor([[5, 6, 2]]), torch.tensor([[BOS_ID, 7, 8]])
    before = model.target_embedding.weight.clone()
    for update in range(1, 4):
        with flat.collect_gradients():
            model(source, target, torch.ones_like(source, dtype=torch.bool)).logsumexp(-1).sum().backward()
        optimizer.step(flat.gradient, update, 1.0)
    after = model.target_embedding.weight
    assert not after[BOS_ID].any()
    assert not torch.equal(after[7], before[7])


def test_rows_that_were_claimed_keep_what_is_written_and_what_autograd_adds() -> None:
    flat = FlatParameters(toy_model())
    weight = flat.model.get_parameter("encoder.blocks.0.self_attention.in_projection.weight")
    buffer = grad_buffer(weight)
    assert buffer is not None
    with flat.collect_gradients():
        squares(flat).backward()
        first, second = buffer.claim(slice(16, 32)), buffer.claim(slice(0, 16))
        assert first is not None
        assert second is not None
        first.fill_(1.0)
        second.fill_(2.0)
    written = torch.cat([torch.full((16, 16), 2.0), torch.full((16, 16), 1.0), torch.zeros(16, 16)])
    expected = 2 * flat.master
    next(span for span in flat.spans if span.of(flat.master).data_ptr() == weight.data_ptr()).of(expected).add_(written)
    torch.testing.assert_close(flat.gradient, expected)
    with flat.collect_gradients():
        pass
    assert not flat.gradient.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_in_eight_bits_have_the_same_bits_where_they_are_kept(dtype: torch.dtype) -> None:
    """Of self-attention, of two parts of one weight in cross-attention, and of a layer that is called twice."""
    torch.manual_seed(0)
    attention, projection = MultiHeadAttention(32, 2), Linear(32, 32)
    flat = FlatParameters(torch.nn.ModuleList([attention, projection]), dtype)
    x, memory = torch.randn(3, 20, 32).to(dtype), torch.randn(3, 30, 32).to(dtype)
    result = []
    set_products(flat.model, "int8")
    for has_buffers in (True, False):
        for parameter in flat.model.parameters():
            if not has_buffers:
                del vars(parameter)["grad_buffer"]
        with flat.collect_gradients():
            output = projection(projection(attention(attention(x), memory)))
            output.float().square().sum().backward()
            assert projection.weight.grad is not None, "of the second call autograd learns"
        result.append(flat.gradient.clone())
    assert result[0].count_nonzero() > 0.9 * result[0].numel()
    torch.testing.assert_close(result[1], result[0], rtol=0, atol=0)


def test_a_bias_that_does_not_learn_has_no_gradient_in_eight_bits() -> None:
    projection = Linear(32, 16)
    flat = FlatParameters(torch.nn.ModuleList([projection]))
    projection.bias.requires_grad_(False)
    set_products(flat.model, "int8")
    with flat.collect_gradients():
        projection(torch.randn(20, 32)).sum().backward()
    of_weight, of_bias = (next(s for s in flat.spans if s.name == f"0.{name}") for name in ("weight", "bias"))
    assert of_weight.of(flat.gradient).any()
    assert not of_bias.of(flat.gradient).any()


def test_what_asks_for_no_gradient_stays_beside_the_vector() -> None:
    model = toy_model(encoder_layers=2)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    still = {name for name in before if name.startswith(("output_weight", "encoder.blocks.0."))}
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in still)
    flat = FlatParameters(model, torch.bfloat16)
    assert {span.name for span in flat.spans} == before.keys() - still
    assert flat.size == sum(tensor.numel() for tensor in before.values())
    assert flat.master.numel() == sum(tensor.numel() for name, tensor in before.items() if name not in still)
    with flat.collect_gradients():
        torch.stack([((parameter.float() + 1.0) ** 2).sum() for parameter in model.parameters()]).sum().backward()
    Optimizer(flat, TrainingConfig(optimizer="adamw", weight_decay=0.1)).step(flat.gradient, 1, 1.0)
    whole = flat.whole(flat.master)
    assert whole.keys() == before.keys()
    assert {name for name, tensor in whole.items() if tensor.equal(before[name])} == still
    for name, parameter in model.named_parameters():
        assert parameter.dtype == torch.bfloat16
        assert parameter.equal(whole[name].bfloat16())
    with flat.swapped(flat.master, torch.float32):
        assert all(parameter.equal(whole[name]) for name, parameter in model.named_parameters())


def test_refresh_casts_the_master_into_the_working_copy() -> None:
    model = toy_model()
    flat = FlatParameters(model, torch.bfloat16)
    assert flat.master.dtype == torch.float32
    assert all(parameter.dtype == torch.bfloat16 for parameter in model.parameters())
    flat.master.fill_(1.0 + 2**-12)
    assert float(next(model.parameters()).detach().flatten()[0]) != 1.0, "the copy must not follow by itself"
    flat.refresh()
    assert all(bool((parameter == 1.0).all()) for parameter in model.parameters())
    assert bool((flat.master == 1.0 + 2**-12).all()), "the master keeps what bfloat16 cannot hold"


def test_named_and_fill_are_a_round_trip() -> None:
    flat = FlatParameters(toy_model())
    named = flat.named(flat.master)
    assert named.keys() == dict(flat.model.named_parameters()).keys()
    named["output_weight"].zero_()
    assert dict(flat.model.named_parameters())["output_weight"].any(), "named tensors own their memory"
    vector = torch.zeros_like(flat.master)
    flat.fill(vector, flat.named(flat.master))
    assert torch.equal(vector, flat.master)


def test_a_tied_matrix_is_there_once() -> None:
    tied, untied = toy_model(), toy_model(tie_embeddings=False)
    names = [span.name for span in FlatParameters(tied).spans]
    assert [name for name in names if "embedding" in name or "output_weight" in name] == ["output_weight"]
    assert tied.output_weight.data_ptr() == tied.source_embedding.weight.data_ptr()
    assert FlatParameters(untied).master.numel() == FlatParameters(tied).master.numel() + 2 * 24 * 16


@pytest.mark.parametrize("tie_embeddings", [True, False])
@pytest.mark.parametrize(("kv_heads", "rows"), [(None, [16, 16, 16]), (1, [16, 8, 8])])
def test_matrix_groups_are_all_matrices_but_the_embeddings(
    tie_embeddings: bool, kv_heads: int | None, rows: list[int]
) -> None:
    """Queries, keys and values are three, though one product computes them."""
    model = toy_model(tie_embeddings=tie_embeddings, encoder_layers=2, num_kv_heads=kv_heads)
    flat = FlatParameters(model)
    wanted = []
    for span in flat.spans:
        if len(span.shape) == 2 and "embedding" not in span.name and span.name != "output_weight":
            parameter = model.get_parameter(span.name)
            wanted += parameter.split(rows if span.name.endswith("in_projection.weight") else parameter.shape[0])
    result: list[Tensor] = []
    end = 0
    for start, count, shape in flat.matrix_groups():
        assert start == end, "the groups lie one after the other from the start"
        end = start + count * shape.numel()
        result += flat.master[start:end].view(count, *shape)
    assert len(result) == len(wanted)
    assert all(torch.equal(one, other) for one, other in zip(result, wanted, strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("extra", "no parameter is called stranger"),
        ("missing", "parameter encoder.final_norm.bias is missing"),
        ("narrow", r"parameter encoder.final_norm.bias has the shape \(1,\), not \(16,\)"),
    ],
)
def test_tensors_that_do_not_fit_are_named_and_nothing_is_filled(change: str, message: str) -> None:
    """A tensor of one entry would be stretched over a whole vector without a word."""
    flat = FlatParameters(toy_model())
    tensors = {name: tensor + 1 for name, tensor in flat.named(flat.master).items()}
    if change == "extra":
        tensors["stranger"] = torch.zeros(1)
    elif change == "missing":
        del tensors["encoder.final_norm.bias"]
    else:
        tensors["encoder.final_norm.bias"] = torch.zeros(1)
    before = flat.master.clone()
    with pytest.raises(RuntimeError, match=message):
        flat.fill(flat.master, tensors)
    assert torch.equal(flat.master, before)
