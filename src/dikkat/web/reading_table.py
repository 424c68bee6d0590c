"""Emit the tables by which the runtime reads and writes text for the page, which has no table of its own."""

import re
from collections.abc import Iterable
from typing import Any

from dikkat_runtime.tasks import aligner, demand_keeping, insertion, reading, surrogates
from dikkat_runtime.text import normalizing, placeholders, recasing, repetition, segmentation, sentences, text_ngrams
from dikkat_runtime.text.casing import has_dotted_i
from dikkat_runtime.text.segmentation import ReadingLimits

_SPACE, _WORD = r"\p{White_Space}\x1c-\x1f", r"\p{L}\p{N}_"
_ESCAPES = {
    r"\s": f"[{_SPACE}]",
    r"\S": f"[^{_SPACE}]",
    r"\w": f"[{_WORD}]",
    r"\W": f"[^{_WORD}]",
    r"\d": r"\p{Nd}",
    r"\b": f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))",
    r"\Z": "$",
}
_IN_CLASS = {r"\s": _SPACE, r"\w": _WORD, r"\d": r"\p{Nd}"}
_LETTERS = r"[\p{L}\p{Nl}\p{No}]"
_PART = re.compile(r"\[(?:\\.|[^\[\]\\])*\]|\(\?P<|\(\?i:[a-z]+\)|\\.|[*+]\+|.", re.DOTALL)
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_UNESCAPED = frozenset("\"'")
"""Characters that JavaScript does not let a pattern escape."""


def javascript_pattern(pattern: str) -> str:
    """Return the source of a JavaScript regular expression (flags s and u) that matches what the Python one does.

    A possessive quantifier becomes a greedy one: ours are followed by nothing that they could give back.
    """
    return "".join(_part(part) for part in _PART.findall(pattern))


def _part(part: str) -> str:
    if part.startswith(r"[^\W\d_"):
        # no set of JavaScript's older flag subtracts
        others = part.removeprefix(r"[^\W\d_").removesuffix("]")
        return f"(?:(?![{others}]){_LETTERS})" if others else _LETTERS
    if part.startswith("[") and len(part) > 1:
        return _ESCAPE.sub(lambda match: _escape(match[0], _IN_CLASS), part)
    if part.startswith("(?i:"):
        return "".join(f"[{letter}{letter.upper()}]" for letter in part[4:-1])
    if part == "(?P<":
        return "(?<"
    return part[0] if part in ("*+", "++") else _escape(part, _ESCAPES)


def _escape(part: str, known: dict[str, str]) -> str:
    return known.get(part, part[1:] if part[1:] in _UNESCAPED else part)


def reading_table(
    languages: tuple[str, str], limits: ReadingLimits, usual_forms: dict[str, str], unmet: Iterable[str]
) -> dict[str, Any]:
    """Return what `engine/reading.js` reads and writes text by, for a translator of these languages and limits.

    `unmet` are the `unmet_marks` of its tokenizer.
    """
    return {
        "patterns": {name: javascript_pattern(pattern) for name, pattern in _patterns().items()},
        "variants": normalizing.VARIANTS,
        "groupMark": normalizing.GROUP_MARK,
        "hasOrdinals": sentences.writes_ordinals(languages[0]),
        "dottedI": [has_dotted_i(language) for language in languages],
        "minTitleWords": recasing.MIN_TITLE_WORDS,
        "usualForms": usual_forms,
        "minCorrected": normalizing.MIN_LETTERS,
        "maxUnknown": normalizing.MAX_UNKNOWN,
        "smallWord": recasing.SMALL_WORD,
        "quotes": {"pairs": normalizing.QUOTE_PAIRS, "target": normalizing.quotation_marks(languages[1])},
        "marks": {"pairs": normalizing.PAIRS, "unmet": sorted(unmet), "maxOpened": normalizing.MAX_OPENED},
        "endMarks": surrogates.END_MARKS,
        "lookBack": sentences.LOOK_BACK,
        "lookAhead": sentences.LOOK_AHEAD,
        "neverLast": sorted(sentences.NEVER_LAST),
        "neverJoined": sorted(sentences.NEVER_JOINED),
        "goesOnAfter": sentences.QUOTES,
        "firstMark": surrogates.FIRST_MARK,
        "firstSymbol": surrogates.FIRST_SYMBOL,
        "lastMark": surrogates.LAST_MARK,
        "surrogates": surrogates.SURROGATES,
        "protectedGroups": placeholders.PROTECTED,
        "addressGroup": placeholders.ADDRESS,
        "addressMarks": placeholders.MARKS,
        "loops": {
            "copies": repetition.COPIES,
            "minLength": repetition.MIN_LENGTH,
            "maxGroupLength": repetition.MAX_GROUP_LENGTH,
            "often": repetition.OFTEN,
            "retryNgram": demand_keeping.RETRY_NGRAM,
        },
        "limits": {"longest": limits.longest, "usual": limits.usual, "severalSentences": limits.several_sentences},
    }


