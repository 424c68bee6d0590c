"""One small trained run and its data, shared by all tests of the whole program."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.system.toy import Command, kept_signals, settings, toy_sentences

from dikkat_runtime.cli.main import run as run_command


@pytest.fixture
def dikkat(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this session see; without workers it is this process's own."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared_by_workers"
    folder.mkdir(exist_ok=True)
    return folder


@contextmanager
def first_to_come(folder: Path) -> Iterator[bool]:
    """Whether this worker is to fill `folder`, then new and empty; the others wait until it has."""
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        is_first = not folder.exists()
        folder.mkdir(exist_ok=True)
        try:
            yield is_first
        except BaseException:
            # nobody takes half of it for the whole
            shutil.rmtree(folder)
            raise


@pytest.fixture(scope="session")
def toy_data(shared_folder: Path) -> Path:
    """400 pairs as a table."""
    path = shared_folder / "toy" / "toy.en-eo.tsv"
    with first_to_come(path.parent) as is_first:
        if is_first:
            pairs = toy_sentences(400)
            path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def trained(shared_folder: Path, toy_data: Path) -> Path:
    """A finished run that has learned a good part of the toy language. Look, do not touch; else copy it."""
    out = shared_folder / "trained" / "run"
    without = {"data__typing_errors": 0.0, "data__no_final_mark": 0.0}
    options = settings(training__max_epochs=25, training__validations=4, model__model_dim=64, **without)
    with first_to_come(out.parent) as is_first, kept_signals():
        if is_first:
            assert run_command(["train", "translator", str(toy_data), "--out", str(out), *options]) == 0
    return out


@pytest.fixture(scope="session")
def stopped(shared_folder: Path, toy_data: Path) -> Path:
    """An unfinished run with three checkpoints, ready to be resumed: a finished one without its last file."""
    out = shared_folder / "stopped" / "run"
    options = settings(training__max_epochs=3, training__validations=3, training__keep_checkpoints=3)
    with first_to_come(out.parent) as is_first, kept_signals():
        if is_first:
            assert run_command(["train", "translator", str(toy_data), "--out", str(out), *options]) == 0
            (out / "card.md").unlink()
    return out
