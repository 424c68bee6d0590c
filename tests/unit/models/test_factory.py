"""From configuration to model: sizes, sharing, initial weights, and the seed that decides them."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from tests.unit.models.small import VOCABULARY, config, real_tokens, some_tokens
from torch import nn

from dikkat.config import build_config, merge, preset
from dikkat.models.factory import Factory, build_model
from dikkat.nn.masks import key_mask
from dikkat.nn.recorder import record_attention


@pytest.mark.seed("E10")
def test_the_d2l_preset_has_41984_parameters_outside_embeddings_and_output() -> None:
    sizes = {"vocab_size": 200, "target_vocab_size": 220}
    settings = build_config(merge(preset("d2l"), {"model": sizes})).model
    model = build_model(settings, seed=0)
    ends = [model.source_embedding.weight, model.target_embedding.weight, model.output_weight, model.output_bias]
    assert len(set(map(id, ends))) == 4
    assert sum(p.numel() for p in model.parameters() if not any(p is end for end in ends)) == 41_984
    # the embeddings of two vocabularies, and an output layer over the second with its bias
    assert sum(p.numel() for p in model.parameters()) == 41_984 + 200 * 32 + 220 * 32 + 220 * 33


@pytest.mark.seed("E6")
def test_an_encoder_of_two_layers_and_its_maps() -> None:
    settings = config(vocab_size=200, model_dim=24, num_heads=8, feed_forward_dim=48, attention_bias=False)
    model = build_model(settings, seed=0)
    source, mask = torch.ones(2, 100, dtype=torch.int64), real_tokens([3, 2], 100)
    with record_attention(model.encoder) as maps:
        assert model.encode(source, mask).shape == (2, 100, 24)
    assert [weights.shape for calls in maps.values() for weights in calls] == [(2, 8, 100, 100)] * 2
    assert torch.equal(model.source_embedding(source), model.source_embedding.weight[source] * math.sqrt(24))


@pytest.mark.seed("D2")
def test_layers_are_alike_but_share_nothing_and_their_numbers_are_free() -> None:
    model = build_model(config(encoder_layers=3, decoder_layers=1), seed=0)
    assert (len(model.encoder.blocks), len(model.decoder.blocks)) == (3, 1)
    deep = build_model(config(encoder_layers=2, decoder_layers=2), seed=0)
    for blocks in (model.encoder.blocks, deep.decoder.blocks):
        first, second = (dict(blocks[layer].named_parameters()) for layer in range(2))
        assert {name: p.shape for name, p in first.items()} == {name: p.shape for name, p in second.items()}
        assert not {p.data_ptr() for p in first.values()} & {p.data_ptr() for p in second.values()}


@pytest.mark.seed("A14")
@pytest.mark.parametrize("layers", [1, 12])
def test_encoders_of_any_depth_keep_the_shape(layers: int) -> None:
    model = build_model(config(encoder_layers=layers), seed=0)
    x = torch.randn(2, 5, 16)
    assert len(model.encoder.blocks) == layers
    assert model.encoder(x, key_mask(real_tokens([5, 2], 5))).shape == x.shape


def test_a_tied_matrix_is_one_tensor() -> None:
    model = build_model(config(tie_embeddings=True), seed=0)
    assert model.source_embedding.weight is model.target_embedding.weight
    assert model.source_embedding.weight is model.output_weight
    names = [name for name, _ in model.named_parameters()]
    assert names.count("output_weight") + names.count("source_embedding.weight") == 1
    twin = copy.deepcopy(model)
    assert twin.source_embedding.weight is twin.output_weight
    loaded = build_model(config(tie_embeddings=True), seed=1)
    loaded.load_state_dict(model.state_dict())
    assert loaded.source_embedding.weight is loaded.output_weight
    assert torch.equal(loaded.output_weight, model.output_weight)


def test_a_tied_matrix_learns_from_all_three_places() -> None:
    model = build_model(config(tie_embeddings=True), seed=0)
    mask = real_tokens([2], 2)
    source, target = torch.tensor([[3, 3]]), torch.tensor([[4, 4]])
    model(source, target, mask)[..., 5].sum().backward()
    gradient = model.output_weight.grad
    assert gradient is not None
    assert {row for row in range(VOCABULARY) if gradient[row].abs().sum() > 0} == {3, 4, 5}


def test_untied_matrices_are_three() -> None:
    model = build_model(config(tie_embeddings=False), seed=0)
    matrices = [model.source_embedding.weight, model.target_embedding.weight, model.output_weight]
    assert len({matrix.data_ptr() for matrix in matrices}) == 3


@pytest.mark.seed("F4")
def test_every_setting_reaches_the_part_it_names() -> None:
    model = build_model(config(feed_forward_dim=40, activation="gelu", norm_eps=1e-3, attention_dropout=0.25), seed=0)
    block = model.decoder.blocks[1]
    inner = [part for name, part in block.named_modules() if name == "feed_forward.inner"]
    assert [part.out_features for part in inner if isinstance(part, nn.Linear)] == [40]
    norms = [part for part in model.modules() if isinstance(part, nn.LayerNorm)]
    assert {norm.eps for norm in norms} == {1e-3}
    described = repr(model)
    assert "probability=0.0" in described
    assert {getattr(part, "activation", "gelu") for part in model.modules()} == {"gelu"}
    assert {part.dropout for part in model.modules() if hasattr(part, "num_kv_heads")} == {0.25}


@pytest.mark.parametrize(("placement", "norms"), [("pre", 2 * 2 + 2 * 3 + 2), ("post", 2 * 2 + 2 * 3)])
def test_only_pre_norm_stacks_end_in_a_norm_of_their_own(placement: str, norms: int) -> None:
    model = build_model(config(norm_placement=placement), seed=0)
    assert sum(isinstance(part, nn.LayerNorm) for part in model.modules()) == norms
    hidden = model.encode(some_tokens(2, 5), real_tokens([5, 5], 5))
    torch.testing.assert_close(hidden.mean(-1), torch.zeros(2, 5), rtol=0, atol=1e-5)
    torch.testing.assert_close(hidden.var(-1, unbiased=False), torch.ones(2, 5), rtol=0, atol=1e-3)


def test_the_seed_decides_every_weight() -> None:
    first, _, again, other = (build_model(config(tie_embeddings=False), seed=seed) for seed in (3, 9, 3, 4))
    for (name, one), two, three in zip(first.named_parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
        if one.dim() > 1:
            assert not torch.equal(one, three), name


def test_initial_weights_are_glorot_uniform_and_biases_zero() -> None:
    """Bounds sqrt(6 / (fan in + fan out)) of Glorot and Bengio (2010), equation 16."""
    blocks = [*Factory(config(model_dim=64)).encoder().blocks, *Factory(config(model_dim=64)).decoder().blocks]
    for name, parameter in (named for block in blocks for named in block.named_parameters()):
        if parameter.dim() > 1:
            bound = math.sqrt(6 / sum(parameter.shape))
            assert 0.95 * bound < parameter.abs().max() <= bound, name
            assert abs(parameter.var().item() / (bound**2 / 3) - 1) < 0.1, name
        else:
            assert (parameter == (1.0 if name.endswith("norm.weight") else 0.0)).all(), name


@pytest.mark.seed("F21")
def test_a_model_saves_its_parameters_and_nothing_else() -> None:
    model = build_model(config(tie_embeddings=False), seed=0)
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}
