"""A wrong position and a wrong cache are told apart."""

from __future__ import annotations

import pytest
from tests.unit.explain.doctor.patients import diagnosis, violation
from tests.unit.models.small import small_model
from torch import Tensor

from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.cache import DecoderCache, SelfAttentionCache
from dikkat.nn.rotary import RotaryPositions


def stepping_at(offset: int, monkeypatch: pytest.MonkeyPatch, scale: int) -> None:
    def step(self: EncoderDecoder, tokens: Tensor, cache: DecoderCache) -> Tensor:
        x = self.positions(self.target_embedding(tokens[:, None]), offset=scale * cache.length + offset)
        return self.project(self.decoder.step(self.dropout(x), cache)[:, 0])

    monkeypatch.setattr(EncoderDecoder, "step", step)


@pytest.mark.seed("F35")
@pytest.mark.parametrize(
    ("norm_placement", "scale", "offset"),
    # by day each once, half of them in either norm placement
    [
        pytest.param(placement, *wrong, marks=() if number % 2 == turn else pytest.mark.nightly)
        for number, wrong in enumerate([(0, 0), (0, 3), (1, 1), (2, 0)])
        for turn, placement in enumerate(("pre", "post"))
    ],
)
def test_steps_at_a_wrong_position(
    scale: int, offset: int, norm_placement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at one position, all one too far, every second one."""
    stepping_at(offset, monkeypatch, scale)
    model = small_model(norm_placement=norm_placement)
    assert diagnosis(model) == ({"positions advance"}, {"step = teacher forcing"})


@pytest.mark.seed("F35")
@pytest.mark.parametrize("num_kv_heads", [4, 2])
def test_steps_turned_to_position_zero(num_kv_heads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rotary positions the same fault lies in attention, and nothing else than the keys' places is wrong."""
    rotation = RotaryPositions.rotation
    monkeypatch.setattr(RotaryPositions, "rotation", lambda self, x, offset=0, position_ids=None: rotation(self, x))
    model = small_model(positions="rotary", num_kv_heads=num_kv_heads)
    assert diagnosis(model) == ({"positions advance"}, {"step = teacher forcing"})


def test_steps_at_their_own_position_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    stepping_at(0, monkeypatch, 1)
    assert diagnosis(small_model()) == (set(), set())


def test_a_cache_that_is_not_reordered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SelfAttentionCache, "reorder", lambda self, index: None)
    assert diagnosis(small_model()) == ({"step = teacher forcing"}, set())
    # the hypotheses change places after the third step
    assert violation(small_model(), "step = teacher forcing").where in {"step 3", "step 4", "step 5"}


def test_a_cache_that_forgets_the_source_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    start = EncoderDecoder.start_cache

    def shifted(self: EncoderDecoder, memory: Tensor, mask: Tensor, *, rows_per_sentence: int = 1) -> DecoderCache:
        return start(self, memory.roll(1, 0), mask.roll(1, 0), rows_per_sentence=rows_per_sentence)

    monkeypatch.setattr(EncoderDecoder, "start_cache", shifted)
    assert diagnosis(small_model()) == ({"step = teacher forcing"}, set())
