"""What the environment tells a session of pytest reaches the workers that run its tests, and no other session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "tests/unit/evaluation"
WORKERS = ["-n", "1", "--dist", "loadfile"]
LEFT_OUT, RUN = f"{FOLDER}/test_bleu_k.py", f"{FOLDER}/test_baselines.py"


def test_files_that_the_environment_leaves_out_are_not_run_by_a_worker() -> None:
    """As `.ci/run` leaves out what passed before."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        "-k",
        "bleu_k or baselines",
        *WORKERS,
        FOLDER,
    ]
    environment = {**os.environ, "PYTEST_ADDOPTS": f"--ignore={LEFT_OUT}"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{RUN}::" in done.stdout
    assert f"{LEFT_OUT}::" not in done.stdout
