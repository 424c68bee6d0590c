"""The server in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def started(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server and its address."""
    path = os.pathsep.join([str(ROOT / "runtime/src"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "dikkat_runtime", "serve", *map(str, arguments), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stderr is not None
        # kernels may have to be compiled first, which is told line by line
        line = next((line for line in process.stderr if "kernels" not in line), "")
        result = re.search(r"http://\S+", line)
        assert result, line
        yield process, result[0]
    finally:
        process.kill()
        process.communicate()
