"""The training loop: micro-batches in, a model that validates best out, exact at every interruption."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dikkat.config import TrainingConfig
from dikkat.errors import DivergedError
from dikkat.native.processor import give_back_freed_memory
from dikkat.nn.eight_bit import eight_bit_products
from dikkat.run_directory import Checkpoint, RunDirectory
from dikkat.training.budget import Budget, learning_rate
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters
from dikkat.training.precision import Precision
from dikkat.training.state import TrainingState, load_state, save_state
from dikkat.training.task import Task, Validation

MOST_SKIPPED = 20
"""So many updates in a row without a finite gradient are a divergence."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """One update, for whoever watches."""

    updates: int
    epoch: float
    progress: float
    loss: float
    """Negative log-likelihood a prediction, in nats."""
    count: int
    """Predictions of this update: target tokens, or labels."""
    unit: str
    """What they are, in the plural."""
    seconds: float
    """Wall time of this update."""
    seconds_left: float | None


class Watcher(Protocol):
    """Sees what happens; knows nothing of how."""

    def step(self, report: StepReport) -> None: ...

    def validation(self, row: dict[str, float], found: Validation, is_best: bool) -> None: ...


class Trainer:
    """Learns `task` and keeps the weights that validate best in `run`."""

    def __init__(
        self,
        task: Task,
        run: RunDirectory,
        config: TrainingConfig,
        budget: Budget,
        precision: Precision,
    ) -> None:
        self.task = task
        self.model = task.model
        self.run = run
        self.config = config
        self.budget = budget
        self.precision = precision
        self.parameters = FlatParameters(self.model, precision.dtype)
        self.optimizer = Optimizer(self.parameters, config)
        # a sum of several micro-batches is of more digits than each of them
        self.total = torch.zeros_like(self.parameters.master) if config.accumulate > 1 else None
        self.state = TrainingState()

    @property
    def epoch(self) -> float:
        """Passes over the data so far."""
        return self.state.position / self.task.batches_per_epoch

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue from `checkpoint` as if nothing had happened."""
        self.state = load_state(checkpoint, self.parameters, self.optimizer)
        self.run.truncate_metrics(self.state.updates)

    def train(
        self, watcher: Watcher, should_stop: Callable[[], bool] = lambda: False, started: float | None = None
    ) -> bool:
        """Run to the end of the budget, or to the end of patience. False if `should_stop` ended it (all saved).

        Time counts from `started` (`time.monotonic`), by default from this call.

        Raises `DivergedError` when the gradient stays without finite values or the validation loss has none,
        `DiskError` when saving fails.
        """
        session_start = time.monotonic() if started is None else started
        before = self.state.seconds
        while self.budget.progress(self.state.updates) < 1.0 and self.state.stale < self.config.patience:
            if should_stop():
                self.save()
                return False
            started = time.monotonic()
            progress = self.budget.progress(self.state.updates)
            loss, count = self._update(progress)
            now = time.monotonic()
            self.state.seconds = before + now - session_start
            watcher.step(self._report(progress, loss, count, now - started))
            if self.budget.progress(self.state.updates) >= (self.state.validations + 1) / self.config.validations:
                self._validate(watcher, before + time.monotonic() - session_start)
                self.budget.validated(time.monotonic() - now)
        if self.state.loss_count:
            self._validate(watcher, before + time.monotonic() - session_start)
        return True

    def save(self) -> None:
        """Write a checkpoint of this very moment."""
        give_back_freed_memory()
        save_state(self.run, self.state, self.parameters, self.optimizer, self.config.keep_checkpoints)

    def _update(self, progress: float) -> tuple[float, int]:
        """One optimizer step over `accumulate` micro-batches; returns loss a prediction and their number."""
        found, count = self.launch(progress)
        # the only moment of an update that waits for the device
        *likelihoods, norm = found.tolist()
        self._settle(norm)
        likelihood = sum(likelihoods)
        self.state.count += count
        self.state.loss_sum += likelihood
        self.state.loss_count += count
        return likelihood / count, count

    def launch(self, progress: float) -> tuple[Tensor, int]:
        """Give the device all work of one update, and ask nothing of it.

        Returns the likelihoods of the micro-batches and the norm of the gradient, one after the other, and how many
        predictions they are of.
        """
        if not self.model.training:
            self.model.train()
        gradient, likelihoods, count = self.parameters.gradient if self.total is None else self.total, [], 0
        for micro_step in range(self.config.accumulate):
            seed_dropout(self.config.seed, self.state.updates, micro_step)
            with self.parameters.gathered() as room:
                with eight_bit_products(room) if self.precision.eight_bit else nullcontext():
                    part = self.task.loss(self.state.position, progress)
                part.objective.backward()
            if self.total is not None:
                # the first is copied, which spares a pass of zeros
                (self.total.copy_ if micro_step == 0 else self.total.add_)(self.parameters.gradient)
            likelihoods.append(part.likelihood)
            count += part.predictions
            self.state.position += 1
        rate = learning_rate(progress, self.state.updates, self.config.warmup_steps, self.config.final_learning_rate)
        self.state.updates += 1
        norm = self.optimizer.step(gradient, self.state.updates, rate, count)
        return torch.stack([*likelihoods, norm]), count

    def _report(self, progress: float, loss: float, count: int, seconds: float) -> StepReport:
        updates = self.state.updates
        left = self.budget.seconds_left(updates)
        return StepReport(updates, self.epoch, progress, loss, count, self.task.unit, seconds, left)

    def _settle(self, norm: float) -> None:
        """What follows from the norm of the gradient of an update."""
        if not math.isfinite(norm):
            self.state.skipped += 1
            if self.state.skipped >= MOST_SKIPPED:
                raise DivergedError(
                    f"{self.run.path}: the gradient was not finite for {MOST_SKIPPED} updates in a row, the last"
                    f" update {self.state.updates}; set a lower training.learning_rate"
                )
            return
        self.state.skipped = 0

    def _validate(self, watcher: Watcher, seconds: float) -> None:
        state, average = self.state, self.optimizer.average
        weights = self.parameters.master if average is None else average
        self.model.eval()
        with self.parameters.lent(weights, self.precision.validation):
            found = self.task.validate(state.validations)
        self.model.train()
        if not math.isfinite(found.loss):
            raise DivergedError(
                f"{self.run.path}: the validation loss is not finite at update {state.updates};"
                " set a lower training.learning_rate"
            )
        state.validations += 1
        is_best = state.best_score is None or found.score > state.best_score
        if is_best:
            state.best_score = found.score
        state.stale = 0 if is_best else state.stale + 1
        row = {
            "step": state.updates,
            "epoch": round(self.epoch, 3),
            "train_loss": state.loss_sum / max(1, state.loss_count),
            "valid_loss": found.loss,
            **found.scores,
            self.task.unit: state.count,
            "seconds": round(seconds, 2),
        }
        state.loss_sum, state.loss_count = 0.0, 0
        if is_best:
            self.run.save_weights(self.parameters.named(weights), {"step": str(state.updates)})
        self.run.append_metrics(row)
        self.save()
        watcher.validation(row, found, is_best)


def seed_dropout(seed: int, update: int, micro_step: int, rank: int = 0) -> None:
    """Seed PyTorch's generator as a pure function of the position, so that dropout needs no saved state."""
    digest = hashlib.blake2b(f"{seed} {update} {micro_step} {rank}".encode(), digest_size=8).digest()
    torch.manual_seed(int.from_bytes(digest, "little") >> 1)
