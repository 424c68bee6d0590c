"""Formality: a mark in front of what the model reads, where training has shown it such marks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.runs import SENTENCES, translator_run
from tests.runtime.server.asking import served

from dikkat_runtime.cli.main import run as run_dikkat
from dikkat_runtime.engine.options import FORMALITIES, DecodingOptions, Formality
from dikkat_runtime.errors import UsageError
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.tasks.translations import PieceRequest
from dikkat_runtime.tasks.translator import Translation, Translator

FORMAL, FAMILIAR = ">>formal<< ", ">>informal<< "


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return translator_run(tmp_path / "plain", languages=("en", "fr"))


@pytest.fixture
def formal(tmp_path: Path) -> Path:
    run = translator_run(tmp_path / "formal", languages=("en", "fr"))
    settings = json.loads((run / "config.json").read_text(encoding="utf-8"))
    settings["data"]["formality"] = True
    (run / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    (run / "manifest.json").unlink(missing_ok=True)
    return run


def read_by(translator: Translator, texts: Sequence[str], formality: Formality) -> list[str]:
    """What the model reads of texts."""
    sources, decoded = list[str](), translator.decoded

    def spied(requests: Sequence[PieceRequest], *more: Any, **options: Any) -> list[Translation]:
        sources.extend(translator.tokenizer.decode_batch([request.ids for request in requests]))
        return decoded(requests, *more, **options)

    translator.decoded = spied  # type: ignore[method-assign]
    translator.translate(texts, DecodingOptions(), formality=formality)
    return sources


@pytest.mark.parametrize("formality", FORMALITIES)
def test_the_model_reads_every_sentence_with_its_mark(formality: Formality, formal: Path) -> None:
    translator = Translator.load(formal, engine="native")
    assert translator.translate(["…"], formality=formality)[0].text == "…"
    mark = {"more": FORMAL, "less": FAMILIAR}.get(formality.removeprefix("prefer_"), "")
    # one line of two sentences, each read alone; one with a placeholder, which is encoded anew; one without words
    texts = ["Yes. Where are my keys?", "Yes, {name}!", "…"]
    read = read_by(translator, texts, formality)
    assert len(set(read)) >= 2
    assert all(text.startswith(mark) and ">>" not in text.removeprefix(mark) for text in read)


def test_a_run_that_learned_none_is_asked_by_preference_alone(
    plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    translator = Translator.load(plain, engine="native")
    assert translator.translate(SENTENCES, formality="prefer_less") == translator.translate(SENTENCES)
    with pytest.raises(UsageError, match=r"data\.formality=true, or ask for prefer_more"):
        translator.translate(SENTENCES, formality="more")
    lines = tmp_path / "lines.txt"
    lines.write_text("Yes.\n", encoding="utf-8")
    assert run_dikkat(["translate", str(plain), str(lines), "--formality", "less"]) == 2
    (line,) = [row for row in capsys.readouterr().err.splitlines() if "formality" in row]
    assert "learned no formality" in line
    assert run_dikkat(["translate", str(plain), str(lines), "--formality", "prefer_less"]) == 0


def test_documents_and_many_files_are_read_with_the_mark(
    plain: Path, formal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["Where are my keys?", "A dog runs on the beach."]
    translator = Translator.load(formal, engine="native")
    ways: dict[Formality, list[str]] = {
        formality: [line.text for line in translator.translate(texts, formality=formality)]
        for formality in ("default", "more", "less")
    }
    assert len(set(map(tuple, ways.values()))) == 3
    page, corpus = tmp_path / "page.html", tmp_path / "corpus"
    page.write_text("".join(f"<p>{text}</p>" for text in texts), encoding="utf-8")
    corpus.mkdir()
    (corpus / "a.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    for formality, expected in ways.items():
        asked = ["--precision", "float32", *([] if formality == "default" else ["--formality", formality])]
        out = tmp_path / formality
        assert run_dikkat(["translate", str(formal), str(page), "--out", f"{out}.html", *asked]) == 0
        written = out.with_name(f"{formality}.html").read_text(encoding="utf-8")
        assert written == "".join(f"<p>{escape(text, quote=False)}</p>" for text in expected)
        assert run_dikkat(["translate-files", str(formal), str(corpus), "--out", str(out), *asked]) == 0
        assert (out / "a.txt").read_text(encoding="utf-8").splitlines() == expected
    # what was made in one way is not taken for the other
    again = ["translate-files", str(formal), str(corpus), "--out", str(out), "--precision", "float32"]
    assert run_dikkat([*again, "--formality", "more"]) == 2
    capsys.readouterr()
    asked = ["--out", str(tmp_path / "none"), "--formality", "more", "--workers", "1"]
    assert run_dikkat(["translate-files", str(plain), str(corpus), *asked]) == 2
    (line,) = [row for row in capsys.readouterr().err.splitlines() if "formality" in row]
    assert line.startswith("dikkat: this run has learned no formality")


def test_deepl_asks_for_it_in_texts_and_documents(plain: Path, formal: Path) -> None:
    catalog = Catalog([f"formal={formal}", f"other={plain}"])
    asked = list[str]()
    model = catalog.named("formal").model
    line_translator = model.line_translator

    def spied(*read: Any, **settings: Any) -> Any:
        asked.append(settings["formality"])
        return line_translator(*read, **settings)

    model.line_translator = spied
    with served(catalog) as server:
        targets = server.get("/v2/languages?type=target")
        # one of the two would refuse
        assert targets == [{"language": "FR", "name": "French", "supports_formality": False}]
        ask: dict[str, Any] = {"text": ["Yes."], "target_lang": "FR", "source_lang": "EN"}
        server.post("/v2/translate", formality="more", **ask)
        server.post("/v2/translate", formality="prefer_less", tag_handling="xml", **{**ask, "text": ["<b>Yes</b>."]})
        form = {"target_lang": "FR", "source_lang": "EN", "formality": "less"}
        answer = server.client.post("/v2/document", data=form, files={"file": ("a.txt", b"Yes.")})
        document = answer.json()
        key = {"document_key": document["document_key"]}
        while server.post(f"/v2/document/{document['document_id']}", **key)["status"] not in ("done", "error"):
            pass
        assert asked == ["more", "prefer_less", "less"]
        refused = server.post("/v2/translate", status=400, formality="more", model="other", **ask)
        assert refused["message"] == "formality is not supported for this target language"
        server.post("/v2/translate", formality="prefer_more", model="other", **ask)
        form["model"] = "other"
        answer = server.client.post("/v2/document", data=form, files={"file": ("a.txt", b"Yes.")})
        assert answer.status_code == 400
    with served(Catalog([f"formal={formal}"])) as server:
        assert server.get("/v2/languages?type=target")[0]["supports_formality"] is True
