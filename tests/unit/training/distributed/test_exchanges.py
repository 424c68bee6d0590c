"""What two ranks tell each other, as forked processes with one process group each."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests.free_port import reserved_port
from tests.unit.training.toy import toy_model
from torch import Tensor
from torch._C._distributed_c10d import Store, TCPStore

from dikkat.config import TrainingConfig
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import encode_tensors, write_vectors
from dikkat.training import saving as collecting_module
from dikkat.training.distributed import process_group, shares
from dikkat.training.distributed.environment import RankInfo
from dikkat.training.distributed.process_group import heartbeat, joined
from dikkat.training.distributed.ranks import ONE_PROCESS, EarlyPart, LostRankError, Ranks, by_first, tree_sum
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters
from dikkat.training.saving import collecting
from dikkat_runtime.errors import CannotCreateError, DikkatError, MissingInputError

Answer = tuple[str, str, int]
VECTORS = torch.randn(7, 1001, generator=torch.Generator().manual_seed(2))


def _rank(
    index: int,
    count: int,
    port: int,
    has_store: bool,
    work: Callable[[Ranks], str],
    answers: SimpleQueue[tuple[int, Answer]],
) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(index), "WORLD_SIZE": str(count)}
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = str(has_store)
    torch.set_num_threads(1)
    try:
        with joined(RankInfo(index, count), uses_gpu=False) as ranks:
            answer = ("", work(ranks), 0)
    except (DikkatError, AssertionError, RuntimeError) as error:
        answer = (type(error).__name__, str(error), error.explained_by if isinstance(error, LostRankError) else 0)
    answers.put((index, answer))


def by_ranks(count: int, work: Callable[[Ranks], str], store: int | None = None, lost: int = 0) -> list[Answer]:
    """Let so many ranks do `work`; returns the name of the error of each, what it says, and the code that another told.

    They meet in a store of their own, or at the port `store`. The last `lost` of them die and answer nothing.
    """
    fork = multiprocessing.get_context("fork")
    answers: SimpleQueue[tuple[int, Answer]] = fork.SimpleQueue()
    with reserved_port() as port:
        processes = [
            fork.Process(target=_rank, args=(index, count, store or port, store is not None, work, answers))
            for index in range(count)
        ]
        for process in processes:
            process.start()
        told = dict(answers.get() for _ in processes[lost:])
        for process in processes:
            process.join(30)
    return [told[index] for index in range(count - lost)]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_sum_over_parts_has_the_bits_of_one_process(count: int) -> None:
    wanted = tree_sum(range(7), lambda part: VECTORS[part].clone())

    def work(ranks: Ranks) -> str:
        memory = torch.empty(1001)
        total = ranks.sum_parts(7, lambda part: memory.copy_(VECTORS[part]))
        return str(torch.equal(total, wanted))

    assert by_ranks(count, work) == [("", "True", 0)] * count


EARLY = [slice(0, 3), slice(10, 400), slice(777, 1001)]


@pytest.mark.parametrize(("count", "dtype"), [(2, torch.float32), (3, torch.bfloat16), (5, torch.float32)], ids=str)
def test_entries_that_are_exchanged_early_have_the_bits_of_one_process(count: int, dtype: torch.dtype) -> None:
    """Where the last part of rank 1 hands nothing over, as one without rows does."""
    vectors = VECTORS.to(dtype)
    wanted = tree_sum(range(7), lambda part: vectors[part].clone())

    def work(ranks: Ranks) -> str:
        memory = torch.empty(1001, dtype=dtype)

        def compute(part: int, hand_over: Callable[[torch.Tensor], None] | None = None) -> torch.Tensor:
            memory.copy_(vectors[part])
            if hand_over is not None and ranks.index != 1:
                hand_over(torch.cat([memory[span] for span in EARLY]).float())
                for span in EARLY:
                    memory[span] = torch.nan
            return memory

        return str(torch.equal(ranks.sum_parts(7, compute, EarlyPart(EARLY, compute)), wanted))

    assert by_ranks(count, work) == [("", "True", 0)] * count


def test_early_entries_are_handed_over_once() -> None:
    def work(ranks: Ranks) -> str:
        def compute(part: int, hand_over: Callable[[torch.Tensor], None] | None = None) -> torch.Tensor:
            if hand_over is not None:
                for _ in range(2):
                    hand_over(torch.zeros(617))
            return VECTORS[part]

        return str(ranks.sum_parts(2, compute, EarlyPart(EARLY, compute)))

    wanted = ("RuntimeError", "the early entries of a part were handed over twice", 0)
    assert by_ranks(2, work) == [wanted] * 2


def test_a_rank_that_dies_beside_an_early_exchange_is_lost() -> None:
    def work(ranks: Ranks) -> str:
        def compute(part: int, hand_over: Callable[[torch.Tensor], None] | None = None) -> torch.Tensor:
            if hand_over is not None:
                hand_over(torch.cat([VECTORS[part][span] for span in EARLY]))
                if ranks.index == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
            return VECTORS[part]

        return str(ranks.sum_parts(7, compute, EarlyPart(EARLY, compute)))

    ((name, message, _),) = by_ranks(2, work, lost=1)
    assert name == "LostRankError"
    assert message.startswith("another rank died or does not respond")


@pytest.mark.parametrize("name", ["settings", "data"])
def test_ranks_that_see_something_else_end_with_one_line_of_the_first(name: str) -> None:
    def work(ranks: Ranks) -> str:
        ranks.check_same({"settings": "a", "data": "b", name: str(ranks.index)}, "runs/de")
        return "trained"

    (first, message, _), (second, _, code) = by_ranks(2, work)
    assert (first, message) == (
        "DataError",
        f"runs/de: rank 1 sees other {name} than rank 0; give all ranks the same run",
    )
    # of these, a rank that is not the first prints nothing
    assert (second, code) == ("LostRankError", 65)


def test_a_rank_knows_that_another_says_itself_why_it_ended() -> None:
    def work(ranks: Ranks) -> str:
        if ranks.index == 1:
            raise MissingInputError("runs/de: there is no such run directory")
        return str(ranks.sum_count(1))

    (first, _, code), (second, message, _) = by_ranks(2, work)
    assert (first, code) == ("LostRankError", 66)
    assert (second, message) == ("MissingInputError", "runs/de: there is no such run directory")


def test_ranks_that_torchrun_starts_again_take_up_what_they_have_begun_and_nothing_else() -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def work(ranks: Ranks) -> str:
        return str(ranks.has_begun)

    def begin(ranks: Ranks) -> str:
        if ranks.is_first:
            ranks.mark_begun()
        return work(ranks)

    assert by_ranks(2, begin, store.port) == [("", "False", 0)] * 2
    assert by_ranks(2, work, store.port) == [("", "True", 0)] * 2
    # another torchrun, with a store of its own
    other = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    assert by_ranks(2, work, other.port) == [("", "False", 0)] * 2


@pytest.mark.parametrize(("count", "number"), [(2, 7), (3, 2)])
def test_items_that_ranks_share_come_back_to_all_in_their_order(count: int, number: int) -> None:
    def work(ranks: Ranks) -> str:
        own: list[int] = []

        def results(items: Sequence[int]) -> list[list[float]]:
            own.extend(items)
            return [[item, 0.1 + item / 3] for item in items]

        shared = ranks.share_out(number, results)
        return f"{own} {shared}"

    wanted = str([[item, 0.1 + item / 3] for item in range(number)])
    answers = by_ranks(count, work)
    items = [list(range(rank, number, count)) for rank in range(count)]
    assert answers == [("", f"{own} {wanted}", 0) for own in items]


def test_shared_work_ends_on_all_ranks_where_one_is_asked_to_stop() -> None:
    def work(ranks: Ranks) -> str:
        return str(ranks.share_out(4, lambda items: None if ranks.index else list(items)))

    assert by_ranks(2, work) == [("", "None", 0)] * 2


def test_a_store_that_is_gone_loses_the_rank_that_tells_of_its_work() -> None:
    class Gone(Store):
        def set(self, key: str, value: str) -> None:
            raise RuntimeError("Connection reset by peer")

    with pytest.raises(LostRankError, match="is gone"), heartbeat(Gone(), "work", 1.0):
        pass


def test_a_store_that_goes_while_a_rank_beats_is_told_of_by_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that beats would print a traceback of its own."""

    class Going(Store):
        def add(self, key: str, value: int) -> int:
            raise RuntimeError("Connection reset by peer")

        def set(self, key: str, value: str) -> None:
            raise RuntimeError("Connection reset by peer")

    tracebacks = list[object]()
    monkeypatch.setattr(threading, "excepthook", tracebacks.append)
    with pytest.raises(LostRankError, match="is gone"), heartbeat(Going(), "work", 0.1):
        time.sleep(0.3)
    assert tracebacks == []


