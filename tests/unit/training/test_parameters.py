"""All parameters in one vector: the views are the model, nothing is there twice, nothing is left out."""

from __future__ import annotations

import pytest
import torch
from tests.unit.training.toy import toy_model
from torch import Tensor

from dikkat.training.parameters import FlatParameters


def test_the_model_computes_with_the_vector() -> None:
    model = toy_model()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    flat = FlatParameters(model)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
    flat.master.zero_()
    assert all(not parameter.any() for parameter in model.parameters())
    assert flat.master.numel() == sum(tensor.numel() for tensor in before.values())


def test_backward_writes_into_the_vector_of_gradients() -> None:
    flat = FlatParameters(toy_model())
    sum((parameter**2).sum() for parameter in flat.model.parameters()).backward()  # type: ignore[union-attr]
    assert torch.allclose(flat.gradient, 2 * flat.master)
    flat.zero_gradient()
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in flat.model.parameters())


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
    found: list[Tensor] = []
    end = 0
    for start, count, shape in flat.matrix_groups():
        assert start == end, "the groups lie one after the other from the start"
        end = start + count * shape.numel()
        found += flat.master[start:end].view(count, *shape)
    assert len(found) == len(wanted)
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


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
