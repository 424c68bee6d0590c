"""A translator that has learned nothing, in a run directory as training leaves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dikkat.config import TokenizerConfig, build_config
from dikkat.data.corpus import Corpus
from dikkat.models.factory import build_model
from dikkat.run_directory import RunDirectory
from dikkat.training.parameters import FlatParameters
from dikkat_runtime.text.tokenizer import Tokenizer

SENTENCES = ["my name is ada .", "i am home .", "she reads a small book", "he's calm .", "go !"]
TRANSLATIONS = ["adım ada .", "evdeyim .", "küçük bir kitap okuyor", "o sakin .", "git !"]


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers each, four heads, random weights. Look, do not touch."""
    run = RunDirectory.create(tmp_path_factory.mktemp("untrained") / "run")
    tokenizer = Tokenizer.train(SENTENCES, TokenizerConfig(vocab_size=340), target_texts=TRANSLATIONS)
    tokenizer.save(run.tokenizer)
    model = {
        "vocab_size": tokenizer.vocab_size, "model_dim": 32, "num_heads": 4, "feed_forward_dim": 48,
        "encoder_layers": 2, "decoder_layers": 2,
    }  # fmt: skip
    config = build_config({"model": model, "data": {"source_language": "en", "target_language": "tr"}})
    parameters = FlatParameters(build_model(config.model, seed=11))
    run.save_weights(parameters.named(parameters.master), {"step": "0"})
    pairs = zip(tokenizer.encode_batch(SENTENCES), tokenizer.encode_batch(TRANSLATIONS), strict=True)
    Corpus.build(run.corpus, "train", pairs)
    run.write_config({**config.model_dump(), "task": "translator"})
    return run.path
