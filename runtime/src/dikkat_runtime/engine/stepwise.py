"""Decoding step by step: beam search under limits on repetition, and sampling.

The hypotheses of a sentence are plain lists; beam search follows the same numbered rules as all of beam search here:
the best 2k continuations are ranked; those of the first k that end are finished; the first k that do not end live on;
a sentence is over when its store is full and no live hypothesis, ending now, would be its best, when none can enter its
n-best, or at its cap. Of equals, the better-ranked parent, then the lower id, ranks first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dikkat_runtime.engine.contract import Hypothesis
from dikkat_runtime.engine.decoding import length_penalties
from dikkat_runtime.engine.options import DecodingOptions, SamplingOptions
from dikkat_runtime.engine.ranking import log_normalizers, top
from dikkat_runtime.engine.repetition import completing_tokens, penalize
from dikkat_runtime.engine.sampling import draw
from dikkat_runtime.engine.steps import StepDecoder
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

NEVER = np.float32("-inf")


@dataclass(slots=True)
class Row:
    """A hypothesis that still grows."""

    tokens: list[int]
    log_probability: np.float32


@dataclass(slots=True)
class Sentence:
    """One sentence of a batch: its live hypotheses, best first, and those that have ended."""

    number: int
    cap: int
    rows: list[Row]
    ended: list[Hypothesis] = field(default_factory=list)


def limited_beam_search(
    steps: StepDecoder, options: DecodingOptions, beam_size: int, n_best: int, caps: Sequence[int], threads: int
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sentence under the limits on repetition of `options`."""
    penalties = length_penalties(max(caps), options.length_penalty)
    sentences = [
        Sentence(number, cap, [Row([], np.float32(0) if rank == 0 else NEVER) for rank in range(beam_size)])
        for number, cap in enumerate(caps)
    ]
    results: list[list[Hypothesis]] = [[] for _ in caps]
    tokens = [BOS_ID] * (len(caps) * beam_size)
    while sentences:
        ranked = _ranked(steps.step(tokens), sentences, options, 2 * beam_size, threads)
        parents, staying = list[int](), list[Sentence]()
        for place, (sentence, candidates) in enumerate(zip(sentences, ranked, strict=True)):
            survivors = _advance(sentence, candidates, beam_size, steps.length, penalties)
            if _is_over(sentence, beam_size, n_best, steps.length, penalties):
                results[sentence.number] = _best(sentence, n_best, penalties[steps.length])
            else:
                staying.append(sentence)
                parents += [place * beam_size + parent for parent in survivors]
        sentences = staying
        rows = [row for sentence in sentences for row in sentence.rows]
        tokens = [row.tokens[-1] for row in rows]
        steps.continue_from(parents, [sentence.number for sentence in sentences for _ in sentence.rows])
    return results


Candidate = tuple[np.float32, int, int]
"""Log-probability, number of the hypothesis that is continued, token."""


