"""Codes and names of languages, and the other codes that clients have for them."""

from __future__ import annotations

from functools import lru_cache

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
