"""Read a word alignment off cross-attention, in the Pharaoh form: `0-0 1-2`, source word and target word from 0."""

from __future__ import annotations

from dataclasses import replace

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.joined_words import Words, has_spaces, join_map
from dikkat.explain.sentence_maps import BEGIN, END, SentenceMaps, mean_of_heads

Links = tuple[tuple[int, int], ...]
"""Pairs of source word and target word, both from 0, in order."""


def written_map(attention_map: AttentionMap) -> AttentionMap:
    """Return a cross-attention map with each row under the token that it wrote, not the one that it was fed.

    Row t, fed token t, wrote token t + 1; the last, which wrote the end mark, is left out.
    """
    return replace(attention_map, weights=attention_map.weights[:-1], query_tokens=attention_map.query_tokens[1:])


def word_links(sentence: SentenceMaps) -> Links:
    """Return for every target word the source word with the largest mean cross-attention.

    A word's weight is the mean over the steps that wrote its subwords, summed over the subwords of the source word;
    of equal weights the first counts. Special tokens are no words, and neither are those that are forced. Raises
    `UsageError` without cross-attention.
    """
    mean = written_map(mean_of_heads(sentence.select("decoder", "cross")))
    first = sentence.forced
    mean = replace(mean, weights=mean.weights[first:], query_tokens=mean.query_tokens[first:])
    spaced = has_spaces(sentence.source_tokens)
    writes = Words.of(mean.query_tokens, sentence.output, spaced=spaced)
    joined = join_map(mean, writes, Words.of(mean.key_tokens, sentence.source, spaced=spaced))
    sources = [index for index, name in enumerate(joined.key_tokens) if name not in (BEGIN, END)]
    best = joined.weights[:, sources].argmax(axis=1).tolist() if sources else []
    return tuple(sorted((source, target) for target, source in enumerate(best)))


def as_pharaoh(links: Links) -> str:
    """Return `0-0 1-2`: the form that alignment tools read, one line a sentence pair."""
    return " ".join(f"{source}-{target}" for source, target in links)
