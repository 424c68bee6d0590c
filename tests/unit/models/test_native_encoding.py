"""Which sources are read natively, that nobody who looks on is overlooked, and that both paths have the same states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.unit.models.choices import CHOICES
from tests.unit.models.small import real_tokens, small_model, some_tokens
from torch import Tensor, nn

from dikkat.models import native_encoding
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.native_coverage import Bystanders
from dikkat.models.native_encoding import EncoderParts
from dikkat.native.encoder import EncoderWeights, encode
from dikkat.native.library import library, why_absent
from dikkat.nn.feed_forward import FeedForward
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.recorder import record_attention

pytestmark = pytest.mark.skipif(library() is None, reason=f"no native kernels: {why_absent()}")

NATIVE = {
    "default", "plain embeddings", "no bias but the last", "positions sinusoidal_concatenated", "positions learned",
    "score dot", "activation gelu", "free head width", "three heads", "temperature", "embedding norm",
}  # fmt: skip
"""Those of `CHOICES`."""
ALSO: list[dict[str, Any]] = [
    {"norm_placement": "post"},
    {"norm_placement": "post", "attention_bias": False, "activation": "gelu"},
    {"encoder_layers": 3, "decoder_layers": 1, "norm_eps": 0.1},
]
LENGTHS = [9, 4, 1]


def states(model: EncoderDecoder) -> Tensor:
    torch.manual_seed(7)
    return model.encode(some_tokens(3, 9), real_tokens(LENGTHS, 9))


def is_native(model: EncoderDecoder, monkeypatch: pytest.MonkeyPatch) -> bool:
    calls: list[object] = []

    def counted(*given: Any) -> Tensor:
        calls.append(given)
        return encode(*given)

    with monkeypatch.context() as patch:
        patch.setattr(native_encoding, "encode", counted)
        states(model)
    return bool(calls)


@pytest.mark.parametrize("name", CHOICES)
@torch.no_grad()
def test_every_choice_is_native_or_left_to_pytorch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_native(small_model(**CHOICES[name]), monkeypatch) == (name in NATIVE)


@pytest.mark.parametrize("choice", [*(CHOICES[name] for name in sorted(NATIVE)), *ALSO])
@torch.no_grad()
def test_both_paths_have_the_same_states(choice: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(**choice)
    assert is_native(model, monkeypatch)
    found = states(model)
    monkeypatch.setattr(native_encoding, "can_encode", lambda: False)
    expected = states(model)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(found[row, :length], expected[row, :length], rtol=0, atol=1e-5)
        assert not found[row, length:].any()


@torch.no_grad()
def test_padding_in_the_midst_is_not_seen() -> None:
    """Whatever the mask: the neighbours of a token are those that it lets through."""
    model, tokens = small_model(positions="learned"), some_tokens(1, 6)
    mask = torch.tensor([[True, False, True, True, False, True]])
    before = model.encode(tokens, mask)
    tokens[0, [1, 4]] = 3
    assert torch.equal(model.encode(tokens, mask), before)
    assert not before[0, [1, 4]].any()


@torch.no_grad()
def test_a_long_sentence_goes_through_pytorch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its states are the same in any company, and those of its neighbours too; in eight bits all of it is native."""
    monkeypatch.setattr(native_encoding, "LONG", 4)
    model, tokens = small_model(), some_tokens(3, 9)
    given: list[list[int]] = []

    def counted(weights: EncoderWeights, embedded: Tensor, lengths: list[int]) -> Tensor:
        given.append(lengths)
        return encode(weights, embedded, lengths)

    monkeypatch.setattr(native_encoding, "encode", counted)
    together = model.encode(tokens, real_tokens(LENGTHS, 9))
    assert given == [[0, 4, 1]]
    for row, length in enumerate(LENGTHS):
        alone = model.encode(tokens[row : row + 1, :length], torch.ones(1, length, dtype=torch.bool))
        assert torch.equal(alone[0], together[row, :length])
    monkeypatch.setattr(native_encoding, "can_encode", lambda: False)
    torch.testing.assert_close(model.encode(tokens, real_tokens(LENGTHS, 9))[0], together[0], rtol=0, atol=1e-5)
    monkeypatch.undo()
    model.quantize()
    monkeypatch.setattr(native_encoding, "LONG", 4)
    monkeypatch.setattr(native_encoding, "encode", counted)
    model.encode(tokens, real_tokens(LENGTHS, 9))
    assert given[-1] == LENGTHS


class Doubled(FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def derive(model: EncoderDecoder) -> None:
    model.encoder.blocks[1].feed_forward.__class__ = Doubled


def unlike(model: EncoderDecoder) -> None:
    model.encoder.blocks[1].feed_forward.activation = "gelu"  # type: ignore[union-attr]


def ended_by_a_norm(model: EncoderDecoder) -> None:
    model.encoder.final_norm = nn.LayerNorm(16)


def in_training(model: EncoderDecoder) -> None:
    model.encoder.blocks[0].train()


def replaced(model: EncoderDecoder) -> None:
    forward = model.encoder.forward
    model.encoder.forward = lambda *given, **options: 2 * forward(*given, **options)  # type: ignore[method-assign]


def hooked(model: EncoderDecoder) -> None:
    model.encoder.get_submodule("blocks.0.feed_forward").register_forward_hook(lambda *_: None)


def observed(model: EncoderDecoder) -> None:
    attention = model.encoder.get_submodule("blocks.0.self_attention")
    assert isinstance(attention, MultiHeadAttention)
    attention.observe(lambda seen: None)


@pytest.mark.parametrize("change", [derive, unlike, ended_by_a_norm, in_training, replaced, hooked, observed])
@torch.no_grad()
def test_what_is_not_covered_or_not_alone_is_left_to_pytorch(
    change: Callable[[EncoderDecoder], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model(norm_placement="post")
    assert is_native(model, monkeypatch)
    change(model)
    assert not is_native(model, monkeypatch)


def test_a_gradient_and_autocast_are_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model()
    assert not is_native(model, monkeypatch)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert not is_native(model, monkeypatch)


@torch.no_grad()
def test_a_recorder_of_the_encoder_gets_its_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model()
    with record_attention(model) as maps:
        assert not is_native(model, monkeypatch)
    assert [len(calls) for name, calls in maps.items() if name.stack == "encoder"] == [1, 1]
    assert is_native(model, monkeypatch)


@torch.no_grad()
def test_an_encoder_that_is_another_class_is_left_to_pytorch() -> None:
    model = small_model()
    assert not EncoderParts(Bystanders(model), nn.Linear(2, 2)).can_run(torch.zeros(1, 1, 2))
    assert not EncoderParts(Bystanders(model), model.encoder).can_run(torch.zeros(1, 0, 16))


def test_batches_go_side_by_side_in_eight_bits_unless_somebody_looks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dikkat.models.encoder_decoder.num_threads", lambda: 3)
    model = small_model()
    assert model.decodes_natively()
    assert model.batches_at_once() == 1
    model.quantize()
    assert model.batches_at_once() == 3
    with record_attention(model):
        assert model.batches_at_once() == 1
    hook = model.register_forward_hook(lambda *_: None)
    assert model.batches_at_once() == 1
    hook.remove()
    assert model.batches_at_once() == 3


@pytest.mark.usefixtures("without_kernels")
def test_by_pytorch_batches_go_side_by_side_in_any_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dikkat.models.encoder_decoder.num_threads", lambda: 3)
    model = small_model()
    assert not model.decodes_natively()
    assert model.batches_at_once() == 3
    with record_attention(model):
        assert model.batches_at_once() == 1
    model.quantize()
    assert model.batches_at_once() == 3
