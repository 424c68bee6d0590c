"""Messages in Turkish: every one is in a catalog, no entry is stale, and what is filled in stays what it is."""

from __future__ import annotations

import ast
import re
import tracemalloc
from pathlib import Path

import pytest
from tests.spoken_strings import FOREIGN, SOURCES, every_string, spoken_strings, strings_of

from dikkat_runtime.errors import UsageError
from dikkat_runtime.localization import language_of, pop_language_option
from dikkat_runtime.message_catalog import Catalog, read_entries

CATALOGS = {
    "dikkat_runtime": SOURCES["dikkat_runtime"] / "locale/tr/LC_MESSAGES/dikkat-runtime.po",
    "dikkat": SOURCES["dikkat"] / "locale/tr/LC_MESSAGES/dikkat.po",
}
FILLED_IN = re.compile(r"\{(\d+)(?:!s)?\}")


def entries(*packages: str) -> dict[str, str]:
    return {text: spoken for package in packages for text, spoken in read_entries(CATALOGS[package])}


TURKISH = Catalog.of(entries("dikkat_runtime", "dikkat"))


@pytest.mark.parametrize("package", ["dikkat_runtime", "dikkat"])
def test_every_message_of_the_sources_is_in_the_catalog(package: str) -> None:
    # the runtime has its own catalog alone; dikkat has both
    known = entries("dikkat_runtime") if package == "dikkat_runtime" else entries("dikkat_runtime", "dikkat")
    missing = [f"{found.where}: {found.text}" for found in spoken_strings(package) if found.text not in known]
    assert not missing, "add to the catalog:\n" + "\n".join(missing)


@pytest.mark.parametrize("package", ["dikkat_runtime", "dikkat"])
def test_no_entry_of_a_catalog_is_stale(package: str) -> None:
    sources = every_string(package) | {found.text for found in spoken_strings(package)}
    foreign = FOREIGN if package == "dikkat_runtime" else set()
    stale = [text for text in entries(package) if text not in sources and text not in foreign]
    assert not stale, "no source has:\n" + "\n".join(stale)


def test_what_is_filled_in_is_the_same_on_both_sides() -> None:
    for text, spoken in entries("dikkat_runtime", "dikkat").items():
        assert sorted(set(FILLED_IN.findall(text))) == sorted(set(FILLED_IN.findall(spoken))), text
        # a switch, a key or a file name is the same in every language
        assert set(re.findall(r"--[a-z][a-z-]+", text)) == set(re.findall(r"--[a-z][a-z-]+", spoken)), text


