"""Cells of each kind in a real JupyterLab in Chromium, and in nbconvert's page, with scripts and without."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.clients.environments import notebook_environment
from tests.python_path import PYTHON_PATH
from tests.runtime.runs import language_model_run, translator_run

pytest.importorskip("playwright", reason="needs playwright, of the extra [test]")

from playwright.sync_api import ConsoleMessage, Page
from tests.free_port import reserved_port
from tests.system.chromium import chromium

pytestmark = pytest.mark.nightly

TEXT = "A little cat is sleeping. A dog runs on the beach."
CELLS = {
    "maps": f"translator.attend({TEXT!r})",
    "one map": f"translator.attend({TEXT!r})['cross', 2, 1]",
    "sentences": f"dikkat.show('mt', {TEXT!r})",
    "two runs": f"dikkat.compare('mt', 'other', {TEXT!r})",
    "run": "dikkat.show('mt')",
    "language model": "dikkat.show('lm', 'A dog runs on the beach.')",
}
FRAMED = [name for name in CELLS if name != "one map"]
MOST_BYTES = 300_000
PATIENCE = 300
"""Seconds for JupyterLab to start and for the notebook to run."""


def cell(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables by which kernels of the client's Python find ours, and everything of Jupyter stays in a folder."""
    home = tmp_path_factory.mktemp("home")
    path = os.pathsep.join([PYTHON_PATH, str(Path(np.__file__).parents[1])])
    folders = {name: str(home / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    return {**os.environ, **folders, "PYTHONPATH": path, "IPYTHONDIR": str(home / "ipython"), "DIKKAT_LANGUAGE": "en"}


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """A notebook that ran, beside three runs with random weights."""
    folder = tmp_path_factory.mktemp("notebook")
    translator_run(folder / "mt")
    translator_run(folder / "other", num_heads=2)
    language_model_run(folder / "lm")
    sources = ["import dikkat\ntranslator = dikkat.load('mt')", *CELLS.values()]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    content = {"cells": [cell(source) for source in sources], "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}
    path = folder / "cells.ipynb"
    path.write_text(json.dumps(content))
    jupyter(environment, "nbconvert", "--execute", "--inplace", "--to", "notebook", path.name, folder=folder)
    jupyter(environment, "trust", path.name, folder=folder)
    return path


def jupyter(environment: dict[str, str], *words: str, folder: Path) -> None:
    python = notebook_environment()
    command = [str(python), "-m", "jupyter", *words]
    done = subprocess.run(
        command, cwd=folder, env=with_programs(environment, python), capture_output=True, text=True, timeout=PATIENCE,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def with_programs(environment: dict[str, str], python: Path) -> dict[str, str]:
    """The environment with the client's programs first, since `jupyter NAME` looks for `jupyter-NAME`."""
    return {**environment, "PATH": os.pathsep.join([str(python.parent), os.environ["PATH"]])}


def outputs(path: Path) -> dict[str, str]:
    """The HTML of each cell, by its name."""
    cells = json.loads(path.read_text())["cells"][1:]
    return {name: "".join(one["outputs"][-1]["data"]["text/html"]) for name, one in zip(CELLS, cells, strict=True)}


def test_every_cell_shows_itself_in_less_than_300_kilobytes(notebook: Path) -> None:
    sizes = {name: len(html.encode()) for name, html in outputs(notebook).items()}
    assert {name: size for name, size in sizes.items() if size > MOST_BYTES} == {}


@contextmanager
def lab(notebook: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of the notebook in a JupyterLab that asks for no token."""
    python = notebook_environment()
    with reserved_port() as port:
        command = [
            str(python), "-m", "jupyter", "lab", "--no-browser", "--allow-root", f"--port={port}", "--port-retries=0",
            "--IdentityProvider.token=", "--LabApp.news_url=",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ]  # fmt: skip
        with (notebook.parent / "lab.log").open("w") as log:
            process = subprocess.Popen(
                command, cwd=notebook.parent, env=with_programs(environment, python), stdout=log, stderr=log
            )
        try:
            wait_for(f"http://127.0.0.1:{port}/api", process)
            yield f"http://127.0.0.1:{port}/lab/tree/{notebook.name}"
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE)


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(address, timeout=PATIENCE).close()
        except (urllib.error.URLError, ConnectionError):
            assert process.poll() is None, "JupyterLab ended"
            assert time.monotonic() < deadline, "JupyterLab does not start"
            time.sleep(0.2)
        else:
            return


def noted(page: Page) -> list[str]:
    """What pages in frames say on the console, or throw, from now on."""
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if is_ours(message) else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    return wrong


def is_ours(message: ConsoleMessage) -> bool:
    """JupyterLab has errors of its own, as of the settings that a new user has not made yet."""
    return message.type == "error" and message.location["url"].startswith("about:srcdoc")


def test_jupyterlab_shows_every_cell_and_its_page_computes(notebook: Path, environment: dict[str, str]) -> None:
    with lab(notebook, environment) as address, chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        wrong = noted(page)
        page.set_default_timeout(PATIENCE * 1000)
        page.goto(address)
        for number, name in enumerate(CELLS, 1):
            output = page.locator(f".jp-Cell[data-windowed-list-index='{number}'] .jp-OutputArea-output")
            output.first.scroll_into_view_if_needed()
            if name in FRAMED:
                inside = output.locator("iframe").first.content_frame
                inside.locator("h1, h2, svg").first.wait_for()
            else:
                output.locator("svg").first.wait_for()
            page.screenshot(path=notebook.parent / f"{name.replace(' ', '-')}.png")
    assert wrong == []


def test_nbconvert_keeps_every_cell_and_without_scripts_the_maps_stand_in_words(
    notebook: Path, environment: dict[str, str]
) -> None:
    jupyter(environment, "nbconvert", "--to", "html", notebook.name, folder=notebook.parent)
    with chromium() as browser:
        page = browser.new_context(java_script_enabled=False).new_page()
        page.goto(notebook.with_suffix(".html").as_uri())
        text = page.locator("body").text_content() or ""
        assert page.locator("iframe").count() == len(FRAMED)
        assert "looks at" in text
        # three attentions of two layers, of the maps and of the page; one map; two layers of the language model
        assert page.locator("summary", has_text="as a table").count() == 6 + 6 + 1 + 2
