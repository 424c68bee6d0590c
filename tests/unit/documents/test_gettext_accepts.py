"""GNU gettext as the judge: `msgfmt -c` accepts every catalog that is written from one that it accepts."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.unit.documents import samples
from tests.unit.documents.mutations import mutated
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, in_reverse, reversing, same, shouting

from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.po import parse_mo
from dikkat_runtime.errors import DikkatError

MSGFMT = shutil.which("msgfmt")
pytestmark = pytest.mark.skipif(
    MSGFMT is None, reason="nothing judges the catalogs written here: needs msgfmt: apt-get install gettext"
)
MODELS = ((same, in_order), (shouting, in_order), (reversing, in_reverse))


def complaint(catalog: bytes, folder: Path, *options: str) -> str:
    """What gettext says against a catalog; empty where it accepts it."""
    path = folder / "judged.po"
    path.write_bytes(catalog)
    command = [str(MSGFMT), "--check", *options, "--output-file", str(folder / "judged.mo"), str(path)]
    judged = subprocess.run(command, capture_output=True, text=True, check=False, env={"LC_ALL": "C.UTF-8"})
    return judged.stderr if judged.returncode else ""


def check(count: int, folder: Path) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(count):
        changed = mutated(samples.PO, seed).encode()
        if complaint(changed, folder):
            outcomes["broken before"] += 1
            continue
        model, align = MODELS[seed % len(MODELS)]
        try:
            written = translate_document(changed, "a.po", model, align=align, options=ENGLISH_FRENCH).data
        except DikkatError as error:
            raise AssertionError(f"seed {seed}: gettext reads this catalog") from error
        # what is written here is fuzzy, and judged all the same
        assert complaint(written, folder, "--use-fuzzy") == "", f"seed {seed}, {model.__name__}:\n{written.decode()}"
        outcomes["judged"] += 1
    assert outcomes["judged"] > 0.2 * count, outcomes


def test_gettext_accepts_what_is_written(tmp_path: Path) -> None:
    check(60, tmp_path)


@pytest.mark.nightly
def test_gettext_accepts_thousands_that_are_written(tmp_path: Path) -> None:
    check(2_000, tmp_path)


def test_gettext_compiles_the_same_messages_as_are_written(tmp_path: Path) -> None:
    written = translate_document(samples.PO.encode(), "a.po", same, align=in_order, options=ENGLISH_FRENCH).data
    assert not complaint(written, tmp_path, "--use-fuzzy")
    _, messages = parse_mo((tmp_path / "judged.mo").read_bytes())
    assert messages[b"%d dog\0%d dogs"] == b"%d dog\0%d dogs"
    assert messages[b"menu\4_Open the door"] == b"_Open the door"
