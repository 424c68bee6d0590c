"""Which decodes step natively, that nobody who looks on is overlooked, and that both paths have the same logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.unit.models.choices import CHOICES
from tests.unit.models.small import real_tokens, shake, small_model, some_tokens
from torch import Tensor, nn

from dikkat.models import native_decoding
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.native_decoding import NativeCache
from dikkat.native.library import library, why_absent
from dikkat.nn.cache import DecoderCache
from dikkat.nn.feed_forward import FeedForward
from dikkat.nn.learned_positions import BeyondPositionsError
from dikkat.nn.multi_head_attention import MultiHeadAttention, Observation
from dikkat.nn.recorder import record_attention
from dikkat.training.parameters import FlatParameters

pytestmark = pytest.mark.skipif(library() is None, reason=f"no native kernels: {why_absent()}")

NATIVE = {
    "default", "plain embeddings", "no bias but the last", "positions sinusoidal_concatenated", "positions learned",
    "score dot", "activation gelu", "free head width", "three heads", "temperature",
}  # fmt: skip
"""Those of `CHOICES`."""
ALSO: list[dict[str, Any]] = [
    {"norm_placement": "post"},
    {"norm_placement": "post", "attention_bias": False, "tie_embeddings": False, "activation": "gelu"},
    {"encoder_layers": 1, "decoder_layers": 3, "norm_eps": 0.1},
]
ROWS = 2


def begun(model: EncoderDecoder, lengths: tuple[int, ...] = (9, 4, 1)) -> DecoderCache:
    """A decode of those sentences, two rows each."""
    torch.manual_seed(7)
    source, mask = some_tokens(len(lengths), 9), real_tokens(list(lengths), 9)
    return model.start_cache(model.encode(source, mask), mask, rows_per_sentence=ROWS)


def is_native(cache: DecoderCache) -> bool:
    return isinstance(cache, NativeCache) and cache.steps_natively


def pytorch_steps(model: EncoderDecoder, tokens: Tensor, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    with monkeypatch.context() as patch:
        patch.setattr(native_decoding, "can_step", lambda: False)
        cache = begun(model)
        assert not is_native(cache)
        return torch.stack([model.step(each, cache) for each in tokens])


@pytest.mark.parametrize("name", CHOICES)
@torch.no_grad()
def test_every_choice_is_native_or_left_to_pytorch(name: str) -> None:
    assert is_native(begun(small_model(**CHOICES[name]))) == (name in NATIVE)


@pytest.mark.parametrize("choice", [*(CHOICES[name] for name in sorted(NATIVE)), *ALSO])
@torch.no_grad()
def test_both_paths_have_the_same_logits(choice: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With reordered rows and sentences that leave on the way."""
    model, tokens = small_model(**choice), some_tokens(40, 6)
    found = []
    for native in (True, False):
        with monkeypatch.context() as patch:
            if not native:
                patch.setattr(native_decoding, "can_step", lambda: False)
            cache, logits = begun(model), []
            assert is_native(cache) == native
            for place, each in enumerate(tokens):
                logits.append(model.step(each[:2] if place > 25 else each, cache))
                if place % 7 == 3:
                    cache.reorder(torch.tensor([1, 0] if place > 25 else [1, 1, 2, 2, 5, 4]))
                if place == 25:
                    cache.drop(torch.tensor([1]))
                assert cache.length == place + 1
            found.append(logits)
    for ours, twin in zip(*found, strict=True):
        torch.testing.assert_close(ours, twin, rtol=0, atol=1e-5)


