"""How files are shared out among workers and tasks, and what is said of the time that is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from dikkat_runtime.localization import clock_time
from dikkat_runtime.rows.contract import Format
from dikkat_runtime.shards.call import plan_shards, shards_of_part
from dikkat_runtime.shards.driver import Progress, estimate_line
from dikkat_runtime.shards.work import MAX_PARTS, SPLIT_FROM, Shard, Work, share_out
from dikkat_runtime.shards.writing import joined


def shard(name: str, size: int) -> Shard:
    return Shard(Path(name), Path("out") / name, Format("text"), size)


@pytest.mark.parametrize("workers", [1, 3, 8, 64])
def test_work_is_of_like_size_the_largest_first_and_all_of_it(workers: int) -> None:
    shards = [shard("small", 10), shard("large", 40 * SPLIT_FROM), shard("medium", SPLIT_FROM), shard("empty", 0)]
    work = share_out(shards, workers)
    assert sum(item.size for item in work) == pytest.approx(sum(one.size for one in shards))
    sizes = [item.size for item in work]
    assert sizes == sorted(sizes, reverse=True)
    for one in shards:
        parts = [item for item in work if item.shard is one]
        assert sorted(item.part for item in parts) == list(range(parts[0].parts))
        assert len(parts) <= (min(workers, MAX_PARTS) if one.size >= SPLIT_FROM else 1)
    assert len([item for item in work if item.shard is shards[1]]) == min(workers, MAX_PARTS)


def test_joining_takes_no_bytes_and_counts_of_parts_are_added_up() -> None:
    one = shard("a", 4 * SPLIT_FROM)
    assert Work(one, 1, 4).size == SPLIT_FROM
    assert Work(one, 0, 4, {"counts": {}, "states": []}).size == 0
    replies = [{"counts": {"x": 1, "y": 2}, "state": [1, 2]}, {"counts": {"x": 3}, "state": [1, 2]}]
    assert joined(replies) == {"counts": {"x": 4, "y": 2}, "states": [(1, 2)]}
    assert len(joined([replies[0], {"counts": {}, "state": [9, 2]}])["states"]) == 2


@pytest.mark.parametrize("total", [1, 3, 7, 20])
def test_every_file_belongs_to_one_task(total: int) -> None:
    shards = [shard(str(number), number) for number in range(10)]
    tasks = [shards_of_part(shards, f"{number}/{total}") for number in range(1, total + 1)]
    assert sorted((one for task in tasks for one in task), key=lambda one: one.size) == shards
    assert max(map(len, tasks)) - min(map(len, tasks)) <= 1


def test_files_of_folders_keep_their_paths_and_what_is_hidden_or_written_is_left_out(tmp_path: Path) -> None:
    data = tmp_path / "data"
    names = ["b/a.txt", "a/a.txt", "a/b.md", ".hidden.txt", "_SUCCESS.txt", "a/_temporary/a.txt", "out/old.txt"]
    for name in names:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        # those of the folder "a" are the largest
        (data / name).write_text("x" * (100 if name.startswith("a") else 1))
    plan = plan_shards([data], data / "out")
    outputs = [one.output.relative_to(data / "out").as_posix() for one in plan.shards]
    assert outputs == ["a/a.txt", "b/a.txt"], "in the order of their names"
    assert plan.passed_over == [data / "a/b.md"]


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_is_left_follows_from_the_share_that_is_done() -> None:
    clock, shards = Clock(), [shard("a", 100), shard("b", 300)]
    progress = Progress(shards, None, clock)
    clock.now += 30
    progress.at(0, Work(shards[0]), 60, 1.0)
    assert progress.line() == "0 of 2 files, 60 rows, 2 rows/s, 1:30 left"
    progress.done(0, 100, 60)
    progress.at(0, Work(shards[1]), 15, 0.5)
    clock.now += 20
    assert progress.line() == "1 of 2 files, 75 rows, 2 rows/s, 0:30 left"
    progress.lost(0)
    assert progress.line().startswith("1 of 2 files, 60 rows, 1 rows/s")
    # rows of a file whose parts are joined were counted with the parts
    progress.at(0, Work(shards[1], 0, 2, {"counts": {}, "states": []}), 99, 0.5)
    assert progress.line().startswith("1 of 2 files, 60 rows")
    progress.done(0, 300, 40)
    assert progress.line() == "2 of 2 files, 100 rows, 2 rows/s"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0:00"), (59.4, "0:59"), (59.6, "1:00"), (3599.7, "1:00:00"), (36_061, "10:01:01")],
)
def test_a_time_is_hours_minutes_and_seconds(seconds: float, shown: str) -> None:
    assert clock_time(seconds) == shown


def test_an_estimate_goes_by_bytes_and_is_shared_by_workers() -> None:
    shards = [shard("a.txt", 100), shard("b.txt", 300)]
    sample = {"rows": 10, "seconds": 60}
    assert (
        estimate_line(sample, shards[0], shards, 1)
        == "about 40 rows in 2 files: 4:00 (estimated from the first rows of a.txt)"
    )
    assert estimate_line(sample, shards[0], shards, 2, threads=3) == (
        "about 40 rows in 2 files: 2:00 by 2 workers, 12:00 of processor time (estimated from the first rows of a.txt)"
    )
