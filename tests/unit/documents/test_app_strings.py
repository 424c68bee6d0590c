# ruff: noqa: E501
"""The texts of programs: translated in their own quotation, judged by the readers of the standard library and PyYAML."""

from __future__ import annotations

import codecs
import json
import plistlib
import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.documents import app_samples as samples
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, same, shouting

from dikkat_runtime.documents.app_strings import CODE, KEPT
from dikkat_runtime.documents.documents import TranslatedDocument, translate_document
from dikkat_runtime.documents.formats import find_format
from dikkat_runtime.documents.json_strings import MAX_DEPTH
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.errors import DataError

FILES = {
    "en.json": samples.JSON,
    "messages.json": samples.MESSAGES,
    "a.yml": samples.YAML,
    "a.properties": samples.PROPERTIES,
    "a.strings": samples.STRINGS,
    "strings.xml": samples.ANDROID,
    "a.stringsdict": samples.STRINGSDICT,
    "a.tex": samples.LATEX,
}
POLISH = Options("en", "pl")


def shouted(text: str, name: str, options: Options = ENGLISH_FRENCH) -> str:
    return translate_document(text.encode(), name, shouting, align=in_order, options=options).data.decode()


def turned(texts: Sequence[str]) -> list[str]:
    return [codecs.encode(text, "rot13") for text in texts]


def read(text: str, name: str, options: Options = ENGLISH_FRENCH) -> TranslatedDocument:
    return translate_document(text.encode(), name, same, align=in_order, options=options)


@pytest.mark.parametrize("name", FILES)
def test_what_is_translated_into_itself_is_the_same_file(name: str) -> None:
    written = read(FILES[name], name).data.decode()
    assert re.sub("^fr:", "en:", written) == FILES[name]


def test_json_of_i18next_with_the_plural_forms_of_the_target() -> None:
    assert json.loads(shouted(samples.JSON, "en.json", POLISH)) == {
        "key": 'HELLO {{name}}, IT\'S "ME"',
        "item_one": "{{count}} ITEM",
        "item_other": "{{count}} ITEMS",
        "item_few": "{{count}} ITEMS",
        "item_many": "{{count}} ITEMS",
        "deep": {"list": ["ONE", "TWO WORDS"], "url": "https://a.b/c", "id": "some_id", "n": 1.5, "no": None},
        "icu": "{n, plural, one {# DOG} other {# DOGS} few {# DOGS} many {# DOGS}}",
        "nest": "SEE $t(key) NOW\u00a0!",
    }
    assert read(samples.JSON, "en.json").remarks[CODE] == 1


def test_application_resource_bundle_and_browser_extension() -> None:
    bundle = json.loads(shouted(samples.ARB, "app_en.arb"))
    assert bundle == {**json.loads(samples.ARB), "@@locale": "fr", "hello": "HELLO {name}"}
    messages = shouted(samples.MESSAGES, "messages.json")
    assert messages == samples.MESSAGES.replace("The $NAME$ dog", "THE $NAME$ DOG")


def test_string_catalog_of_xcode() -> None:
    def unit(text: str) -> dict[str, Any]:
        return {"stringUnit": {"state": "needs_review", "value": text}}

    wanted = json.loads(samples.CATALOG)
    written = json.loads(shouted(samples.CATALOG, "a.xcstrings"))
    wanted["strings"]["Good morning"]["localizations"] = {"fr": unit("GOOD MORNING")}
    wanted["strings"]["bye"]["localizations"]["fr"] = unit("GOOD BYE %@")
    wanted["strings"]["Other"]["localizations"] = {"fr": unit("OTHER")}
    assert written == wanted
    again = translate_document(json.dumps(written).encode(), "a.xcstrings", shouting, options=ENGLISH_FRENCH)
    assert again.num_segments == 0


def test_yaml_of_rails() -> None:
    written = shouted(samples.YAML, "en.yml", POLISH)
    values = yaml.safe_load(written)
    assert values["pl"].pop("ref") is values["pl"]
    assert values["pl"] == {
        "hello": "HELLO %{name}\n", "plain": "GOOD MORNING", "sq": "IT'S LATE", True: "YES", "bool": True,
        "dogs": {"one": "ONE DOG", "other": "%{count} DOGS", "few": "%{count} DOGS", "many": "%{count} DOGS"},
        "lit": "FIRST LINE\n  SECOND LINE\n", "fold": "A FOLDED LINE\nAND MORE",
        "list": ["A DOG", "TWO, CATS"], "two": "A VALUE ON TWO LINES",
    }  # fmt: skip
    for kept in (
        "# comment\n",
        "pl: &root\n",
        '"HELLO %{name}\\n"  # greet\n',
        "'IT''S LATE'\n",
        "lit: |\n",
        " *root\n",
    ):
        assert kept in written


