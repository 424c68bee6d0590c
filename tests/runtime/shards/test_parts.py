"""A large file in parts: the output of all is, byte by byte, that of one worker; the last ones end together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.shards.shouting import FINGERPRINT, ShoutingModel, job

from dikkat_runtime.errors import DikkatError, DiskError, StoppedError
from dikkat_runtime.rows import line_rows, parquet_rows
from dikkat_runtime.rows.contract import Column, Format, Values, format_of
from dikkat_runtime.shards.work import MAX_PARTS, Job, Shard, Work, share_out, to_json
from dikkat_runtime.shards.writing import answer_part, join_parts, joined, write_shard


class EveryKind(ShoutingModel):
    """Fills a column of every kind."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.columns = [
            Column("shouted", "text"), Column("length", "number"), Column("words", "texts"), Column("vector", "vector")
        ]  # fmt: skip

    def answers(self, texts: Sequence[str]) -> list[Values]:
        """Return capitals, their number, words, and a vector that decimals would change."""
        self.counts["cut"] += len(texts)
        return [
            (text.upper(), len(text) / 3, text.split(), np.array([len(text) / 3, -np.pi, 1e-30], np.float32))
            for text in texts
        ]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (line_rows, parquet_rows):
        monkeypatch.setattr(module, "CHUNK_ROWS", 3)


def write_rows(path: Path, format_name: str) -> None:
    """Write rows with gaps, and in text formats some that fail."""
    texts = [f"row {number} çığ" if number % 5 != 4 else None for number in range(23)]
    if format_name == "parquet":
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as parquet

        parquet.write_table(pa.table({"id": range(23), "text": texts}), path, row_group_size=7)
        return
    if format_name == "jsonl":
        lines = [json.dumps({"id": number, "text": text}) for number, text in enumerate(texts)]
        lines[8] = "no JSON"
    else:
        lines = ["id\ttext", *(f"{number}\t{text or ''}" for number, text in enumerate(texts))]
        lines[8] = "one cell"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize("parts", [2, 5, 12])
@pytest.mark.parametrize("format_name", ["jsonl", "tsv", "parquet"])
def test_parts_join_to_the_output_of_one_worker(format_name: str, parts: int, tmp_path: Path) -> None:
    source = tmp_path / f"a.{format_name}"
    write_rows(source, format_name)
    shards = [Shard(source, tmp_path / name / source.name, format_of(source) or Format("text")) for name in "xy"]
    whole = write_shard(shards[0], job(), EveryKind(job()), FINGERPRINT, lambda rows, fraction: None)
    work = [Work(shards[1], part, parts) for part in range(parts)]
    model = EveryKind(job())
    # in any order, and one of them twice, as after a death
    replies = [answer_part(item, job(), model, lambda rows, fraction: None) for item in [work[0], *work[::-1]]][1:]
    assert sum(reply["rows"] for reply in replies) == 23 == whole["rows"]
    join = Work.from_json(json.loads(json.dumps(to_json(Work(shards[1], 0, parts, joined(replies))))))
    record = join_parts(join, job(), model, FINGERPRINT, lambda rows, fraction: None)
    assert record == whole
    assert record["cut"] == {"jsonl": 18, "tsv": 22, "parquet": 19}[format_name]
    for path in join.answers:
        path.unlink()
    ours, theirs = ({path.name: path.read_bytes() for path in shard.output.parent.iterdir()} for shard in shards)
    assert ours == theirs


def test_a_file_that_changes_between_its_parts_is_not_joined(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("one\n" * 20)
    shard, model = Shard(source, tmp_path / "out" / "a.txt", Format("text")), ShoutingModel(job())
    replies = [answer_part(Work(shard, 0, 2), job(), model, lambda rows, fraction: None)]
    source.write_text("two and more\n" * 20)
    replies.append(answer_part(Work(shard, 1, 2), job(), model, lambda rows, fraction: None))
    with pytest.raises(StoppedError, match=r"a\.txt: changed while it was read"):
        join_parts(Work(shard, 0, 2, joined(replies)), job(), model, FINGERPRINT, lambda rows, fraction: None)
    work = Work(shard, 0, 2, joined(replies[1:]))
    work.answers_of(0).write_bytes(b'["ONE"]\n')
    with pytest.raises(DikkatError, match="part-1-of-2: holds too few answers"):
        join_parts(work, job(), model, FINGERPRINT, lambda rows, fraction: None)
    assert not shard.output.exists()


def test_a_disk_that_fills_while_a_part_is_answered_is_a_full_disk(tmp_path: Path) -> None:
    """What is still buffered cannot be written either when the file is closed."""
    import resource

    source = tmp_path / "a.txt"
    source.write_text("".join(f"{number} text\n" for number in range(20_000)))
    work = Work(Shard(source, tmp_path / "out" / "a.txt", Format("text")), 0, 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(DiskError, match="writing failed: File too large"):
            answer_part(work, job(), ShoutingModel(job()), lambda rows, fraction: None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_large_files_are_shared_out_so_that_workers_end_together() -> None:
    def parts(sizes: Sequence[int], workers: int) -> list[int]:
        shards = [Shard(Path(f"{n}"), Path(f"out/{n}"), Format("text"), size) for n, size in enumerate(sizes)]
        work = share_out(shards, workers)
        assert [item.size for item in work] == sorted((item.size for item in work), reverse=True)
        assert sum(item.size for item in work) == pytest.approx(sum(sizes))
        return [sum(item.shard is shard for item in work) for shard in shards]

    mega = 1 << 20
    assert parts([100 * mega], 1) == [1]
    assert parts([100 * mega], 2) == [2]
    assert parts([100 * mega], 64) == [MAX_PARTS]
    # with twenty files none is more than a tenth of a worker's share
    assert parts([10 * mega] * 20, 2) == [1] * 20
    assert parts([100 * mega, 10 * mega, 10 * mega], 2) == [2, 1, 1]
    # a few chunks are not worth it
    assert parts([mega - 1], 2) == [1]
