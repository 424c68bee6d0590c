"""`quickstart`: passes, not minutes; the same command goes on and shows again; no advice that does not exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.command_lines import complaint
from tests.unit.tasks.test_training import Watcher

from dikkat.lessons.phrasebook import PAIRS, phrasebook_split
from dikkat.run_directory import RunDirectory
from dikkat.tasks.translation import quickstart
from dikkat.tasks.translation.quickstart import default_folder, quickstart_command, run_quickstart
from dikkat_runtime.errors import CannotCreateError, DivergedError, UsageError


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus of sixty pairs, twelve updates and a small model."""
    few = phrasebook_split("fr", 60, 8, 8)
    monkeypatch.setattr("dikkat.lessons.phrasebook.phrasebook_split", lambda pair: few)
    settings: dict[str, dict[str, Any]] = {
        "model": {"model_dim": 32, "num_heads": 2, "feed_forward_dim": 64, "encoder_layers": 1, "decoder_layers": 1},
        "training": {"max_updates": 12, "validations": 2, "tokens_per_batch": 256},
    }
    monkeypatch.setattr(quickstart, "SETTINGS", settings)


def is_a_command(line: str) -> bool:
    """Whether the command line knows it, options and all."""
    return not complaint(shlex.split(line)[1:])


def test_no_clock_decides_how_far_it_learns() -> None:
    training = quickstart.SETTINGS["training"]
    assert training["max_epochs"] > 0
    assert "minutes" not in training


@pytest.mark.usefixtures("little")
def test_case_01_the_same_command_goes_on_and_then_shows_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quickstart, "MIN_GAIN", -100.0)
    whole = run_quickstart("en-fr", tmp_path / "whole", Watcher(), lambda: False)
    assert whole is not None
    out = tmp_path / "run"
    assert run_quickstart("en-fr", out, first := Watcher(), lambda: len(first.steps) == 5) is None
    shown = run_quickstart("en-fr", out, second := Watcher(), lambda: False)
    assert shown is not None
    assert [report.updates for report in second.steps] == list(range(6, 13))
    assert shown.evaluation.translations == whole.evaluation.translations
    assert RunDirectory(out).weights.read_bytes() == RunDirectory(tmp_path / "whole").weights.read_bytes()
    assert quickstart_command("en-fr", out) in RunDirectory(out).card.read_text(encoding="utf-8")
    again = run_quickstart("en-fr", out, third := Watcher(), lambda: False)
    assert again is not None
    assert not third.steps
    assert third.notes == [f"{out} is finished; this is what it has learned"]
    assert again.evaluation.translations == shown.evaluation.translations


@pytest.mark.usefixtures("little")
def test_an_interrupted_preparation_is_no_dead_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quickstart, "MIN_GAIN", -100.0)
    (tmp_path / "run" / "corpus").mkdir(parents=True)
    (tmp_path / "run" / "tokenizer.json").write_text("half of it")
    assert run_quickstart("en-fr", tmp_path / "run", Watcher(), lambda: False) is not None


@pytest.mark.usefixtures("little")
def test_a_run_that_learned_nothing_is_no_success(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(DivergedError, match=r"it has learned nothing of use: chrF .*; try another path") as caught:
            run_quickstart("en-fr", tmp_path / "run", Watcher(), lambda: False)
        assert caught.value.exit_code == 76
        (command,) = re.findall(r"dikkat quickstart .*", str(caught.value))
        assert command == f"dikkat quickstart --out {tmp_path / 'run-2'}"
        assert is_a_command(command)


@pytest.mark.usefixtures("little")
def test_another_run_is_not_gone_on_with(tmp_path: Path) -> None:
    out = tmp_path / "my run"
    assert run_quickstart("en-fr", out, watcher := Watcher(), lambda: len(watcher.steps) == 1) is None
    with pytest.raises(CannotCreateError, match="my run: holds another run; use dikkat quickstart") as caught:
        run_quickstart("en-tr", out, Watcher(), lambda: False)
    assert is_a_command(str(caught.value).partition("use ")[2])


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("out", [None, Path("a place/run")])
def test_its_command_exists(pair: str, out: Path | None) -> None:
    assert is_a_command(quickstart_command(pair, out))
    assert quickstart_command("en-fr", Path("runs/quickstart-fr")) == "dikkat quickstart"


@pytest.mark.usefixtures("little")
def test_from_turkish_it_reads_turkish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quickstart, "MIN_GAIN", -100.0)
    assert run_quickstart("tr-en", tmp_path / "run", Watcher(), lambda: False) is not None
    data = RunDirectory(tmp_path / "run").read_config()["data"]
    assert (data["source_language"], data["target_language"]) == ("tr", "en")
    assert default_folder("tr-en") == Path("runs/quickstart-tr-en")


def test_an_unknown_pair_is_one_line() -> None:
    with pytest.raises(UsageError, match=r'^the phrasebook has no pair "xx"; choose one of en-fr, en-tr, tr-en$'):
        default_folder("xx")
