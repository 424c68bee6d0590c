"""Debian's Chromium, headless, with everything noted that a page must not do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-software-rasterizer",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# a page that has not answered within this time never will
ANSWER_SECONDS = 120


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser; the test that asks for it is skipped where there is none."""
    if not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A page and what went wrong on it."""

    page: Page
    wrong: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        """The text of the first such element, hidden or not."""
        return self.page.locator(selector).first.text_content() or ""

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_text_contents()

    def count(self, selector: str) -> int:
        return self.page.locator(selector).count()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def click(self, selector: str) -> None:
        self.page.locator(selector).first.click()

    def run(self, expression: str, argument: Any = None) -> Any:
        return self.page.evaluate(expression, argument)

    def until(self, expression: str, argument: Any = None) -> None:
        """Wait until an expression holds, asking anew from here.

        Playwright's own `wait_for_function` asks again from within the page, where the policy of the page forbids it to
        evaluate a string: it works only where the expression holds when it is asked for the first time.

        Raises:
            TimeoutError: it did not hold within 120 seconds.
        """
        end = time.monotonic() + ANSWER_SECONDS
        while not self.run(expression, argument):
            if time.monotonic() > end:
                raise TimeoutError(f"never true on this page: {expression}")
            self.page.wait_for_timeout(20)


@contextmanager
def watched(
    browser: Browser,
    path: Path,
    *,
    width: int = 1280,
    height: int = 900,
    theme: Literal["light", "dark"] = "light",
    touch: bool = False,
    before: str = "",
    fragment: str = "",
) -> Iterator[Watched]:
    """Open a file; at the end no error, no warning, no dialog and no request may have been seen.

    The script `before` runs before those of the page; `fragment` stands behind the # of its address.
    """
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, has_touch=touch, is_mobile=touch
    )
    page = context.new_page()
    result = Watched(page)
    page.on("console", lambda message: result.wrong.append(f"console {message.type}: {message.text}"))
    page.on("pageerror", lambda error: result.wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: _refuse(result, dialog))
    page.on("request", lambda request: _note_request(result, request.url))
    page.set_default_timeout(1000 * ANSWER_SECONDS)
    if before:
        page.add_init_script(before)
    try:
        page.goto(path.as_uri() + (f"#{fragment}" if fragment else ""))
        yield result
    finally:
        context.close()
    assert result.wrong == []


def _refuse(found: Watched, dialog: Dialog) -> None:
    found.wrong.append(f"dialog: {dialog.message}")
    dialog.dismiss()


def _note_request(found: Watched, url: str) -> None:
    # a worker of the page's own script comes from a blob
    if not url.startswith(("file://", "blob:null/")):
        found.wrong.append(f"request: {url}")
