"""One call from text to a finished run directory, and how it is taken up again."""

from __future__ import annotations

import errno
import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dikkat.config import RunConfig, merge
from dikkat.data.cleaning import CleaningReport
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common import train as training
from dikkat.tasks.common.speed_trial import MIN_SECONDS
from dikkat.tasks.common.train import conditions_of, train
from dikkat.tasks.translation.prepare import TrainRequest
from dikkat.tasks.translation.train import TranslatorJob
from dikkat.training.distributed.ranks import Ranks
from dikkat.training.task import StepReport, Validation
from dikkat_runtime.errors import CannotCreateError, DiskError, StoppedError, UsageError

SETTINGS: dict[str, dict[str, Any]] = {
    "model": {"model_dim": 16, "num_heads": 2, "feed_forward_dim": 24, "encoder_layers": 1, "decoder_layers": 1},
    "tokenizer": {"vocab_size": 310},
    "training": {"tokens_per_batch": 200, "max_epochs": 3, "validations": 3, "precision": "float32"},
}


@dataclass
class Watcher:
    """Keeps what it is told."""

    config: RunConfig | None = None
    report: CleaningReport | None = None
    facts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    steps: list[StepReport] = field(default_factory=list)
    rows: list[dict[str, float]] = field(default_factory=list)

    def prepared(self, config: RunConfig, report: CleaningReport | None, facts: dict[str, str]) -> None:
        self.config, self.report, self.facts = config, report, facts

    def note(self, text: str) -> None:
        self.notes.append(text)

    def step(self, report: StepReport) -> None:
        self.steps.append(report)

    def validation(self, row: dict[str, float], found: Validation, is_best: bool) -> None:
        self.rows.append(row)


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "toy.en-eo.tsv"
    words = ["dog", "cat", "bird", "child", "king", "tree", "river", "house", "star", "stone"]
    rows = [(f"the {a} sees the {b}", f"{b}o vidas {a}o") for a in words for b in words if a != b]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return str(path)


