"""Whole files through DeepL's and LibreTranslate's routes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.runtime.runs import SENTENCES
from tests.runtime.server.asking import Served

from dikkat_runtime.server.document_store import DocumentJob, DocumentStore
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.settings import Limits
from dikkat_runtime.tasks.term_consistency import TermUnifier

TEXT = f"{SENTENCES[0]}\n\n  {SENTENCES[1]}\n"


def expected(server: Served) -> str:
    answer = server.post("/translate", q=TEXT, source="en", target="fr")
    return str(answer["translatedText"])


def send(server: Served, name: str, data: bytes, **fields: Any) -> Any:
    return server.client.post("/v2/document", files={"file": (name, data)}, data={"target_lang": "FR", **fields})


def test_a_document_is_sent_watched_and_fetched_once(server: Served) -> None:
    sent = send(server, "../../etc/notes.TXT", TEXT.encode()).json()
    path, key = f"/v2/document/{sent['document_id']}", {"document_key": sent["document_key"]}
    end = time.monotonic() + 120
    while (status := server.post(path, **key))["status"] != "done" and time.monotonic() < end:
        assert status["status"] in ("queued", "translating")
        assert status["seconds_remaining"] >= 1
    assert status["billed_characters"] == len(TEXT)
    assert server.post(path, status=404, document_key="wrong")["message"] == "there is no such document"
    fetched = server.client.post(f"{path}/result", json=key)
    assert fetched.content.decode() == expected(server)
    assert fetched.headers["content-disposition"] == "attachment; filename*=UTF-8''notes.TXT"
    assert server.client.post(f"{path}/result", json=key).status_code == 404


def test_a_file_is_translated_and_downloaded(server: Served) -> None:
    answer = server.client.post(
        "/translate_file", files={"file": ("ça.txt", TEXT.encode())}, data={"source": "auto", "target": "fr"}
    )
    url = answer.json()["translatedFileUrl"]
    assert url.startswith("http://localhost/download_file/")
    assert server.client.get(url).content.decode() == expected(server)
    assert ".txt" in server.get("/frontend/settings")["supportedFilesFormat"]


def test_a_document_has_one_translation_of_a_term_where_that_is_asked(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loud(unify: TermUnifier, sources: list[str], targets: list[str]) -> tuple[list[str], str]:
        assert sources == list(SENTENCES[:2])
        return [target.upper() for target in targets], "2 texts changed"

    monkeypatch.setattr(TermUnifier, "__call__", loud)
    for asked, text in (("true", expected(server).upper()), ("false", expected(server))):
        fields = {"source": "en", "target": "fr", "consistent": asked}
        answer = server.client.post("/translate_file", files={"file": ("a.txt", TEXT.encode())}, data=fields)
        assert server.client.get(answer.json()["translatedFileUrl"]).content.decode() == text


def test_untranslatable_files_are_errors_in_the_shape_of_the_interface(server: Served) -> None:
    assert "these are: .txt" in send(server, "a.exe", b"MZ").json()["message"]
    assert send(server, "a.exe", b"MZ").status_code == 400
    assert send(server, "a.txt", b"x", output_format="pdf").status_code == 400
    assert send(server, "a.txt", b"x", target_lang="TLH").status_code == 400
    assert "must be a file" in server.post("/v2/document", status=400, target_lang="FR", file="x")["message"]
    sent = send(server, "a.txt", b"\xff").json()
    path, key = f"/v2/document/{sent['document_id']}", {"document_key": sent["document_key"]}
    end = time.monotonic() + 120
    while (status := server.post(path, **key))["status"] != "error" and time.monotonic() < end:
        pass
    assert status["error_message"] == "the file is not valid UTF-8"
    bad = server.client.post("/translate_file", files={"file": ("a.zip", b"PK")}, data={"source": "en", "target": "fr"})
    assert bad.status_code == 403
    large = server.client.post("/v2/document", files={"file": ("a.txt", b"x" * 20_000_001)}, data={"target_lang": "FR"})
    assert large.status_code == 413


def test_files_that_are_done_give_way_and_unfinished_ones_do_not() -> None:
    store = DocumentStore(Limits())
    jobs = [DocumentJob("a.txt", "") for _ in range(Limits().documents)]
    for job in jobs:
        store.add(job)
    with pytest.raises(RequestError, match="are being translated"):
        store.add(DocumentJob("b.txt", ""))
    jobs[3].status = "done"
    store.add(DocumentJob("b.txt", ""))
    with pytest.raises(RequestError):
        store.get(jobs[3].identity)
    assert store.get(jobs[0].identity) is jobs[0]
