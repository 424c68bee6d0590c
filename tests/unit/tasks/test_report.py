"""The report of a run directory: what is counted in it, and which runs have none."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from tests.unit.explain.report.inspection import Seen
from tests.unit.tasks.conftest import SENTENCES, TRANSLATIONS

from dikkat.data.corpus import Corpus
from dikkat.run_directory import RunDirectory
from dikkat.tasks.inspection.page import collect_page
from dikkat.tasks.inspection.report import write_report
from dikkat.tasks.translation import report
from dikkat.tasks.translation.evaluate import Evaluation
from dikkat_runtime.errors import CannotCreateError, DataError, MissingInputError, UsageError
from dikkat_runtime.text.tokenizer import Tokenizer

ROW = {
    "step": 4,
    "epoch": 1.0,
    "train_loss": 5.0,
    "valid_loss": 5.5,
    "chrf": 3.0,
    "bleu": 0.1,
    "tokens": 90,
    "seconds": 3.0,
}
HELD_OUT = [(SENTENCES[4], "git !"), ("a new one .", "yeni bir ."), ("<b>my</b> book", "kitabım")]

SHARES = [[1.0, 30.0, 50.5], [0.5, 25.5, 58.0], [0.0, 20.0, 60.0]]
"""As an adaptation keeps them: what was learned of it, the chrF of new text and that of general text."""


@pytest.fixture(scope="module")
def finished(untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose training data says one thing twice and one thing in two ways, without a test part."""
    path = tmp_path_factory.mktemp("finished") / "run"
    shutil.copytree(untrained, path)
    run = RunDirectory.open(path)
    pairs = [*zip(SENTENCES, TRANSLATIONS, strict=True), (SENTENCES[0], TRANSLATIONS[0]), (SENTENCES[1], "buradayım .")]
    tokenizer = Tokenizer.load(run.tokenizer)
    encoded = [tuple(tokenizer.encode(side) for side in pair) for pair in pairs]
    Corpus.build(run.corpus, "train", encoded)  # type: ignore[arg-type]
    (path / "held_out").mkdir()
    for part, rows in (("validation", HELD_OUT), ("test", [])):
        for index, side in enumerate(("source", "target")):
            text = "".join(f"{row[index]}\n" for row in rows)
            run.held_out(part, side).write_text(text, encoding="utf-8")  # type: ignore[arg-type]
    source = {
        "data": ["toy.tsv"], "validation_data": [], "preset": "tiny", "train_pairs": 7, "validation_pairs": 3,
        "test_pairs": 0, "left_out": {"duplicate": 2}, "sha256": "0" * 64,
    }  # fmt: skip
    run.write_config({**run.read_config(), "data_source": source})
    run.save_weights(run.load_weights(), {"frontier": json.dumps(SHARES)})
    run.append_metrics(ROW)
    run.write_card("# Translator\n\n    dikkat train translator toy.tsv\n")
    return path