def test_a_planted_message_is_seen_as_missing() -> None:
    planted = 'def check(path):\n    raise DataError(f"{path}: is a frog; kiss it")\n'
    assert [text for _, text in strings_of(ast.parse(planted), is_command=False, ignored=())] == [
        "{0}: is a frog; kiss it"
    ]


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("runs/x: there is no such run directory", "runs/x: böyle bir koşu klasörü yok"),
        ("dikkat: runs/x: there is no such run directory", "dikkat: runs/x: böyle bir koşu klasörü yok"),
        # what is quoted is what the user typed, though it is a word of the catalog as well
        (
            'a.tsv:1: no column is called "source"; did you mean "target"?; known: text',
            'a.tsv:1: "source" adlı bir sütun yok; şunu mu demek istediniz: "target"?; bilinenler: text',
        ),
        ("line 3: is word, taken for text (98.2 %)", "3. satır: doğrusu word, text sanıldı (% 98.2)"),
        # the numbers change places
        ("read 1,000 pairs, kept 990", "1,000 çift okundu, 990 tutuldu"),
        ("12 layers", "12 katman"),
        # the full stop is that of the sentence, not of the number before it
        (
            "dikkat: Invalid value for '--beam': Input should be greater than or equal to 1. Try"
            " `dikkat attend --help`.",
            "dikkat: '--beam' için geçersiz değer: en az 1 olmalı. `dikkat attend --help` deneyin.",
        ),
        (
            "dikkat: Invalid value for '--to': 'x' is not one of 'web', 'keras'. Try `dikkat export --help`.",
            "dikkat: '--to' için geçersiz değer: 'x' şunlardan biri değil: 'web', 'keras'."
            " `dikkat export --help` deneyin.",
        ),
        (
            "dikkat: Invalid value for '--share': Input should be a valid number, unable to parse string as a number."
            " Try `dikkat interpolate --help`.",
            "dikkat: '--share' için geçersiz değer: bir sayı olmalı. `dikkat interpolate --help` deneyin.",
        ),
        (
            "dikkat: Missing argument 'run'. Try `dikkat x --help`.",
            "dikkat: 'run' argümanı eksik. `dikkat x --help` deneyin.",
        ),
        # one message in another, whose parts stay where they are
        (
            "wrote x; compared with the run on 200 sentences by ONNX Runtime 1.2: the same text by greedy search,"
            " logits within 3e-06, cross-attention within 9e-07",
            "x yazıldı; koşuyla karşılaştırıldı: 200 cümle (ONNX Runtime 1.2): açgözlü aramayla aynı metin,"
            " logitlerde en büyük fark 3e-06, çapraz dikkatte en büyük fark 9e-07",
        ),
        (
            "wrote x; compared with the run on 9 texts by Keras 3.15.1 on torch: the same label, logits within 4e-06,"
            " weights of pooling within 1e-07",
            "x yazıldı; koşuyla karşılaştırıldı: 9 metin (Keras 3.15.1, torch üzerinde): aynı etiket,"
            " logitlerde en büyük fark 4e-06, ortaklama ağırlıklarında en büyük fark 1e-07",
        ),
        ("a sentence that no catalog has, or text", "a sentence that no catalog has, or text"),
        ("  left out 3: empty side, as line 3: a → b", "  dışarıda kalan 3: boş taraf, örneğin satır 3: a → b"),
        (
            "dikkat: Got unexpected extra argument(s) (a b). Try `dikkat translate --help`.",
            "dikkat: Beklenmeyen fazla argüman (a b). `dikkat translate --help` deneyin.",
        ),
    ],
)
def test_messages_are_said_in_turkish(text: str, spoken: str) -> None:
    assert TURKISH.say(text) == spoken


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({}, "en"),
        ({"LANG": "tr_TR.UTF-8"}, "tr"),
        ({"LANG": "tr_TR.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ({"LANG": "tr_TR.UTF-8", "LC_MESSAGES": "de_DE.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8", "LANGUAGE": "az:tr:en"}, "tr"),
        ({"LANG": "C", "LANGUAGE": "tr"}, "en"),
        ({"LANG": "tr_TR.UTF-8", "LANGUAGE": "en"}, "en"),
    ],
)
def test_the_language_is_that_of_the_locale(environment: dict[str, str], code: str) -> None:
    assert language_of(environment) == code


def test_the_option_is_taken_anywhere_before_a_double_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dikkat_runtime.localization._chosen", chosen := ["en"])
    assert pop_language_option(["heads", "x"]) == ["heads", "x"]
    assert chosen == []
    assert pop_language_option(["heads", "--language", "tr", "x"]) == ["heads", "x"]
    assert chosen == ["tr"]
    assert pop_language_option(["--language=en", "heads", "--", "--language", "tr"]) == [
        "heads",
        "--",
        "--language",
        "tr",
    ]
    assert chosen == ["en"]
    with pytest.raises(UsageError, match="choose from en, tr"):
        pop_language_option(["--language", "de"])


def test_a_catalog_is_read_as_gettext_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "x.po"
    path.write_text(
        'msgid ""\nmsgstr ""\n"Language: tr\\n"\n\n#: a.py:3\nmsgid ""\n"one \\"two\\" "\n"three\\n"\n'
        'msgstr ""\n"bir "\n"iki"\n\nmsgid "not yet"\nmsgstr ""\n',
        encoding="utf-8",
    )
    assert read_entries(path) == [('one "two" three\n', "bir iki")]


def test_messages_that_differ_each_time_take_no_memory_without_end() -> None:
    catalog = Catalog.of({"{0} rows": "{0} satır"})
    tracemalloc.start()
    try:
        for number in range(20_000):
            assert catalog.say(f"{number} rows") == f"{number} satır"
        assert tracemalloc.get_traced_memory()[0] < 2 << 20
    finally:
        tracemalloc.stop()
