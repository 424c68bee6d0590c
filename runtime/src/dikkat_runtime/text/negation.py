"""Find words and suffixes of negation in eight languages."""

import re

_WORDS = {
    "en": r"\b(?:not|no|never|none|nobody|nothing|nowhere|neither|nor|without|cannot)\b|n['’]t\b",
    "fr": r"\b(?:ne|non|pas|jamais|rien|aucune?|personne|sans|ni|nulle? part)\b|\bn['’]",
    "de": r"\b(?:nicht|nichts|nie|niemals|niemand\w*|nein|kein\w*|ohne|weder|nirgends)\b",
    "es": r"\b(?:no|nunca|jamás|nada|nadie|ning[uú]n\w*|sin|ni|tampoco)\b",
    "pt": r"\b(?:não|nunca|jamais|nada|ninguém|nenhum\w*|sem|nem)\b",
    "it": r"\b(?:non|no|mai|niente|nulla|nessun\w*|senza|né)\b",
    "nl": r"\b(?:niet|niets|nooit|niemand|geen|nee|zonder|noch)\b",
    "tr": r"\b(?:değil\w*|yok\w*|hiç\w*|asla|hayır|ne)\b|s[ıiuü]z\b|\w{2,}m[aeıiuü](?:[yzdmscn]\w*|l[ıi]\w*|)\b",
}


def negates(text: str, language: str) -> bool | None:
    """Return whether a word or suffix of negation is in `text`; None for a language whose words are not listed here."""
    pattern = _WORDS.get(re.split("[-_.@]", language.lower(), maxsplit=1)[0])
    return None if pattern is None else re.search(pattern, text, re.IGNORECASE) is not None