@pytest.fixture(scope="module")
def page(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    out = tmp_path_factory.mktemp("report") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        # a model that has learned nothing never ends a sentence: translating without each head in turn takes long
        patch.setattr(report, "collect_page", partial(collect_page, heads_off=False))
        write_report(finished, out)
    result = Seen()
    result.feed(out.read_text(encoding="utf-8"))
    return result


def numbers(page: Seen) -> dict[str, str]:
    """The rows of the tables."""
    cells = [text for text in page.texts if text.strip()]
    names = (
        "pairs read", "left out: duplicate", "pairs to train on", "training pairs that came before, exactly",
        "training sources with more than one translation", "unknown tokens in training",
        "of 3 held-out sources also occur in training",
    )  # fmt: skip
    return {name: cells[cells.index(name) + 1] for name in names}


def test_the_data_is_counted(page: Seen) -> None:
    assert list(numbers(page).values()) == ["12", "2", "7", "1", "1", "0", "1"]


def test_held_out_sentences_are_scored_and_shown(page: Seen) -> None:
    assert "On the validation part, 3 sentences" in page.text
    assert page.text.count("nrefs:1|case:mixed") == 2
    scores = [
        float(text.removeprefix("chrF "))
        for text in page.texts
        if text.startswith("chrF ") and "case" not in text and " of " not in text
    ]
    assert len(scores) == len(HELD_OUT)
    assert scores == sorted(scores)
    assert "<b>my</b> book" in page.text
    assert not page.named("b")[6:]  # six large numbers, and none from the data


def test_what_an_adaptation_gains_is_drawn_over_what_it_keeps(page: Seen) -> None:
    points = [text for text in page.texts if text.startswith("chrF of new text: ")]
    assert points == [f"chrF of new text: {general:g}, {new:g}" for _, new, general in reversed(SHARES)]
    assert "chrF of general text" in page.texts


def test_the_attention_of_some_of_them_can_be_looked_at(page: Seen) -> None:
    (frame,) = page.named("iframe")
    assert frame["srcdoc"] is not None
    data = frame["srcdoc"].split('id="data">')[1].split("</script>")[0]
    texts = [item["source"]["text"] for item in json.loads(data)["sentences"]]
    assert sorted(texts) == sorted(source for source, _ in HELD_OUT)


def test_a_test_part_comes_before_the_validation_part(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    class EnoughError(Exception):
        pass

    def note(path: Path, data: tuple[str, ...], options: object) -> Evaluation:
        asked.append(tuple(data))
        raise EnoughError

    monkeypatch.setattr("dikkat.tasks.translation.report.evaluate_translator", note)
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    for index, side in enumerate(("source", "target")):
        text = f"{HELD_OUT[1][index]}\n"
        RunDirectory(path).held_out("test", side).write_text(text, encoding="utf-8")  # type: ignore[arg-type]
    (path / "manifest.json").unlink()
    for run in (path, finished):
        with pytest.raises(EnoughError):
            write_report(run, tmp_path / "report.html")
    # none named stands for the test part
    assert asked == [(), tuple(str(finished / "held_out" / f"validation.{side}.txt") for side in ("source", "target"))]


def test_an_unfinished_run_has_no_report(finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(finished, path)
    (path / "metrics.jsonl").unlink()
    with pytest.raises(MissingInputError, match=r"metrics\.jsonl: is missing from the run; restore it from a copy"):
        write_report(path, tmp_path / "report.html")
    (path / "card.md").unlink()
    with pytest.raises(MissingInputError, match=f"{path}: holds an unfinished run; finish it with: dikkat train"):
        write_report(path, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_what_cannot_be_written_is_known_before_the_work(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dikkat.tasks.translation.report.Translator.load", lambda path: pytest.fail("it began"))
    with pytest.raises(CannotCreateError, match=r"the folder .*/nowhere does not exist"):
        write_report(finished, tmp_path / "nowhere" / "report.html")
    with pytest.raises(UsageError, match=r"is written as \.html or \.htm, not \.pdf"):
        write_report(finished, tmp_path / "report.pdf")
    with pytest.raises(UsageError, match='there are no messages in "de"'):
        write_report(finished, tmp_path / "report.html", "de")
    with pytest.raises(MissingInputError, match="there is no such run directory"):
        write_report(tmp_path / "nothing", tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("data", "toy.tsv"), ("data", [1]), ("left_out", []), ("left_out", {"duplicate": "2"}), ("train_pairs", "7"),
        ("train_pairs", None), ("train_pairs", True), ("test_pairs", -1), ("validation_data", {}),
        ("validation_pairs", 1e9),
    ],
)  # fmt: skip
def test_a_wrong_source_of_the_data_is_one_line(finished: Path, tmp_path: Path, name: str, value: object) -> None:
    run = RunDirectory.open(Path(shutil.copytree(finished, tmp_path / "run")))
    settings = run.read_config()
    run.write_config({**settings, "data_source": {**settings["data_source"], name: value}})
    with pytest.raises(DataError, match=rf"config\.json: data_source\.{name} is damaged; restore it"):
        write_report(run.path, tmp_path / "report.html")


def test_a_run_without_a_source_of_the_data_is_refused(finished: Path, tmp_path: Path) -> None:
    run = RunDirectory.open(Path(shutil.copytree(finished, tmp_path / "run")))
    sources: tuple[object, ...] = (None, [], "x")
    for source in sources:
        run.write_config({**run.read_config(), "data_source": source})
        with pytest.raises(DataError, match=r"config\.json: damaged: it has no data_source"):
            write_report(run.path, tmp_path / "report.html")
