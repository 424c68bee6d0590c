"""The real server in a process of its own: it starts, answers, finishes what it accepted, and complains in one line."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.server.process import started

from dikkat_runtime.cli.main import run as run_command

LIMIT = 300.0
"""Seconds after which something hangs: a busy machine may need many for what takes two."""


def post(url: str, **fields: Any) -> Any:
    request = urllib.request.Request(url, json.dumps(fields).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        return json.loads(answer.read())


def test_on_sigterm_what_was_accepted_is_answered_and_the_process_ends_with_0(runs: dict[str, Path]) -> None:
    with started(f"en-fr={runs['mt']}", "--threads", "1", "--drain", "300") as (process, url):
        answers = list[Any]()

        def call(number: int) -> None:
            # no two lines are alike, which would be translated once: the four take seconds
            text = "".join(f"Where are my keys {number} {row}?\n" for row in range(60))
            answers.append(post(f"{url}/translate", q=text, source="en", target="fr"))

        callers = [threading.Thread(target=call, args=[number]) for number in range(4)]
        for caller in callers:
            caller.start()
        while post_inflight(url) < 5:  # the four and the one that asks
            assert not answers, "the first was answered before the last had come"
        process.send_signal(signal.SIGTERM)
        for caller in callers:
            caller.join(LIMIT)
        assert process.wait(LIMIT) == 0
        assert len(answers) == 4
        assert {answer["translatedText"].count("\n") for answer in answers} == {60}
        with pytest.raises(urllib.error.URLError):
            post(f"{url}/translate", q="x", source="en", target="fr")


def test_a_document_on_its_way_does_not_keep_the_process_from_its_end(runs: dict[str, Path]) -> None:
    with started(f"en-fr={runs['mt']}", "--threads", "1") as (process, url):
        text = "".join(f"Where are my keys {number}?\r\n" for number in range(20_000))
        body = (
            '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nen-fr\r\n--b\r\nContent-Disposition: form-data;'
            f' name="file"; filename="a.txt"\r\n\r\n{text}\r\n--b--\r\n'
        )
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        request = urllib.request.Request(f"{url}/page/documents", data=body.encode(), headers=headers)
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            assert json.loads(answer.read())["id"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0


def test_what_cannot_be_answered_in_time_is_refused_and_the_log_stays_clean(runs: dict[str, Path]) -> None:
    # so wide a beam over so many lines takes far longer than the second that the server has
    options = ("--threads", "1", "--drain", "1", "--beam", "32", "--max-wait", "1000")
    with started(f"en-fr={runs['mt']}", *options) as (process, url):
        statuses, refusals = list[int](), list[tuple[Any, str | None]]()

        def call(number: int) -> None:
            text = "".join(f"Where are my keys {number} {row}?\n" for row in range(1500))
            try:
                post(f"{url}/translate", q=text, source="en", target="fr")
                statuses.append(200)
            except urllib.error.HTTPError as error:
                refusals.append((json.loads(error.read()), error.headers["Retry-After"]))
                statuses.append(error.code)

        callers = [threading.Thread(target=call, args=[number]) for number in range(3)]
        for caller in callers:
            caller.start()
        while post_inflight(url) < 4:  # the three and the one that asks
            assert not statuses, "the first was answered before the last had come"
        process.send_signal(signal.SIGTERM)
        for caller in callers:
            caller.join(LIMIT)
        assert process.wait(LIMIT) == 0
        assert statuses == [503] * 3
        assert refusals == [({"error": "the server has ended; ask again"}, "1")] * 3
        assert process.stderr is not None
        log = process.stderr.read().splitlines()
        assert log[0] == "dikkat: stopping after the requests that were accepted; signal once more to stop at once"
        assert set(log[1:]) <= {"dikkat: stopped although some threads were still working"}


def post_inflight(url: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics", timeout=LIMIT) as answer:
        page = answer.read().decode()
    result = re.search(r"^dikkat_inflight_requests (\S+)$", page, re.MULTILINE)
    assert result
    return float(result[1])


def test_slow_heads_and_silent_connections_do_not_keep_others_waiting(runs: dict[str, Path]) -> None:
    with started(f"lm={runs['lm']}") as (process, url):
        host, port = url.removeprefix("http://").split(":")
        slow = [socket.create_connection((host, int(port))) for _ in range(50)]
        for connection in slow:
            connection.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\n")
        assert post(f"{url}/v1/completions", model="lm", prompt="The", max_tokens=2)["choices"]
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 130
        for connection in slow:
            connection.close()


def fails(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line of a command that must fail as a mistake of the user."""
    code = run_command(["serve", *map(str, arguments)])
    output, complaint = capsys.readouterr()
    assert code in (2, 66)
    assert output == ""
    assert complaint.startswith("dikkat: ")
    assert complaint.count("\n") == 1
    return complaint


def test_what_cannot_be_served_is_one_line(
    capsys: pytest.CaptureFixture[str], runs: dict[str, Path], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "the port is taken" in fails(capsys, runs["lm"], "--port", port)
    free = ["--port", "0"]
    assert "not a run directory" in fails(capsys, tmp_path, *free)
    assert "no such run" in fails(capsys, tmp_path / "none", *free)
    assert "would both be called lm" in fails(capsys, runs["lm"], runs["lm"], *free)
    assert "give them as its name" in fails(capsys, f"x={runs['mt']}", *free)
    pair = [f"en-fr={runs['mt']}", f"en-fr={runs['mt']}"]
    assert "would both be called en-fr" in fails(capsys, *pair, *free)
    assert "letters, digits" in fails(capsys, f"a b={runs['lm']}", *free)
    assert "--keys FILE" in fails(capsys, runs["lm"], "--host", "0.0.0.0")
    assert "at least one run" in fails(capsys)
    assert "not an address of this machine" in fails(capsys, runs["lm"], "--host", "no.such.host.invalid", "--open")
    assert "--threads" in fails(capsys, runs["lm"], "--threads", "0")


def test_a_key_is_made_by_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run_command(["serve", "--new-key", "bob", "--keys", str(tmp_path / "keys")]) == 0
    printed, note = capsys.readouterr()
    assert printed.startswith("dk-")
    assert "the key is shown once" in note
    assert "name it with --keys" in fails(capsys, "--new-key", "bob")


def test_it_serves_where_torch_cannot_be_imported() -> None:
    blocked = (
        "import sys\nclass Blocked:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'dikkat', 'pydantic'):\n            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Blocked())\nimport dikkat_runtime.server.running\n"
    )
    done = subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


_COLLECTING = """
import asyncio, gc, types
from dikkat_runtime.server import running

full = []

async def run():
    gc.callbacks.append(lambda phase, info: full.append(phase) if info["generation"] == 2 and phase == "stop" else None)
    kept = [[number] for number in range(700_000)]
    counts = [len(full)]
    for _ in range(2):
        running._Server._collect_garbage(server)
        counts.append(len(full))
    print(*counts)
    return 0

server = types.SimpleNamespace(run=run, config=types.SimpleNamespace(get_loop_factory=lambda: None))
server._collect_garbage = lambda: None
running.Catalog = running.Services = lambda *_, **__: None
running._Server = type("Server", (running._Server,), {"__new__": lambda *_: server})
running.run_server(running.ServeSettings(runs=("run",), port=0))
"""


def test_all_threads_stop_for_a_full_collection_of_garbage_only_where_the_server_says_so() -> None:
    """New objects that are kept bring none, however many; what the server asks for once is enough for them."""
    done = subprocess.run([sys.executable, "-c", _COLLECTING], capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout.split() == ["0", "1", "1"], done.stderr
