"""What cross-attention gives each written token: a formula in float64 over recorded maps, and both engines alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.runtime.runs import SENTENCES, language_model_run, translator_run

from dikkat import Translator
from dikkat.torch_engine.engine import TorchContexts
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import UsageError
from dikkat_runtime.run.config import read_config
from dikkat_runtime.special_tokens import EOS_ID
from dikkat_runtime.tasks.aligner import forced_attention
from dikkat_runtime.tasks.embedder import CrossEmbedder


def expected(translator: Translator, source: str, target: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The weights that are recorded, times the values of the memory, through the output projection, in float64."""
    ids = torch.tensor([[*translator.encode(source), EOS_ID]])
    memory = translator.model.encode(ids, torch.ones_like(ids, dtype=torch.bool))[0].double().detach().numpy()
    module: Any = translator.model.decoder.blocks[-1].cross_attention
    weights = {name: value.double().detach().numpy() for name, value in module.named_parameters()}
    width = memory.shape[1]
    values = memory @ weights["in_projection.weight"][-width:].T + weights["in_projection.bias"][-width:]
    maps = [each for each in translator.attend(source, target) if (each.stack, each.kind) == ("decoder", "cross")]
    last = [each.weights.astype(float) for each in maps if each.layer == max(each.layer for each in maps)]
    # (S, D) -> (H, S, K)
    split = values.reshape(len(values), len(last), -1).transpose(1, 0, 2)
    joined = np.concatenate([weight @ value for weight, value in zip(last, split, strict=True)], axis=1)
    # the last row is that of the step which ends the sentence
    output: np.ndarray[Any, np.dtype[np.float64]] = (
        joined @ weights["out_projection.weight"].T + weights["out_projection.bias"]
    )[:-1]
    return output


@pytest.mark.parametrize("model", [{}, {"norm_placement": "post"}, {"separate": True}])
def test_vectors_are_values_weighed_by_the_recorded_attention(model: dict[str, Any], tmp_path: Path) -> None:
    run = translator_run(tmp_path / "run", **model)
    translator = Translator.load(run)
    source, target = SENTENCES[0], SENTENCES[2]
    ids, written = translator.encode(source), translator.target_tokenizer.encode(target)
    wanted = expected(translator, source, target)
    assert wanted.shape == (len(written), 48)
    np.testing.assert_allclose(forced_attention(run, read_config(run)).contexts(ids, written), wanted, atol=1e-4)
    np.testing.assert_allclose(TorchContexts(translator.model)(ids, written), wanted, atol=1e-4)


def test_engines_agree_line_by_line_and_the_mean_is_that_of_the_tokens(tmp_path: Path) -> None:
    run = translator_run(tmp_path / "run")
    native, torch_alone = CrossEmbedder.load(run, threads=1), CrossEmbedder.load(run, engine="torch")
    assert (native.info.name, torch_alone.info.name) == ("native", "torch")
    tokens = list(native.tokens(SENTENCES, window=2))
    for ours, theirs in zip(tokens, torch_alone.tokens(SENTENCES), strict=True):
        assert (ours.line, ours.text) == (theirs.line, theirs.text)
        np.testing.assert_allclose(ours.values, theirs.values, atol=1e-4)
    written = {vector.line for vector in tokens}
    plain = Translator.load(run).stream(SENTENCES, BeamOptions(beam_size=1), retry_loops=False)
    for vector, translation in zip(native.sentences(SENTENCES), plain, strict=True):
        assert vector.text == translation.text
        mine = [token.values for token in tokens if token.line == vector.line]
        np.testing.assert_allclose(vector.values, np.mean(mine, axis=0) if mine else np.zeros(48), atol=1e-6)
    # the empty line has no token, but a vector of zeros
    assert 4 not in written


def test_what_cannot_be_computed_is_refused_or_left_to_torch(tmp_path: Path) -> None:
    run = translator_run(tmp_path / "run", positions="rotary")
    with pytest.raises(UsageError, match="leave out --engine native"):
        CrossEmbedder.load(run, engine="native")
    with pytest.raises(UsageError, match="float16 is for GPUs"):
        CrossEmbedder.load(run, precision="float16")
    assert CrossEmbedder.load(run).info.name == "torch"
    with pytest.raises(UsageError, match="holds a language model, not a translator"):
        CrossEmbedder.load(language_model_run(tmp_path / "lm"))
