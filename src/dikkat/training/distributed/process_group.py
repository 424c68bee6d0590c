"""The ranks of a training by several processes, over a process group of PyTorch: gloo, and NCCL between GPUs."""

import json
import math
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from itertools import accumulate, pairwise
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from dikkat.training.distributed.environment import RankInfo
from dikkat.training.distributed.exchanged_sum import ExchangedSum
from dikkat.training.distributed.ranks import ONE_PROCESS, Clock, EarlyPart, LostRankError, Ranks, answering
from dikkat.training.distributed.shares import PIECE, pieces_of
from dikkat_runtime.errors import DataError, DikkatError, UsageError, msg

# Give the ranks of one start keys of their own in the store of torchrun, which outlives the ranks that it restarts.

T = TypeVar("T")
POLL_SECONDS = 0.05
"""Time between two looks at the store: the waiting of the store itself leaves signals unanswered."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return what a call of the store returns. Raises `LostRankError` where it takes longer.

    Where the network is cut, the store itself waits for its answer without end.
    """
    answers: SimpleQueue[T | RuntimeError] = SimpleQueue()

    def work() -> None:
        try:
            answers.put(call())
        except RuntimeError as error:
            answers.put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        raise LostRankError(msg("the store of the ranks did not answer for {seconds:.0f} seconds", seconds)) from None
    if isinstance(answer, RuntimeError):
        raise answer
    return answer


def await_key(store: Store, key: str, deadline: float) -> None:
    """Wait until `key` is set. Raises `LostRankError` after `deadline`, by `time.monotonic`."""
    while not store.check([key]):
        if time.monotonic() > deadline:
            raise LostRankError(msg("another rank did not start; look at its output"))
        time.sleep(POLL_SECONDS)


def own_store(store: Store, index: int, count: int, seconds: float) -> Store:
    """Return a view of `store` that holds nothing but what the ranks of this start write, once all of them are there.

    The first rank draws the name of the view. Every other one asks for it under a name of its own, so that no answer
    to a rank that has died since can be taken for its own. Raises `LostRankError` after so many seconds.
    """
    deadline = time.monotonic() + seconds
    name = _let_in(store, count, deadline) if index == 0 else _ask(store, index, deadline)
    return PrefixStore(name, store)


def _let_in(store: Store, count: int, deadline: float) -> str:
    """Tell all ranks but this one, the first, the name of their view."""
    name = f"dikkat/start/{uuid.uuid4().hex}"
    asked: dict[int, bytes] = {}
    absent = set(range(1, count))
    while absent:
        for rank in sorted(absent):
            key = f"dikkat/asks/{rank}"
            # a rank that died may have asked before it
            if store.check([key]) and (question := store.get(key)) != asked.get(rank):
                asked[rank] = question
                store.set(f"dikkat/told/{question.decode()}", name)
            if store.check([f"{name}/here/{rank}"]):
                absent.discard(rank)
        if absent and time.monotonic() > deadline:
            raise LostRankError(msg("rank {rank} did not start; look at its output", min(absent)))
        time.sleep(POLL_SECONDS)
    store.set(f"{name}/complete", "1")
    return name


def _ask(store: Store, index: int, deadline: float) -> str:
    question = uuid.uuid4().hex
    store.set(f"dikkat/asks/{index}", question)
    await_key(store, f"dikkat/told/{question}", deadline)
    name = store.get(f"dikkat/told/{question}").decode()
    store.set(f"{name}/here/{index}", "1")
    await_key(store, f"{name}/complete", deadline)
    return name


BEAT_SECONDS = 5.0
"""Time between two beats, at most: less where ranks are lost sooner."""
_BEATS = "dikkat/beats"
"""Key of the store, before the number of the rank that counts its beats there."""


@contextmanager
def heartbeat(store: Store, key: str, limit: float, rank: int = 0) -> Iterator[None]:
    """Tell the ranks that wait for `key` that the body still runs on this `rank`, and set `key` when it ends well.

    They hear it four times or more in the `limit` seconds after which this rank is lost to them. Raises
    `LostRankError` when the store is out of reach.
    """
    pause = min(BEAT_SECONDS, limit / 4)
    is_over = threading.Event()

    def beat() -> None:
        # where the store is gone, the end of the body tells
        with suppress(RuntimeError):
            while not is_over.wait(pause):
                store.add(f"{_BEATS}/{rank}", 1)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        # a beat whose store is out of reach is not waited for
        thread.join(BEAT_SECONDS)
    try:
        within(limit, lambda: store.set(key, "done"))
    except RuntimeError as error:
        raise LostRankError(msg("the store of the ranks is gone")) from error


