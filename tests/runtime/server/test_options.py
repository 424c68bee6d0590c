"""The settings of a server: from the command line, from a file, and what is said of wrong ones."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from dikkat_runtime.cli.options import Command
from dikkat_runtime.cli.serve import OPTIONS, read_settings, serve
from dikkat_runtime.errors import DataError, MissingInputError, UsageError
from dikkat_runtime.server.settings import Limits, ServeSettings


def settings(*arguments: str) -> ServeSettings:
    return read_settings(Command("dikkat serve", serve).read(arguments))


def test_every_setting_and_every_limit_has_an_option() -> None:
    assert {option.field for option in OPTIONS if option.is_limit} == {item.name for item in fields(Limits)}
    named = {option.field for option in OPTIONS if not option.is_limit}
    assert named == {item.name for item in fields(ServeSettings)} - {"runs", "limits"}


def test_what_nobody_says_is_as_usual() -> None:
    assert settings("run") == ServeSettings(runs=("run",))


def test_the_command_line_comes_before_the_file_and_the_file_before_the_usual(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(
        'runs = ["a", "b=c"]\nport = 8080\nbeam = 1\nmax-wait = 5\nopen = true\nhost = "0.0.0.0"\n'
        'allow-origin = ["https://a.example"]\n'
    )
    result = settings("--config", str(file), "--port", "0", "--max-texts", "7")
    assert (result.runs, result.port, result.beam_size, result.is_open) == (("a", "b=c"), 0, 1, True)
    assert (result.limits.wait_seconds, result.limits.texts) == (5.0, 7)
    assert result.allowed_origins == ("https://a.example",)
    assert settings("d", "--config", str(file)).runs == ("d",)
    assert not result.all_words
    file.write_text(f"{file.read_text()}all-words = true\n")
    assert settings("--config", str(file)).all_words
    assert settings("run", "--all-words").all_words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port = '80'", "port must be a whole number"),
        ("port = true", "port must be a whole number"),
        ("open = 1", "open must be true or false"),
        ("precision = 'int2'", "precision must be auto or float32 or int8"),
        ("allow-host = 'a'", "allow-host must be a list"),
        ("runs = 'a'", "runs must be a list"),
        ("ports = 1", "there is no setting ports; known: runs host port"),
        ("port =", "not valid TOML"),
    ],
)
def test_a_wrong_line_of_the_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(text)
    with pytest.raises(DataError, match=said):
        settings("--config", str(file))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--max-body", "0"], "--max-body must be a whole number of at least 1, not 0"),
        (["run", "--max-wait", "0"], "--max-wait must be above 0 and at most 86400 seconds"),
        (["run", "--drain", "nan"], "--drain must be above 0"),
        (["run", "--threads", "0"], "--threads must be a whole number of at least 1"),
        (["run", "--ageing", "inf"], "--ageing must be above 0"),
        (["run", "--max-texts", "x"], "Invalid value for '--max-texts': Input should be a valid integer"),
        ([], "name at least one run directory"),
    ],
)
def test_a_wrong_option_is_named(arguments: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        settings(*arguments)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=r"no\.toml: there is no such configuration file"):
        settings("--config", str(tmp_path / "no.toml"))


def test_the_help_lists_every_option_and_its_default() -> None:
    text = Command("dikkat serve", serve).help()
    for option in OPTIONS:
        assert f"--{option.setting.name}" in text
    assert "[2,000,000]" in text
    assert "[127.0.0.1]" in text
