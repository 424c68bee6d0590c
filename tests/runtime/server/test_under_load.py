"""Many callers at once: shared batches, limits that hold, work that is dropped, models that are loaded anew."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import DataError
from dikkat_runtime.server import models as catalog_module
from dikkat_runtime.server.application import Application, build_application
from dikkat_runtime.server.call import Services
from dikkat_runtime.server.models import Catalog, ServedModel, load_model
from dikkat_runtime.server.settings import Limits, ServeSettings
from dikkat_runtime.tasks.translator import Translation

FIELDS = {"source": "en", "target": "fr"}
ASK = FIELDS | {"q": "Yes."}


class HeldModel:
    """A translator that writes in capitals, once it may; it remembers its batches."""

    def __init__(self) -> None:
        self.may_go, self.batches = threading.Event(), list[list[str]]()
        self.tokenizer = self.defaults = self.engine = self.notes = self

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [[0] * len(text.split()) for text in texts]

    def resolved(self, options: BeamOptions) -> BeamOptions:
        return options

    def known(self, memories: object) -> list[Any]:
        return []

    def decoded(self, *asked: object) -> list[Translation]:
        raise AssertionError("it asks for nothing")

    def line_translator(self, *read: object, **settings: object) -> HeldModel:
        return self

    def steps(self, texts: Sequence[str], prefixes: Sequence[str]) -> Generator[Any, Any, list[Translation]]:
        yield from ()
        assert self.may_go.wait(300)
        self.batches.append(list(texts))
        if "bad" in texts:
            raise DataError("a bad segment")
        return [Translation(text.upper(), 0.0, ()) for text in texts]


class HeldCatalog(Catalog):
    """A catalog of one such model."""

    def __init__(self, model: HeldModel) -> None:
        self.models = [ServedModel("m", "translator", Path("m"), model, "en", "fr")]


class Answer:
    """The answer to a request."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self.status = int(messages[0]["status"])
        self.headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
        self.body = b"".join(message.get("body", b"") for message in messages[1:])

    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: Application, path: str, fields: object, leave: asyncio.Event | None = None, **headers: str
) -> Answer:
    """POST fields as JSON; the client stays until it may `leave`."""
    sent = list[Any]()
    body = [{"type": "http.request", "body": json.dumps(fields).encode(), "more_body": False}]

    async def receive() -> Any:
        if body:
            return body.pop()
        await (leave or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    all_headers = {"host": "localhost", "content-type": "application/json", **headers}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in all_headers.items()],
    }
    await app(scope, receive, send)
    return Answer(sent)


Test = Callable[[Application, Services, HeldModel], Awaitable[None]]


@asynccontextmanager
async def held(**limits: Any) -> AsyncIterator[tuple[Application, Services, HeldModel]]:
    model = HeldModel()
    services = Services(ServeSettings(runs=("m",), limits=Limits(**limits)), HeldCatalog(model))
    app = build_application(services)
    services.engine.start()
    try:
        yield app, services, model
    finally:
        model.may_go.set()
        await asyncio.to_thread(services.engine.close)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds():
            await asyncio.sleep(0.005)


def test_requests_that_wait_together_share_one_batch_and_get_their_own_answers() -> None:
    async def body() -> None:
        async with held() as (app, services, model):
            first = asyncio.ensure_future(ask(app, "/translate", ASK))
            await until(lambda: services.engine.queue.segments == 0 and bool(services.engine.queue._order))
            texts = [f"text {number}" for number in range(20)]
            others = [asyncio.ensure_future(ask(app, "/translate", FIELDS | {"q": text})) for text in texts]
            await until(lambda: services.engine.queue.segments == 20)
            model.may_go.set()
            answers = await asyncio.gather(first, *others)
            assert [answer.json()["translatedText"] for answer in answers] == ["YES.", *map(str.upper, texts)]
            assert model.batches == [["Yes."], texts]

    asyncio.run(body())


def test_a_bad_segment_fails_alone() -> None:
    async def body() -> None:
        async with held() as (app, services, model):
            first = asyncio.ensure_future(ask(app, "/translate", ASK))
            await until(lambda: services.engine.queue.segments == 0 and bool(services.engine.queue._order))
            others = [asyncio.ensure_future(ask(app, "/translate", FIELDS | {"q": q})) for q in ("bad", "good")]
            await until(lambda: services.engine.queue.segments == 2)
            model.may_go.set()
            _, bad, good = await asyncio.gather(first, *others)
            assert (bad.status, bad.json()) == (400, {"error": "a bad segment"})
            assert good.json() == {"translatedText": "GOOD"}

    asyncio.run(body())


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        ("/translate", ASK, lambda answer: answer["error"].startswith("Slowdown:")),
        ("/v2/translate", {"text": ["a"], "target_lang": "FR", "source_lang": "EN"}, lambda answer: answer["message"]),
        ("/language/translate/v2", {"q": ["a"], **FIELDS}, lambda answer: answer["error"]["code"] == 429),
        (
            "/v1/chat/completions",
            {"model": "m", "messages": [{"role": "user", "content": "a"}]},
            lambda answer: answer["error"]["type"] == "rate_limit_error",
        ),
        ("/embed", {"inputs": "a"}, lambda answer: answer["error_type"] == "overloaded"),
        ("/models/m", {"inputs": "a"}, lambda answer: answer["error"]),
    ],
)
def test_too_much_work_is_turned_away_with_the_time_to_come_again(
    path: str, fields: object, said: Callable[[Any], object]
) -> None:
    async def body() -> None:
        async with held(wait_seconds=0.01) as (app, services, model):
            computed = asyncio.ensure_future(ask(app, "/translate", ASK))
            await until(lambda: services.engine.queue.segments == 0 and bool(services.engine.queue._order))
            waits = asyncio.ensure_future(ask(app, "/translate", ASK | {"q": "a " * 40}))
            await until(lambda: services.engine.queue.segments == 1)
            answer = await ask(app, path, fields)
            assert answer.status == 429
            assert int(answer.headers["retry-after"]) >= 1
            assert said(answer.json())
            model.may_go.set()
            assert [item.status for item in await asyncio.gather(computed, waits)] == [200, 200]

    asyncio.run(body())


