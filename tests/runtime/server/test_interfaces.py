"""Each interface answers what its clients expect, and what the model itself says."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runtime.runs import SENTENCES
from tests.runtime.server.asking import BEAM, Served, served
from tests.unit.interop.checkpoints import bert_folder

from dikkat.interop.importing import read_foreign, write_run
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.tasks import term_placement
from dikkat_runtime.tasks.embedder import Embedder
from dikkat_runtime.tasks.generator import SamplingOptions

WORDS = [sentence for sentence in SENTENCES if sentence]
FIRST, SECOND = WORDS[:2]


def translated(server: Served, text: str, n_best: int = 1) -> list[str]:
    """The translations by the model itself, best first."""
    model = server.services.catalog.named("en-fr").model
    (best,) = model.translate([text], BeamOptions(beam_size=max(BEAM, n_best), n_best=n_best))
    return [best.text, *(other.text for other in best.alternatives)]


# LibreTranslate


def test_a_text_is_translated_however_it_is_sent(server: Served) -> None:
    expected = {"translatedText": translated(server, FIRST)[0]}
    fields = {"q": FIRST, "source": "en", "target": "fr"}
    ask = server.client.post
    assert ask("/translate", json=fields).json() == expected
    assert ask("/translate", data=fields).json() == expected
    assert ask("/translate", params=fields).json() == expected
    assert ask("/translate", files={name: (None, value) for name, value in fields.items()}).json() == expected
    assert ask("/translate", content=json.dumps(fields).encode()).json() == expected


def test_a_list_is_answered_by_a_list_in_order(server: Served) -> None:
    expected = [translated(server, text)[0] for text in WORDS]
    assert server.post("/translate", q=WORDS, source="en", target="fr") == {"translatedText": expected}
    repeated = server.client.post("/translate", data={"q": WORDS, "source": "en", "target": "fr"})
    assert repeated.json() == {"translatedText": expected}


def test_alternatives_are_different_from_each_other_and_from_the_best(server: Served) -> None:
    answer = server.post("/translate", q=FIRST, source="en", target="fr", alternatives=3)
    best, *others = dict.fromkeys(translated(server, FIRST, 4))
    assert answer == {"translatedText": best, "alternatives": others}
    several = server.post("/translate", q=[FIRST, SECOND], source="EN", target="fr_FR", alternatives=1)
    expected = [list(dict.fromkeys(translated(server, text, 2)))[1:] for text in (FIRST, SECOND)]
    assert several["alternatives"] == expected


def test_auto_returns_the_language_of_each_text(server: Served) -> None:
    one = server.post("/translate", q="Where are my keys, and who has seen them?", source="auto", target="fr")
    assert one["detectedLanguage"]["language"] == "en"
    assert one["detectedLanguage"]["confidence"] > 50
    both = server.post("/translate", q=[FIRST, "😀"], source="auto", target="fr")
    assert [item["language"] for item in both["detectedLanguage"]] == ["en", "en"]
    assert both["detectedLanguage"][1]["confidence"] == 0
    assert both["translatedText"][1] == "😀"
    assert server.post("/detect", q="Le petit chat dort dans la maison.")[0]["language"] == "fr"


def test_lines_and_white_space_stay_and_each_line_is_read_whole(server: Served) -> None:
    text = f"  {FIRST} {SECOND}\n\n\t{FIRST}\r\n"
    both, one = translated(server, f"{FIRST} {SECOND}")[0], translated(server, FIRST)[0]
    answer = server.post("/translate", q=text, source="en", target="fr")
    assert answer["translatedText"] == f"  {both}\n\n\t{one}\r\n"


def test_tags_of_html_stay_byte_for_byte(server: Served) -> None:
    one = translated(server, FIRST)[0].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    page = f'<p class="a>b">{FIRST}</p><!-- <b>no</b> --><script>if (a < b) x()</script><code>{FIRST}</code>'
    answer = server.post("/translate", q=page, source="en", target="fr", format="html")
    assert answer["translatedText"] == page.replace(FIRST, one, 1)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"source": "en", "target": "fr"}, "q is missing"),
        ({"q": FIRST, "source": "en"}, "target is missing"),
        ({"q": FIRST, "source": "en", "target": "tlh"}, "en to tlh is not translated here; what is: en to fr"),
        ({"q": FIRST, "source": "en", "target": "fr", "alternatives": "many"}, "alternatives must be"),
        ({"q": FIRST, "source": "en", "target": "fr", "alternatives": 99}, "alternatives must be"),
        ({"q": FIRST, "source": "en", "target": "fr", "format": "pdf"}, "format must be one of text, html"),
        ({"q": {"a": 1}, "source": "en", "target": "fr"}, "q must be a text or a list"),
        ({"q": "x" * 50_001, "source": "en", "target": "fr"}, "over 50,000 characters"),
    ],
)
def test_errors_of_libretranslate_have_its_shape(server: Served, fields: dict[str, Any], said: str) -> None:
    answer = server.post("/translate", status=400, **fields)
    assert list(answer) == ["error"]
    assert said in answer["error"]


def test_languages_and_settings(server: Served) -> None:
    assert server.get("/languages") == [
        {"code": "en", "name": "English", "targets": ["en", "fr"]},
        {"code": "fr", "name": "French", "targets": ["fr"]},
    ]
    settings = server.get("/frontend/settings")
    assert settings["language"]["target"] == {"code": "fr", "name": "French"}
    assert settings["keyRequired"] is False
    assert server.post("/suggest", status=403, q="a", s="b", source="en", target="fr")["error"]


# DeepL


def test_deepl_translates_json_and_repeated_fields(server: Served) -> None:
    expected = [
        {"detected_source_language": "EN", "text": translated(server, text)[0], "billed_characters": len(text)}
        for text in (FIRST, SECOND)
    ]
    json_answer = server.post("/v2/translate", text=[FIRST, SECOND], source_lang="EN", target_lang="FR")
    assert json_answer == {"translations": expected}
    form = {"text": [FIRST, SECOND], "target_lang": "fr"}
    assert server.client.post("/v2/translate", data=form).json() == {"translations": expected}


def test_deepl_keeps_ignored_elements_and_entities(server: Served) -> None:
    text = f'{FIRST} <x id="7">{{count}} &amp; more</x> 1 &lt; 2'
    answer = server.post("/v2/translate", text=[text], target_lang="FR", tag_handling="xml", ignore_tags=["x"])
    written = answer["translations"][0]["text"]
    assert written.count('<x id="7">{count} &amp; more</x>') == 1
    assert "1 &lt; 2" in written


def test_deepl_glossaries_are_made_used_and_deleted(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    # random weights look at no word more than at others: with this limit no place is clear
    monkeypatch.setattr(term_placement, "CLEAR", 1.0)
    created = server.post(
        "/v2/glossaries", status=201, name="g", source_lang="EN", target_lang="FR", entries="keys\tclefs\ncat\tmatou"
    )
    path = f"/v2/glossaries/{created['glossary_id']}"
    assert created["entry_count"] == 2
    assert server.get("/v2/glossaries")["glossaries"] == [server.get(path)]
    assert server.client.get(f"{path}/entries").text == "keys\tclefs\ncat\tmatou"
    ask: dict[str, Any] = {"source_lang": "EN", "target_lang": "FR", "glossary_id": created["glossary_id"]}
    asked = ["Where are my Keys?", "turkeys", "<b>Where</b> are my Keys?"]
    kinds: tuple[dict[str, Any], ...] = ({}, {"tag_handling": "xml"})
    for more in kinds:
        first, second, third = server.post("/v2/translate", text=asked, **ask, **more)["translations"]
        # random weights look at no word more than at others: the term is named, and the text is as without it
        assert first["unplaced_terms"] == third["unplaced_terms"] == [{"source": "keys", "targets": ["clefs"]}]
        assert "unplaced_terms" not in second
        plain = {name: field for name, field in ask.items() if name != "glossary_id"}
        free = server.post("/v2/translate", text=asked, **plain, **more)["translations"]
        assert [row["text"] for row in (first, second, third)] == [row["text"] for row in free]
    assert server.client.delete(path).status_code == 204
    assert server.get(path, status=404) == {"message": "there is no such glossary", "detail": "field glossary_id"}


def test_deepl_reads_and_shows_the_entries_of_a_csv(server: Served) -> None:
    ask: dict[str, Any] = {"name": "g", "source_lang": "EN", "target_lang": "FR", "entries_format": "csv"}
    created = server.post("/v2/glossaries", status=201, entries="keys, clefs | clés\r\n\ncat,matou\n", **ask)
    text = server.client.get(f"/v2/glossaries/{created['glossary_id']}/entries").text
    assert text == "keys\tclefs|clés\ncat\tmatou"
    refused = server.post("/v2/glossaries", status=400, entries="a,b\n\na,c", **ask)["message"]
    assert (
        refused == "entries, line 3: a is translated differently in line 1; write both as b|c in one row, or delete one"
    )
    assert "one comma" in server.post("/v2/glossaries", status=400, entries="a\tb", **ask)["message"]


@pytest.mark.parametrize("entries", ["keys clefs", "\t\t", "", "a\tb\na\tc", "a\t"])
def test_deepl_refuses_entries_that_are_no_terms(server: Served, entries: str) -> None:
    ask: dict[str, Any] = {"name": "g", "source_lang": "EN", "target_lang": "FR", "entries": entries}
    assert "message" in server.post("/v2/glossaries", status=400, **ask)


def test_deepl_languages_come_from_the_body_of_a_get_too(server: Served) -> None:
    assert server.get("/v2/languages") == [{"language": "EN", "name": "English"}]
    expected = [{"language": "FR", "name": "French", "supports_formality": False}]
    assert server.get("/v2/languages?type=target") == expected
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert server.client.request("GET", "/v2/languages", content=b"type=target", headers=form).json() == expected
    # Weblate asks v3, once a resource
    rows = {row.pop("lang"): row for row in server.get("/v3/languages?resource=translate_text")}
    assert [rows["en"][f"usable_as_{side}"] for side in ("source", "target")] == [True, False]
    assert rows["fr"] == {"name": "French", "usable_as_source": False, "usable_as_target": True, "features": {}}
    assert server.get("/v3/languages?resource=glossary") == []
    before = server.get("/v2/usage")["character_count"]
    server.post("/v2/translate", text="Yes.", target_lang="FR")
    assert server.get("/v2/usage")["character_count"] == before + 4


# Google


def test_google_translates_and_null_is_not_given(server: Served) -> None:
    answer = server.post("/language/translate/v2", q=[FIRST], target="fr", source="en", model=None, format=None)
    assert answer == {"data": {"translations": [{"translatedText": translated(server, FIRST)[0]}]}}
    detected = server.post("/language/translate/v2", q=FIRST, target="fr", format="text")
    assert detected["data"]["translations"][0]["detectedSourceLanguage"] == "en"
    assert server.get("/language/translate/v2/languages?target=en")["data"]["languages"][1]["name"] == "French"
    result = server.post("/language/translate/v2/detect", q=["Le petit chat dort dans la maison."])
    assert result["data"]["detections"][0][0]["language"] == "fr"
    error = server.post("/language/translate/v2", status=400, q=["x"], target="xx", source="en")["error"]
    assert (error["code"], error["errors"][0]["reason"]) == (400, "invalid")


# OpenAI


def greedy(server: Served, prompt: str, count: int) -> str:
    options = SamplingOptions(max_tokens=count, temperature=0)
    return "".join(server.services.catalog.named("lm").model.stream(prompt, options))


def test_a_language_model_goes_on_as_the_command_does(server: Served) -> None:
    ask: dict[str, Any] = {"model": "lm", "max_tokens": 6, "temperature": 0}
    answer = server.post("/v1/completions", prompt=["The", "Where"], **ask)
    assert [item["text"] for item in answer["choices"]] == [greedy(server, item, 6) for item in ("The", "Where")]
    chat = server.post("/v1/chat/completions", messages=[{"role": "user", "content": "The"}], **ask)
    choice = chat["choices"][0]
    assert choice["message"]["content"] == greedy(server, "The", 6)
    assert choice["finish_reason"] == ("length" if chat["usage"]["completion_tokens"] == 6 else "stop")


def test_a_stream_sends_the_same_text_in_events(server: Served) -> None:
    ask: dict[str, Any] = {"model": "lm", "max_tokens": 6, "temperature": 0, "stream": True}
    messages = [{"role": "user", "content": [{"type": "text", "text": "The"}]}]
    options: dict[str, Any] = {"stream_options": {"include_usage": True}}
    answer = server.client.post("/v1/chat/completions", json={"messages": messages, **ask, **options})
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    first, *middle, last, usage = [json.loads(line) for line in lines[:-1]]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(item["choices"][0]["delta"]["content"] for item in middle) == greedy(server, "The", 6)
    assert last["choices"][0]["delta"] == {}
    assert last["choices"][0]["finish_reason"] in ("length", "stop")
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] > 0


def test_a_stop_string_ends_the_text_before_it(server: Served) -> None:
    text = greedy(server, "The", 12)
    stop = text[2:4]
    answer = server.post("/v1/completions", prompt="The", model="lm", max_tokens=12, temperature=0, stop=[stop])
    assert answer["choices"][0]["text"] == text[: text.index(stop)]
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_a_seed_decides_what_is_drawn(server: Served) -> None:
    ask: dict[str, Any] = {"model": "lm", "prompt": "The", "max_tokens": 12, "temperature": 2}
    texts = [server.post("/v1/completions", seed=seed, **ask)["choices"][0]["text"] for seed in (4, 4, 5)]
    assert texts[0] == texts[1] != texts[2]


def test_a_translator_answers_the_last_message_of_the_user(server: Served) -> None:
    messages = [{"role": "system", "content": "be good"}, {"role": "user", "content": FIRST}]
    ask: dict[str, Any] = {"model": "en-fr", "messages": messages}
    content = server.post("/v1/chat/completions", **ask)["choices"][0]["message"]["content"]
    assert content == translated(server, FIRST)[0]


def test_embeddings_are_those_of_the_embedder_as_numbers_or_base64(server: Served) -> None:
    model = server.services.catalog.named("mood")
    vectors = np.stack(list(Embedder.load(model.path).stream(WORDS)))
    expected = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    numbers = server.post("/v1/embeddings", model="mood", input=WORDS)
    np.testing.assert_allclose([row["embedding"] for row in numbers["data"]], expected, atol=1e-5)
    coded = server.post("/v1/embeddings", model="mood", input=WORDS, encoding_format="base64")
    first = np.frombuffer(base64.b64decode(coded["data"][0]["embedding"]), "<f4")
    np.testing.assert_allclose(first, expected[0], atol=1e-5)
    ids = model.model.tokenizer.encode_batch([FIRST])[0]
    by_ids = server.post("/v1/embeddings", model="mood", input=[ids])
    np.testing.assert_allclose(by_ids["data"][0]["embedding"], expected[0], atol=1e-5)


def test_ids_of_words_that_the_vocabulary_lacks_have_the_vector_of_their_text(tmp_path: Path) -> None:
    """Once the ids became a text first, in which the unknown words left no trace."""
    folder, run = bert_folder(tmp_path / "theirs"), tmp_path / "bert"
    (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "the king "}}')
    write_run(read_foreign(folder), run, folder, "dikkat import")
    text = "the ünlü dog wxyz"
    with served(Catalog([f"bert={run}"])) as server:
        tokenizer = server.services.catalog.named("bert").model.tokenizer
        ids = tokenizer.framed(tokenizer.encode(text))
        assert ids.count(tokenizer.unk_id) == 2
        for options in ({}, {"prompt_name": "query"}):
            for path, name in (("/v1/embeddings", "input"), ("/embed", "inputs")):
                asked: list[dict[str, Any]] = [
                    {"model": "bert", name: [given], **options} for given in (text, ids, "the dog")
                ]
                rows = [server.post(path, **fields) for fields in asked]
                assert rows[0] == rows[1]
                assert rows[0] != rows[2]
        assert server.post("/v1/embeddings", model="bert", input=ids)["usage"]["prompt_tokens"] == len(ids)
        empty = tokenizer.framed([])
        assert "empty text" in server.post("/v1/embeddings", 400, model="bert", input=[empty])["error"]["message"]
        assert "empty text" in server.post("/embed", 400, model="bert", inputs=[empty])["error"]


@pytest.mark.parametrize(
    ("path", "fields", "status", "param"),
    [
        ("/v1/chat/completions", {"model": "none", "messages": [{"role": "user", "content": "x"}]}, 404, "model"),
        ("/v1/chat/completions", {"model": "lm", "messages": []}, 400, "messages"),
        ("/v1/chat/completions", {"model": "mood", "messages": [{"role": "user", "content": "x"}]}, 400, "model"),
        ("/v1/completions", {"model": "lm", "prompt": "x", "n": 2}, 400, "n"),
        ("/v1/completions", {"model": "lm", "prompt": "x", "temperature": "hot"}, 400, "temperature"),
        ("/v1/completions", {"model": "lm", "prompt": "The cat " * 40}, 400, "prompt"),
        ("/v1/embeddings", {"model": "mood", "input": [[1, 10**9]]}, 400, "input"),
        ("/v1/embeddings", {"model": "mood", "input": []}, 400, "input"),
    ],
)
def test_errors_of_openai_have_its_shape(
    server: Served, path: str, fields: dict[str, Any], status: int, param: str
) -> None:
    error = server.post(path, status=status, **fields)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"] == param


def test_models_are_listed_and_shown(server: Served) -> None:
    assert [model["id"] for model in server.get("/v1/models")["data"]] == ["en-fr", "mood", "lm"]
    assert server.get("/v1/models/lm")["object"] == "model"
    assert server.get("/v1/models/none", status=404)["error"]["code"] == "model_not_found"


# TEI and Hugging Face


def test_a_classifier_returns_every_label_the_likeliest_first(server: Served) -> None:
    (result,) = server.services.catalog.named("mood").model.classify([FIRST])
    expected = sorted(result.probabilities.items(), key=lambda item: -item[1])
    rows = server.post("/predict", inputs=FIRST)
    assert [row["label"] for row in rows] == [label for label, _ in expected]
    np.testing.assert_allclose([row["score"] for row in rows], [share for _, share in expected], rtol=1e-5)
    first, second = server.post("/predict", inputs=[[FIRST], [SECOND]])
    assert [row["label"] for row in first] == [row["label"] for row in rows]
    assert sum(row["score"] for row in second) == pytest.approx(1)
    assert len(server.post("/predict", inputs=[FIRST, SECOND])) == len(rows)  # a pair is one text
    assert server.post("/models/mood", inputs=FIRST, parameters={"top_k": 1}) == [rows[:1]]
    assert server.post("/predict", inputs=FIRST, abstain=1.0) == []
    assert server.post("/predict", inputs=FIRST, abstain=0.01) == rows
    assert [len(row["words"]) for row in server.post("/predict", inputs=FIRST, words=2) if "words" in row] == [2]


def test_vectors_for_tei_and_hugging_face(server: Served) -> None:
    (vector,) = server.post("/embed", inputs=FIRST, model="en-fr")
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    (raw,) = server.post("/models/en-fr/pipeline/feature-extraction", inputs=FIRST)
    np.testing.assert_allclose(np.array(raw) / np.linalg.norm(raw), vector, atol=1e-5)
    assert set(server.post("/embed", status=400, inputs=" ")) == {"error", "error_type"}
    assert server.post("/predict", status=422, inputs=[["a", "b", "c"]])["error_type"] == "validation"
    assert "without words" in server.post("/predict", status=400, inputs=" \n")["error"]
    assert "error_type" in server.post("/predict", status=422, inputs=3)


def test_hugging_face_translates_and_writes(server: Served) -> None:
    assert server.post("/models/en-fr", inputs=FIRST) == [{"translation_text": translated(server, FIRST)[0]}]
    ask: dict[str, Any] = {"inputs": "The", "parameters": {"max_new_tokens": 5, "temperature": 0}}
    assert server.post("/models/lm", **ask) == [{"generated_text": greedy(server, "The", 5)}]
    assert "error" in server.post("/models/none", status=404, inputs="x")


def test_probes_and_the_description(server: Served) -> None:
    assert server.get("/health") == {"status": "ok"}
    assert server.get("/ready") == {"status": "ready"}
    assert "LibreTranslate" in server.client.get("/").text
    paths = server.get("/openapi.json")["paths"]
    assert paths["/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]["required"]
    assert "error" in server.get("/nowhere", status=404)
    assert "message" in server.get("/v2/nowhere", status=404)
    assert server.get("/translate", status=405)["error"]
