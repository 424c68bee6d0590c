"""The training loop: micro-batches in, the model that validates best out, exact at every interruption."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dikkat.config import TrainingConfig
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.linear import set_products
from dikkat.run_directory import Checkpoint, RunDirectory
from dikkat.training.budget import Budget, TimeBudget
from dikkat.training.distributed.collecting import collecting
from dikkat.training.distributed.exchanged_sum import take
from dikkat.training.distributed.ranks import ONE_PROCESS, EarlyPart, Ranks, by_first
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters
from dikkat.training.precision import Precision
from dikkat.training.recovery import MAX_SKIPPED, Recovery
from dikkat.training.saving import Saver
from dikkat.training.state import TrainingState
from dikkat.training.task import BatchLoss, Part, Stop, Task, Validation, ValidationStoppedError, never
from dikkat.training.watching import StepReport, Watcher
from dikkat_runtime.messages import msg

OVERHEAD_SHARE = 0.1
"""Share of the time of a run that validations and saves may take."""
MIN_COUNT = 3
"""Rather than fewer validations than these, each looks at less of the held-out data."""
MIN_SHARE = 0.1
"""But never at less than this."""
PROBE_SHARE = 0.03
"""Share of the held-out data that the first measurement looks at."""


class Plan(NamedTuple):
    """The validations of a run with a time limit."""

    share: float
    """Of the held-out data."""
    validations: int
    """Their number, the one at the end among them."""


def plan_validations(allowed: float, validation: float, save: float, wanted: int) -> Plan:
    """Plan what fits in `allowed` seconds, where a full validation takes `validation` and a save `save` seconds.

    There is always one validation: the last.
    """
    fitting = allowed / max(validation + save, 1e-9)
    if fitting >= min(MIN_COUNT, wanted):
        return Plan(1.0, min(wanted, int(fitting)))
    share = min(1.0, max(MIN_SHARE, (allowed / min(MIN_COUNT, wanted) - save) / max(validation, 1e-9)))
    return Plan(share, max(1, min(wanted, int(allowed / (share * validation + save) + 1e-6))))


@dataclass
class ValidationPlan:
    """Decides when a run validates next; one with a time limit, by what validations and saves have cost so far."""

    budget: Budget
    wanted: int
    """Validations that the user asked for."""
    time_budget: TimeBudget | None = None
    """The budget, where it is one of time."""

    @classmethod
    def of(cls, budget: Budget, wanted: int) -> ValidationPlan:
        """Plan so many validations within a budget."""
        return cls(budget, wanted, budget if isinstance(budget, TimeBudget) else None)

    @property
    def allowed(self) -> float:
        """Seconds of the whole run that validations and saves may take."""
        return OVERHEAD_SHARE * self.time_budget.seconds if self.time_budget else math.inf

    def begin(self, state: TrainingState, task: Task, look: Callable[[], object], save_seconds: float) -> None:
        """Time a small validation, `look`, before the first update of a run with a time limit, and plan by it."""
        if self.time_budget is None:
            return
        started = self.budget.clock()
        share = task.limit_validation(PROBE_SHARE)
        look()
        seconds = self.budget.clock() - started
        plan = plan_validations(self.allowed - seconds, seconds / share, save_seconds, self.wanted)
        state.validation_share, state.overhead_seconds = plan.share, seconds
        state.next_validation = 1.0 / plan.validations
        task.limit_validation(state.validation_share)

    def next_progress(self, state: TrainingState) -> float:
        """Return the progress at which the next validation comes."""
        if self.time_budget is not None and state.next_validation:
            return state.next_validation
        return (state.validations + 1) / self.wanted

    def validated(self, state: TrainingState, seconds: float) -> None:
        """Place the next validation, after one that took `seconds` with its save."""
        if self.time_budget is None:
            return
        state.overhead_seconds += seconds
        progress = self.budget.progress(state.updates)
        # one more comes at the end whatever happens
        fitting = int((self.allowed - state.overhead_seconds - seconds) / max(seconds, 1e-9))
        between = max(0, min(self.wanted - state.validations - 1, fitting))
        state.next_validation = progress + (1.0 - progress) / (between + 1)

    def saved(self, state: TrainingState, seconds: float) -> None:
        """Count a save between two validations."""
        if self.time_budget is not None:
            state.overhead_seconds += seconds


BYTES_PER_SECOND = 2e8
"""Speed assumed of a disk until a save was measured."""
SAVING_SHARE = 0.05
"""Share of the time, at most, that saves between validations take."""


class RunTimer:
    """Measures a run by `clock`, in seconds; `save_bytes` tell how long a save may take until one was measured."""

    def __init__(self, clock: Callable[[], float], save_bytes: int) -> None:
        self.clock = clock
        self.save_seconds = save_bytes / BYTES_PER_SECOND
        """Time of the last save."""
        self._last_save = clock()
        self._offset = -self._last_save
        self._spent = self._overhead = 0.0

    def start(self, seconds_before: float, started: float | None) -> None:
        """Begin a session, at `started` or now, of a run that took `seconds_before` in earlier ones."""
        self._last_save = self.clock()
        self._offset = seconds_before - (self._last_save if started is None else started)

    def run_seconds(self) -> float:
        """Return the seconds of the run so far, earlier sessions included."""
        return self._offset + self.clock()

    def add_update(self, began: float) -> float:
        """Count an update that began then, and return its seconds."""
        seconds = self.clock() - began
        self._spent += seconds
        return seconds

    @contextmanager
    def overhead(self) -> Iterator[None]:
        """Count the body as a validation or a save."""
        began = self.clock()
        yield
        seconds = self.clock() - began
        self._spent += seconds
        self._overhead += seconds

    @contextmanager
    def save(self) -> Iterator[None]:
        """Measure the body as a save."""
        began = self.clock()
        yield
        self._last_save = self.clock()
        self.save_seconds = self._last_save - began

    def is_time_to_save(self, minutes: float) -> bool:
        """Tell whether so many minutes passed since the last save, or more where saves would take too much time."""
        return self.clock() - self._last_save >= max(60.0 * minutes, self.save_seconds / SAVING_SHARE)

    @property
    def overhead_share(self) -> float:
        """Share of the time of training that went to validations and saves."""
        return self._overhead / max(self._spent, 1e-9)


class EarlyGradients:
    """Hands over the gradients of a decoder in the middle of a backward pass; `spans` are theirs in the flat vector.

    Those of embeddings that the encoder shares are not among them.
    """

    def __init__(self, model: EncoderDecoder, parameters: FlatParameters) -> None:
        self._model, self._parameters = model, parameters
        self._indices = parameters.indices_of(model.decoder_parameters())
        self.spans = parameters.stretches(self._indices)

    @contextmanager
    def handed(self, hand_over: Callable[[Tensor], None], sum_before: Tensor | None) -> Iterator[None]:
        """Hand over the early gradients (E,), in float32, of one backward pass in the body, as soon as they are there.

        They are added to their entries in `sum_before` (N,), where there is one. Nothing is handed over in a body
        without a backward pass.
        """

        def collect() -> None:
            self._parameters.collect_early(self._indices)
            entries = take(self._parameters.gradient, self.spans)
            hand_over(entries.float() if sum_before is None else take(sum_before, self.spans).add_(entries))

        with self._model.watched_memory(collect):
            yield


def early_gradients(model: nn.Module, parameters: FlatParameters) -> EarlyGradients | None:
    """Return the early gradients of a translator; None for any other model, where all end together."""
    return EarlyGradients(model, parameters) if isinstance(model, EncoderDecoder) else None


def seed_dropout(seed: int, update: int, micro_step: int, part: int = 0) -> None:
    """Seed PyTorch's generator as a pure function of the position, so that dropout needs no saved state."""
    digest = hashlib.blake2b(f"{seed} {update} {micro_step} {part}".encode(), digest_size=8).digest()
    torch.manual_seed(int.from_bytes(digest, "little") >> 1)


