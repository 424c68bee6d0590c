"""How often a pronoun that may mean either of two nouns looks at the one it means, head by head."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tools.phrasebook.english import english
from tools.phrasebook.french import french
from tools.phrasebook.generate import Part, part_of_sentence
from tools.phrasebook.grammar import Anaphor, NounPhrase, Reason
from tools.phrasebook.nominals import Dice
from tools.phrasebook.sampling import referent

from dikkat import Translator
from dikkat.explain.attention_map import AttentionMap, join_words, peak, with_written_rows
from dikkat.tasks.translation.attention import Attending

PRONOUNS = ("il", "elle", "qu'il", "qu'elle")


class Head(NamedTuple):
    """A head of an attention, from 1."""

    attention: str
    layer: int
    head: int


class Ambiguous(NamedTuple):
    """A sentence, its translation, and the noun that its pronoun means."""

    source: str
    target: str
    noun: str


def held_out_sentences(part: Part, count: int, seed: int = 1) -> list[Ambiguous]:
    """Sentences whose combinations of words never occur in training, each once, with two nouns that differ."""
    dice, result = Dice(seed), dict[str, Ambiguous]()
    while len(result) < count:
        sentence = referent(dice)
        if part_of_sentence(sentence) == part:
            result.setdefault(english(sentence), Ambiguous(english(sentence), french(sentence), _noun(sentence)))
    return list(result.values())


def _noun(sentence: Reason) -> str:
    anaphor = sentence.cause.subject
    assert isinstance(anaphor, Anaphor)
    assert isinstance(anaphor.antecedent, NounPhrase)
    return anaphor.antecedent.noun.english


def shares(translator: Translator, sentences: list[Ambiguous]) -> dict[Head, float]:
    """Of each head of encoder self-attention and of cross-attention, in how many of the sentences the pronoun's row
    has its largest weight on the noun that it means; the best first.
    """
    attending, hits = Attending(translator), defaultdict[Head, int](int)
    for sentence in sentences:
        result = attending.forced(sentence.source, sentence.target)
        words = join_words(replace(result, maps=tuple(map(with_written_rows, result.maps))))
        for entry in words.maps:
            if (row := _row(entry)) is not None:
                index = Head("cross" if entry.kind == "cross" else entry.stack, entry.layer + 1, (entry.head or 0) + 1)
                hits[index] += peak(entry, row)[0] == sentence.noun
    ranked = sorted(hits.items(), key=lambda item: -item[1])
    return {index: count / len(sentences) for index, count in ranked}


def _row(each: AttentionMap) -> int | None:
    """The row of the pronoun, which is the last of its kind in the sentence; None in a map that has none."""
    if (each.stack, each.kind) == ("decoder", "self"):
        return None
    pronouns = ("it",) if each.stack == "encoder" else PRONOUNS
    return max((row for row, token in enumerate(each.query_tokens) if token in pronouns), default=None)


def lines(path: Path) -> Iterator[str]:
    """The best heads on the validation part, then the best of them on 200 sentences of the test part."""
    translator = Translator.load(path, engine="torch")
    known = shares(translator, held_out_sentences("validation", 100))
    for head, share in list(known.items())[:5]:
        yield f"validation  {head.attention} layer {head.layer} head {head.head}: {share:.1%}"
    named = next(iter(known))
    share = shares(translator, held_out_sentences("test", 200))[named]
    yield f"test        {named.attention} layer {named.layer} head {named.head}: {share:.1%}"


if __name__ == "__main__":
    print(*lines(Path(sys.argv[1])), sep="\n")
