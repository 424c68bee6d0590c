"""The native engine writes, sentence for sentence, what the torch engine writes, with a trained translator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.tasks.test_training import Watcher

from dikkat import Translator
from dikkat.data.corpus import Corpus
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.train import train
from dikkat.tasks.translation.prepare import TrainRequest
from dikkat.tasks.translation.train import TranslatorJob
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.text.text_files import read_lines

SENTENCES = 1_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parity") / "run"
    settings: dict[str, dict[str, Any]] = {"training": {"max_updates": 150, "validations": 1}}
    train(TranslatorJob(TrainRequest(["phrasebook:fr"], preset="tiny", settings=settings)), path, Watcher())
    return path


def sentences(path: Path) -> list[str]:
    """Those that were held out, then some that were trained on."""
    run = RunDirectory.open(path)
    held_out = [line for part in ("test", "validation") for line in read_lines(run.held_out(part, "source"))]
    translator = Translator.load(path, engine="torch")
    corpus = Corpus.open(run.corpus, "train", vocab_size=translator.tokenizer.vocab_size)
    ids = [corpus.source(index).tolist() for index in range(SENTENCES)]
    return [*held_out, *translator.tokenizer.decode_batch(ids)][:SENTENCES]


@pytest.mark.nightly
@pytest.mark.parametrize("options", [DecodingOptions(), BeamOptions(beam_size=5)], ids=["greedy", "beam 5"])
def test_native_float32_writes_what_torch_writes(run: Path, options: DecodingOptions) -> None:
    texts = sentences(run)
    assert len(texts) == SENTENCES
    native, torch = (
        [item.text for item in Translator.load(run, engine=name).stream(texts, options)] for name in ("native", "torch")
    )
    different = [pair for pair in zip(native, torch, strict=True) if pair[0] != pair[1]]
    assert not different, f"{len(different)} of {SENTENCES} differ, the first: {different[0]}"
