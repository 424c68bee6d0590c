"""Lead the links of the documentation to the pages of the site, and name what the theme leaves nameless: MkDocs' hooks.

In the repository a page links to files outside `docs/` and to the diary; on the site those that `pages.py` copies
stand in `pages/`, and the others are named without a link.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

COPIED = {
    "README.md": "index.md",
    "README.tr.md": "index.tr.md",
    "CONTRIBUTING.md": "pages/CONTRIBUTING.md",
    "SECURITY.md": "pages/SECURITY.md",
    "CHANGELOG.md": "pages/CHANGELOG.md",
    "examples/README.md": "pages/examples.md",
}
"""Files of the repository that are pages of the site, by their paths in it."""
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")
_SCHEME = re.compile(r"\w+:")


def site_path(target: str) -> str | None:
    """Return where on the site a file of the repository stands, or None, by its path in the repository."""
    if target in COPIED:
        return COPIED[target]
    inside = target.removeprefix("docs/")
    if inside == target or inside.startswith("log/") or inside.endswith(".ipynb"):
        return None
    return "pages/documentation.md" if inside == "README.md" else inside


def rewritten(text: str, source: str, page: str) -> str:
    """Return a page with its links made for the site.

    `source` is the path of the file in the repository, `page` that of the page on the site.
    """

    def replace(link: re.Match[str]) -> str:
        label, target, anchor = link[1], link[2], link[3] or ""
        if _SCHEME.match(target):
            return link[0]
        path = site_path(posixpath.normpath(posixpath.join(posixpath.dirname(source), target)))
        if path is None:
            return label
        return f"[{label}]({posixpath.relpath(path, posixpath.dirname(page) or '.')}{anchor})"

    return _LINK.sub(replace, text)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rewrite the links of a page that stands in `docs/`; the others were written for the site."""
    path = page.file.src_uri
    if page.file.generated_by:
        return markdown
    return rewritten(markdown, f"docs/{path}", path)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Return a page with the language that it is written in, and a name for the dialog of the search."""
    in_turkish = page.file.src_uri.endswith(".tr.md")
    name = "Arama" if in_turkish else "Search"
    output = output.replace('role="dialog">', f'role="dialog" aria-label="{name}">')
    return output.replace('<html lang="en"', '<html lang="tr"', 1) if in_turkish else output
