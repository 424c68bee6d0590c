"""Preparation in memory that does not grow with the pairs: what is trained on is never a list."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.python_path import PYTHON_PATH

MEASURED = """
import json, sys
from pathlib import Path
from dikkat.data import corpus, disk_arrays
from dikkat.data.batching import BatchPlan, collate
from dikkat.data.corpus import Corpus
from dikkat.run_directory import RunDirectory
from dikkat.tasks.translation import prepare as preparation
from dikkat.tasks.translation.prepare import TrainRequest, prepare
from tests.peak_memory import peak_mebibytes
preparation._ENCODED_AT_ONCE = 500
disk_arrays.SORTED_AT_ONCE, disk_arrays.KEPT_BYTES, corpus._BUFFERED_TOKENS = 2_000, 1 << 16, 1 << 16
settings = {"tokenizer": {"kind": "characters"}, "data": {"validation_pairs": 50, "test_pairs": 50}}
for name in sys.argv[1:]:
    run = RunDirectory.create(Path(name).with_suffix(""))
    config, report = prepare(TrainRequest([name], settings=settings), run)
    pairs = Corpus.open(run.corpus, "train", vocab_size=config.model.vocab_size)
    plan = BatchPlan(pairs.lengths("source"), pairs.lengths("target"), 2048, 1, directory=pairs.directory)
    for position in range(50):
        collate(pairs, plan.at(position)[1])
    trained = len(pairs) - run.read_config()["data_source"]["copies"]
    print(json.dumps([report.kept, trained, peak_mebibytes()]))
"""
"""With small buffers, so that few pairs fill them. Prepares each file, makes fifty batches, and prints kept pairs,
pairs to train on, and the peak in MiB."""


def word(number: int) -> str:
    return "".join(chr(97 + number // 26**place % 26) for place in range(5))


def measured(folder: Path, *counts: int) -> list[tuple[int, int, float]]:
    """Write files of so many pairs, prepare them in turn in one process, and return what it prints."""
    paths = [folder / f"{count}.en-tr.tsv" for count in counts]
    for path, count in zip(paths, counts, strict=True):
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"a {word(n)} has gone home\tbir {word(n)} eve gitti\n" for n in range(count))
    command = [sys.executable, "-c", MEASURED, *map(str, paths)]
    paths_of_modules = os.pathsep.join([PYTHON_PATH, str(Path(__file__).resolve().parents[3])])
    environment = {**os.environ, "PYTHONPATH": paths_of_modules, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is told by Linux alone")
# eight seconds at 45,000 pairs already: two processes that load PyTorch
@pytest.mark.nightly
@pytest.mark.parametrize("count", [45_000, 900_000])
def test_memory_does_not_grow_with_the_pairs(tmp_path: Path, count: int) -> None:
    small, large = measured(tmp_path, count // 9, count)
    assert (small[:2], large[:2]) == ((count // 9, count // 9 - 100), (count, count - 100))
    # one list of the pairs alone adds 9 MiB, at 40,000 pairs more
    assert large[2] < small[2] + 14, (small, large)
