"""Several processes train what one does: bit for bit where two share the parts, and whatever happens to one of them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.free_port import reserved_port
from tests.python_path import PYTHON_PATH
from tests.unit.training.distributed.rank import trainer_of
from tests.unit.training.toy import Recorder
from torch import Tensor

from dikkat.run_directory.tensor_files import read_tensors
from dikkat.training.distributed.ranks import ONE_PROCESS
from dikkat.training.loop import Trainer

UPDATES = 60


def weights_of(trainer: Trainer) -> dict[str, Tensor]:
    """Everything that an update moves."""
    return {"weights": trainer.parameters.master, **trainer.optimizer.state()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """Sixty updates by one process."""
    trainer = trainer_of(tmp_path_factory.mktemp("undisturbed"), ONE_PROCESS, UPDATES)
    assert trainer.train(Recorder())
    return trainer


def start(
    folder: Path, count: int, port: int, updates: int = UPDATES, optimizer: str = "muon", **variables: str
) -> list[subprocess.Popen[str]]:
    """Start ranks with the environment that torchrun gives them."""
    root = Path(__file__).parents[4]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), PYTHON_PATH]),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "test",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
        **variables,
    }
    command = [sys.executable, "-m", "tests.unit.training.distributed.rank", str(folder), str(updates), optimizer]
    return [
        subprocess.Popen(
            command,
            env=environment | {"RANK": str(index), "LOCAL_RANK": str(index)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(count)
    ]


# twelve seconds each: ranks that load PyTorch are started three times; by day one process is killed (test_resume.py),
# and sums of ranks have the bits of one process (test_exchanges.py)
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_two_ranks_killed_at_a_random_moment_end_as_one_process_would(
    tmp_path: Path, undisturbed: Trainer, seed: int
) -> None:
    moment = random.Random(seed)
    last = moment.randrange(8, UPDATES - 8)
    with reserved_port() as port:
        first, second = start(tmp_path, 2, port, DIE=f"1 {last} {moment.uniform(0.0, 2.0)}")
        _, complaint = first.communicate(timeout=300)
        second.communicate(timeout=300)
    assert second.returncode == -signal.SIGPROF
    assert first.returncode == 75, complaint
    assert complaint.count("\n") == 1
    assert "another rank died or does not respond" in complaint
    trainer = trainer_of(tmp_path, ONE_PROCESS, UPDATES, resume=True)
    checkpoint = trainer.run.latest_checkpoint()
    assert checkpoint is not None
    trainer.resume(checkpoint)
    # no more is lost than since the last checkpoint, five updates apart
    assert last - 5 <= trainer.state.updates < UPDATES
    assert trainer.train(Recorder())
    for name, vector in weights_of(undisturbed).items():
        assert torch.equal(weights_of(trainer)[name], vector), f"{name}, after update {last}"
    assert len(trainer.run.read_metrics()) == len(undisturbed.run.read_metrics())


def weights_by(folder: Path, count: int, updates: int, optimizer: str) -> dict[str, Tensor]:
    """Train by so many ranks; returns the weights at the end."""
    with reserved_port() as port:
        ranks = start(folder, count, port, updates, optimizer)
        outputs = [rank.communicate(timeout=300) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * count, outputs
    # all ranks know the score of the validation that only the first one made
    assert len({output.splitlines()[-1].rpartition(" ")[0] for output, _ in outputs}) == 1
    return read_tensors(folder / "0" / "run" / "checkpoints" / f"step-{updates:06d}" / "model.safetensors")


@pytest.mark.nightly
@pytest.mark.parametrize("count", [2, 3, 4])
def test_ranks_end_with_the_bits_of_one_process(tmp_path: Path, undisturbed: Trainer, count: int) -> None:
    """Four parts an update are one, two and three branches of the tree for some of the ranks."""
    weights = weights_by(tmp_path, count, UPDATES, "muon")
    for name, tensor in undisturbed.parameters.named(undisturbed.parameters.master).items():
        assert torch.equal(weights[name], tensor), name


@pytest.mark.nightly
def test_a_stopped_rank_ends_the_others_within_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIKKAT_ANSWER_SECONDS", "10")
    with reserved_port() as port:
        first, second = start(tmp_path, 2, port, updates=100_000)
        assert first.stdout is not None
        assert first.stdout.readline() == "1\n"
    os.kill(second.pid, signal.SIGSTOP)
    try:
        _, complaint = first.communicate(timeout=60)
    finally:
        second.kill()
    assert first.returncode == 75
    assert complaint.count("\n") == 1
