"""Every format of the registry goes through the server and through the command, and both write the same file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.runs import finished, translator_run
from tests.runtime.server.asking import Served, served
from tests.unit.documents.test_any_file import FILES

from dikkat_runtime.cli.main import run as command
from dikkat_runtime.documents.formats import FORMATS, PLAIN_TEXT, find_format
from dikkat_runtime.server.models import Catalog

EXAMPLES = dict(FILES.values()) | {"a.txt": b"Where are my keys?\n\n  The cat sleeps.\n"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(translator_run(tmp_path_factory.mktemp("formats") / "run", languages=("en", "fr")))


@pytest.fixture(scope="module")
def asked(run: Path) -> Iterator[Served]:
    with served(Catalog([f"en-fr={run}"]), beam_size=5) as server:
        yield server


def test_there_is_an_example_of_every_format() -> None:
    assert {find_format(name, data) or PLAIN_TEXT for name, data in EXAMPLES.items()} == {*FORMATS, PLAIN_TEXT}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_server_writes_what_the_command_writes(
    name: str, run: Path, asked: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / name, tmp_path / f"out{Path(name).suffix}"
    file.write_bytes(EXAMPLES[name])
    words = ["translate", str(run), str(file), "--out", str(out), "--precision", "float32"]
    assert command(words) == 0, capsys.readouterr().err
    fields = {"source": "en", "target": "fr"}
    answer = asked.client.post("/translate_file", files={"file": (name, EXAMPLES[name])}, data=fields).json()
    assert "translatedFileUrl" in answer, answer
    written = asked.client.get(answer["translatedFileUrl"]).content
    assert written == out.read_bytes()
    assert written != EXAMPLES[name]
