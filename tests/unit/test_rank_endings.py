"""Errors of ranks that torchrun starts: said once on a machine, and final."""

from __future__ import annotations

from pathlib import Path

import pytest

from dikkat.cli.rank_endings import claim_report, earlier_exit_code, has_said, mark_reported, note_exit_code
from dikkat.training.distributed.environment import LAUNCHED
from dikkat_runtime.cli.main import run


def as_rank(monkeypatch: pytest.MonkeyPatch, folder: Path, index: int, attempt: int = 0) -> None:
    """Set the variable that torchrun gives a rank; it makes its folders first."""
    # as a command that started ranks leaves it in its own process
    monkeypatch.delenv(LAUNCHED, raising=False)
    own = folder / f"attempt_{attempt}" / str(index)
    own.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(own / "error.json"))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--config", "none.toml"], 66),
        (["--nonsense"], 2),
    ],
)
def test_an_error_of_all_ranks_is_said_once_and_not_again_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], code: int
) -> None:
    command = ["train", "translator", "--out", str(tmp_path / "out"), *words]
    complaints = []
    for attempt in range(2):
        for index in range(2):
            as_rank(monkeypatch, tmp_path, index, attempt)
            assert run(command) == code
            complaints.append(capsys.readouterr().err)
    assert complaints[0].startswith("dikkat: ")
    assert [complaint.count("\n") for complaint in complaints] == [1, 0, 0, 0]


@pytest.mark.parametrize("code", [0, 75, 130, 143])
def test_what_may_go_on_is_no_reason_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    as_rank(monkeypatch, tmp_path, 0)
    note_exit_code(code)
    assert earlier_exit_code() is None
    assert claim_report(code)
    assert claim_report(code)


def test_a_rank_that_says_nothing_leaves_the_word_to_the_one_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_rank(monkeypatch, tmp_path, 1)
    note_exit_code(65)
    as_rank(monkeypatch, tmp_path, 0)
    assert not claim_report(143)
    assert claim_report(65)
    as_rank(monkeypatch, tmp_path, 0, attempt=1)
    assert earlier_exit_code() == 65


def test_other_commands_that_a_script_under_torchrun_calls_all_run_and_say_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    as_rank(monkeypatch, tmp_path, 0)
    for _ in range(2):
        assert run(["report", str(tmp_path / "none"), "--out", str(tmp_path / "page.html")]) == 66
        assert capsys.readouterr().err.count("\n") == 1
    assert earlier_exit_code() is None


def test_a_process_that_is_no_rank_always_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    note_exit_code(65)
    assert earlier_exit_code() is None
    assert claim_report(65)


def test_a_signal_is_left_to_the_command_that_started_the_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_rank(monkeypatch, tmp_path / "run", 0)
    monkeypatch.setenv(LAUNCHED, "1.0")
    assert not claim_report(130)
    assert claim_report(75)
    assert not has_said(tmp_path)
    mark_reported()
    assert has_said(tmp_path)


def test_a_lasting_error_is_one_that_was_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_rank(monkeypatch, tmp_path / "run", 1)
    assert claim_report(65)
    assert has_said(tmp_path)