def test_a_request_out_of_time_is_refused_and_its_work_dropped() -> None:
    async def body() -> None:
        async with held() as (app, services, model):
            first = asyncio.ensure_future(ask(app, "/translate", ASK))
            await until(lambda: services.engine.queue.segments == 0 and bool(services.engine.queue._order))
            late = await ask(app, "/translate", FIELDS | {"q": "late"}, x_deadline_ms="20")
            assert (late.status, late.headers["retry-after"]) == (503, "1")
            assert services.engine.queue.segments == 0
            model.may_go.set()
            await first
        assert model.batches == [["Yes."]]

    asyncio.run(body())


def test_the_work_of_clients_that_hang_up_is_dropped() -> None:
    async def body() -> None:
        async with held() as (app, services, model):
            first, leave = asyncio.ensure_future(ask(app, "/translate", ASK)), asyncio.Event()
            await until(lambda: services.engine.queue.segments == 0 and bool(services.engine.queue._order))
            gone = [asyncio.ensure_future(ask(app, "/translate", ASK, leave)) for _ in range(200)]
            await until(lambda: services.engine.queue.segments == 200)
            leave.set()
            await asyncio.gather(*gone)
            assert services.engine.queue.segments == 0
            model.may_go.set()
            assert (await first).status == 200
        assert model.batches == [["Yes."]]
        assert "dikkat_clients_gone_total 200.0" in services.metrics.page().decode()

    asyncio.run(body())


def test_the_counters_hold_no_text_no_key_and_no_address() -> None:
    async def body() -> None:
        async with held() as (app, services, model):
            model.may_go.set()
            await ask(app, "/translate", ASK | {"q": "Geheimnis", "api_key": "Schlüssel"}, x_forwarded_for="10.9.8.7")
            await ask(app, "/v1/embeddings", {"model": "Geheimnis", "input": "Geheimnis"})
            page = services.metrics.page().decode()
            assert 'dikkat_requests_total{route="/translate",status="200"} 1.0' in page
            assert not any(word in page for word in ("Geheimnis", "Schlüssel", "10.9.8.7"))

    asyncio.run(body())


def test_an_error_of_ours_is_a_500_and_the_log_holds_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    async def body() -> None:
        async with held() as (app, _, model):
            model.may_go.set()

            def broken(texts: Sequence[str], prefixes: Sequence[str]) -> Generator[Any, Any, list[Translation]]:
                raise ValueError(f"cannot translate {texts}")

            model.steps = broken  # type: ignore[method-assign]
            answer = await ask(app, "/translate", ASK | {"q": "Geheimnis"})
            assert answer.status == 500

    asyncio.run(body())
    log = capsys.readouterr().err
    assert "ValueError at test_under_load.py" in log
    assert "Geheimnis" not in log


def test_a_broken_run_goes_on_as_it_was_when_it_is_loaded_anew(runs: dict[str, Path], tmp_path: Path) -> None:
    copies = [Path(shutil.copytree(runs[name], tmp_path / name)) for name in ("mt", "lm")]
    catalog = Catalog([f"en-fr={copies[0]}", str(copies[1])])
    before, said = list(catalog.models), list[str]()
    (copies[0] / "model.safetensors").write_bytes(b"broken")
    assert catalog.reload(said.append) == 1
    assert catalog.models[0] is before[0]
    assert catalog.models[1] is not before[1]
    assert len(said) == 1
    assert "stays in use" in said[0]
    (copies[1] / "config.json").unlink()
    shutil.rmtree(copies[0])
    assert catalog.reload(said.append) == 0
    assert catalog.models[0].model.translate(["Yes."])


@pytest.mark.parametrize(
    "error", [ValueError("weights\nof 3e38"), FloatingPointError(), AssertionError("x"), KeyError(1)]
)
def test_whatever_is_wrong_with_one_run_the_others_are_loaded_anew(
    runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    served_models = Catalog([f"en-fr={runs['mt']}", str(runs["lm"])])
    before, said, usual = list(served_models.models), list[str](), load_model

    def load(spec: str, *arguments: Any, **options: Any) -> Any:
        if spec.startswith("en-fr="):
            raise error
        return usual(spec, *arguments, **options)

    monkeypatch.setattr(catalog_module, "load_model", load)
    assert served_models.reload(said.append) == 1
    assert served_models.models[0] is before[0]
    assert served_models.models[1] is not before[1]
    assert len(said) == 1
    assert said[0].startswith(f"{runs['mt']}: cannot be loaded: ")
    assert "\n" not in said[0]
