"""The attention of a translation that is given is that of PyTorch."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runtime.runs import SENTENCES, translator_run

from dikkat import Translator
from dikkat_runtime.engine.forced_attention import FORCED, ForcedAttention
from dikkat_runtime.engine.settings import model_settings
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.run.config import read_config
from dikkat_runtime.run.weights import read_weights
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.tasks.aligner import Aligner
from dikkat_runtime.tasks.translator import Translator as RuntimeTranslator


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"norm_placement": "post", "activation": "gelu"},
        {"tie_embeddings": False},
        {"separate": True},
        {"decoder_memory": "ssru", "norm_placement": "post"},
    ],
)
def test_attention_is_that_of_pytorch(model: dict[str, Any], tmp_path: Path) -> None:
    run = translator_run(tmp_path / "run", **model)
    settings = model_settings(read_config(run, "translator"), "config.json", FORCED)
    weights = Weights(read_weights(run / "model.safetensors"), "weights", in_bytes=False, threads=1)
    attention = ForcedAttention(weights, settings)
    translator = Translator.load(run)
    source, target = SENTENCES[0], SENTENCES[2]
    maps = [item for item in translator.attend(source, target) if item.stack == "decoder" and item.kind == "cross"]
    ids, target_ids = translator.encode(source), translator.target_tokenizer.encode(target)
    # (L, H, T, S): our rows leave out the end marks of both sides
    ours = attention(ids, target_ids)
    stacked = np.stack([item.weights for item in maps])
    theirs = stacked.reshape(*ours.shape[:2], *stacked.shape[1:])[:, :, : len(target_ids), : len(ids)]
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_attention_of_a_recurrent_decoder_whose_weights_the_engine_has_opened(tmp_path: Path) -> None:
    run = translator_run(tmp_path / "run", decoder_memory="ssru", norm_placement="post")
    alone = Aligner.load(shutil.copytree(run, tmp_path / "copy")).attend(SENTENCES[0], SENTENCES[2])
    # the translator of a document is open while its tags are placed
    translator = RuntimeTranslator.load(run, engine="native")
    together = Aligner.load(run).attend(SENTENCES[0], SENTENCES[2])
    assert translator.info.name == "native"
    np.testing.assert_array_equal(alone.weights, together.weights)


@pytest.mark.parametrize("offset", [0, 16, 32])
def test_a_search_reads_source_states_that_stand_anywhere_in_memory(offset: int, tmp_path: Path) -> None:
    engine = RuntimeTranslator.load(translator_run(tmp_path / "run"), engine="native").engine
    memory = engine.encode([[5, 5]])
    buffer = np.zeros(memory.states.nbytes + 128, np.uint8)
    start = -buffer.ctypes.data % 64 + offset
    states = buffer[start : start + memory.states.nbytes].view(np.float32).reshape(memory.states.shape)
    states[...] = memory.states
    expected, logits = (engine.steps(own, 1).step([BOS_ID]) for own in (memory, replace(memory, states=states)))
    np.testing.assert_array_equal(logits, expected)
