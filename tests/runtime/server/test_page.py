"""The requests of the page to the server, and the files of the page."""

from __future__ import annotations

import base64
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runtime.runs import SENTENCES
from tests.runtime.server.asking import BEAM, Served, served

from dikkat_runtime.server.api.page import page_files, shown_confidence, wanted_language
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.tasks import term_placement
from dikkat_runtime.tasks.aligner import Aligner
from dikkat_runtime.tasks.confidence import Confidence, WordConfidence
from dikkat_runtime.tasks.translator import Translator

FIRST, SECOND = SENTENCES[0], SENTENCES[1]
PAIR: dict[str, Any] = {"source": "en", "target": "fr"}
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_a_browser_gets_the_page_in_its_language_and_others_a_few_words(server: Served) -> None:
    page = server.client.get("/", headers={**BROWSER, "accept-language": "de, tr;q=0.9, en;q=0.8"})
    assert '<html lang="tr">' in page.text
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert '<html lang="en">' in server.client.get("/", headers=BROWSER).text
    words = server.client.get("/")
    assert "serves en-fr (translator), mood (classifier), lm (lm)" in words.text


@pytest.mark.parametrize(
    ("accepted", "language"),
    [("", "en"), ("tr", "tr"), ("tr-TR,tr;q=0.9,en-US;q=0.8", "tr"), ("en, tr", "en"), ("tr;q=0", "en"), ("de", "en"),
     ("tr;q=x,en;q=0.1", "en"), (";;q,=" * 500, "en"), ("en;q=0.5, TR ; q=0.8", "tr")],
)  # fmt: skip
def test_the_language_is_the_one_that_is_wanted_most(accepted: str, language: str) -> None:
    assert wanted_language(accepted) == language


def test_the_page_may_load_nothing_from_elsewhere_and_holds_no_code_of_its_own(server: Served) -> None:
    page = server.client.get("/", headers=BROWSER)
    policy = page.headers.get_list("content-security-policy")
    assert len(policy) == 1
    assert policy[0].startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy[0]
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", page.text)
    loaded = re.findall(r'(?:src|href)="(/[^"]+)"', page.text)
    assert len(loaded) == 3
    for path in loaded:
        answer = server.client.get(path)
        assert answer.status_code == 200
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_no_file_of_the_page_names_another_address() -> None:
    for name, (_, content) in page_files().items():
        assert not re.findall(r"(?:https?:)?//(?!www\.w3\.org/)[\w-]+\.", content.decode()), name


@pytest.mark.parametrize("name", ["", "index.html", "../keys.py", "..%2fkeys.py", "page.css%00", "x" * 5000, "page.py"])
def test_no_other_file_is_shown(server: Served, name: str) -> None:
    assert server.client.get(f"/page/files/{name}").status_code == 404


def test_modules_of_the_page_find_what_they_import() -> None:
    files = {name: content.decode() for name, (_, content) in page_files().items() if name.endswith(".js")}
    for name, text in files.items():
        for names, other in re.findall(r'import \{([^}]+)\} from "\./([\w.]+)"', text):
            for item in names.split(","):
                pattern = rf"export (?:async )?(?:function\*?|const|class) {item.strip()}\b"
                assert re.search(pattern, files[other]), (name, item)


def test_the_page_gets_what_it_says_of_the_catalog() -> None:
    kind, content = page_files()["messages.js"]
    assert kind.startswith("text/javascript")
    spoken = json.loads(content.decode().removeprefix("export const MESSAGES = ").removesuffix(";\n"))["tr"]
    assert len(spoken) > 100
    assert (spoken["Skip to the text"], spoken["Too long: {count} of {most} characters"]) == (
        "Metne geç",
        "Çok uzun: {count} / {most} karakter",
    )


def test_the_models_are_listed_with_their_features(server: Served) -> None:
    messages = server.get("/page/models")
    assert messages["models"] == [
        {"name": "en-fr", "kind": "translator", "source": "en", "target": "fr", "attention": True},
        {"name": "mood", "kind": "classifier"},
        {"name": "lm", "kind": "lm"},
    ]
    assert ".docx" in messages["files"]


def test_sentences_are_translated_apart_and_known_ones_not_again(server: Served) -> None:
    text = f"  {FIRST} {SECOND}\n12"
    answer = server.post("/page/translate", text=text, alternatives=2, **PAIR)
    parts = answer["parts"]
    assert "".join(part.get("text", part.get("source")) for part in parts) == text
    by_source = {part["source"]: part for part in parts if "source" in part}
    assert list(by_source) == [FIRST, SECOND]
    own = server.post("/translate", q=FIRST, alternatives=2, **PAIR)
    assert (by_source[FIRST]["target"], by_source[FIRST]["alternatives"]) == (
        own["translatedText"],
        own["alternatives"],
    )
    again = server.post("/page/translate", text=text, known=[FIRST], **PAIR)["parts"]
    assert [part for part in again if part.get("source") == FIRST] == [{"source": FIRST}]
    assert again[3]["target"] == by_source[SECOND]["target"]


