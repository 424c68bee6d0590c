"""Other readers as judges: translate-toolkit and LibreOffice read what is written here, and see the same texts.

translate-toolkit (GPL) lives in an environment of its own, made at the first run (`DIKKAT_ORACLES`, by default
`~/.cache/dikkat-oracles`). Where a judge cannot be had, the tests are skipped and say so.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.unit.documents import samples
from tests.unit.documents.mutations import mutated
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, same, shouting

from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.errors import DikkatError

pytestmark = pytest.mark.nightly

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("DIKKAT_ORACLES", Path.home() / ".cache" / "dikkat-oracles"))
PATIENCE = 600
"""Seconds for a registry, and for LibreOffice to start."""
FILES = {"a.po": samples.PO, "a.xlf": samples.XLIFF_1, "a.tmx": samples.TMX}
MUTATIONS = 60

Units = list[tuple[str, str, bool]]
"""Source, target, and whether a person has still to look at it."""


@cache
def toolkit() -> Path:
    """The Python that has translate-toolkit; skips the test where it cannot be installed."""
    python = FOLDER / "bin/python"
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(FOLDER)], "no virtual environment")
    asked = ["-m", "pip", "install", "--quiet", "--requirement", str(HERE / "requirements.txt")]
    _run([str(python), *asked], "PyPI does not answer, or lacks translate-toolkit")
    return python


def _run(command: list[str], why_not: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.skip(f"NOT JUDGED: {why_not} (no answer in {PATIENCE} s)")
    if done.returncode:
        pytest.skip(f"NOT JUDGED: {why_not} ({(done.stderr.strip() or 'no message').splitlines()[-1]})")
    return done.stdout


def seen_by_toolkit(paths: list[Path]) -> dict[str, Units]:
    """What it reads of each file, which it also writes again, as `again-NAME`."""
    command = [str(toolkit()), str(HERE / "read_by_toolkit.py"), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Units] = json.loads(done.stdout)
    return seen


def translated(text: str, name: str, model: Any = shouting) -> bytes:
    return translate_document(text.encode(), name, model, align=in_order, options=ENGLISH_FRENCH).data


@pytest.mark.parametrize("name", FILES)
def test_the_toolkit_sees_the_same_texts(name: str, tmp_path: Path) -> None:
    toolkit()
    paths = {kind: tmp_path / f"{kind}-{name}" for kind in ("before", "after")}
    paths["before"].write_text(FILES[name])
    paths["after"].write_bytes(translated(FILES[name], name))
    seen = seen_by_toolkit(list(paths.values()))
    before, after = seen[f"before-{name}"], seen[f"after-{name}"]
    assert [unit[0] for unit in before] == [unit[0] for unit in after]
    new = [(source, target) for (source, target, _), old in zip(after, before, strict=True) if target != old[1]]
    assert len(new) >= 3
    assert all(target.casefold() == source.casefold() for source, target in new if source != "None")
    if name == "a.po":
        assert all(is_fuzzy for (_, target, is_fuzzy), old in zip(after, before, strict=True) if target != old[1])


@pytest.mark.parametrize("name", FILES)
def test_what_the_toolkit_writes_of_it_needs_no_translation_any_more(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(translated(FILES[name], name))
    seen_by_toolkit([path])
    again = (tmp_path / f"again-{name}").read_text()
    if name == "a.po":
        again = again.replace("#, fuzzy, ", "#, ").replace("#, fuzzy\n", "")
    left = translate_document(again.encode(), name, same, align=in_order, options=ENGLISH_FRENCH)
    assert left.num_segments == 0
    assert left.data.decode() == again


@pytest.mark.parametrize("name", FILES)
def test_the_toolkit_reads_every_mutated_file_that_is_written(name: str, tmp_path: Path) -> None:
    """As far as it reads the file that was translated."""
    toolkit()
    before, after = [], []
    for seed in range(MUTATIONS):
        changed = mutated(FILES[name], seed)
        try:
            data = translated(changed, name)
        except DikkatError:
            continue
        before.append(tmp_path / f"before-{seed}-{name}")
        before[-1].write_bytes(changed.encode())
        after.append(tmp_path / f"after-{seed}-{name}")
        after[-1].write_bytes(data)
    read = seen_by_toolkit(before)
    known = [path.name.removeprefix("before-") for path in before if path.name in read]
    assert len(known) > MUTATIONS / 5
    read = seen_by_toolkit(after)
    assert [item for item in known if f"after-{item}" not in read] == []


_TYPES = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"


def word_document() -> bytes:
    """The sample with all that an office program asks for, and without its note, of which there is no text."""
    body = samples.WORD_BODY.replace("http://r", _RELATION.rpartition("/")[0])
    body = body.replace('<w:r><w:footnoteReference w:id="1"/></w:r>', "")
    target = io.BytesIO()
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default'
        ' Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{_TYPES}"/></Types>',
        "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        f'<Relationship Id="rId1" Type="{_RELATION}" Target="word/document.xml"/></Relationships>',
        "word/document.xml": body,
    }
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return target.getvalue()


def test_libreoffice_reads_the_same_paragraphs(tmp_path: Path) -> None:
    office = shutil.which("soffice") or shutil.which("libreoffice")
    if office is None:
        pytest.skip("NOT JUDGED: needs LibreOffice: apt-get install libreoffice-writer")
    data = word_document()
    (tmp_path / "before.docx").write_bytes(data)
    document = translate_document(data, "a.docx", shouting, align=in_order, options=ENGLISH_FRENCH)
    (tmp_path / "after.docx").write_bytes(document.data)
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    convert = [office, profile, "--headless", "--convert-to", "txt:Text (encoded):UTF8", "--outdir", str(tmp_path)]
    messages = _run(
        [*convert, str(tmp_path / "before.docx"), str(tmp_path / "after.docx")], "LibreOffice does not start"
    )
    assert messages.count("using filter") == 2, messages
    before, after = ((tmp_path / f"{name}.txt").read_text("utf-8-sig") for name in ("before", "after"))
    assert before.strip()
    # the sample has a space at the end of a run that does not say that it is kept
    lines = [["".join(line.split()) for line in text.splitlines()] for text in (before.upper(), after)]
    assert lines[0] == lines[1]