def learning_rate(progress: float, updates: int, warmup_updates: int, final: float) -> float:
    """Return the share of the peak rate: a linear rise, then a linear fall to `final` at the end of the run.

    The rise ends after `warmup_updates` or a tenth of the run, whichever comes first. `progress` is the share of the
    run that is done, `updates` its number of updates so far.
    """
    rise = 1.0 if warmup_updates == 0 else max((updates + 1) / warmup_updates, progress / 0.1)
    return min(1.0, rise) * (final + (1.0 - final) * (1.0 - progress))


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
        task.share_validation(ranks)
        set_products(self.model, precision.products)
        self.parameters = FlatParameters(self.model, precision.dtype)
        self.optimizer = Optimizer(self.parameters, config, ranks)
        self.early = early_gradients(self.model, self.parameters) if ranks.count > 1 else None
        # a sum of several micro-batches has more digits than each of them
        self.total = torch.zeros_like(self.parameters.master) if config.accumulate > 1 else None
        self.state = TrainingState()
        self.saver = Saver(run, config.keep_checkpoints)
        self.recovery = Recovery(run, config, self.parameters, self.optimizer)
        entries = self.parameters.master.numel() + sum(self.optimizer.sizes.values())
        self.timer = RunTimer(budget.clock, save_bytes=4 * entries)
        self.plan = ValidationPlan.of(budget, config.validations)

    def train(self, watcher: Watcher, should_stop: Stop = never, started: float | None = None) -> bool:
        """Run to the end of the budget, or of patience; returns False if `should_stop` ended it, with all saved.

        Time counts from `started` (by the clock of the budget), by default from this call. A run whose numbers are not
        finite goes back to its last checkpoint once, at half the learning rate. Raises `DivergedError` when that does
        not help, and `DiskError` when the last save fails.
        """
        self.timer.start(self.state.seconds, started)
        try:
            self._begin(should_stop)
            while not self._is_complete():
                if self.ranks.tick(should_stop()):
                    raise ValidationStoppedError
                if not self._must_validate():
                    self._update(watcher)
                with self.timer.overhead():
                    if self._must_validate():
                        self._validate(watcher, should_stop)
                    elif self._must_save() and self._check_finite(watcher):
                        self.plan.saved(self.state, self.timer.save_seconds)
                        self._try_to_save(watcher)
        except ValidationStoppedError:
            self._check_finite(watcher)
            self.save()
            return False
        if any(self.ranks.share([float(self.saver.is_behind)])):
            self.save()
        return True

    def launch(self, progress: float) -> tuple[Tensor, int]:
        """Give the device all work of one update over `accumulate` micro-batches, and ask nothing of it.

        Returns the likelihoods of the micro-batches, or of their parts, and the norm of the gradient, one after the
        other, and the number of predictions that they are of; all of all ranks.
        """
        if not self.model.training:
            self.model.train()
        losses: list[BatchLoss] = []
        config, parts = self.config, self.ranks.parts(self.config.micro_batches)
        compute = partial(self._gradient, progress, losses)
        early = None if self.early is None else EarlyPart(self.early.spans, compute)
        gradient = self.ranks.sum_parts(config.micro_batches, compute, early)
        likelihoods = torch.stack([loss.likelihood for loss in losses])
        total = config.micro_batches * config.accumulate
        likelihoods = self.ranks.gather(likelihoods, parts.start * config.accumulate, total)
        count = self.ranks.sum_count(sum(loss.predictions for loss in losses))
        rate = learning_rate(progress, self.state.updates, config.warmup_steps, config.final_learning_rate)
        self.state.position += config.accumulate
        self.state.updates += 1
        norm = self.optimizer.step(gradient, self.state.updates, rate * self.state.rate_scale, count)
        return torch.cat([likelihoods, norm[None]]), count

    def _gradient(
        self, progress: float, losses: list[BatchLoss], part: int, hand_over: Callable[[Tensor], None] | None = None
    ) -> Tensor:
        """Add up the gradients of one part of each micro-batch of an update, and append their losses to `losses`.

        `hand_over` is given the early ones of the sum as soon as the last backward pass has them. The vector (N,) holds
        the gradient of the next part after the next call.
        """
        for micro_step in range(self.config.accumulate):
            seed_dropout(self.config.seed, self.state.updates, micro_step, part)
            with self.parameters.collect_gradients(), self._on_gradients_ready(hand_over, micro_step):
                share = Part(part, self.config.micro_batches)
                loss = self.task.loss(self.state.position + micro_step, progress, share)
                if loss.predictions:
                    loss.objective.backward()
            if self.total is not None:
                # the first is copied, which spares a pass of zeros
                (self.total.copy_ if micro_step == 0 else self.total.add_)(self.parameters.gradient)
            losses.append(BatchLoss(loss.objective.detach(), loss.likelihood, loss.predictions))
        return self.parameters.gradient if self.total is None else self.total

    def _on_gradients_ready(
        self, hand_over: Callable[[Tensor], None] | None, micro_step: int
    ) -> AbstractContextManager[None]:
        if self.early is None or hand_over is None or micro_step + 1 < self.config.accumulate:
            return nullcontext()
        return self.early.handed(hand_over, self.total)

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
            self._go_back(
                watcher, msg("the gradient was not finite for {max_skipped} updates in a row").fill(MAX_SKIPPED)
            )
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
        validation = self._look(self.state.validations, weights, should_stop)
        if not math.isfinite(validation.loss):
            self._go_back(watcher, msg("the validation loss was not finite"))
            return
        epoch = round(self.state.position / self.task.batches_per_epoch, 3)
        row = {"step": self.state.updates, "epoch": epoch, "train_loss": self.state.train_loss}
        row |= {"valid_loss": validation.loss, **validation.scores, **validation.recorded}
        row[self.task.unit] = self.state.count
        row["seconds"] = round(self.timer.run_seconds(), 2)
        is_best = self.state.add_validation(validation)
        if self.ranks.is_first:
            if is_best:
                self.saver.keep_best(self.state.updates, self.parameters.named(weights))
            self.saver.add_row(row)
        # of several ranks, each has held all of the average for so long
        del weights
        looked = self.timer.clock()
        self.plan.validated(self.state, looked - began + self.timer.save_seconds)
        self._try_to_save(watcher)
        watcher.validation(row, validation, is_best)
        self.timer.save_seconds = self.timer.clock() - looked
        self.budget.validated(self.timer.clock() - began)

    def _look(self, number: int, weights: Tensor, should_stop: Stop) -> Validation:
        """Validate `weights` (N,), in evaluation mode, by all ranks; loss and score are those of the first.

        Raises `ValidationStoppedError` on all ranks.
        """
        # the first rank may have more to show of it than the others
        with self.ranks.leading() if self.ranks.is_first else nullcontext():
            validation = self._validation(number, weights, should_stop)
        if not self.ranks.is_first:
            self.ranks.await_first()
        numbers = (math.nan, math.nan, 1.0, 0.0)
        if validation is not None:
            numbers = (validation.loss, validation.score, 0.0, float(validation.is_meaningful))
        loss, score, is_stopped, is_meaningful = self.ranks.share(numbers)
        self.ranks.tick(False)
        if is_stopped:
            raise ValidationStoppedError
        own = Validation(loss, {}, score, ()) if validation is None else validation
        return replace(own, loss=loss, score=score, is_meaningful=bool(is_meaningful))

    def _validation(self, number: int, weights: Tensor, should_stop: Stop) -> Validation | None:
        """Do this rank's share of a validation; returns None where any of them was asked to stop."""
        self.model.eval()
        try:
            with self.parameters.swapped(weights, self.precision.validation):
                return self.task.validate(number, should_stop)
        except ValidationStoppedError:
            return None
        finally:
            self.model.train()

    def _begin(self, should_stop: Stop) -> None:
        """Keep what a divergence before the first checkpoint goes back to, and plan the validations."""
        if self.state.updates:
            return
        self.recovery.remember_first_weights()
        if not self._is_over():

            def look() -> Validation:
                return self._look(0, self.optimizer.evaluated_weights(), should_stop)

            self.plan.begin(self.state, self.task, look, self.timer.save_seconds)

    def _is_over(self) -> bool:
        """Tell whether nothing is left to learn, of time or of patience."""
        return self.budget.progress(self.state.updates) >= 1.0 or self.state.stale >= self.config.patience

    def _must_validate(self) -> bool:
        return self.state.validation_due or self._is_over()

    def _must_save(self) -> bool:
        return not self.state.skipped and self.timer.is_time_to_save(self.config.save_minutes)

    def _is_complete(self) -> bool:
        """Tell whether the end was validated as well."""
        return self._is_over() and (self.state.is_validated or not self.state.updates)

    def save(self) -> None:
        """Write a checkpoint of this very moment, by the first rank. Raises `DiskError`."""
        with collecting(self.run, self.optimizer, self.ranks, self.state.updates) as collected:
            by_first(self.ranks, lambda: self.saver.save(self.state, self.parameters, self.optimizer, collected))

    def resume(self, checkpoint: Checkpoint, note: Callable[[str], None] = lambda text: None) -> None:
        """Continue from `checkpoint` as if nothing had happened; `note` is told of weights that were not there."""
        self.state = self.recovery.resume(checkpoint, note)
        self.task.limit_validation(self.state.validation_share)

    def adopt(self) -> None:
        """Take over weights and state of the first rank."""
        self.state = TrainingState(**self.ranks.adopt(asdict(self.state), [self.parameters.master]))
        self.optimizer.adopt()
        self.parameters.refresh()
        self.task.limit_validation(self.state.validation_share)

    def _try_to_save(self, watcher: Watcher) -> None:
        vectors = self.parameters, self.optimizer
        with self.timer.save(), collecting(self.run, self.optimizer, self.ranks, self.state.updates) as collected:
            by_first(self.ranks, lambda: self.saver.try_to_save(self.state, *vectors, watcher.note, collected))
            self.ranks.tick(False)

    def _check_finite(self, watcher: Watcher) -> bool:
        """Go back where a weight is not finite; returns whether all are."""
        if self.optimizer.is_finite():
            return True
        self._go_back(watcher, msg("a weight was not finite"))
        return False

    def _go_back(self, watcher: Watcher, fault: str) -> None:
        state = by_first(self.ranks, lambda: self.recovery.go_back(self.state, fault, watcher.note))
        self.state = self.state if state is None else state
        self.saver.forget()
        self.adopt()