def test_terms_of_the_field_that_cost_the_sentence_are_named_and_a_wrong_line_is_named(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # random weights look at no word more than at others: with this limit no place is clear
    monkeypatch.setattr(term_placement, "CLEAR", 1.0)
    ask: dict[str, Any] = {"text": "Where are my keys?", **PAIR}
    (plain,) = server.post("/page/translate", **ask)["parts"]
    (part,) = server.post("/page/translate", glossary="keys = clefs à molette", **ask)["parts"]
    # random weights look at no word more than at others
    assert part == plain | {"unplaced_terms": [{"source": "keys", "targets": ["clefs à molette"]}]}
    typed = {"model": "en-fr", "source": ask["text"], "prefix": "", "glossary": "keys = clefs à molette"}
    completed = server.post("/page/complete", **typed)
    assert (completed["flags"], completed["unplaced_terms"]) == (["term not placed"], part["unplaced_terms"])
    wrong = server.post("/page/translate", status=400, text="a", glossary="a = b\nno term", **PAIR)
    assert "line 2: must be a term, one equals sign and its translation" in wrong["error"]
    # as in the file of a glossary, one of several forms is enough; the field may hold empty lines
    several = server.post(
        "/page/translate", text="Where are my keys?", glossary="\nkeys = clefs à molette | clés\n\n", **PAIR
    )
    (part,) = several["parts"]
    assert part["unplaced_terms"] == [{"source": "keys", "targets": ["clefs à molette", "clés"]}]


def test_the_confidence_of_words_is_that_of_the_judge_in_their_order() -> None:
    shown = shown_confidence(
        "a 😀 b a", Confidence(0.5, (WordConfidence("a", 0.2), WordConfidence("a", 0.9)), ("loop",))
    )
    assert shown == {
        "probability": 0.5,
        "words": [{"start": 0, "end": 1, "probability": 0.2}, {"start": 6, "end": 7, "probability": 0.9}],
        "flags": ["loop"],
    }


def test_confidence_is_that_of_the_library(runs: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(runs["mt"], tmp_path / "mt"))
    (copy / "held_out").mkdir(exist_ok=True)
    for side in ("source", "target"):
        (copy / "held_out" / f"validation.{side}.txt").write_text("The cat sleeps.\n" * 24, encoding="utf-8")
    translator = Translator.load(copy, engine="native")
    expected = translator.translate([FIRST, SECOND.upper()], beam_size=BEAM, confidence=translator.judge(copy))
    translator.corrections.add("Yes.", "Oui.")  # type: ignore[union-attr]
    with served(Catalog([f"en-fr={copy}"])) as server:
        parts = server.post("/page/translate", text=f"{FIRST}\n{SECOND.upper()}\nYes.", **PAIR)["parts"]
        shown = [part["confidence"] for part in parts if "confidence" in part]
    assert shown[2] == {"probability": 1.0, "words": [], "flags": []}
    for part, translation in zip(shown, expected, strict=False):
        assert translation.confidence is not None
        assert part == shown_confidence(translation.text, translation.confidence)


def test_a_translation_that_was_begun_goes_on(server: Served) -> None:
    whole = server.post("/page/translate", text=FIRST, **PAIR)["parts"][0]["target"]
    ask: dict[str, Any] = {"model": "en-fr", "source": FIRST}
    assert server.post("/page/complete", prefix="", **ask)["target"] == whole
    begun = server.post("/page/complete", prefix="Le petit", **ask)["target"]
    assert begun.startswith("Le petit")
    assert "one line" in server.post("/page/complete", status=400, prefix="a\nb", **ask)["error"]


def test_corrections_are_kept_beside_the_run_where_the_server_takes_them(runs: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(runs["mt"], tmp_path / "mt"))
    catalog = Catalog([f"en-fr={copy}"])
    ask: dict[str, Any] = {"model": "en-fr", "source": FIRST, "target": "Mon chat dort."}
    with served(catalog) as closed:
        assert "--corrections" in closed.post("/page/corrections", status=400, **ask)["error"]
        closed.post("/suggest", status=403, q=FIRST, s="x", **PAIR)
    with served(catalog, takes_corrections=True) as server:
        assert server.get("/frontend/settings")["suggestions"]
        server.post("/page/corrections", **ask)
        assert server.post("/page/translate", text=FIRST, **PAIR)["parts"][0]["target"] == "Mon chat dort."
        assert server.post("/suggest", q=SECOND, s="Où ?", **PAIR) == {"success": True}
        assert server.post("/translate", q=f"{FIRST} {SECOND}", **PAIR)["translatedText"] == "Mon chat dort. Où ?"
        assert "one line" in server.post("/suggest", status=400, q="a\nb", s="c", **PAIR)["error"]


def test_the_attention_of_every_head_is_that_of_the_model(server: Served, runs: dict[str, Path]) -> None:
    target = "Le petit chat dort."
    answer = server.post("/page/attention", model="en-fr", source=FIRST, target=target)
    expected = Aligner.load(runs["mt"]).attend(FIRST, target).weights
    weights = np.frombuffer(base64.b64decode(answer["weights"]), np.uint8).reshape(expected.shape)
    assert (answer["layers"], answer["heads"]) == expected.shape[:2]
    np.testing.assert_allclose(weights / 255, expected, atol=0.5 / 255 + 1e-6)
    for side, text, size in (("source", FIRST, expected.shape[3]), ("target", target, expected.shape[2])):
        shown = answer[side]
        assert len(shown["tokens"]) == len(shown["word_of"]) == size
        assert "".join(shown["words"]) == text.replace(" ", "")
        for token, word in zip(shown["tokens"], shown["word_of"], strict=True):
            assert token.strip() in shown["words"][word]


@pytest.mark.parametrize(
    ("fields", "status"),
    [({"model": "lm"}, 422), ({"model": "x"}, 404), ({"source": "a" * 2001}, 413), ({"target": None}, 400)],
)
def test_attention_that_cannot_be_shown_is_an_error(server: Served, fields: dict[str, Any], status: int) -> None:
    server.post("/page/attention", status=status, **{"model": "en-fr", "source": "a", "target": "b", **fields})


def test_texts_without_tokens_have_no_attention(server: Served) -> None:
    answer = server.post("/page/attention", model="en-fr", source="", target="a")
    assert (answer["layers"], answer["weights"]) == (0, "")


def sent(server: Served, name: str, data: bytes) -> tuple[str, dict[str, str]]:
    answer = server.client.post("/page/documents", files={"file": (name, data)}, data={"model": "en-fr"})
    assert answer.status_code == 200, answer.text
    return f"/page/documents/{answer.json()['id']}", {"key": answer.json()["key"]}


def watched(server: Served, path: str, key: dict[str, str]) -> dict[str, Any]:
    end = time.monotonic() + 300
    while (state := server.client.get(path, params=key).json())["status"] in ("queued", "translating"):
        assert time.monotonic() < end
        time.sleep(0.02)
    return dict(state)


def test_a_document_reports_its_progress_and_is_fetched_or_forgotten(server: Served) -> None:
    data = f"<p>{FIRST} <b>{SECOND}</b></p><p>{FIRST}</p>".encode()
    path, key = sent(server, "a.html", data)
    state = watched(server, path, key)
    assert (state["status"], state["name"], state["segments"], state["translated"]) == ("done", "a.html", 3, 3)
    assert state["remarks"][0] == "HTML: translated 2 segments"
    fetched = server.client.get(f"{path}/file", params=key)
    assert fetched.content.startswith(b"<p>")
    assert fetched.content.count(b"<b>") == 1
    assert server.client.get(f"{path}/file", params={"key": "no"}).status_code == 404
    assert server.client.delete(path, params=key).status_code == 204
    assert server.client.get(path, params=key).status_code == 404


def test_a_document_that_is_given_up_is_not_translated_on(server: Served) -> None:
    text = "".join(f"{FIRST} {number} times.\n" for number in range(3000))
    path, key = sent(server, "a.txt", text.encode())
    (job,) = [item for item in server.services.documents._jobs.values() if item.identity in path]
    assert server.client.delete(path, params=key).status_code == 204
    end = time.monotonic() + 300
    while not job.is_finished and time.monotonic() < end:
        time.sleep(0.02)
    assert (job.status, str(job.problem)) == ("error", "the document was cancelled")
    assert job.translated < 3000


def test_with_keys_the_page_itself_is_shown_but_nothing_else(catalog: Catalog, tmp_path: Path) -> None:
    from dikkat_runtime.server.keys import new_key

    keys = tmp_path / "keys"
    key = new_key(keys, "me")
    with served(catalog, keys=keys) as locked:
        assert '<html lang="en">' in locked.client.get("/", headers=BROWSER).text
        assert locked.client.get("/page/files/page.css").status_code == 200
        assert "en-fr" not in locked.client.get("/").text
        assert locked.client.get("/page/models").status_code == 401
        assert locked.client.get("/page/models", headers={"authorization": f"Bearer {key}"}).status_code == 200
