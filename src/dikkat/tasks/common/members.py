"""Train further members of a translator's run, whose probabilities are averaged: runs of their own on the same data."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from dikkat.config import RunConfig, TrainingConfig
from dikkat.run_directory import RunDirectory
from dikkat.training.task import Watcher
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.files import make_folder, write_errors
from dikkat_runtime.run.parts import CONFIG, PREPARED


def require_translator(run: RunDirectory, config: TrainingConfig, count: int) -> None:
    """Raise `UsageError` where there are members of a model of another kind, or several processes would train them."""
    if config.members > 1 and run.read_config().get("task", "translator") != "translator":
        raise UsageError("{path}: training.members is for translators; leave it out", run.path)
    if config.members > 1 and count > 1:
        raise UsageError("{path}: members are trained by one process; leave out --nproc", run.path)


def train_members(run: RunDirectory, config: RunConfig, watcher: Watcher, train: Callable[[Path], bool]) -> bool:
    """Train the members after the first one, each by `train`; False where that was stopped. Raises as `train`."""
    for number in range(2, config.training.members + 1):
        member = RunDirectory(run.member(number))
        if member.is_finished:
            continue
        watcher.note(msg("training model {number} of {count}", number, config.training.members))
        if not member.has_config:
            _prepare_member(run, member, number)
        if not train(member.path):
            return False
        # nobody continues a member that is finished
        shutil.rmtree(member.checkpoints, ignore_errors=True)
    return True


def _prepare_member(run: RunDirectory, member: RunDirectory, number: int) -> None:
    """Give a member the prepared data of `run`, by hard links where the disk has them, and a seed of its own."""
    for name in PREPARED:
        source, target = run.path / name, member.path / name
        if name == CONFIG or not source.exists():
            continue
        with write_errors(target):
            make_folder(target.parent)
            target.unlink(missing_ok=True)
            try:
                os.link(source, target)
            except OSError:  # a disk without hard links
                shutil.copyfile(source, target)
    settings = run.read_config()
    seed = settings["training"]["seed"] + number - 1
    member.write_config({**settings, "training": {**settings["training"], "seed": seed, "members": 1}})
