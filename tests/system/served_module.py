"""A folder of `dikkat export --to web`, served on this machine to a browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from playwright.sync_api import Browser

TRANSLATE = """async ([texts, options, loading]) => {
    const { Translator } = await import("/dikkat.js");
    const model = await Translator.load("/model.dikkat", loading);
    const begun = performance.now();
    const translations = texts.map((text) => model.translate(text, options).text);
    return { translations, milliseconds: performance.now() - begun, engine: model.engine };
}"""
"""Translates texts one after another by the module at the root of the server."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of `folder` on the loopback interface."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def translated_in_browser(
    browser: Browser, folder: Path, texts: Sequence[str], *, beam_size: int = 1, simd: bool = True
) -> dict[str, Any]:
    """Return the translations of a page that imports the module, its engine, and the milliseconds that they took."""
    (folder / "index.html").write_text("<!doctype html><title>module</title>", encoding="utf-8")
    with served(folder) as address:
        page = browser.new_page()
        try:
            page.goto(f"{address}/index.html")
            found: dict[str, Any] = page.evaluate(TRANSLATE, [list(texts), {"beamSize": beam_size}, {"simd": simd}])
        finally:
            page.close()
    return found
