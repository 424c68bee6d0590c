"""The engines of classifiers and language models compute alike, whatever the model, and alike alone and in company."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from tests.unit.models.small import shake
from torch import nn

from dikkat.config import ClassifierConfig, EncoderConfig, ModelConfig
from dikkat.models.factory import Factory, build_classifier, build_language_model
from dikkat.run_directory import RunDirectory
from dikkat.tasks.embedding import encoder_engine
from dikkat.torch_engine.texts import (
    TorchClassifier,
    TorchLanguageModel,
    classifier_in_memory,
    language_model_in_memory,
)
from dikkat_runtime.engine.choose import COMPUTED
from dikkat_runtime.engine.contract import ClassifyingEngine, TextEngine, WritingEngine
from dikkat_runtime.engine.native_texts import NativeEncoder, NativeLanguageModel
from dikkat_runtime.engine.options import GenerationOptions, Precision
from dikkat_runtime.engine.settings import model_settings
from dikkat_runtime.engine.text_writer import TextWriter
from dikkat_runtime.errors import DataError

VOCABULARY = 40
PRECISIONS: tuple[Precision, ...] = ("float32", "int8", "int4")
ROWS = [[1, 5, 6, 7], [1], [1, 9, 10, 11, 12, 13, 14, 15, 16, 17], [1, 20, 4, 4, 4, 20]]
STACKS: dict[str, dict[str, Any]] = {
    "rotary positions": {"positions": "rotary"},
    "sinusoids, post norm, embedding norm": {"norm_placement": "post", "embedding_norm": True},
    "learned positions, gelu": {"positions": "learned", "max_positions": 64, "activation": "gelu"},
    "grouped keys, root-mean-square norm, swiglu": {"num_kv_heads": 2, "norm": "rms", "activation": "swiglu"},
    "geglu, no biases": {"activation": "geglu", "attention_bias": False},
    "gelu by tanh, odd widths": {"activation": "gelu_tanh", "head_dim": 5, "feed_forward_dim": 37},
    "no positions": {"positions": "none"},
    "buckets of distances": {"positions": "learned", "relative_bias": True, "max_positions": 64},
    "vectors of distances": {"score": "disentangled", "relative_span": 8, "relative_range": 20, "positions": "none"},
    "a vector for each distance": {"score": "disentangled", "relative_span": 4, "head_dim": 5, "positions": "none"},
    "first attention without a norm": {"first_norm": False, "embedding_norm": True, "positions": "rotary"},
    "norms after the parts": {"norm_placement": "output"},
    "norms before and after the parts": {"norm_placement": "both", "norm": "rms"},
}
NARROW = {"embedding_dim": 10, "embedding_norm": True, "positions": "learned", "max_positions": 64}
OWN: dict[str, dict[str, Any]] = {
    **STACKS,
    "two matrices, output bias": {"tie_embeddings": False, "output_bias": True},
    "a layer before the output": {"output_transform": "gelu", "embedding_dim": 10, "output_bias": True},
}
"""Of language models."""
WAYS = {
    "greedy": GenerationOptions(temperature=0.0),
    "sampling": GenerationOptions(seed=3),
    "cut sampling": GenerationOptions(top_k=9, top_p=0.9, min_p=0.02),
    "limits": GenerationOptions(temperature=0.0, no_repeat_ngram=2, repetition_penalty=1.3),
}


def shape(**settings: Any) -> ModelConfig:
    sizes = {"model_dim": 24, "num_heads": 4, "feed_forward_dim": 40, "encoder_layers": 2, "decoder_layers": 2}
    return ModelConfig.model_validate({**sizes, "vocab_size": VOCABULARY, **settings})


ModelT = TypeVar("ModelT", bound=nn.Module)


def shaken(model: ModelT) -> ModelT:
    """In evaluation mode, with nothing at its neutral value."""
    shake(model)
    return model.eval()


def classifiers(head_config: ClassifierConfig | None = None, **settings: Any) -> dict[str, ClassifyingEngine]:
    head_config = head_config or ClassifierConfig()
    config = shape(**settings)
    model = shaken(build_classifier(config, head_config, 3, seed=5))
    engines: dict[str, ClassifyingEngine] = {"torch": TorchClassifier(model)}
    for precision in PRECISIONS:
        engines[precision] = classifier_in_memory(model, config, head_config, precision)
    return engines


def language_models(objective: Any = "causal", **settings: Any) -> dict[str, WritingEngine]:
    config = shape(**settings)
    model = shaken(build_language_model(config, objective, seed=5))
    engines: dict[str, WritingEngine] = {"torch": TorchLanguageModel(model)}
    for precision in PRECISIONS:
        engines[precision] = language_model_in_memory(model, config, precision)
    return engines


def near(result: Any, expected: Any, precision: str) -> None:
    """Eight bits round every factor to 127 steps, four to 15 between the ends of a group; that adds up over layers."""
    most = {"float32": 2e-5, "int8": 0.35, "int4": 2.0}[precision]
    np.testing.assert_allclose(result, expected, rtol=0, atol=most)


def written(engine: WritingEngine, options: GenerationOptions, context: int = 12, steps: int = 20) -> list[list[int]]:
    """Three texts, one of which ends before the others; with more tokens than the context holds."""
    writer = TextWriter(engine, np.array([[1, 5], [1, 9], [1, 9]]), context, options, [0, 1, 3], [0, 1, 2])
    texts = [writer.step() for _ in range(3)]
    writer.keep([0, 2])
    return [*texts, *(writer.step() for _ in range(steps))]


@pytest.mark.parametrize("name", [*STACKS, "narrow embeddings"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_classes_and_vectors_are_those_of_the_model(name: str, precision: Precision) -> None:
    engines = classifiers(**STACKS.get(name, NARROW))
    result, expected = engines[precision], engines["torch"]
    assert (result.info.name, result.info.precision, expected.info.name) == ("native", precision, "torch")
    near(result.logits(ROWS), expected.logits(ROWS), precision)
    near(result.pool(result.hidden(ROWS)), expected.pool(expected.hidden(ROWS)), precision)


@pytest.mark.parametrize("around", [
    {"pooling": "mean", "normalize": True}, {"pooling": "first"}, {"pooling": "pooler", "pooler": True},
    {"pooling": "mean", "pooler": True},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("precision", PRECISIONS)
def test_vectors_of_an_imported_encoder_are_those_of_the_model(
    around: dict[str, Any], precision: Precision, tmp_path: Path
) -> None:
    config = shape(norm_placement="post", embedding_norm=True, positions="learned", activation="gelu")
    model = shaken(Factory(config).sentence_encoder(EncoderConfig.model_validate(around)))
    with torch.no_grad():
        model.segment_embedding.normal_()
    run = RunDirectory(tmp_path)
    run.write_config({"model": config.model_dump(), "task": "encoder", "encoder": around})
    expected = encoder_engine(model, run, "")
    arrays = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    settings = model_settings({"model": config.model_dump()}, "here", COMPUTED["encoder"])
    others = {"segments": 2, "pooling": around["pooling"], "has_pooler": "pooler" in around}
    native = NativeEncoder(
        settings, arrays, "here", **others, normalize="normalize" in around, precision=precision, threads=2
    )
    memory = native.hidden(ROWS)
    near(memory.states[0, :4], expected.hidden(ROWS).states[0, :4], precision)
    near(native.pool(memory), expected.pool(expected.hidden(ROWS)), precision)


@pytest.mark.parametrize(
    "head_config",
    [
        {"pooling": "first"}, {"pooling": "attention"}, {"pooling": "max"}, {"objective": "multi_label"},
    ],
    ids=str,
)  # fmt: skip
def test_every_pooling_and_objective(head_config: dict[str, Any]) -> None:
    engines = classifiers(ClassifierConfig(**head_config), positions="rotary")
    near(engines["float32"].logits(ROWS), engines["torch"].logits(ROWS), "float32")


def test_one_logit_of_two_classes() -> None:
    config, head_config = shape(positions="rotary"), ClassifierConfig(objective="binary")
    model = shaken(build_classifier(config, head_config, 2, seed=5))
    result = classifier_in_memory(model, config, head_config).logits(ROWS)
    assert result.shape == (len(ROWS), 2)
    assert not result[:, 0].any()
    near(result, TorchClassifier(model).logits(ROWS), "float32")


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("way", WAYS)
def test_texts_are_written_as_by_the_model(name: str, way: str) -> None:
    engines = language_models(**OWN[name])
    assert written(engines["float32"], WAYS[way]) == written(engines["torch"], WAYS[way])


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_likelihoods_and_states_are_those_of_the_model(name: str, precision: Precision) -> None:
    engines = language_models(**OWN[name])
    result, expected = engines[precision], engines["torch"]
    windows = np.random.default_rng(0).integers(4, VOCABULARY, (3, 11))
    skipped = [0, 4, 9]
    wanted = expected.nats(windows, skipped)
    assert result.nats(windows, skipped) == pytest.approx(wanted, rel=1e-5 if precision == "float32" else 0.05)
    near(result.pool(result.hidden(ROWS)), expected.pool(expected.hidden(ROWS)), precision)


@pytest.mark.parametrize("objective", ["masked", "prefix"])
def test_what_is_read_both_ways(objective: str) -> None:
    engines = language_models(objective, positions="rotary")
    result, expected = engines["float32"], engines["torch"]
    for number, row in enumerate(ROWS):
        near(result.hidden(ROWS).states[number, : len(row)], expected.hidden([row]).states[0], "float32")
    if objective == "prefix":
        assert written(result, WAYS["greedy"]) == written(expected, WAYS["greedy"])


Engines = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("precision", ["float32", "int8", "torch"])
@pytest.mark.parametrize("make", [classifiers, language_models])
def test_a_text_is_the_same_alone_and_in_company(make: Engines, precision: str) -> None:
    engine: TextEngine = make(positions="rotary")[precision]
    together = engine.hidden(ROWS)
    vectors = engine.pool(together)
    for number, row in enumerate(ROWS):
        alone = engine.hidden([row])
        atol = 0.0 if precision != "torch" else 1e-5
        np.testing.assert_allclose(together.states[number, : len(row)], alone.states[0], rtol=0, atol=atol)
        np.testing.assert_allclose(vectors[number], engine.pool(alone)[0], rtol=0, atol=max(atol, 1e-6))


@pytest.mark.parametrize("precision", ["float32", "int8", "torch"])
def test_a_text_is_written_the_same_alone_and_in_company(precision: str) -> None:
    engine = language_models(positions="rotary")[precision]
    for options in WAYS.values():
        together = written(engine, options)
        writer = TextWriter(engine, np.array([[1, 9]]), 12, options, [0, 1, 3], [2])
        assert [writer.step()[0] for _ in together] == [tokens[-1] for tokens in together]


def test_what_is_not_in_the_vocabulary_or_the_table_is_refused() -> None:
    engine = classifiers(positions="learned", max_positions=8)["float32"]
    with pytest.raises(DataError, match="a token must lie between 0 and 39"):
        engine.logits([[1, VOCABULARY]])
    with pytest.raises(DataError, match="9 tokens do not fit into 8 learned positions"):
        engine.logits([[1] * 9])


def test_the_engine_of_a_model_in_training_has_its_weights_of_now() -> None:
    config = shape(positions="rotary")
    model = shaken(build_language_model(config, "causal", seed=5))
    before = language_model_in_memory(model, config).hidden(ROWS).states
    with torch.no_grad():
        for parameter in nn.Module.parameters(model):
            parameter.mul_(1.5)
    after = language_model_in_memory(model, config).hidden(ROWS).states
    assert not np.allclose(before, after)


def test_settings_that_need_torch_are_computed_by_it_with_the_reason() -> None:
    config = shape(score="additive")
    model = shaken(build_classifier(config, ClassifierConfig(), 3, seed=5))
    info = classifier_in_memory(model, config, ClassifierConfig()).info
    assert (info.name, info.why_not_native) == ("torch", "it does not compute model.score = additive")


def test_narrow_embeddings_without_a_layer_before_the_output_are_refused() -> None:
    config = shape(**NARROW, output_transform="gelu")
    model = shaken(build_language_model(config, "masked", seed=5))
    arrays = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    settings = model_settings({"model": {**config.model_dump(), "output_transform": None}}, "here", COMPUTED["lm"])
    with pytest.raises(DataError, match=r"output_weight has the shape \(40, 10\), not \(40, 24\)"):
        NativeLanguageModel(settings, arrays, "here", objective="masked")
