"""The scripts and the filter of docs/how-to/connect-your-tools.md do their work in the tools that are there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from examples import libreoffice_macro

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "connect-your-tools.md"
PROJECT = """<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<omegat><project version="1.0">
<source_dir>__DEFAULT__</source_dir><target_dir>__DEFAULT__</target_dir><tm_dir>__DEFAULT__</tm_dir>
<glossary_dir>__DEFAULT__</glossary_dir><dictionary_dir>__DEFAULT__</dictionary_dir>
<source_lang>EN</source_lang><target_lang>FR</target_lang><sentence_seg>true</sentence_seg>
</project></omegat>
"""
SAVED = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx11.dtd">
<tmx version="1.1"><header creationtool="OmegaT" creationtoolversion="3" segtype="sentence" o-tmf="OmegaT TMX"
 adminlang="EN-US" srclang="EN" datatype="plaintext"/><body><tu>
<tuv lang="EN"><seg>Yes.</seg></tuv><tuv lang="FR"><seg>Oui.</seg></tuv></tu></body></tmx>
"""


class Shouting(BaseHTTPRequestHandler):
    """It answers as LibreTranslate, in capitals."""

    asked: list[dict[str, Any]]

    def do_POST(self) -> None:
        fields = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(fields)
        body = json.dumps({"translatedText": [text.upper() for text in fields["q"]]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    Shouting.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Shouting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("selected", "expected"), [("", ["ONE é.".upper(), "TWO."]), ("wo.", ["One é.", "TWO."])])
def test_the_macro_translates_the_selection_or_every_paragraph(
    selected: str, expected: list[str], server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    paragraphs = [SimpleNamespace(String="One é."), SimpleNamespace(), SimpleNamespace(String="Two.")]
    chosen = paragraphs[2] if selected else SimpleNamespace(String="")
    selection = SimpleNamespace(getByIndex=lambda number: chosen)
    document = SimpleNamespace(Text=paragraphs, CurrentController=SimpleNamespace(Selection=selection))
    context = SimpleNamespace(getDocument=lambda: document)
    monkeypatch.setattr(libreoffice_macro, "XSCRIPTCONTEXT", context, raising=False)
    monkeypatch.setattr(libreoffice_macro, "SERVER", f"http://127.0.0.1:{server.server_port}/translate")
    libreoffice_macro.translate()
    assert [part.String for part in paragraphs if hasattr(part, "String")] == expected


@pytest.mark.skipif(shutil.which("omegat") is None, reason="needs OmegaT: apt-get install omegat")
def test_omegat_translates_what_is_not_translated_yet(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    for folder in ("source", "target", "omegat", "tm", "glossary", "dictionary"):
        (tmp_path / folder).mkdir()
    (tmp_path / "omegat.project").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "omegat" / "project_save.tmx").write_text(SAVED, encoding="utf-8")
    (tmp_path / "source" / "a.txt").write_text("The café sleeps. Yes.\n\nNo.\n", encoding="utf-8")
    command = [
        "omegat", str(tmp_path), "--mode=console-translate", "--quiet",
        f"--script={ROOT / 'examples' / 'omegat.groovy'}", f"--config-dir={tmp_path / 'settings'}",
    ]  # fmt: skip
    environment = {**os.environ, "DIKKAT_URL": f"http://127.0.0.1:{server.server_port}/translate"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    assert "dikkat: 2 segments translated" in done.stdout
    assert Shouting.asked == [{"q": ["The café sleeps.", "No."], "source": "en", "target": "fr"}]
    assert (tmp_path / "target" / "a.txt").read_text(encoding="utf-8") == "THE CAFÉ SLEEPS. Oui.\n\nNO.\n"


@pytest.mark.skipif(shutil.which("vim") is None, reason="needs vim")
def test_the_filter_of_vim_gives_its_lines_to_the_command(tmp_path: Path) -> None:
    found = re.search(r"^(vim .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    command = tmp_path / "dikkat"
    command.write_text('#!/bin/sh\necho "$*" >&2\ntr a-z A-Z\n', encoding="utf-8")
    command.chmod(0o755)
    (tmp_path / "mail.txt").write_text("one\ntwo\n", encoding="utf-8")
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(shlex.split(found[1]), cwd=tmp_path, env=environment, check=True, timeout=60)
    assert (tmp_path / "mail.txt").read_text(encoding="utf-8") == "ONE\nTWO\n"
