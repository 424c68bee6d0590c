"""A command that gets no more memory says so in one line with exit code 71, wherever it is at work."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.attacks.commands import Commands, training

MORE_MEGABYTES = 24
"""Enough to begin: the work itself asks for several times as much."""


def out_of_memory(commands: Commands, *arguments: str | Path, more_megabytes: int = MORE_MEGABYTES) -> str:
    result = commands(*arguments, more_megabytes=more_megabytes, timeout=300)
    assert not result.is_bad, result
    assert result.code == 71, result
    return result.stderr.rstrip("\n").split("\n")[-1]


@pytest.fixture
def many_lines(tmp_path: Path) -> Path:
    lines = tmp_path / "many.txt"
    lines.write_text("".join(f"the dog sees {number} red houses and a cat\n" for number in range(400)))
    return lines


def test_translate(commands: Commands, runs: dict[str, Path], many_lines: Path) -> None:
    line = out_of_memory(commands, "translate", runs["translator"], many_lines, "--beam", "40")
    assert line == "dikkat: out of memory; give a smaller --batch-size or --beam"


@pytest.mark.parametrize("kind", ["translator", "classifier", "lm"])
def test_training(commands: Commands, runs: dict[str, Path], tmp_path: Path, kind: str) -> None:
    large = [*training(kind, runs[kind].parent, tmp_path / "run"), "--set=model.model_dim=1024"]
    # with less the L-BFGS of SciPy, which fits the word table, computes for ever: its BLAS finds no room for its buffer
    more = 64 if kind == "classifier" else MORE_MEGABYTES
    line = out_of_memory(commands, *large, more_megabytes=more)
    assert line == "dikkat: out of memory; set a smaller training.tokens_per_batch, model or data.max_length"
    left = [path.name for path in (tmp_path / "run").rglob("*") if path.name.startswith((".writing", ".partial"))]
    assert not left
