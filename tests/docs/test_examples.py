"""The scripts of `examples/` run, print what their README promises, and are all named there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from examples import position_probe, read_maps

from dikkat.explain.attention_map import AttentionMap, SentenceMaps
from dikkat.explain.map_files import write_json, write_npz

FOLDER = Path(__file__).resolve().parents[2] / "examples"


def test_the_readme_names_every_script() -> None:
    named = re.findall(r"^\| `(\w+\.py)` \|", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(path.name for path in FOLDER.glob("*.py"))


def test_positions_fade_unless_every_layer_adds_them(capsys: pytest.CaptureFixture[str]) -> None:
    position_probe.main()
    once, again = ([float(number) for number in line.split()[-9:]] for line in capsys.readouterr().out.splitlines())
    assert once[0] == again[0]
    assert once[-1] < once[0]
    assert again[-1] > 0.9


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_the_reader_names_the_word_that_each_token_looks_at(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reads, writes = ("▁red", "▁dog", "<eos>"), ("<bos>", "▁chien", "▁rouge")
    weights = np.array([[0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.0, 0.1, 0.9]], np.float32)
    first = np.roll(weights, 1, axis=1)
    maps = tuple(
        AttentionMap(rows, writes, reads, "decoder", layer, 0, "cross") for layer, rows in enumerate((first, weights))
    )
    path = tmp_path / f"maps{suffix}"
    write = {".json": write_json, ".npz": write_npz}[suffix]
    write([SentenceMaps("red dog", "chien rouge", reads, writes, maps)], path)
    read_maps.main(path)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["red", "dog", "->", "chien", "rouge"], ["▁chien", "▁dog", "0.80"], ["▁rouge", "▁red", "0.70"],
    ]  # fmt: skip
