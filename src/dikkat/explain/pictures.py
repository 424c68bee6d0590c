"""Create a matplotlib figure without global state, and write it whole or not at all."""

from __future__ import annotations

import io
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.files import write_atomically
from dikkat_runtime.localization import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontEntry


# Find installed fonts for the characters of a text, or the Debian package that has one.

DEFAULT = "DejaVu Sans"
"""Comes with matplotlib: Latin, Greek, Cyrillic, Arabic, Hebrew, Georgian, Armenian and some symbols."""

_PREFERRED = ("Noto Sans", "Noto", "DejaVu")
_NOT_FOR_TEXT = ("Last Resort", "cm", "STIXNon", "STIXSize")
_MAX_NAMED = 8
"""Missing characters that a note lists."""
_CJK_NAMES = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "IDEOGRAPHIC", "BOPOMOFO", "FULLWIDTH", "KANGXI")


@contextmanager
def fonts_with(texts: Iterable[str], picture: Path) -> Iterator[None]:
    """Let matplotlib draw with fonts that have the characters of `texts`, and silence its warnings.

    Characters that no installed font has are named in one line on standard error, with the Debian package of a font
    that has them.
    """
    import matplotlib

    characters = {character for text in texts for character in text if _is_visible(character)}
    families, missing = choose_families(characters)
    if missing:
        print(visible(msg("{picture}: {note}", picture, missing_note(missing))), file=sys.stderr)
    with matplotlib.rc_context({"font.family": families}), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def choose_families(characters: Iterable[str]) -> tuple[list[str], set[str]]:
    """Return families that together have `characters`, the default first, and the characters that none has."""
    from matplotlib import font_manager

    wanted = set(characters)
    families = [DEFAULT]
    missing = wanted - _covered(font_manager.findfont(DEFAULT), 0, wanted)
    if missing:
        missing = _add_families(families, missing, _installed())
    if missing and _add_new_fonts():
        missing = _add_families(families, missing, _installed())
    return families, missing


def missing_note(missing: Iterable[str]) -> str:
    """Return one line about characters that no installed font has, with the package to install."""
    characters = sorted(missing)
    named = " ".join(characters[:_MAX_NAMED]) + (" …" if len(characters) > _MAX_NAMED else "")
    template = msg(
        "no installed font has {named}; install one (on Debian: apt-get install {packages}) and draw it again"
    )
    return template.fill(named, " ".join(sorted({debian_package(character) for character in characters})))


def debian_package(character: str) -> str:
    """Return the Debian package of a scalable font that has `character`."""
    name = unicodedata.name(character, "")
    if name.startswith(_CJK_NAMES) or (unicodedata.east_asian_width(character) == "W" and character.isalpha()):
        return "fonts-noto-cjk"
    return "fonts-noto-core" if unicodedata.category(character)[0] in "LMN" else "fonts-symbola"


def _is_visible(character: str) -> bool:
    """Whether it leaves a mark: spaces, controls, joiners and variation selectors do not."""
    return unicodedata.category(character)[0] not in "CZ" and "VARIATION SELECTOR" not in unicodedata.name(
        character, ""
    )


def _add_families(families: list[str], missing: set[str], fonts: Sequence[FontEntry]) -> set[str]:
    """Append to `families` each that has some of the `missing` characters; returns those that are left."""
    left, region = set(missing), _cjk_region(missing)
    for font in sorted(fonts, key=lambda font: _rank(font.name, region)):
        if font.name not in families and (covered := _covered(font.fname, getattr(font, "index", 0), left)):
            families.append(font.name)
            left -= covered
            if not left:
                break
    return left


def _installed() -> list[FontEntry]:
    """The upright regular fonts that matplotlib knows."""
    from matplotlib.font_manager import fontManager

    return [
        font
        for font in fontManager.ttflist
        if font.style == "normal"
        and font.weight in (400, "normal", "regular", "book")
        and not font.name.startswith(_NOT_FOR_TEXT)
    ]


def _add_new_fonts() -> bool:
    """Make known to matplotlib the fonts that were installed after it listed them; whether there were any."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {font.fname for font in fontManager.ttflist}
    fresh = [path for path in findSystemFonts() if path not in known]
    for path in fresh:
        try:
            fontManager.addfont(path)
        except (OSError, RuntimeError, ValueError):  # not a font that matplotlib can draw, such as one of bitmaps
            continue
    return bool(fresh)


def _rank(name: str, region: str) -> tuple[bool, bool, int, str]:
    """Well-made fonts of many scripts first; those for Chinese, Japanese and Korean only where they are needed."""
    kind = next((number for number, start in enumerate(_PREFERRED) if name.startswith(start)), len(_PREFERRED))
    return ("CJK" in name) != bool(region), not name.endswith(region), kind, name


def _cjk_region(characters: set[str]) -> str:
    """The end of the name of the Noto font that has these characters in the forms of their language."""
    names = {unicodedata.name(character, "").split(" ")[0] for character in characters}
    if names & {"HIRAGANA", "KATAKANA"}:
        return "CJK JP"
    if "HANGUL" in names:
        return "CJK KR"
    return "CJK SC" if "CJK" in names else ""


def _covered(path: str, index: int, wanted: set[str]) -> set[str]:
    characters = _characters(path, index)
    return {character for character in wanted if ord(character) in characters}


@lru_cache(maxsize=512)
def _characters(path: str, index: int) -> frozenset[int]:
    """Code points that the font has as outlines; none for a font of bitmaps or a file that cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path, face_index=index) if index else FT2Font(path)
    except (OSError, RuntimeError, TypeError):
        return frozenset()
    return frozenset(font.get_charmap()) if font.scalable else frozenset()


_FORMATS = (".png", ".svg")
_JOINERS = "\u200c\u200d"
"""Zero-width joiners, which choose the forms of letters in Persian, Hindi and emoji."""


PAGES = (".html", ".htm")


def check_format(path: Path, formats: Iterable[str] = _FORMATS) -> None:
    """Raise `UsageError` unless the suffix is one of these, of pictures by default; called before the work."""
    if path.suffix.lower() not in formats:
        raise UsageError("{path}: is written as {formats}, not {suffix}; rename it").fill(
            path, " or ".join(formats), path.suffix or msg("a file without suffix")
        )


def printable(text: str, longest: int) -> str:
    """Return `text` with a dot for each control character, cut to `longest` characters."""
    shown = "".join(mark if mark.isprintable() or mark in _JOINERS else "·" for mark in text)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def new_figure(size: tuple[float, float]) -> Figure:
    # Not pyplot: it keeps figures and a display in global state, a server thread has neither.
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def save_figure(figure: Figure, path: Path) -> None:
    """Draw the figure and write it, whole or not at all. Raises `DiskError` or `CannotCreateError`."""
    import matplotlib

    kind = path.suffix.lower().removeprefix(".")
    content = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "dikkat"}):  # equal data, equal file
        figure.savefig(content, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    write_atomically(path, content.getvalue())
