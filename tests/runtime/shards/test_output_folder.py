"""The folder of the outputs: what is removed of it, who may write it together, and what a power cut leaves in it."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.attacks.faulty_files import watched
from tests.attacks.power_cut import Disk
from tests.runtime.shards.shouting import FINGERPRINT, ShoutingModel, job

from dikkat_runtime.errors import CannotCreateError, DataError, UsageError
from dikkat_runtime.rows.contract import Format
from dikkat_runtime.rows.locks import locked
from dikkat_runtime.shards.work import Shard, Work
from dikkat_runtime.shards.writing import describe, missing_shards, remaining_shards, remove_half_written, write_shard

OTHER = {"model": "shouting", "options": {"beam": 5}}


def shard_of(folder: Path, name: str = "a.txt", content: str = "one\ntwo\n") -> Shard:
    source = folder / "in" / name
    source.parent.mkdir(exist_ok=True)
    source.write_text(content)
    return Shard(source, folder / "out" / name, Format("text"), len(content))


def write(shard: Shard) -> None:
    write_shard(shard, job(), ShoutingModel(job()), FINGERPRINT, lambda rows, fraction: None)


def test_what_another_task_has_half_written_stays(tmp_path: Path) -> None:
    """A name may begin with that of another file and a dash."""
    shard = shard_of(tmp_path, "data")
    names = [".writing-data-1-0123abcd", ".writing-data-1-part-1-of-2", ".writing-_data-1.json-0123abcd", ".writing-x"]
    own = [".writing-data-0123abcd", ".writing-_data.json-01234567", ".writing-_data.errors.jsonl-01234567"]
    answers = [Work(shard, part, 2).answers_of(part).name for part in range(2)]
    shard.output.parent.mkdir()
    for name in (*names, *own, *answers):
        (shard.output.parent / name).touch()
    remove_half_written([shard], keep_answers=True)
    assert sorted(path.name for path in shard.output.parent.iterdir()) == sorted([*names, *answers])
    remove_half_written([shard])
    assert sorted(path.name for path in shard.output.parent.iterdir()) == sorted(names)


def test_what_was_left_beside_a_whole_output_is_removed(tmp_path: Path) -> None:
    """A driver may be killed after the parts of a file are joined, before their answers are removed."""
    shard = shard_of(tmp_path)
    write(shard)
    Work(shard, 0, 2).answers_of(0).touch()
    assert missing_shards([shard], FINGERPRINT, force=False) == []
    assert sorted(path.name for path in shard.output.parent.iterdir()) == ["_a.txt.json", "a.txt"]


def test_an_estimate_is_of_what_is_missing_and_removes_nothing(tmp_path: Path) -> None:
    whole, edited, missing = (shard_of(tmp_path, name) for name in ("a.txt", "b.txt", "c.txt"))
    write(whole)
    write(edited)
    edited.output.write_text("mine\n")
    half = missing.output.with_name(".writing-c.txt-0123abcd")
    half.touch()
    assert remaining_shards([whole, edited, missing], FINGERPRINT) == [edited, missing]
    assert half.exists()


def test_an_output_that_was_edited_to_the_same_size_is_refused(tmp_path: Path) -> None:
    shard = shard_of(tmp_path)
    write(shard)
    shard.output.write_text("ONE\nTWo\n")
    later = shard.record.stat().st_mtime_ns + 1_000_000_000
    os.utime(shard.output, ns=(later, later))
    with pytest.raises(DataError, match=r"a\.txt: has changed since it was written; --force makes it again"):
        missing_shards([shard], FINGERPRINT, force=False)
    assert missing_shards([shard], FINGERPRINT, force=True) == [shard]
    # a copy has a later time too
    shard.output.write_text("ONE\nTWO\n")
    os.utime(shard.output, ns=(later, later))
    assert missing_shards([shard], FINGERPRINT, force=False) == []


def test_a_whole_output_whose_record_is_of_an_older_version_is_passed_over(tmp_path: Path) -> None:
    shard = shard_of(tmp_path)
    write(shard)
    record = json.loads(shard.record.read_text())
    del record["output_sha256"]
    shard.record.write_text(json.dumps(record))
    os.utime(shard.record, (1, 1))
    assert missing_shards([shard], FINGERPRINT, force=False) == []


def test_a_task_holds_its_part_however_it_is_written(tmp_path: Path) -> None:
    with locked(tmp_path, "1/2"):
        for part in ("01/2", "1/02"):
            with pytest.raises(CannotCreateError, match="another command is writing here"), locked(tmp_path, part):
                pass
        with locked(tmp_path, "2/2"):
            pass


def test_tasks_of_another_array_share_the_files_otherwise(tmp_path: Path) -> None:
    message = "tasks of --shard …/2 are writing here, which divide the files differently"
    with locked(tmp_path, "1/2"), pytest.raises(CannotCreateError, match=message), locked(tmp_path, "1/3"):
        pass
    with locked(tmp_path, "1/3"):
        pass


def test_what_a_task_writes_by_is_not_replaced_by_another(tmp_path: Path) -> None:
    """No file is whole yet, so that nothing but the description tells by what the first task works."""
    with ExitStack() as stack:
        stack.enter_context(locked(tmp_path, "1/2", lambda alone: describe(tmp_path, FINGERPRINT, force=False)))
        description = (tmp_path / "_job.json").read_bytes()
        seen = list[bool]()
        for force in (False, True):

            def begin(is_alone: bool, force: bool = force) -> None:
                seen.append(is_alone)
                describe(tmp_path, OTHER, force=force, is_alone=is_alone)

            message = "is being written by beam false, not 5; wait until that ends, or give another --out"
            with pytest.raises(UsageError, match=message), locked(tmp_path, "2/2", begin):
                pass
        assert seen == [False, False]
        assert (tmp_path / "_job.json").read_bytes() == description
    with locked(tmp_path, "2/2", lambda alone: describe(tmp_path, OTHER, force=False, is_alone=alone)):
        assert json.loads((tmp_path / "_job.json").read_bytes()) == OTHER


def test_whatever_a_power_cut_leaves_of_an_output_it_has_its_record(tmp_path: Path) -> None:
    changes: list[tuple[str, Path, tuple[Any, ...]]] = []
    shard = replace(shard_of(tmp_path, content="one\n"), output=tmp_path / "disk" / "out" / "a.txt")
    (root := tmp_path / "disk").mkdir()
    with watched(root, lambda call, path, rest: changes.append((call, path, rest))):
        write(shard)
    disk, whole = Disk(root), 0
    for number, change in enumerate(changes):
        disk.apply(*change)
        (after := tmp_path / f"after-{number}").mkdir()
        disk.materialize(after)
        if (after / "out" / "a.txt").exists():
            whole += 1
            assert (after / "out" / "a.txt").read_text() == "ONE\n"
            record = json.loads((after / "out" / "_a.txt.json").read_text())
            assert (record["rows"], record["output_bytes"]) == (1, 4)
    assert whole
