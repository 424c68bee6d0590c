"""Messages in Turkish: every template is in a catalog, no entry is stale, and values stay what they are."""

from __future__ import annotations

import ast
import errno
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.message_templates import SOURCES, faults_in, fields_of, scripts, strings, templates, templates_in, trees
from tests.naming import rule

from dikkat_runtime.errors import (
    DataError,
    Message,
    MissingInputError,
    SettingError,
    UsageError,
    from_json,
    joined,
    msg,
    nearest,
    plural,
    to_json,
    unreadable,
)
from dikkat_runtime.localization import (
    add_catalogs,
    language_of,
    localized,
    pop_language_option,
    read_entries,
    script_messages,
    script_templates,
    visible,
)

CATALOGS = {
    "dikkat_runtime": SOURCES["dikkat_runtime"] / "locale/tr/LC_MESSAGES/dikkat-runtime.po",
    "dikkat": SOURCES["dikkat"] / "locale/tr/LC_MESSAGES/dikkat.po",
}
FOREIGN = {
    # argparse
    "show this help message and exit",
    "show program's version number and exit",
    "usage:",
    "options",
    "positional arguments",
    "the following arguments are required: %s",
    "unrecognized arguments: %s",
    "argument %(argument_name)s: %(message)s",
    "invalid choice: %(value)r (choose from %(choices)s)",
    "invalid %(type)s value: %(value)r",
    "expected one argument",
    # typer
    "Show this message and exit.",
    "Install completion for the current shell.",
    "Show completion for the current shell, to copy it or customize the installation.",
    "Usage:",
    "Options",
    "Commands",
    "commands",
    "Arguments",
    "required",
    "default: {default}",
    "Missing command.",
    "No such command {name!r}.",
    # pydantic
    "Input should be a valid integer, unable to parse string as an integer",
    "Input should be a valid number, unable to parse string as a number",
    "Input should be a valid integer",
    "Input should be a valid integer, got a number with a fractional part",
    "Input should be a valid number",
    "Input should be a valid string",
    "Input should be a valid boolean",
    "Input should be a finite number",
    "Input should be a valid dictionary or instance of {class_name}",
    "Input should be greater than {gt}",
    "Input should be greater than or equal to {ge}",
    "Input should be less than {lt}",
    "Input should be less than or equal to {le}",
    "Input should be {expected}",
    "Field required",
}
"""Sentences of libraries that a command passes on."""
FOREIGN |= {text[0].lower() + text[1:] for text in FOREIGN if text.startswith(("Input", "Field"))}
FOREIGN |= {
    os.strerror(number)
    for number in (
        *(errno.ENOENT, errno.EACCES, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOSPC, errno.EROFS, errno.EIO),
        *(errno.EDQUOT, errno.EFBIG, errno.EBADF, errno.ECONNRESET, errno.EADDRINUSE),
    )
}
add_catalogs(SOURCES["dikkat"])


def entries(*packages: str) -> dict[str, str]:
    return {text: spoken for package in packages for text, spoken in read_entries(CATALOGS[package])}


def turkish(message: str) -> str:
    return localized(message, "tr")


@pytest.mark.parametrize("package", ["dikkat_runtime", "dikkat"])
def test_every_template_of_the_sources_is_in_the_catalog(package: str) -> None:
    # the runtime has its own catalog alone; dikkat has both
    known = entries("dikkat_runtime") if package == "dikkat_runtime" else entries("dikkat_runtime", "dikkat")
    missing = [f"{found.where}: {found.text}" for found in templates(package) if found.text not in known]
    assert not missing, "add to the catalog:\n" + "\n".join(missing)


@pytest.mark.parametrize("package", ["dikkat_runtime", "dikkat"])
def test_no_entry_of_a_catalog_is_stale(package: str) -> None:
    used = strings(package) | {found.text for found in templates(package)}
    foreign = FOREIGN if package == "dikkat_runtime" else set()
    stale = [text for text in entries(package) if text not in used and text not in foreign]
    assert not stale, "no source has:\n" + "\n".join(stale)


@pytest.mark.parametrize("package", ["dikkat_runtime", "dikkat"])
def test_an_entry_stands_once(package: str) -> None:
    texts = [text for text, _ in read_entries(CATALOGS[package])]
    assert sorted(texts) == sorted(set(texts))


