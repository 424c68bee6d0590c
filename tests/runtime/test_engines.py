"""All engines decode alike: every way of decoding, over every kind of model that the native engine computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.models.choices import CHOICES
from tests.unit.models.small import VOCABULARY, config, small_model

from dikkat.kernels.library import library, why_absent
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.layers import set_products
from dikkat.torch_engine.engine import TorchEngine
from dikkat.torch_engine.texts import engine_in_memory
from dikkat_runtime.engine.choose import why_not_native
from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, Precision, SamplingOptions
from dikkat_runtime.engine.settings import NATIVE, model_settings
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.errors import DataError
from dikkat_runtime.tasks.batches import search_all

CONFIGS: dict[str, dict[str, Any]] = {
    "as by default": {},
    "post norm, gelu": {"norm_placement": "post", "activation": "gelu"},
    "two matrices, no biases": {"tie_embeddings": False, "attention_bias": False},
    "learned positions": {"positions": "learned", "max_positions": 64},
    "odd widths": {"model_dim": 21, "num_heads": 3, "head_dim": 5, "feed_forward_dim": 37},
    "wide heads, unequal depth": {"num_heads": 1, "head_dim": 40, "encoder_layers": 1, "decoder_layers": 3},
    "dot products": {"score": "dot", "inverse_temperature": 0.4, "scale_embeddings": False},
    "recurrent decoder": {"decoder_memory": "ssru", "norm_placement": "post"},
    "wide recurrent decoder": {"decoder_memory": "ssru", "model_dim": 37, "num_heads": 3, "head_dim": 5},
}
WAYS: dict[str, DecodingOptions] = {
    "greedy": DecodingOptions(),
    "a beam of one": BeamOptions(beam_size=1),
    "beam": BeamOptions(beam_size=4, n_best=4),
    "beam without length penalty": BeamOptions(beam_size=3, length_penalty=0.0),
    "no n-gram twice": BeamOptions(beam_size=3, n_best=2, no_repeat_ngram=2),
    "greedy, no token twice": DecodingOptions(no_repeat_ngram=1),
    "repetition penalty": BeamOptions(beam_size=3, repetition_penalty=1.4),
    "sampling": SamplingOptions(seed=5),
    "sharpened and cut sampling": SamplingOptions(seed=5, temperature=0.7, top_k=9, top_p=0.9, min_p=0.02),
    "sampling under limits": SamplingOptions(seed=5, no_repeat_ngram=2, repetition_penalty=1.2),
}
SOURCES = [[5, 6, 7], [3], [9, 10, 11, 12, 13, 14, 15, 16, 17], [20, 4, 4, 4, 20]]


def native(model: EncoderDecoder, precision: Precision = "float32", threads: int = 1, **settings: Any) -> NativeEngine:
    arrays = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    shape = model_settings({"model": config(**settings).model_dump()}, "here", NATIVE)
    return NativeEngine(shape, Weights(arrays, "here", precision == "int8", threads))


def decoded(engine: Engine, options: DecodingOptions) -> list[list[Hypothesis]]:
    return search_all(engine, SOURCES, options)


def assert_alike(result: list[list[Hypothesis]], others: list[list[Hypothesis]], tolerance: float = 1e-4) -> None:
    assert [[item.tokens for item in hypotheses] for hypotheses in result] == [
        [item.tokens for item in hypotheses] for hypotheses in others
    ]
    for one, other in zip(chain.from_iterable(result), chain.from_iterable(others), strict=True):
        assert one.finished == other.finished
        assert one.score == pytest.approx(other.score, abs=tolerance)
        assert one.log_probability == pytest.approx(other.log_probability, abs=10 * tolerance)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *(("as by default", way) for way in WAYS),
        *((name, way) for name in CONFIGS for way in ("beam", "no n-gram twice") if name != "as by default"),
        *(
            pytest.param(name, way, marks=pytest.mark.nightly)
            for name in CONFIGS
            for way in WAYS
            if name != "as by default" and way not in ("beam", "no n-gram twice")
        ),
    ],
)
def test_both_engines_find_the_same(name: str, way: str) -> None:
    model = small_model(**CONFIGS[name])
    assert_alike(decoded(native(model, **CONFIGS[name]), WAYS[way]), decoded(TorchEngine(model), WAYS[way]))


@pytest.mark.parametrize("name", CONFIGS)
def test_states_of_the_source_are_the_same(name: str) -> None:
    model = small_model(**CONFIGS[name])
    result, other = native(model, **CONFIGS[name]).encode(SOURCES), TorchEngine(model).encode(SOURCES)
    assert result.lengths == other.lengths == (4, 2, 10, 6)
    np.testing.assert_allclose(result.states, other.states, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_eight_bits_are_the_products_of_rounded_factors(name: str) -> None:
    """Keys and values are in bfloat16 besides, which moves a log-probability a little."""
    model = small_model(**CONFIGS[name])
    options = DecodingOptions(max_length_factor=0.0, max_length_offset=1)
    result = decoded(native(model, "int8", **CONFIGS[name]), options)
    set_products(model, "int8")
    others = decoded(TorchEngine(model.train()), options)
    assert_alike(result, others, tolerance=0.05)


def everything(engine: Engine) -> list[list[list[Hypothesis]]]:
    return [decoded(engine, options) for options in WAYS.values()]


@pytest.mark.parametrize("make", ["native", "int8", "torch"])
def test_a_sentence_is_the_same_alone_and_in_company(make: str) -> None:
    model = small_model()
    engines: dict[str, Callable[[], Engine]] = {
        "native": lambda: native(model),
        "int8": lambda: native(model, "int8"),
        "torch": lambda: TorchEngine(model),
    }
    engine = engines[make]()
    for options in WAYS.values():
        together = decoded(engine, options)
        for number, source in enumerate(SOURCES):
            (alone,) = search_all(engine, [source], options, numbers=[number])
            assert_alike([alone], [together[number]], tolerance=1e-5)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_threads_change_not_a_bit(precision: Precision) -> None:
    model = small_model()
    expected = everything(native(model, precision))
    for threads in (2, 3):
        assert everything(native(model, precision, threads)) == expected


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_recurrent_decoder_writes_the_same_alone_in_company_and_by_any_threads(precision: Precision) -> None:
    # more sentences than a thread searches at once, so that some come in when others are over
    sources, options = SOURCES * 8, BeamOptions(beam_size=3, n_best=3)
    model = small_model(decoder_memory="ssru")
    engine = native(model, precision, decoder_memory="ssru")
    together = search_all(engine, sources, options)
    for threads in (2, 3):
        assert search_all(native(model, precision, threads, decoder_memory="ssru"), sources, options) == together
    for number, source in enumerate(SOURCES):
        assert search_all(engine, [source], options) == together[number : number + 1]


@pytest.mark.parametrize("memory", ["attention", "ssru"])
def test_steps_go_back_to_what_all_rows_have_in_common(memory: str) -> None:
    model = small_model(decoder_memory=memory)
    for engine in (native(model, decoder_memory=memory), native(model, "int8", decoder_memory=memory)):
        encoded = engine.encode([[5, 6, 7]])
        steps, fresh = engine.steps(encoded, 3), engine.steps(encoded, 3)
        for either in (steps, fresh):
            either.rewind(0)
        for token in (1, 8, 9):
            steps.step([token])
        steps.continue_from([0, 0, 0], [0, 0, 0])
        steps.step([4, 11, 12])
        # the first row ends, and its slot goes to a child of another
        steps.continue_from([2, 1, 2], [0, 0, 0])
        steps.step([13, 14, 15])
        steps.rewind(2)
        for token in (1, 8):
            fresh.step([token])
        # so many that the cache grows
        for token in (10, *range(4, 22), *range(4, 22)):
            np.testing.assert_array_equal(steps.step([token]), fresh.step([token]))


def test_among_equals_all_take_the_same() -> None:
    model = small_model()
    with torch.no_grad():
        model.output_weight.zero_()
    for options in (BeamOptions(beam_size=3, n_best=3), DecodingOptions(), BeamOptions(beam_size=3, no_repeat_ngram=1)):
        assert_alike(decoded(native(model), options), decoded(TorchEngine(model), options))


def test_at_the_end_of_learned_positions_a_hypothesis_ends() -> None:
    settings: dict[str, Any] = {"positions": "learned", "max_positions": 12}
    result = decoded(native(small_model(**settings), **settings), BeamOptions(beam_size=2, length_penalty=5.0))
    assert max(len(item.tokens) for hypotheses in result for item in hypotheses) <= 12
    with pytest.raises(DataError, match="13 tokens does not fit into 12 learned positions"):
        native(small_model(**settings), **settings).encode([[5] * 12])


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_is_computed_by_one_engine(name: str) -> None:
    """Who asks for no engine gets the native one, or the torch engine with the reason."""
    model, shape = small_model(**CHOICES[name]), config(**CHOICES[name])
    engine = engine_in_memory(model, shape)
    why = why_not_native({"model": shape.model_dump()}, "the model")
    assert engine.info.name == ("native" if why is None else "torch")
    assert engine.info.why_not_native == (why or "")
    result = decoded(engine, BeamOptions(beam_size=2))
    assert [len(hypotheses) for hypotheses in result] == [1] * len(SOURCES)


def test_the_engine_of_a_model_in_training_has_its_weights_of_now() -> None:
    model = small_model()
    before = decoded(engine_in_memory(model, config()), BeamOptions(beam_size=2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-1.5)
    after = decoded(engine_in_memory(model, config()), BeamOptions(beam_size=2))
    assert after != before
    assert_alike(after, decoded(TorchEngine(model), BeamOptions(beam_size=2)))


@pytest.mark.skipif(library() is None, reason=f"no native kernels: {why_absent()}")
def test_the_bfloat16_weights_of_a_training_are_computed_with_in_float32() -> None:
    model = small_model()
    # not what is no weight: a training leaves the positions as they are
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16()
    result = decoded(engine_in_memory(model, config()), BeamOptions(beam_size=2))
    for parameter in model.parameters():
        parameter.data = parameter.data.float()
    assert_alike(result, decoded(TorchEngine(model), BeamOptions(beam_size=2)))


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_weights_that_are_no_numbers_are_refused(poison: float) -> None:
    model = small_model()
    with torch.no_grad():
        model.output_weight[3, 2] = poison
    with pytest.raises(DataError, match="output_weight holds values that are not finite"):
        native(model)


def test_a_token_outside_the_vocabulary_is_refused() -> None:
    for wrong in (-1, VOCABULARY, 2**62):
        with pytest.raises(DataError, match=f"a token must lie between 0 and {VOCABULARY - 1}"):
            native(small_model()).encode([[5, wrong]])
