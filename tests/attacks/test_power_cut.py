"""Whatever the moment the power goes, all that a run was told is saved is there afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.attacks.faulty_files import watched
from tests.attacks.power_cut import Disk

from dikkat.config import RunConfig
from dikkat.data.corpus import Corpus
from dikkat.run_directory import RunDirectory

Promise = Callable[[RunDirectory], object]


def save(run: RunDirectory, step: int) -> None:
    run.append_metrics({"step": step, "chrf": 1.0})
    run.save_checkpoint(step, {"model": {"weight": torch.full((4,), float(step))}}, {"step": step}, keep=2)


def is_prepared(run: RunDirectory) -> bool:
    return (
        RunDirectory.open(run.path).read_config()["model"]["vocab_size"] == 8000
        and len(Corpus.open(run.corpus, "train", vocab_size=8000)) == 2
        and run.held_out("test", "source").read_text() == "a\n"
        and run.tokenizer.read_text() == "{}"
    )


def has_step(step: int) -> Promise:
    def promise(run: RunDirectory) -> bool:
        checkpoint = run.latest_checkpoint()
        assert checkpoint is not None
        assert float(checkpoint.tensors("model")["weight"][0]) == checkpoint.step
        rows = [row["step"] for row in run.read_metrics()]
        return is_prepared(run) and checkpoint.step >= step and rows[: step // 10] == list(range(10, step + 1, 10))

    return promise


def is_finished(run: RunDirectory) -> bool:
    return run.is_finished and run.card.read_text() == "done" and bool(run.read_metrics())


def test_what_was_saved_is_there_after_a_power_cut(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    changes: list[tuple[str, Path, tuple[Any, ...]]] = []
    promises: list[tuple[int, Promise]] = []
    run = RunDirectory(root / "runs" / "run")
    with watched(root, lambda call, path, rest: changes.append((call, path, rest))):
        RunDirectory.create(run.path)
        run.write_text("tokenizer.json", "{}")
        Corpus.build(run.make_folder("corpus"), "train", [([1, 2], [3]), ([4], [5, 6])])
        run.make_folder("held_out")
        run.write_text("held_out/test.source.txt", "a\n")
        run.write_config(RunConfig().model_dump())
        promises.append((len(changes), is_prepared))
        for step in (10, 20, 30, 40):
            save(run, step)
            promises.append((len(changes), has_step(step)))
        run.save_weights({"weight": torch.ones(3)}, {})
        run.write_card("done")
        promises.append((len(changes), is_finished))
    assert len(changes) > 100
    disk, kept = Disk(root), 0
    for number, change in enumerate(changes, start=1):
        disk.apply(*change)
        due = [promise for at, promise in promises if at <= number]
        if not due:
            continue
        out = tmp_path / f"after-{number}"
        out.mkdir()
        disk.materialize(out)
        after = RunDirectory(out / "runs" / "run")
        assert due[-1](after), (number, change)
        with after.alone():
            assert not [path for path in after.path.rglob("*") if path.name.startswith((".writing-", ".replaced-"))]
        kept += 1
    assert kept > 60


@pytest.mark.parametrize("forgotten", ["runs", "run", "corpus", "checkpoints"])
def test_the_test_notices_a_folder_that_is_not_synced(tmp_path: Path, forgotten: str) -> None:
    """A name that was never synced into its folder is not there, whatever lies below it."""
    root = tmp_path / "disk"
    root.mkdir()
    disk = Disk(root)
    folders = {"runs": root, "run": root / "runs", "corpus": root / "runs/run", "checkpoints": root / "runs/run"}

    def seen(call: str, path: Path, rest: tuple[Any, ...]) -> None:
        if (call, path) != ("fsync", folders[forgotten]):
            disk.apply(call, path, rest)

    with watched(root, seen):
        run = RunDirectory.create(root / "runs" / "run")
        Corpus.build(run.make_folder("corpus"), "train", [([1], [2])])
        run.write_config(RunConfig().model_dump())
        save(run, 10)
    (out := tmp_path / "after").mkdir()
    disk.materialize(out)
    assert not (out / "runs" / "run" / "checkpoints" / "step-000010").exists()
