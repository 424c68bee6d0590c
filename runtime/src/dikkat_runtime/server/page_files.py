"""The files of the page, held in memory, and the language in which a browser wants it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

FOLDER = "/page/files/"
"""Address of what the page loads."""
INDEX = "index.html"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load, and from where: this server only."""
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
LANGUAGES = ("en", "tr")


@cache
def page_files() -> Mapping[str, tuple[str, bytes]]:
    """Media type and content of each file, by its name."""
    folder = resources.files("dikkat_runtime.server") / "page"
    files = {}
    for file in folder.iterdir():
        kind = _TYPES.get(file.name[file.name.rfind(".") :])
        if kind:
            files[file.name] = kind, file.read_bytes()
    return files


def index_page(language: str) -> bytes:
    """The page itself, in one of `LANGUAGES`."""
    return page_files()[INDEX][1].replace(b"{{LANGUAGE}}", language.encode())


def wanted_language(accepted: str) -> str:
    """The language of a header Accept-Language that is wanted most, English where it names none of ours."""
    best, most = LANGUAGES[0], 0.0
    for entry in accepted.split(",")[:50]:
        code, _, parameters = entry.strip().partition(";")
        language = code.strip().lower().partition("-")[0]
        weight = _weight(parameters)
        if language in LANGUAGES and weight > most:
            best, most = language, weight
    return best


def _weight(parameters: str) -> float:
    """The weight of an entry; that which says none is 1."""
    name, _, value = parameters.strip().partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
