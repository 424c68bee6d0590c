"""From data to a run directory: what is held out, what leaks, what is left out, what is recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dikkat.config import merge
from dikkat.data.corpus import Corpus
from dikkat.data.near_duplicates import near_key
from dikkat.run_directory import RunDirectory
from dikkat.tasks.translation.defaults import settings_for
from dikkat.tasks.translation.prepare import TrainRequest, prepare
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.text.tokenizer import Tokenizer

THINGS = ["dog", "cat", "bird", "child", "king", "tree", "river", "house", "star", "stone"]
PLACES = ["here", "there", "home", "away", "up", "down"]
SETTINGS: dict[str, dict[str, Any]] = {"tokenizer": {"vocab_size": 310}}


def pairs(count: int = 60) -> list[tuple[str, str]]:
    names = [(thing, index, size) for thing in THINGS for index in PLACES for size in ("big", "small", "old")]
    return [(f"The {size} {thing} is {index}.", f"{index} {thing} {size} es.") for thing, index, size in names[:count]]


def table(folder: Path, rows: Sequence[tuple[str, str]], name: str = "toy.en-es.tsv") -> str:
    path = folder / name
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return str(path)


def lines_of(run: RunDirectory, part: str, side: str) -> list[str]:
    return (run.path / "held_out" / f"{part}.{side}.txt").read_text(encoding="utf-8").split("\n")[:-1]


def trained_pairs(run: RunDirectory, part: str = "train") -> list[tuple[str, str]]:
    tokenizer = Tokenizer.load(run.tokenizer)
    corpus = Corpus.open(run.corpus, part, vocab_size=tokenizer.vocab_size)
    # copies with typing errors come behind all pairs
    copies = run.read_config()["data_source"]["copies"] if part == "train" else 0
    return [
        (tokenizer.decode(corpus.source(index).tolist()), tokenizer.decode(corpus.target(index).tolist()))
        for index in range(len(corpus) - copies)
    ]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run")


def test_a_run_keeps_the_words_of_its_sources(tmp_path: Path, run: RunDirectory) -> None:
    names = [
        first + rest for first in ("ba", "ke", "lo", "mu", "si") for rest in ("nder", "stal", "ping", "rith", "vosk")
    ]
    rows = [(f"See {a}, then {b}.", f"Vidu {a}on, {b}on.") for a in names for b in names[:8] if a != b]
    prepare(TrainRequest([table(tmp_path, rows)], settings=SETTINGS), run)
    words = run.read_config()["data_source"]["words"].split()
    assert words[:2] == ["see", "then"]
    assert set(words) == {"see", "then", *names}


def test_each_pair_is_in_exactly_one_part(tmp_path: Path, run: RunDirectory) -> None:
    rows = pairs(120)
    config, report = prepare(TrainRequest([table(tmp_path, rows)], settings=SETTINGS), run)
    parts = {
        part: list(zip(lines_of(run, part, "source"), lines_of(run, part, "target"), strict=True))
        for part in ("validation", "test")
    }
    parts["train"] = trained_pairs(run)
    assert sorted(pair for part in parts.values() for pair in part) == sorted(rows)
    assert trained_pairs(run, "validation") == parts["validation"]
    assert (len(parts["validation"]), len(parts["test"])) == (6, 6), "one in twenty each"
    assert (report.read, report.kept) == (120, 120)
    assert (
        "held out: 6 pairs to validate on and 6 to test on (dikkat evaluate); none of them is trained on"
        in report.notes
    )
    assert (config.data.source_language, config.data.target_language) == ("en", "es")
    assert config.model.vocab_size == Tokenizer.load(run.tokenizer).vocab_size <= 310


def test_no_near_duplicate_leaks(tmp_path: Path, run: RunDirectory) -> None:
    """Each sentence comes four times: as it is, in capitals, with another end and with another number."""
    rows = [
        (change(f"{source} 7"), change(f"{target} 7"))
        for source, target in pairs(60)
        for change in (str, str.upper, lambda text: f"{text} !!!", lambda text: text.replace("7", "12"))
    ]
    prepare(TrainRequest([table(tmp_path, rows)], settings=SETTINGS), run)
    for side, column in (("source", 0), ("target", 1)):
        trained = {near_key(pair[column]) for pair in trained_pairs(run)}
        for part in ("validation", "test"):
            held_out = {near_key(line) for line in lines_of(run, part, side)}
            assert held_out
            assert not held_out & trained


def test_the_split_depends_on_the_seed_alone(tmp_path: Path) -> None:
    rows = pairs(120)

    def validation(name: str, data: list[tuple[str, str]], seed: int) -> set[str]:
        run = RunDirectory.create(tmp_path / name)
        request = TrainRequest([table(tmp_path, data)], settings={**SETTINGS, "training": {"seed": seed}})
        prepare(request, run)
        return set(lines_of(run, "validation", "source"))

    first = validation("first", rows, 1)
    assert validation("again", rows[::-1], 1) == first
    assert validation("other", rows, 2) != first


def test_validation_files_are_taken_as_they_are(tmp_path: Path, run: RunDirectory) -> None:
    """Not cleaned, so that scores compare; only stripped, and pairs with nothing on a side left out."""
    rows = pairs(60)
    valid = [("  12345 ", "67890"), ("", "nothing"), ("Held out.", " Out held. ")]
    request = TrainRequest([table(tmp_path, rows)], [table(tmp_path, valid, "valid.tsv")], settings=SETTINGS)
    _, report = prepare(request, run)
    assert trained_pairs(run) == rows, "nothing is held out of the data"
    assert not any("held out" in note for note in report.notes)
    assert lines_of(run, "validation", "source") == ["12345", "Held out."]
    assert lines_of(run, "validation", "target") == ["67890", "Out held."]
    assert lines_of(run, "test", "source") == []


def test_what_is_left_out_is_counted(tmp_path: Path, run: RunDirectory) -> None:
    """By cleaning, and by length in tokens; what is recorded is what is trained on."""
    rare = "xqj zvk wqx jzk vxw qkz jxv zwq kjx vzq"  # a small vocabulary joins few of these letters
    rows = [*pairs(60), pairs(1)[0], ("§§ %% 12 34 56 78", "12 34 ## 56 78 90 11"), (rare, rare[::-1])]
    valid = table(tmp_path, [("A cat.", "Un cat.")], "valid.tsv")
    settings = {**SETTINGS, "data": {"max_length": 20}}
    _, report = prepare(TrainRequest([table(tmp_path, rows)], [valid], settings=settings), run)
    source = run.read_config()["data_source"]
    assert source["left_out"] == report.counts
    assert report.counts["too many tokens"] == 1
    assert sum(report.counts.values()) == 3
    assert report.kept == source["train_pairs"] == len(trained_pairs(run)) == 60


def test_every_pair_too_long_in_tokens(tmp_path: Path, run: RunDirectory) -> None:
    data = table(tmp_path, pairs(60))
    settings = {"tokenizer": {"vocab_size": 301, "min_frequency": 500}, "data": {"max_length": 12}}
    with pytest.raises(DataError, match=r"every training pair has a side of more than 12 tokens; set a higher data\."):
        prepare(TrainRequest([data], settings=settings), run)
    assert not run.has_config


def test_too_few_pairs(tmp_path: Path, run: RunDirectory) -> None:
    data = table(tmp_path, pairs(5))
    with pytest.raises(DataError, match=r"tsv: 5 pairs to train on and 0 to validate on .* name validation data with"):
        prepare(TrainRequest([data], settings=SETTINGS), run)
    assert list(run.path.iterdir()) == []


def test_the_record_names_the_data(tmp_path: Path, run: RunDirectory) -> None:
    rows = pairs(60)
    request = TrainRequest([table(tmp_path, rows)], [table(tmp_path, pairs(3), "valid.tsv")], settings=SETTINGS)
    prepare(request, run)
    settings = run.read_config()
    assert settings["task"] == "translator"
    source = settings["data_source"]
    assert (source["data"], source["validation_data"]) == (list(request.data), list(request.validation))
    assert (source["train_pairs"], source["validation_pairs"], source["test_pairs"]) == (60, 3, 0)
    text = "".join(f"{source}\t{target}\n" for source, target in rows)
    assert source["sha256"] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.seed("E19", "E20")
def test_settings_lie_over_the_preset_and_the_preset_over_the_amount_of_data(tmp_path: Path) -> None:
    data = table(tmp_path, pairs(60))

    def width(name: str, preset: str | None, settings: dict[str, dict[str, Any]]) -> tuple[int, int]:
        run = RunDirectory.create(tmp_path / name)
        config, _ = prepare(TrainRequest([data], preset=preset, settings=settings), run)
        return config.model.model_dim, config.model.feed_forward_dim

    chosen = settings_for(54, None)["model"]
    assert width("a", None, {}) == (chosen["model_dim"], chosen["feed_forward_dim"])
    assert width("b", "d2l", {}) == (32, 64)
    assert width("c", "d2l", {"model": {"feed_forward_dim": 99}}) == (32, 99)


def test_named_columns_are_read(tmp_path: Path, run: RunDirectory) -> None:
    path = tmp_path / "toy.tsv"
    rows = pairs(60)
    path.write_text("id\tes\ten\n" + "".join(f"{n}\t{b}\t{a}\n" for n, (a, b) in enumerate(rows)), encoding="utf-8")
    request = TrainRequest([str(path)], [table(tmp_path, rows[:2], "valid.tsv")], ("en", "es"), settings=SETTINGS)
    with pytest.raises(UsageError, match='no column is called "en"'):
        prepare(request, run)  # the columns are those of the validation data too
    prepare(TrainRequest([str(path)], columns=("en", "es"), settings=SETTINGS), run)
    assert set(trained_pairs(run)) < set(rows)


def test_the_phrasebook_needs_no_file(tmp_path: Path, run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    from dikkat.data.lessons import Phrase, PhrasebookSplit

    rows = [Phrase(*pair, line) for line, pair in enumerate(pairs(60), start=1)]
    asked: list[str] = []

    def split(language: str) -> PhrasebookSplit:
        asked.append(language)
        return PhrasebookSplit(rows[:50], rows[50:55], rows[55:])

    monkeypatch.setattr("dikkat.lessons.phrasebook.phrasebook_split", split)
    config, report = prepare(TrainRequest(["phrasebook:tr"], settings=SETTINGS), run)
    assert asked == ["tr"]
    assert (config.data.source_language, config.data.target_language) == ("en", "tr")
    assert report.kept == len(trained_pairs(run)) == 50
    assert lines_of(run, "validation", "source") == [pair.source for pair in rows[50:55]]
    assert lines_of(run, "test", "target") == [pair.target for pair in rows[55:]]


def test_a_phrasebook_that_is_not_there(run: RunDirectory) -> None:
    with pytest.raises(UsageError, match='the phrasebook has no pair "de"; choose one of en-fr'):
        prepare(TrainRequest(["phrasebook:de"]), run)


FORMALITY = merge(SETTINGS, {"data": {"formality": True, "typing_errors": 0.0, "no_final_mark": 0.0}})


def test_pairs_that_address_somebody_are_trained_on_once_more_with_their_mark(
    tmp_path: Path, run: RunDirectory
) -> None:
    names = [f"{first}{last}" for first in "ABCDEFGH" for last in ("nne", "lain", "ricia", "tanguy")]
    rows = [(f"Do you see {name}?", f"Vois-tu {name} ?") for name in names[::2]]
    rows += [(f"Do you like {name}?", f"Aimez-vous {name} ?") for name in names[1::2]]
    rows += [(f"{name} is asleep.", f"{name} dort.") for name in names]
    data = table(tmp_path, rows, "toy.en-fr.tsv")
    config, report = prepare(TrainRequest([data], settings=FORMALITY), run)
    kept, tokenizer = trained_pairs(run), Tokenizer.load(run.tokenizer)
    corpus = Corpus.open(run.corpus, "train", vocab_size=tokenizer.vocab_size)
    copies = [
        (tokenizer.decode(corpus.source(index).tolist()), tokenizer.decode(corpus.target(index).tolist()))
        for index in range(len(kept), len(corpus))
    ]
    marks = {"tu": ">>informal<< ", "vous": ">>formal<< "}
    expected = [(marks[word] + source, target) for source, target in kept for word in marks if f"-{word} " in target]
    assert copies == expected
    assert config.data.formality is True
    counts = [sum(f"-{word} " in target for _, target in kept) for word in ("vous", "tu")]
    assert f"formality: {counts[0]} pairs address somebody formally, {counts[1]} familiarly" in map(str, report.notes)


def test_formality_needs_both_kinds_and_a_language_whose_pronouns_are_known(tmp_path: Path, run: RunDirectory) -> None:
    only = table(tmp_path, [(source, f"Tu {target}") for source, target in pairs()], "toy.en-fr.tsv")
    with pytest.raises(DataError, match=r"0 pairs address somebody formally and \d+ familiarly"):
        prepare(TrainRequest([only], settings=FORMALITY), run)
    with pytest.raises(UsageError, match=r"learned by the pronouns of fr, de, tr, not of es"):
        prepare(TrainRequest([table(tmp_path, pairs())], settings=FORMALITY), run)
