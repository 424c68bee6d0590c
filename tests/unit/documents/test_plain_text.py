"""Plain text keeps its lines, and a document is not read as lines of prose."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, shouting

from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.formats import refuse_document
from dikkat_runtime.errors import UsageError


def test_lines_and_the_space_around_them_stay() -> None:
    text = b"  The dog <b>.  \r\n\r\n\t* The cat\n---\nA cow"
    document = translate_document(text, "a.TXT", shouting, align=in_order, options=ENGLISH_FRENCH)
    assert document.data == b"  THE DOG <B>.  \r\n\r\n\t* THE CAT\n---\nA COW"


@pytest.mark.parametrize(("name", "kind"), [("a.po", "gettext catalog"), ("b.c.md", "Markdown"), ("x.VTT", "WebVTT")])
def test_a_document_is_refused_as_lines_with_the_command_to_type(name: str, kind: str) -> None:
    with pytest.raises(UsageError) as refused:
        refuse_document(Path(name), Path("run"))
    out = f"{name[: name.rindex('.')]}.out{name[name.rindex('.') :]}"
    assert str(refused.value).startswith(f"{name}: is a document ({kind}")
    assert str(refused.value).endswith(f"; translate it whole: dikkat translate run {name} --out {out}")


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.jsonl", "a", "a.en"])
def test_lines_and_tables_are_read_as_lines(name: str) -> None:
    refuse_document(Path(name), Path("run"))
    refuse_document(None, Path("run"))
