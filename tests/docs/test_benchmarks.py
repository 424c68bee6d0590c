"""Every benchmark says what it does without the toolkit, its peers or data, and what needs none of them is tried."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(script: str, *arguments: str, bare: bool = True) -> subprocess.CompletedProcess[str]:
    """`bare` leaves out all that is installed."""
    command = [sys.executable, *(["-S"] if bare else []), str(BENCHMARKS / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("script", "promises"),
    [
        ("train_speed.py", ("target tokens a second", "MarianMT", "--rounds", "--threads", "--data", "--env")),
        ("efficient_attention.py", ("what the efficient forms of attention cost", "--lengths", "--window", "--rounds")),
    ],
)
def test_help_says_what_is_measured(script: str, promises: tuple[str, ...]) -> None:
    done = run(script, "--help")
    assert done.returncode == 0, done.stderr
    for promised in promises:
        assert promised in " ".join(done.stdout.split())


def test_missing_data_is_said_loudly_and_nothing_is_installed(tmp_path: Path) -> None:
    done = run("train_speed.py", "--data", str(tmp_path), "--env", str(tmp_path / "env"))
    assert done.returncode == 66
    assert f"{tmp_path / 'train.en.gz'}: not there" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize("wrong", [("--window", "-1"), ("--lengths", "16", "0"), ("--repeats", "0")])
def test_impossible_sizes_of_efficient_attention_are_refused(wrong: tuple[str, ...]) -> None:
    done = run("efficient_attention.py", *wrong)
    assert done.returncode == 2
    assert "--window must be at least 0, every other number at least 1" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the benchmark reads resident memory from Linux")
def test_efficient_attention_measures_every_form_in_turn() -> None:
    """At a length where nothing is worth timing: the exact forms err by rounding only, the others visibly."""
    done = run(
        "efficient_attention.py", "--rounds", "2", "--repeats", "1", "--lengths", "300", "--window", "20", bare=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    result = json.loads(done.stdout)
    forms = result["found"]["300"]
    assert list(forms) == ["full matrix", "fused kernel", "chunked", "sliding window", "linear"]
    for name, form in forms.items():
        apart = form["errors"]["all keys"]["largest"]
        assert apart > 1e-2 if name in ("sliding window", "linear") else apart <= 1e-5
        ratios = [one["300"]["full matrix"]["seconds"] / one["300"][name]["seconds"] for one in result["rounds"]]
        assert form["times_full_matrix_rounds"] == ratios
        assert form["times_full_matrix"] == pytest.approx(sum(ratios) / 2)
        assert form["seconds"] > 0
    assert forms["sliding window"]["errors"]["keys in the window"]["largest"] <= 1e-5
