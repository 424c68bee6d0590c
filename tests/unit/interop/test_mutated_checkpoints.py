"""Folders of Hugging Face, two hundred times cut short and two hundred times with a bit turned: a line, or a model.

Those of Marian, OPUS-MT, CTranslate2 and Argos are damaged beside the other tests of these formats.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.interop.checkpoints import bert_folder, gpt2_folder
from tests.unit.interop.ctranslate2_folders import complaint, damaged
from tests.unit.interop.translators import marian_folder

pytestmark = pytest.mark.nightly

MUTATIONS = 200
FOLDERS: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "MarianMT": (marian_folder, ("config.json", "model.safetensors", "vocab.json", "source.spm", "target.spm")),
    "BERT": (bert_folder, ("config.json", "model.safetensors", "tokenizer.json")),
    "GPT-2": (gpt2_folder, ("config.json", "model.safetensors", "tokenizer.json")),
}
HEADER = 2000
"""Bytes at the beginning of a file that describe the rest; half of the bits are turned there."""


@pytest.mark.parametrize("kind", ["cut", "flipped"])
@pytest.mark.parametrize("name", FOLDERS)
def test_damaged_folders_are_refused_in_a_line_or_read_whole(name: str, kind: str, tmp_path: Path) -> None:
    make, files = FOLDERS[name]
    folder, generator, complaints = make(tmp_path / "theirs"), random.Random(5), list[str]()
    kept = {path.name for path in folder.iterdir()}
    for number in range(MUTATIONS):
        path = folder / files[number % len(files)]
        whole = path.read_bytes()
        begin = whole[:HEADER] if kind == "flipped" and number % 2 else whole
        path.write_bytes(damaged(begin, kind, generator) + whole[len(begin) :])
        complaints.append(complaint(folder))
        path.write_bytes(whole)
    told = [line for line in complaints if line]
    # a turned bit of a weight, of a letter or of a score is another one, since these files have no checksum
    assert len(told) >= MUTATIONS * (0.95 if kind == "cut" else 0.2)
    assert all(line.startswith(str(folder)) and line.isprintable() for line in told)
    assert {path.name for path in folder.iterdir()} == kept