def test_a_rank_that_works_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIKKAT_ANSWER_SECONDS", "1")

    def work(ranks: Ranks) -> str:
        def slow(items: Sequence[int]) -> list[int]:
            if ranks.index:
                time.sleep(1.6)
            return list(items)

        return str(ranks.share_out(3, slow))

    assert by_ranks(2, work) == [("", "[0, 1, 2]", 0)] * 2


SETTINGS = {"learning_rate": 0.01, "matrix_learning_rate": 0.02, "weight_decay": 0.1, "clip_norm": 0.5}


def optimizer_of(kind: str, dtype: torch.dtype, ranks: Ranks = ONE_PROCESS) -> Optimizer:
    """One over a model whose matrices and vectors have odd sizes, and whose embedding several ranks share out."""
    model = toy_model(vocab_size=700, model_dim=18, feed_forward_dim=27, num_heads=3)
    config = TrainingConfig.model_validate({**SETTINGS, "optimizer": kind, "average": "ema"})
    return Optimizer(FlatParameters(model, dtype), config, ranks)


def steps(optimizer: Optimizer, updates: range) -> None:
    for update in updates:
        generator = torch.Generator().manual_seed(update)
        gradient = torch.randn(optimizer.parameters.master.shape, generator=generator)
        if update == 3:
            gradient[5] = torch.nan
        optimizer.step(gradient, update, 0.7)


