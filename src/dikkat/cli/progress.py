"""Show progress of long work on standard error: a moving bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import deque
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from dikkat_runtime.cli.opening import print_engine
from dikkat_runtime.cli.progress import WorkProgress
from dikkat_runtime.cli.streams import terminal, terminal_writes
from dikkat_runtime.engine.contract import EngineInfo
from dikkat_runtime.errors import DikkatError, joined, msg
from dikkat_runtime.localization import clock_time, translated, visible

if TYPE_CHECKING:
    from dikkat.config import RunConfig
    from dikkat.data.cleaning import CleaningReport
    from dikkat.training.task import StepReport, Validation

_SCORES = {
    "chrf": "chrF",
    "bleu": "BLEU",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "subset_accuracy": msg("subset accuracy"),
    "general": msg("general text"),
    "accuracy": msg("accuracy"),
    "perplexity": msg("perplexity"),
    "bits_per_byte": msg("bits a byte"),
    "temperature": msg("temperature"),
}

PLAIN_EVERY = 15.0
"""Seconds between two lines about training where there is no terminal."""
ANNOUNCED_AFTER = 5.0
"""Seconds of silence that need no message where there is no terminal."""


class TrainProgress:
    """Watch a training run and print its progress."""

    def __init__(self) -> None:
        self.console = Console(file=terminal(), highlight=False, soft_wrap=True, emoji=False)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[status]}"), console=self.console
        )
        self._task: TaskID | None = None
        self._recent: deque[tuple[int, float, float]] = deque(maxlen=30)
        self._last_line = time.monotonic()
        self._pending = ""
        self._preparation = ExitStack()

    def __enter__(self) -> Self:
        # elsewhere than on a terminal the bar would write an empty line when it ends
        if self.console.is_terminal:
            self._bar.start()
        self._preparation.enter_context(Announced(msg("preparing the data")))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._preparation.__exit__(kind, error, trace)
        if self.console.is_terminal:
            self._bar.stop()

    def prepared(self, config: RunConfig, report: CleaningReport | None, facts: dict[str, str]) -> None:
        """Print what was read, what was left out and why, and what will be trained."""
        self._preparation.close()
        if report is not None:
            for note in report.notes:
                self.note(note)
            self.note(msg("read {read:,} {unit}, kept {kept:,}", report.read, msg(report.unit), report.kept))
            for reason, count, example in report.rows():
                self.note(msg("  left out {count:,}: {reason}, such as {example}", count, msg(reason), example))
        for name, fact in facts.items():
            self.note(msg("{name}: {fact}", msg(name), fact))
        if self.console.is_terminal:
            self._task = self._bar.add_task(translated("training"), total=1.0, status="")

    def note(self, text: str) -> None:
        """Print a note in the spoken language."""
        self.console.print(escape(visible(text)))

    def step(self, report: StepReport) -> None:
        self._recent.append((report.count, report.seconds, report.loss))
        count, seconds, losses = (sum(column) for column in zip(*self._recent, strict=True))
        left = "" if report.seconds_left is None else msg(", {time} left", clock_time(report.seconds_left))
        status = translated(
            "pass {epoch:.1f}, update {update:,}, loss {loss:.3f}, {rate:,.0f} {unit}/s{remaining}",
            report.epoch,
            report.updates,
            losses / len(self._recent),
            count / max(seconds, 1e-09),
            msg(report.unit),
            left,
        )
        if self._task is not None:
            self._bar.update(self._task, completed=report.progress, status=status)
            return
        self._pending = f"{report.progress:4.0%}  {status}"
        if time.monotonic() - self._last_line > PLAIN_EVERY:
            self._print_pending()

    def _print_pending(self) -> None:
        self._last_line = time.monotonic()
        print(self._pending, file=sys.stderr, flush=True)

    def validation(self, row: dict[str, float], validation_result: Validation, is_best: bool) -> None:
        """Print the scores, and examples."""
        if self._pending:
            self._print_pending()
        mark = msg(" (best so far)") if is_best else ""
        template = msg(", {name} {score:.4g}")
        scores = joined(
            "", (template.fill(_SCORES.get(name, name), score) for name, score in validation_result.scores.items())
        )
        self.note(
            msg("pass {epoch:.1f}, {time}: validation loss {loss:.3f}{scores}{note}").fill(
                row["epoch"], clock_time(row["seconds"]), row["valid_loss"], scores, mark
            )
        )
        for label, text in validation_result.shown:
            self.note(f"  {translated(label)}  {text}")


class Announced(WorkProgress):
    """Print on standard error what takes a while, how far it is, and what time is left.

    It is printed immediately on a terminal, elsewhere after `ANNOUNCED_AFTER`, so that a mistake that is found early
    stays the one line that a program reads. On a terminal the message is taken back where a mistake of the user ends
    the work and nothing stands below it. No thread waits, since a process with threads cannot be copied into workers.
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        self._before: object = None
        self._writes: int | None = None
        """How often was written to the terminal once the message stood there."""

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._say()
            self._writes = terminal_writes()
        elif threading.current_thread() is threading.main_thread() and not any(signal.getitimer(signal.ITIMER_REAL)):
            self._before = signal.signal(signal.SIGALRM, self._say)
            signal.setitimer(signal.ITIMER_REAL, ANNOUNCED_AFTER)
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._before is not None:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, self._before)  # type: ignore[arg-type]
        elif isinstance(error, DikkatError) and self._writes == terminal_writes():
            self._take_back()

    def _take_back(self) -> None:
        """Erase the message from a terminal, on as many rows as it took."""
        console = Console(file=terminal())
        if console.is_terminal and not console.is_dumb_terminal:
            rows = -(-cell_len(self._line) // console.width)
            print("\x1b[1A\x1b[2K" * rows, end="", file=terminal(), flush=True)

    @property
    def _line(self) -> str:
        return visible(self._what + " …")

    def _say(self, number: int = 0, frame: FrameType | None = None) -> None:
        print(self._line, file=sys.stderr, flush=True)


def print_torch_engine() -> None:
    """Say which engine computes where a model is looked into: only its modules of PyTorch can be."""
    import torch

    print_engine(EngineInfo("torch", "float32", torch.get_num_threads()))
