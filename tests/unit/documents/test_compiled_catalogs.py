"""Compiled gettext catalogs as the standard library reads them, in both byte orders, and rules for plural forms."""

from __future__ import annotations

import gettext
import struct
from io import BytesIO

import pytest
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, shouting

from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.messages import PluralRule
from dikkat_runtime.documents.po import parse_mo, write_mo

HEADER = "Content-Type: text/plain; charset={charset}\nPlural-Forms: {rule}\n"
TWO = "nplurals=2; plural=(n != 1);"


def catalog(messages: dict[bytes, bytes], order: str, rule: str = TWO, charset: str = "utf-8") -> bytes:
    """A file written by hand, its strings in the order that is given and with gaps between them."""
    entries = {b"": HEADER.format(charset=charset, rule=rule).encode(), **messages}
    size = 28 + 16 * len(entries)
    tables, texts = [b"", b""], b""
    for number, pair in enumerate(zip(*entries.items(), strict=True)):
        for string in pair:
            tables[number] += struct.pack(f"{order}2I", len(string), size + len(texts))
            texts += string + b"\0" * 3
    head = struct.pack(f"{order}7I", 0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, size)
    return head + b"".join(tables) + texts


MESSAGES = {
    b"The dog sleeps.": b"",
    b"done": b"fait",
    b"copied": b"copied",
    b"menu\4Open": b"",
    b"%d dog\0%d dogs": b"\0",
}


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_catalog_keeps_its_byte_order_and_programs_find_its_messages(order: str) -> None:
    data = catalog(MESSAGES, order)
    written = translate_document(data, "a.mo", shouting, options=ENGLISH_FRENCH).data
    assert written[:4] == struct.pack(f"{order}I", 0x950412DE)
    assert struct.unpack_from(f"{order}I", written, 8) == (len(MESSAGES) + 1,)
    read = gettext.GNUTranslations(BytesIO(written))
    assert read.gettext("The dog sleeps.") == "THE DOG SLEEPS."
    assert read.gettext("done") == "fait", "what is translated stays"
    assert read.gettext("copied") == "COPIED", "a copy of the source is no translation"
    assert read.pgettext("menu", "Open") == "OPEN"
    assert [read.ngettext("%d dog", "%d dogs", number) for number in (1, 2)] == ["%d DOG", "%d DOGS"]
    _, messages = parse_mo(written)
    assert list(messages) == sorted(messages), "programs look a message up by halving"


@pytest.mark.parametrize("order", ["<", ">"])
def test_what_is_written_is_read_back_and_each_string_ends_in_a_zero(order: str) -> None:
    messages = {b"b": b"two", b"": b"Content-Type: text/plain; charset=utf-8\n", b"a": "bir ş".encode()}
    data = write_mo(messages, order)
    assert parse_mo(data) == (order, dict(sorted(messages.items())))
    count, sources, targets = struct.unpack_from(f"{order}3I", data, 8)
    for table in (sources, targets):
        for number in range(count):
            length, begin = struct.unpack_from(f"{order}2I", data, table + 8 * number)
            assert data[begin + length] == 0
    assert gettext.GNUTranslations(BytesIO(data)).gettext("a") == "bir ş"


def test_a_catalog_in_another_charset_stays_in_it() -> None:
    data = catalog({"dog ş".encode("iso-8859-9"): b""}, "<", charset="ISO-8859-9")
    written = translate_document(data, "a.mo", shouting, options=ENGLISH_FRENCH).data
    assert parse_mo(written)[1]["dog ş".encode("iso-8859-9")] == "DOG Ş".encode("iso-8859-9")


@pytest.mark.parametrize(
    ("rule", "count", "singular", "many"),
    [
        ("nplurals=1; plural=0;", 1, None, 0),
        ("nplurals=2; plural=(n != 1);", 2, 0, 1),
        ("nplurals=2; plural=(n==1);", 2, 1, 0),
        # Polish and Arabic: 2 is "few" and the dual, 5 is many
        ("nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);", 3, 0, 2),
        (
            "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);",
            6, 1, 3,
        ),
    ],
)  # fmt: skip
def test_the_forms_of_one_and_of_many(rule: str, count: int, singular: int | None, many: int) -> None:
    found = PluralRule.of(f"Plural-Forms: {rule}\n")
    assert (found.count, found.singular, found.many, found.is_known) == (count, singular, many, True)


@pytest.mark.parametrize(
    "header", ["", "Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\n", "nplurals=0; plural=0;"]
)
def test_an_unreadable_rule_is_that_of_most_languages(header: str) -> None:
    found = PluralRule.of(header)
    assert (found.count, found.singular, found.many, found.is_known) == (2, 0, 1, False)
