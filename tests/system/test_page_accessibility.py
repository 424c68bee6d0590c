"""Pages that compute, judged by axe-core of Deque: nothing in any tab, light and dark, in both languages."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser
from tests.docs.test_site import site  # noqa: F401
from tests.runtime.runs import classifier_run, language_model_run, translator_run
from tests.system.chromium import chromium, watched

from dikkat.explain.lesson import answered
from dikkat.web.opening import open_for_web
from dikkat.web.page import lesson_path, live_page
from dikkat_runtime.tasks.translator import Translator

AXE = "axe-core@4.10.3"
RUN_AXE = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    const shown = ({ html, failureSummary }) => `${html} ${failureSummary}`;
    return violations.map(({ id, impact, nodes }) => [id, impact, nodes.slice(0, 3).map(shown)]);
}"""
KINDS = ("translator", "classifier", "lm", "lesson")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as result:
        yield result


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, installed by npm into a folder of its own; skipped where npm reaches no registry."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm: apt-get install npm")
    folder = tmp_path_factory.mktemp("axe")
    command = [
        "npm",
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefix",
        str(folder),
        AXE,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        pytest.skip(f"npm installs no {AXE} here: {(done.stderr or done.stdout).strip()[-300:]}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def page_of(kind: str, folder: Path) -> Path:
    make = {"classifier": classifier_run, "lm": language_model_run}.get(kind, translator_run)
    run = make(folder / "run")
    lesson = None
    if kind == "lesson":
        model = Translator.load(run)
        lesson = answered(lesson_path("003"), lambda settings: model.attend(settings["text"]))
    path = folder / "page.html"
    path.write_text(live_page(open_for_web(run), examples=["Where are my keys?"], lesson=lesson), encoding="utf-8")
    return path


@pytest.mark.nightly
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing_in_any_tab(
    browser: Browser, axe: str, tmp_path: Path, kind: str, theme: Literal["light", "dark"]
) -> None:
    with watched(browser, page_of(kind, tmp_path), theme=theme) as page:
        page.page.wait_for_selector("body[data-state=ready]:not([data-busy])")
        page.run(axe)
        page.click("#experiment summary")
        found = {}
        for tab in page.page.locator("[role=tab]").all():
            tab.click()
            page.page.wait_for_selector("#stage progress", state="detached")
            for _ in range(2):
                page.click("#language")
                page.page.wait_for_selector("#stage progress", state="detached")
                if violations := page.run(RUN_AXE):
                    found[tab.text_content()] = violations
        assert found == {}


@pytest.mark.nightly
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index", "index.tr", "how-to/translate-a-file", "reference/nn", "install.tr"])
def test_axe_finds_nothing_serious_on_the_site(
    browser: Browser,
    axe: str,
    site: Path,  # noqa: F811
    name: str,
    theme: Literal["light", "dark"],
) -> None:
    # not `watched`: the search of the theme complains of addresses that begin with file:
    page = browser.new_page(color_scheme=theme)
    page.goto((site / f"{name}.html").as_uri())
    page.evaluate(axe)
    found = [violation for violation in page.evaluate(RUN_AXE) if violation[1] in ("serious", "critical")]
    page.close()
    assert found == []
