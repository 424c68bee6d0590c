"""Compile texts to constraints over tokens: demanded words, and prefixes of an output."""

import re
from collections.abc import Sequence

from dikkat_runtime.engine.constraints import All, Constraint, Prefix
from dikkat_runtime.engine.terms import Demand, Spelling, Terms, WordBorders
from dikkat_runtime.special_tokens import UNK_ID
from dikkat_runtime.text.casing import capitalized
from dikkat_runtime.text.demanded import Demanded
from dikkat_runtime.text.segmentation import is_spaceless
from dikkat_runtime.text.suffixes import takes_suffixes
from dikkat_runtime.text.tokenizer import Tokenizer

_LAST_WORD = re.compile(r"\s\S*+\Z|\A\S*+\Z")
_SIGN = "("


class ConstraintCompiler:
    """A compiler of constraints for the decoder of one translator."""

    def __init__(self, tokenizers: tuple[Tokenizer, Tokenizer], languages: tuple[str, str]) -> None:
        """`tokenizers` and `languages` are those of source and target."""
        self._source_tokenizer, self._tokenizer = tokenizers
        self._source_language, self._language = languages
        self.takes_suffixes = takes_suffixes(self._language)
        self._borders: dict[bool, WordBorders] = {}
        self._spelled: dict[str, tuple[Spelling, ...]] = {}
        self._after_space: dict[str, tuple[int, ...]] = {}

    def constraint(self, text: str, demands: Sequence[Demanded], prefix: Prefix | None = None) -> Constraint | None:
        """Return the constraint for all demands on the translation of `text`; None where none can be written."""
        tokens = self._source_tokenizer.spans(text, self._source_language)[1] if demands else []
        parts: list[Constraint] = [prefix] if prefix else []
        for reason_takes_suffixes in (True, False):
            some = [demand for demand in demands if (demand.reason == "term") == reason_takes_suffixes]
            written = [
                Demand(spellings, demand.count, token_positions(tokens, demand.spans))
                for demand in some
                if (spellings := tuple(spelling for form in demand.forms for spelling in self._spelled_form(form)))
            ]
            if written:
                parts.append(Terms(self._word_borders(reason_takes_suffixes), tuple(written)))
        return All(tuple(parts)) if len(parts) > 1 else parts[0] if parts else None

    def prefix(self, text: str, is_closed: bool = False) -> Prefix | None:
        """Return the constraint that begins with `text`: its words in their usual tokens, but the last one by bytes.

        Where it `is_closed`, no token continues its last word. None for an empty text.
        """
        if not text:
            return None
        vocabulary = self._tokenizer.token_bytes
        last = _LAST_WORD.search(text)
        head = text[: last.start()] if last else ""
        kept = tuple(self._tokenizer.encode(head, self._language)) if head else ()
        space = b" " if vocabulary.leading_space else b""
        if vocabulary.text(kept) == head.encode() and UNK_ID not in kept:
            rest = text[len(head) :].encode()
            return Prefix(vocabulary, kept, rest if kept else space + rest, is_closed)
        return Prefix(vocabulary, (), space + text.encode(), is_closed)

    def after_space(self, form: str) -> tuple[int, ...]:
        """Return the tokens of a form that stands after another word."""
        if form not in self._after_space:
            self._after_space[form] = self._encoded(form if self._tokenizer.token_bytes.leading_space else f" {form}")
        return self._after_space[form]

    def _word_borders(self, may_take_suffixes: bool) -> WordBorders:
        takes = may_take_suffixes and self.takes_suffixes
        if takes not in self._borders:
            self._borders[takes] = WordBorders(self._tokenizer.token_bytes, suffixes=takes)
        return self._borders[takes]

    def _spelled_form(self, form: str) -> tuple[Spelling, ...]:
        """Return all ways to write a form; none where the vocabulary has no tokens for it."""
        if form not in self._spelled:
            first = capitalized(form, self._language)
            ways = self._adjacent(form)
            if first != form:
                ways.append(Spelling(self._encoded(first), "at the start"))
            self._spelled[form] = tuple(
                spelling for spelling in dict.fromkeys(ways) if spelling.tokens and UNK_ID not in spelling.tokens
            )
        return self._spelled[form]

    def _adjacent(self, form: str) -> list[Spelling]:
        tokens, vocabulary = self._encoded(form), self._tokenizer.token_bytes
        if not vocabulary.leading_space:
            return [Spelling(tokens, "after a sign"), Spelling(self._encoded(f" {form}"))]
        sign = self._encoded(_SIGN)
        both = self._encoded(_SIGN + form)
        joined = both[len(sign) :] if both[: len(sign)] == sign else ()
        if is_spaceless(form[0]):
            return [Spelling(tokens, "at the start"), Spelling(joined)]
        return [Spelling(tokens), Spelling(joined, "after a sign")]

    def _encoded(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, self._language))


def token_positions(tokens: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return the indices of the tokens that have a character in one of the spans."""
    return tuple(
        number
        for number, (start, end) in enumerate(tokens)
        if any(start < last and end > first for first, last in spans)
    )