def _ranked(
    logits: Array, sentences: Sequence[Sentence], options: DecodingOptions, count: int, threads: int
) -> list[list[Candidate]]:
    """The `count` best continuations of each sentence, best first."""
    rows = [row for sentence in sentences for row in sentence.rows]
    limited, (largest, log_sums) = _limited(logits, [row.tokens for row in rows], options, threads)
    per_row = min(count, limited.shape[1])
    _, indices = top(limited, per_row, threads)
    before = np.array([row.log_probability for row in rows], np.float32)[:, None]
    every = np.take_along_axis(limited, indices, axis=1) - largest - log_sums + before
    # (B k, c) -> (B, k c)
    joined = every.reshape(len(sentences), -1)
    values, places = top(joined, min(count, joined.shape[1]), threads)
    beam_size = len(rows) // len(sentences)
    by_sentence = indices.reshape(len(sentences), beam_size, per_row)
    return [
        [
            (values[number, rank], int(place) // per_row, int(by_sentence[number, place // per_row, place % per_row]))
            for rank, place in enumerate(places[number])
        ]
        for number in range(len(sentences))
    ]


def _limited(
    logits: Array, written: Sequence[Sequence[int]], options: DecodingOptions, threads: int
) -> tuple[Array, tuple[Array, Array]]:
    """Logits with minus infinity at what must not be written, and what turns them into log-probabilities."""
    if options.repetition_penalty != 1.0:
        for row, tokens in zip(logits, written, strict=True):
            penalize(row, tokens, options.repetition_penalty)
    # what is not emitted keeps its share of the probability
    normalizers = log_normalizers(logits, threads)
    logits[:, [PAD_ID, BOS_ID]] = NEVER
    if size := options.no_repeat_ngram:
        for row, tokens in zip(logits, written, strict=True):
            row[completing_tokens(tokens, size)] = NEVER
    return logits, normalizers


def _advance(
    sentence: Sentence, candidates: Sequence[Candidate], beam_size: int, length: int, penalties: Array
) -> list[int]:
    """Finish and continue hypotheses; returns the number of the parent of each that lives on."""
    for log_probability, parent, token in candidates[:beam_size]:
        score = log_probability / penalties[length]
        if token == EOS_ID and score > NEVER:
            tokens = tuple(sentence.rows[parent].tokens)
            sentence.ended.append(Hypothesis(tokens, float(score), float(log_probability), finished=True))
    # stable: of equals the earlier finish ranks first
    sentence.ended.sort(key=lambda hypothesis: -hypothesis.score)
    del sentence.ended[beam_size:]
    living = [candidate for candidate in candidates if candidate[2] != EOS_ID][:beam_size]
    sentence.rows = [
        Row([*sentence.rows[parent].tokens, token], log_probability) for log_probability, parent, token in living
    ]
    return [parent for _, parent, _ in living]


def _is_over(sentence: Sentence, beam_size: int, n_best: int, length: int, penalties: Array) -> bool:
    if length >= sentence.cap or not sentence.rows:
        return True
    best, ended = sentence.rows[0].log_probability, sentence.ended
    settled = len(ended) == beam_size and best / penalties[length] <= ended[0].score
    reached = ended[n_best - 1].score if len(ended) >= n_best else -math.inf
    return bool(settled or best / penalties[sentence.cap] <= reached)


def _best(sentence: Sentence, n_best: int, penalty: float) -> list[Hypothesis]:
    """Ended hypotheses by falling score, then live ones that were cut at the cap."""
    found = sentence.ended[:n_best]
    live = [row for row in sentence.rows if row.log_probability > NEVER][: n_best - len(found)]
    return found + [
        Hypothesis(tuple(row.tokens), float(row.log_probability / penalty), float(row.log_probability), finished=False)
        for row in live
    ]


def sample(
    steps: StepDecoder, options: SamplingOptions, caps: Sequence[int], numbers: Sequence[int], threads: int
) -> list[Hypothesis]:
    """One drawn hypothesis a sentence; the seed and its number in `numbers` decide what is drawn, not its batch."""
    penalties = length_penalties(max(caps), options.length_penalty)
    streams = [np.random.default_rng((options.seed, number)) for number in numbers]
    uniforms = [stream.random(cap, dtype=np.float32) for stream, cap in zip(streams, caps, strict=True)]
    rows = {number: Row([], np.float32(0)) for number in range(len(caps))}
    results: dict[int, Hypothesis] = {}
    tokens = [BOS_ID] * len(caps)
    while rows:
        logits = steps.step(tokens)
        limited, (largest, log_sums) = _limited(logits, [row.tokens for row in rows.values()], options, threads)
        parents, tokens = list[int](), list[int]()
        for place, (number, row) in enumerate(list(rows.items())):
            token = draw(limited[place], options, uniforms[number][steps.length - 1])
            row.log_probability += limited[place, token] - largest[place, 0] - log_sums[place, 0]
            is_end = token == EOS_ID
            row.tokens += [] if is_end else [token]
            if is_end or steps.length >= caps[number]:
                score = row.log_probability / penalties[steps.length]
                results[number] = Hypothesis(tuple(row.tokens), float(score), float(row.log_probability), is_end)
                del rows[number]
            else:
                parents.append(place)
                tokens.append(token)
        steps.continue_from(parents, list(rows))
    return [results[number] for number in range(len(caps))]
