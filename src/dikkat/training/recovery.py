"""Back to a good state: from a checkpoint, or, after a divergence, to the last one at half the learning rate."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dikkat.config import TrainingConfig
from dikkat.run_directory import Checkpoint, RunDirectory
from dikkat.training.best_weights import restore_best
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters
from dikkat.training.state import TrainingState, load_state
from dikkat_runtime.errors import DivergedError

MAX_SKIPPED = 20
"""Updates in a row without a finite gradient that are a divergence."""


class Recovery:
    """Puts parameters and optimizer of a run back to what they were."""

    def __init__(
        self, run: RunDirectory, config: TrainingConfig, parameters: FlatParameters, optimizer: Optimizer
    ) -> None:
        self._run, self._config = run, config
        self._parameters, self._optimizer = parameters, optimizer
        self._first_weights: Tensor | None = None

    def remember_first_weights(self) -> None:
        """Keep the weights of now for a divergence before the first checkpoint."""
        self._first_weights = self._parameters.master.clone()

    def resume(self, checkpoint: Checkpoint, note: Callable[[str], None]) -> TrainingState:
        """Load a checkpoint and return its state; `note` is told of best weights that were not there."""
        state = load_state(checkpoint, self._parameters, self._optimizer)
        self._run.truncate_metrics(state.updates)
        if lost := restore_best(self._run, state, self._parameters, self._optimizer):
            note(lost)
        return state

    def go_back(self, failed: TrainingState, fault: str, note: Callable[[str], None]) -> TrainingState:
        """Return the state of the last checkpoint, or of the first weights, at half the learning rate of `failed`.

        Raises `DivergedError` when that was done before, or there is nothing to go back to.
        """
        if failed.rate_scale < 1.0:
            raise DivergedError(self._message(failed, f"{fault}, at half the learning rate as before"))
        if (checkpoint := self._run.latest_checkpoint()) is not None:
            state = self.resume(checkpoint, note)
        elif self._first_weights is not None:
            state = self._start_anew(failed, self._first_weights)
        else:
            raise DivergedError(self._message(failed, fault))
        state.rate_scale, state.skipped = failed.rate_scale / 2, 0
        note(f"{fault} at update {failed.updates}; going back to update {state.updates}, at half the learning rate")
        return state

    def _start_anew(self, failed: TrainingState, weights: Tensor) -> TrainingState:
        self._parameters.master.copy_(weights)
        self._parameters.refresh()
        sizes = self._optimizer.sizes
        self._optimizer.load_state(
            {name: weights if name == "average" else torch.zeros(size) for name, size in sizes.items()}
        )
        state = TrainingState(conditions=failed.conditions)
        state.validation_share, state.next_validation = failed.validation_share, failed.next_validation
        return state

    def _message(self, failed: TrainingState, fault: str) -> str:
        kept = "no good state was saved"
        if (checkpoint := self._run.latest_checkpoint()) is not None:
            kept = f"what was good up to update {checkpoint.step} is saved"
        names = ["learning_rate", *(["matrix_learning_rate"] if self._config.optimizer == "muon" else [])]
        usual = TrainingConfig()
        lower = {name: min(getattr(self._config, name) / 10, getattr(usual, name)) for name in names}
        options = " ".join(f"--set training.{name}={rate:g}" for name, rate in lower.items())
        return (
            f"{self._run.path}: {fault}, at update {failed.updates}; {kept}; set a lower training.learning_rate and"
            f" begin anew in another --out, as with {options}"
        )
