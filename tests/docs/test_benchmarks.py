"""Every benchmark says what it does, and does so without the toolkit, its peers or data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-S", str(BENCHMARKS / "train_speed.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_help_of_train_speed_says_what_is_measured() -> None:
    done = run("--help")
    assert done.returncode == 0, done.stderr
    for promised in ("target tokens a second", "MarianMT", "--rounds", "--threads", "--data", "--env"):
        assert promised in " ".join(done.stdout.split())


def test_missing_data_is_said_loudly_and_nothing_is_installed(tmp_path: Path) -> None:
    done = run("--data", str(tmp_path), "--env", str(tmp_path / "env"))
    assert done.returncode == 66
    assert f"{tmp_path / 'train.en.gz'}: not there" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "env").exists()