@pytest.mark.parametrize("package", ["dikkat_runtime", "dikkat"])
def test_a_message_is_a_template_with_its_values(package: str) -> None:
    """An f-string has lost its values before anybody could translate it."""
    faults = [f"{name}:{line}: {fault}" for name, tree in trees(package).items() for line, fault in faults_in(tree)]
    assert not faults, "\n".join(faults)


_UNMARKED = re.compile(r"\bsay\([^\"()`',]+[\"`'][^,)]*|\b(?:say|msg)\([`'][^,)]*")


def test_a_script_says_templates_that_can_be_found() -> None:
    """What is chosen first is marked by `msg`: `say(isLong ? msg("Too long") : msg("Short"))`."""
    files = {**scripts("dikkat"), **scripts("dikkat_runtime")}
    hidden = [f"{name}: {call}" for name, script in files.items() for call in _UNMARKED.findall(script)]
    assert not hidden, "mark each text by msg:\n" + "\n".join(hidden)
    assert _UNMARKED.findall('say(isLong ? "Too long" : "Short"); say(`${kind} is long`)') == [
        'say(isLong ? "Too long" : "Short"',
        "say(`${kind} is long`",
    ]


def test_a_script_gets_what_it_says_of_the_catalogs() -> None:
    script = """say("Close"), say(TABS[tab]); const TABS = { maps: msg("Attention") };
    say("of “{query}”", { query }); say("Close")
    <a data-say="Skip to the text"></a>"""
    assert script_templates(script) == ["Close", "Attention", "of “{query}”", "Skip to the text"]
    spoken = {"Close": "Kapat", "Attention": "Dikkat", "of “{query}”": "of “{query}”", "Skip to the text": "Metne geç"}
    assert json.loads(script_messages(script)) == {"tr": spoken}


def test_values_are_the_same_on_both_sides() -> None:
    for text, spoken in entries("dikkat_runtime", "dikkat").items():
        assert sorted(fields_of(text)) == sorted(fields_of(spoken)), text
        # a switch, a key or a file name is the same in every language
        assert set(re.findall(r"--[a-z][a-z-]+", text)) == set(re.findall(r"--[a-z][a-z-]+", spoken)), text


@pytest.mark.parametrize("package", ["dikkat_runtime", "dikkat"])
def test_a_message_is_worded_as_the_field_does(package: str) -> None:
    odd = re.compile(
        r"\b(?:behind|beside|mend(?:s|ed)?|the house|is told)\b|(?<!there )\b(?:is|are) no (?!better|longer)"
    )
    found = [f"{found.where}: {found.text}" for found in templates(package) if odd.search(found.text)]
    assert not found, "\n".join([rule("glossary.md", "wording"), *found])


def test_a_planted_message_is_found() -> None:
    planted = ast.parse('raise DataError("{path}: is a frog; kiss it").fill(path)\nmsg("a" if x else "b")')
    assert {text for _, text in templates_in(planted, is_command=False)} == {"{path}: is a frog; kiss it", "a", "b"}
    assert not list(faults_in(planted))
    for wrong in ('DataError(f"{path}: is a frog")', 'msg("{path}: {line}").fill(path)', 'say(f"it is a {frog}")'):
        assert len(list(faults_in(ast.parse(wrong)))) == 1, wrong


@pytest.mark.parametrize(
    ("message", "spoken"),
    [
        (msg("{run}: there is no such run directory").fill("runs/x"), "runs/x: böyle bir koşu klasörü yok"),
        # the numbers change places
        (msg("read {read:,} {unit}, kept {kept:,}").fill(1000, msg("pairs"), 990), "1,000 çift okundu, 990 tutuldu"),
        (plural(12, "layer"), "12 katman"),
        # one message in another
        (
            DataError("{path}: {error}").fill("a.tsv", UsageError("no run is named; give its folder")).args[0],
            "a.tsv: no run is named; give its folder",
        ),
        (joined(", ", (plural(1, "pair"), "x", plural(2000, "text"))), "1 çift, x, 2,000 metin"),
        ("wrong " + plural(2, "text") + "!", "wrong 2 metin!"),
        # a plain string is no message
        ("layer", "layer"),
        (msg("a sentence that no catalog has, or {text}").fill("text"), "a sentence that no catalog has, or text"),
        (msg("it is {brace}").fill("{path}"), "it is {path}"),
    ],
)
def test_messages_are_said_in_turkish(message: str, spoken: str) -> None:
    assert turkish(message) == spoken


