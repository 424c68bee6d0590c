"""The runtime writes what dikkat writes, for every kind of model, without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runtime.runs import SENTENCES, classifier_run, language_model_run, translator_run

from dikkat import Translator
from dikkat.kernels.library import library, why_absent
from dikkat_runtime.engine.options import BeamOptions, GenerationOptions
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.embedder import Embedder
from dikkat_runtime.tasks.generator import Generator as LanguageModel

pytest.importorskip("dikkat_runtime", reason="dikkat-runtime is not installed: pip install -e ./runtime")

import dikkat_runtime as runtime
from dikkat_runtime.tasks.generator import SamplingOptions

TRANSLATORS: dict[str, dict[str, Any]] = {
    "as by default": {},
    "post norm": {"norm_placement": "post"},
    "gelu": {"activation": "gelu"},
    "silu": {"activation": "silu"},
    "positions of Hugging Face's Marian": {"positions": "sinusoidal_halves"},
    "two matrices": {"tie_embeddings": False},
    "no biases in attention": {"attention_bias": False},
    "learned positions": {"positions": "learned", "max_positions": 64},
    "positions of tensor2tensor": {"positions": "sinusoidal_concatenated"},
    "odd widths": {"model_dim": 36, "num_heads": 3, "head_dim": 10, "feed_forward_dim": 50},
    "unequal depth": {"encoder_layers": 3, "decoder_layers": 1},
    "dot products": {"score": "dot", "inverse_temperature": 0.4},
    "unscaled embeddings": {"scale_embeddings": False},
    "a bias on the output": {"output_bias": True},
    "sources without an end mark": {"add_source_eos": False},
    "two vocabularies, tied": {"separate": True},
    "two vocabularies and a bias": {"separate": True, "tie_embeddings": False, "output_bias": True},
}
STACKS: dict[str, dict[str, Any]] = {
    "rotary positions": {"positions": "rotary"},
    "sinusoids, post norm, embedding norm": {"norm_placement": "post", "embedding_norm": True},
    "learned positions, gelu": {"positions": "learned", "max_positions": 64, "activation": "gelu"},
    "grouped keys, root-mean-square norm, swiglu": {"num_kv_heads": 2, "norm": "rms", "activation": "swiglu"},
    "geglu, no biases": {"activation": "geglu", "attention_bias": False},
    "gelu by tanh, two matrices": {"activation": "gelu_tanh", "tie_embeddings": False},
}


@pytest.mark.parametrize("name", TRANSLATORS)
@pytest.mark.parametrize("beam_size", [5, pytest.param(1, marks=pytest.mark.nightly)])
def test_translations_and_scores_are_those_of_the_torch_engine(tmp_path: Path, name: str, beam_size: int) -> None:
    run = translator_run(tmp_path / "run", **TRANSLATORS[name])
    options = BeamOptions(beam_size=beam_size, n_best=min(2, beam_size))
    ours = Translator.load(run, engine="torch").translate(SENTENCES, options)
    result = runtime.Translator.load(run).translate(SENTENCES, options)
    assert [item.text for item in result] == [item.text for item in ours]
    assert [item.score for item in result] == pytest.approx([item.score for item in ours], abs=1e-5)
    assert [[a.text for a in item.alternatives] for item in result] == [
        [a.text for a in item.alternatives] for item in ours
    ]


@pytest.mark.skipif(library() is None, reason=f"no native kernels: {why_absent()}")
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 2, 128])
def test_neither_threads_nor_batches_change_a_bit(tmp_path: Path, threads: int, batch_size: int) -> None:
    run = translator_run(tmp_path / "run")
    for precision in ("float32", "int8"):
        alone = runtime.Translator.load(run, precision=precision, threads=1)
        shared = runtime.Translator.load(run, precision=precision, threads=threads)
        expected = [alone.translate([sentence])[0] for sentence in SENTENCES]
        assert list(shared.stream(SENTENCES, batch_size=batch_size, window=4)) == expected


@pytest.mark.parametrize(
    ("name", "head_config"),
    [
        *((name, {}) for name in STACKS),
        *(
            ("rotary positions", item)
            for item in (
                {"pooling": "first"},
                {"pooling": "attention"},
                {"objective": "binary"},
                {"balance": True},
            )
        ),
    ],
)
def test_probabilities_of_classes_are_those_of_dikkat(tmp_path: Path, name: str, head_config: dict[str, Any]) -> None:
    run = classifier_run(tmp_path / "run", head_config, **{**STACKS[name], "tie_embeddings": True})
    ours, result = Classifier.load(run).classify(SENTENCES), runtime.Classifier.load(run).classify(SENTENCES)
    assert [item.label for item in result] == [item.label for item in ours]
    for mine, other in zip(ours, result, strict=True):
        assert list(other.probabilities) == list(mine.probabilities)
        assert list(other.probabilities.values()) == pytest.approx(list(mine.probabilities.values()), abs=1e-5)


@pytest.mark.parametrize(
    ("name", "sampling"),
    [
        *((name, {"temperature": 0.0}) for name in STACKS),
        *(("rotary positions", item) for item in ({"top_k": 20}, {"top_p": 0.9, "min_p": 0.01, "seed": 3})),
    ],
)
def test_texts_are_written_on_as_by_dikkat(tmp_path: Path, name: str, sampling: dict[str, Any]) -> None:
    """The window moves in a context of 24: 60 tokens are equal too."""
    run = language_model_run(tmp_path / "run", **STACKS[name])
    options = {"max_tokens": 60, "repetition_penalty": 1.1, **sampling}
    ours = "".join(LanguageModel.load(run).stream("The small", options=GenerationOptions(**options)))
    result = runtime.Generator.load(run)
    other = "".join(result.stream("The small", SamplingOptions(**options)))
    assert other == ours
    assert ours


@pytest.mark.parametrize("make", [translator_run, classifier_run, language_model_run])
def test_vectors_are_those_of_dikkat(tmp_path: Path, make: Any) -> None:
    run = make(tmp_path / "run")
    ours = np.stack([vector.values for vector in Embedder.load(run).sentences(SENTENCES)])
    result = np.stack(list(runtime.Embedder.load(run).stream(SENTENCES)))
    np.testing.assert_allclose(result, ours, atol=1e-5)
    assert not result[3].any()
