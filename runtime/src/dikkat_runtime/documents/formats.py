"""Choose the reader of a file by the ending of its name and by its beginning."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from dikkat_runtime.documents.segments import Document, Options
from dikkat_runtime.errors import UsageError, msg

Reader = Callable[[bytes, str, Options], Document]


@dataclass(frozen=True, slots=True)
class Format:
    """One format: its usual name, endings of file names, and the module of its reader."""

    name: str
    endings: tuple[str, ...]
    module: str
    function: str

    def read(self, data: bytes, name: str, options: Options) -> Document:
        """Read a file of this format; the reader is imported at the first call."""
        reader: Reader = getattr(import_module(f"dikkat_runtime.documents.{self.module}"), self.function)
        return reader(data, name, options)


FORMATS = (
    Format(msg("gettext catalog"), (".po", ".pot"), "po", "read_po"),
    Format(msg("compiled gettext catalog"), (".mo", ".gmo"), "po", "read_mo"),
    Format("XLIFF", (".xlf", ".xliff", ".sdlxliff", ".mxliff", ".mqxliff"), "xliff", "read_xliff"),
    Format(msg("translation memory"), (".tmx",), "tmx", "read_tmx"),
    Format(msg("SubRip subtitles"), (".srt",), "subtitles", "read_srt"),
    Format(msg("WebVTT subtitles"), (".vtt",), "subtitles", "read_vtt"),
    Format("Markdown", (".md", ".markdown"), "markdown", "read_markdown"),
    Format("HTML", (".html", ".htm", ".xhtml"), "html", "read_html"),
    Format(msg("Word document"), (".docx", ".docm"), "office", "read_office"),
    Format("presentation", (".pptx", ".pptm"), "office", "read_office"),
    Format("spreadsheet", (".xlsx", ".xlsm"), "office", "read_office"),
    Format(msg("OpenDocument file"), (".odt", ".ods", ".odp", ".odg"), "archives", "read_open_document"),
    Format("e-book", (".epub",), "archives", "read_epub"),
    Format("LaTeX", (".tex",), "latex", "read_latex"),
    Format("table", (".tsv", ".csv"), "tables", "read_table"),
    Format(msg("strings in JSON"), (".json", ".arb", ".xcstrings"), "json_strings", "read_json"),
    Format(msg("strings in YAML"), (".yaml", ".yml"), "yaml_strings", "read_yaml"),
    Format("properties", (".properties",), "app_strings", "read_properties"),
    Format(msg("Apple strings"), (".strings",), "app_strings", "read_strings"),
    Format(msg("Apple strings with plurals"), (".stringsdict",), "app_strings", "read_stringsdict"),
    Format(msg("Android strings"), (".xml",), "app_strings", "read_resources"),
    Format(msg("JSON lines"), (".jsonl", ".ndjson"), "tables", "read_json_lines"),
)
PLAIN_TEXT = Format(msg("plain text"), (".txt",), "decoded_file", "read_text")
"""It is written by `--out` alone; everywhere else a file of its name is one of lines."""
_BY_ENDING = {ending: document_format for document_format in reversed(FORMATS) for ending in document_format.endings}
_BEGINNINGS = (
    (re.compile(rb"\xde\x12\x04\x95|\x95\x04\x12\xde"), ".mo"),
    (re.compile(rb"PK\x03\x04.{26}mimetypeapplication/epub", re.DOTALL), ".epub"),
    (re.compile(rb"PK\x03\x04.{26}mimetypeapplication/vnd\.oasis\.opendocument", re.DOTALL), ".odt"),
    (re.compile(rb"PK\x03\x04"), ".docx"),
    (re.compile(rb"(?:\xef\xbb\xbf)?WEBVTT\b"), ".vtt"),
    (re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?:[^-]|-(?!->))*+-->\s*+)*+<xliff\b"), ".xlf"),
    (re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!DOCTYPE tmx[^>]*>\s*)?<tmx\b"), ".tmx"),
    (re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<!doctype html|<html)\b", re.IGNORECASE), ".html"),
)
_ARCHIVES = frozenset(("office", "archives"))
_CERTAIN = frozenset((".mo", ".docx", ".odt", ".epub", ".vtt", ".xlf", ".tmx"))
"""Endings of formats with a characteristic beginning, which counts more than the name of the file."""


def find_format(name: str, data: bytes = b"") -> Format | None:
    """Return the format of a file, or None for plain text."""
    begins = next((ending for pattern, ending in _BEGINNINGS if pattern.match(data)), None)
    ending = name[name.rfind(".") :].lower() if "." in name else ""
    named = _BY_ENDING.get(ending)
    if named is not None and data.startswith(b"PK\x03\x04") and named.module in _ARCHIVES:
        return named
    if begins and (named is None or ending == ".xml" or (begins in _CERTAIN and named is not _BY_ENDING[begins])):
        return _BY_ENDING[begins]
    return named


def require_format(name: str, data: bytes) -> Format:
    """Return the format of a file. Raises `UsageError` for a file of none."""
    document_format = find_format(name, data) or (PLAIN_TEXT if name.lower().endswith(PLAIN_TEXT.endings) else None)
    if document_format is None:
        known = " ".join(ending for known_format in (*FORMATS, PLAIN_TEXT) for ending in known_format.endings)
        raise UsageError("{name}: not a document that can be translated whole; these can: {known}", name, known)
    return document_format


def refuse_document(path: Path | None, run: Path) -> None:
    """Raise `UsageError` where lines are read from a document, whose marks are not prose; tables of one are lines."""
    document = None if path is None else find_format(path.name)
    if path is not None and document is not None and document.module != "tables":
        out = path.with_name(f"{path.stem}.out{path.suffix}")
        raise UsageError(
            "{path}: is a document ({name}); translate it whole: dikkat translate {run} {path} --out {out}"
        ).fill(path, document.name, run, out)
