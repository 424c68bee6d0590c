"""Hostile and broken requests: an error in the shape of the interface, never a 500."""

from __future__ import annotations

import gzip
import io
import json
import resource
import time
import zipfile
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.server.asking import Served

from dikkat_runtime.server.bodies import _parsed_query, unquoted

JSON, FORM = "application/json", "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=b"


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        (JSON, b"{", 400),
        (JSON, b"[1]", 400),
        (JSON, b"\xff{}", 400),
        (JSON, b"[" * 100_000, 400),
        (JSON, b'{"q":' + b"[" * 100_000, 400),
        (JSON, b'{"q": NaN}', 400),
        (JSON, b'{"q": ' + b"9" * 10_000 + b"}", 400),
        (JSON, b'{"q": "a", "source": "en", "target": "fr", "alternatives": 1e999}', 400),
        (JSON, b'{"q": "a", "source": ["en", "fr"], "target": "fr"}', 400),
        (JSON, b'{"q": [], "source": "en", "target": "fr"}', 400),
        (JSON, b'{"q": [1], "source": "en", "target": "fr"}', 400),
        (JSON, b"x" * 2_000_001, 400),
        (FORM, b"q=%ff&source=en&target=fr", 400),
        (FORM, b"a&" * 10_000, 400),
        (PARTS, b"--b\r\n", 400),
        (PARTS, b"garbage", 400),
        (PARTS, b'--b\r\nContent-Disposition: form-data; name="q"\r\n\r\nx', 400),
        (PARTS, b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n", 400),
        ("multipart/form-data", b"x", 400),
        (f"{PARTS}; charset=nonsense", b'--b\r\nContent-Disposition: form-data; name="q"\r\n\r\nx\r\n--b--\r\n', 400),
        ("application/octet-stream", b"\x00\x01", 415),
    ],
    ids=range(21),
)  # fmt: skip
def test_a_broken_body_is_the_mistake_of_the_client(server: Served, kind: str, body: bytes, status: int) -> None:
    answer = server.client.post("/translate", content=body, headers={"content-type": kind})
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]


@given(st.lists(st.sampled_from([b"%", b"%4", b"%41", b"%c3%A9", b"%ff", b"%zz", b"a", b"+", b"\xc3"])).map(b"".join))
def test_escapes_of_a_form_are_those_of_the_standard_library(text: bytes) -> None:
    long = text + b"a" * 300 + text
    assert (unquoted(text), unquoted(long)) == (unquote_to_bytes(text), unquote_to_bytes(long))


def test_fields_of_a_form_are_those_of_the_standard_library() -> None:
    form = "q=a+dog%21&&b&source=en=&q=%26%3D%2B&target=fr&" + "q=" + "%41b" * 200
    assert _parsed_query(form.encode()) == parse_qsl(form, keep_blank_values=True)


def test_a_form_of_escapes_is_read_faster_than_by_the_standard_library() -> None:
    body, times = b"q=" + b"%41" * 300_000, []
    for parse in (_parsed_query, partial(parse_qsl, keep_blank_values=True)):
        start = time.thread_time()
        parse(body)
        times.append(time.thread_time() - start)
    assert times[0] < 0.6 * times[1]


def test_a_compressed_body_is_refused_before_it_is_read(server: Served) -> None:
    body = gzip.compress(json.dumps({"q": "a" * 1_000_000, "source": "en", "target": "fr"}).encode())
    headers = {"content-type": JSON, "content-encoding": "gzip"}
    assert server.client.post("/translate", content=body, headers=headers).status_code == 415


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\x00",
        "\ufffe\uffff",
        "\u202eabc",
        "e" + "\u0301" * 60,
        "<" * 5000,
        "<a '" * 9,
        "😀",
        "\r\n",
        "a" * 401,
    ],
    ids=range(11),
)
@pytest.mark.parametrize("markup", ["text", "html"])
def test_any_text_is_answered(server: Served, text: str, markup: str) -> None:
    fields: dict[str, Any] = {"q": text, "source": "en", "target": "fr", "format": markup}
    assert isinstance(server.post("/translate", **fields)["translatedText"], str)


def test_half_a_surrogate_pair_is_answered_as_a_replacement_character(server: Served) -> None:
    body = rb'{"q": "\ud800 1", "source": "en", "target": "fr"}'
    answer = server.client.post("/translate", content=body, headers={"content-type": JSON})
    assert answer.json() == {"translatedText": "\ufffd 1"}


def test_no_answer_repeats_a_whole_hostile_field(server: Served) -> None:
    answer = server.client.post("/v1/embeddings", json={"model": "x" * 100_000, "input": "a"})
    assert answer.status_code == 404
    assert len(answer.text) < 1000


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "\xff\xfe"},
        {"content-type": "application/json; charset=utf-7"},
        {"content-length": "1e9"},
        {"content-length": "9" * 400},
        {"content-encoding": "br, gzip"},
        {"accept-language": ";" * 5000},
        {"authorization": "Bearer " + "\xe9" * 3000},
        {"x-deadline-ms": "-1"},
        {"x-deadline-ms": "9" * 50},
        {"accept": "text/html" * 500},
        {"host": "localhost:99999"},
        {"host": "[::1"},
        {"origin": "null"},
        {"origin": "http://[::1"},
    ],
    ids=range(14),
)
def test_hostile_headers_are_no_error_of_ours(server: Served, headers: dict[str, str]) -> None:
    encoded = {name: value.encode("latin-1") for name, value in headers.items()}
    for path in ("/translate", "/", "/page/models", "/v1/embeddings"):
        content = b'{"q": "1", "source": "en", "target": "fr"}'
        for method in ("GET", "POST"):
            answer = server.client.request(method, path, content=content, headers=encoded)  # type: ignore[arg-type]
            assert answer.status_code < 500, (path, answer.text)


def bomb() -> bytes:
    """A Word document of 600 megabytes of spaces in less than one, made without ever holding them."""
    data, spaces = io.BytesIO(), b" " * 1_000_000
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("word/document.xml", "word/footnotes.xml"):
            with archive.open(name, "w") as member:
                for _ in range(300):
                    member.write(spaces)
    return data.getvalue()


def status_of(server: Served, name: str, data: bytes) -> str:
    """Send a document, wait for its end, and return its status or its problem."""
    sent = server.client.post("/page/documents", files={"file": (name, data)}, data={"model": "en-fr"})
    if sent.status_code != 200:
        return str(sent.json()["error"])
    path, key = f"/page/documents/{sent.json()['id']}", {"key": sent.json()["key"]}
    while (state := server.client.get(path, params=key).json())["status"] in ("queued", "translating"):
        time.sleep(0.02)
    return str(state.get("problem", state["status"]))


def test_a_bomb_in_an_archive_is_not_blown_up(server: Served) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "done" not in status_of(server, "a.docx", bomb())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


@pytest.mark.parametrize(
    "name",
    ["../../../etc/a.txt", "/etc/a.txt", "C:\\a.txt", "a\x00.txt", "..", "\u202egpj.txt", "x" * 4000 + ".txt"],
    ids=range(7),
)
def test_the_name_of_a_file_is_never_a_path(server: Served, name: str) -> None:
    before = set(Path().iterdir())
    status_of(server, name, b"One.\n")
    assert set(Path().iterdir()) == before
    for job in server.services.documents._jobs.values():
        assert "/" not in job.name
        assert len(job.name) <= 200
