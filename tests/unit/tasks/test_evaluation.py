"""Scores of a model beside two baselines, on text that this file wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dikkat.evaluation import score_translations
from dikkat.tasks.translation.evaluate import Evaluation, evaluate_translator
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.tasks.translator import Translator

OPTIONS = BeamOptions(beam_size=2)


def write(folder: Path, rows: list[tuple[str, str]]) -> str:
    path = folder / "data.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return str(path)


def test_the_baselines_are_what_they_say(untrained: Path, tmp_path: Path) -> None:
    """ "go !" was trained on as "git !"; what is unknown gets the most frequent target, of equals the first."""
    rows = [("go !", "haydi git !"), ("he's calm .", "o çok sakin ."), ("an unknown text", "adım ada dedi .")]
    result = evaluate_translator(untrained, [write(tmp_path, rows)], OPTIONS)
    references = [target for _, target in rows]
    assert result.copy_source == score_translations([source for source, _ in rows], references)
    assert result.most_frequent == score_translations(["git !", "o sakin .", "adım ada ."], references)
    translations = [item.text for item in Translator.load(untrained).stream(result.sources, OPTIONS)]
    assert result.translations == translations
    assert result.model == score_translations(translations, references)
    assert (result.sources, result.references) == ([source for source, _ in rows], references)
    assert result.seconds > 0


def evaluation(count: int) -> Evaluation:
    scores = score_translations(["a b c d"], ["a b c d"])
    sources, translations, references = (
        [f"{name}{number}" for number in range(count)] for name in ("source", "model", "human")
    )
    return Evaluation(scores, scores, scores, sources, translations, references, seconds=2.0)


def test_lines_say_scores_signatures_and_baselines() -> None:
    lines = evaluation(1234).lines()
    assert lines[0].startswith("BLEU 100.00  nrefs:1|case:mixed|")
    assert lines[1].startswith("chrF 100.00  nrefs:1|case:mixed|")
    assert lines[2:] == [
        "BLEU 100.00, chrF 100.00  for copying the source",
        "BLEU 100.00, chrF 100.00  for the most frequent translation seen in training",
        "1,234 sentences in 2.0 s",
    ]


@pytest.mark.parametrize(
    ("count", "wanted"), [(0, []), (2, [0, 5]), (3, [0, 3, 6]), (10, [*range(10)]), (99, [*range(10)])]
)
def test_samples_are_spread_evenly(count: int, wanted: list[int]) -> None:
    lines = evaluation(10).samples(count)
    assert lines == [f"  {label}  {label}{number}" for number in wanted for label in ("source", "model", "human")]


def test_the_held_out_part_is_scored_when_no_data_is_named(untrained: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(untrained, tmp_path / "run"))
    with pytest.raises(UsageError, match="this run held out no test part; name data to evaluate on"):
        evaluate_translator(run, (), OPTIONS)
    (run / "held_out").mkdir()
    (run / "held_out" / "test.source.txt").write_text("go !\ni am home .\n", encoding="utf-8")
    (run / "held_out" / "test.target.txt").write_text("git !\nevdeyim .\n", encoding="utf-8")
    result = evaluate_translator(run, (), OPTIONS)
    assert (result.sources, result.references) == (["go !", "i am home ."], ["git !", "evdeyim ."])
    assert result.most_frequent is not None
    assert result.most_frequent.chrf == 100.0
    shutil.rmtree(run / "corpus")
    without = evaluate_translator(run, (), OPTIONS)
    assert without.most_frequent is None
    assert "the run has no corpus/ next to it" in without.lines()[3]


def test_empty_data_cannot_be_scored(untrained: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the file is empty"):
        evaluate_translator(untrained, [write(tmp_path, [])], OPTIONS)


def test_a_run_that_writes_small_letters_is_scored_without_case(untrained: Path, tmp_path: Path) -> None:
    """Its training text has no capital and a space before full stops; by Turkish rules, I is the capital of ı."""
    rows = [("go !", "Git !"), ("my name is ada .", "ADIM Ada ."), ("i am home .", "Evdeyim.")]
    result = evaluate_translator(untrained, [write(tmp_path, rows)], OPTIONS)
    assert result.most_frequent is not None
    assert "case:lc" in result.model.bleu_signature
    assert result.most_frequent.chrf == pytest.approx(100.0)
    assert result.references == [target for _, target in rows]
    assert "scored without case (case:lc): this run was trained to write lower case only" in result.lines()
    small = evaluate_translator(untrained, [write(tmp_path, [("go !", "git !")])], OPTIONS)
    assert "case:mixed" in small.model.bleu_signature
    assert small.notes == ()


def test_a_run_that_writes_tokenised_text_is_said_to(untrained: Path, tmp_path: Path) -> None:
    rows = [("my name is ada .", "adım ada."), ("i am home .", "evdeyim, evet.")]
    (note,) = evaluate_translator(untrained, [write(tmp_path, rows)], OPTIONS).notes
    assert note.startswith("this run was trained to write tokenised text (a space before full stops)")


def test_bleu_counts_words_as_the_target_language_has_them(untrained: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(untrained, tmp_path / "run"))
    config = json.loads((run / "config.json").read_text())
    (run / "manifest.json").unlink()
    data = [write(tmp_path, [("go !", "我们明天去公园。")])]
    for language, tokenizer in (("zh", "tok:zh"), ("", "tok:zh"), ("fr", "tok:13a"), ("th", "tok:char")):
        config["data"]["target_language"] = language
        (run / "config.json").write_text(json.dumps(config))
        result = evaluate_translator(run, data, OPTIONS)
        assert tokenizer in result.model.bleu_signature
        assert tokenizer in result.copy_source.bleu_signature


def test_the_scores_in_turkish_hold_no_english_sentence(untrained: Path, tmp_path: Path) -> None:
    rows = [("a cat", "bir kedi"), ("a dog", "bir köpek")]
    result = evaluate_translator(untrained, [write(tmp_path, rows)], OPTIONS)
    english, turkish = result.lines(), result.lines("tr")
    assert turkish[:2] == english[:2], "the signature is a name"
    assert not set(turkish[2:]) & set(english[2:])
    assert turkish[2].endswith("kaynağı olduğu gibi yazana")
    assert turkish[4].startswith("2 cümle, ")
