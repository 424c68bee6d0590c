"""Translate contents: the sentences by the model, placeholders and tags by rules that lose none."""

import re
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import count, islice, pairwise

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.documents.alignment import Alignment, Span
from dikkat_runtime.documents.markup_ends import nested_pairs
from dikkat_runtime.documents.placement import WORD, Mark, Paragraph, Placement, SplitSentences, Words
from dikkat_runtime.documents.segments import Content, Item, Tag, is_whole, plain, tagged, tags_of
from dikkat_runtime.errors import msg
from dikkat_runtime.tasks.aligner import balanced, is_sign, word_spans
from dikkat_runtime.tasks.surrogates import FIRST_MARK, LAST_MARK, SURROGATES
from dikkat_runtime.text.normalizing import has_hidden_direction
from dikkat_runtime.text.placeholders import has_words, protected_spans

# Sentences are translated with a character of the private use area in the place of each placeholder, which a
# translator brings through exactly once (tasks/surrogates.py); what aligns them reads a name there, on both sides.

_NUMBERED = re.compile(r"Q[0-9]{1,9}")
Translate = Callable[[Sequence[str]], Sequence[str]]
"""From sentences to their translations; what loses a character of the private use area loses a placeholder."""


@dataclass
class Sentence:
    """One sentence with `WORD` for each placeholder."""

    text: str
    surrogates: tuple[str | None, ...] = ()
    """The surrogate of each word; None where it is left out."""
    source: str = ""
    """What is aligned with the translation."""
    target: str = ""
    """The translation, with the same names."""
    written: tuple[tuple[int, int, int], ...] = ()
    """In the order of the target: where each surrogate stands in it, and the number of its word."""
    offsets: tuple[int, ...] = (0,)
    """The position in `source` of each character of `text`, and of its end."""

    @property
    def num_words(self) -> int:
        return self.text.count(WORD)

    def fill(self, surrogates: tuple[str | None, ...]) -> None:
        """Replace the words by these surrogates; a word that is left out takes a space along."""
        self.surrogates = surrogates
        parts, length, offsets, words = list[str](), 0, list[int](), iter(surrogates)
        for index, character in enumerate(self.text):
            offsets.append(length)
            if character == WORD:
                character = next(words) or ""
                if not character and parts[-1:] == [" "] and not self.text[index + 1 : index + 2].isalnum():
                    parts.pop()
                    length -= 1
                    offsets[-1] = length
            elif character == " " and parts[-1:] in ([], [" "]):
                continue
            if character:
                parts.append(character)
                length += len(character)
        self.source = "".join(parts)
        self.offsets = tuple(min(offset, length) for offset in (*offsets, length))

    def write(self, target: str, marks: Sequence[str], names: Sequence[str]) -> None:
        """Take a translation, in which a name is put in the place of each mark; no other `WORD` stays in it."""
        numbers = {mark: number for number, mark in enumerate(marks)}
        parts, length, written = list[str](), 0, list[tuple[int, int, int]]()
        for character in target:
            number = numbers.get(character)
            part = names[number] if number is not None else character if character != WORD else ""
            if number is not None:
                written.append((length, length + len(part), number))
            parts.append(part)
            length += len(part)
        self.target, self.written = "".join(parts), tuple(written)


def translate_sentences(translate: Translate, sentences: Sequence[Sentence]) -> None:
    """Fill in what is aligned of each sentence, and its translation.

    A placeholder that does not come back exactly once is left out.
    """

    def translated(texts: Sequence[str]) -> list[str]:
        return [target.replace("\n", " ").strip() for target in translate(texts)] if texts else []

    for sentence in sentences:
        if not has_words(sentence.text):
            # nothing to translate: it comes back as it is
            text, marks = _marked(sentence.text)
            names = tuple(islice(_names(text), sentence.num_words))
            sentence.fill(names)
            sentence.write(sentence.text if len(marks) < len(names) else text, marks, names)
    readable = [sentence for sentence in sentences if has_words(sentence.text)]
    marked = [_marked(sentence.text) for sentence in readable]
    translations = translated([text for text, _ in marked])
    incomplete = []
    for sentence, (_, marks), target in zip(readable, marked, translations, strict=True):
        counts = Counter(target) if marks else Counter[str]()
        if len(marks) == sentence.num_words and all(counts[mark] == 1 for mark in marks):
            names = tuple(islice(_names(f"{sentence.text} {target}"), len(marks)))
            sentence.fill(names)
            sentence.write(target, marks, names)
        else:
            sentence.fill((None,) * sentence.num_words)
            sentence.write(sentence.source, "", ())
            incomplete.append(sentence)
    wordy = [sentence for sentence in incomplete if has_words(sentence.source)]
    for sentence, target in zip(wordy, translated([sentence.source for sentence in wordy]), strict=True):
        sentence.write(target, "", ())


