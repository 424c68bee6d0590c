"""The order of sums, and who of the ranks computes what."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.unit.training.toy import toy_trainer
from torch.distributed.elastic.multiprocessing import api as multiprocessing_api
from torch.distributed.launcher import api as launcher_api

from dikkat.cli import processes, ray_processes
from dikkat.cli.processes import _OPTIONS, exit_code_of, launch, resume_command, wants_processes, with_restarts
from dikkat.cli.ray_processes import RayLauncher, threads_that_fit
from dikkat.kernels.adamw import PART
from dikkat.training.distributed.environment import own_rank
from dikkat.training.distributed.ranks import Ranks, branches_within, sum_of_branches, tree_sum
from dikkat.training.distributed.shares import PIECE, cut_by_cost, groups_within, pieces_of, shares_of
from dikkat.training.task import Part, never
from dikkat_runtime.cli.signals import Interrupted
from dikkat_runtime.errors import CannotCreateError, StoppedError, UsageError
from dikkat_runtime.hints import without_options
from dikkat_runtime.native.cpu import usable_processors
from dikkat_runtime.process_signals import NUMBERS


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
def test_a_sum_goes_by_halves_whatever_memory_its_leaves_lie_in(count: int) -> None:
    generator = np.random.default_rng(count)
    leaves = (generator.normal(size=(count, 1000)) * 10.0 ** generator.integers(-6, 6, (count, 1))).astype(np.float32)
    memory = torch.empty(1000)

    def by_halves(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        middle = len(rows) // 2
        return rows[0] if middle == 0 else by_halves(rows[:middle]) + by_halves(rows[middle:])

    total = tree_sum(range(count), lambda index: memory.copy_(torch.from_numpy(leaves[index])))
    assert np.array_equal(total.numpy(), by_halves(leaves))


def test_two_halves_add_up_to_the_bits_of_the_whole() -> None:
    leaves = torch.randn(8, 4096, generator=torch.Generator().manual_seed(3))
    halves = [tree_sum(half, lambda index: leaves[index].clone()) for half in (range(4), range(4, 8))]
    assert torch.equal(halves[0] + halves[1], tree_sum(range(8), lambda index: leaves[index].clone()))
    assert not torch.equal(halves[0] + halves[1], leaves.cumsum(0)[-1]), "the order of a tree is another one"


@pytest.mark.parametrize(("leaves", "ranks"), [(4, 3), (6, 3), (8, 4), (7, 5), (12, 8), (5, 2)])
def test_branches_of_all_ranks_add_up_to_the_bits_of_the_whole(leaves: int, ranks: int) -> None:
    vectors = torch.randn(leaves, 512, generator=torch.Generator().manual_seed(leaves))
    memory = torch.empty(512)

    def vector(leaf: int) -> torch.Tensor:
        return memory.copy_(vectors[leaf])

    shares = [range(rank * leaves // ranks, (rank + 1) * leaves // ranks) for rank in range(ranks)]
    branches = [branch for share in shares for branch in branches_within(range(leaves), share)]
    assert [leaf for branch in branches for leaf in branch] == list(range(leaves))
    assert all(any(set(branch) <= set(share) for share in shares) for branch in branches)
    sums = {branch: tree_sum(branch, vector).clone() for branch in branches}
    assert torch.equal(sum_of_branches(range(leaves), sums), tree_sum(range(leaves), vector))


def test_parts_cut_all_rows_once() -> None:
    rows = np.arange(11)
    for count in (1, 2, 3, 11, 20):
        parts = [Part(index, count).of(rows) for index in range(count)]
        assert np.array_equal(np.concatenate(parts), rows)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_the_parts_of_a_batch_add_up_to_its_gradient(tmp_path: Path) -> None:
    trainer = toy_trainer(tmp_path, tokens_per_batch=80)
    task, parameters = trainer.task, trainer.parameters

    def gradient(part: Part) -> tuple[torch.Tensor, int]:
        with parameters.collect_gradients():
            loss = task.loss(3, 0.0, part)
            if loss.predictions:
                loss.objective.backward()
        return parameters.gradient.double(), loss.predictions

    whole, count = gradient(Part(0, 1))
    # more parts than rows: some have none
    parts = [gradient(Part(index, 64)) for index in range(64)]
    assert sum(number for _, number in parts) == count
    assert min(number for _, number in parts) == 0
    torch.testing.assert_close(sum(vector for vector, _ in parts), whole, rtol=1e-4, atol=1e-5)


def test_matrices_are_cut_into_stretches_of_like_cost() -> None:
    shapes = [(512, 512)] * 24 + [(2048, 512)] * 6 + [(512, 2048)] * 6
    cost = [rows * columns * min(rows, columns) for rows, columns in shapes]
    for count in (1, 2, 3, 8):
        stretches = cut_by_cost(shapes, count)
        assert [index for stretch in stretches for index in stretch] == list(range(len(shapes)))
        costs = [sum(cost[index] for index in stretch) for stretch in stretches]
        assert max(costs) <= sum(cost) / count + max(cost)
    assert [len(stretch) for stretch in cut_by_cost([(4, 4)], 3)].count(1) == 1


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_shares_cut_all_entries_once_and_no_matrix(count: int) -> None:
    groups = [(0, 5, torch.Size((16, 16))), (1280, 3, torch.Size((32, 16)))]
    matrices = 5 * 256 + 3 * 512
    size = matrices + 3 * PART + 17
    shares = shares_of(groups, size, count)
    for spans, wanted in (
        ([share.matrices for share in shares], range(matrices)),
        ([share.rest for share in shares], range(matrices, size)),
    ):
        assert [entry for span in spans for entry in range(span.start, span.stop)] == list(wanted)
    # sums go by parts, and so do the vectors of a processor
    assert all((share.rest.start - matrices) % PART == 0 for share in shares if share.rest.start < size)
    within = [groups_within(groups, share.matrices) for share in shares]
    cut = [(start + k * shape.numel(), shape) for own in within for start, number, shape in own for k in range(number)]
    assert cut == [(start + k * shape.numel(), shape) for start, number, shape in groups for k in range(number)]
    assert [sum(n * shape.numel() for _, n, shape in own) for own in within] == [
        share.matrices.stop - share.matrices.start for share in shares
    ]


def test_shares_without_matrices_are_stretches_of_like_length() -> None:
    lengths = [share.rest.stop - share.rest.start for share in shares_of([], 10 * PART + 1, 4)]
    assert sum(lengths) == 10 * PART + 1
    assert max(lengths) - min(lengths) <= PART


def test_pieces_go_through_a_vector_in_its_order_wherever_it_is_kept() -> None:
    spans = [[slice(0, 10), slice(30, 30 + PIECE + 5)], [slice(10, 30)], [slice(30, 30)]]
    pieces = list(pieces_of(spans))
    assert [piece.rank for piece in pieces] == [0, 1, 0, 0]
    assert [(piece.whole.start, piece.whole.stop) for piece in pieces] == [
        (0, 10),
        (10, 30),
        (30, 30 + PIECE),
        (30 + PIECE, 35 + PIECE),
    ]
    assert [(piece.kept.start, piece.kept.stop) for piece in pieces] == [
        (0, 10),
        (0, 20),
        (10, 10 + PIECE),
        (10 + PIECE, 15 + PIECE),
    ]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["train", "lm", "--nproc", "2", "a.txt"], ["train", "lm", "a.txt"]),
        (["train", "--max-restarts=3", "--nproc=2", "--out", "x"], ["train", "--out", "x"]),
        (["--nproc", "--nproc", "a"], ["a"]),
    ],
)
def test_ranks_are_started_without_the_options_of_their_launcher(words: list[str], kept: list[str]) -> None:
    assert without_options(words, _OPTIONS) == kept


def test_the_exit_code_is_that_of_the_rank_that_said_why() -> None:
    assert exit_code_of({0: 75, 1: 71}, "dikkat") == 71
    assert exit_code_of({0: 65, 1: -15}, "dikkat") == 65
    assert exit_code_of({0: 143, 1: 143}, "dikkat") == 143
    assert exit_code_of({0: -15, 1: 143}, "dikkat") == 143
    with pytest.raises(StoppedError, match=r"process 1 was ended by SIGKILL.*; continue with: dikkat --resume"):
        exit_code_of({0: 75, 1: -9}, "dikkat --resume")
    with pytest.raises(StoppedError, match="stopped responding"):
        exit_code_of({0: 75, 1: -15}, "dikkat --resume")


@pytest.mark.parametrize(
    ("device", "count", "launcher", "max_restarts", "command"),
    [
        ("cpu", 1, "torchrun", 0, "dikkat train lm --out runs/a --resume"),
        ("cuda", 2, "torchrun", 0, "dikkat train lm --out runs/a --resume --device cuda --nproc 2"),
        ("cpu", 3, "ray", 5, "dikkat train lm --out runs/a --resume --nproc 3 --max-restarts 5 --launcher ray"),
    ],
)
def test_the_command_that_goes_on_starts_the_same_processes(
    device: str, count: int, launcher: str, max_restarts: int, command: str
) -> None:
    assert resume_command("lm", Path("runs/a"), device, count, launcher, max_restarts) == command


def test_ranks_know_what_started_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCHELASTIC_RUN_ID", "DIKKAT_LAUNCHED", "DIKKAT_RESTARTS", "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "0")
    assert own_rank().launcher == "torchrun"
    assert own_rank().max_restarts == 0
    monkeypatch.setenv("DIKKAT_LAUNCHER", "ray")
    monkeypatch.setenv("DIKKAT_MAX_RESTARTS", "4")
    assert (own_rank().launcher, own_rank().max_restarts) == ("ray", 4)
    # torchrun of the user's own, whatever an outer command left
    monkeypatch.delenv("DIKKAT_LAUNCHED")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert (own_rank().launcher, own_rank().max_restarts) == ("torchrun", 0)


@pytest.mark.parametrize("launcher", ["torchrun", "ray"])
def test_a_launcher_leaves_no_variable_to_its_own_process(
    launcher: Literal["torchrun", "ray"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(count: int, max_restarts: int, words: list[str], again: str) -> int:
        return with_restarts(lambda: len([name for name in os.environ if name.startswith("DIKKAT_L")]), max_restarts)

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("dikkat.cli.processes.usable_processors", lambda: 2)
    monkeypatch.setattr(f"dikkat.cli.processes._start_with_{launcher}", start)
    before = dict(os.environ)
    assert launch("lm", tmp_path / "out", 2, 1, "cpu", resume=False, launcher=launcher) == 2
    assert dict(os.environ) == before


def starts_of(monkeypatch: pytest.MonkeyPatch, codes: list[dict[int, int]], max_restarts: int) -> tuple[int, list[int]]:
    """Start ranks that end with `codes`, by rank, each time; returns the exit code and the restarts they were told."""
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    told: list[int] = []
    for name in ("DIKKAT_LAUNCHED", "DIKKAT_RESTARTS", "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "0")

    def start() -> int:
        told.append(own_rank().restarts)
        failures = codes[len(told) - 1]
        return exit_code_of(failures, "dikkat") if failures else 0

    try:
        return with_restarts(start, max_restarts), told
    except StoppedError as error:
        return error.exit_code, told


def test_ranks_are_started_again_after_a_loss_and_after_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for code in (2, 65, 66, 70, 71, 73, 74, 76, 130, 143):
        assert starts_of(monkeypatch, [{0: code, 1: code}], 3) == (code, [0])
    assert capsys.readouterr().err == ""
    killed = {0: 75, 1: -9}
    assert starts_of(monkeypatch, [killed, {0: 75}, {}], 2) == (0, [0, 1, 2])
    assert capsys.readouterr().err == "a process was lost; restarting from the last checkpoint\n" * 2
    assert starts_of(monkeypatch, [killed, killed], 1) == (75, [0, 1])
    assert starts_of(monkeypatch, [killed, {0: 74, 1: -15}], 5) == (74, [0, 1])


def test_restarts_of_a_single_process_are_refused() -> None:
    assert not wants_processes(None, 0)
    assert not wants_processes(1, 0)
    assert wants_processes(2, 3)
    assert wants_processes(2, 0, "ray")
    with pytest.raises(UsageError, match="--launcher ray is for --nproc 2 or more"):
        wants_processes(None, 0, "ray")
    with pytest.raises(UsageError, match="--max-restarts is for --nproc 2 or more"):
        wants_processes(None, 2)


@pytest.mark.parametrize(
    ("free", "count", "threads"),
    [([8], 2, 4), ([8, 8], 5, 2), ([8, 8], 16, 1), ([2, 1], 3, 1), ([2], 3, 0), ([], 1, 0)],
)
def test_ranks_of_ray_get_the_threads_that_fit_on_its_nodes(free: list[int], count: int, threads: int) -> None:
    assert threads_that_fit(free, count) == threads


def test_threads_that_fit_on_no_node_of_ray_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three ranks of two threads on two nodes of three processors: Ray would wait for ever."""
    nodes = [{"Alive": True, "Resources": {"CPU": 3.0}}] * 2
    ray = SimpleNamespace(nodes=lambda: nodes, available_resources=lambda: {"CPU": 6.0}, shutdown=lambda: None)
    monkeypatch.setattr(ray_processes, "reach_ray", lambda *_: ray)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    RayLauncher(2, [], "")
    with pytest.raises(UsageError, match="--nproc 3 of 2 threads"):
        RayLauncher(3, [], "")


