"""The site of the documentation builds without a warning, needs no network, and its reference has every public name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.command_lines import commands

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    quiet = {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **quiet}, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


class Resources(HTMLParser):
    """The addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("img", "script", "iframe"):
            self.addresses.append(values.get("src") or "")
        if tag == "link" and values.get("rel") in ("stylesheet", "icon"):
            self.addresses.append(values.get("href") or "")


def test_no_page_loads_anything_from_another_machine(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        resources = Resources()
        resources.feed(page.read_text(encoding="utf-8"))
        assert not [address for address in resources.addresses if urlsplit(address).scheme not in ("", "data")], page


@pytest.mark.parametrize(
    ("stem", "package"), [("dikkat", "dikkat"), ("nn", "dikkat.nn"), ("runtime", "dikkat_runtime")]
)
def test_the_reference_has_every_public_name(site: Path, stem: str, package: str) -> None:
    headings = set(re.findall(r'<h2 id="([^"]+)"', (site / "reference" / f"{stem}.html").read_text(encoding="utf-8")))
    named = {heading.rpartition(".")[2] for heading in headings}
    names = set(import_module(package).__all__)
    assert {name for name in names if name not in named and name.lower() not in named} == set()


def test_the_reference_has_every_command(site: Path) -> None:
    text = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'<h2 id="dikkat-([\w-]+)"', text))
    assert shown == {"-".join(words) for words in commands()}
