"""The files of the page, kept in memory, and the choice of its language for a browser."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

FOLDER = "/page/files/"
"""Address of the files of the page."""
INDEX = "index.html"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy of the page: it loads from this server only."""
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
LANGUAGES = ("en", "tr")


@cache
def page_files() -> Mapping[str, tuple[str, bytes]]:
    """Return media type and content of each file, by its name."""
    folder = resources.files("dikkat_runtime.server") / "page"
    files = {}
    for file in folder.iterdir():
        kind = _TYPES.get(file.name[file.name.rfind(".") :])
        if kind:
            files[file.name] = kind, file.read_bytes()
    return files


def index_page(language: str) -> bytes:
    """Return the page itself, in one of `LANGUAGES`."""
    return page_files()[INDEX][1].replace(b"{{LANGUAGE}}", language.encode())


def wanted_language(accepted: str) -> str:
    """Return the preferred language of a header Accept-Language, English where it names none of ours."""
    best, most = LANGUAGES[0], 0.0
    for entry in accepted.split(",")[:50]:
        code, _, parameters = entry.strip().partition(";")
        language = code.strip().lower().partition("-")[0]
        weight = _weight(parameters)
        if language in LANGUAGES and weight > most:
            best, most = language, weight
    return best


def _weight(parameters: str) -> float:
    """Return the weight of an entry, 1 by default."""
    name, _, value = parameters.strip().partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
