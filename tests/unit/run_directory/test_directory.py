"""Who may write a run directory, and how it is read back."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from tests.attacks.faulty_files import watched

from dikkat.config import RunConfig, build_config
from dikkat.run_directory import RunDirectory
from dikkat_runtime.errors import CannotCreateError, DataError, DiskError, MissingInputError
from dikkat_runtime.run.config import FORMAT_VERSION


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory.create(tmp_path / "runs" / "en-de")
    run.write_config(RunConfig().model_dump())
    return run


def finish(run: RunDirectory) -> None:
    run.save_weights({"weight": torch.ones(2)}, {})
    run.write_text("card.md", "# en-de\n")


def test_create_makes_the_folder_and_its_parents(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "a" / "b")
    assert run.path.is_dir()
    assert os.listdir(run.path) == []
    assert not run.has_config
    assert not run.is_finished


def test_create_takes_an_empty_folder(tmp_path: Path) -> None:
    assert RunDirectory.create(tmp_path).path == tmp_path


def test_finished_run_is_never_overwritten(run: RunDirectory) -> None:
    finish(run)
    for resume in (False, True):
        with pytest.raises(CannotCreateError, match=r"en-de: holds a finished run; give another --out") as caught:
            RunDirectory.create(run.path, resume=resume)
        assert caught.value.exit_code == 73
    assert run.card.read_text() == "# en-de\n"


def test_unfinished_run_is_taken_up_only_with_resume(run: RunDirectory) -> None:
    with pytest.raises(CannotCreateError, match="holds an unfinished run; add --resume to continue"):
        RunDirectory.create(run.path)
    assert RunDirectory.create(run.path, resume=True).read_config() == RunConfig().model_dump()


def test_interrupted_preparation_is_taken_up_only_with_resume(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "corpus").mkdir()
    with pytest.raises(CannotCreateError, match="preparation that was interrupted; add --resume to the same command"):
        RunDirectory.create(tmp_path)
    assert not RunDirectory.create(tmp_path, resume=True).has_config


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize(
    ("names", "listed"),
    [
        (["thesis.tex"], "(thesis.tex)"),
        (["a", "b", "c", "d", "e"], "(a, b, c and 2 more)"),
        (["config.json", "pytorch_model.bin"], "(config.json, pytorch_model.bin)"),  # a model of another program
        (["tokenizer.json", "vocab.txt"], "(tokenizer.json, vocab.txt)"),
    ],
)
def test_foreign_files_are_never_overwritten(tmp_path: Path, names: list[str], listed: str, resume: bool) -> None:
    for name in names:
        (tmp_path / name).write_text('{"architectures": []}')
    with pytest.raises(CannotCreateError) as caught:
        RunDirectory.create(tmp_path, resume=resume)
    assert f"{tmp_path}: holds files that are not of a run {listed}; give another --out" == str(caught.value)


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CannotCreateError, match="file: is a file, not a folder; give another --out"):
        RunDirectory.create(tmp_path / "file")
    with pytest.raises(CannotCreateError, match="Not a directory"):
        RunDirectory.create(tmp_path / "file" / "run")
    with pytest.raises(MissingInputError, match="file: is a file, not a run directory"):
        RunDirectory.open(tmp_path / "file")


@pytest.mark.parametrize("call", ["mkdir", "open"])
def test_a_place_that_cannot_be_written_is_known_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(CannotCreateError, match=r"run: cannot be written: Permission denied") as caught:
        RunDirectory.create(tmp_path / "run")
    assert caught.value.exit_code == 73


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="no run to resume; leave --resume out"):
        RunDirectory.create(tmp_path / "none", resume=True)
    assert not (tmp_path / "none").exists()


def test_resuming_clears_half_written_files(run: RunDirectory) -> None:
    (run.path / ".writing-model.safetensors-abcd").write_bytes(b"half")
    with RunDirectory.create(run.path, resume=True).alone():
        assert sorted(os.listdir(run.path)) == ["config.json", "manifest.json"]


def test_open_needs_a_run(tmp_path: Path, run: RunDirectory) -> None:
    assert RunDirectory.open(run.path) == run
    with pytest.raises(MissingInputError, match="none: there is no such run directory") as caught:
        RunDirectory.open(tmp_path / "none")
    assert caught.value.exit_code == 66
    with pytest.raises(MissingInputError, match=r"not a run directory: config\.json cannot be read \(No such file"):
        RunDirectory.open(tmp_path)


def test_config_round_trip_with_versions(run: RunDirectory) -> None:
    assert build_config(run.read_config()) == RunConfig()
    written = json.loads(run.config.read_text())
    assert written["format_version"] == FORMAT_VERSION
    assert list(written)[:2] == ["format_version", "dikkat_version"]


def test_newer_format_is_refused(run: RunDirectory) -> None:
    written = json.loads(run.config.read_text()) | {"format_version": FORMAT_VERSION + 1, "dikkat_version": "9.1"}
    run.config.write_text(json.dumps(written))
    expected = rf"config\.json: format version {FORMAT_VERSION + 1}, .* up to {FORMAT_VERSION}; .*dikkat 9\.1: upgrade"
    with pytest.raises(DataError, match=expected) as caught:
        RunDirectory.open(run.path)
    assert caught.value.exit_code == 65


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format_version": "1"}', '{"format_version": true}', "3"])
def test_damaged_config_is_named(run: RunDirectory, content: str) -> None:
    run.config.write_text(content)
    with pytest.raises(DataError, match=r"config\.json: damaged"):
        RunDirectory.open(run.path)


def test_damaged_config_of_a_run_with_checkpoints_is_not_taken_for_foreign_files(run: RunDirectory) -> None:
    run.save_checkpoint(1, {"model": {"weight": torch.ones(1)}}, {})
    run.config.write_text("{")
    with pytest.raises(CannotCreateError, match="unfinished run"):
        RunDirectory.create(run.path)
    with pytest.raises(DataError, match=r"config\.json: damaged"):
        RunDirectory.create(run.path, resume=True)


def test_a_run_to_resume_whose_config_is_gone_is_told_what_is_missing(run: RunDirectory) -> None:
    """What is there is never prepared again, and is not called foreign."""
    run.save_checkpoint(4, {"model": {"weight": torch.ones(1)}}, {})
    run.config.unlink()
    with pytest.raises(MissingInputError, match=f"^{run.config}: is missing from the run; restore it from a copy$"):
        RunDirectory.create(run.path, resume=True)
    run.config.symlink_to("/nowhere/at/all")
    with pytest.raises(DataError, match=f"^{run.config}: damaged: is a symbolic link, not a file"):
        RunDirectory.create(run.path, resume=True)


def test_weights_round_trip(run: RunDirectory) -> None:
    with pytest.raises(MissingInputError, match=r"model\.safetensors: no weights yet; continue training with --resume"):
        run.load_weights()
    run.save_weights({"weight": torch.arange(6.0).reshape(2, 3)}, {"step": "400"})
    assert torch.equal(run.load_weights()["weight"], torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]))


def test_the_weights_of_a_finished_run_are_not_to_be_trained_again(run: RunDirectory) -> None:
    run.write_card("finished\n")
    with pytest.raises(MissingInputError, match=r"model\.safetensors: is missing from the run; restore it from a copy"):
        run.load_weights()


@pytest.mark.parametrize("damage", ["flip", "truncate"])
def test_damaged_weights_are_named(run: RunDirectory, damage: str) -> None:
    run.save_weights({"weight": torch.ones(100)}, {})
    content = bytearray(run.weights.read_bytes())
    content[-3] ^= 1
    run.weights.write_bytes(content if damage == "flip" else content[:-40])
    with pytest.raises(DataError, match=r"en-de/model\.safetensors: damaged"):
        run.load_weights()


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_full_disk_names_the_file_and_keeps_what_was_there(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    finish(run)
    run.append_metrics({"step": 1})
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(DiskError, match=r"manifest\.json: writing failed: No space left"):
        run.write_config({})
    with pytest.raises(DiskError, match=r"card\.md: writing failed: No space left"):
        run.write_text("card.md", "new")
    with pytest.raises(DiskError, match=r"model\.safetensors: writing failed: No space left"):
        run.save_weights({"weight": torch.zeros(2)}, {})
    with pytest.raises(DiskError, match=r"metrics\.jsonl: writing failed: No space left"):
        run.append_metrics({"step": 2})
    assert {path.name: path.read_bytes() for path in run.path.iterdir()} == before


def test_metrics_of_a_run(run: RunDirectory) -> None:
    for step in (1, 2, 3):
        run.append_metrics({"step": step})
    run.truncate_metrics(2)
    assert run.read_metrics() == [{"step": 1}, {"step": 2}]


def test_nothing_in_a_run_directory_is_a_pickle(run: RunDirectory) -> None:
    finish(run)
    run.save_checkpoint(1, {"model": {"weight": torch.ones(1)}}, {"random": [1]})
    for path in run.path.rglob("*"):
        if path.is_file():
            assert path.suffix in {".json", ".jsonl", ".md", ".safetensors"}
            assert not path.read_bytes().startswith((b"\x80", b"PK"))


def test_layout_is_the_one_of_the_design() -> None:
    run = RunDirectory(Path("r"))
    paths = [run.config, run.tokenizer, run.weights, run.card, run.metrics, run.checkpoints, run.corpus]
    assert [str(path) for path in paths] == [
        "r/config.json", "r/tokenizer.json", "r/model.safetensors", "r/card.md", "r/metrics.jsonl",
        "r/checkpoints", "r/corpus",
    ]  # fmt: skip
    assert run.held_out("test", "source") == Path("r/held_out/test.source.txt")


@pytest.mark.parametrize("at", range(1, 40))
def test_settings_that_are_written_again_never_meet_a_manifest_of_others(tmp_path: Path, at: int) -> None:
    run = RunDirectory.create(tmp_path / "run")
    run.write_config({"command": "old"})
    changes = 0

    def seen(*_: object) -> None:
        nonlocal changes
        changes += 1
        if changes == at:
            raise KeyboardInterrupt

    with watched(tmp_path, seen), suppress(KeyboardInterrupt):
        run.write_config({"command": "new"})
    assert run.read_config()["command"] in ("old", "new")
    run.write_config({"command": "newest"})
    assert run.read_config() == {"command": "newest"}
    run.config.write_text(run.config.read_text().replace("newest", "oldest"))
    with pytest.raises(DataError, match=r"config\.json: damaged: its content does not match its checksum"):
        run.read_config()
