"""Text that no person writes: it is read, refused in one line, or what is lost of it is counted."""

from __future__ import annotations

import pytest
from tests.runtime.runs import finished, translator_run

from dikkat_runtime.errors import DataError
from dikkat_runtime.tasks.surrogates import FIRST_SYMBOL, LAST_MARK
from dikkat_runtime.tasks.translations import TranslationNotes
from dikkat_runtime.tasks.translator import Translator

CAPACITY = LAST_MARK - FIRST_SYMBOL


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(finished(translator_run(tmp_path_factory.mktemp("bad") / "run", languages=("en", "fr"))))


def noted(translator: Translator, lines: list[str]) -> tuple[list[str], str]:
    notes = TranslationNotes()
    return [one.text for one in translator.stream(lines, notes=notes)], "\n".join(map(str, notes.lines()))


def test_a_lone_surrogate_is_one_line(translator: Translator) -> None:
    with pytest.raises(DataError, match="half of a surrogate pair"):
        translator.translate(["The cat \ud83d sleeps."])


def test_ten_thousand_emoji_in_a_row_come_back_once_each(translator: Translator) -> None:
    ((text,), said) = noted(translator, [f"The cat. {'😀' * 10_000} The dog."])
    assert text.count("😀") == 10_000
    assert "symbols" not in said


def test_symbols_beyond_what_is_carried_are_told(translator: Translator) -> None:
    ((few, many), said) = noted(translator, [f"{'😀 cat ' * count}" for count in (100, CAPACITY + 1)])
    assert few.count("😀") == 100
    assert many.count("😀") == CAPACITY
    assert "1 line had more symbols than can be kept (line 2)" in said


def test_a_hidden_direction_is_told_once(translator: Translator) -> None:
    (_, said) = noted(translator, ["The \u202ecat\u202c \u202edog\u202c sleeps.", "A cat."])
    assert said.count("direction") == 1
    assert "1 line had direction controls" in said
