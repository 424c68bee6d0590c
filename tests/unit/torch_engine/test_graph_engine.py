"""Search in fixed buffers writes what the torch engine writes, whatever the settings of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dikkat.config import ModelConfig
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.nn.positions import BeyondPositionsError
from dikkat.tasks.torch_factory import translation_engine
from dikkat.torch_engine.engine import TorchEngine
from dikkat.torch_engine.graph_engine import GraphEngine
from dikkat.torch_engine.static_search import why_not_static
from dikkat_runtime.engine.choose import EngineChoice, EngineRequest, choose_engine
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, Device, SamplingOptions
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.special_tokens import EOS_ID
from dikkat_runtime.tasks.batches import search_all

VOCABULARY = 150
BOTH: list[DecodingOptions] = [DecodingOptions(max_length_factor=1.0), BeamOptions(beam_size=4, max_length_factor=1.0)]
OTHERS = [
    DecodingOptions(max_length_factor=1.0, scores=False),
    BeamOptions(beam_size=3, n_best=3, max_length_factor=0.5, max_length_offset=3, length_penalty=0.3),
    BeamOptions(beam_size=2, n_best=2, thorough=True, max_length_factor=1.0),
    BeamOptions(beam_size=1),
]
STEP_BY_STEP: list[DecodingOptions] = [SamplingOptions(), BeamOptions(no_repeat_ngram=2)]
SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre-norm, rms, gated": {"norm_placement": "pre", "norm": "rms", "activation": "swiglu"},
    "rotary, groups": {"positions": "rotary", "num_kv_heads": 2, "norm_placement": "pre"},
    "learned, one group": {"positions": "learned", "max_positions": 64, "num_kv_heads": 1, "embedding_norm": True},
    "window": {"positions": "none", "attention_window": 3, "global_tokens": 1},
    "positions in every layer": {"positions_in_every_layer": True, "inverse_temperature": 0.5},
    "recurrent": {"decoder_memory": "ssru", "output_bias": True, "tie_embeddings": False},
    "sources without end": {"add_source_eos": False},
}
REFUSED = {
    "alibi": {"positions": "alibi"},
    "distances": {"positions": "relative"},
    "additive": {"score": "additive"},
    "argmax": {"selection": "argmax"},
}


def model_of(settings: dict[str, Any]) -> EncoderDecoder:
    """Random weights, which end sentences early and late."""
    config = ModelConfig(
        vocab_size=VOCABULARY, model_dim=32, num_heads=4, feed_forward_dim=48, encoder_layers=1, decoder_layers=2
    )
    model = build_model(config.model_copy(update={"dropout": 0.0, **settings}), 5).eval()
    with torch.no_grad():
        # so that a sentence depends on its source, and its end is neither likely nor unlikely
        blocks: Any = model.decoder.blocks
        for block in blocks:
            block.cross_attention.out_projection.weight.mul_(3)
        model.output_weight.mul_(1.5)
    return model


@cache
def sources(count: int) -> list[list[int]]:
    """Random ids of random lengths, one of them without any."""
    generator = np.random.default_rng(3)
    lengths = generator.integers(1, 12, size=count)
    lengths[7] = 0
    return [generator.integers(EOS_ID + 1, VOCABULARY, size=length).tolist() for length in lengths]


def assert_writes_the_same(settings: dict[str, Any], ways: Sequence[DecodingOptions], count: int) -> None:
    """Compare both engines; some sentences must end by themselves, and some at their cap."""
    reference, engine = TorchEngine(model_of(settings)), GraphEngine(model_of(settings))
    ended = set()
    for options in ways:
        expected, result = (search_all(computing, sources(count), options) for computing in (reference, engine))
        for one, other in zip(result, expected, strict=True):
            assert [(item.tokens, item.finished) for item in one] == [(item.tokens, item.finished) for item in other]
            for name in ("score", "log_probability"):
                values = ([getattr(item, name) for item in hypotheses] for hypotheses in (one, other))
                assert next(values) == pytest.approx(next(values), abs=1e-4, nan_ok=True)
            ended |= {item.finished for item in one}
    assert ended == {False, True}


@pytest.mark.parametrize("name", ["paper", "rotary, groups", "window", "recurrent", "sources without end"])
def test_it_writes_what_the_torch_engine_writes(name: str) -> None:
    settings = SETTINGS[name]
    # of 24 sentences the longest stay alone, in smaller buffers
    assert_writes_the_same(settings, BOTH, 24)


def test_it_searches_in_every_way() -> None:
    assert_writes_the_same({}, OTHERS, 24)


@pytest.mark.nightly
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_it_writes_200_sentences_in_every_way(settings: dict[str, Any]) -> None:
    assert_writes_the_same(settings, [*BOTH, *OTHERS], 200)


@pytest.mark.parametrize("settings", REFUSED.values(), ids=REFUSED)
def test_models_that_need_more_are_refused_with_a_reason(settings: dict[str, Any]) -> None:
    assert "attention has" in why_not_static(model_of(settings))


def test_buffers_that_are_too_large_are_split_and_make_way() -> None:
    engine = GraphEngine(model_of({}))
    expected = [search_all(engine, sources(24), options) for options in BOTH]
    small = GraphEngine(model_of({}))
    small._most_bytes = 16 * 2 * small._bytes_of_sentence(16, BOTH[1])
    assert [search_all(small, sources(24), options) for options in BOTH] == expected
    assert len(small._captures) < len(engine._captures)


def test_a_single_sentence_that_is_too_large_for_its_share_is_not_filled_up_with_others() -> None:
    engine = GraphEngine(model_of({}))
    engine._most_bytes = 1
    some, expected = sources(10)[:3], search_all(TorchEngine(model_of({})), sources(10)[:3], BOTH[1])
    written = search_all(engine, some, BOTH[1])
    assert [item[0].tokens for item in written] == [item[0].tokens for item in expected]
    assert {plan.sentences for plan in engine._captures.values()} == {1}


@pytest.mark.parametrize("options", BOTH, ids=["greedy", "beam"])
def test_what_stood_in_the_buffers_before_changes_nothing(options: DecodingOptions) -> None:
    engine = GraphEngine(model_of({}))
    expected = search_all(engine, sources(24), options)
    for plan in engine._captures.values():
        for layer in plan.search.decoder.layers:
            cache: Any = layer.cache
            for buffer in cache._buffers:
                with torch.inference_mode():
                    buffer.fill_(torch.nan)
    assert search_all(engine, sources(24), options) == expected


@pytest.mark.parametrize("options", STEP_BY_STEP, ids=["sampling", "no repeats"])
def test_what_needs_more_than_fixed_buffers_is_done_step_by_step(
    options: DecodingOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dikkat.torch_engine.graph_engine.MAX_STEP_BY_STEP", 4)
    reference, engine = TorchEngine(model_of({})), GraphEngine(model_of({}))
    expected, result = (search_all(computing, sources(10), options) for computing in (reference, engine))
    assert [item[0].tokens for item in result] == [item[0].tokens for item in expected]


@pytest.mark.parametrize("options", BOTH, ids=["greedy", "beam"])
def test_float16_writes_nearly_as_likely_sentences(options: DecodingOptions) -> None:
    reference, engine = GraphEngine(model_of({})), GraphEngine(model_of({}), precision="float16")
    assert engine.info.precision == "float16"
    expected, result = (search_all(computing, sources(20), options) for computing in (reference, engine))
    scores = [[item[0].score for item in written] for written in (result, expected)]
    assert scores[0] == pytest.approx(scores[1], abs=0.05)


@pytest.mark.parametrize("options", [*BOTH, *STEP_BY_STEP], ids=["greedy", "beam", "sampling", "no repeats"])
def test_numbers_beyond_float16_are_an_error(options: DecodingOptions) -> None:
    model = model_of({})
    block: Any = model.decoder.blocks[0]
    with torch.no_grad():
        block.feed_forward.outer.bias += 1e6
    engine = GraphEngine(model, precision="float16")
    with pytest.raises(DataError, match="float16 is too narrow"):
        search_all(engine, sources(10), options)
    assert not engine._captures


@pytest.mark.parametrize("options", BOTH, ids=["greedy", "beam"])
def test_learned_positions_end_where_they_end(options: DecodingOptions) -> None:
    engine = GraphEngine(model_of({"positions": "learned", "max_positions": 17}))
    with pytest.raises(BeyondPositionsError, match="max_positions = 17"):
        search_all(engine, sources(24), options)


def test_a_gpu_gets_fixed_buffers_unless_asked_otherwise() -> None:
    where = torch.device("cuda")
    choice = EngineChoice("it is for processors, not for cuda", False, "float32", "")
    assert translation_engine(model_of({}), choice, where, "weights").info.name == "graphs"
    half = translation_engine(model_of({}), replace(choice, precision="float16"), where, "weights")
    assert str(half.info).startswith("graphs engine, float16")
    assert translation_engine(model_of({}), replace(choice, is_asked=True), where, "weights").info.name == "torch"
    other = translation_engine(model_of(REFUSED["alibi"]), choice, where, "weights")
    assert other.info.name == "torch"
    assert "without graphs: attention has" in str(other.info)
    with pytest.raises(UsageError, match="float16 cannot be computed here: attention has"):
        translation_engine(model_of(REFUSED["alibi"]), replace(choice, precision="float16"), where, "weights")


@pytest.mark.parametrize(
    ("task", "engine", "device", "reason"),
    [
        ("translator", "auto", "cpu", "float16 is for GPUs"),
        ("translator", "native", "cuda", "leave out --precision or --engine native"),
        ("translator", "torch", "cuda", "leave out --precision or --engine torch"),
        ("classifier", "auto", "cuda", "float16 is for translators"),
    ],
)
def test_float16_is_refused_where_nothing_computes_it(
    tmp_path: Path, task: str, engine: EngineName, device: Device, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        choose_engine(EngineRequest(tmp_path, {"task": task}, "float16", device, engine))
