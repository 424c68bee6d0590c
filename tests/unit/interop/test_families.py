"""A family of models is one short file that is found by being there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.interop.checkpoints import bert_folder

from dikkat.interop import families as package
from dikkat.interop.family import families
from dikkat.interop.importing import read_foreign
from dikkat_runtime.errors import DataError

MAX_LINES = 80
ADDED = """from dikkat.interop.families.bert import keys, settings
from dikkat.interop.family import Family

ADDED = Family(("bert_of_a_test",), "encoder", keys, settings, ("bert.",))
"""


def is_short(path: Path) -> bool:
    return len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", sorted(Path(package.__path__[0]).glob("*.py")), ids=lambda path: path.stem)
def test_a_family_is_short(path: Path) -> None:
    assert is_short(path)


def test_a_planted_long_family_is_found(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("x = 1\n" * (MAX_LINES + 1))
    assert not is_short(tmp_path / "long.py")


READERS = ("importing", "pairs", "family", "family_settings", "rotary_settings", "checkpoint_folder")


def test_no_reader_names_a_family() -> None:
    """What the tables of a family do not say, no file that reads them may say in their place."""
    texts = {name: (Path(package.__path__[0]).parent / f"{name}.py").read_text(encoding="utf-8") for name in READERS}
    assert {(name, kind) for name, text in texts.items() for kind in families() if f'"{kind}"' in text} == set()


def test_a_family_is_added_by_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bert_folder(tmp_path / "theirs", model_type="bert_of_a_test")
    with pytest.raises(DataError, match="model_type 'bert_of_a_test' is not supported"):
        read_foreign(folder)
    (tmp_path / "added.py").write_text(ADDED)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    families.cache_clear()
    try:
        assert read_foreign(folder).task == "encoder"
    finally:
        families.cache_clear()