def ngram_table(language: str) -> dict[str, Any]:
    """Return what `engine/word_table.js` reads the n-grams of texts of this language by."""
    return {
        "pattern": javascript_pattern(text_ngrams.WORDS_OR_SIGNS.pattern),
        "hasDottedI": has_dotted_i(language),
        "maxWords": text_ngrams.MAX_WORDS,
        "characters": [text_ngrams.MIN_CHARACTERS, text_ngrams.MAX_CHARACTERS],
        # as text: numbers of JSON are not exact beyond 53 bits
        "factors": [str(factor) for factor in text_ngrams.FACTORS],
        "mixing": [[str(number) for number in step] for step in text_ngrams.MIXING],
    }


def _patterns() -> dict[str, str]:
    """Return the patterns by their names in JavaScript; one that must match from the beginning has a `^`."""
    pictorial = f"[{_categories(normalizing.PICTORIAL)}{normalizing.TONE}]"
    end_marks = f"[{re.escape(surrogates.END_MARKS)}]"
    clause_marks = f"[{re.escape(''.join(segmentation.CLAUSE_MARKS))}]"
    return {
        "blank": r"\s+",
        "edges": r"^\s+|\s+$",
        "chunk": r"\S+",
        "space": normalizing.SPACE,
        "quiet": normalizing.QUIET,
        "joiner": normalizing.JOINER,
        "endsPictorial": f"{pictorial}\ufe0f*$",
        "beginsPictorial": f"^{pictorial}",
        "digitGroup": normalizing.DIGIT_GROUP,
        "compatible": f"[{normalizing.COMPATIBLE}]",
        "emoji": normalizing.EMOJI,
        "marker": f"^{normalizing.MARKER.pattern}",
        "ordinal": f"^{normalizing.ORDINAL.pattern}",
        "sign": f"(?![{''.join(sorted(normalizing.UNITS))}])"
        f"[{_categories(normalizing.CATEGORIES)}{normalizing.PARTS_OF_EMOJI}]",
        "word": recasing.WORD.pattern,
        "usual": recasing.USUAL.pattern,
        "wideBefore": f"^[{normalizing.WIDE}]+",
        "wideAfter": f"[{normalizing.WIDE}]+$",
        "end": sentences.END.pattern,
        "break": sentences.BREAK.pattern,
        "mayEnd": sentences.MAY_END.pattern,
        "next": f"^{sentences.NEXT.pattern}",
        "joinedBefore": sentences.JOINED_BEFORE.pattern,
        "joinedAfter": f"^{sentences.JOINED_AFTER.pattern}",
        "lastWord": sentences.LAST_WORD.pattern,
        "initials": f"^(?:{sentences.INITIALS.pattern})$",
        "finalMarks": reading.FINAL_MARKS.pattern,
        "finalMark": reading.FINAL_MARK.pattern,
        "languageMark": f"^{reading.LANGUAGE_MARK.pattern}",
        "private": surrogates.MARK.pattern,
        "symbol": surrogates.SYMBOL.pattern,
        "beforeMark": surrogates.BEFORE_MARK.pattern,
        "betweenWords": surrogates.BETWEEN.pattern,
        "endMarks": f"{end_marks}+$",
        "onlyEndMarks": f"^{end_marks}+$",
        "dash": f"^(?:{segmentation.DASH.pattern})$",
        "cjk": segmentation.CJK,
        "spaceless": segmentation.HAS_SPACELESS,
        "chunkWithSpace": segmentation.WORD.pattern,
        "atom": segmentation.CHARACTERS,
        "clauseEnd": rf"{clause_marks}\s*$",
        "placeholder": placeholders.ANY,
        "sentenceEnd": insertion.SENTENCE_END.pattern,
        "closing": insertion.CLOSING.pattern,
        "alignedWord": aligner.WORD.pattern,
    }


def _categories(names: tuple[str, ...]) -> str:
    """Return general categories of Unicode for a set of a regular expression."""
    return "".join(f"\\p{{{name}}}" for name in names)
