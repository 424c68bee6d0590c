"""What is said of parallel text before training: losses, leaks, languages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dikkat.config import DataConfig
from dikkat.data.cleaning import Cleaner, CleaningReport
from dikkat.data.pairs import Pair
from dikkat.data.stored_pairs import StoredPairs, without_duplicates
from dikkat.run_directory import RunDirectory
from dikkat.tasks.classification.prepare import prepare as prepare_classifier
from dikkat.tasks.common.settings import Request
from dikkat.tasks.translation.prepare import find_languages, note_losses, note_seen, too_little_left
from dikkat.tasks.translation.train import card

ENGLISH = "The weather was good and we all went to the river, where my sister had left bicycle number {}."
TURKISH = "Hava güzeldi ve hepimiz nehre gittik, kız kardeşim {} numaralı bisikletini orada bırakmıştı."
PAIRS = [Pair(ENGLISH.format(n), TURKISH.format(n), n) for n in range(1, 41)]


def _languages(source: str, target: str, pairs: list[Pair] = PAIRS) -> tuple[dict[str, str], list[str]]:
    report = CleaningReport()
    guessed = find_languages(DataConfig(source_language=source, target_language=target), pairs, report)
    return guessed, report.notes


def test_languages_are_guessed_where_no_name_tells() -> None:
    guessed, notes = _languages("", "")
    assert guessed == {"source_language": "en", "target_language": "tr"}
    assert notes == [
        "languages: the source reads like en, the target reads like tr; if they are not, give --source-language and"
        " --target-language"
    ]
    assert _languages("en", "")[0] == {"target_language": "tr"}


def test_names_that_agree_are_not_talked_about() -> None:
    assert _languages("en", "tr") == ({}, [])
    assert _languages("en", "az") == ({}, []), "too alike to tell"


def test_swapped_sides_are_said() -> None:
    guessed, notes = _languages("tr", "en")
    assert guessed == {}
    assert notes == [
        "languages: by name it is tr to en, but the source reads like en and the target like tr: are the sides swapped?"
    ]


def test_one_contradiction_is_said() -> None:
    assert _languages("en", "fr") == (
        {},
        ["languages: the target is fr by name, but reads like tr; if so, give --target-language tr"],
    )


def test_one_language_on_both_sides_is_said() -> None:
    notes = _languages("", "", [Pair(pair.source, pair.source, pair.line) for pair in PAIRS])[1]
    assert notes[-1] == "languages: source and target are both en: are they the right columns or files?"


def test_nothing_is_guessed_of_a_few_words() -> None:
    assert _languages("", "", [Pair("Go.", "Va !", 1)]) == ({}, [])


def _cleaned(rows: Sequence[Pair]) -> CleaningReport:
    cleaner = Cleaner(DataConfig())
    without_duplicates(StoredPairs.store(cleaner(rows)), cleaner.report)
    return cleaner.report


def test_most_pairs_left_out_is_said_though_enough_remain() -> None:
    rows = [*PAIRS, *(Pair(pair.source, pair.source, pair.line + 40) for pair in PAIRS), *PAIRS[:10]]
    note_losses(["a.tsv"], rows, report := _cleaned(rows))
    assert report.notes == ["a.tsv: 56% of its pairs are left out; see below why, and look at them"]


def test_few_pairs_left_out_are_not_talked_about() -> None:
    report = _cleaned([*PAIRS, *PAIRS[:10]])
    assert report.counts == {"duplicate": 10}
    note_losses(["a.tsv"], PAIRS, report)
    assert report.notes == []


@pytest.mark.parametrize("left_out", [0, 3])
def test_too_little_has_its_reasons(left_out: int) -> None:
    cleaner = Cleaner(DataConfig())
    rows = [PAIRS[0], *[Pair("", "x", 2)] * left_out]
    list(cleaner(rows))
    message = str(too_little_left(["a.tsv"], rows, cleaner.report, 1, 0))
    why = ": of 4 pairs were left out 3 empty side (line 2: “” → “x”)" if left_out else ""
    assert message == (
        f"a.tsv: 1 pair to train on and 0 to validate on are left after cleaning{why};"
        " give more pairs, or name validation data with --valid"
    )


@pytest.mark.parametrize(("shared", "is_said"), [(0, False), (2, False), (3, True), (20, True)])
def test_validation_pairs_that_are_trained_on_are_counted(shared: int, is_said: bool) -> None:
    """As they are after normalising; few are common in honest data, many are a mistake."""
    report = CleaningReport()
    validation = [Pair(f" {pair.source}", pair.target, pair.line) for pair in PAIRS[20 - shared : 40 - shared]]
    assert note_seen(["v.tsv"], PAIRS[:20], validation, report) == shared
    assert bool(report.notes) == is_said
    if is_said:
        assert report.notes == [
            f"v.tsv: {shared} of its 20 pairs are in the training data too, so scores on it say little about new text"
        ]


@pytest.mark.parametrize(
    ("seen", "told"),
    [({}, "the model never saw"), ({"validation_seen": 3}, "of which 3 of 20 pairs were trained on too")],
)
def test_the_card_does_not_call_seen_text_unseen(seen: dict[str, int], told: str) -> None:
    source = {"data": ["a"], "train_pairs": 9, "validation_pairs": 20, "left_out": {}, "sha256": "", "preset": "tiny"}
    settings = {"data": {"source_language": "", "target_language": ""}, "data_source": {**source, **seen}}
    row = {"chrf": 1.0, "bleu": 1.0, "valid_loss": 1.0, "epoch": 1.0, "tokens": 1, "seconds": 1.0}
    assert f"Validation, greedy, on text {told}:" in card(settings, [row])


@pytest.mark.parametrize(("named", "expected"), [({}, "tr"), ({"data": {"source_language": "en"}}, "en")])
def test_the_language_of_labelled_texts_is_guessed_unless_it_is_named(
    tmp_path: Path, named: dict[str, dict[str, object]], expected: str
) -> None:
    """It decides how I is lower-cased, which classifiers do by default."""
    texts = ["İstanbul'da çekilen sahneler çok güzeldi", "IŞIK kullanımı hiç iyi değildi, çok sıkıcıydı"]
    table = tmp_path / "reviews.tsv"
    seats = ("ön", "arka", "sol", "sağ", "orta", "üst", "alt")
    lines = [
        f"{('pos', 'neg')[i % 2]}\t{texts[i % 2]}, {seats[i % 7]} sıradaki {seats[i // 7]} koltuk" for i in range(49)
    ]
    table.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    config, _ = prepare_classifier(Request([str(table)], settings=named), RunDirectory.create(tmp_path / "run"))
    assert config.data.source_language == expected
