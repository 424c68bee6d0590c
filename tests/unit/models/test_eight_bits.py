"""Decoding with weights in eight bits: near the exact model, on both paths, for every choice of a configuration."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from tests.unit.decoding.reversing import SENTENCES, decoded, learned, sentences
from tests.unit.models.choices import CHOICES
from tests.unit.models.small import real_tokens, small_model, some_tokens
from torch import Tensor

from dikkat.models import native_coverage
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions

LENGTHS = [9, 4, 1]
WAYS = [DecodingOptions(), BeamOptions(beam_size=3)]


@torch.inference_mode()
def steps(model: EncoderDecoder) -> Tensor:
    """Logits of four steps."""
    generator = torch.Generator().manual_seed(7)
    source, tokens = (torch.randint(3, 23, shape, generator=generator) for shape in ((3, 9), (4, 3)))
    mask = real_tokens(LENGTHS, 9)
    cache = model.start_cache(model.encode(source, mask), mask)
    return torch.stack([model.step(each, cache) for each in tokens])


@pytest.fixture(scope="module")
def half_learned() -> EncoderDecoder:
    """Not to be quantized: that is for copies."""
    torch.manual_seed(0)
    return learned()


def distance(found: Tensor, exact: Tensor) -> float:
    return float((found - exact).norm() / exact.norm())


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_comes_close_and_repeats_itself(name: str) -> None:
    model = small_model(**CHOICES[name])
    exact = steps(model)
    model.quantize()
    rounded = steps(model)
    # one key is chosen or another: what is next to equal may change its order
    chooses = CHOICES[name].get("selection") is not None
    assert 1e-4 < distance(rounded, exact) < (1.0 if chooses else 0.1)
    assert torch.equal(steps(model), rounded)


def test_who_looks_on_sees_pytorch_compute_in_eight_bits_too(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model()
    exact = steps(model)
    model.quantize()
    rounded = steps(model)
    hook = model.register_forward_hook(lambda *_: None)
    watched = steps(model)
    hook.remove()
    assert torch.equal(steps(model), rounded)
    request.getfixturevalue("without_kernels")
    monkeypatch.setattr(native_coverage, "has_tiles", lambda: False)
    # attention is native in one of them, and what it changes in the last bits may be rounded to the next integer
    assert distance(watched, steps(model)) < 0.1 * distance(watched, exact)


def test_a_gradient_is_that_of_the_exact_weights() -> None:
    model, mask = small_model(), real_tokens(LENGTHS, 9)
    source, target = some_tokens(3, 9), some_tokens(3, 5)
    exact = model(source, target, mask)
    model.quantize()
    assert torch.equal(model(source, target, mask), exact)
    with torch.no_grad():
        assert 1e-4 < distance(model(source, target, mask), exact) < 0.1


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize(
    "part", ["encoder.blocks.0.feed_forward.inner", "decoder.blocks.1.self_attention.in_projection"]
)
def test_weights_that_are_no_numbers_are_refused(part: str) -> None:
    model = small_model()
    with torch.no_grad():
        model.get_submodule(part).weight[0, 0] = torch.nan  # type: ignore[operator]
    with pytest.raises(ValueError, match="not finite"):
        model.quantize()
    assert model.quantized is None


def test_weights_that_are_not_on_a_processor_are_refused() -> None:
    with pytest.raises(ValueError, match="eight bits are for processors, but the weights are on meta"):
        small_model().to("meta").quantize()


@pytest.mark.usefixtures("without_kernels")
@pytest.mark.parametrize("options", WAYS, ids=["greedy", "beam"])
def test_neighbours_change_no_translation(half_learned: EncoderDecoder, options: DecodingOptions) -> None:
    model = deepcopy(half_learned)
    model.quantize()
    together = decoded(model, sentences(3), options, SENTENCES)
    for size, rows in ((1, sentences(3)[:12]), (7, sentences(3))):
        apart = decoded(model, rows, options, size)
        assert [[each.tokens for each in found] for found in apart] == [
            [each.tokens for each in found] for found in together[: len(rows)]
        ]


@pytest.mark.usefixtures("without_kernels")
@pytest.mark.parametrize("options", WAYS, ids=["greedy", "beam"])
def test_as_many_words_are_right(half_learned: EncoderDecoder, options: DecodingOptions) -> None:
    """The task is to say a sequence backwards, which the model half knows."""
    model, rows = deepcopy(half_learned), sentences(3)

    def right() -> int:
        found = [best.tokens for best, *_ in decoded(model, rows, options, SENTENCES)]
        pairs = [
            pair for tokens, row in zip(found, rows, strict=True) for pair in zip(tokens, row[-2::-1], strict=False)
        ]
        return sum(ours == wanted for ours, wanted in pairs)

    exact = right()
    assert exact > 200
    model.quantize()
    assert right() >= 0.97 * exact
