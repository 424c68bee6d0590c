"""A page whose model lies in a file next to it reads the file where it is served, and asks for it where it is not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import Browser, Page
from tests.runtime.runs import language_model_run
from tests.system.chromium import chromium

from dikkat.cli.page import page as page_command
from dikkat.web import page as web_page
from dikkat_runtime.engine.native_texts import NativeLanguageModel
from dikkat_runtime.engine.stack import KeyValueCache
from dikkat_runtime.tasks.generator import Generator

PROMPT = "Two men"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a small language model, written as that of a large one, and its run."""
    folder = tmp_path_factory.mktemp("site")
    language_model_run(folder / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(web_page, "MAX_EMBEDDED_WEIGHTS", 0)
        page_command(folder / "run", folder / "page.html", "int8")
    return folder


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    """Where the folder is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page()
    opened.set_default_timeout(60_000)
    yield opened
    opened.close()


def assert_reads(page: Page, folder: Path) -> None:
    """It shows the shares that the native engine finds in the same precision."""
    page.wait_for_selector("#choices li")
    assert str(page.text_content("#engine-line")).startswith("WebAssembly SIMD, int8, ")
    model = Generator.load(folder / "run", "int8")
    assert isinstance(model.engine, NativeLanguageModel)
    logits = model.engine.next_logits(np.array([model.encode(PROMPT)]), KeyValueCache())[0].astype(np.float64)
    logits[list(model.special_tokens.never_written)] = -np.inf
    powers = np.exp(logits - logits.max())
    expected = np.sort(powers / powers.sum())[::-1][:12]
    assert [float(share) for share in page.locator("#choices b").all_text_contents()] == pytest.approx(
        expected, abs=0.006
    )


def test_a_served_page_reads_the_file_next_to_it_and_nothing_else(address: str, folder: Path, page: Page) -> None:
    requests, wrong = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(f"{address}/page.html#text={quote(PROMPT)}")
    assert_reads(page, folder)
    asked = [url.split("#")[0] for url in requests if not url.startswith("blob:")]
    assert asked == [f"{address}/page.html", f"{address}/page.dikkat"]
    assert wrong == []


def test_a_page_opened_as_a_file_asks_for_the_model_and_takes_no_other(folder: Path, page: Page) -> None:
    page.goto((folder / "page.html").as_uri() + f"#text={quote(PROMPT)}")
    page.wait_for_selector("#weights-file")
    assert "The model of this page is in page.dikkat (" in str(page.text_content("#choose"))
    content = (folder / "page.dikkat").read_bytes()
    flipped = bytearray(content)
    flipped[-100] ^= 1
    for name, other, reason in (
        ("notes.txt", b"These are notes, and no model at all.", "This is not a model file of dikkat."),
        ("empty.dikkat", b"", f"The file has 0 bytes, but the model of this page has {len(content)}."),
        ("cut.dikkat", content[:-9], f"The file has {len(content) - 9} bytes, but"),
        ("page.dikkat", bytes(flipped), "The file is damaged, or the model of another page."),
    ):
        page.set_input_files("#weights-file", {"name": name, "mimeType": "", "buffer": other})
        page.get_by_text(f"{name} cannot be read: {reason}").wait_for()
    page.set_input_files("#weights-file", folder / "page.dikkat")
    assert_reads(page, folder)
    assert not page.is_visible("#choose")


def test_a_served_page_whose_file_is_gone_says_so_and_asks_for_it(address: str, folder: Path, page: Page) -> None:
    (folder / "other.html").write_bytes((folder / "page.html").read_bytes().replace(b'"page.dikkat"', b'"gone.dikkat"'))
    page.goto(f"{address}/other.html#text={quote(PROMPT)}")
    page.get_by_text("gone.dikkat could not be read (404 File not found)").wait_for()
    page.set_input_files("#weights-file", folder / "page.dikkat")
    assert_reads(page, folder)
