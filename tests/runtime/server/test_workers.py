"""Worker processes bear hostile documents: each has limits, is ended with its client, and holds up nobody."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from tests.python_path import PYTHON_PATH
from tests.runtime.runs import SENTENCES
from tests.runtime.server.asking import Served, served
from tests.runtime.server.process import ROOT, started
from tests.runtime.server.test_process import LIMIT

from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.server import workers
from dikkat_runtime.server.budget import Share
from dikkat_runtime.server.call import Call, Services
from dikkat_runtime.server.fields import Fields
from dikkat_runtime.server.models import Catalog, Translate
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.segment_queue import SegmentQueue
from dikkat_runtime.server.settings import Limits, ServeSettings
from dikkat_runtime.server.workers import Turns

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits of processes are those of POSIX")
TEXT = f"{SENTENCES[0]}\n"
LOOPS = "loop without the lock"


@pytest.fixture
def misbehaving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_MODULE", "tests.runtime.server.misbehaving_worker")


@pytest.fixture
def server(misbehaving: None, catalog: Catalog) -> Iterator[Served]:
    limits = Limits(reading_seconds=1.0, reading_bytes=100_000_000)
    with served(catalog, limits=limits) as server:
        yield server


@pytest.fixture
def patient(misbehaving: None, catalog: Catalog) -> Iterator[Served]:
    """One that ends no worker for the time that it takes."""
    with served(catalog, limits=Limits(reading_seconds=1e6)) as server:
        yield server


def busy_worker(server: Served) -> int:
    """Wait for a worker that does something, and return the number of its process."""
    busy = list[int]()

    def is_busy() -> bool:
        busy[:] = [worker.identity for worker in list(server.services.workers._workers) if worker.is_busy]
        return bool(busy)

    wait_for(is_busy)
    return busy[0]


def send(server: Served, text: str) -> tuple[str, dict[str, str]]:
    """Send a document to be translated; return its address and its key."""
    files, fields = {"file": ("a.txt", text.encode())}, {"model": "en-fr"}
    answer = server.client.post("/page/documents", files=files, data=fields).json()
    return f"/page/documents/{answer['id']}", {"key": answer["key"]}


def wait_for(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def end_of(server: Served, document: tuple[str, dict[str, str]]) -> Any:
    """Wait until a document is finished, and return its state."""
    path, key = document
    states: list[Any] = []

    def is_finished() -> bool:
        states[:] = [server.client.get(path, params=key).json()]
        return states[0]["status"] in ("done", "error")

    wait_for(is_finished)
    return states[0]


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def file_status(server: Served, text: str) -> tuple[int, str]:
    """Translate a file at once; return the status and the error."""
    fields = {"source": "en", "target": "fr"}
    answer = server.client.post("/translate_file", files={"file": ("a.txt", text.encode())}, data=fields)
    return answer.status_code, answer.json().get("error", "")


@pytest.mark.parametrize("loop", [LOOPS, "loop inside a library"])
def test_a_document_that_takes_too_long_is_given_up_and_the_next_one_is_read(server: Served, loop: str) -> None:
    document = send(server, loop)
    # the server answers meanwhile, also other documents
    assert server.client.get("/health").status_code == 200
    assert end_of(server, send(server, TEXT))["status"] == "done"
    state = end_of(server, document)
    assert (state["status"], state["problem"]) == (
        "error", "the document takes over 1 s of a processor to read; it is not read",
    )  # fmt: skip
    assert end_of(server, send(server, TEXT))["status"] == "done"


def test_whoever_waits_for_a_document_gets_one_error(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert file_status(server, "memory") == (
        422, "the document takes over 100,000,000 bytes of memory to read; it is not read",
    )  # fmt: skip
    assert file_status(server, LOOPS)[0] == 422
    assert capsys.readouterr().err == ""
    assert file_status(server, "end at once") == (422, "the document ended the process that read it; it is not read")
    assert capsys.readouterr().err.count("\n") == 1
    assert file_status(server, "bug") == (400, "the document could not be translated (LookupError)")
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "internal error: LookupError at misbehaving_worker.py" in said
    assert file_status(server, TEXT) == (200, "")


def test_a_long_text_with_tags_is_read_like_a_document(server: Served) -> None:
    ask: dict[str, Any] = {"source": "en", "target": "fr", "format": "html"}
    answer = server.client.post("/translate", json={**ask, "q": f"<b>{LOOPS}</b>" + " " * 4000})
    assert (answer.status_code, answer.json()) == (
        422, {"error": "the text takes over 1 s of a processor to read; it is not read"},
    )  # fmt: skip
    short = f"<p>{SENTENCES[0]}</p>"
    translated = server.post("/translate", q=short, **ask)["translatedText"]
    # a long text goes to a worker, and comes back with the same words
    long = server.post("/translate", q=short * 100, **ask)["translatedText"]
    assert long == translated * 100
    two = server.post("/translate", q=short * 100, alternatives=1, **ask)
    best = server.post("/translate", q=short, alternatives=1, **ask)
    assert two["alternatives"] == [text * 100 for text in best["alternatives"]]


def test_a_deleted_document_ends_its_process(patient: Served) -> None:
    path, key = send(patient, LOOPS)
    busy = busy_worker(patient)
    assert patient.client.delete(path, params=key).status_code == 204
    wait_for(lambda: not is_running(busy))


def test_all_workers_can_be_killed_from_another_thread(patient: Served) -> None:
    send(patient, LOOPS)
    busy = busy_worker(patient)
    patient.services.workers.kill()
    wait_for(lambda: not is_running(busy))


def test_at_the_end_of_the_server_no_process_is_left(misbehaving: None, catalog: Catalog) -> None:
    with served(catalog) as server:
        for _ in range(3):
            send(server, LOOPS)
        wait_for(lambda: len(server.services.workers.identities) > 2)
        processes = server.services.workers.identities
    assert not any(map(is_running, processes))


def test_a_worker_is_used_again_after_a_document_that_it_could_read(server: Served) -> None:
    for text in (TEXT, "\xff", TEXT):
        end_of(server, send(server, text))
    processes = set(server.services.workers.identities)
    assert file_status(server, TEXT)[0] == 200
    # a second worker may come up meanwhile
    wait_for(lambda: processes <= set(server.services.workers.identities))


def test_a_worker_ends_when_its_server_is_killed(runs: dict[str, Path], tmp_path: Path) -> None:
    with started(f"en-fr={runs['mt']}", "--threads", "1") as (process, _):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if not children.exists():
            pytest.skip("children are read from Linux")
        wait_for(children.read_text)
        (worker,) = map(int, children.read_text().split())
        process.kill()
        process.wait()
        wait_for(lambda: not is_running(worker) or is_zombie(worker))


SERVER = """
import asyncio, os
from dikkat_runtime.server import workers

