"""One small trained run and its data, shared by all tests of the whole program."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.system.toy import Command, kept_signals, settings, toy_sentences

from dikkat.cli.main import run as run_command


@pytest.fixture
def dikkat(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture(scope="session")
def toy_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 pairs as a table."""
    path = tmp_path_factory.mktemp("toy") / "toy.en-eo.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in toy_sentences(400)), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, toy_data: Path) -> Path:
    """A finished run that has learned a good part of the toy language. Look, do not touch; else copy it."""
    out = tmp_path_factory.mktemp("trained") / "run"
    options = settings(training__max_epochs=25, training__validations=4, model__model_dim=64)
    with kept_signals():
        assert run_command(["train", "translator", str(toy_data), "--out", str(out), *options]) == 0
    return out


@pytest.fixture(scope="session")
def stopped(tmp_path_factory: pytest.TempPathFactory, toy_data: Path) -> Path:
    """An unfinished run with three checkpoints, ready to be resumed: a finished one without its last file."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    options = settings(training__max_epochs=3, training__validations=3, training__keep_checkpoints=3)
    with kept_signals():
        assert run_command(["train", "translator", str(toy_data), "--out", str(out), *options]) == 0
    (out / "card.md").unlink()
    return out
