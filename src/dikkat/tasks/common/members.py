"""Train further members of a translator's run, whose probabilities are averaged, and a student of them all.

They are runs of their own. The student learns the pairs of the run and, of their sources, what all models write
together (Kim and Rush 2016).
"""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from dikkat.config import RunConfig, TrainingConfig
from dikkat.data.corpus import Corpus
from dikkat.run_directory import RunDirectory
from dikkat.training.task import Stop, ValidationStoppedError, Watcher
from dikkat_runtime.engine.choose import why_not_native
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.files import make_folder, write_errors
from dikkat_runtime.run.parts import CONFIG, MEMBERS, PREPARED
from dikkat_runtime.tasks.batches import search_all
from dikkat_runtime.tasks.translator import Translator

STUDENT = "student"
"""Folder of the student, next to those of the members."""
PAIRS_PER_PART = 2_000
"""Pairs whose translations are kept when the work is stopped."""


def require_translator(run: RunDirectory, config: TrainingConfig, count: int) -> None:
    """Raise `UsageError` where there are members of a model of another kind, or several processes would train them."""
    has_others = config.members > 1 or config.student
    if has_others and run.read_config().get("task", "translator") != "translator":
        raise UsageError("{path}: training.members is for translators; leave it out", run.path)
    if has_others and count > 1:
        raise UsageError("{path}: members are trained by one process; leave out --nproc", run.path)


def train_members(
    run: RunDirectory, config: RunConfig, watcher: Watcher, train: Callable[[Path], bool], should_stop: Stop
) -> bool:
    """Train the members after the first one, then the student, each by `train`; False where that was stopped.

    Raises as `train`.
    """
    count = config.training.members
    for number in range(2, count + 1 + config.training.student):
        is_student, started = number > count, time.monotonic()
        member = RunDirectory(run.path / MEMBERS / (STUDENT if is_student else str(number)))
        if member.is_finished:
            continue
        lessons = msg("training the student of {count} models, {path}", count, member.path)
        watcher.note(lessons if is_student else msg("training model {number} of {count}", number, count))
        if not member.has_config:
            _link_data(run, member)
            if is_student and not _write_lessons(run, member, should_stop):
                return False
            _write_settings(run, member, number, (time.monotonic() - started) / 60.0)
        if not train(member.path):
            return False
        # nobody continues a member that is finished
        shutil.rmtree(member.checkpoints, ignore_errors=True)
    return True


def _link_data(run: RunDirectory, member: RunDirectory) -> None:
    """Give a member the prepared data of `run`, by hard links where the disk has them."""
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


def _write_settings(run: RunDirectory, member: RunDirectory, number: int, spent: float) -> None:
    """Write the settings of a member: a seed of its own, and a time limit less the minutes `spent`, or half of it."""
    settings = run.read_config()
    training = {**settings["training"], "members": 1, "student": False}
    training["seed"] += number - 1
    if (minutes := training["minutes"]) is not None:
        training["minutes"] = max(minutes / 2, minutes - spent)
    member.write_config({**settings, "training": training})


def _write_lessons(run: RunDirectory, student: RunDirectory, should_stop: Stop) -> bool:
    """Add what all models of `run` write to the pairs of a student, in parts kept at a stop, and return False then."""
    is_native = why_not_native(run.read_config(), str(run.config)) is None
    translator = Translator.load(run.path, "int8" if is_native else "float32")
    size, folder = max(translator.tokenizer.vocab_size, translator.target_tokenizer.vocab_size), student.path / "corpus"

    def stop_if_asked() -> None:
        if should_stop():
            raise ValidationStoppedError

    # a beam would take five times as long
    options, pairs = DecodingOptions(scores=False), Corpus.open(run.corpus, "train", vocab_size=size)
    parts = [pairs]
    for start in range(0, len(pairs), PAIRS_PER_PART):
        name, numbers = f"lessons.{start}", range(start, min(start + PAIRS_PER_PART, len(pairs)))
        if not (folder / f"{name}.offsets.npy").exists():
            sources = [pairs.source(number).tolist() for number in numbers]
            try:
                hypotheses = search_all(translator.engine, sources, options, before_batch=stop_if_asked)
            except ValidationStoppedError:
                return False
            Corpus.build(folder, name, zip(sources, (best[0].tokens for best in hypotheses), strict=True))
        parts.append(Corpus.open(folder, name, vocab_size=size))
    every = ((part.source(number), part.target(number)) for part in parts for number in range(len(part)))
    Corpus.build(folder, "train", ((source, target) for source, target in every if len(target)))
    for path in folder.glob("lessons.*"):
        path.unlink()
    return True