@pytest.mark.parametrize(
    "word", ["no", "null", "1e3", "- a", "a: b", "a #b", "~ x", "@x", "'x", "[x", "x:", "2001-01-01"]
)
def test_a_plain_value_of_yaml_is_quoted_where_it_must_be(word: str) -> None:
    for file in ("a: word\n", "a: [word, b: word]\n", "- word\n", "a:\n  b: 'word'\n"):
        data = translate_document(
            file.encode(), "a.yaml", lambda texts: [word] * len(texts), options=ENGLISH_FRENCH
        ).data
        assert repr(yaml.safe_load(data)) == repr(yaml.safe_load(file)).replace("'word'", repr(word))


def test_properties_of_java() -> None:
    assert shouted(samples.PROPERTIES, "a.properties") == (
        "# c\nkey=HELLO {0}, IT''S ME\ntwo : A VALUE ON TWO LINES\n! another\ncaf\\u00e9=CAF\\u00c9 AU LAIT\n"
        "log4j.root=INFO_A1\nempty=\n"
    )
    latin = translate_document("a=caf\xe9 \xff\n".encode("latin-1"), "a.properties", shouting, options=ENGLISH_FRENCH)
    assert latin.data == b"a=CAF\\u00c9 \\u0178\n"
    # apostrophes stand alone where the texts of the file show it
    alone = shouted("a=it's {0}\nb=big {0}\n", "a.properties")
    assert alone == "a=IT'S {0}\nb=BIG {0}\n"


def test_strings_of_apple() -> None:
    wanted = samples.STRINGS.replace("Hello", "HELLO").replace("it's", "IT'S").replace("me", "ME").replace("x y", "X Y")
    assert shouted(samples.STRINGS, "a.strings") == wanted.replace(r"A \U00e9 dog", "A É DOG")
    for charset in ("utf-16", "utf-16-le"):
        done = translate_document(samples.STRINGS.encode(charset), "a.strings", shouting, options=ENGLISH_FRENCH)
        assert '"HELLO %@' in done.data.decode(charset)
    forms = plistlib.loads(shouted(samples.STRINGSDICT, "a.stringsdict", POLISH).encode())["dogs"]
    assert forms["NSStringLocalizedFormatKey"] == "%#@dogs@ IN TOWN"
    assert forms["dogs"] == {
        "NSStringFormatSpecTypeKey": "NSStringPluralRuleType", "NSStringFormatValueTypeKey": "d",
        "one": "%d DOG & CAT", "other": "%d DOGS", "few": "%d DOGS", "many": "%d DOGS",
    }  # fmt: skip


def test_strings_of_android() -> None:
    written = shouted(samples.ANDROID, "strings.xml", POLISH)
    root = ElementTree.fromstring(written)
    shown = {node.get("name"): "".join(node.itertext()) for node in root.findall("string")}
    assert shown["hello"] == r"HELLO BIG %1$s, IT\'S \"ME\"\n© BOB"
    assert shown["data"] == r'<a href="x">THE DOG</a> ISN\'T HERE'
    assert shown["lines"].split() == ["THE", "CAT", "SLEEPS"]
    assert (shown["app"], shown["ref"]) == ("Dikkat", "@string/hello")
    assert [node.text for node in root.findall("string-array/item")] == ["A DOG", "A CAT"]
    forms = {node.get("quantity"): node.text for node in root.findall("plurals/item")}
    assert forms == {"one": "%d DOG", "other": "%d DOGS", "few": "%d DOGS", "many": "%d DOGS"}
    for kept in ('<xliff:g id="n" example="Bob">%1$s</xliff:g>', "&#169;", "<!-- a comment -->", ">style words<"):
        assert kept in written
    assert read(samples.ANDROID, "strings.xml").remarks[KEPT] == 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (r"\nThe dog\n\t", r"\nTHE DOG\n\t"),
        (r"The dog\\n", r"THE DOG\\N"),
        ('"  The  dog  "', '"  THE DOG  "'),
        (r'"\nThe \"dog\""', r'"\nTHE \"DOG\""'),
        ('"The" "dog"', r"\"THE\" \"DOG\""),
    ],
)
def test_what_stands_around_a_text_of_android_stays(text: str, wanted: str) -> None:
    file = "<resources><string name='a'>{}</string></resources>"
    assert shouted(file.format(text), "a.xml") == file.format(wanted)
    assert shouted(file.format(f"<b>{text}</b>"), "a.xml").count("\\n") == text.count("\\n") - text.count("\\\\n")


def test_apostrophes_of_android_are_escaped_in_the_translation() -> None:
    file = "<resources><string name='a'>The dog</string></resources>"
    done = translate_document(file.encode(), "a.xml", lambda texts: ['l\'a "b" & <c>'], options=ENGLISH_FRENCH)
    assert done.data.decode() == file.replace("The dog", r"l\'a \"b\" &amp; &lt;c&gt;")


def sentence_by_sentence(texts: Sequence[str]) -> list[str]:
    return [{"A dog": "Un chien", "The cat runs.": "Le chat court."}[text] for text in texts]


