"""Codes and names of languages, and the other codes that clients have for them."""

import asyncio
import importlib.util
import threading
from functools import cache, lru_cache
from typing import Any

from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.text.placeholders import has_words

NAMES = {
    "af": "Afrikaans", "am": "Amharic", "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian",
    "bn": "Bengali", "bs": "Bosnian", "ca": "Catalan", "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German",
    "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician", "gu": "Gujarati",
    "ha": "Hausa", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "ht": "Haitian", "hu": "Hungarian",
    "hy": "Armenian", "id": "Indonesian", "ig": "Igbo", "is": "Icelandic", "it": "Italian", "ja": "Japanese",
    "ka": "Georgian", "kk": "Kazakh", "km": "Khmer", "kn": "Kannada", "ko": "Korean", "ku": "Kurdish", "ky": "Kyrgyz",
    "la": "Latin", "lb": "Luxembourgish", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian", "mg": "Malagasy",
    "mi": "Maori", "mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian", "mr": "Marathi", "ms": "Malay",
    "mt": "Maltese", "my": "Burmese", "nb": "Norwegian Bokmål", "ne": "Nepali", "nl": "Dutch", "nn": "Nynorsk",
    "no": "Norwegian", "oc": "Occitan", "pa": "Punjabi", "pl": "Polish", "ps": "Pashto", "pt": "Portuguese",
    "pt-br": "Portuguese (Brazil)", "ro": "Romanian", "ru": "Russian", "sd": "Sindhi", "si": "Sinhala",
    "sk": "Slovak", "sl": "Slovenian", "so": "Somali", "sq": "Albanian", "sr": "Serbian", "su": "Sundanese",
    "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "tg": "Tajik", "th": "Thai", "tk": "Turkmen",
    "tl": "Tagalog", "tr": "Turkish", "tt": "Tatar", "ug": "Uyghur", "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek",
    "vi": "Vietnamese", "wo": "Wolof", "xh": "Xhosa", "yi": "Yiddish", "yo": "Yoruba", "zh": "Chinese",
    "zh-hans": "Chinese (simplified)", "zh-hant": "Chinese (traditional)", "zu": "Zulu",
}  # fmt: skip
"""English names, by lower-case code."""

_ALIASES = {
    "pb": ("pt-br",), "pt-br": ("pb",), "zt": ("zh-hant", "zh-tw"), "zh-hant": ("zt", "zh-tw"),
    "zh-tw": ("zh-hant", "zt"), "zh-hans": ("zh-cn",), "zh-cn": ("zh-hans",), "iw": ("he",), "he": ("iw",),
    "nb": ("no",), "no": ("nb",), "fil": ("tl",), "tl": ("fil",), "in": ("id",), "ji": ("yi",), "jw": ("jv",),
}  # fmt: skip
"""Other codes of one language; LibreTranslate has pb, zt and zh of its own."""


def normal(code: str) -> str:
    """Return a code in lower case with hyphens: `pt_BR` becomes `pt-br`."""
    return code.strip().lower().replace("_", "-")


@lru_cache(maxsize=1024)
def candidates(code: str) -> tuple[str, ...]:
    """Return the codes under which a language may be served, the likeliest first: itself, its other names, its base."""
    own = normal(code)
    base = own.partition("-")[0]
    return tuple(dict.fromkeys([own, *_ALIASES.get(own, ()), base, *_ALIASES.get(base, ())]))


def language_name(code: str) -> str:
    """Return the English name of a language, or its code where the name is not known."""
    own = normal(code)
    return NAMES.get(own) or NAMES.get(own.partition("-")[0]) or code


MAX_READ = 4000
"""Characters of a text that are read."""
_LOCK = threading.Lock()
"""A lock of the library, which is not said to be safe for several threads."""


def is_available() -> bool:
    """Return whether languages can be detected."""
    return importlib.util.find_spec("py3langid") is not None


async def detect(text: str, count: int = 3) -> list[tuple[str, float]]:
    """Return the likeliest languages with their probabilities, best first.

    A text without letters counts as English, at 0. Raises `RequestError` where nothing can be detected.
    """
    if not has_words(text):
        return [("en", 0.0)]
    if not is_available():
        raise RequestError("unsupported", "languages cannot be detected here: pip install 'dikkat-runtime[detect]'")
    ranked = await asyncio.to_thread(_ranked, text[:MAX_READ])
    return ranked[:count]


def _ranked(text: str) -> list[tuple[str, float]]:
    with _LOCK:
        return [(str(code), float(probability)) for code, probability in _identifier().rank(text)]


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # takes a second

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages({code for code in identifier.labels if len(code) == 2})
    return identifier