def test_a_launcher_that_is_not_there_or_cannot_compute_so_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="--launcher ray computes on processors; leave out --device cuda"):
        launch("lm", tmp_path / "out", 2, 0, "cuda", resume=False, launcher="ray")
    for missing in ("ray", "ray.train"):
        monkeypatch.setitem(sys.modules, missing, None)
        with pytest.raises(UsageError, match=r"^--launcher ray needs Ray Train; pip install 'dikkat\[ray\]'$"):
            launch("lm", tmp_path / "out", 2, 0, "cpu", resume=False, launcher="ray")
        monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))


@pytest.mark.skipif(usable_processors() < 2, reason="two processes need two cores")
def test_a_run_of_another_command_is_refused_before_a_process_starts(tmp_path: Path) -> None:
    """Or processes that are started again would take it for the run that they have begun."""
    (tmp_path / "config.json").write_text('{"format_version": 1}')
    with pytest.raises(CannotCreateError, match="holds an unfinished run; add --resume to continue it"):
        launch("lm", tmp_path, 2, 1, "cpu", resume=False)


class Follower(Ranks):
    """A rank that is not the first, which found a loss of 2.5 and a score of 40 that says nothing yet."""

    is_first = False

    def share(self, values: Sequence[float]) -> list[float]:
        return [2.5, 40.0, 0.0, 0.0]


def test_a_validation_is_that_of_the_first_rank_to_the_last_bit(tmp_path: Path) -> None:
    """Or ranks on unlike processors would keep other weights as the best, and stop at other times."""
    trainer = toy_trainer(tmp_path)
    work = replace(trainer.work, ranks=Follower())
    found = work.validate(0, trainer.parameters.master, never)
    assert (found.loss, found.score, found.is_meaningful) == (2.5, 40.0, False)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Put back the handlers of signals that a test replaces."""
    kept = {number: signal.getsignal(number) for number in (*NUMBERS, signal.SIGQUIT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_a_signal_that_comes_when_all_ranks_have_ended_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handlers of torchrun stay, and what they raise is caught nowhere else."""
    elastic = multiprocessing_api.MultiprocessContext.start

    def ended(config: object, program: str) -> Callable[..., None]:
        # for the ranks, which inherit it
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
        context = SimpleNamespace(_start=lambda: None, _tail_logs=[])
        return lambda *words: elastic(context)  # type: ignore[arg-type]

    monkeypatch.setattr(launcher_api, "elastic_launch", ended)
    assert processes._start_with_torchrun(2, 0, ["train", "lm"], "dikkat") == 0
    with pytest.raises(Interrupted) as caught:
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.exit_code == 143
