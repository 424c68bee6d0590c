"""One program: shared commands everywhere, others where their distribution is, and a line that says what to install."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.command_lines import commands, complaint, run_without_dikkat
from tests.runtime.runs import translator_run

from dikkat.cli.commands import COMMANDS
from dikkat_runtime.cli import program
from dikkat_runtime.cli.completion import candidates
from dikkat_runtime.cli.main import run
from dikkat_runtime.cli.program import SHARED, Group, find_command


def said(capsys: pytest.CaptureFixture[str]) -> str:
    written, line = capsys.readouterr()
    assert written == ""
    return line


@pytest.mark.parametrize("name", COMMANDS)
def test_without_dikkat_a_command_of_it_says_what_to_install(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_without_dikkat([name, "x"]) == 2
    line = f"No such command '{name}' without dikkat, which makes and studies models: pip install dikkat"
    assert said(capsys) == f"dikkat: {line}\n"


def test_without_dikkat_the_shared_commands_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_without_dikkat(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in SHARED)
    assert not any(f"\n  {name} " in shown for name in COMMANDS)
    assert run_without_dikkat(["translat", "x"]) == 2
    assert said(capsys) == "dikkat: No such command 'translat'. Did you mean 'translate'? Try `dikkat --help`.\n"
    for options in (["--engine", "torch"], ["--device", "cuda"]):
        assert run_without_dikkat(["translate", str(translator_run(tmp_path / options[1])), *options]) == 2
        assert "the torch engine belongs to dikkat" in said(capsys)
    assert run_without_dikkat(["embed", "r", "--picture", "a.svg"]) == 2
    assert said(capsys) == "dikkat: --picture needs dikkat: pip install dikkat\n"
    # words that decide are computed by the native engine, so that only the run is missing
    assert run_without_dikkat(["classify", "r", "--words", "2"]) == 66
    assert said(capsys) == "dikkat: r: there is no such run directory\n"


def test_a_distribution_of_another_version_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Entry:
        def load(self) -> None:
            raise ImportError("cannot import name 'x' from 'dikkat_runtime'")

    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Entry()])
    program.toolkits.cache_clear()
    assert run(["train"]) == 2
    assert "(cannot import name 'x' from 'dikkat_runtime'): pip install --upgrade dikkat-runtime dikkat" in said(capsys)


def test_so_is_a_command_whose_module_needs_another_runtime(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr("dikkat_runtime.cli.opening.JsonOption")
    monkeypatch.delitem(sys.modules, "dikkat_runtime.cli.classify", raising=False)
    assert run(["classify", "r"]) == 2
    assert "pip install --upgrade dikkat-runtime dikkat" in said(capsys)


def test_what_a_command_does_is_how_its_help_begins() -> None:
    for name, text in COMMANDS.items():
        found = find_command(name)
        told = found.help if isinstance(found, Group) else (found.__doc__ or "").partition("\n\n")[0]
        assert " ".join(told.split()) == text, name


def test_every_command_reads_the_options_that_it_shares() -> None:
    for words in ("translate", "classify", "generate", "embed"):
        options = set(commands()[words,].words())
        assert {"--engine", "--precision", "--device", "--threads"} <= options, words


@pytest.mark.parametrize(
    ("typed", "known"),
    [
        ("dikkat tra", ["translate", "translate-files", "train"]),
        ("dikkat train tr", ["translator"]),
        ("dikkat --debug translate --be", ["--beam"]),
        ("dikkat train translator --nproc 2 --max", ["--max-restarts"]),
        ("dikkat nothing -", []),
    ],
)
def test_a_shell_is_told_what_could_stand_there(typed: str, known: list[str]) -> None:
    assert candidates({"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}) == known


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_where_the_shell_reads_it(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["--show-completion"]) == 0
    script = capsys.readouterr().out
    assert f"_DIKKAT_COMPLETE=complete_{shell}" in script
    assert run(["--install-completion"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert tmp_path in path.parents
    assert path.read_text() == script


def test_a_shell_that_is_not_known_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(os.environ, "SHELL", "/bin/csh")
    assert run(["--show-completion"]) == 2
    assert said(capsys) == "dikkat: completion works in bash, zsh, fish, not in csh\n"


def commands_in(text: str) -> list[list[str]]:
    """The words of each command that an indented line shows, without what stands next to it."""
    lines = [line.partition("  dikkat ")[2] for line in text.split("\n") if line.startswith("  dikkat ")]
    return [line.partition("   ")[0].split() for line in lines]


@pytest.mark.parametrize("language", ["en", "tr"])
def test_without_words_it_greets_with_commands_that_work(language: str, capsys: pytest.CaptureFixture[str]) -> None:
    for call, count in ((run_without_dikkat, 2), (run, 4)):
        assert call([] if language == "en" else ["--language", "tr"]) == 0
        shown = capsys.readouterr().out
        assert ("All commands" in shown) == (language == "en")
        assert len(commands_in(shown)) == count
        assert [complaint(words) for words in commands_in(shown)] == [""] * count


@pytest.mark.parametrize(
    ("kind", "understood"),
    [("translator", "3 pairs to train on"), ("classifier", "reviews.tsv: 3 texts"), ("lm", "plays.txt")],
)
def test_training_without_words_shows_what_data_look_like(
    kind: str, understood: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The three lines of the example are read as what they are, and are too few to train on."""
    assert run(["train", kind]) == 2
    written, shown = capsys.readouterr()
    assert written == ""
    (words,) = [words for words in commands_in(shown) if "--help" not in words]
    assert words[:2] == ["train", kind]
    assert complaint(words) == ""
    monkeypatch.chdir(tmp_path)
    example = [line.removeprefix("  ") for line in shown.split("\n\n")[1].split("\n")]
    Path(words[2]).write_text("".join(f"{line}\n" for line in example), encoding="utf-8")
    assert run(words) == 65
    assert understood in capsys.readouterr().err
