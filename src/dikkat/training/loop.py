"""The training loop: micro-batches in, the model that validates best out, exact at every interruption."""

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from dikkat.config import TrainingConfig
from dikkat.nn.layers import set_products
from dikkat.run_directory import Checkpoint, RunDirectory
from dikkat.training.budget import Budget, RunTimer, ValidationPlan
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.distributed.shared_work import SharedWork
from dikkat.training.low_rank import trained_parameters
from dikkat.training.optimizer import Optimizer, learning_rate
from dikkat.training.precision import Precision
from dikkat.training.recovery import MAX_SKIPPED, Recovery
from dikkat.training.state import TrainingState
from dikkat.training.task import Observer, StepReport, Stop, Task, Validation, ValidationStoppedError, Watcher, never
from dikkat_runtime.errors import msg


@contextmanager
def _frozen() -> Iterator[None]:
    """Leave what exists now out of the search for garbage, which would go through it again and again."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Trainer:
    """Learns `task` and keeps the weights that validate best in `run`."""

    def __init__(
        self,
        task: Task,
        run: RunDirectory,
        config: TrainingConfig,
        budget: Budget,
        precision: Precision,
        ranks: Ranks = ONE_PROCESS,
    ) -> None:
        self.task, self.model, self.ranks = task, task.model, ranks
        self.run, self.config, self.budget, self.precision = run, config, budget, precision
        set_products(self.model, precision.products)
        self.parameters = trained_parameters(self.model, config, precision.dtype)
        self.optimizer = Optimizer(self.parameters, config, ranks)
        self.work = SharedWork.of(task, self.parameters, config, ranks, precision)
        self.state = TrainingState()
        self.recovery = Recovery(run, config, self.parameters, self.optimizer, ranks)
        entries = self.parameters.master.numel() + sum(self.optimizer.sizes.values())
        self.observer: Observer | None = None
        """Looks at the model from time to time, on the first rank."""
        self.timer = RunTimer(budget.clock, save_bytes=4 * entries)
        self.plan = ValidationPlan(budget, config.validations)

    @_frozen()
    def train(self, watcher: Watcher, should_stop: Stop = never, started: float | None = None) -> bool:
        """Run to the end of the budget, or of patience; returns False if `should_stop` ended it, with all saved.

        Time counts from `started` (by the clock of the budget), by default from this call. A run whose numbers are not
        finite goes back to its last checkpoint once, at half the learning rate. Raises `DivergedError` when that does
        not help, and `DiskError` when the last save fails.
        """
        self.timer.start(self.state.seconds, started)
        try:
            self._begin(should_stop)
            while not (self._is_over() and (self.state.is_validated or not self.state.updates)):
                if self.ranks.tick(should_stop()):
                    raise ValidationStoppedError
                if not self._must_validate():
                    self._update(watcher)
                with self.timer.overhead():
                    if self.observer is not None and self.observer.is_due(self.state.updates):
                        self.work.observe(self.state.updates, self.observer)
                    if self._must_validate():
                        self._validate(watcher, should_stop)
                    elif self._must_save() and self._check_finite(watcher):
                        self.plan.saved(self.state, self.timer.save_seconds)
                        self._try_to_save(watcher)
            if self.observer is not None and self.state.updates:
                self.work.observe(self.state.updates, self.observer)
        except ValidationStoppedError:
            self._check_finite(watcher)
            self.save()
            return False
        if any(self.ranks.share([float(self.recovery.saver.is_late)])):
            self.save()
        return True

    def launch(self, progress: float) -> tuple[Tensor, int]:
        """Give the device all work of one update over `accumulate` micro-batches, and ask nothing of it.

        Returns the likelihoods of the micro-batches, or of their parts, and the norm of the gradient, one after the
        other, and the number of predictions that they are of; all of all ranks.
        """
        if not self.model.training:
            self.model.train()
        gradient, likelihoods, count = self.work.sum_gradients(self.state, progress)
        config = self.config
        rate = learning_rate(progress, self.state.updates, config.warmup_steps, config.final_learning_rate)
        self.state.position += config.accumulate
        self.state.updates += 1
        norm = self.optimizer.step(gradient, self.state.updates, rate * self.state.rate_scale, count)
        return torch.cat([likelihoods, norm[None]]), count

    def _update(self, watcher: Watcher) -> None:
        """Make one optimizer step and report it; a gradient that is not finite leaves the weights as they were."""
        state, progress = self.state, self.budget.progress(self.state.updates)
        began = self.timer.clock()
        sums, count = self.launch(progress)
        # the only moment of an update that waits for the device
        *likelihoods, norm = sums.tolist()
        self.ranks.tick(False)
        seconds, likelihood, state.seconds = self.timer.add_update(began), sum(likelihoods), self.timer.run_seconds()
        state.add_update(likelihood, count, is_finite=math.isfinite(norm) and math.isfinite(likelihood))
        loss, epoch = likelihood / count, state.position / self.task.batches_per_epoch
        left = self.budget.seconds_left(state.updates)
        watcher.step(StepReport(state.updates, epoch, progress, loss, count, self.task.unit, seconds, left))
        if state.skipped >= MAX_SKIPPED:
            self._recover(watcher, msg("the gradient was not finite for {max_skipped} updates in a row", MAX_SKIPPED))
        # a checkpoint amid bad updates would be nothing to go back to
        is_time = self.budget.progress(self.state.updates) >= self.plan.next_progress(self.state)
        self.state.validation_due = is_time and not self.state.skipped

    def _validate(self, watcher: Watcher, should_stop: Stop) -> None:
        """Look at held-out data, keep the weights if they are the best, write a row of metrics and a checkpoint."""
        self.state.validation_due = True
        began = self.timer.clock()
        if not self._check_finite(watcher):
            return
        weights = self.optimizer.evaluated_weights()
        validation = self.work.validate(self.state.validations, weights, should_stop)
        if not math.isfinite(validation.loss):
            self._recover(watcher, msg("the validation loss was not finite"))
            return
        epoch = round(self.state.position / self.task.batches_per_epoch, 3)
        row = {"step": self.state.updates, "epoch": epoch, "train_loss": self.state.train_loss}
        row |= {"valid_loss": validation.loss, **validation.scores, **validation.recorded}
        row[self.task.unit] = self.state.count
        row["seconds"] = round(self.timer.run_seconds(), 2)
        is_best = self.state.add_validation(validation)
        if self.ranks.is_first:
            if is_best:
                self.recovery.saver.best = (self.state.updates, self.parameters.whole(weights))
            self.recovery.saver.rows.append(row)
        # of several ranks, each has held all of the average for so long
        del weights
        looked = self.timer.clock()
        self.plan.validated(self.state, looked - began + self.timer.save_seconds)
        self._try_to_save(watcher)
        watcher.validation(row, validation, is_best)
        self.timer.save_seconds = self.timer.clock() - looked
        self.budget.validated(self.timer.clock() - began)

    def _begin(self, should_stop: Stop) -> None:
        """Keep what a divergence before the first checkpoint goes back to, and plan the validations."""
        if self.state.updates:
            return
        self.recovery.first_weights = self.parameters.master.clone()
        if not self._is_over():

            def validate_first() -> Validation:
                return self.work.validate(0, self.optimizer.evaluated_weights(), should_stop)

            self.plan.begin(self.state, self.task, validate_first, self.timer.save_seconds)

    def _is_over(self) -> bool:
        """Tell whether nothing is left to learn, of time or of patience."""
        return self.budget.progress(self.state.updates) >= 1.0 or self.state.stale >= self.config.patience

    def _must_validate(self) -> bool:
        return self.state.validation_due or self._is_over()

    def _must_save(self) -> bool:
        return not self.state.skipped and self.timer.is_time_to_save(self.config.save_minutes)

    def save(self) -> None:
        """Write a checkpoint of this very moment, by the first rank. Raises `DiskError`."""
        self.recovery.save(self.state)

    def _try_to_save(self, watcher: Watcher) -> None:
        with self.timer.save():
            self.recovery.try_to_save(self.state, watcher.note)

    def resume(self, checkpoint: Checkpoint, note: Callable[[str], None] = lambda text: None) -> None:
        """Continue from `checkpoint` as if nothing had happened; `note` is told of weights that were not there."""
        self._continue_from(self.recovery.resume(checkpoint, note))

    def adopt(self) -> None:
        """Take over weights and state of the first rank."""
        self._continue_from(self.recovery.adopt(self.state))

    def _recover(self, watcher: Watcher, fault: str) -> None:
        """Go back to the last good state, at half the learning rate. Raises `DivergedError` the second time."""
        self._continue_from(self.recovery.go_back(self.state, fault, watcher.note))

    def _continue_from(self, state: TrainingState) -> None:
        self.state = state
        self.task.limit_validation(state.validation_share)

    def _check_finite(self, watcher: Watcher) -> bool:
        """Go back where a weight is not finite; returns whether all are."""
        if self.optimizer.is_finite():
            return True
        self._recover(watcher, msg("a weight was not finite"))
        return False
