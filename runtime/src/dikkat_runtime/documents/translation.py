"""Translate contents: the sentences by the model, placeholders and tags by rules that lose none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.documents.paragraphs import WORD, Paragraph, SplitSentences
from dikkat_runtime.documents.placement import Alignment, Mark, Placement, Words, balanced
from dikkat_runtime.documents.protection import protected
from dikkat_runtime.documents.segments import Content, Item, Tag, is_whole, tags_of
from dikkat_runtime.documents.sentences import Sentence, SentenceTranslator, Translate
from dikkat_runtime.documents.words import Span, is_sign, word_spans
from dikkat_runtime.text.placeholders import has_words

Align = Callable[[str, str], NDArray[np.float32]]
"""Returns weights (T, S) of the words of a sentence and its translation, given their spans."""
_CJK = re.compile("[\u3001-\u30ff\u3400-\u9fff\uff00-\uffef]")
BY_ORDER = "tags were placed by the order of the source"
DEEPEST = 64
"""Most pairs of tags inside each other in a translated text."""
TOO_DEEP = f"texts whose tags are nested deeper than {DEEPEST}, not translated"
LEFT_OUT = "placeholders did not come through the model and were placed by attention"


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
        SentenceTranslator(self.translate)([sentence for group in sentences for sentence in group])
        results = []
        for content, paragraph, group in zip(safe, paragraphs, sentences, strict=True):
            if not has_words(paragraph.text) or not group:
                results.append(content)
                continue
            core = self._core(paragraph, group)
            result = tuple(item for item in (*paragraph.before, *core, *paragraph.after) if item != "")
            if not is_whole(content, result):
                # no tag may be lost: write all of them in the order of the source, then the text
                self.remarks[BY_ORDER] += 1
                result = (*tags_of(content), "".join(item for item in result if isinstance(item, str)))
            results.append(result)
        return results

    def _shallow(self, content: Content) -> Content:
        """Return content as it is, or as one tag where its tags are nested too deep."""
        depth = deepest = 0
        for tag in tags_of(content):
            depth += {"open": 1, "close": -1}.get(tag.kind, 0)
            deepest = max(deepest, depth)
        if deepest <= DEEPEST:
            return content
        self.remarks[TOO_DEEP] += 1
        return tuple(
            replace(item, kind="void") if isinstance(item, Tag) else Tag("void", item, is_text=True) for item in content
        )

    def _core(self, paragraph: Paragraph, sentences: Sequence[Sentence]) -> Content:
        gaps = _gaps(paragraph, sentences)
        if not paragraph.marks and not paragraph.words:
            return ("".join(part for pair in zip(gaps, sentences, strict=True) for part in (pair[0], pair[1].target)),)
        return self._placed(paragraph, sentences, gaps)

    def _placed(self, paragraph: Paragraph, sentences: Sequence[Sentence], gaps: Sequence[str]) -> Content:
        """Return the translation of a paragraph with words and tags in it."""
        source, target = _Side(), _Side()
        alignment_blocks = []
        marks = list[Mark]()
        unread, names, words = list(paragraph.marks), list[Tag](), iter(paragraph.words)
        position = 0
        for sentence, span, gap in zip(sentences, paragraph.sentences, gaps, strict=True):
            source.text += paragraph.text[position : span[0]]
            target.text += gap
            start = len(source.text)
            while unread and unread[0].position <= span[1]:
                mark = unread.pop(0)
                offset = mark.position - span[0]
                target_position = start + (sentence.offsets[offset] if offset >= 0 else offset)
                marks.append(replace(mark, position=max(target_position, 0)))
            tags = [next(words) for _ in range(sentence.num_words)]
            left_out = list(_left_out(sentence, start, tags))
            self.remarks[LEFT_OUT] += len(left_out)
            marks = sorted([*marks, *left_out], key=lambda mark: mark.position) if left_out else marks
            written = sentence.written
            names += [tags[number] for _, _, number in written]
            alignment_blocks.append((len(source.spans), len(target.spans), sentence))
            source.add(sentence.source, ())
            target.add(sentence.target, written)
            position = span[1]
        end = len(source.text)
        marks += [replace(mark, position=end) for mark in unread]
        alignment = Alignment()
        for first_source, first_target, sentence in alignment_blocks:
            alignment.add(first_source, first_target, self._weights(sentence, bool(marks)))
        placement = Placement(source.words, target.text, target.words, alignment)
        content = placement.insert(marks)
        if marks and not (placement.is_exact and self.align):
            self.remarks[BY_ORDER] += 1
        return _with_names(content, names)

    def _weights(self, sentence: Sentence, is_needed: bool) -> NDArray[np.float32]:
        sources, targets = word_spans(sentence.source), word_spans(sentence.target)
        if not is_needed or not sources or not targets:
            return np.zeros((len(targets), len(sources)), np.float32)
        if self.align is None:
            weights = _by_order(len(targets), len(sources))
        else:
            signs = [
                [is_sign(text, span) for span in spans]
                for text, spans in ((sentence.target, targets), (sentence.source, sources))
            ]
            weights = balanced(self.align(sentence.source, sentence.target), *signs)
        _link_copies(weights, sentence.source, sources, sentence.target, targets)
        return weights


@dataclass
class _Side:
    """A text of one language with its words, in which `WORD` stands for a placeholder."""

    text: str = ""
    spans: list[Span] = field(default_factory=list)
    are_signs: list[bool] = field(default_factory=list)

    @property
    def words(self) -> Words:
        return Words(self.spans, self.are_signs)

    def add(self, sentence: str, names: Sequence[tuple[int, int, int]]) -> None:
        """Add one more sentence, in which `WORD` replaces the `names` (start, end, number)."""
        spans = word_spans(sentence)
        self.are_signs += [is_sign(sentence, span) for span in spans]
        parts, position, first = list[str](), 0, len(self.text)
        ends: list[tuple[int, int]] = []
        for start, end, _ in names:
            parts += [sentence[position:start], WORD]
            position = end
            ends.append((end, end - start - len(WORD)))
        self.text += "".join([*parts, sentence[position:]])

        def shifted(offset: int) -> int:
            return first + offset - sum(less for end, less in ends if end <= offset)

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


def _with_names(content: Content, names: Sequence[Tag]) -> Content:
    """Return content with the tags that its `WORD`s stand for."""
    remaining = iter(names)
    items: list[Item] = []
    for item in content:
        if not isinstance(item, str):
            items.append(item)
            continue
        first, *others = item.split(WORD)
        items.append(first)
        for other in others:
            items += [next(remaining), other]
    return tuple(item for item in items if item != "")


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
    for number, word in enumerate(theirs):
        if (len(word) > 1 or word.isdigit()) and ours.count(word) == 1 and theirs.count(word) == 1:
            weights[number] = 0
            weights[number, ours.index(word)] = 1
