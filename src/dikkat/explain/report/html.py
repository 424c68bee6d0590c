"""The frame and the smallest parts of an HTML page: escaped text, no requests, light and dark."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from dikkat.explain.drawing.chart import MAP_STYLE, escaped

_STYLE = Path(__file__).with_name("report.css").read_text(encoding="utf-8") + MAP_STYLE


def page(title: str, language: str, parts: Iterable[str], *, scripts: bool = False) -> str:
    """Return a whole HTML file whose content security policy allows no request.

    With `scripts` what it frames may run the scripts it carries.
    """
    allowed = "script-src 'unsafe-inline'; " if scripts else ""
    policy = f"default-src 'none'; style-src 'unsafe-inline'; {allowed}base-uri 'none'; form-action 'none'"
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escaped(title)}</title>",
        f"<style>{_STYLE}</style>",
    ]
    lines = ["<!doctype html>", f'<html lang="{escaped(language)}">', "<head>", *head, "</head>", "<body>"]
    return "\n".join([*lines, *parts, "</body>", "</html>"]) + "\n"


def heading(text: str, level: int = 2) -> str:
    return f"<h{level}>{escaped(text)}</h{level}>"


def paragraph(text: str, *, muted: bool = False) -> str:
    return f"<p{' class=muted' if muted else ''}>{escaped(text)}</p>"


def foreign(text: str, language: str = "") -> str:
    """Return a user's text, of any language and direction, isolated from the text around it."""
    named = f' lang="{escaped(language)}"' if language else ""
    return f'<bdi dir="auto"{named}>{escaped(text)}</bdi>'


def tiles(values: Sequence[tuple[str, str]]) -> str:
    """Return large numbers, each with its name."""
    cells = "".join(f'<div class="tile"><b>{escaped(value)}</b>{escaped(name)}</div>' for name, value in values)
    return f'<div class="tiles">{cells}</div>'


def table(rows: Sequence[tuple[str, str]]) -> str:
    body = "".join(f'<tr><td>{escaped(name)}</td><td class="number">{escaped(value)}</td></tr>' for name, value in rows)
    return f'<div class="wide"><table>{body}</table></div>'


def card(title: str, lines: Sequence[tuple[str, str]]) -> str:
    """Return labelled lines under a title; the lines are HTML already."""
    items = "".join(f"<dt>{escaped(label)}</dt><dd>{content}</dd>" for label, content in lines)
    return f'<div class="card"><p class="muted">{escaped(title)}</p><dl>{items}</dl></div>'


def framed(title: str, html: str, style: str = "") -> str:
    """Return a whole HTML file in a frame of its own, whose scripts and styles meet nothing of what is around it."""
    # what is inside the attribute is HTML: it must come out of it character by character, so only the two marks that
    # mean something in an attribute are replaced; scripts and JSON have fewer of the single ones
    inside = html.replace("&", "&amp;").replace("'", "&#39;")
    styled = f' style="{style}"' if style else ""
    return f"""<iframe title="{escaped(title)}" sandbox="allow-scripts"{styled} srcdoc='{inside}'></iframe>"""


def folded(summary: str, content: str) -> str:
    """Return preformatted text that is shown on a click."""
    return f"<details><summary>{escaped(summary)}</summary><pre>{_lines(content)}</pre></details>"


def preformatted(content: str) -> str:
    """Return lines as they are, wrapped at the width of the page."""
    return f'<pre class="wrapped">{_lines(content)}</pre>'


def _lines(content: str) -> str:
    return "\n".join(map(escaped, content.split("\n")))
