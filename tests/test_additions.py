"""Additions to a copy of the sources work, and change as few files as docs/architecture.md says.

A position encoding, a document format, a command, an interface of the server and a kind of model are added, and the
files that this changes are counted.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "runtime/src")

RAMP = '''
"""Positions as a ramp: every entry of position i gets i / 100 added."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RampPositions(nn.Module):
    """Adds i / 100 to position i."""

    def forward(self, x: Tensor, offset: int = 0, position_ids: Tensor | None = None) -> Tensor:
        steps = torch.arange(offset, offset + x.shape[-2]) if position_ids is None else position_ids
        return x + steps[..., None] / 100
'''
USES_RAMP = """
import torch
from dikkat.config import ModelConfig, build_config
from dikkat.explain.drawing.outline import outline_of_config
from dikkat.models.factory import build_model
from dikkat.torch_engine.texts import engine_in_memory
from dikkat_runtime.engine.options import DecodingOptions

config = ModelConfig(
    positions="ramp", vocab_size=20, model_dim=8, num_heads=2, feed_forward_dim=8, encoder_layers=1, decoder_layers=1
)
model = build_model(config, seed=0)
hidden = torch.zeros(1, 3, 8)
assert model.positions(hidden)[0, :, 0].tolist() == [0.0, 0.009999999776482582, 0.019999999552965164]
engine = engine_in_memory(model, config)
assert engine.info.name == "torch" and "ramp" in engine.info.why_not_native, engine.info
((best,),) = engine.search(engine.encode([[5, 6, 7]]), DecodingOptions())
assert outline_of_config(config, "ramp")
"""

NOTES = '''
"""Notes (`.note`): a text a line; a line that begins with `#` stays."""

from __future__ import annotations

from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.segments import Edit, Options, Segment, plain


