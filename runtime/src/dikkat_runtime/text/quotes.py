"""Find the quotation marks that enclose a text, and those of the target language. Source: Unicode CLDR, delimiters."""

PAIRS = {"“": "”", "„": "“”", "«": "»", "»": "«", '"': '"', "”": "”", "「": "」", "『": "』"}
"""Opening marks, and what closes each."""
_OF_LANGUAGE = {
    **dict.fromkeys(("fr", "fra"), ("«\u00a0", "\u00a0»")),
    **dict.fromkeys(
        ("de", "deu", "cs", "ces", "sk", "slk", "sl", "slv", "bg", "bul", "is", "isl", "lt", "lit"), ("„", "“")
    ),
    **dict.fromkeys(("pl", "pol", "hu", "hun", "ro", "ron", "hr", "hrv"), ("„", "”")),
    **dict.fromkeys(
        ("es", "spa", "it", "ita", "pt", "por", "ru", "rus", "uk", "ukr", "no", "nb", "nob", "el", "ell", "ar", "ara"),
        ("«", "»"),
    ),
    **dict.fromkeys(("sv", "swe", "fi", "fin"), ("”", "”")),
    **dict.fromkeys(("ja", "jpn"), ("「", "」")),
}
_ELSE = ("“", "”")
WIDE = "\u00a0\u202f "


def enclosed(text: str, language: str) -> tuple[int, int, str, str] | None:
    """Return the span inside the quotation marks around a whole text, and the marks of a translation into `language`.

    Straight marks stay straight. Returns None where the text is not one quotation.
    """
    opening, closing = text[:1], text[-1:]
    if len(text) < 3 or closing not in PAIRS.get(opening, ""):
        return None
    inner = text[1:-1]
    if opening in inner or closing in inner or not inner.strip():
        return None
    start, end = 1 + len(inner) - len(inner.lstrip(WIDE)), 1 + len(inner.rstrip(WIDE))
    if opening == '"':
        return start, end, text[:start], text[end:]
    return start, end, *quotation_marks(language)


def quotation_marks(language: str) -> tuple[str, str]:
    """Return the opening and the closing quotation mark of `language`, with the space inside it."""
    return _OF_LANGUAGE.get(language.lower().replace("_", "-").partition("-")[0], _ELSE)
