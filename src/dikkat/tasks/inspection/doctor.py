"""Load the model of a run directory or checkpoint and examine it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from dikkat.explain.doctor import Proof, examine
from dikkat.explain.doctor.specimen import ExaminableModel
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.weights import build_checked, load_weights
from dikkat.tasks.kinds import part_of


def examine_path(path: Path, seed: int = 1) -> list[Proof]:
    """Run every check of the doctor on the model at `path`, a run directory or a checkpoint folder.

    Raises `MissingInputError` or `DataError` naming the file that is missing or damaged, and `UsageError` for a model
    whose settings are unknown or whose learned positions are too few to be examined.
    """
    return examine(load_model(path), seed)


def load_model(path: Path) -> ExaminableModel:
    """Load the model at `path` in float32: the best weights of a run, or those of a checkpoint."""
    is_checkpoint = path.resolve().parent.name == "checkpoints" and not (path / "config.json").exists()
    # a checkpoint shares the settings of its run, two levels up
    run = RunDirectory.open(path.resolve().parents[1] if is_checkpoint else path)
    checkpoint = path if is_checkpoint else None
    model = _new_model(run, checkpoint)
    load_weights(model, run, checkpoint, must_be_finite=False)
    return model.eval()


def _new_model(run: RunDirectory, checkpoint: Path | None) -> ExaminableModel:
    config = run_config(run.read_config(), str(run.config))
    build = part_of(run, "build", "which the doctor cannot examine")
    model: ExaminableModel = build_checked(run, config.model, partial(build, run, config), checkpoint)
    return model
