"""The judges of documents of other people: a right translation passes, and what is planted in it is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.wild import in_order, turned
from benchmarks.wild_judges import difference, json_tree, judge, markdown
from tests.unit.documents import app_samples, samples
from tests.unit.documents.stand_ins import ENGLISH_FRENCH

from dikkat_runtime.documents.documents import translate_document

FILES = {"a.json": app_samples.JSON.replace("{n, plural,", "{n,"), "a.md": samples.MARKDOWN}


def verdict(folder: Path, name: str, text: str, written: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("benchmarks.wild_judges.opened", lambda data, path: None)
    paths = folder / f"source{name}", folder / f"output{name}"
    for path, content in zip(paths, (text, written), strict=True):
        path.write_text(content, encoding="utf-8")
    return judge(*map(str, paths))[0]


@pytest.mark.parametrize("name", FILES)
def test_a_turned_file_is_right_and_a_broken_one_is_wrong(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FILES[name]
    done = translate_document(text.encode(), name, turned, align=in_order, options=ENGLISH_FRENCH)
    written = done.data.decode()
    assert written != text
    assert verdict(tmp_path, name, text, written, monkeypatch) == "right"
    for planted in (written + "\nmore {\n", written[: len(written) // 2], written.replace("{{name}}", "")):
        if planted != written:
            assert verdict(tmp_path, name, text, planted, monkeypatch) == "wrong"


def test_texts_are_compared_letter_by_letter() -> None:
    assert not difference("The <b>dog</b> of {name}", "Gur <b>qbt</b> bs {name}")
    assert difference("The dog", "Gur")
    assert difference("The dog", "Gur cat")
    assert difference("A <b>dog</b>", "N qbt")
    assert difference("Of {name}", "Bs {anzr}")
    assert json_tree(b'{"a": "b"}', "a.json") == ({"a": "text"}, ["b"])
    assert markdown(b"*a*\n", "a.md")[1] == [" a "]
