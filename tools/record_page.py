"""Record the moving picture of the README: a page translates, shows its attention, and loses a head.

    dikkat page runs/quickstart-fr --out page.html
    python tools/record_page.py page.html docs/images/page.gif

It drives Debian's Chromium (or that of the variable CHROMIUM) with Playwright, and needs Pillow.
"""

from __future__ import annotations

import argparse
import io
import os
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

SENTENCE = "The animal didn't cross the street because it was too wide."
VIEWPORT = ViewportSize(width=960, height=1140)
WIDTH = 720
COLORS = 128
HEAD = "button.square[title^='Encoder self-attention, layer 2, head 1:']"
"""The head that training taught which noun a pronoun means."""
KEYS_PER_FRAME = 4
TYPING_MS, LOOK_MS, READ_MS = 110, 1300, 2600


class Recorder:
    """Collect frames of a page, each with the milliseconds for which it is shown."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[Image.Image] = []
        self.durations: list[int] = []

    def ready(self) -> None:
        """Wait until the page computes nothing any more."""
        self.page.wait_for_selector("body[data-state=ready]:not([data-busy])")

    def show(self, duration: int) -> None:
        """Take a frame that stands for `duration` milliseconds."""
        image = Image.open(io.BytesIO(self.page.screenshot(animations="disabled"))).convert("RGB")
        height = round(image.height * WIDTH / image.width)
        self.frames.append(image.resize((WIDTH, height), Image.Resampling.LANCZOS))
        self.durations.append(duration)

    def click(self, selector: str, duration: int) -> None:
        """Click on an element, wait for the page and take a frame."""
        self.page.click(selector)
        self.ready()
        self.show(duration)

    def save(self, path: Path) -> None:
        """Write the frames as a GIF that begins again at its end."""
        sheet = Image.new("RGB", (WIDTH, sum(frame.height for frame in self.frames)))
        for index, frame in enumerate(self.frames):
            sheet.paste(frame, (0, index * frame.height))
        palette = sheet.quantize(COLORS)
        first, *rest = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in self.frames)
        first.save(path, save_all=True, append_images=rest, duration=self.durations, loop=0, optimize=True)


def record(page: Page, path: Path) -> None:
    """Type the sentence, look at what each head sees, and switch one off."""
    recorder = Recorder(page)
    recorder.ready()
    page.fill("#text", "")
    page.focus("#text")
    for start in range(0, len(SENTENCE), KEYS_PER_FRAME):
        page.keyboard.type(SENTENCE[start : start + KEYS_PER_FRAME])
        recorder.show(TYPING_MS)
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('target-text').textContent.includes('animal')")
    recorder.ready()
    recorder.show(READ_MS)
    recorder.click("[data-value=encoder-self]", LOOK_MS)
    for head in (4, 3, 2):
        page.click(f"#controls button:text-is('{head}') >> nth=-1")
    recorder.ready()
    page.hover("#stage .column.left .token >> text=/^▁it$/")
    recorder.show(READ_MS)
    page.click("#tab-heads")
    page.wait_for_selector(f"{HEAD}[data-strength=strong], {HEAD}:not([title*=': 0 of'])")
    recorder.show(LOOK_MS)
    recorder.click(HEAD, READ_MS)
    recorder.save(path)


def main() -> None:
    """Record the page that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, help="a page that `dikkat page` wrote")
    parser.add_argument("out", type=Path, help="the GIF to write")
    arguments = parser.parse_args()
    with sync_playwright() as playwright:
        executable = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page(viewport=VIEWPORT)
        page.goto(arguments.page.resolve().as_uri())
        record(page, arguments.out)
        browser.close()


if __name__ == "__main__":
    main()