class Doubled(FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Shifted(nn.Module):
    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        return x + offset


def derive(model: EncoderDecoder) -> None:
    """In place, so that the weights stay what they are."""
    model.decoder.blocks[1].feed_forward.__class__ = Doubled


def shift(model: EncoderDecoder) -> None:
    model.positions = Shifted()  # type: ignore[assignment]


def narrow(model: EncoderDecoder) -> None:
    model.bfloat16()


def unlike(model: EncoderDecoder) -> None:
    model.decoder.blocks[1].feed_forward.activation = "gelu"  # type: ignore[union-attr]


def transposed(model: EncoderDecoder) -> None:
    layer = model.decoder.get_submodule("blocks.0.feed_forward.inner")
    assert isinstance(layer.weight, Tensor)
    layer.weight = nn.Parameter(layer.weight.detach().t().contiguous().t())


def ended_by_a_norm(model: EncoderDecoder) -> None:
    model.decoder.final_norm = nn.LayerNorm(16)


def shift_before_the_decoder(model: EncoderDecoder) -> None:
    model.dropout = Shifted()  # type: ignore[assignment]


@pytest.mark.parametrize(
    "change", [derive, shift, shift_before_the_decoder, narrow, unlike, transposed, ended_by_a_norm]
)
@torch.no_grad()
def test_what_is_not_covered_is_left_to_pytorch(change: Callable[[EncoderDecoder], None]) -> None:
    model = small_model(norm_placement="post")
    assert is_native(begun(model))
    change(model)
    cache = begun(model)
    assert not is_native(cache)
    assert model.step(some_tokens(6), cache).shape == (6, 23)


@torch.no_grad()
def test_a_source_without_positions_is_left_to_pytorch() -> None:
    """It has something to say about it."""
    model = small_model()
    cache = model.start_cache(torch.zeros(2, 0, 16), torch.ones(2, 0, dtype=torch.bool))
    with pytest.raises(ValueError, match="must have at least 1 position"):
        model.step(some_tokens(2), cache)


def test_a_gradient_is_pytorchs() -> None:
    model = small_model()
    with torch.inference_mode():
        cache = begun(model)
        assert is_native(cache)
    assert not is_native(cache)
    assert not is_native(begun(model))
    model.step(some_tokens(6), begun(model)).sum().backward()
    assert model.output_weight.grad is not None


@torch.no_grad()
def test_training_and_autocast_are_pytorchs() -> None:
    model = small_model()
    for part in (model, model.decoder, model.decoder.blocks[1], model.dropout):
        part.train()
        assert not is_native(begun(model))
        model.eval()
    with torch.autocast("cpu", torch.bfloat16):
        assert not is_native(begun(model))
    assert is_native(begun(model))


@pytest.mark.parametrize("after", [0, 1, 33])
@pytest.mark.parametrize("hooked", [False, True])
@torch.no_grad()
def test_whoever_looks_on_sees_what_both_paths_attend_with(
    after: int, hooked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorder in the middle of a decode, whose rows change places and whose sentences leave, before and meanwhile;
    at the end a hook, for which the decode is handed over to PyTorch.
    """
    model, tokens = small_model(), some_tokens(after + 6, 4)
    found = []
    for native in (True, False):
        with monkeypatch.context() as patch:
            if not native:
                patch.setattr(native_decoding, "can_step", lambda: False)
            cache = begun(model)
            cache.drop(torch.tensor([0, 2]))
            logits = [model.step(each, cache) for each in tokens[:after]]
            with record_attention(model) as maps:
                cache.reorder(torch.tensor([1, 1, 3, 2]))
                logits += [model.step(each, cache) for each in tokens[after : after + 2]]
                cache.drop(torch.tensor([1]))
                logits += [model.step(each[:2], cache) for each in tokens[after + 2 : after + 4]]
            assert is_native(cache) == native
            handle = model.decoder.register_forward_hook(lambda *_: None) if hooked else None
            logits += [model.step(each[:2], cache) for each in tokens[after + 4 :]]
            if handle is not None:
                assert not is_native(cache)
                handle.remove()
            assert cache.length == after + 6
            found.append((logits, [weights for calls in maps.values() for weights in calls]))
    assert len(found[0][1]) == len(found[1][1]) == 16
    for ours, twin in zip(found[0][0] + found[0][1], found[1][0] + found[1][1], strict=True):
        torch.testing.assert_close(ours, twin, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["self_attention", "cross_attention"])
@torch.no_grad()
def test_an_observed_attention_leaves_the_step_to_pytorch(kind: str) -> None:
    model = small_model()
    seen: list[Observation] = []
    attention = model.decoder.get_submodule(f"blocks.1.{kind}")
    assert isinstance(attention, MultiHeadAttention)
    cache = begun(model)
    handle = attention.observe(seen.append)
    model.step(some_tokens(6), cache)
    assert not is_native(begun(model))
    assert len(seen) == 1
    handle.remove()
    assert is_native(begun(model))


def modules_of(model: EncoderDecoder) -> dict[str, nn.Module]:
    return {name or "model": module for name, module in model.named_modules()}


@pytest.mark.parametrize("name", modules_of(small_model()))
@torch.no_grad()
def test_a_hook_anywhere_leaves_the_step_to_pytorch(name: str) -> None:
    """Before a decode and in the midst of one; when it is gone, decodes begin natively again."""
    model = small_model()
    module = modules_of(model)[name]
    for register in (module.register_forward_hook, module.register_forward_pre_hook):
        cache = begun(model)
        assert is_native(cache)
        handle = register(lambda *_: None)
        assert not is_native(cache)
        assert not is_native(begun(model))
        handle.remove()
        assert is_native(begun(model))


@torch.no_grad()
def test_a_hook_on_all_modules_leaves_the_step_to_pytorch() -> None:
    registers = (nn.modules.module.register_module_forward_hook, nn.modules.module.register_module_forward_pre_hook)
    for register in registers:
        handle = register(lambda *_: None)
        try:
            assert not is_native(begun(small_model()))
        finally:
            handle.remove()


@pytest.mark.parametrize("kind", ["self_attention", "cross_attention"])
@torch.no_grad()
def test_a_head_taken_out_by_a_hook_is_out(kind: str) -> None:
    """As if the columns of the output projection that belong to it were zero."""
    model, tokens = small_model(), some_tokens(4, 6)
    projection = model.decoder.get_submodule(f"blocks.0.{kind}.out_projection")
    head = slice(4, 8)

    def ablate(_: nn.Module, given: tuple[Tensor]) -> Tensor:
        joined = given[0].clone()
        joined[..., head] = 0.0
        return joined

    def steps() -> Tensor:
        cache = begun(model)
        return torch.stack([model.step(each, cache) for each in tokens])

    untouched = steps()
    handle = projection.register_forward_pre_hook(ablate)
    found = steps()
    handle.remove()
    assert isinstance(projection.weight, Tensor)
    projection.weight[:, head] = 0.0
    assert is_native(begun(model))
    torch.testing.assert_close(found, steps(), rtol=0, atol=1e-5)
    assert float((found - untouched).abs().max()) > 1e-2


@torch.no_grad()
def test_a_replaced_method_is_called() -> None:
    class Doubling(EncoderDecoder):
        def project(self, hidden: Tensor) -> Tensor:
            return 2 * super().project(hidden)

    model, tokens = small_model(), some_tokens(6)
    expected = 2 * model.step(tokens, begun(model))
    derived = small_model()
    derived.load_state_dict(model.state_dict())
    derived.__class__ = Doubling
    replaced = model.project
    model.project = lambda hidden: 2 * replaced(hidden)  # type: ignore[method-assign]
    for each in (model, derived):
        cache = begun(each)
        assert not is_native(cache)
        torch.testing.assert_close(each.step(tokens, cache), expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_the_decoders_own_step_finds_everything_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = small_model(), some_tokens(5, 6)
    expected = pytorch_steps(model, tokens, monkeypatch)
    cache = begun(model)
    for place, each in enumerate(tokens):
        if place < 3:
            logits = model.step(each, cache)
        else:
            x = model.positions(model.target_embedding(each[:, None]), offset=cache.length)
            logits = model.project(model.decoder.step(x, cache)[:, 0])
        torch.testing.assert_close(logits, expected[place], rtol=0, atol=1e-5)


@torch.no_grad()
def test_fewer_rows_of_a_sentence_are_left_to_pytorch() -> None:
    """What a cache may be asked for, though no search does."""
    model = small_model()
    cache = begun(model)
    first = model.step(some_tokens(6), cache)
    cache.reorder(torch.tensor([0, 2, 4]))
    assert first.shape == (6, 23)
    assert model.step(some_tokens(3), cache).shape == (3, 23)
    assert cache.length == 2


@torch.no_grad()
def test_weights_that_change_between_two_decodes_are_the_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place, by another tensor in the same parameter, and as views of the one vector that training makes."""
    model, tokens = small_model(), some_tokens(3, 6)

    def flatten() -> None:
        flat = FlatParameters(model)
        flat.master.mul_(1.1)

    def replace() -> None:
        for parameter in model.parameters():
            parameter.data = parameter.data * 0.9

    for change in (lambda: None, lambda: shake(model), replace, flatten):
        change()
        cache = begun(model)
        assert is_native(cache)
        ours = torch.stack([model.step(each, cache) for each in tokens])
        torch.testing.assert_close(ours, pytorch_steps(model, tokens, monkeypatch), rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_sentence_beyond_the_learned_table_is_refused_natively_too() -> None:
    model = small_model(positions="learned", max_positions=9)
    cache = begun(model)
    for _ in range(9):
        model.step(some_tokens(6), cache)
    assert is_native(cache)
    with pytest.raises(BeyondPositionsError, match="must fit into max_positions = 9 learned positions, but reaches 10"):
        model.step(some_tokens(6), cache)
