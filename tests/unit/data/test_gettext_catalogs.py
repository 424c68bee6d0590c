"""Catalogs: what the bytes of a .mo file hold, as pairs of plain lines."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from unittest import TestCase

import pytest

from dikkat.data.gettext_catalogs import read_catalogs
from dikkat_runtime.errors import MissingInputError, UsageError

HEADER = (
    "Project-Id-Version: x\nContent-Type: text/plain; charset={charset}\nPlural-Forms: nplurals=2; plural={rule};\n"
)


def write_catalog(
    root: Path,
    messages: dict[str, str],
    *,
    language: str = "fr",
    domain: str = "app",
    order: str = "<",
    charset: str = "utf-8",
    rule: str = "(n > 1)",
) -> Path:
    """A .mo file after the GNU gettext manual: magic, revision, count, two tables of (length, offset), strings."""
    entries = {"": HEADER.format(charset=charset, rule=rule), **messages}
    sources = [text.encode(charset) for text in entries]
    targets = [text.encode(charset) for text in entries.values()]
    at = 28 + 16 * len(entries)
    tables, strings = b"", b""
    for text in [*sources, *targets]:
        tables += struct.pack(f"{order}2I", len(text), at + len(strings))
        strings += text + b"\0"
    head = struct.pack(f"{order}7I", 0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, at)
    path = root / language / "LC_MESSAGES" / f"{domain}.mo"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head + tables + strings)
    return path


def read(root: Path, language: str = "fr") -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read_catalogs(language, [root])]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1"])
def test_both_byte_orders_and_the_charset_of_the_header(tmp_path: Path, order: str, charset: str) -> None:
    write_catalog(tmp_path, {"Open file": "Ouvrir le fichier", "Summer": "Été"}, order=order, charset=charset)
    assert read(tmp_path) == [("Open file", "Ouvrir le fichier"), ("Summer", "Été")]


def test_pairs_are_numbered_and_come_once(tmp_path: Path) -> None:
    write_catalog(tmp_path, {"Yes": "Oui", "ctx\4Yes": "Oui", "No": "Non"}, domain="a")
    write_catalog(tmp_path, {"No": "Non", "Maybe": "Peut-être"}, domain="b")
    assert [(p.line, p.source) for p in read_catalogs("fr", [tmp_path])] == [(1, "Yes"), (2, "No"), (3, "Maybe")]


def test_untranslated_and_empty_messages_are_left_out(tmp_path: Path) -> None:
    write_catalog(tmp_path, {"Save": "", "Bash": "Bash", "Kenga": "kenga", "%s: %d": "%d : %s", "Go": "Va"})
    assert read(tmp_path) == [("Go", "Va")]


def test_context_is_no_text(tmp_path: Path) -> None:
    write_catalog(tmp_path, {"verb, menu\4Open": "Ouvrir", "state\4Open": "Ouvert"})
    assert read(tmp_path) == [("Open", "Ouvrir"), ("Open", "Ouvert")]


@pytest.mark.parametrize(
    ("language", "rule", "forms", "expected"),
    [
        ("fr", "(n > 1)", ["%d fichier", "%d fichiers"], ["%d fichier", "%d fichiers"]),
        ("tr", "0", ["%d dosya"], ["%d dosya", "%d dosya"]),
        (
            "pl",
            "(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2)",
            ["%d plik", "%d pliki", "%d plików"],
            ["%d plik", "%d plików"],
        ),
        ("ga", "n==1 ? 0 : n==2 ? 1 : 2", ["%d chomhad", "%d chomhad"], ["%d chomhad", None]),  # a form is missing
    ],
)
def test_plural_forms_follow_the_rule_of_the_language(
    tmp_path: Path, language: str, rule: str, forms: Sequence[str], expected: Sequence[str | None]
) -> None:
    write_catalog(tmp_path, {"%d file\0%d files": "\0".join(forms)}, language=language, rule=rule)
    pairs = zip(["%d file", "%d files"], expected, strict=True)
    assert read(tmp_path, language) == [(source, target) for source, target in pairs if target]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("_File", "_Fichier", ("File", "Fichier")),
        ("E_xit", "_Quitter", ("Exit", "Quitter")),
        ("&Open…", "&Ouvrir…", ("Open…", "Ouvrir…")),
        ("Save _As", "Enregistrer", ("Save As", "Enregistrer")),
        ("_Open", "開く(_O)", ("Open", "開く")),
        ("undefined _start", "_start non défini", ("undefined _start", "_start non défini")),
        ("set LC_ALL", "définissez LC_ALL", ("set LC_ALL", "définissez LC_ALL")),
        ("file_name", "nom_fichier", ("file_name", "nom_fichier")),
        ("AT&T syntax", "syntaxe AT&T", ("AT&T syntax", "syntaxe AT&T")),
        ("Audio & Video", "Audio & Vidéo", ("Audio & Video", "Audio & Vidéo")),
        ("<b>Bold</b> text<br/>", "Texte <b>gras</b>", ("Bold text", "Texte gras")),
        ('<span size="big">Hi</span>', '<span size="big">Salut</span>', ("Hi", "Salut")),
        ("git add <file>", "git add <fichier>", ("git add <file>", "git add <fichier>")),
        ("a &lt; b &amp; so", "a &lt; b &amp; puis", ("a < b & so", "a < b & puis")),
        ("  tidy\t  up  ", " range  tout ", ("tidy up", "range tout")),
        ("%1$s of {name} (%d%%)", "{name} : %1$s (%d %%)", ("%1$s of {name} (%d%%)", "{name} : %1$s (%d %%)")),
    ],
)
def test_markup_goes_and_placeholders_stay(tmp_path: Path, source: str, target: str, expected: tuple[str, str]) -> None:
    write_catalog(tmp_path, {source: target})
    assert read(tmp_path) == [expected]


def test_lines_that_answer_each_other_are_pairs(tmp_path: Path) -> None:
    source = "Usage: %s\n\n  -a, --all   show all\n  -q          be quiet\n"
    target = "Utilisation : %s\n\n  -a, --all   tout afficher\n  -q          se taire\n"
    write_catalog(tmp_path, {source: target})
    assert read(tmp_path) == [
        ("Usage: %s", "Utilisation : %s"),
        ("-a, --all show all", "-a, --all tout afficher"),
        ("-q be quiet", "-q se taire"),
    ]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("The file\nis gone.", "Le fichier a\ndisparu.", ("The file is gone.", "Le fichier a disparu.")),
        ("One.\nTwo.", "Un. Deux.", ("One. Two.", "Un. Deux.")),
        ("One.\n\nTwo.", "Un.\nDeux.\nDeux.", ("One. Two.", "Un. Deux. Deux.")),
        ("-a all\n-b best", "-b mieux\n-a tout", ("-a all -b best", "-b mieux -a tout")),
        ("Lost %s.\nGot %d.", "Perdu %d.\nReçu %s.", ("Lost %s. Got %d.", "Perdu %d. Reçu %s.")),
    ],
)
def test_lines_that_do_not_answer_each_other_stay_together(
    tmp_path: Path, source: str, target: str, expected: tuple[str, str]
) -> None:
    write_catalog(tmp_path, {source: target})
    assert read(tmp_path) == [expected]


def test_a_full_line_goes_on_in_the_next(tmp_path: Path) -> None:
    full = "Otherwise a unit has by default 1024 bytes in every block of"
    write_catalog(tmp_path, {f"{full}\n512 or more.\nEnd.": f"{full} plus de 512.\nFin."})
    assert read(tmp_path) == [(f"{full} 512 or more.", f"{full} plus de 512."), ("End.", "Fin.")]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("fr", {"plain", "home", "encoded"}),
        ("fr_CA", {"canada"}),
        ("fr-ca", {"canada"}),
        ("FR", {"plain", "home", "encoded"}),
    ],
)
def test_a_region_is_taken_only_when_named(tmp_path: Path, language: str, expected: set[str]) -> None:
    for name, folder in {
        "plain": "fr",
        "home": "fr_FR",
        "encoded": "fr.UTF-8",
        "canada": "fr_CA",
        "other": "frp",
    }.items():
        write_catalog(tmp_path, {name: f"le {name}"}, language=folder)
    assert {source for source, _ in read(tmp_path, language)} == expected


def test_a_catalog_with_two_names_is_read_once(tmp_path: Path) -> None:
    path = write_catalog(tmp_path, {"Yes": "Oui"})
    path.with_name("link.mo").symlink_to(path)
    assert read(tmp_path) == [("Yes", "Oui")]


def test_environment_names_a_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_catalog(tmp_path, {"Yes": "Evet!"}, language="qqq")
    monkeypatch.setenv("TEXTDOMAINDIR", str(tmp_path))
    assert [pair.target for pair in read_catalogs("qqq")] == ["Evet!"]


def test_broken_catalogs_are_left_out_and_counted(tmp_path: Path) -> None:
    whole = write_catalog(tmp_path, {"Yes": "Oui"}, domain="good").read_bytes()
    latin = write_catalog(tmp_path, {"é": "è"}, domain="bad0", charset="iso-8859-1").read_bytes()
    damaged = {
        "empty": b"",
        "text": b"msgid",
        "head": whole[:10],
        "tables": whole[:40],
        "strings": whole[:-9],
        "version": whole[:4] + struct.pack("<I", 9 << 16) + whole[8:],
        "count": whole[:8] + struct.pack("<I", 2**31) + whole[12:],
        "charset": latin.replace(b"iso-8859-1", b"iso-8859-0"),
        "encoding": latin.replace(b"iso-8859-1", b"utf-8     "),
        "rule": whole.replace(b"(n > 1)", b"(n >> )"),
        "division": whole.replace(b"(n > 1)", b"(n % 0)"),
    }
    (tmp_path / "fr/LC_MESSAGES/bad0.mo").unlink()
    for name, content in damaged.items():
        (tmp_path / f"fr/LC_MESSAGES/{name}.mo").write_bytes(content)
    with TestCase().assertLogs(level="WARNING") as logged:
        assert read(tmp_path) == [("Yes", "Oui")]
    (message,) = logged.output
    assert f"{len(damaged)} of {len(damaged) + 1} catalogs cannot be read and are left out" in message


def test_a_language_without_catalogs_names_the_nearest(tmp_path: Path) -> None:
    for language in ("de", "tr", "pt_BR"):
        write_catalog(tmp_path, {"Yes": "…"}, language=language)
    (tmp_path / "locale.alias").write_text("")
    with pytest.raises(MissingInputError, match=r'for "tur"; did you mean "tr"\?; there are: de, pt_BR, tr$'):
        read_catalogs("tur", [tmp_path, tmp_path / "none"])


def test_a_long_list_of_languages_is_cut(tmp_path: Path) -> None:
    for number in range(45):
        write_catalog(tmp_path, {"Yes": "…"}, language=f"x{chr(97 + number // 26)}{chr(97 + number % 26)}")
    with pytest.raises(MissingInputError, match=r"xbn and 5 more$"):
        read_catalogs("fr", [tmp_path])


def test_a_computer_without_catalogs(tmp_path: Path) -> None:
    with pytest.raises(
        MissingInputError, match=r"no translation catalogs \(\*\.mo\) on this computer; looked in .*; give"
    ):
        read_catalogs("fr", [tmp_path])


@pytest.mark.parametrize("language", ["", "f", "french language", "../fr", "fr/..", "fr_"])
def test_what_is_no_language_code(tmp_path: Path, language: str) -> None:
    with pytest.raises(UsageError, match="is not a language code; write it like fr, tr or pt_BR"):
        read_catalogs(language, [tmp_path])


def test_the_catalogs_of_this_computer() -> None:
    try:
        french = {pair.source: pair.target for pair in read_catalogs("fr")}
    except MissingInputError as error:
        pytest.skip(f"this computer has no French catalogs: {error}")
    assert len(french) > 1000
    assert not any("\n" in text or "\4" in text or "\0" in text for pair in french.items() for text in pair)
    assert french.get("No such file or directory", "Aucun fichier ou dossier de ce nom") in (
        "Aucun fichier ou dossier de ce nom",
        "Aucun fichier ou dossier de ce type",
    )


def test_strings_that_share_bytes_are_not_multiplied(tmp_path: Path) -> None:
    """A small file of many long strings over the same bytes would ask for any amount of memory."""
    count, text = 2_000, b"long " * 20_000
    start = 28 + 16 * count
    table = struct.pack("<2I", len(text), start) * count
    path = write_catalog(tmp_path, {"a": "b"}, domain="bad")
    path.write_bytes(struct.pack("<7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, start) + table * 2 + text + b"\0")
    write_catalog(tmp_path, {"Yes": "Oui"}, domain="good")
    with TestCase().assertLogs(level="WARNING") as logged:
        tracemalloc.start()
        assert read(tmp_path) == [("Yes", "Oui")]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4_000_000
    assert "strings overlap" in "".join(logged.output)
