"""From linked words of the data to a guided head: which tokens are linked, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.tasks.test_training import Watcher

from dikkat.config import build_config
from dikkat.data.corpus import Corpus
from dikkat.data.links import Links
from dikkat.data.pairs import Pair
from dikkat.lessons.phrasebook import phrasebook_split
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.train import train
from dikkat.tasks.translation.guiding import check_guided
from dikkat.tasks.translation.prepare import TrainRequest, prepare
from dikkat.tasks.translation.quickstart import settings_of
from dikkat.tasks.translation.train import TranslatorJob
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.text.tokenizer import Tokenizer

PARTS = phrasebook_split("fr", 200, 8, 8)
SETTINGS: dict[str, dict[str, Any]] = {
    "model": {"model_dim": 16, "num_heads": 2, "feed_forward_dim": 16, "encoder_layers": 2, "decoder_layers": 1},
    # so few pieces that nouns are of several
    "tokenizer": {"vocab_size": 320},
    "training": {"guided_weight": 1.0, "max_updates": 2, "validations": 1},
}


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dikkat.lessons.phrasebook.phrasebook_split", lambda pair: PARTS)


@pytest.mark.usefixtures("little")
@pytest.mark.seed("D6")
def test_the_tokens_of_a_pronoun_are_linked_with_all_tokens_of_its_noun(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run")
    prepare(TrainRequest(["phrasebook:fr"], settings=SETTINGS), run)
    corpus = Corpus.open(run.corpus, "train", vocab_size=320)
    links, tokenizer = Links.open(run.corpus, corpus), Tokenizer.load(run.tokenizer)
    split = 0
    for index, phrase in enumerate(PARTS.train):
        found, ids = links.of(np.array([index])), corpus.source(index)
        if phrase.link is None:
            assert not len(found.rows)
            continue
        words = phrase.source.split()
        rows, columns = (np.unique(places) for places in (found.rows, found.columns))
        assert len(found.rows) == len(rows) * len(columns)
        assert tokenizer.decode(ids[rows].tolist()).strip() == words[phrase.link.row]
        assert tokenizer.decode(ids[columns].tolist()).strip() == words[phrase.link.column]
        split += len(columns) > 1
    assert split > 5


@pytest.mark.usefixtures("little")
def test_a_run_says_which_head_is_guided_and_checks_its_links(tmp_path: Path) -> None:
    job = TranslatorJob(TrainRequest(["phrasebook:fr"], settings=SETTINGS))
    train(job, tmp_path / "run", watcher := Watcher())
    linked = sum(phrase.link is not None for phrase in PARTS.train)
    expected = f"head 1 of layer 2 of the encoder learns which noun a pronoun means, from {linked} pairs"
    assert watcher.facts["guided"] == expected
    card = RunDirectory.open(tmp_path / "run").card.read_text(encoding="utf-8")
    note = "Head 1 of layer 2 of the encoder was guided: training told it which noun a pronoun means."
    assert note in card.split("\n")
    path = tmp_path / "run" / "corpus" / "train.links.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    with pytest.raises(DataError, match=r"train\.links\.npy: damaged"):
        _ = RunDirectory.open(tmp_path / "run").corpus


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"training": {"guided_layer": 3}}, "training.guided_layer is 3, but the encoder ends at layer 2"),
        ({"training": {"guided_head": 3}}, "training.guided_head is 3, but the encoder ends at head 2"),
        ({"model": {"selection": "argmax"}}, "no gradient guides a head of model.selection = argmax"),
        ({"tokenizer": {"kind": "words"}}, "training.guided_weight needs tokenizer.kind = bpe, not words"),
    ],
)
def test_a_head_that_cannot_be_guided_is_refused(settings: dict[str, dict[str, Any]], message: str) -> None:
    merged = {section: {**values, **settings.get(section, {})} for section, values in SETTINGS.items()}
    with pytest.raises(UsageError, match=message):
        check_guided(build_config(merged), "run.toml")
    merged["training"]["guided_weight"] = 0.0
    check_guided(build_config(merged), "run.toml")


def test_data_without_links_guides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = type(PARTS)(*([phrase._replace(link=None) for phrase in part] for part in PARTS))
    monkeypatch.setattr("dikkat.lessons.phrasebook.phrasebook_split", lambda pair: bare)
    with pytest.raises(UsageError, match="needs sentences whose words are linked"):
        prepare(TrainRequest(["phrasebook:fr"], settings=SETTINGS), RunDirectory.create(tmp_path / "run"))


def test_quickstart_guides_where_english_is_read() -> None:
    assert settings_of("en-fr")["training"]["guided_weight"] == settings_of("en-tr")["training"]["guided_weight"] > 0.0
    assert "guided_weight" not in settings_of("tr-en")["training"]
    assert Pair("a", "b", 1).link is None
