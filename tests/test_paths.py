"""How many functions of ours, in how many files, stand on the way of what users do all day.

A Python function that runs is counted once, with what is defined inside it, in every thread of this process. A second
time is counted: the first compiles and loads what all others find. The table of docs/architecture.md holds the bounds.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from starlette.testclient import TestClient
from tests.runtime.runs import finished, translator_run
from tests.unit.training.toy import Recorder, toy_trainer

from dikkat.kernels.library import library, why_absent
from dikkat.training.task import StepReport
from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.server.application import build_application
from dikkat_runtime.server.call import Services
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.server.settings import ServeSettings
from dikkat_runtime.tasks.translator import Translator

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (f"{ROOT}/src/dikkat/", f"{ROOT}/runtime/src/dikkat_runtime/")
SENTENCE = "The small cat is sleeping."
CATALOG = f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "{SENTENCE}"\nmsgstr ""\n'.encode()
OF_A_FUNCTION = 0x2
"""In the flags of a function's code, and not of a class's or a file's."""


class Counter:
    """A profile function that collects the functions of ours that run while it is counting."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.is_counting = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if self.is_counting and event == "call" and code.co_flags & OF_A_FUNCTION:
            # a lambda or generator expression belongs to the function that it stands in
            name = code.co_qualname.partition(".<locals>")[0]
            if code.co_filename.startswith(SOURCES) and "<" not in name:
                self.functions.add((code.co_filename, name))

    @contextmanager
    def counting(self) -> Iterator[None]:
        self.is_counting = True
        try:
            yield
        finally:
            self.is_counting = False

    def check(self, way: str) -> None:
        """Compare with the bounds in the page, and list what stands on the way where there is more."""
        page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
        row = re.search(rf"^\| {way} \| (\d+) / (\d+) \| (\d+) / (\d+) \|$", page, re.MULTILINE)
        assert row is not None, f"docs/architecture.md has no row for {way!r}"
        counts = len(self.functions), len({file for file, _ in self.functions})
        most = int(row[1]), int(row[2])
        print(
            f"{way}: {counts[0]} / {counts[1]} functions / files, at most {row[1]} / {row[2]}, goal {row[3]} / {row[4]}"
        )
        listed = "\n".join(sorted(f"{Path(file).relative_to(ROOT)} {name}" for file, name in self.functions))
        assert all(count <= bound for count, bound in zip(counts, most, strict=True)), (
            f"{counts}, not {most}:\n{listed}"
        )


@pytest.fixture
def counter() -> Iterator[Counter]:
    if library() is None:
        pytest.skip(f"the ways through the native engine are counted, and there is none: {why_absent()}")
    counter, before = Counter(), sys.getprofile()
    # of threads that begin from now on
    threading.setprofile(counter)
    sys.setprofile(counter)
    try:
        yield counter
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # outputs of untied embeddings at random do not repeat themselves, so they are not decoded again
    folder = tmp_path_factory.mktemp("paths") / "run"
    return finished(translator_run(folder, languages=("en", "fr"), tie_embeddings=False))


def test_a_sentence(counter: Counter, run: Path) -> None:
    translator = Translator.load(run)
    translator.translate([SENTENCE])
    with counter.counting():
        (translation,) = translator.translate([SENTENCE])
    assert translation.text
    counter.check("a sentence, after opening")


def test_opening_a_run(counter: Counter, run: Path) -> None:
    Translator.load(run)
    with counter.counting():
        Translator.load(run)
    counter.check("opening a run")


def test_a_request_of_the_server(counter: Counter, run: Path) -> None:
    services = Services(ServeSettings(runs=("x",)), Catalog([f"en-fr={run}"]))
    fields = {"q": SENTENCE, "source": "en", "target": "fr"}
    with TestClient(build_application(services), base_url="http://localhost") as client:
        client.post("/translate", json=fields)
        with counter.counting():
            answer = client.post("/translate", json=fields)
    assert answer.status_code == 200
    counter.check("an HTTP request")


def test_a_message_of_a_catalog(counter: Counter, run: Path) -> None:
    translator = Translator.load(run)

    def translate(sentences: Sequence[str]) -> Sequence[str]:
        return [translation.text for translation in translator.stream(sentences)]

    translate_document(CATALOG, "fr.po", translate)
    with counter.counting():
        document = translate_document(CATALOG, "fr.po", translate)
    assert document.num_segments == 1
    counter.check("a PO message")


def test_a_training_step(counter: Counter, tmp_path: Path) -> None:
    def count_fourth(report: StepReport) -> None:
        counter.is_counting = report.updates == 3

    toy_trainer(tmp_path, updates=8).train(Recorder(each_step=count_fourth))
    counter.check("a training step")
