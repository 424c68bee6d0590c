"""Give each term of a document one translation: where most texts have one, it reuses what the others have."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dikkat_runtime.errors import msg, plural
from dikkat_runtime.tasks.confidence import PairScorer
from dikkat_runtime.tasks.surrogates import MARK, fill
from dikkat_runtime.tasks.term_placement import Lacking, Span, TermPlacer
from dikkat_runtime.text.casing import capitalized, lower
from dikkat_runtime.text.demanded import Demanded

MAX_SHARE, MAX_FEW = 0.25, 8
"""Share of the texts above which a word is one of grammar, and number of texts up to which none is."""
MAX_FALL = 4.0
"""Nats by which a text may get less likely for a word; where it fell further, most texts got worse."""
STEM, ALIKE = 5, 4
"""Letters at the beginning by which words of many texts are compared, and those that forms of a word share."""
_MAX_FORMS = 3
"""Forms of a translation, the most frequent ones, among which the model chooses."""
_SHOWN = 2
"""Texts in which the attention must show that a word has the translation of most."""
_WORD = re.compile(r"[^\W\d_]{4,}")

Term = tuple[str, tuple[str, ...], dict[int, list[Span]]]
"""A word of the source, all forms of its translation in most texts, and its spans in some of these and all others."""


@dataclass(frozen=True, slots=True)
class TermUnifier:
    """Unifies the translations of terms by the attention and the scores of one translator."""

    placer: TermPlacer
    scorer: PairScorer
    encode: Callable[[Sequence[str]], Sequence[Sequence[int]]]
    """The encoding of the source."""
    surrogates: Callable[[], Sequence[str]]
    """The names that are read in the place of placeholders."""
    longest: int
    """Most tokens of a source that is read."""

    def __call__(self, sources: Sequence[str], targets: Sequence[str]) -> tuple[list[str], str]:
        """Return the translations of all texts of a document with one translation of each term, and a note on them.

        A term is a word of three texts or more, of which most have words of one stem that few other texts have. Where
        the attention of the model shows other words in the rest of its texts, these give way by `TermPlacer`, unless
        that makes a text too unlikely.
        """
        filled = [fill(source, self.surrogates() if MARK.search(source) else ()) for source in sources]
        sources, targets = [own.text for own in filled], list(targets)
        texts = [own.filled(target) for own, target in zip(filled, targets, strict=True)]
        ids = [tuple(own) for own in self.encode(sources)]
        wanted = list(self._demands(sources, texts, ids))
        left, changed = Counter(demanded.source for _, demanded in wanted), set[int]()
        terms = plural(len(left), "term")
        while wanted:
            # one change of a text at a time
            turn = dict(wanted)
            wanted = [one for one in wanted if turn[one[0]] is not one[1]]
            items = [Lacking(sources[text], ids[text], texts[text], (demand,)) for text, demand in turn.items()]
            placed = {text: own for text, own in zip(turn, self.placer(items), strict=True) if own}
            pairs = [(sources[text], one) for text, own in placed.items() for one in (texts[text], own)]
            scores = self.scorer.scores([source for source, _ in pairs], [text for _, text in pairs])
            sums = [float(own.log_probabilities.sum()) if own else 0.0 for own in scores]
            for (text, own), before, after in zip(placed.items(), sums[::2], sums[1::2], strict=True):
                back = own
                for mark, name in filled[text].names:
                    back = back.replace(name, mark) if back.count(name) == 1 else ""
                if back and before - after <= MAX_FALL:
                    texts[text], targets[text] = own, back
                    left[turn[text].source] -= 1
                    changed.add(text)
        note = msg("{terms} had several translations; {texts} changed, and {left:,} of them still have several")
        note = note.fill(terms, plural(len(changed), "text"), sum(count > 0 for count in left.values()))
        return targets, note if left else ""

    def _terms(self, sources: Sequence[str], targets: Sequence[str], ids: Sequence[Sequence[int]]) -> Iterator[Term]:
        """Yield the words that most of their texts seem to translate by words of one stem, and others not."""
        uses: dict[str, dict[int, list[Span]]] = defaultdict(lambda: defaultdict(list))
        for number, (source, own) in enumerate(zip(sources, ids, strict=True)):
            for match in _WORD.finditer(source) if 0 < len(own) <= self.longest else ():
                uses[lower(match[0], self.scorer.languages[0])][number].append(match.span())
        stems: list[dict[str, list[str]]] = [defaultdict(list) for _ in targets]
        for own_stems, target in zip(stems, targets, strict=True):
            for form in _WORD.findall(target):
                own_stems[lower(form, self.scorer.languages[1])[:STEM]].append(form)
        counts = Counter(stem for own_stems in stems for stem in own_stems)
        for word, texts in uses.items():
            within = Counter(stem for number in texts for stem in stems[number])
            specific = [(count, stem) for stem, count in within.items() if counts[stem] < 2 * count]
            count, stem = max(specific, default=(0, ""))
            if len(texts) <= max(MAX_FEW, MAX_SHARE * len(sources)) and len(texts) / 2 < count < len(texts):
                shown = [number for number in texts if stem in stems[number]]
                others = [number for number in texts if stem not in stems[number]]
                forms = Counter(form for number in shown for form in stems[number][stem]).most_common(_MAX_FORMS)
                spans = {number: texts[number] for number in (*shown[:_SHOWN], *others)}
                yield word, tuple(form for form, _ in forms), spans

    def _demands(
        self, sources: Sequence[str], targets: Sequence[str], ids: Sequence[tuple[int, ...]]
    ) -> Iterator[tuple[int, Demanded]]:
        """Yield what texts must hold that have other words for a term than most."""
        language = self.scorer.languages[1]
        asked: dict[int, list[tuple[Term, Span]]] = defaultdict(list)
        for term in self._terms(sources, targets, ids):
            for text, spans in term[2].items():
                asked[text] += ((term, span) for span in spans)
        items = [
            Lacking(sources[text], ids[text], targets[text], (Demanded((), spans=tuple(span for _, span in own)),))
            for text, own in asked.items()
        ]
        written = [
            (text, term, span, lower(word, language), word[:1].isupper())
            for (text, own), words in zip(asked.items(), self.placer.translated_by(items), strict=True)
            for (term, span), word in zip(own, words, strict=True)
        ]
        shown = {term[0] for _, term, _, word, _ in written if word[:STEM] == lower(term[1][0], language)[:STEM]}
        for text, (word, forms, _), span, other, is_capital in written:
            small = [lower(form, language) for form in forms]
            if word in shown and other and other[:ALIKE] != small[0][:ALIKE]:
                own = (capitalized(form, language) if is_capital or form not in forms else form for form in small)
                yield text, Demanded(tuple(dict.fromkeys(own)), source=word, spans=(span,))