@pytest.mark.parametrize(
    ("count", "kind", "dtype"),
    [
        (2, "muon", torch.bfloat16),
        pytest.param(3, "muon", torch.float32, marks=pytest.mark.nightly),
        pytest.param(3, "adamw", torch.bfloat16, marks=pytest.mark.nightly),
        pytest.param(2, "adamw", torch.float32, marks=pytest.mark.nightly),
    ],
)
def test_an_optimizer_cut_by_rank_has_the_bits_of_a_whole_one(count: int, kind: str, dtype: torch.dtype) -> None:
    """Its weights, their copy, their average, and its state when it is brought together, loaded and dealt again."""

    def work(ranks: Ranks) -> str:
        whole = optimizer_of(kind, dtype)
        steps(whole, range(1, 5))
        halfway = {name: vector.clone() for name, vector in whole.state().items()}
        halfway_weights = whole.parameters.master.clone()
        steps(whole, range(5, 7))
        own = optimizer_of(kind, dtype, ranks)
        steps(own, range(1, 5))
        for name, vector in halfway.items():
            pieces = [piece.clone() for piece in own.collect(name)]
            assert not ranks.is_first or torch.equal(torch.cat([torch.empty(0), *pieces]), vector), name
        other = optimizer_of(kind, dtype, ranks)
        other.parameters.master.copy_(halfway_weights)
        other.parameters.refresh()
        if ranks.is_first:
            other.load_state(halfway)
        other.adopt()
        for optimizer in (own, other):
            steps(optimizer, range(5, 7))
            assert torch.equal(optimizer.parameters.master, whole.parameters.master)
            assert torch.equal(optimizer.parameters.working, whole.parameters.working)
            assert torch.equal(optimizer.evaluated_weights(), whole.evaluated_weights())
            assert optimizer.is_finite()
        held = sum(vector.numel() for vector in own.state().values())
        if ranks.index == 1 and own.average is not None:
            own.average[0] = torch.inf
        assert not own.is_finite(), "all ranks know of it"
        return f"{held} {sum(vector.numel() for vector in halfway.values())}"

    answers = by_ranks(count, work)
    assert [name for name, _, _ in answers] == [""] * count, answers
    held = [int(text.split()[0]) for _, text, _ in answers]
    assert sum(held) == int(answers[0][1].split()[1])
    assert max(held) < 0.75 * sum(held)


