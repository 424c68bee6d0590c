"""Cut texts into sentences for a translator, and join them again with the text between them."""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import ParamSpec, TypeVar

from dikkat_runtime.documents.placement import MAX_WHOLE_LENGTH
from dikkat_runtime.text.normalizing import enclosed
from dikkat_runtime.text.placeholders import has_words
from dikkat_runtime.text.segmentation import join
from dikkat_runtime.text.sentences import cut_at_sentences

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Return what a function that computes in Python returns; one at a time, so that the event loop keeps its share."""
    return await asyncio.get_running_loop().run_in_executor(_thread(), lambda: function(*arguments, **options))


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "in_thread")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text, which is translated on its own or stays unchanged."""

    text: str
    is_fixed: bool = False


def split_text(
    text: str, language: str = "", *, sentences: bool = True, lines: bool = True, whole: int = 0
) -> list[Part]:
    """Return the lines of a text, cut into sentences; white space between them is fixed.

    Lines of up to `whole` characters stay whole, since a model reads them best as they were written. So does a line
    that is one quotation: its marks are one another's.
    """
    parts = list[Part]()
    for line in re.split(r"([\r\n]+)", text) if lines else [text]:
        is_whole = not sentences or len(line) <= whole or enclosed(line.strip(), language) is not None
        for sentence in [line] if is_whole else cut_at_sentences(line, language):
            ends = "" if not parts or parts[-1].is_fixed else parts[-1].text[-1]
            if ends and join((ends, sentence[:1])) == f"{ends} {sentence[:1].strip()}":
                # where no space stood between two sentences there is one, as in a line that is translated whole
                parts.append(Part(" ", is_fixed=True))
            for piece in pieces(sentence):
                parts += _stripped(piece)
    return parts


def segments_of(parts: Sequence[Part]) -> list[str]:
    return [part.text for part in parts if not part.is_fixed]


def pieces(sentence: str) -> Iterator[str]:
    """Yield a sentence, cut at a space where it is longer than a segment may be; without one, anywhere."""
    start = 0
    while len(sentence) - start > MAX_WHOLE_LENGTH:
        cut = sentence.rfind(" ", start + MAX_WHOLE_LENGTH // 2, start + MAX_WHOLE_LENGTH)
        cut = start + MAX_WHOLE_LENGTH if cut < 0 else cut
        yield sentence[start:cut]
        start = cut
    yield sentence[start:]


def _stripped(text: str) -> Iterator[Part]:
    """Yield the words of a text as a segment between its white space; a text without words is fixed."""
    core = text.strip()
    if not has_words(core):
        if text:
            yield Part(text, is_fixed=True)
        return
    start = text.index(core)
    if start:
        yield Part(text[:start], is_fixed=True)
    yield Part(core)
    if rest := text[start + len(core) :]:
        yield Part(rest, is_fixed=True)
