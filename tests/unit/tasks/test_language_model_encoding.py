"""Documents that are encoded in pieces: the ids are those of the whole text, and memory does not hold it."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from dikkat.config import TokenizerConfig
from dikkat.data import corpus, disk_arrays
from dikkat.data import documents as stored_text
from dikkat.data.corpus import Corpus
from dikkat.data.disk_arrays import DiskFile
from dikkat.data.documents import Document, StoredText
from dikkat.models.factory import build_language_model
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.settings import Request
from dikkat.tasks.language_model import encoding
from dikkat.tasks.language_model.encoding import encoded, vocabulary_texts
from dikkat.tasks.language_model.train import LanguageModelJob
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID
from dikkat_runtime.tasks.generator import Generator
from dikkat_runtime.tasks.generator import Generator as LanguageModel
from dikkat_runtime.text.tokenizer import Tokenizer

WORDS = ["Işık", "l'eau", "don't", "3.14", "...", "(a)", "e\u0301te\u0301", "日本", "\u0301", "<eos>", "ΣΑΣ", "x"]
SPACES = [" ", " ", " ", "\n", "\n", "\n\n", "  ", " \n", "\n ", "\t", "\u00a0"]


def texts() -> list[str]:
    drawn = random.Random(3)
    return [
        "".join(drawn.choice(WORDS) + drawn.choice(SPACES) for _ in range(count))
        for count in (900, 1, 2, 300, 1, 5, 700)
    ]


@pytest.mark.parametrize("kind", ["bpe", "words", "characters", "bytes"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_ids_of_pieces_are_those_of_the_whole(kind: str, lowercase: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = texts()
    config = TokenizerConfig(kind=kind, vocab_size=400, min_frequency=1, lowercase=lowercase)
    tokenizer = Tokenizer.train(whole, config)
    monkeypatch.setattr(stored_text, "PIECE", 64)
    monkeypatch.setattr(encoding, "PIECE", 64)
    file = DiskFile(None)
    documents = [
        Document(str(number), StoredText.store([text], file), begins=number != 3, ends=number != 6)
        for number, text in enumerate(whole)
    ]
    assert max(len(document.pieces) for document in documents) > 50
    expected = [
        [*[BOS_ID] * (number != 3), *tokenizer.encode(text), *[EOS_ID] * (number != 6)]
        for number, text in enumerate(whole)
    ]
    assert [list(ids) for ids in encoded(documents, tokenizer, kind)] == expected
    # what is learned of the pieces is what is learned of the whole
    learned = Tokenizer.train(vocabulary_texts(documents, 1), config)
    assert learned.entries == tokenizer.entries


def test_a_vocabulary_is_learned_from_about_so_many_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_text, "PIECE", 100)
    documents = [Document("a", StoredText.store(["word " * 40_000], DiskFile(None)))]
    monkeypatch.setattr(encoding, "VOCABULARY_CHARACTERS", 40_000)
    drawn = ["".join(vocabulary_texts(documents, seed)) for seed in (1, 1, 2)]
    assert 30_000 < len(drawn[0]) < 50_000
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) != len(drawn[2])


def test_preparation_does_not_hold_the_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six files of 100,000 bytes: one copy of them, or of their ids, would be over the bound."""
    monkeypatch.setattr(stored_text, "PIECE", 1 << 12)
    monkeypatch.setattr(encoding, "PIECE", 1 << 12)
    monkeypatch.setattr(disk_arrays, "KEPT_BYTES", 1 << 12)
    monkeypatch.setattr(corpus, "_BUFFERED_TOKENS", 1 << 12)
    for number in range(6):
        line = f"the line of file {number} has some words\n"
        (tmp_path / f"{number}.txt").write_text(line * (100_000 // len(line)))
    settings = {"tokenizer": {"kind": "bytes"}}
    # what is imported, and read once, is no text
    LanguageModelJob(Request([str(tmp_path / "0.txt")], settings=settings)).prepare(
        RunDirectory.create(tmp_path / "first")
    )
    run = RunDirectory.create(tmp_path / "run")
    tracemalloc.start()
    config, _ = LanguageModelJob(Request([str(tmp_path)], settings=settings)).prepare(run)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    train = Corpus.open(run.corpus, "train", vocab_size=config.model.vocab_size)
    assert len(train.ids) > 500_000
    assert peak < 500_000, peak


def test_a_run_in_turkish_lower_cases_by_its_rule_in_training_and_wherever_it_is_opened(tmp_path: Path) -> None:
    """Source: Unicode, SpecialCasing.txt, condition tr: I becomes ı, and İ becomes i."""
    (tmp_path / "text.txt").write_text("IŞIK ILIK İKİ ILGIN İZ DİZİ\n\n" * 60)
    settings: dict[str, dict[str, Any]] = {
        "tokenizer": {"kind": "words", "lowercase": True},
        "data": {"source_language": "tr"},
        "model": {"model_dim": 16, "num_heads": 2, "feed_forward_dim": 24, "encoder_layers": 1, "decoder_layers": 1},
    }
    run = RunDirectory.create(tmp_path / "run")
    config, _ = LanguageModelJob(Request([str(tmp_path / "text.txt")], settings=settings)).prepare(run)
    network = build_language_model(config.model, "causal", 0)
    run.save_weights(dict(network.named_parameters()), {"step": "1"})
    ids = Corpus.open(run.corpus, "train", vocab_size=config.model.vocab_size).ids.read(1, 7).tolist()
    lower_case = "ışık ılık iki ılgın iz dizi"
    for opened in (LanguageModel.load(run.path, engine="torch"), Generator.load(run.path)):
        assert opened.tokenizer.encode("IŞIK ILIK İKİ ILGIN İZ DİZİ") == ids
        assert opened.tokenizer.decode_batch([ids]) == [lower_case]