def test_the_state_of_all_ranks_is_one_file_and_a_disk_that_fails_holds_up_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (shares, process_group):
        monkeypatch.setattr(module, "PIECE", 1000)

    def work(ranks: Ranks) -> str:
        whole, own = optimizer_of("muon", torch.float32), optimizer_of("muon", torch.float32, ranks)
        for optimizer in (whole, own):
            steps(optimizer, range(1, 3))
        with collecting(RunDirectory(tmp_path / "nowhere"), own, ranks, 2) as broken:
            message = ""
            if ranks.is_first:
                with pytest.raises(CannotCreateError) as caught:
                    broken()
                message = str(caught.value)
        with collecting(RunDirectory(tmp_path), own, ranks, 2) as file:
            if ranks.is_first:
                path = file()
                assert path is not None
                assert path.read_bytes() == encode_tensors(whole.state(), {"step": "2"})
            ranks.tick(False)
        return message

    (_, message, _), second = by_ranks(2, work)
    assert message.startswith(f"{tmp_path / 'nowhere' / 'optimizer.safetensors'}: cannot be written: the folder")
    assert "does not exist" in message
    assert second == ("", "", 0)
    assert not list(tmp_path.iterdir())


def test_a_network_that_is_slower_than_an_answer_loses_no_rank_that_takes_up_a_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last rank waits for 1.5 seconds until the first one has sent the other all of its share."""
    monkeypatch.setenv("DIKKAT_ANSWER_SECONDS", "1")
    for module in (shares, process_group):
        monkeypatch.setattr(module, "PIECE", 2)
    send = dist.send

    def late(entries: Tensor, rank: int) -> None:
        time.sleep(0.5)
        send(entries, rank)

    monkeypatch.setattr(dist, "send", late)
    spans = [[slice(0, 1), slice(8, 9)], [slice(1, 7)], [slice(7, 8)]]

    def work(ranks: Ranks) -> str:
        kept = torch.zeros(sum(span.stop - span.start for span in spans[ranks.index]))
        ranks.deal(torch.arange(9.0) if ranks.is_first else None, kept, spans)
        # the store ends with the first rank
        ranks.tick(False)
        return str(kept.tolist())

    wanted = ["[0.0, 8.0]", "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]", "[7.0]"]
    assert by_ranks(3, work) == [("", text, 0) for text in wanted]


@pytest.mark.parametrize("slow", ["write", "sync"])
def test_a_disk_that_is_slower_than_an_answer_loses_no_rank(
    slow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIKKAT_ANSWER_SECONDS", "1")

    def late(
        path: Path,
        sizes: Mapping[str, int],
        pieces: Mapping[str, Iterator[Tensor]],
        notes: dict[str, str],
        named: Path,
    ) -> None:
        def first_is_slow(vector: Iterator[Tensor]) -> Iterator[Tensor]:
            yield next(vector)
            time.sleep(1.6)
            yield from vector

        if slow == "write":
            pieces = {**pieces, "average": first_is_slow(pieces["average"])}
        write_vectors(path, sizes, pieces, notes, named)
        if slow == "sync":
            time.sleep(1.6)

    monkeypatch.setattr(collecting_module, "write_vectors", late)

    def work(ranks: Ranks) -> str:
        own = optimizer_of("muon", torch.float32, ranks)
        with collecting(RunDirectory(tmp_path), own, ranks, 2) as file:
            by_first(ranks, file)
            return str(ranks.sum_count(1))

    assert by_ranks(2, work) == [("", "2", 0)] * 2
