"""A family of models is one short file that is found by being there."""

from __future__ import annotations

from pathlib import Path

import pytest

from dikkat.interop import families as package
from dikkat.interop.family import families

MAX_LINES = 80


@pytest.mark.parametrize("path", sorted(Path(package.__path__[0]).glob("*.py")), ids=lambda path: path.stem)
def test_a_family_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_a_family_is_added_by_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "tiny_llama_of_a_test" not in families()
    (tmp_path / "added.py").write_text(
        "from dikkat.interop.families.llama import keys, settings\n"
        "from dikkat.interop.family import Family\n"
        'ADDED = Family(("tiny_llama_of_a_test",), "lm", keys, settings, ("model.",))\n'
    )
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    families.cache_clear()
    try:
        assert families()["tiny_llama_of_a_test"].task == "lm"
    finally:
        families.cache_clear()