ENTRIES = sorted(entries("dikkat_runtime", "dikkat"))


@given(st.data())
def test_values_that_are_sentences_of_a_catalog_are_never_translated(data: st.DataObject) -> None:
    template = data.draw(st.sampled_from([text for text in ENTRIES if set(re.findall(r"\{.*?\}", text)) & {"{path}"}]))
    names = fields_of(template)
    value = data.draw(st.sampled_from(ENTRIES))
    message = Message(template, {name: value if name == "path" else 3 for name in names})
    marked = Message(template, {name: "\0" if name == "path" else 3 for name in names})
    assert turkish(message) == turkish(marked).replace("\0", value)
    assert turkish(value) == value


@pytest.mark.seed("D18", "F24")
def test_turkish_uses_the_terms_of_the_turkish_textbook() -> None:
    spoken = " ".join(entries("dikkat_runtime", "dikkat").values()).lower()
    for term in ("özdikkat", "çapraz dikkat", "sorgu", "anahtar", "değer", "konumsal kodlama", "kodçözücü", "belirteç"):
        assert term in spoken
    for mistake in ("pozitif kodlama", "dikkat havuzu", "kendi kendine dikkat"):
        assert mistake not in spoken


def test_an_error_keeps_its_message_on_every_way() -> None:
    error = MissingInputError("{run}: there is no such run directory").fill(Path("wrong language"))
    assert str(error) == "wrong language: there is no such run directory"
    spoken = "wrong language: böyle bir koşu klasörü yok"
    assert turkish(str(error)) == spoken
    assert turkish(str(pickle.loads(pickle.dumps(error)))) == spoken
    assert turkish(from_json(to_json(str(error)))) == spoken
    assert turkish(msg("{path}: {error}").fill("a", error)) == f"a: {spoken}"
    assert turkish(str(unreadable("layer", FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))))) == (
        "layer: okunamıyor: Böyle bir dosya ya da klasör yok"
    )
    setting = SettingError(msg("{name} must be at least 1, not {limit}").fill("beam_size", 0), "beam_size")
    assert pickle.loads(pickle.dumps(setting)).about_option == "--beam must be at least 1, not 0"
    assert turkish(setting.about_option) == "--beam en az 1 olmalı, 0 değil"
    assert turkish(nearest("sorce", ["source", "target"])) == '; şunu mu demek istediniz: "source"?'


def test_the_words_that_a_user_typed_stay_in_a_command(tmp_path: Path) -> None:
    """Each of them is also an entry of the catalogs."""
    for program in ("dikkat", "dikkat_runtime"):
        typed = [sys.executable, "-m", program, "translate", "--language", "tr", "wrong language"]
        ended = subprocess.run(typed, cwd=tmp_path, input="", capture_output=True, text=True, check=False)
        assert ended.stderr.partition(": ")[2] == "wrong language: böyle bir koşu klasörü yok\n"
        assert ended.returncode == 66


def test_what_is_shown_is_in_the_spoken_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dikkat_runtime.localization._chosen", ["tr"])
    assert visible(msg("{run}: there is no such run directory").fill("a\x1b")) == "a\\x1b: böyle bir koşu klasörü yok"


def test_values_are_as_many_as_the_template_names() -> None:
    assert msg("{a} {b} {a}").fill(1, 2) == "1 2 1"
    assert msg("{b} {a}").fill(a=1, b=2, c=3) == "2 1"
    with pytest.raises(ValueError, match="shorter"):
        msg("{a} {b}").fill(1)


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
        # the strongest variable names the language
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "tr_TR", "LC_ALL": ""}, "tr"),
        ({"LC_ALL": "tr_TR", "LC_MESSAGES": "en_US", "LANG": "en_US"}, "tr"),
        # where the locale is C, LANGUAGE counts for nothing, in any spelling of C
        ({"LANG": "C.UTF-8", "LANGUAGE": "tr"}, "en"),
        ({"LANG": "POSIX", "LANGUAGE": "tr"}, "en"),
        ({"LANG": "tr@euro"}, "tr"),
        ({"LANG": "tr-TR"}, "tr"),
    ],
)
def test_the_language_is_that_of_the_locale(environment: dict[str, str], code: str) -> None:
    assert language_of(environment) == code


def test_the_option_is_taken_anywhere_before_a_double_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dikkat_runtime.localization._chosen", chosen := ["en"])
    monkeypatch.setenv("LC_ALL", "C")
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
