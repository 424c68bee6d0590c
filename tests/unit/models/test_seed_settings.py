"""Settings that the seeds' models have and ours had not: a bias on the output, and positions in every layer."""

from __future__ import annotations

import pytest
import torch
from tests.unit.models.small import VOCABULARY, config, real_tokens, shake, small_model, some_tokens
from torch.nn import functional as F

from dikkat.config import ModelConfig, build_config
from dikkat.kernels.cross_entropy import smoothed_cross_entropy
from dikkat.models.factory import Factory, build_language_model, most_parameters
from dikkat.nn.blocks import PositionedDecoderBlock, PositionedEncoderBlock
from dikkat_runtime.errors import UsageError


def test_the_output_bias_is_added_to_every_row_of_logits() -> None:
    model = small_model(output_bias=True)
    inputs = some_tokens(2, 5), some_tokens(2, 6), real_tokens([5, 3], 5)
    logits, bias = model(*inputs), model.output_bias
    assert bias is not None
    assert bias.shape == (VOCABULARY,)
    with torch.no_grad():
        bias.add_(torch.arange(VOCABULARY))
    torch.testing.assert_close(model(*inputs) - logits, torch.arange(23.0).expand(2, 6, -1), rtol=0, atol=1e-4)
    assert "output_bias" in model.state_dict()
    assert small_model().output_bias is None
    assert "output_bias" not in small_model().state_dict()


@torch.inference_mode()
def test_a_step_has_the_output_bias() -> None:
    model = small_model(output_bias=True)
    source, target, mask = some_tokens(2, 5), some_tokens(2, 4), real_tokens([5, 3], 5)
    cache = model.start_cache(model.encode(source, mask), mask)
    steps = torch.stack([model.step(target[:, step], cache) for step in range(4)], dim=1)
    torch.testing.assert_close(steps, model(source, target, mask), rtol=0, atol=1e-5)


def test_a_language_model_has_it_too() -> None:
    model = build_language_model(config(output_bias=True), "causal", seed=1)
    shake(model)
    tokens = some_tokens(2, 5)
    assert model.output_bias is not None
    expected = F.linear(model.hidden(tokens), model.output_weight, model.output_bias)
    torch.testing.assert_close(model(tokens), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_and_its_gradients_have_the_bias(smoothing: float) -> None:
    hidden, weight, bias = (torch.randn(*shape, requires_grad=True) for shape in ((9, 6), (11, 6), (11,)))
    targets = torch.randint(0, 11, (9,))
    loss, likelihood = smoothed_cross_entropy(hidden, weight, targets, smoothing, bias)
    logits = F.linear(hidden, weight, bias)
    expected = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(likelihood, F.cross_entropy(logits, targets, reduction="sum"), rtol=1e-5, atol=1e-5)
    parts = hidden, weight, bias
    result = torch.autograd.grad(loss, parts)
    for ours, theirs in zip(result, torch.autograd.grad(expected, parts), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.seed("C9")
def test_positions_are_added_in_every_layer_but_the_first_which_reads_embeddings() -> None:
    model = small_model(positions_in_every_layer=True, encoder_layers=3)
    assert [type(block).__name__ for block in model.encoder.blocks] == ["EncoderBlock", *["PositionedEncoderBlock"] * 2]
    assert [isinstance(block, PositionedDecoderBlock) for block in model.decoder.blocks] == [False, True]
    plain = small_model(encoder_layers=3)
    plain.load_state_dict(model.state_dict())
    source, mask = some_tokens(1, 5), real_tokens([5], 5)
    x = plain.positions(plain.source_embedding(source))
    for layer, block in enumerate(plain.encoder.blocks):
        x = block(plain.positions(x) if layer else x)
    torch.testing.assert_close(model.encode(source, mask), plain.encoder.final_norm(x), rtol=0, atol=1e-5)


@pytest.mark.seed("C9")
def test_each_layer_has_its_own_learned_table() -> None:
    model = small_model(positions_in_every_layer=True, positions="learned", max_positions=9)
    tables = [name for name, _ in model.named_parameters() if name.endswith("positions.embedding")]
    assert tables == [
        "positions.embedding",
        *(f"{stack}.blocks.1.positions.embedding" for stack in ("encoder", "decoder")),
    ]
    settings = config(positions_in_every_layer=True, positions="learned", max_positions=100_000)
    assert sum(part.numel() for part in Factory(settings).encoder_decoder().parameters()) <= most_parameters(settings)


@pytest.mark.seed("C9")
def test_documents_in_a_row_begin_anew_in_every_layer() -> None:
    model = build_language_model(config(positions_in_every_layer=True, decoder_layers=3), "causal", seed=1).eval()
    tokens = some_tokens(1, 7)
    indices, documents = torch.tensor([[0, 1, 2, 3, 0, 1, 2]]), torch.tensor([0, 0, 0, 0, 1, 1, 1])
    mask = (documents[:, None] == documents) & torch.ones(7, 7, dtype=torch.bool).tril()
    assert any(isinstance(block, PositionedEncoderBlock) for block in model.decoder.blocks)
    packed = model(tokens, mask[None, None], indices)
    torch.testing.assert_close(packed[:, 4:], model(tokens[:, 4:]), rtol=0, atol=1e-5)


def test_positions_in_every_layer_need_positions_that_are_added() -> None:
    with pytest.raises(
        UsageError, match=r"positions_in_every_layer needs positions of sinusoidal, .*, but they are rotary"
    ):
        build_config({"model": {"positions": "rotary", "positions_in_every_layer": True}})
    assert ModelConfig(positions="learned", positions_in_every_layer=True).positions_in_every_layer
