"""Faults of the seed documents in whole models (seed-checklist, section 1.6): the faulty form fails, ours passes."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import torch
from tests.unit.models.small import config, real_tokens, small_model, some_tokens
from torch import Tensor, nn

from dikkat.config import ModelConfig
from dikkat.models.encoder_decoder import Decoder, EncoderDecoder
from dikkat.models.factory import Factory, build_model
from dikkat.nn.blocks import BlockSettings, DecoderBlock, EncoderBlock
from dikkat.nn.masks import key_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.recorder import record_attention

Inputs = tuple[Tensor, Tensor, Tensor]


def inputs() -> Inputs:
    return some_tokens(2, 5), some_tokens(2, 6), real_tokens([5, 3], 5)


def raises(action: Callable[[], object]) -> bool:
    try:
        action()
    except Exception:
        return True
    return False


# F4 -------------------------------------------------------------------------------------------------------------------


class OneNameLayer(nn.Module):
    def __init__(self, width: int, hidden_dim: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, hidden_dim)


class AnotherNameEncoder(nn.Module):
    """Calls a part by a name that the part does not know, and asks for a number of layers that is never set."""

    def __init__(self, settings: ModelConfig) -> None:
        super().__init__()
        layer: Any = OneNameLayer
        self.layers = nn.ModuleList(
            layer(settings.model_dim, convolution_dim=settings.feed_forward_dim) for _ in range(settings.encoder_layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        for number in range(int(self.num_layers)):  # type: ignore[arg-type]
            x = self.layers[number](x)
        return x


def our_encoder(settings: ModelConfig) -> nn.Module:
    return Factory(settings).encoder()


@pytest.mark.seed("F4")
def test_one_name_from_the_setting_to_the_part() -> None:
    def builds_and_runs(build: Callable[[ModelConfig], nn.Module]) -> bool:
        return not raises(lambda: build(config(encoder_layers=3))(torch.randn(2, 5, 16)))

    assert not builds_and_runs(AnotherNameEncoder)
    assert builds_and_runs(our_encoder)
    for block in (EncoderBlock, DecoderBlock):
        shared = {"feed_forward_dim", "num_heads", "dropout", "attention_dropout", "activation", "norm_placement"}
        choices = {field.name for field in fields(BlockSettings)}
        assert choices <= set(ModelConfig.model_fields)
        assert shared <= choices | set(inspect.signature(block).parameters)


# F5 -------------------------------------------------------------------------------------------------------------------


class BuiltInForward(nn.Module):
    """Has no parts: each forward builds new ones with fresh random weights."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, source: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        hidden = nn.Embedding(23, 16)(target)
        return nn.Linear(16, 23)(hidden)


class BuiltOnce(nn.Module):
    """Ours: encoder, masked maximum, linear, from parts of the same factory."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.head = small_model(), nn.Linear(16, 2)

    def forward(self, source: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        return self.head(masked_maximum(self.model.encode(source, mask), mask))


def masked_maximum(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden.masked_fill(~mask[..., None], torch.finfo(hidden.dtype).min).amax(1)


@pytest.mark.seed("F5")
def test_parts_are_built_once_and_saved() -> None:
    def two_forwards_agree(model: nn.Module) -> bool:
        arguments = inputs()
        return torch.equal(model(*arguments), model(*arguments))

    def has_weights(model: nn.Module) -> bool:
        return len(model.state_dict()) > 0

    def a_reload_gives_the_same(model: nn.Module) -> bool:
        arguments, twin = inputs(), copy.deepcopy(model)
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.zero_()
        twin.load_state_dict(model.state_dict())
        return torch.equal(model(*arguments), twin(*arguments))

    for holds in (two_forwards_agree, has_weights, a_reload_gives_the_same):
        assert not holds(BuiltInForward())
        assert holds(small_model())
        assert holds(BuiltOnce())


# F6 -------------------------------------------------------------------------------------------------------------------


class PaddingSeen(nn.Module):
    """The same classifier without a mask: padding is attended to and can win the maximum."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = BuiltOnce()

    def forward(self, source: Tensor, target: Tensor, mask: Tensor) -> Tensor:
        return self.inner(source, target, torch.ones_like(mask))