def await_beating(
    store: Store, key: str, limit: float, now: Callable[[], float] = time.monotonic, rank: int = 0
) -> None:
    """Wait for `key`, which `rank` sets. Raises `LostRankError` when that did not beat for `limit` seconds."""
    beats, last = -1, now()
    while not within(limit, lambda: store.check([key])):
        count = within(limit, lambda: store.add(f"{_BEATS}/{rank}", 0))
        if count != beats:
            beats, last = count, now()
        elif now() - last > limit:
            raise LostRankError(msg("rank {rank} did not answer for {limit:.0f} seconds", rank, limit))
        time.sleep(POLL_SECONDS)


ANSWER_SECONDS = 20.0
"""A rank that does not answer for so long is lost; the launcher takes up to 30 more seconds to end a stopped one."""
START_SECONDS = 600.0
"""So long the ranks may take to start."""
_LAST_WORD_SECONDS = 2.0
"""So long a rank that ends looks for the reason of another, or leaves its own."""
_BEGUN = "dikkat/begun"
"""Key of the store of torchrun that is set when the first rank has begun the run; it outlives the ranks."""
_FAILED = "dikkat/failed"
"""Key of the store for the exit code of a rank that ends with an error of its own, which it prints."""


@contextmanager
def joined(info: RankInfo, uses_gpu: bool) -> Iterator[Ranks]:
    """Join the ranks of this process, and leave them at the end. Raises `LostRankError`."""
    if info.count == 1:
        yield ONE_PROCESS
        return
    if uses_gpu:
        torch.cuda.set_device(info.local_index)
    limit = timedelta(seconds=_answer_seconds())
    with answering():
        everyones, index, count = next(rendezvous("env://", timeout=timedelta(seconds=START_SECONDS)))
        store = own_store(everyones, index, count, START_SECONDS)
        # the launcher of --nproc has made sure that the run is its own
        has_begun = (info.launched is not None and info.restarts > 0) or everyones.check([_BEGUN])
        backend = "cpu:gloo,cuda:nccl" if uses_gpu else "gloo"
        dist.init_process_group(backend, store=store, rank=index, world_size=count, timeout=limit)
    try:
        yield ProcessGroup(index, count, store, everyones, has_begun)
    except LostRankError as error:
        with suppress(RuntimeError, LostRankError):
            if within(_LAST_WORD_SECONDS, lambda: store.check([_FAILED])):
                error.explained_by = int(within(_LAST_WORD_SECONDS, lambda: store.get(_FAILED)))
        raise
    except DikkatError as error:
        code = str(error.exit_code)
        with suppress(RuntimeError, LostRankError):
            within(_LAST_WORD_SECONDS, lambda: store.set(_FAILED, code))
        raise
    finally:
        # a group that is left to the end of the interpreter aborts the process
        dist.destroy_process_group()


