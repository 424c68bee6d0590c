"""Take the pictures of docs/seeing.md: a cell of a notebook with its page, and a page over the training of a run.

    dikkat train translator phrasebook:fr --out runs/animal --minutes 4 --watch-text "… ||| …"
    python tools/record_seeing.py runs/animal docs/images

It drives Debian's Chromium (or that of the variable CHROMIUM) with Playwright.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import dikkat
from dikkat.tasks.inspection.over_training import OverTraining

SENTENCE = "The animal did not cross the street because it was too tired."


def take(browser: Browser, html: str, path: Path, *, keys: str, height: int, clicks: tuple[str, ...] = ()) -> None:
    """Show a page, press keys, click, and write what is seen."""
    page = browser.new_page(viewport={"width": 960, "height": height})
    file = path.with_suffix(".html")
    file.write_text(html, encoding="utf-8")
    page.goto(file.resolve().as_uri())
    for key in keys:
        page.keyboard.press(key)
    for selector in clicks:
        page.locator(selector).first.click()
    page.wait_for_timeout(400)
    page.screenshot(path=path)
    page.close()
    file.unlink()


def main() -> None:
    """Take both pictures of the run that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    cell = dikkat.show(arguments.run, SENTENCE)._repr_html_()
    training = OverTraining(arguments.run).page()
    with sync_playwright() as playwright:
        executable = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        take(browser, f"<!doctype html><body>{cell}", arguments.folder / "seeing-cell.png", keys="", height=720)
        it = ".tokens .token[title='▁it']"
        take(browser, training, arguments.folder / "seeing-training.png", keys="e", height=1150, clicks=(it,))
        browser.close()


if __name__ == "__main__":
    main()