@pytest.mark.seed("F6")
def test_appended_padding_changes_no_logit() -> None:
    def holds(model: nn.Module) -> bool:
        source, target, mask = inputs()
        longer = torch.cat((source, torch.zeros(2, 4, dtype=torch.int64)), dim=1)
        longer_mask = torch.cat((mask, torch.zeros(2, 4, dtype=torch.bool)), dim=1)
        return torch.allclose(model(source, target, mask), model(longer, target, longer_mask), rtol=0, atol=1e-6)

    assert not holds(PaddingSeen())
    assert holds(BuiltOnce())
    assert holds(small_model())


# F35 ------------------------------------------------------------------------------------------------------------------


class AlwaysPositionZero(EncoderDecoder):
    """At inference one token is fed, and it always gets the first row of the position table."""

    def step(self, tokens: Tensor, cache: Any) -> Tensor:
        return self.project(self.decoder.step(self.positions(self.target_embedding(tokens[:, None])), cache)[:, 0])


def as_faulty(model: EncoderDecoder, kind: type[EncoderDecoder]) -> EncoderDecoder:
    """The same parts and weights with another class's methods."""
    embeddings = (model.source_embedding, model.target_embedding, model.positions, model.embedding_norm)
    return kind(*embeddings, model.encoder, model.decoder, model.output_weight).train(model.training)


def steps_are_teacher_forcing(model: EncoderDecoder) -> bool:
    source, target, mask = inputs()
    with torch.no_grad():
        forced = model(source, target, mask)
        cache = model.start_cache(model.encode(source, mask), mask)
        stepped = torch.stack([model.step(target[:, t], cache) for t in range(target.shape[1])], dim=1)
    return torch.allclose(stepped, forced, rtol=0, atol=1e-5)


@pytest.mark.seed("F35")
def test_step_t_uses_position_t() -> None:
    model = small_model()
    assert not steps_are_teacher_forcing(as_faulty(model, AlwaysPositionZero))
    assert steps_are_teacher_forcing(model)


# F36 ------------------------------------------------------------------------------------------------------------------


class MaskedInTrainingOnly(Decoder):
    def forward(self, x: Tensor, memory: Tensor, memory_mask: Tensor | None = None) -> Tensor:
        if self.training:
            return super().forward(x, memory, memory_mask)
        for block in self.blocks:
            x = block(x, memory, None, memory_mask)
        return self.final_norm(x)


@pytest.mark.seed("F36")
def test_the_causal_mask_does_not_depend_on_the_mode() -> None:
    def the_future_is_hidden(decoder: Decoder, training: bool) -> bool:
        decoder.train(training)
        x, memory = torch.randn(2, 6, 16), torch.randn(2, 5, 16)
        changed = x.clone()
        changed[:, 4:] = torch.randn(2, 2, 16)
        mask = key_mask(real_tokens([5, 3], 5))
        return torch.allclose(decoder(x, memory, mask)[:, :4], decoder(changed, memory, mask)[:, :4], rtol=0, atol=1e-6)

    ours = small_model().decoder
    blocks = [block for block in ours.blocks if isinstance(block, DecoderBlock)]
    faulty = MaskedInTrainingOnly(blocks, ours.final_norm)
    assert the_future_is_hidden(faulty, training=True)
    assert not the_future_is_hidden(faulty, training=False)
    assert the_future_is_hidden(ours, training=True)
    assert the_future_is_hidden(ours, training=False)


# F34 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.seed("F34")
def test_whole_models_take_any_length_and_hide_the_future() -> None:
    """With norms over [length, width] the length is frozen, and the future comes through the statistics."""

    def with_norms_over_positions(length: int) -> nn.Module:
        decoder = build_model(config(norm_placement="post"), seed=1).decoder
        for part in decoder.modules():
            if isinstance(getattr(part, "norm", None), nn.LayerNorm):
                part.norm = nn.LayerNorm([length, 16])
        return decoder

    def ours(length: int) -> nn.Module:
        return build_model(config(norm_placement="post"), seed=1).decoder

    def any_length(build: Callable[[int], nn.Module]) -> bool:
        return not raises(lambda: build(6)(torch.randn(1, 7, 16), torch.randn(1, 5, 16)))

    def the_future_is_hidden(build: Callable[[int], nn.Module]) -> bool:
        decoder, x, memory = build(6), torch.randn(1, 6, 16), torch.randn(1, 5, 16)
        changed = x.clone()
        changed[:, 4:] *= 3
        return torch.allclose(decoder(x, memory)[:, :4], decoder(changed, memory)[:, :4], rtol=0, atol=1e-6)

    for holds in (any_length, the_future_is_hidden):
        assert not holds(with_norms_over_positions)
        assert holds(ours)


