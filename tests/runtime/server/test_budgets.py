"""What all requests hold together: bodies, those whose key is not known yet, glossaries and documents of each key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.runs import SENTENCES
from tests.runtime.server.asking import Served, served

from dikkat_runtime.server.application import build_application
from dikkat_runtime.server.budget import PIECE, SMALL_BODY, Budget, Share
from dikkat_runtime.server.call import Services
from dikkat_runtime.server.document_store import DocumentJob, DocumentStore, TranslatedFile
from dikkat_runtime.server.glossaries import GlossaryStore, StoredGlossary
from dikkat_runtime.server.keys import new_key
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.segment_queue import SegmentQueue
from dikkat_runtime.server.settings import Limits, ServeSettings
from dikkat_runtime.text.glossary import Term

ASK: dict[str, Any] = {"q": "Hello.", "source": "en", "target": "fr"}


def refused(action: Callable[[], object]) -> str:
    """Return the kind of the error that an action ends with."""
    with pytest.raises(RequestError) as error:
        action()
    return error.value.kind


def test_small_requests_count_in_no_budget_and_large_ones_until_they_end() -> None:
    everybody = Budget(1000)
    first, second, small = (Share(everybody) for _ in range(3))
    first.take(SMALL_BODY)
    assert everybody.used == 0
    first.take(600)
    assert everybody.used == 600
    assert refused(lambda: second.take(SMALL_BODY + 401)) == "overloaded"
    small.take(SMALL_BODY)
    second.take(SMALL_BODY + 400)
    later = first.move()
    first.close()
    assert everybody.used == 1000
    later.close()
    second.close()
    small.close()
    assert everybody.used == 0


class Connection:
    """One request to an application, whose body is sent by hand."""

    def __init__(self, application: Any, path: str, headers: dict[str, str], method: str = "POST") -> None:
        self._body: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.was_read = False
        self.has_room = asyncio.Event()
        """Whether more of the answer can be sent."""
        self.has_room.set()
        self.largest_piece = 0
        self.status, self.headers, self.content = 0, dict[bytes, bytes](), b""
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "http_version": "1.1",
            "scheme": "http", "server": ("localhost", 80), "client": ("127.0.0.1", 1), "root_path": "",
        }  # fmt: skip
        self.task = asyncio.ensure_future(application(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        self.was_read = True
        return await self._body.get()

    async def _send(self, message: Any) -> None:
        await self.has_room.wait()
        self.largest_piece = max(self.largest_piece, len(message.get("body", b"")))
        self.status = message.get("status", self.status)
        self.headers |= dict(message.get("headers", ()))
        self.content += message.get("body", b"")

    async def send(self, data: bytes, more: bool = True) -> None:
        """Send a part of the body, and wait until it was looked at."""
        self._body.put_nowait({"type": "http.request", "body": data, "more_body": more})
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "keys"
    return path, new_key(path, "me")


def application_of(catalog: Catalog, keys: Path | None = None, **limits: Any) -> tuple[Any, Services]:
    services = Services(ServeSettings(runs=("x",), keys=keys, limits=Limits(**limits)), catalog)
    return build_application(services), services


def test_a_key_in_the_head_is_checked_before_the_body_is_read(catalog: Catalog, keys: tuple[Path, str]) -> None:
    path, key = keys
    lines = path.read_text().splitlines()
    path.write_text(f"{lines[0]} requests=1\n")
    application, _ = application_of(catalog, path)

    async def statuses() -> list[tuple[int, bool]]:
        result = []
        for presented in ("wrong", key, key):
            headers = {"host": "localhost", "authorization": f"Bearer {presented}", "content-length": "1000000"}
            connection = Connection(application, "/translate", headers)
            for _ in range(20):
                await asyncio.sleep(0)
            result.append((connection.status, connection.was_read))
            connection.task.cancel()
        return result

    assert asyncio.run(statuses()) == [(403, False), (0, True), (429, False)]


def test_bodies_whose_key_is_not_known_have_a_budget_of_their_own(catalog: Catalog, keys: tuple[Path, str]) -> None:
    application, services = application_of(catalog, keys[0], unkeyed_bytes=500_000)
    head = {"host": "localhost", "content-type": "application/json"}

    async def attack() -> None:
        unknown = [Connection(application, "/translate", head) for _ in range(10)]
        for connection in unknown:
            await connection.send(b'{"q": "' + b"a" * 100_000)
        assert sorted(connection.status for connection in unknown) == [0] * 5 + [429] * 5
        over = next(connection for connection in unknown if connection.status)
        assert over.headers[b"retry-after"] == b"2"
        assert json.loads(over.content) == {"error": "Slowdown: too many large requests at once; send it again later"}
        # a small request, and one whose key is in the head, have room
        small = Connection(application, "/translate", head)
        await small.send(b'{"q": "a"}', more=False)
        assert small.status == 403
        keyed = Connection(application, "/v1/embeddings", {**head, "authorization": f"Bearer {keys[1]}"})
        await keyed.send(b'{"input": "' + b"a" * 1_000_000 + b'"}', more=False)
        await keyed.task
        assert keyed.status not in (0, 401, 429)
        for connection in unknown:
            connection.task.cancel()
        await asyncio.gather(*(connection.task for connection in unknown), return_exceptions=True)
        assert (services.unkeyed.used, services.memory.used) == (0, 0)

    asyncio.run(attack())


def test_all_bodies_together_have_a_budget(catalog: Catalog) -> None:
    application, services = application_of(catalog, memory_bytes=300_000)

    async def attack() -> None:
        head = {"host": "localhost", "content-type": "application/json"}
        unfinished = [Connection(application, "/translate", head) for _ in range(6)]
        for connection in unfinished:
            await connection.send(b'{"q": "' + b"a" * 100_000)
        assert sorted(connection.status for connection in unfinished) == [0] * 3 + [429] * 3
        assert services.memory.used <= 300_000
        for connection in unfinished:
            connection.task.cancel()
        await asyncio.gather(*(connection.task for connection in unfinished), return_exceptions=True)
        assert services.memory.used == 0

    asyncio.run(attack())


async def content_of(file: TranslatedFile) -> bytes:
    return b"".join([piece async for piece in file.pieces()])


async def take_slowly(connection: Connection, services: Services) -> tuple[int, int]:
    """Return what an answer holds of the budget while nobody takes it, and after somebody has."""
    for _ in range(1000):
        await asyncio.sleep(0.001)
        if connection.has_room._waiters:
            break
    held = services.memory.used
    connection.has_room.set()
    await connection.task
    return held, services.memory.used


def test_a_file_that_nobody_takes_holds_two_pieces_and_is_sent_whole_though_it_is_deleted(catalog: Catalog) -> None:
    application, services = application_of(catalog)
    content = bytes(range(256)) * 4096 + b"end"

    async def fetch() -> tuple[Connection, tuple[int, int]]:
        job = DocumentJob("a.txt", "")
        services.documents.add(job)
        job.keep(TranslatedFile(content), [])
        path = f"/download_file/{job.identity}.a.txt"
        connection = Connection(application, path, {"host": "localhost"}, "GET")
        connection.has_room.clear()
        await asyncio.sleep(0.01)
        services.documents.remove(job)
        return connection, await take_slowly(connection, services)

    connection, held = asyncio.run(fetch())
    assert held == (2 * PIECE - SMALL_BODY, 0)
    assert connection.content == content
    assert connection.headers[b"content-length"] == str(len(content)).encode()
    assert connection.largest_piece <= PIECE


def test_an_answer_counts_until_it_is_taken(catalog: Catalog) -> None:
    application, services = application_of(catalog)
    texts = ["1 2 3 4 5 6 " * 4000] * 4

    async def ask() -> tuple[Connection, tuple[int, int]]:
        connection = Connection(application, "/translate", {"host": "localhost", "content-type": "application/json"})
        connection.has_room.clear()
        await connection.send(json.dumps({**ASK, "q": texts}).encode(), more=False)
        return connection, await take_slowly(connection, services)

    connection, (held, afterwards) = asyncio.run(ask())
    assert json.loads(connection.content)["translatedText"] == texts
    assert held > 2 * sum(map(len, texts)) - SMALL_BODY
    assert afterwards == 0
    assert connection.largest_piece <= PIECE


def test_many_texts_enter_the_queue_in_portions_and_come_back_in_their_order(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, usual = list[int](), SegmentQueue.put

    def put(queue: SegmentQueue, task: Any, ticket: Any, items: Any, *rest: Any) -> None:
        usual(queue, task, ticket, items, *rest)
        sizes.append(len(items))

    texts = [SENTENCES[number % len(SENTENCES)] or "a" for number in range(1201)]
    monkeypatch.setattr(SegmentQueue, "put", put)
    answers = server.post("/predict", inputs=[[text] for text in texts])
    assert sizes == [500, 500, 201]
    each = {text: server.post("/predict", inputs=[[text]])[0] for text in set(texts)}
    for text, answer in zip(texts, answers, strict=True):
        assert [row["score"] for row in answer] == pytest.approx([row["score"] for row in each[text]], abs=1e-5)


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=b"])
def test_a_body_of_no_declared_length_is_bounded_all_the_same(catalog: Catalog, kind: str) -> None:
    application, _ = application_of(catalog, body_bytes=300_000)

    async def attack() -> Connection:
        connection = Connection(application, "/v1/embeddings", {"host": "localhost", "content-type": kind})
        await connection.send(b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n')
        for _ in range(2):
            await connection.send(b"a" * 100_000)
        assert connection.status == 0
        await connection.send(b"a" * 100_001)
        await connection.task
        return connection

    assert asyncio.run(attack()).status == 413


def test_json_of_very_many_values_is_refused_before_it_is_parsed(server: Served) -> None:
    body = b'{"q": "a", "source": "en", "target": "fr", "also": [' + b"[]," * 60_000 + b"0]}"
    answer = server.client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert "commas and brackets" in answer.json()["error"]
    # those of a text that may be sent count too, and are few enough; without words there is nothing to translate
    text = "1, [2], 3; " * 4000
    assert server.post("/translate", q=text, source="en", target="fr")["translatedText"] == text


def test_an_address_without_fields_reads_no_body(catalog: Catalog) -> None:
    application, _ = application_of(catalog)

    async def ask() -> Connection:
        connection = Connection(application, "/health", {"host": "localhost"})
        for _ in range(20):
            await asyncio.sleep(0)
        return connection

    connection = asyncio.run(ask())
    assert (connection.status, connection.was_read) == (405, False)


def test_glossaries_are_bounded_for_each_owner(catalog: Catalog) -> None:
    store = GlossaryStore(Limits(glossaries=2, glossary_entries=3))
    one = [StoredGlossary(f"{number}", "en", "fr", [Term("a", ("b",))]) for number in range(4)]
    store.add("me", one[0])
    store.add("me", one[1])
    assert refused(lambda: store.add("me", one[2])) == "too_large"
    store.add("you", one[2])
    store.remove("me", one[0].identity)
    store.add("me", one[3])
    assert store.all_of("me") == [one[1], one[3]]
    assert len(asyncio.run(store.parse("a\tb\nc\td\ne\tf", "\t", "tab"))) == 3
    assert refused(lambda: asyncio.run(store.parse("a\tb\nc\td\ne\tf\ng\th", "\t", "tab"))) == "too_large"
    # what is beyond the limit is not even read
    assert refused(lambda: asyncio.run(store.parse("a\tb\nc\td\ne\tf\ng\th\nno term", "\t", "tab"))) == "too_large"
    limits = Limits(glossaries=1, glossary_entries=2)
    ask = {"name": "g", "source_lang": "en", "target_lang": "fr", "entries": "a\tb\nc\td"}
    with served(catalog, limits=limits) as server:
        server.post("/v2/glossaries", status=413, **{**ask, "entries": "a\tb\nc\td\ne\tf"})
        server.post("/v2/glossaries", status=201, **ask)
        assert "delete one first" in server.post("/v2/glossaries", status=413, **ask)["message"]


def test_a_request_names_few_glossaries(server: Served) -> None:
    names = ",".join(f"{number}" for number in range(6))
    ask = {"text": "a", "source_lang": "en", "target_lang": "fr", "glossary_ids": names}
    assert "over 5" in server.post("/v2/translate", status=400, **ask)["message"]


def test_the_finished_documents_of_one_key_stay_when_another_sends_many() -> None:
    store = DocumentStore(Limits(documents=2))
    mine = DocumentJob("a.txt", "me")
    store.add(mine)
    mine.keep(TranslatedFile(b"done"), [])
    for number in range(5):
        theirs = DocumentJob(f"{number}.txt", "them")
        store.add(theirs)
        theirs.keep(TranslatedFile(b"also"), [])
    kept_file = store.get_own(mine.identity, mine.key, "me").result
    assert kept_file is not None
    assert asyncio.run(content_of(kept_file)) == b"done"
    kept = [job for job in store._jobs.values() if job.owner == "them"]
    assert [job.name for job in kept] == ["3.txt", "4.txt"]
    for _ in range(2):
        store.add(DocumentJob("b.txt", "me"))
    assert refused(lambda: store.add(DocumentJob("c.txt", "me"))) == "overloaded"
    store.add(DocumentJob("d.txt", "third"))
