"""Memory that does not grow with a file, and workers that are actors of Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.peak_memory import FREED_AT_ONCE
from tests.python_path import PYTHON_PATH
from tests.runtime.shards.test_killed import ROOT

from dikkat_runtime.errors import MissingInputError
from dikkat_runtime.shards.ray_workers import reach_ray

MEASURED = """
import json, sys
from pathlib import Path
from tests.peak_memory import peak_mebibytes
from tests.runtime.shards.shouting import FINGERPRINT, ShoutingModel, job
from dikkat_runtime.rows.contract import format_of
from dikkat_runtime.shards.work import Shard
from dikkat_runtime.shards.writing import write_shard
path = Path(sys.argv[1])
shard = Shard(path, path.parent / "out" / path.name, format_of(path))
record = write_shard(shard, job(), ShoutingModel(job()), FINGERPRINT, lambda rows, fraction: None)
print(json.dumps([record["rows"], peak_mebibytes()]))
"""


def write_rows(path: Path, count: int) -> None:
    """One row group of a Parquet file, or lines of JSON, with a text of about sixty characters a row."""
    texts = (f"row {n} of a corpus that does not end so soon, with a text in it" for n in range(count))
    if path.suffix == ".jsonl":
        with path.open("w") as file:
            file.writelines(f'{{"id": {n}, "text": "{text}"}}\n' for n, text in enumerate(texts))
        return
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'dikkat-runtime[parquet]'")
    import pyarrow.parquet as parquet

    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, count, 100_000):
            part = range(start, min(start + 100_000, count))
            rows = {"id": part, "text": [next(texts) for _ in part]}
            writer.write_table(pa.table(rows, schema))


def measured(path: Path) -> tuple[int, float]:
    """Rows, and MiB of memory at most."""
    environment = {**os.environ, **FREED_AT_ONCE, "PYTHONPATH": os.pathsep.join([PYTHON_PATH, str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, check=True, env=environment
    )
    rows, mebibytes = json.loads(done.stdout)
    return rows, mebibytes


@pytest.mark.parametrize(
    ("suffix", "count"),
    [
        ("parquet", 250_000),
        pytest.param("jsonl", 250_000, marks=pytest.mark.nightly),
        pytest.param("parquet", 5_000_000, marks=pytest.mark.nightly),
        pytest.param("jsonl", 5_000_000, marks=pytest.mark.nightly),
    ],
)
def test_memory_does_not_grow_with_the_file(suffix: str, count: int, tmp_path: Path) -> None:
    small, large = tmp_path / f"small.{suffix}", tmp_path / f"large.{suffix}"
    # of Parquet several row groups of the output, since freed memory is kept for the next
    write_rows(small, 150_000)
    write_rows(large, count)
    (rows_small, memory_small), (rows_large, memory_large) = measured(small), measured(large)
    assert (rows_small, rows_large) == (150_000, count)
    # the rows that are more would take more than this, were they kept
    assert memory_large < memory_small + 20, (memory_small, memory_large)


def test_memory_does_not_grow_with_a_row_group_of_parquet(tmp_path: Path) -> None:
    """A column of one may have gigabytes."""
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'dikkat-runtime[parquet]'")
    import pyarrow.parquet as parquet

    for name, count in (("small", 10_000), ("large", 30_000)):
        texts = [f"{number} {number * 7919 % 99991} " + "text " * 800 for number in range(count)]
        options = {"compression": "none", "use_dictionary": False}
        parquet.write_table(pa.table({"text": texts}), tmp_path / f"{name}.parquet", row_group_size=count, **options)
    (_, memory_small), (rows, memory_large) = (measured(tmp_path / f"{name}.parquet") for name in ("small", "large"))
    assert rows == 30_000
    # 75 MiB more are in the row group
    assert memory_large < memory_small + 40, (memory_small, memory_large)


@pytest.mark.parametrize(
    ("mode", "ending"), [(None, "; if it asks for a token, set RAY_AUTH_MODE=token"), ("token", "")]
)
def test_an_address_that_does_not_answer_may_ask_for_a_token(
    mode: str | None, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray has a token for each cluster that it starts, and shows it to an address only where the mode says so."""

    def refuse(**options: object) -> None:
        raise ConnectionError(f"Failed to connect\nto {options['address']}")

    ray = SimpleNamespace(is_initialized=lambda: False, init=refuse)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    if mode:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with pytest.raises(MissingInputError) as caught:
        reach_ray("--ray", "dikkat-runtime", "head:6379")
    assert str(caught.value) == f"no Ray at head:6379: Failed to connect to head:6379{ending}"
    with pytest.raises(MissingInputError) as caught:
        reach_ray("--ray", "dikkat-runtime", "")
    assert str(caught.value) == "no Ray at this computer: Failed to connect to local"


@pytest.mark.nightly
@pytest.mark.parametrize("kills", [0, 1])
def test_actors_of_ray_write_the_same(kills: int, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'dikkat-runtime[ray]'")
    from tests.runtime.shards.shouting import FINGERPRINT, job, shout

    from dikkat_runtime.shards.call import plan_shards
    from dikkat_runtime.shards.driver import Driver
    from dikkat_runtime.shards.ray_workers import RayWorkers, ray_share
    from dikkat_runtime.shards.writing import missing_shards

    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text("".join(f"SLOW {number} {row}\n" for row in range(60)))
    shout([folder], tmp_path / "undisturbed")
    plan = plan_shards([folder], tmp_path / "out")
    count, _ = ray_share(None, 1, "", plan.shards)
    workers = RayWorkers(job(), FINGERPRINT)
    driver = Driver(workers, count, missing_shards(plan.shards, FINGERPRINT, force=False), sys.stderr)
    try:
        driver.estimate()
        if kills:
            ray.kill(workers._actors[0])
        result = driver.run()
    finally:
        driver.close()
    assert (len(result.records), result.poison) == (4, {})
    for path in (tmp_path / "undisturbed").glob("[!.]*"):
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