# F37 ------------------------------------------------------------------------------------------------------------------


class SharedStateCache:
    """Block inputs in one list per layer, without rows that could be put in another order."""

    def __init__(self, decoder: Decoder, memory: Tensor) -> None:
        self.decoder, self.memory = decoder, memory
        self.state: list[Tensor] = [memory.new_empty(memory.shape[0], 0, 16) for _ in decoder.blocks]

    def step(self, x: Tensor) -> Tensor:
        for layer, block in enumerate(self.decoder.blocks):
            assert isinstance(block, DecoderBlock)
            self.state[layer] = torch.cat((self.state[layer], x), dim=1)
            seen = self.state[layer]
            x = block.self_residual(x, lambda y, b=block, s=seen: b.self_attention(y, b.self_residual.norm(s)))
            x = block.cross_residual(x, lambda y, b=block: b.cross_attention(y, self.memory))
            x = block.feed_forward_residual(x, block.feed_forward)
        return self.decoder.final_norm(x)

    def reorder(self, index: Tensor) -> None:
        """What search asks for, and the list cannot do: it is left as it is."""


class OurCache:
    def __init__(self, decoder: Decoder, memory: Tensor) -> None:
        self.decoder = decoder
        self.cache = decoder.start_cache(memory, torch.ones(memory.shape[:2], dtype=torch.bool))

    def step(self, x: Tensor) -> Tensor:
        return self.decoder.step(x, self.cache)

    def reorder(self, index: Tensor) -> None:
        self.cache.reorder(index)


@pytest.mark.seed("F37")
@torch.no_grad()
def test_source_keys_are_projected_once_and_rows_can_change_places() -> None:
    decoder, memory = small_model().decoder, torch.randn(1, 5, 16).expand(2, 5, 16)
    Cached = type[SharedStateCache] | type[OurCache]  # noqa: N806
    x = torch.randn(2, 6, 16)

    def steps_are_the_whole(kind: Cached) -> bool:
        """Both are right as long as nothing is reordered: the fault of the list lies in what follows."""
        cache = kind(decoder, memory)
        return torch.allclose(
            torch.cat([cache.step(x[:, t : t + 1]) for t in range(6)], 1), decoder(x, memory), atol=1e-5
        )

    def the_source_is_projected_once(kind: Cached) -> bool:
        cache, calls = kind(decoder, memory), []
        original = MultiHeadAttention.project_memory
        MultiHeadAttention.project_memory = lambda self, *a: calls.append(a[0].shape) or original(self, *a)  # type: ignore
        try:
            for t in range(3):
                cache.step(x[:, t : t + 1])
        finally:
            MultiHeadAttention.project_memory = original  # type: ignore[method-assign]
        return not calls

    def rows_change_places(kind: Cached) -> bool:
        cache = kind(decoder, memory)
        for t in range(3):
            cache.step(x[:, t : t + 1])
        cache.reorder(torch.tensor([1, 1]))
        expected = decoder(torch.cat((x[[1, 1], :3], x[:, 3:4]), dim=1), memory)[:, 3:]
        return torch.allclose(cache.step(x[:, 3:4]), expected, rtol=0, atol=1e-5)

    assert steps_are_the_whole(SharedStateCache)
    assert steps_are_the_whole(OurCache)
    for holds in (the_source_is_projected_once, rows_change_places):
        assert not holds(SharedStateCache)
        assert holds(OurCache)


# F33, F38 in a whole model --------------------------------------------------------------------------------------------


@pytest.mark.seed("F33")
def test_recording_a_training_step_holds_no_graph() -> None:
    model, (source, target, mask) = small_model().train(), inputs()
    with record_attention(model) as maps:
        model(source, target, mask).sum().backward()
    assert maps
    assert not any(weights.requires_grad for calls in maps.values() for weights in calls)


@pytest.mark.seed("F38")
def test_a_source_of_length_zero_adds_nothing_of_the_source() -> None:
    """With uniform weights instead, the masked tokens would reach the logits."""
    model, target, nothing = small_model(), some_tokens(1, 4), torch.zeros(1, 5, dtype=torch.bool)
    first, second = (model(some_tokens(1, 5), target, nothing) for _ in range(2))
    assert torch.isfinite(first).all()
    torch.testing.assert_close(first, second, rtol=0, atol=1e-6)
