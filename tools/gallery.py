"""Take the pictures of docs/gallery.md from the pages of three runs, and tell whether the page has changed since.

    python tools/gallery.py runs/quickstart-fr runs/requests-page runs/license-page
    python tools/gallery.py --check

It drives Debian's Chromium (or that of the variable CHROMIUM) with Playwright. Next to the pictures stands gallery.json
with the hash of what they show: the scripts, styles and templates of a page.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "images"
RECORD = FOLDER / "gallery.json"
SHOWN = ("src/dikkat/web/page", "src/dikkat/explain/explorer")
"""Folders of what a page is made of."""
SUFFIXES = (".js", ".css", ".html")
TEXTS = {
    "translator": "The animal didn't cross the street because it was too tired.",
    "classifier": "You charged me twice for the yearly plan, and I cannot log in.",
    "language-model": "Unless required by applicable law",
}
"""What the page of each kind of model opens with."""
VIEWPORT = (960, 1100)
LONGEST_MS = 120_000


def hash_of(root: Path) -> str:
    """Return the SHA-256 of the names and contents of all that a page below `root` is made of."""
    files = sorted(file for folder in SHOWN for file in (root / folder).rglob("*") if file.suffix in SUFFIXES)
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def outdated(root: Path, record: Path) -> list[str]:
    """Return the pictures in `record` that are missing, or that show another page than that below `root`."""
    told = json.loads(record.read_text(encoding="utf-8"))
    if told["page"] != hash_of(root):
        return sorted(told["pictures"])
    return sorted(
        name
        for name, digest in told["pictures"].items()
        if not (file := record.with_name(name)).exists() or hashlib.sha256(file.read_bytes()).hexdigest() != digest
    )


def take(run: Path, text: str, picture: Path) -> None:
    """Write the page of a run, which opens with a text, and take its picture."""
    from playwright.sync_api import ViewportSize, sync_playwright

    from dikkat.web.opening import open_for_web
    from dikkat.web.page import live_page

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "page.html"
        file.write_text(live_page(open_for_web(run, "auto"), "en", [text]), encoding="utf-8")
        executable = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page(viewport=ViewportSize(width=VIEWPORT[0], height=VIEWPORT[1]))
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-state=ready]:not([data-busy])", timeout=LONGEST_MS)
        page.screenshot(path=picture, animations="disabled")
        browser.close()


def main() -> int:
    """Take the pictures of the runs that are named, or check those that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*", help="a translator, a classifier and a language model")
    parser.add_argument("--check", action="store_true", help="only tell which pictures are older than the page")
    arguments = parser.parse_args()
    if arguments.check:
        old = outdated(ROOT, RECORD)
        print(
            "\n".join(f"{name}: older than the page; take it anew" for name in old) or "all pictures show today's page"
        )
        return 1 if old else 0
    if len(arguments.runs) != len(TEXTS):
        parser.error("name a translator, a classifier and a language model")
    pictures = {}
    for run, (kind, text) in zip(arguments.runs, TEXTS.items(), strict=True):
        picture = FOLDER / f"gallery-{kind}.png"
        take(run, text, picture)
        pictures[picture.name] = hashlib.sha256(picture.read_bytes()).hexdigest()
    RECORD.write_text(json.dumps({"page": hash_of(ROOT), "pictures": pictures}, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