def read_note(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the lines of a note."""
    file, segments, start = DecodedFile.decode(data, name), [], 0
    for number, line in enumerate(file.text.split("\\n"), start=1):
        if line and not line.startswith("#"):
            edits = lambda content, start=start, end=start + len(line): [Edit(start, end, plain(content))]
            segments.append(Segment((line,), edits, number))
        start += len(line) + 1
    return TextDocument(file, segments)
'''
USES_NOTES = """
from pathlib import Path
from dikkat_runtime.documents.document_files import translate_file
from dikkat_runtime.documents.segments import Options

Path("a.note").write_bytes(b"# kept\\na dog\\n\\na cat\\n")
translate_file(
    Path("a.note"), Path("b.note"), lambda texts: [text.upper() for text in texts], align=None, options=Options()
)
assert Path("b.note").read_bytes() == b"# kept\\nA DOG\\n\\nA CAT\\n", Path("b.note").read_bytes()
"""

SHOUTER = '''
"""The model that shouts."""

from __future__ import annotations

from pathlib import Path


class Shouter:
    """Writes a text in capitals."""

    @classmethod
    def load(cls, path: Path) -> Shouter:
        return cls()

    def shout(self, text: str) -> str:
        return text.upper()


def write_run(path: Path) -> None:
    """Train a shouter, which takes no time."""
    path.mkdir()
    (path / "config.json").write_text('{"format_version": 1, "task": "shouter"}')
'''
TRAINS_SHOUTER = '''
"""`dikkat train shouter` and `dikkat shout`."""

from __future__ import annotations

from pathlib import Path


def shouter(out: Path) -> None:
    """Train a model that shouts."""
    from dikkat.tasks.shouting.shouter import write_run

    write_run(out)
'''
SHOUTS = '''
"""`dikkat shout`."""

from __future__ import annotations

from pathlib import Path


def shout(run: Path, text: str) -> None:
    """Say a text louder."""
    from dikkat import load

    print(load(run).shout(text))
'''
USES_SHOUTER = """
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from dikkat_runtime.cli.main import run

printed, complaint = StringIO(), StringIO()
with redirect_stdout(printed), redirect_stderr(complaint):
    assert run(["train", "shouter", "loud"]) == 0
    assert run(["shout", "loud", "a dog"]) == 0
    assert run(["heads", "loud"]) == 2
    assert run(["translate", "loud"]) == 2
assert printed.getvalue() == "A DOG\\n"
assert all('loud: holds a "shouter", ' in line for line in complaint.getvalue().splitlines()), complaint.getvalue()
"""

COUNTS = '''
"""`dikkat count`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dikkat_runtime.cli.options import Argument


def count(file: Annotated[Path, Argument(help="Text.")]) -> None:
    """Count the lines of a text."""
    print(len(file.read_text().splitlines()))
'''
USES_COUNT = """
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from dikkat_runtime.cli.main import run

Path("a.txt").write_text("a dog\\na cat\\n")
with redirect_stdout(StringIO()) as printed:
    assert run(["count", "a.txt"]) == 0
    assert run(["--help"]) == 0
assert printed.getvalue().startswith("2\\n") and "Count lines." in printed.getvalue(), printed.getvalue()
"""

ECHO = '''
"""The interface that sends back what it gets."""

from __future__ import annotations

from starlette.responses import Response

from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import OWN, json_response
from dikkat_runtime.server.endpoint import Endpoint
from dikkat_runtime.server.schemas import TEXT, required


async def echo(call: Call) -> Response:
    """Send a text back."""
    return json_response({"text": call.fields.text("text")})


_TEXT = required(text=TEXT)
ENDPOINTS = [Endpoint(("POST",), "/echo", echo, OWN, "Send a text back.", _TEXT, _TEXT)]
'''
USES_ECHO = """
from starlette.testclient import TestClient
from dikkat_runtime.server.application import build_application
from dikkat_runtime.server.call import Services
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.server.settings import ServeSettings

application = build_application(Services(ServeSettings(runs=("x",)), Catalog([])))
with TestClient(application, base_url="http://localhost") as client:
    assert client.post("/echo", json={"text": "a dog"}).json() == {"text": "a dog"}
    assert "/echo" in client.get("/openapi.json").json()["paths"]
"""


class Addition(NamedTuple):
    """What is written and changed for one addition, and a program that uses it."""

    new: Mapping[str, str]
    changed: Mapping[str, tuple[tuple[str, str], ...]]
    """By file, each text that stands there once, and what it becomes."""
    use: str


ADDITIONS = {
    "position encoding": Addition(
        {"src/dikkat/nn/ramp_positions.py": RAMP},
        {
            "src/dikkat/nn/named_positions.py": (
                (
                    "from dikkat.nn.rotary import",
                    "from dikkat.nn.ramp_positions import RampPositions\nfrom dikkat.nn.rotary import",
                ),
                (
                    '] = {\n    "sinusoidal": lambda',
                    '] = {\n    "ramp": lambda *_: RampPositions(),\n    "sinusoidal": lambda',
                ),
            ),
            "src/dikkat/config/model.py": (('"rotary", ', '"ramp", "rotary", '),),
        },
        USES_RAMP,
    ),
    "document format": Addition(
        {"runtime/src/dikkat_runtime/documents/note.py": NOTES},
        {
            "runtime/src/dikkat_runtime/documents/formats.py": (
                ("FORMATS = (\n", 'FORMATS = (\n    Format("note", (".note",), "note", "read_note"),\n'),
            )
        },
        USES_NOTES,
    ),
    "command": Addition(
        {"src/dikkat/cli/count.py": COUNTS},
        {"src/dikkat/cli/commands.py": (("COMMANDS = {\n", 'COMMANDS = {\n    "count": "Count lines.",\n'),)},
        USES_COUNT,
    ),
    "interface of the server": Addition({"runtime/src/dikkat_runtime/server/api/echo.py": ECHO}, {}, USES_ECHO),
    "kind of model": Addition(
        {
            "src/dikkat/tasks/shouting/__init__.py": '"""The kind of model that shouts."""\n',
            "src/dikkat/tasks/shouting/shouter.py": SHOUTER,
            "src/dikkat/cli/train_shouter.py": TRAINS_SHOUTER,
            "src/dikkat/cli/shout.py": SHOUTS,
        },
        {
            "src/dikkat/tasks/kinds.py": (
                (
                    '    "encoder": Kind(',
                    '    "shouter": Kind("shouting.shouter:Shouter.load"),\n    "encoder": Kind(',
                ),
            ),
            "src/dikkat/cli/commands.py": (("COMMANDS = {\n", 'COMMANDS = {\n    "shout": "Say a text louder.",\n'),),
        },
        USES_SHOUTER,
    ),
}
PAGE = ROOT / "docs" / "architecture.md"


def copied(folder: Path, addition: Addition) -> list[Path]:
    """Copy the sources with an addition to `folder`; return the files that were there and are others now."""
    for part in FOLDERS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in addition.new.items():
        assert not (ROOT / name).exists()
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.lstrip("\n"), encoding="utf-8")
    for name, edits in addition.changed.items():
        text = (folder / name).read_text(encoding="utf-8")
        for old, new in edits:
            assert text.count(old) == 1, f"{name}: {old!r} stands there {text.count(old)} times"
            text = text.replace(old, new)
        (folder / name).write_text(text, encoding="utf-8")
    ours = [path for part in FOLDERS for path in (ROOT / part).rglob("*.py")]
    return [path for path in ours if not filecmp.cmp(path, folder / path.relative_to(ROOT), shallow=False)]


def files_to_touch(name: str) -> set[str]:
    """Return the files that the page says one touches to add a `name`."""
    (row,) = re.findall(rf"^\| an? {name} \|.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return set(re.findall(r"`([\w./]+\.py)`", row.split("|")[3]))


@pytest.mark.parametrize("name", ADDITIONS)
def test_an_addition_works_and_changes_few_files(name: str, tmp_path: Path) -> None:
    addition = ADDITIONS[name]
    changed = copied(tmp_path, addition)
    assert {str(path.relative_to(ROOT)) for path in changed} == files_to_touch(name)
    sources = os.pathsep.join(str(tmp_path / part) for part in FOLDERS)
    done = subprocess.run(
        [sys.executable, "-c", addition.use],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": sources, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