def test_a_run_from_text_to_card(data: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    outcome = train(
        TranslatorJob(TrainRequest([data], settings=SETTINGS)),
        out,
        watcher := Watcher(),
        command="dikkat train translator …",
    )
    run = RunDirectory.open(out)
    assert outcome.finished
    assert outcome.best_score == max(row["chrf"] for row in watcher.rows)
    assert run.read_metrics() == watcher.rows
    assert len(watcher.rows) == 3
    assert run.is_finished
    assert "dikkat train translator …" in run.card.read_text(encoding="utf-8")
    assert (out / "training.png").read_bytes().startswith(b"\x89PNG")
    assert watcher.report is not None
    assert watcher.report.kept == 90
    assert watcher.config is not None
    assert watcher.facts.keys() == {"pairs", "model", "batches", "numbers"}
    total = sum(tensor.numel() for tensor in run.load_weights().values())
    assert f"{total:,} parameters" in watcher.facts["model"]
    copies = run.read_config()["data_source"]["copies"]
    assert 0 < copies < 20
    assert watcher.facts["pairs"] == f"{82 + copies} to train on"


def test_a_run_says_that_it_learns_both_directions(data: str, tmp_path: Path) -> None:
    both = merge(SETTINGS, {"training": {"bidirectional_share": 0.25}})
    train(TranslatorJob(TrainRequest([data], settings=both)), tmp_path / "run", watcher := Watcher())
    assert watcher.facts["directions"] == "both in turn in the first 25% of the run, then one"


def without_precision(notes: list[str]) -> list[str]:
    """The notes but the last of a finished run, which says what eight bits cost it."""
    if notes and "--precision auto takes" in notes[-1]:
        return notes[:-1]
    return notes


def test_a_stopped_run_goes_on_without_its_data(data: str, tmp_path: Path) -> None:
    """Same bits as the run that was not stopped, though the data is gone."""
    request = TrainRequest([data], settings=SETTINGS)
    train(TranslatorJob(request), tmp_path / "whole", Watcher())
    out = tmp_path / "run"
    stopped = train(TranslatorJob(request), out, first := Watcher(), should_stop=lambda: len(first.steps) == 2)
    assert not stopped.finished
    assert not (out / "card.md").exists()
    with pytest.raises(CannotCreateError, match="holds an unfinished run; add --resume"):
        train(TranslatorJob(request), out, Watcher())
    Path(data).unlink()
    assert train(TranslatorJob(TrainRequest(())), out, second := Watcher(), resume=True).finished
    assert without_precision(second.notes) == ["resumed at update 2"]
    assert second.report is None
    assert second.steps[0].updates == 3
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


class StartedAgain(Ranks):
    """A first rank that was started again after it had begun the run."""

    has_begun = True


def test_a_process_that_is_started_again_goes_on_with_its_own_run(data: str, tmp_path: Path) -> None:
    job, out = TranslatorJob(TrainRequest([data], settings=SETTINGS)), tmp_path / "run"
    first = Watcher()
    train(job, out, first, should_stop=lambda: len(first.steps) == 2)
    again = Watcher()
    train(job, out, again, ranks=StartedAgain(), should_stop=lambda: len(again.steps) == 1)
    # and says nothing of data that are those of the run
    assert again.notes == ["resumed at update 2"]
    asked = Watcher()
    train(job, out, asked, resume=True, should_stop=lambda: len(asked.steps) == 1)
    assert asked.notes[0] == f"resuming with the data and settings in {out}; those of the command line are not read"
    # nothing is there when the process was lost before it made the run
    early = Watcher()
    train(job, tmp_path / "new", early, ranks=StartedAgain(), should_stop=lambda: len(early.steps) == 1)
    assert early.report is not None


class Leading(Ranks):
    """A first rank that knows whether the others wait for it however long it takes."""

    waited_for = False

    @contextmanager
    def leading(self) -> Iterator[None]:
        self.waited_for = True
        yield
        self.waited_for = False


def test_other_ranks_wait_while_the_first_one_tells_of_the_data(data: str, tmp_path: Path) -> None:
    ranks, seen = Leading(), list[bool]()

    class Slow(Watcher):
        def prepared(self, *_: object) -> None:
            seen.append(ranks.waited_for)

    job = TranslatorJob(TrainRequest([data], settings=SETTINGS))
    watcher = Slow()
    train(job, tmp_path / "run", watcher, ranks=ranks, should_stop=lambda: len(watcher.steps) == 1)
    assert seen == [True]


def test_a_run_that_lacked_only_its_card_is_finished(data: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(TranslatorJob(TrainRequest([data], settings=SETTINGS)), out, Watcher())
    content = (out / "model.safetensors").read_bytes()
    (out / "card.md").unlink()
    assert train(TranslatorJob(TrainRequest(())), out, watcher := Watcher(), resume=True).finished
    assert not watcher.steps
    assert (out / "card.md").exists()
    assert (out / "model.safetensors").read_bytes() == content


def test_without_data_there_must_be_a_prepared_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "tokenizer.json").write_text("{}")
    with pytest.raises(UsageError, match="run: its preparation was interrupted; give the data again"):
        train(TranslatorJob(TrainRequest(())), out, Watcher(), resume=True)


def test_a_run_that_another_process_trains_is_left_alone(data: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    job = TranslatorJob(TrainRequest([data], settings=SETTINGS))
    train(job, out, first := Watcher(), should_stop=lambda: len(first.steps) == 2)
    with RunDirectory(out).alone(), pytest.raises(CannotCreateError, match="run: another process is writing this run"):
        train(job, out, Watcher(), resume=True)
    assert train(job, out, Watcher(), resume=True).finished


def test_a_run_that_cannot_be_locked_says_so(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", refuse)
    train(TranslatorJob(TrainRequest([data], settings=SETTINGS)), tmp_path / "run", watcher := Watcher())
    assert without_precision(watcher.notes) == [
        f"{tmp_path / 'run'} cannot be locked on its file system; make sure that nothing else trains in it"
    ]


def test_an_interrupted_preparation_is_made_anew(data: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    (out / "corpus").mkdir(parents=True)
    (out / "tokenizer.json").write_text("half of it")
    assert train(TranslatorJob(TrainRequest([data], settings=SETTINGS)), out, Watcher(), resume=True).finished


def test_rows_before_the_first_checkpoint_are_not_kept(data: str, tmp_path: Path) -> None:
    """Killed after the first row of metrics and before its checkpoint, the run begins again, and so do the rows."""
    out = tmp_path / "run"
    request = TrainRequest([data], settings=SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        train(TranslatorJob(request), out, Watcher(), should_stop=_interrupt)
    run = RunDirectory.open(out)
    assert run.latest_checkpoint() is None
    run.append_metrics({"step": 4, "chrf": 99.0, "bleu": 99.0})
    train(TranslatorJob(request), out, watcher := Watcher(), resume=True)
    assert run.read_metrics() == watcher.rows


def _interrupt() -> bool:
    raise KeyboardInterrupt


def test_minutes_end_the_run_in_time(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit counts from `started`, before anything was read, and the last validation and the end are within it."""
    now = 1000.0

    class Slow(Watcher):
        """By its clock an update takes a tenth of a second, a validation 0.4, and nothing else any time."""

        def step(self, report: StepReport) -> None:
            nonlocal now
            super().step(report)
            now += 0.1

        def validation(self, row: dict[str, float], found: Validation, is_best: bool) -> None:
            nonlocal now
            super().validation(row, found, is_best)
            now += 0.4

    monkeypatch.setattr(training, "RunningClock", lambda: lambda: now)
    settings = {**SETTINGS, "training": {**SETTINGS["training"], "minutes": 70 / 60, "patience": 1000}}
    job = TranslatorJob(TrainRequest([data], settings=settings))
    assert train(job, tmp_path / "run", watcher := Slow(), started=now - 60.0).finished
    end = 1010.0 - training.END_RESERVE - MIN_SECONDS
    assert end - 0.5 < now < end + 0.2
    assert watcher.steps[-1].updates == watcher.rows[-1]["step"], "the end is validated"


def test_time_that_ends_before_the_first_update_is_said(data: str, tmp_path: Path) -> None:
    import time

    settings = {**SETTINGS, "training": {**SETTINGS["training"], "minutes": 1.0}}
    request, out = TrainRequest([data], settings=settings), tmp_path / "run"
    with pytest.raises(StoppedError, match=r"time was up before the first update; .*--resume, .*--minutes"):
        train(TranslatorJob(request), out, Watcher(), started=time.monotonic() - 60.0)
    assert RunDirectory.open(out).has_config, "the prepared data is kept"
    # whoever follows the advice has an update at least
    watcher, job = Watcher(), TranslatorJob(TrainRequest(()))
    began = time.monotonic() - 60.0
    train(job, out, watcher, should_stop=lambda: bool(watcher.steps), resume=True, started=began)
    assert watcher.steps


def test_case_18_the_card_has_the_command_that_made_the_run(data: str, tmp_path: Path) -> None:
    """However often it was resumed, and with whatever command."""
    out = tmp_path / "run"
    job = TranslatorJob(TrainRequest([data], settings=SETTINGS))
    train(job, out, first := Watcher(), should_stop=lambda: len(first.steps) == 2, command="dikkat train A --out run")
    again = TranslatorJob(TrainRequest(()))
    for steps in (3, 99):
        train(again, out, watcher := Watcher(), resume=True, should_stop=_after(watcher, steps), command="dikkat B")
    card = (out / "card.md").read_text(encoding="utf-8")
    assert card.endswith("To reproduce it:\n\n    dikkat train A --out run\n")


def _after(watcher: Watcher, steps: int) -> Callable[[], bool]:
    return lambda: len(watcher.steps) == steps


def test_a_run_resumed_under_other_conditions_says_so(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    job = TranslatorJob(TrainRequest([data], settings=SETTINGS))
    train(job, out, first := Watcher(), should_stop=_after(first, 2))
    monkeypatch.setattr(training, "conditions_of", lambda trainer: {**conditions_of(trainer), "threads": "64"})
    train(TranslatorJob(TrainRequest(())), out, second := Watcher(), resume=True, should_stop=_after(second, 2))
    threads = torch.get_num_threads()
    assert second.notes == [
        "resumed at update 2",
        f"resumed with threads 64 instead of {threads}: the model will be as good, but not the same bit for bit",
    ]
    monkeypatch.undo()
    train(TranslatorJob(TrainRequest(())), out, third := Watcher(), resume=True)
    assert without_precision(third.notes) == ["resumed at update 4"], "under those it began under"


def test_the_time_to_compile_is_not_the_time_of_the_run(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler that takes two hours leaves a run of a minute its minute."""
    now = 1000.0

    def compile_slowly() -> None:
        nonlocal now
        # it is asked for more often, but compiled once
        now = max(now, 8200.0)

    monkeypatch.setattr(training, "library", compile_slowly)
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(training, "RunningClock", lambda: lambda: now)
    settings = merge(SETTINGS, {"training": {"minutes": 1.0}})
    job = TranslatorJob(TrainRequest([data], settings=settings))

    class Slow(Watcher):
        def step(self, report: StepReport) -> None:
            nonlocal now
            super().step(report)
            now += 3.0

    assert train(job, tmp_path / "run", watcher := Slow(), started=now).finished
    assert 15 <= len(watcher.steps) <= 20
    assert watcher.rows[-1]["seconds"] <= 60.0


def test_weights_that_are_lost_before_the_card_are_no_success(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"

    def lose(rows: object, path: Path, title: str) -> None:
        raise AssertionError("nothing is drawn of such a run")

    class Losing(Watcher):
        def validation(self, row: dict[str, float], found: Validation, is_best: bool) -> None:
            super().validation(row, found, is_best)
            if len(self.rows) == 3:
                (out / "model.safetensors").write_bytes(b"")

    monkeypatch.setattr(training, "plot_training", lose)
    job = TranslatorJob(TrainRequest([data], settings=SETTINGS))
    with pytest.raises(DiskError, match=r"model\.safetensors: does not read back as it was written; .*--resume"):
        train(job, out, Losing())
    assert not (out / "card.md").exists()
    monkeypatch.undo()
    assert train(TranslatorJob(TrainRequest(())), out, watcher := Watcher(), resume=True).finished
    assert any("model.safetensors" in note for note in watcher.notes)
    RunDirectory(out).load_weights()