def _marked(text: str) -> tuple[str, str]:
    """Return a text with a character of its own for each `WORD`, and these; fewer where there are not enough."""
    unused = map(chr, range(FIRST_MARK, LAST_MARK + 1))
    present = set(text) - {WORD}
    marks = list(islice((mark for mark in unused if mark not in present), text.count(WORD)))
    remaining = iter(marks)
    return "".join(next(remaining, WORD) if character == WORD else character for character in text), "".join(marks)


def _names(text: str) -> Iterator[str]:
    """Yield names that do not stand in a text, without end."""
    # an apostrophe and a Turkish suffix may follow a name
    yield from (name for name in SURROGATES if not re.search(rf"(?<![\w.,]){name}(?!\w|[.,]\d)", text))
    standing = {name[0][:end] for name in _NUMBERED.finditer(text) for end in range(2, len(name[0]) + 1)}
    yield from (name for name in (f"Q{number}" for number in count()) if name not in standing)


_MARKUP = re.compile(r"<(?P<close>/)?(?P<name>[A-Za-z][\w:-]*)(?:\s[^<>]*?)?(?P<void>/)?>")
_WORD = re.compile(WORD)
_BREAKS = frozenset(("br", "hr", "p", "div", "li"))
_MARKS = _BREAKS | frozenset(("a", "b", "em", "font", "i", "s", "small", "span", "strong", "sub", "sup", "u"))


def protected(content: Content, *, markup: bool = False) -> Content:
    """Return content in which placeholders, URLs and e-mail addresses are tags that stand for a word.

    With `markup` the tags that stand in the text, as in messages of programs, are tags too.
    """
    items: list[Item] = []
    pairs = max((item.pair for item in content if isinstance(item, Tag)), default=0)
    for item in content:
        for part in _with_markup(item, pairs) if markup and isinstance(item, str) and "<" in item else (item,):
            if isinstance(part, Tag):
                pairs = max(pairs, part.pair)
                items.append(part)
            else:
                items += _with_words(part)
    return tuple(items)


def _with_words(text: str) -> Iterator[Item]:
    position = 0
    spans = protected_spans(text, _WORD)
    for number, (start, end) in enumerate(spans):
        if start < position:
            continue
        # adjacent placeholders are one: {a}{b}
        following = number + 1
        while following < len(spans) and spans[following][0] <= end:
            end = spans[following][1] if spans[following][0] == end else end
            following += 1
        if start > position:
            yield text[position:start]
        yield Tag("word", text[start:end], is_text=True)
        position = end
    if position < len(text):
        yield text[position:]


def _with_markup(text: str, pairs: int) -> list[Item]:
    """Return the tags of a text; those without their other half stand alone."""
    matches = list(_MARKUP.finditer(text))
    partner = nested_pairs(
        (number, tag["name"], not tag["close"]) for number, tag in enumerate(matches) if not tag["void"]
    )
    closes = {close: open_ for open_, close in partner.items()}
    numbers = count()

    def read(tag: re.Match[str]) -> Tag:
        number = next(numbers)
        if number in partner:
            return Tag("open", tag[0], pairs + 1 + number, is_text=True)
        if number in closes:
            return Tag("close", tag[0], pairs + 1 + closes[number], is_text=True)
        name = tag["name"].lower()
        # "git add <file>": another tag without its other half stands for a word
        return Tag("void" if tag["void"] or name in _MARKS else "word", tag[0], 0, name in _BREAKS, is_text=True)

    return tagged((text,), _MARKUP, read)


Align = Callable[[str, str], NDArray[np.float32]]
"""Returns weights (T, S) of the words of a sentence and its translation, given their spans."""
_CJK = re.compile("[\u3001-\u30ff\u3400-\u9fff\uff00-\uffef]")
_BLOCK = 64
"""Words of a part of a sentence that is too long to be aligned by attention."""
BY_ORDER = msg("tags were placed by the order of the source")
MAX_DEPTH = 64
"""Most pairs of tags inside each other in a translated text."""
TOO_DEEP = msg("texts whose tags are nested deeper than {max_depth}, not translated", MAX_DEPTH)
DIRECTION = msg("texts with direction controls, which may show them in another order than they are read")
LEFT_OUT = msg("placeholders did not come through the model and were placed by attention")


