"""argostranslate and LibreTranslate, unmodified and in environments of their own, install an exported package.

They write what CTranslate2 writes with the same folder.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.clients.environments import HERE, argos_environment, libretranslate_environment
from tests.unit.interop.trained_runs import random_run
from tests.unit.interop.translators import phrases

from dikkat.run_directory import RunDirectory
from dikkat_runtime.cli.main import run as run_command

ctranslate2 = pytest.importorskip("ctranslate2", reason="needs ctranslate2, of the extra [test]")
sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, of the extra [test]")
pytest.importorskip("onnx", reason="needs onnx, of the extra [test]")

pytestmark = pytest.mark.nightly

SENTENCES = phrases(60)[0][:50]
LANGUAGES = {"source_language": "en", "target_language": "fr"}
PATIENCE = 300
"""Seconds for either program to start and to translate."""


def package(folder: Path, **model: Any) -> Path:
    """The package that the command writes of a run with random weights, whose texts differ."""
    run = RunDirectory(random_run(folder / "run", {"kind": "unigram"}, **model))
    with run.alone():
        settings = run.read_config()
        run.write_config({**settings, "data": {**settings["data"], **LANGUAGES}})
    out = folder / "en-fr.argosmodel"
    assert run_command(["export", str(run.path), "--to", "argos", "--out", str(out)]) == 0
    return out


def environment(home: Path, index: str) -> dict[str, str]:
    """Variables by which both programs keep everything in `home` and ask nobody else, with a splitter of sentences."""
    from tests.clients.sentence_splitter import write_splitter

    for language in ("en", "fr"):
        write_splitter(home / "data" / "argos-translate" / "minisbd" / f"{language}.onnx")
    kept = {f"XDG_{name.upper()}_HOME": str(home / name) for name in ("data", "config", "cache")}
    own = {"HOME": str(home), "ARGOS_PACKAGES_DIR": str(home / "packages"), "ARGOS_PACKAGE_INDEX": index}
    others = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return {**others, **kept, **own}


def by_ctranslate2(home: Path, texts: list[str] = SENTENCES) -> list[str]:
    """What CTranslate2 writes with the installed folder, searched as argostranslate searches.

    Sentences end at full stops, as those of the splitter, and paragraphs at line breaks.
    """
    (root,) = (home / "packages").glob("translate-en_fr-*")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(root / "sentencepiece.model"))
    engine = ctranslate2.Translator(str(root / "model"), intra_threads=1)
    asked = {"beam_size": 4, "length_penalty": 0.2, "replace_unknowns": True}

    def written(paragraph: str) -> str:
        sentences = [sentence.strip() for sentence in re.findall(r"[^.]+\.?", paragraph)]
        found = [
            engine.translate_batch([pieces.encode(one, out_type=str)], **asked)[0].hypotheses[0] for one in sentences
        ]
        # argostranslate decodes all at once, turns these marks into spaces, and takes off the first one
        return (
            str(pieces.decode([token for tokens in found for token in tokens]))
            .replace("▁", " ")
            .replace("_", " ")
            .removeprefix(" ")
        )

    translated = ["\n".join(map(written, text.split("\n"))) for text in texts]
    assert len(set(translated)) > 10
    return translated


def installed_and_translated(
    path: Path, home: Path, variables: dict[str, str], texts: list[str] = SENTENCES
) -> list[str]:
    """Install a package by argostranslate, and translate texts."""
    job = json.dumps({"package": str(path), "from": "en", "to": "fr", "lines": texts})
    command = [str(argos_environment()), str(HERE / "argos_client.py")]
    done = subprocess.run(
        command, input=job, capture_output=True, text=True, check=True, env=variables, timeout=PATIENCE
    )
    translated: list[str] = json.loads(done.stdout.splitlines()[-1])
    return translated


@pytest.mark.parametrize("add_source_eos", [True, False], ids=["an end mark", "no end mark"])
def test_argostranslate_writes_the_text_of_ctranslate2(add_source_eos: bool, tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = package(tmp_path, add_source_eos=add_source_eos)
    texts = installed_and_translated(path, home, environment(home, "http://127.0.0.1:9/"))
    assert texts == by_ctranslate2(home)


def test_argostranslate_writes_texts_of_several_sentences_as_ctranslate2_with_its_splitter(tmp_path: Path) -> None:
    home = tmp_path / "home"
    ended = [f"{sentence.rstrip('.?!')}." for sentence in SENTENCES[:48]]
    texts = [" ".join(ended[at : at + 3]) for at in range(0, 36, 3)]
    texts += ["\n".join((" ".join(ended[at : at + 2]), ended[at + 2])) for at in range(36, 48, 3)]
    path = package(tmp_path)
    assert installed_and_translated(path, home, environment(home, "http://127.0.0.1:9/"), texts) == by_ctranslate2(
        home, texts
    )
    (root,) = (home / "packages").iterdir()
    metadata = json.loads((root / "metadata.json").read_text())
    assert (metadata["from_name"], metadata["to_name"]) == ("English", "French")


@contextmanager
def public_index() -> Iterator[tuple[str, list[str]]]:
    """An index of packages, as Argos has one, with a package of the same languages; and what is asked of it."""
    asked: list[str] = []
    entry = {
        "package_version": "1.9", "argos_version": "1.9", "from_code": "en", "from_name": "English", "to_code": "fr",
        "to_name": "French",
    }  # fmt: skip

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            links = [f"http://127.0.0.1:{server.server_port}/public.argosmodel"]
            content = json.dumps([{**entry, "links": links}]).encode()
            self.send_response(200 if self.path == "/index.json" else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", asked
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def served(variables: dict[str, str], log: Path) -> Iterator[str]:
    """Yield the address of a LibreTranslate that has the installed packages."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = libretranslate_environment().with_name("libretranslate")
    options = ["--load-only", "en,fr", "--disable-web-ui", "--disable-files-translation", "--threads", "1"]
    command = [str(program), "--host", "127.0.0.1", "--port", str(port), *options]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=variables, stdout=output, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/languages", timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=60)


def test_libretranslate_serves_the_package_and_keeps_it_beside_a_public_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = package(tmp_path)
    with public_index() as (index, asked):
        variables = environment(home, index)
        expected = installed_and_translated(path, home, variables)
        assert expected == by_ctranslate2(home)
        with served(variables, tmp_path / "log.txt") as address:
            body = json.dumps({"q": SENTENCES, "source": "en", "target": "fr", "format": "text"}).encode()
            request = urllib.request.Request(f"{address}/translate", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                texts = json.load(response)["translatedText"]
    assert [*map(letters, texts)] == [*map(letters, expected)]
    # it looked for newer packages, and left ours in place
    assert set(asked) == {"/index.json"}
    (root,) = (home / "packages").iterdir()
    assert json.loads((root / "metadata.json").read_text())["from_code"] == "en"


def letters(text: str) -> str:
    """Letters alone: LibreTranslate makes the mark at the end, and a line of one case, like those of the source."""
    return "".join(filter(str.isalpha, text)).casefold()
