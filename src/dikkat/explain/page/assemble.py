"""Put template, style, scripts and data into one HTML file that makes no request."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
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
    "importance.js",
    "controls.js",
    "keyboard.js",
    "drawing.js",
)
"""Scripts of every page in the order in which they run, all in one scope; the last one follows."""

_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
# half a surrogate pair, as in the name of a file, is not UTF-8
_ESCAPES |= {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}
LANGUAGES = ("en", "tr")


def assemble(page: Page, language: str = "en") -> str:
    """Return the whole HTML file; `language` (one of `LANGUAGES`) is the one it opens in.

    Its content security policy allows this one script and this one style by their hashes and nothing else: no request,
    no frame, no form, no code from data. Raises `UsageError` for another language.
    """
    scripts = {"SCRIPT": in_one_scope([*shared_scripts(), asset("start.js")])}
    return fill(asset("page.html"), language, asset("page.css"), scripts, {"DATA": inert(as_json(page))})


def fill(
    template: str,
    language: str,
    style: str,
    scripts: Mapping[str, str],
    data: Mapping[str, str],
    *,
    scripts_may: str = "",
    policy_end: str = "",
) -> str:
    """Return a page of `template` with everything in it, and a policy that knows `style` and `scripts` by their hashes.

    `data` is filled in last, so that nothing in it is taken for a part to fill. `scripts_may` is what the policy allows
    scripts of a page, and `policy_end` what else it allows. Raises `UsageError` for another language.
    """
    if language not in LANGUAGES:
        raise UsageError('a page speaks {languages}, not "{language}"', " or ".join(LANGUAGES), language)
    style = "\n" + style
    sources = " ".join([*map(_source, scripts.values()), *filter(None, [scripts_may])])
    policy = f"default-src 'none'; script-src {sources}; style-src {_source(style)}; {policy_end}"
    policy += "base-uri 'none'; form-action 'none'"
    parts = {"LANGUAGE": language, "POLICY": policy, "STYLE": style, **scripts, **data}
    html = template
    for name, content in parts.items():
        html = html.replace("{{" + name + "}}", content, 1)
    return html


def shared_scripts() -> list[str]:
    """Return the scripts that every page runs before its last one."""
    return [asset(name) for name in SCRIPTS]


def in_one_scope(scripts: Sequence[str]) -> str:
    """Return one script that runs all of `scripts` in one function, so that no name of theirs is global."""
    bodies = "\n".join(scripts)
    return f'\n(() => {{\n"use strict";\n{bodies}}})();\n'


def inert(content: str) -> str:
    """Return JSON that no HTML parser can leave: the characters of markup are escaped inside its strings."""
    return content.translate(_ESCAPES)


def _source(content: str) -> str:
    """The hash by which a content security policy knows an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}'"


def asset(name: str) -> str:
    """Return the text of a file of this folder."""
    return (_HERE / name).read_text(encoding="utf-8")
