"""Put template, style, scripts and data into one HTML file that makes no request."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from dikkat.explain.page.document import Page, as_json
from dikkat_runtime.errors import UsageError

_HERE = Path(__file__).parent
SCRIPTS = (
    "strings.js",
    "state.js",
    "elements.js",
    "colours.js",
    "weights.js",
    "picture.js",
    "tokens.js",
    "readout.js",
    "heat_map.js",
    "links.js",
    "text_view.js",
    "beam_tree.js",
    "decoding.js",
    "differences.js",
    "heads_off.js",
    "honesty.js",
    "controls.js",
    "keyboard.js",
    "start.js",
)
"""Scripts in the order in which they run, all in one scope."""

_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
# half a surrogate pair, as in the name of a file, is no UTF-8
_ESCAPES |= {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}
LANGUAGES = ("en", "tr")


def assemble(page: Page, language: str = "en") -> str:
    """Return the whole HTML file; `language` (one of `LANGUAGES`) is the one it opens in.

    Its content security policy allows this one script and this one style by their hashes and nothing else: no request,
    no frame, no form, no code from data. Raises `UsageError` for another language.
    """
    if language not in LANGUAGES:
        raise UsageError(f'a page speaks {" or ".join(LANGUAGES)}, not "{language}"')
    style = "\n" + _asset("page.css")
    bodies = "\n".join(_asset(name) for name in SCRIPTS)
    script = f'\n(() => {{\n"use strict";\n{bodies}}})();\n'
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {"LANGUAGE": language, "POLICY": policy, "STYLE": style, "SCRIPT": script, "DATA": _inert(as_json(page))}
    html = _asset("page.html")
    for name, content in parts.items():  # DATA last, so that nothing in it is taken for a place to fill
        html = html.replace("{{" + name + "}}", content, 1)
    return html


def _inert(content: str) -> str:
    """JSON that no HTML parser can leave: the characters of markup are escaped inside its strings."""
    return content.translate(_ESCAPES)


def _source(content: str) -> str:
    """The hash by which a content security policy knows an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}'"


def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