def test_prose_of_latex() -> None:
    written = shouted(samples.LATEX, "a.tex")
    for wanted in (
        r"\title{THE BIG DOG}", r"\section{A CAFÉ IN THE \emph{RED} HOUSE}\label{sec:x}",
        r"THE DOG\footnote{A NOTE ABOUT THE \emph{DOG}.} SLEEPS IN $x + y$ OF 50\% HOUSES, SEE~\cite{a,b} AND \ref{sec:x}.",
        r"IT IS ``QUOTED'' --- AND \textbf{BOLD {\em AND ITALIC}} TEXT; \LaTeX{} TOO.", r"a = b \text{ if the dog sleeps}",
        r"\item[x] A DOG \verb|code here| AND \texttt{more code}", r"NAME & BIG NUMBER \\ \hline", r"DOG & TWO CATS \\[2pt]",
        "\nThe dog is code\n", r"STRASSE ÜBER \href{http://a.b/c_d}{THE LINK} \unknown{some words here}.", "\nnot read\n",
        r"\newcommand{\dog}[1]{The dog #1}", "% a comment\n",
    ):  # fmt: skip
        assert wanted in written
    for between in ("\n", " ", "\\label{a}\n"):
        file = rf"\section{{A dog}}{between}The \emph{{cat}} runs."
        done = translate_document(file.encode(), "a.tex", sentence_by_sentence, align=in_order)
        assert done.data.decode() == rf"\section{{Un chien}}{between}Le \emph{{chat}} court."
    done = translate_document(b"A dog\n", "a.tex", lambda texts: ["50% & {x} #1_$ \\a"], options=ENGLISH_FRENCH)
    assert done.data == b"50\\% \\& \\{x\\} \\#1\\_\\$ \\textbackslash{}a\n"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.json", "{", "a.json: not valid JSON (Expecting property name"),
        ("a.json", "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"a.json:1: nested deeper than {MAX_DEPTH}"),
        ("a.json", "[" * 100_000, "a.json: not valid JSON ("),
        ("a.yaml", "a: [", "a.yaml:1: not valid YAML (expected"),
        ("a.yaml", "[" * 200, f"a.yaml:1: nested deeper than {MAX_DEPTH}"),
        ("a.strings", '"a" = b c;', 'a.strings:1: not an entry such as "key" = "value";'),
        ("a.xcstrings", "{}", "a.xcstrings: not a string catalog"),
        ("a.xml", "<a/>", "a.xml: its root is <a>; of XML, strings.xml of Android is translated"),
        ("a.stringsdict", "<a/>", "a.stringsdict: not a property list: it has no <plist>"),
    ],
)
def test_what_is_no_such_file_is_refused_in_one_line(name: str, text: str, told: str) -> None:
    with pytest.raises(DataError, match=re.escape(told)):
        read(text, name)


def test_a_web_page_in_a_text_is_read_block_by_block() -> None:
    text = "<h1>A dog</h1><p>It's a <b>big</b> dog.</p><pre>code</pre>"
    written = json.loads(shouted(json.dumps({"a": text}), "a.json"))["a"]
    assert written == "<h1>A DOG</h1><p>IT'S A <b>BIG</b> DOG.</p><pre>code</pre>"


def test_a_page_that_is_called_xml_is_read_as_a_page() -> None:
    document_format = find_format("a.xml", b"<html><p>A dog</p></html>")
    assert document_format is not None
    assert document_format.module == "html"


WORDS = st.lists(
    st.text(st.sampled_from("abNO \"'\\:#,-\u00e9\U0001f600\n\t=;!?*|>[]"), min_size=1, max_size=12),
    min_size=1,
    max_size=4,
).map(lambda words: "Dog " + " ".join(words).strip() + " cat")
TREES = st.dictionaries(st.sampled_from(["a", "b", "key"]), WORDS | st.lists(WORDS, max_size=3), min_size=1)


def mapped(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: mapped(value) for key, value in tree.items()}
    return [mapped(value) for value in tree] if isinstance(tree, list) else codecs.encode(tree, "rot13")


@settings(max_examples=60, deadline=None)
@given(tree=TREES, style=st.sampled_from([None, "'", '"', "|", ">"]), is_flow=st.booleans(), is_ascii=st.booleans())
def test_any_tree_of_texts_comes_back_translated(tree: Any, style: str | None, is_flow: bool, is_ascii: bool) -> None:
    files = {
        "a.json": json.dumps(tree, ensure_ascii=is_ascii, indent=None if is_flow else 1),
        "a.yaml": yaml.safe_dump(tree, default_style=style, default_flow_style=is_flow, allow_unicode=not is_ascii),
    }
    for name, text in files.items():
        assert read(text, name).data.decode() == text
        done = translate_document(text.encode(), name, turned, align=in_order, options=ENGLISH_FRENCH).data.decode()
        values = json.loads(done) if name == "a.json" else yaml.safe_load(done)
        assert values == mapped(tree)
