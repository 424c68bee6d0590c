"""Networks of the documents, written out from their formulas: loaded, they give their numbers, and go back exactly."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from safetensors.torch import save_file
from tests.unit.classroom.written_out import D2lTranslator, NyuClassifier
from torch import Tensor, nn

from dikkat.lessons.classroom import load_weights, nyu, scratch, textbook, weights_in
from dikkat_runtime.errors import DataError, MissingInputError

Network = TypeVar("Network", bound=nn.Module)
D2L_SIZES = (32, 32, 32, 32, [32], 32, 64, 4, 2, 0.1)


def shaken(module: Network) -> Network:
    """No norm at one and no bias at zero, which would hide a mistake."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn(parameter.shape))
    return module.eval()


def translator(source: int = 17, target: int = 23) -> textbook.EncoderDecoder:
    halves = textbook.TransformerEncoder(source, *D2L_SIZES), textbook.TransformerDecoder(target, *D2L_SIZES)
    return textbook.EncoderDecoder(*halves).eval()


def as_mxnet(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    renamed = {re.sub(r"\.block(\d)", r".\1", name): tensor for name, tensor in weights.items()}
    return {
        name.replace(".ln.weight", ".ln.gamma").replace(".ln.bias", ".ln.beta"): tensor
        for name, tensor in renamed.items()
    }


@pytest.mark.parametrize("layout", ["d2l", "d2l-mxnet"])
@torch.no_grad()
def test_a_textbook_translator_with_bias_and_two_vocabularies_gives_its_logits_and_maps(layout: str) -> None:
    theirs: Any = shaken(D2lTranslator(17, 23))
    ours = translator()
    for half in (theirs.get_submodule("encoder"), theirs.get_submodule("decoder")):
        # else scores reach 80, where float32 itself is not exact to 1e-6
        half.get_parameter("embedding.weight").mul_(32**-0.5)
    weights = theirs.state_dict()
    load_weights(ours, as_mxnet(weights) if layout == "d2l-mxnet" else weights, layout)
    source, target, lens = torch.randint(0, 17, (3, 10)), torch.randint(0, 23, (3, 7)), torch.tensor([10, 4, 1])
    expected = theirs(source, target, lens)
    logits, _ = ours(source, target, lens)
    assert float((logits - expected).abs().max()) <= 1e-5
    for layer, block in enumerate(theirs.encoder.blks):
        assert float((ours.encoder.attention_weights[layer] - block.attention.maps.flatten(0, 1)).abs().max()) <= 1e-6
    for layer, block in enumerate(theirs.decoder.blks):
        for kind, part in enumerate((block.attention1, block.attention2)):
            result = ours.decoder.attention_weights[kind][layer]
            assert float((result - part.maps.flatten(0, 1)).abs().max()) <= 1e-6


@pytest.mark.parametrize("layout", ["d2l", "d2l-mxnet"])
def test_textbook_weights_go_back_bit_for_bit(layout: str) -> None:
    weights = dict(shaken(D2lTranslator(17, 23)).state_dict())
    weights = as_mxnet(weights) if layout == "d2l-mxnet" else weights
    ours = translator()
    load_weights(ours, weights, layout)
    back = weights_in(ours, layout)
    assert back.keys() == weights.keys()
    assert all(torch.equal(back[name], weights[name]) for name in weights)


@pytest.mark.seed("A28")
@torch.no_grad()
def test_the_notebook_classifier_gives_its_logits_on_texts_without_padding() -> None:
    theirs, ours = shaken(NyuClassifier(2, 32, 2, 64, 50, 2)), nyu.TransformerClassifier(2, 32, 2, 64, 50, 2).eval()
    load_weights(ours, theirs.state_dict(), "nyu")
    tokens = torch.randint(2, 50, (3, 12))
    expected = theirs(tokens)
    assert float((ours(tokens) - expected).abs().max()) <= 1e-5
    padded = torch.cat((tokens, torch.full((3, 5), nyu.PAD)), dim=1)
    assert float((ours(padded) - expected).abs().max()) <= 1e-5, "fault F6"
    assert float((theirs(padded) - expected).abs().max()) > 1e-3, "theirs lets padding in"


def test_notebook_weights_go_back_with_their_table_of_positions() -> None:
    theirs, ours = shaken(NyuClassifier(1, 32, 2, 64, 50, 2)), nyu.TransformerClassifier(1, 32, 2, 64, 50, 2)
    load_weights(ours, theirs.state_dict(), "nyu")
    back = weights_in(ours, "nyu")
    theirs.load_state_dict(back)
    assert torch.equal(back["dense.bias"], ours.dense.bias)


def test_trained_positions_are_not_passed_over() -> None:
    theirs, ours = NyuClassifier(1, 32, 2, 64, 50, 2), nyu.TransformerClassifier(1, 32, 2, 64, 50, 2)
    weights = theirs.state_dict()
    weights["encoder.embedding.position_embeddings.weight"] += 0.5
    with pytest.raises(DataError, match=r"position_embeddings\.weight was trained, but this model computes it"):
        load_weights(ours, weights, "nyu")


SCRATCH = {
    "v1": (lambda: scratch.SelfAttention_v1(3, 2), ["W_query", "W_key", "W_value"]),
    "v2": (lambda: scratch.SelfAttention_v2(3, 2, qkv_bias=True), ["W_query.weight", "W_query.bias"]),
    "causal": (lambda: scratch.CausalAttention(3, 2, 6, 0.0), ["W_key.weight", "mask"]),
    "wrapper": (lambda: scratch.MultiHeadAttentionWrapper(3, 2, 6, 0.0, 2), ["heads.1.W_value.weight", "heads.0.mask"]),
    "multi-head": (lambda: scratch.MultiHeadAttention(3, 4, 6, 0.0, 2), ["out_proj.bias", "W_value.weight", "mask"]),
}


@pytest.mark.parametrize(("make", "some"), SCRATCH.values(), ids=SCRATCH)
def test_scratch_weights_go_there_and_back(make: object, some: list[str]) -> None:
    assert callable(make)
    one, other, x = make(), make(), torch.randn(6, 3)
    weights = weights_in(one, "scratch")
    assert set(some) <= weights.keys()
    assert not torch.equal(one(x), other(x))
    load_weights(other, weights, "scratch")
    assert torch.equal(one(x), other(x))


def test_bare_parameters_are_kept_as_inputs_by_outputs() -> None:
    result = weights_in(scratch.SelfAttention_v1(3, 2), "scratch")
    assert all(tensor.shape == (3, 2) for tensor in result.values())


def test_a_file_is_read_and_a_damaged_one_is_told(tmp_path: Path) -> None:
    theirs, ours, path = D2lTranslator(17, 23), translator(), tmp_path / "model.safetensors"
    save_file(dict(theirs.state_dict()), path)
    load_weights(ours, path, "d2l")
    assert torch.equal(ours.decoder.dense.bias, theirs.get_parameter("decoder.dense.bias"))
    path.write_bytes(b"no weights")
    with pytest.raises(DataError, match=r"model\.safetensors: not a readable safetensors file"):
        load_weights(ours, path, "d2l")
    with pytest.raises(MissingInputError, match="there is no such file"):
        load_weights(ours, tmp_path / "none", "d2l")


def test_what_does_not_fit_is_named_and_nothing_is_copied() -> None:
    ours, before = translator(), translator()
    before.load_state_dict(ours.state_dict())
    whole = dict(D2lTranslator(17, 23).state_dict())
    left_over = {**whole, "decoder.more": torch.zeros(1)}
    missing = {name: tensor for name, tensor in whole.items() if name != "decoder.dense.bias"}
    for weights, layout, kind, message in (
        (left_over, "d2l", DataError, "weights of the layout d2l: this model has no weight decoder.more"),
        (missing, "d2l", DataError, "the weight decoder.dense.bias is missing"),
        (
            dict(D2lTranslator(18, 23).state_dict()),
            "d2l",
            DataError,
            "does not fit this model: its shape is 18 x 32, not 17 x 32",
        ),
        (whole, "nyu", ValueError, "EncoderDecoder has the layout d2l, not nyu"),
        (whole, "torch", ValueError, "layout must be one of d2l, d2l-mxnet, nyu, scratch, not 'torch'"),
    ):
        with pytest.raises(kind, match=re.escape(message)):
            load_weights(ours, weights, layout)
    with pytest.raises(ValueError, match="Linear is no class of a document"):
        weights_in(nn.Linear(2, 2), "d2l")
    assert all(torch.equal(ours.state_dict()[name], tensor) for name, tensor in before.state_dict().items())