async def main():
    workers._MODULE = "tests.runtime.server.misbehaving_worker"
    worker = await workers.Worker.start()
    job = {"kind": "text", "source": "en", "target": "fr", "seconds": 1e6, "memory": 1 << 30}
    await worker.send(job, b"loop inside a library")
    print(worker.identity, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone can tell a process of the death of its parent")
def test_a_busy_worker_ends_with_a_killed_server_though_a_library_holds_the_interpreter() -> None:
    path = os.pathsep.join([PYTHON_PATH, str(ROOT)])
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    worker = int(server.stdout.readline())
    # it has begun once it has used the processor for as long as no start takes
    stat = Path(f"/proc/{worker}/stat")
    begun = processor_ticks(stat)
    wait_for(lambda: processor_ticks(stat) > begun + 50)
    server.kill()
    server.communicate()
    wait_for(lambda: is_zombie(worker))


def processor_ticks(stat: Path) -> int:
    """The hundredths of a second that a process has computed."""
    return int(stat.read_text().rpartition(")")[2].split()[11])


def test_a_worker_that_cannot_hold_a_message_ends() -> None:
    program = """
import threading
from dikkat_runtime.server.document_worker import _listen

class Pipe:
    def read(self, size):
        raise MemoryError

thread = threading.Thread(target=_listen, args=(Pipe(), None))
thread.start()
thread.join()
"""
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_worker_yields_to_requests_already_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def is_ready(*_: Any) -> None:
        pass

    async def wait_until_it_yields() -> None:
        # it waits for its input, and is never ready
        monkeypatch.setattr(workers, "_MODULE", "asyncio")
        monkeypatch.setattr(workers.Worker, "receive", is_ready)
        worker = await workers.Worker.start()
        try:
            wait_for(lambda: os.getpriority(os.PRIO_PROCESS, worker.identity) >= workers.NICENESS)
        finally:
            worker.kill()
            await worker.wait()

    asyncio.run(wait_until_it_yields())


async def _fails() -> Any:
    raise OSError(errno.EAGAIN, "no more processes")


@pytest.mark.parametrize("why", ["no such module", "no more processes"])
def test_where_no_worker_starts_the_client_is_told_to_come_again(
    why: str, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if why == "no such module":
        monkeypatch.setattr(workers, "_MODULE", "no.such.module")
    else:
        monkeypatch.setattr(workers.Worker, "start", _fails)
    fields = {"source": "en", "target": "fr"}
    with served(catalog) as server:
        for answer in (
            server.client.post("/translate_file", files={"file": ("a.txt", TEXT.encode())}, data=fields),
            server.client.post("/translate", json={**fields, "format": "html", "q": "<b>a</b>" + " " * 4000}),
        ):
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert "can be started" in answer.json()["error"]
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(" did not start: ")[0] for line in said] == ["dikkat: a process to read documents"] * 2


def test_a_worker_that_does_not_come_up_costs_no_more_than_the_time_of_the_request(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never_starts() -> Any:
        await asyncio.sleep(LIMIT)

    monkeypatch.setattr(workers.Worker, "start", never_starts)
    began = time.monotonic()
    with served(catalog) as server:
        ask = {"source": "en", "target": "fr", "format": "html", "q": "<b>a</b>" + " " * 4000}
        answer = server.client.post("/translate", json=ask, headers={"x-deadline-ms": "300"})
    assert (answer.status_code, "time for this request" in answer.json()["error"]) == (503, True)
    assert time.monotonic() - began < LIMIT / 2


def test_a_document_that_waits_for_others_minds_its_time(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SegmentQueue, "estimated_seconds", 1e9)
    services = Services(ServeSettings(runs=("x",)), catalog)
    call = Call(services, Request({"type": "http", "headers": []}), Fields({}, Limits(), "invalid"), None, Share())
    task = Translate(catalog.chosen("en-fr", "translator"), BeamOptions(beam_size=1))

    async def compute() -> None:
        call.detach(0.3)
        async with asyncio.timeout(LIMIT / 10):
            await call.compute(task, ["a"])

    with pytest.raises(RequestError, match="time for this request is up"):
        asyncio.run(compute())


def test_documents_are_deleted_when_their_time_is_up_though_nobody_sends_another(catalog: Catalog) -> None:
    with served(catalog, limits=Limits(document_seconds=0.5)) as server:
        path, key = send(server, TEXT)
        wait_for(lambda: not server.services.documents._jobs)
        assert server.client.get(path, params=key).status_code == 404


def is_zombie(process: int) -> bool:
    """Return whether a process has ended and is not yet waited for, or is gone."""
    try:
        return "Z" in Path(f"/proc/{process}/stat").read_text().split()
    except OSError:
        return True


def test_turns_go_round_among_owners() -> None:
    order = list[str]()

    async def work(turns: Turns, owner: str) -> None:
        async def wait(turn: asyncio.Future[None]) -> None:
            await turn

        async with turns.turn(owner, wait):
            order.append(owner)
            await asyncio.sleep(0)

    async def all_work() -> None:
        turns = Turns(1)
        works = [asyncio.ensure_future(work(turns, owner)) for owner in "aaaabbc"]
        await asyncio.sleep(0)
        works[2].cancel()
        await asyncio.gather(*works, return_exceptions=True)
        # whoever left has no turn, and nobody's is lost
        async with asyncio.timeout(LIMIT):
            await asyncio.gather(*(work(turns, "d") for _ in range(3)))

    asyncio.run(all_work())
    assert "".join(order) == "aabcab" + "ddd"
