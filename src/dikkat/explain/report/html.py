"""The frame and the smallest parts of an HTML page: escaped text, no requests, light and dark."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from dikkat.explain.drawing.chart import CHART_STYLE, MAP_STYLE, escaped
from dikkat_runtime.errors import UsageError, msg

_STYLE = f"""
:root {{ color-scheme: light dark; --ink: #1d2126; --muted: #5a626c; --line: #d5d9de; --paper: #fff; --raised: #f5f6f8;
  --c0: #0072b2; --c1: #d55e00; }}
@media (prefers-color-scheme: dark) {{
:root {{ --ink: #e8eaed; --muted: #a4abb3; --line: #3c4249; --paper: #17191c; --raised: #212429;
  --c0: #56b4e9; --c1: #e69f00; }}
}}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; padding: 1rem; max-width: 72rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.5rem; margin: .5rem 0; }} h2 {{ font-size: 1.2rem; margin: 2.2rem 0 .6rem; }}
h3 {{ font-size: 1rem; margin: 1.2rem 0 .4rem; }} p {{ margin: .4rem 0; }} .muted {{ color: var(--muted); }}
table {{ border-collapse: collapse; }}
td {{ padding: .25rem .8rem .25rem 0; vertical-align: top; border-bottom: 1px solid var(--line); }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
pre {{ overflow-x: auto; padding: .8rem; background: var(--raised); border-radius: 6px; font-size: .85rem;
  overflow-wrap: normal; }} pre.wrapped {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
.tiles {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .6rem; margin: 1rem 0; }}
.tile {{ background: var(--raised); border-radius: 6px; padding: .6rem .8rem; }}
.tile b {{ display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }}
.side {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem; }}
.card {{ border-left: 3px solid var(--c1); padding: .1rem 0 .1rem .8rem; margin: .9rem 0; }}
.card dl {{ display: grid; grid-template-columns: max-content 1fr; gap: 0 .8rem; margin: 0; }}
.card dt {{ color: var(--muted); }} .card dd {{ margin: 0; }}
.wide {{ overflow-x: auto; }} .strip {{ display: flex; gap: 1.2rem; overflow-x: auto; padding-bottom: .8rem; }}
figure {{ margin: 0; min-width: 12rem; flex: none; display: flex; flex-direction: column;
  justify-content: space-between; }}
figcaption {{ width: 0; min-width: 100%; }}
iframe {{ width: 100%; height: 54rem; border: 1px solid var(--line); border-radius: 6px; }}
summary {{ cursor: pointer; }}
{CHART_STYLE}{MAP_STYLE}
"""


def page(title: str, language: str, parts: Iterable[str], *, refresh: int | None = None, scripts: bool = False) -> str:
    """Return a whole HTML file whose content security policy allows no request.

    With `refresh` it reloads itself after so many seconds; with `scripts` what it frames may run the scripts it
    carries.
    """
    allowed = "script-src 'unsafe-inline'; " if scripts else ""
    policy = f"default-src 'none'; style-src 'unsafe-inline'; {allowed}base-uri 'none'; form-action 'none'"
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        *([] if refresh is None else [f'<meta http-equiv="refresh" content="{refresh}">']),
        f"<title>{escaped(title)}</title>",
        f"<style>{_STYLE}</style>",
    ]
    lines = ["<!doctype html>", f'<html lang="{escaped(language)}">', "<head>", *head, "</head>", "<body>"]
    return "\n".join([*lines, *parts, "</body>", "</html>"]) + "\n"


def check_page(path: Path) -> None:
    """Raise `UsageError` unless the suffix names a page; called before the work, not after it."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(
            "{path}: a page is written as .html, not {suffix}; rename it",
            path,
            path.suffix or msg("a file without suffix"),
        )


def heading(text: str, level: int = 2) -> str:
    """Return a heading."""
    return f"<h{level}>{escaped(text)}</h{level}>"


def paragraph(text: str, *, muted: bool = False) -> str:
    """Return a paragraph; a `muted` one is grey."""
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
    """Return a table of names and numbers."""
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
