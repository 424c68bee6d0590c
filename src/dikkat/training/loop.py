"""The training loop: micro-batches in, a model that validates best out, exact at every interruption."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor

from dikkat.config import TrainingConfig
from dikkat.nn.eight_bit import eight_bit_products
from dikkat.run_directory import Checkpoint, RunDirectory
from dikkat.training.best_weights import restore_best
from dikkat.training.budget import Budget, TimeBudget, learning_rate
from dikkat.training.optimizer import Optimizer
from dikkat.training.overheads import BYTES_PER_SECOND, Overheads
from dikkat.training.parameters import FlatParameters
from dikkat.training.precision import Precision
from dikkat.training.saving import Saver
from dikkat.training.state import TrainingState, load_state
from dikkat.training.task import Stop, Task, Validation, ValidationStoppedError, never
from dikkat.training.watching import StepReport, Watcher
from dikkat_runtime.errors import DivergedError

MOST_SKIPPED = 20
"""So many updates in a row without a finite gradient are a divergence."""
SAVING_SHARE = 0.05
"""Share of the time that saves between validations may take."""


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
        self.clock = budget.clock
        self.precision = precision
        self.parameters = FlatParameters(self.model, precision.dtype)
        self.optimizer = Optimizer(self.parameters, config)
        # a sum of several micro-batches is of more digits than each of them
        self.total = torch.zeros_like(self.parameters.master) if config.accumulate > 1 else None
        self.state = TrainingState()
        self.saver = Saver(run, config.keep_checkpoints)
        self._overheads = Overheads(budget, config.validations) if isinstance(budget, TimeBudget) else None
        self._save_bytes = 4 * sum(
            vector.numel() for vector in (self.parameters.master, *self.optimizer.state().values())
        )
        self._save_seconds = self._save_bytes / BYTES_PER_SECOND
        self._last_save = self.clock()
        self._offset = -self._last_save
        self._first_weights: Tensor | None = None
        self._spent = self._overhead = 0.0

    @property
    def epoch(self) -> float:
        """Passes over the data so far."""
        return self.state.position / self.task.batches_per_epoch

    @property
    def best_weights(self) -> Tensor:
        """The weights that are validated now: their average, or the last ones."""
        return self.parameters.master if self.optimizer.average is None else self.optimizer.average

    @property
    def overhead_share(self) -> float:
        """Share of the time of `train` that went to validations and saves."""
        return self._overhead / max(self._spent, 1e-9)

    def resume(self, checkpoint: Checkpoint, note: Callable[[str], None] = lambda text: None) -> None:
        """Continue from `checkpoint` as if nothing had happened; `note` is told of weights that were not there."""
        self.state = load_state(checkpoint, self.parameters, self.optimizer)
        self.run.truncate_metrics(self.state.updates)
        if told := restore_best(self.run, self.state, self.parameters, self.optimizer):
            note(told)
        self.task.limit_validation(self.state.validation_share)

    def train(self, watcher: Watcher, should_stop: Stop = never, started: float | None = None) -> bool:
        """Run to the end of the budget, or to the end of patience. False if `should_stop` ended it (all saved).

        Time counts from `started` (by the clock of the budget), by default from this call. A run whose numbers are not
        finite any more goes back to its last checkpoint once, at half the learning rate.

        Raises `DivergedError` when that does not help, `DiskError` when the last save fails.
        """
        self._last_save = self.clock()
        self._offset = self.state.seconds - (self._last_save if started is None else started)
        try:
            self._begin(should_stop)
            while not self._is_complete():
                if should_stop():
                    self._stop(watcher)
                    return False
                if not (self.state.validation_due or self._is_over()):
                    self._step(watcher)
                began = self.clock()
                if self.state.validation_due or self._is_over():
                    self._validate(watcher, should_stop)
                elif self._is_time_to_save():
                    self._save_on_the_way(watcher)
                self._overhead += self.clock() - began
                self._spent += self.clock() - began
        except ValidationStoppedError:
            self._stop(watcher)
            return False
        if self.saver.is_behind:
            self.save()
        return True

    def save(self) -> None:
        """Write a checkpoint of this very moment. Raises `DiskError`."""
        self.saver.save(self.state, self.parameters, self.optimizer)

    def _begin(self, should_stop: Stop) -> None:
        """Keep what a divergence before the first checkpoint goes back to, and plan the validations."""
        if self.state.updates:
            return
        self._first_weights = self.parameters.master.clone()
        if self._overheads is not None and not self._is_over():

            def validate(share: float) -> float:
                reached = self.task.limit_validation(share)
                self._look(self.best_weights, 0, should_stop)
                return reached

            self._overheads.begin(self.state, validate, self._save_bytes)
            self.task.limit_validation(self.state.validation_share)

    def _is_over(self) -> bool:
        """Whether nothing is left to learn, of time or of patience."""
        return self.budget.progress(self.state.updates) >= 1.0 or self.state.stale >= self.config.patience

    def _is_complete(self) -> bool:
        """Whether the end was validated as well."""
        state = self.state
        is_validated = not (state.loss_count or state.validation_due or state.best_score is None)
        return self._is_over() and (is_validated or not state.updates)

    def _step(self, watcher: Watcher) -> None:
        started = self.clock()
        progress = self.budget.progress(self.state.updates)
        loss, count = self._update(progress)
        now = self.clock()
        self._spent += now - started
        self.state.seconds = self._offset + now
        watcher.step(self._report(progress, loss, count, now - started))
        if self.state.skipped >= MOST_SKIPPED:
            self._go_back(watcher, f"the gradient was not finite for {MOST_SKIPPED} updates in a row")
        # a checkpoint in the midst of bad updates would be nothing to go back to
        is_time = self.budget.progress(self.state.updates) >= self._next_validation()
        self.state.validation_due = is_time and not self.state.skipped

    def _next_validation(self) -> float:
        """Progress at which it comes."""
        if self._overheads is not None and self.state.next_validation:
            return self.state.next_validation
        return (self.state.validations + 1) / self.config.validations

    def _update(self, progress: float) -> tuple[float, int]:
        """One optimizer step over `accumulate` micro-batches; returns loss a prediction and their number."""
        found, count = self.launch(progress)
        # the only moment of an update that waits for the device
        *likelihoods, norm = found.tolist()
        likelihood = sum(likelihoods)
        self.state.count += count
        if math.isfinite(norm) and math.isfinite(likelihood):
            self.state.skipped = 0
            self.state.loss_sum += likelihood
            self.state.loss_count += count
        else:
            self.state.skipped += 1
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
        rate *= self.state.rate_scale
        self.state.updates += 1
        norm = self.optimizer.step(gradient, self.state.updates, rate, count)
        return torch.stack([*likelihoods, norm]), count

    def _report(self, progress: float, loss: float, count: int, seconds: float) -> StepReport:
        updates = self.state.updates
        left = self.budget.seconds_left(updates)
        return StepReport(updates, self.epoch, progress, loss, count, self.task.unit, seconds, left)

    def _validate(self, watcher: Watcher, should_stop: Stop) -> None:
        state, weights = self.state, self.best_weights
        state.validation_due = True
        began = self.clock()
        if not self._is_finite():
            self._go_back(watcher, "a weight was not finite")
            return
        found = self._look(weights, state.validations, should_stop)
        if not math.isfinite(found.loss):
            self._go_back(watcher, "the validation loss was not finite")
            return
        state.validation_due = False
        state.validations += 1
        is_best = state.best_score is None or found.score > state.best_score
        if is_best:
            state.best_score, state.best_update = found.score, state.updates
            self.saver.keep_best(state.updates, self.parameters.named(weights))
        state.stale = 0 if is_best else state.stale + 1
        row = {
            "step": state.updates,
            "epoch": round(self.epoch, 3),
            "train_loss": state.loss_sum / max(1, state.loss_count),
            "valid_loss": found.loss,
            **found.scores,
            self.task.unit: state.count,
            "seconds": round(self._offset + self.clock(), 2),
        }
        state.loss_sum, state.loss_count = 0.0, 0
        self.saver.add_row(row)
        looked = self.clock()
        if self._overheads is not None:
            self._overheads.validated(state, looked - began + self._save_seconds)
        self._try_to_save(watcher)
        watcher.validation(row, found, is_best)
        self._save_seconds = self.clock() - looked
        self.budget.validated(self.clock() - began)

    def _look(self, weights: Tensor, number: int, should_stop: Stop) -> Validation:
        """What the task finds of a model with `weights`."""
        self.model.eval()
        try:
            with self.parameters.lent(weights, self.precision.validation):
                return self.task.validate(number, should_stop)
        finally:
            self.model.train()

    def _is_time_to_save(self) -> bool:
        between = max(60.0 * self.config.save_minutes, self._save_seconds / SAVING_SHARE)
        return not self.state.skipped and self.clock() - self._last_save >= between

    def _save_on_the_way(self, watcher: Watcher) -> None:
        if not self._is_finite():
            self._go_back(watcher, "a weight was not finite")
            return
        if self._overheads is not None:
            self.state.overhead_seconds += self._save_seconds
        self._try_to_save(watcher)

    def _try_to_save(self, watcher: Watcher) -> None:
        began = self.clock()
        self.saver.try_to_save(self.state, self.parameters, self.optimizer, watcher.note)
        self._last_save = self.clock()
        self._save_seconds = self._last_save - began

    def _stop(self, watcher: Watcher) -> None:
        if not self._is_finite():
            self._go_back(watcher, "a weight was not finite")
        self.save()

    def _is_finite(self) -> bool:
        return bool(self.parameters.master.isfinite().all()) and bool(self.best_weights.isfinite().all())

    def _go_back(self, watcher: Watcher, fault: str) -> None:
        """Take up the last checkpoint, or the first weights, at half the learning rate.

        Raises `DivergedError` when that was done before.
        """
        failed = self.state
        if failed.rate_scale < 1.0:
            raise DivergedError(self._what_diverged(f"{fault}, at half the learning rate as before"))
        self.saver.forget()
        if (checkpoint := self.run.latest_checkpoint()) is not None:
            self.resume(checkpoint, watcher.note)
        elif self._first_weights is not None:
            self._start_anew(self._first_weights)
        else:
            raise DivergedError(self._what_diverged(fault))
        self.state.rate_scale, self.state.skipped = failed.rate_scale / 2, 0
        watcher.note(
            f"{fault} at update {failed.updates}; going back to update {self.state.updates}, at half the learning rate"
        )

    def _start_anew(self, weights: Tensor) -> None:
        self.parameters.master.copy_(weights)
        self.parameters.refresh()
        for name, vector in self.optimizer.state().items():
            vector.copy_(weights) if name == "average" else vector.zero_()
        first, self.state = self.state, TrainingState(conditions=self.state.conditions)
        self.state.validation_share, self.state.next_validation = first.validation_share, first.next_validation

    def _what_diverged(self, fault: str) -> str:
        kept = "no good state was saved"
        if (checkpoint := self.run.latest_checkpoint()) is not None:
            kept = f"what was good up to update {checkpoint.step} is saved"
        names = ["learning_rate", *(["matrix_learning_rate"] if self.config.optimizer == "muon" else [])]
        usual = TrainingConfig()
        lower = {name: min(getattr(self.config, name) / 10, getattr(usual, name)) for name in names}
        options = " ".join(f"--set training.{name}={rate:g}" for name, rate in lower.items())
        return (
            f"{self.run.path}: {fault}, at update {self.state.updates}; {kept}; set a lower training.learning_rate and"
            f" begin anew in another --out, as with {options}"
        )


def seed_dropout(seed: int, update: int, micro_step: int, rank: int = 0) -> None:
    """Seed PyTorch's generator as a pure function of the position, so that dropout needs no saved state."""
    digest = hashlib.blake2b(f"{seed} {update} {micro_step} {rank}".encode(), digest_size=8).digest()
    torch.manual_seed(int.from_bytes(digest, "little") >> 1)
