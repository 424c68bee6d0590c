"""Environments of the clients' own, of Python and of Node, made when they are first needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("DIKKAT_CLIENTS", Path.home() / ".cache" / "dikkat-clients"))
PATIENCE = 1800
"""Seconds for a registry: LibreTranslate took 559 of them on a busy machine."""


@cache
def python_environment() -> Path:
    """The Python that has the clients; skips the test where they cannot be installed."""
    return _python("python", "requirements.txt")


@cache
def schemathesis_environment() -> Path:
    """The Python that has schemathesis; skips the test where it cannot be installed."""
    return _python("schemathesis", "requirements-schemathesis.txt")


@cache
def argos_environment() -> Path:
    """The Python that has argostranslate; skips the test where it cannot be installed."""
    return _python("argos", "requirements-argos.txt")


@cache
def libretranslate_environment() -> Path:
    """The Python that has LibreTranslate, with its own fork of argostranslate; skips the test where there is none."""
    return _python("libretranslate", "requirements-libretranslate.txt")


@cache
def notebook_environment() -> Path:
    """The Python that has JupyterLab and nbconvert; skips the test where they cannot be installed."""
    return _python("notebooks", "requirements-notebooks.txt")


def _python(name: str, requirements: str) -> Path:
    folder, wanted = FOLDER / name, HERE / requirements
    python, installed = folder / "bin/python", folder / "installed.txt"
    if installed.exists() and installed.read_text() == wanted.read_text():
        return python
    _run([sys.executable, "-m", "venv", str(folder)], "no virtual environment")
    install = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(wanted)]
    _run(install, "PyPI does not answer, or lacks a client")
    shutil.copy(wanted, installed)
    return python


@cache
def node_environment() -> Path:
    """The folder that has the clients of Node and the script; skips the test where they cannot be installed."""
    return _node("node", "package.json", ("node_clients.mjs",))


@cache
def transformers_js_environment() -> Path:
    """The folder that has transformers.js and the scripts that use it; skips the test where it cannot be installed."""
    scripts = ("transformers_js.mjs", "transformers_js_texts.mjs")
    # its scripts fetch programs for NVIDIA's cards from elsewhere
    return _node("transformers-js", "transformers-js.json", scripts, "--ignore-scripts")


def _node(name: str, packages: str, scripts: Sequence[str], *options: str) -> Path:
    if shutil.which("npm") is None:
        pytest.skip("CLIENTS NOT TESTED: needs npm: apt-get install npm")
    folder, wanted = FOLDER / name, HERE / packages
    folder.mkdir(parents=True, exist_ok=True)
    installed = folder / "installed.json"
    if not installed.exists() or installed.read_text() != wanted.read_text():
        shutil.copy(wanted, folder / "package.json")
        install = ["npm", "install", "--silent", "--no-fund", "--no-audit", *options, "--prefix", str(folder)]
        _run(install, "npm's registry does not answer, or lacks a client")
        shutil.copy(wanted, installed)
    # a module finds packages beside itself only
    for script in scripts:
        shutil.copy(HERE / script, folder / script)
    return folder


def _run(command: list[str], why_not: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.skip(f"CLIENTS NOT TESTED: {why_not} (no answer in {PATIENCE} s)")
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        pytest.skip(f"CLIENTS NOT TESTED: {why_not} ({last})")