@dataclass
class ContentTranslator:
    """A translator of text with tags by a model that reads no tags."""

    translate: Translate
    align: Align | None
    """None where the model has no readable attention: a tag then goes to the same share of the sentence."""
    split: SplitSentences
    remarks: Counter[str] = field(default_factory=Counter)

    def __call__(self, contents: Sequence[Content], *, markup: bool = False) -> list[Content]:
        """Return the translation of each, with every tag exactly once; `markup` is True if tags stand in the texts."""
        safe = [self._shallow(protected(content, markup=markup)) for content in contents]
        paragraphs = [Paragraph.of(content, self.split) for content in safe]
        sentences = [[Sentence(prepared.text[slice(*span)]) for span in prepared.sentences] for prepared in paragraphs]
        translate_sentences(self.translate, [sentence for group in sentences for sentence in group])
        results = []
        for content, paragraph, group in zip(safe, paragraphs, sentences, strict=True):
            self.remarks[DIRECTION] += has_hidden_direction(paragraph.text)
            if not has_words(paragraph.text) or not group:
                results.append(content)
                continue
            core = self._core(paragraph, group)
            result = tuple(item for item in (*paragraph.before, *core, *paragraph.after) if item != "")
            if not is_whole(content, result):
                # no tag may be lost: write all of them in the order of the source, then the text
                self.remarks[BY_ORDER] += 1
                result = (*tags_of(content), plain(result))
            results.append(result)
        return results

    def _shallow(self, content: Content) -> Content:
        """Return content as it is, or as one tag where its tags are nested too deep."""
        depth = deepest = 0
        for tag in tags_of(content):
            depth += {"open": 1, "close": -1}.get(tag.kind, 0)
            deepest = max(deepest, depth)
        if deepest <= MAX_DEPTH:
            return content
        self.remarks[TOO_DEEP] += 1
        return tuple(
            replace(item, kind="void") if isinstance(item, Tag) else Tag("void", item, is_text=True) for item in content
        )

    def _core(self, paragraph: Paragraph, sentences: Sequence[Sentence]) -> Content:
        """Return the translation of a paragraph with the words and tags in it."""
        gaps = _gaps(paragraph, sentences)
        if not paragraph.marks and not paragraph.words:
            return ("".join(part for pair in zip(gaps, sentences, strict=True) for part in (pair[0], pair[1].target)),)
        source, target, alignment = _Side(), _Side(), Alignment()
        has_marks = bool(paragraph.marks) or any(None in sentence.surrogates for sentence in sentences)
        marks = list[Mark]()
        unread, names, words = deque(paragraph.marks), list[Tag](), iter(paragraph.words)
        position = 0
        for sentence, span, gap in zip(sentences, paragraph.sentences, gaps, strict=True):
            source.append(paragraph.text[position : span[0]])
            target.append(gap)
            start = source.length
            own = list[Mark]()
            while unread and unread[0].position <= span[1]:
                mark = unread.popleft()
                offset = mark.position - span[0]
                target_position = start + (sentence.offsets[offset] if offset >= 0 else offset)
                own.append(replace(mark, position=max(target_position, 0)))
            tags = [next(words) for _ in range(sentence.num_words)]
            left_out = list(_left_out(sentence, start, tags))
            self.remarks[LEFT_OUT] += len(left_out)
            marks += merge(own, left_out, key=lambda mark: mark.position)
            written = sentence.written
            names += [tags[number] for _, _, number in written]
            if has_marks:
                self._align(alignment, (len(source.spans), len(target.spans)), sentence)
            source.add(sentence.source, ())
            target.add(sentence.target, written)
            position = span[1]
        marks += [replace(mark, position=source.length) for mark in unread]
        placement = Placement(source.words, target.text, target.words, alignment)
        content = placement.insert(marks)
        if marks and not (placement.is_exact and alignment.is_exact and self.align):
            self.remarks[BY_ORDER] += 1
        remaining = iter(names)
        return tuple(tagged(content, _WORD, lambda match: next(remaining)))

    def _align(self, alignment: Alignment, first: Span, sentence: Sentence) -> None:
        """Align the words of a sentence, the `first` of whose source and target have these numbers in the paragraph."""
        texts = (sentence.source, sentence.target)
        sources, targets = (word_spans(text) for text in texts)
        if not alignment.fits(len(sources), len(targets)):
            alignment.is_exact = False
            for start, end in pairwise((*range(0, len(sources), _BLOCK), len(sources))):
                begin, stop = (number * len(targets) // len(sources) for number in (start, end))
                weights = _by_order(stop - begin, end - start)
                _link_copies(weights, sentence.source, sources[start:end], sentence.target, targets[begin:stop])
                alignment.add(first[0] + start, first[1] + begin, weights)
            return
        if not sources or not targets:
            weights = np.zeros((len(targets), len(sources)), np.float32)
        elif self.align is None:
            weights = _by_order(len(targets), len(sources))
        else:
            signs = [
                [is_sign(text, span) for span in spans]
                for text, spans in ((sentence.target, targets), (sentence.source, sources))
            ]
            weights = balanced(self.align(*texts), *signs)
        _link_copies(weights, sentence.source, sources, sentence.target, targets)
        alignment.add(*first, weights)


@dataclass
class _Side:
    """A text of one language with its words, in which `WORD` stands for a placeholder."""

    spans: list[Span] = field(default_factory=list)
    are_signs: list[bool] = field(default_factory=list)
    length: int = 0
    _parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text so far, of `length` characters."""
        return "".join(self._parts)

    def append(self, text: str) -> None:
        """Add text between sentences."""
        self._parts.append(text)
        self.length += len(text)

    @property
    def words(self) -> Words:
        return Words(self.spans, self.are_signs)

    def add(self, sentence: str, names: Sequence[tuple[int, int, int]]) -> None:
        """Add one more sentence, in which `WORD` replaces the `names` (start, end, number)."""
        spans = word_spans(sentence)
        self.are_signs += [is_sign(sentence, span) for span in spans]
        parts, position, first = list[str](), 0, self.length
        ends, less = list[int](), [0]
        for start, end, _ in names:
            parts += [sentence[position:start], WORD]
            position = end
            ends.append(end)
            less.append(less[-1] + end - start - len(WORD))
        self.append("".join([*parts, sentence[position:]]))

        def shifted(offset: int) -> int:
            return first + offset - less[bisect_right(ends, offset)]

        self.spans += [(shifted(start), shifted(end)) for start, end in spans]


def _gaps(paragraph: Paragraph, sentences: Sequence[Sentence]) -> list[str]:
    """Return the space before each sentence of the translation: that of the source, but none in Chinese."""
    gaps = []
    position, before = 0, ""
    for sentence, (start, end) in zip(sentences, paragraph.sentences, strict=True):
        gap = paragraph.text[position:start]
        if before and sentence.target:
            is_cjk = _CJK.match(before[-1]) or _CJK.match(sentence.target[0])
            gap = "" if is_cjk else gap or " "
        gaps.append(gap)
        position, before = end, sentence.target or before
    return gaps


def _left_out(sentence: Sentence, start: int, tags: Sequence[Tag]) -> list[Mark]:
    """Return marks for the words that the model did not read."""
    marks = []
    indices = [index for index, character in enumerate(sentence.text) if character == WORD]
    for index, surrogate, tag in zip(indices, sentence.surrogates, tags, strict=True):
        if surrogate is None:
            before, after = sentence.text[index - 1 : index], sentence.text[index + 1 : index + 2]
            marks.append(Mark(start + sentence.offsets[index], tag, before.isspace(), after.isspace()))
    return marks


def _by_order(num_targets: int, num_sources: int) -> NDArray[np.float32]:
    """Return weights of each target word on the source word at the same share of the sentence."""
    weights = np.zeros((num_targets, num_sources), np.float32)
    positions = (np.arange(num_targets) + 0.5) * num_sources / num_targets
    weights[np.arange(num_targets), positions.astype(int)] = 1
    return weights


def _link_copies(
    weights: NDArray[np.float32], source: str, sources: Sequence[Span], target: str, targets: Sequence[Span]
) -> None:
    """Align each word that occurs once on both sides with itself."""
    ours = [source[slice(*span)] for span in sources]
    theirs = [target[slice(*span)] for span in targets]
    num_ours, num_theirs, indices = Counter(ours), Counter(theirs), {word: index for index, word in enumerate(ours)}
    for number, word in enumerate(theirs):
        if (len(word) > 1 or word.isdigit()) and num_ours[word] == 1 and num_theirs[word] == 1:
            weights[number] = 0
            weights[number, indices[word]] = 1
