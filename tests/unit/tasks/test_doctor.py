"""The model of a run and of a checkpoint, each with its own weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.unit.models.small import config, small_model

from dikkat.config import RunConfig
from dikkat.run_directory import RunDirectory
from dikkat.tasks.inspection.doctor import examine_path, load_model
from dikkat_runtime.errors import DataError, MissingInputError


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    created = RunDirectory.create(tmp_path / "run")
    created.write_config(RunConfig(model=config()).model_dump())
    return created


def test_a_checkpoint_has_its_own_weights(run: RunDirectory) -> None:
    model = small_model()
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    run.save_weights(weights, {})
    folder = run.save_checkpoint(3, {"model": {name: 2.0 * tensor for name, tensor in weights.items()}}, {})
    best, checkpoint = load_model(run.path), load_model(folder)
    for name, parameter in best.named_parameters():
        assert torch.equal(parameter, weights[name])
        assert torch.equal(checkpoint.get_parameter(name), 2.0 * weights[name])
    assert not best.training
    assert all(proof.passed for proof in examine_path(folder, seed=4)[0])


def test_a_checkpoint_needs_no_weights_of_its_run(run: RunDirectory) -> None:
    """A run stopped before its first validation has none yet."""
    folder = run.save_checkpoint(3, {"model": dict(small_model().named_parameters())}, {})
    assert load_model(folder).output_weight.shape == (23, 16)
    with pytest.raises(MissingInputError, match="no weights yet"):
        load_model(run.path)


def test_a_run_that_is_called_checkpoints_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    inner = RunDirectory.create(tmp_path / "checkpoints" / "mine")
    inner.write_config(RunConfig(model=config()).model_dump())
    inner.save_weights(dict(small_model().named_parameters()), {})
    assert load_model(inner.path).output_weight.shape == (23, 16)


def test_a_checkpoint_without_its_run(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="not a run directory"):
        load_model(tmp_path / "checkpoints" / "step-000001")


def test_weights_that_do_not_fit(run: RunDirectory) -> None:
    run.save_weights(dict(small_model(model_dim=8).named_parameters()), {})
    with pytest.raises(DataError, match=r"model\.safetensors: does not fit .*config\.json: parameter .* has the shape"):
        load_model(run.path)