def _answer_seconds() -> float:
    text = os.environ.get("DIKKAT_ANSWER_SECONDS", str(ANSWER_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1.0 <= seconds < math.inf:
        raise UsageError("DIKKAT_ANSWER_SECONDS={value}: give the seconds after which a rank is lost, at least 1", text)
    return seconds


class ProcessGroup(Ranks):
    """Exchanges between the ranks of the default process group; see `Ranks`. All raise `LostRankError`."""

    def __init__(self, index: int, count: int, store: Store, everyones: Store, has_begun: bool) -> None:
        self.index, self.count, self.has_begun = index, count, has_begun
        self._store, self._everyones = store, everyones
        self._wall: Clock | None = None
        self._now = 0.0
        self._works = self._shares = self._turns = 0

    def parts(self, number: int) -> range:
        return self._parts_of(self.index, number)

    def _parts_of(self, rank: int, number: int) -> range:
        return range(rank * number // self.count, (rank + 1) * number // self.count)

    def clock(self, wall: Clock) -> Clock:
        self._wall = wall
        self.tick(False)
        return lambda: self._now

    def tick(self, should_stop: bool) -> bool:
        now = self._wall() if self._wall is not None and self.is_first else 0.0
        self._now, stops = self._sum([now, float(should_stop)])
        return stops > 0

    def share(self, values: Sequence[float]) -> list[float]:
        return self._sum([value if self.is_first else 0.0 for value in values])

    def adopt(self, state: Mapping[str, Any], vectors: Iterable[Tensor]) -> dict[str, Any]:
        content = json.dumps(state).encode()
        (size,) = self.share([len(content)])
        text = torch.zeros(int(size), dtype=torch.uint8)
        if self.is_first:
            text.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        with answering():
            for vector in (text, *vectors):
                dist.broadcast(vector, 0)
        adopted: dict[str, Any] = json.loads(bytes(text.tolist()))
        return adopted

    def sum_count(self, count: int) -> int:
        return int(self._sum([count])[0])

    def sum_parts(self, number: int, part: Callable[[int], Tensor], early: EarlyPart | None = None) -> Tensor:
        return ExchangedSum([self._parts_of(rank, number) for rank in range(self.count)], self.index, early).of(part)

    def share_out(self, number: int, work: Callable[[Sequence[int]], list[T] | None]) -> list[T] | None:
        self._shares += 1
        done, limit = f"dikkat/share/{self._shares}", _answer_seconds()
        with heartbeat(self._store, f"{done}/{self.index}", limit, self.index):
            # neighbours are of like size, so each rank gets one of as many as there are ranks
            content = json.dumps(work(range(self.index, number, self.count))).encode()
        with answering():
            for rank in range(self.count):
                await_beating(self._store, f"{done}/{rank}", limit, rank=rank)
        sizes = self._sum([float(len(content) * (rank == self.index)) for rank in range(self.count)])
        ends = [int(end) for end in accumulate(sizes)]
        text = torch.zeros(ends[-1], dtype=torch.uint8)
        text[ends[self.index] - len(content) : ends[self.index]] = torch.frombuffer(
            bytearray(content), dtype=torch.uint8
        )
        with answering():
            dist.all_reduce(text)
        everything = bytes(text.tolist())
        parts = [json.loads(everything[start:end]) for start, end in pairwise([0, *ends])]
        if any(part is None for part in parts):
            return None
        results: list[T] = [parts[item % self.count][item // self.count] for item in range(number)]
        return results

    def gather(self, values: Tensor, start: int, total: int) -> Tensor:
        everything = values.new_zeros(total)
        everything[start : start + len(values)] = values
        with answering():
            dist.all_reduce(everything)
        return everything

    def complete(self, vector: Tensor, spans: Sequence[Sequence[slice]]) -> None:
        with answering():
            works = [
                dist.broadcast(vector[span], rank, async_op=True)
                for rank, own in enumerate(spans)
                for span in own
                if span.start < span.stop
            ]
            for work in works:
                work.wait()

    def collect(self, kept: Tensor, spans: Sequence[Sequence[slice]]) -> Iterator[Tensor]:
        buffer = torch.empty(PIECE)
        sender = 0
        for piece in pieces_of(spans):
            entries = buffer[: piece.whole.stop - piece.whole.start]
            if piece.rank == self.index:
                entries.copy_(kept[piece.kept])
            if piece.rank not in (sender, 0):
                self._take_turn(piece.rank)
            sender = piece.rank
            with answering():
                if piece.rank == self.index and not self.is_first:
                    dist.send(entries, 0)
                elif piece.rank != self.index and self.is_first:
                    dist.recv(entries, piece.rank)
            if self.is_first:
                yield entries

    def _take_turn(self, other: int) -> None:
        """Let the rank `other` wait, and beat, until the first one is through with all that comes before."""
        self._turns += 1
        turn, limit = f"dikkat/turn/{self._turns}", _answer_seconds()
        with answering():
            if self.is_first:
                within(limit, lambda: self._store.set(turn, "1"))
            elif other == self.index:
                await_beating(self._store, turn, limit)

    def deal(self, whole: Tensor | None, kept: Tensor, spans: Sequence[Sequence[slice]]) -> None:
        buffer = torch.empty(PIECE)
        receiver = 0
        with self.leading() if self.is_first else nullcontext():
            for piece in pieces_of(spans):
                entries = buffer[: piece.whole.stop - piece.whole.start]
                if piece.rank not in (receiver, 0):
                    self._take_turn(piece.rank)
                receiver = piece.rank
                if whole is not None:
                    entries.copy_(whole[piece.whole])
                with answering():
                    if self.is_first and piece.rank != self.index:
                        dist.send(entries, piece.rank)
                    elif not self.is_first and piece.rank == self.index:
                        dist.recv(entries, 0)
                if piece.rank == self.index:
                    kept[piece.kept] = entries
        if not self.is_first:
            self.await_first()

    def mark_begun(self) -> None:
        with answering():
            self._everyones.set(_BEGUN, "1")

    @contextmanager
    def leading(self) -> Iterator[None]:
        self._works += 1
        with heartbeat(self._store, f"dikkat/work/{self._works}", _answer_seconds()):
            yield

    def await_first(self) -> None:
        self._works += 1
        with answering():
            await_beating(self._store, f"dikkat/work/{self._works}", _answer_seconds())

    def check_same(self, facts: Mapping[str, str], where: str) -> None:
        wanted = self.adopt(facts, [])
        names = sorted(wanted)
        differing = [0.0] * (self.count * len(names))
        for number, name in enumerate(names):
            differing[self.index * len(names) + number] = float(facts.get(name) != wanted[name])
        for position, differs in enumerate(self._sum(differing)):
            if differs:
                rank, number = divmod(position, len(names))
                message = msg("{where}: rank {rank} sees other {names} than rank 0; give all ranks the same run").fill(
                    where, rank, names[number]
                )
                # one line, of one rank
                if self.is_first:
                    raise DataError(message)
                lost = LostRankError(message)
                # whichever of them ends first
                lost.explained_by = DataError.exit_code
                raise lost

    def _sum(self, values: Sequence[float]) -> list[float]:
        vector = torch.tensor(values, dtype=torch.float64)
        with answering():
            dist.all_reduce(vector)
        numbers: list[float] = vector.tolist()
        return numbers
