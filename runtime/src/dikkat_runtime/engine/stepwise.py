"""Decoding step by step: beam search under limits on repetition and under constraints, and sampling.

The hypotheses of a sentence are plain lists; beam search follows the same numbered rules as all of beam search here:
the best 2k continuations are ranked; those of the first k that end are finished; the first k that do not end live on;
a sentence is over when its store is full and no live hypothesis, ending now, would be its best, when none can enter its
n-best, or at its cap. Of equals, the better-ranked parent, then the lower id, ranks first.

Under a constraint only what meets it may end, and it is ranked among such alone; what lives on is allocated by how much
of the constraint is met (Post and Vilar 2018).
"""

import math
from collections.abc import Callable, Collection, Sequence
from functools import reduce

import numpy as np

from dikkat_runtime.engine.constraints import Constraint, length_caps, rows_of_beam
from dikkat_runtime.engine.contract import Memory, SearchRequest, Steps
from dikkat_runtime.engine.decoding import length_penalties
from dikkat_runtime.engine.hypotheses import NEVER, NO_BONUS, Candidate, Hypothesis, Row, Sentence, allocated, constrain
from dikkat_runtime.engine.options import DecodingOptions, SamplingOptions, beam_of, completing_tokens, draw, penalize
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID


def stepwise_search(
    steps_of: Callable[[int], Steps], memory: Memory, options: DecodingOptions, asked: SearchRequest
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each source under its constraint and the limits on repetition; see `Engine.search`.

    `steps_of` begins steps over `memory` with so many rows for each source.
    """
    (beam_size, n_best), constraints = beam_of(options), asked.constraints
    beam_size = rows_of_beam(beam_size, constraints)
    steps = steps_of(beam_size)
    caps = length_caps(memory.lengths, options, constraints, steps.limit)
    if isinstance(options, SamplingOptions):
        numbers = range(len(caps)) if asked.numbers is None else asked.numbers
        return [[hypothesis] for hypothesis in sample(steps, options, caps, numbers)]
    penalties = length_penalties(max(caps), options.alpha, steps.forced)
    sentences = [
        _begun(number, cap, beam_size, None if constraints is None else constraints[number])
        for number, cap in enumerate(caps)
    ]
    return search_on(steps, options, n_best, penalties, sentences)


def search_on(
    steps: Steps, options: DecodingOptions, n_best: int, penalties: Array, sentences: list[Sentence]
) -> list[list[Hypothesis]]:
    """Return the `n_best` hypotheses of each of `sentences`, numbered from 0, continuing their rows.

    Every row was fed all its tokens but the last. As soon as no constraint asks for anything any more, the steps finish
    the search by themselves if they can.
    """
    beam_size = len(sentences[0].rows)
    results: list[list[Hypothesis]] = [[] for _ in sentences]
    tokens = [row.tokens[-1] if row.tokens else BOS_ID for sentence in sentences for row in sentence.rows]
    while sentences:
        ranked = _ranked(steps, steps.step(tokens), sentences, options, 2 * beam_size)
        parents, staying = list[int](), list[Sentence]()
        for index, (sentence, candidates) in enumerate(zip(sentences, ranked, strict=True)):
            survivors = _advance(sentence, candidates, beam_size, steps.length, penalties)
            if _is_over(sentence, beam_size, n_best, options.early_stop_rank, steps.length, penalties):
                results[sentence.number] = _best(sentence, n_best, penalties[steps.length])
            else:
                staying.append(sentence)
                parents += [index * beam_size + parent for parent in survivors]
        sentences = staying
        rows = [row for sentence in sentences for row in sentence.rows]
        tokens = [row.tokens[-1] for row in rows]
        steps.continue_from(parents, [sentence.number for sentence in sentences for _ in sentence.rows])
        if not options.limits_repetition and all(sentence.is_settled for sentence in sentences):
            finished = steps.finish(sentences, penalties, n_best, options.early_stop_rank) if sentences else None
            if finished is not None:
                for sentence, hypotheses in zip(sentences, finished, strict=True):
                    results[sentence.number] = hypotheses
                break
    return results


def _begun(number: int, cap: int, beam_size: int, constraint: Constraint | None) -> Sentence:
    """Return a sentence with one empty hypothesis: its other rows would only repeat it."""
    state = None if constraint is None else constraint.start
    rows = [Row([], np.float32(0) if rank == 0 else NEVER, state) for rank in range(beam_size)]
    return Sentence(number, cap, rows, constraint)


def _ranked(
    steps: Steps, logits: Array, sentences: Sequence[Sentence], options: DecodingOptions, count: int
) -> list[list[Candidate]]:
    """Return the `count` best continuations of each sentence and those that its constraint wants, best first."""
    rows = [row for sentence in sentences for row in sentence.rows]
    beam_size = len(rows) // len(sentences)
    free: list[Collection[int]] = [()] * len(rows)
    if options.no_repeat_ngram:
        free = [_not_blocked(sentence, row) for sentence in sentences for row in sentence.rows]
    limited, (largest, log_sums) = _limited(steps, logits, [row.tokens for row in rows], options, free)
    for index, sentence in enumerate(sentences):
        if sentence.constraint is not None:
            for number, row in enumerate(sentence.rows):
                if row.log_probability > NEVER:
                    left = sentence.cap - steps.length + 1
                    constrain(limited[index * beam_size + number], row, sentence.constraint, left)
    reads = any(sentence.constraint.reads_attention for sentence in sentences if sentence.constraint is not None)
    step_attention = steps.attention() if reads else None
    per_row = min(count, limited.shape[1])
    _, indices = steps.top(limited, per_row)
    before = np.array([row.log_probability for row in rows], np.float32)[:, None]
    every = np.take_along_axis(limited, indices, axis=1) - largest - log_sums + before
    # (B k, c) -> (B, k c)
    joined = every.reshape(len(sentences), -1)
    values, entries = steps.top(joined, min(count, joined.shape[1]))
    by_sentence = indices.reshape(len(sentences), beam_size, per_row)
    ranked = [
        [
            Candidate(
                value,
                int(entry) // per_row,
                int(by_sentence[number, entry // per_row, entry % per_row]),
                sentences[number].rows[int(entry) // per_row].bonus,
            )
            for value, entry in zip(values[number], entries[number], strict=True)
        ]
        for number in range(len(sentences))
    ]
    for number, sentence in enumerate(sentences):
        if sentence.constraint is not None and not sentence.constraint.extra_rows:
            ranked[number] = [candidate for candidate in ranked[number] if candidate.log_probability > NEVER]
        elif sentence.constraint is not None:
            part = slice(number * beam_size, (number + 1) * beam_size)
            scores = limited[part] - largest[part] - log_sums[part]
            attention = None if step_attention is None else step_attention[part]
            ranked[number] = _with_wanted(sentence, ranked[number], scores, by_sentence[number], attention)
    return ranked


def _with_wanted(
    sentence: Sentence, candidates: Sequence[Candidate], scores: Array, indices: Array, attention: Array | None
) -> list[Candidate]:
    """Return the candidates: the best of each hypothesis, its end if near, tokens that the constraint wants."""
    constraint = sentence.constraint
    assert constraint is not None
    possible = [candidate for candidate in candidates if candidate.log_probability > NEVER]
    by_continuation = {(candidate.parent, candidate.token): candidate for candidate in possible}
    beam_size = len(sentence.rows)
    for parent, row in enumerate(sentence.rows):
        if row.log_probability == NEVER:
            continue
        own, row_attention = scores[parent], None if attention is None else attention[parent]
        for token in {int(indices[parent, 0]), *([EOS_ID] if EOS_ID in indices[parent, :beam_size] else [])}:
            if (parent, token) not in by_continuation and own[token] > NEVER:
                by_continuation[parent, token] = Candidate(row.log_probability + own[token], parent, token, row.bonus)
        for token in constraint.wanted(row.state):
            if own[token] > NEVER:
                placed = np.float32(constraint.placement_score(row.state, token, own, row_attention))
                more = max(placed - own[token], NO_BONUS)
                total = row.log_probability + own[token] + more
                by_continuation[parent, token] = Candidate(total, parent, token, row.bonus + more)
    return sorted(by_continuation.values(), key=_rank)


def _rank(candidate: Candidate) -> tuple[float, int, int]:
    return -float(candidate.log_probability), candidate.parent, candidate.token


def _not_blocked(sentence: Sentence, row: Row) -> Collection[int]:
    """Return the tokens that a constraint asks for, which no limit on repetition blocks."""
    constraint = sentence.constraint
    if constraint is None or row.log_probability == NEVER:
        return ()
    allowed = constraint.allowed(row.state)
    return constraint.wanted(row.state) if allowed is None else {int(token) for token in allowed}


def _limited(
    steps: Steps,
    logits: Array,
    written: Sequence[Sequence[int]],
    options: DecodingOptions,
    free: Sequence[Collection[int]],
) -> tuple[Array, tuple[Array, Array]]:
    """Return logits with minus infinity at what must not be written (`free` tokens may repeat), and the normalizers."""
    if options.repetition_penalty != 1.0:
        for row, tokens in zip(logits, written, strict=True):
            penalize(row, tokens, options.repetition_penalty)
    # tokens that are never emitted keep their share of the probability
    normalizers = steps.log_normalizers(logits)
    logits[:, [PAD_ID, BOS_ID]] = NEVER
    if size := options.no_repeat_ngram:
        for row, tokens, exempt in zip(logits, written, free, strict=True):
            row[[token for token in completing_tokens(tokens, size) if token not in exempt]] = NEVER
    return logits, normalizers


def _advance(
    sentence: Sentence, candidates: Sequence[Candidate], beam_size: int, length: int, penalties: Array
) -> list[int]:
    """Finish and continue hypotheses; return the index of the parent of each that lives on."""
    may_end, constraint = candidates, sentence.constraint
    if constraint is not None:
        met = [constraint.missing(row.state) == 0 for row in sentence.rows]
        may_end = [candidate for candidate in candidates if met[candidate.parent]]
    for log_probability, parent, token, bonus in may_end[:beam_size]:
        rank = log_probability / penalties[length]
        if token == EOS_ID and rank > NEVER:
            tokens, own = tuple(sentence.rows[parent].tokens), log_probability - bonus
            hypothesis = Hypothesis(tokens, float(own / penalties[length]), float(own), finished=True)
            sentence.ended.append((float(rank), hypothesis))
    # stable: of equals the earlier finish ranks first
    sentence.ended.sort(key=lambda ended: -ended[0])
    del sentence.ended[beam_size:]
    going = [candidate for candidate in candidates if candidate.token != EOS_ID]
    if constraint is None:
        living, states = going[:beam_size], [None] * beam_size
    else:
        after = [constraint.after(sentence.rows[candidate.parent].state, candidate.token) for candidate in going]
        numbers = allocated(going, after, constraint, beam_size) if going else []
        living, states = [going[number] for number in numbers], [after[number] for number in numbers]
        # a sentence keeps all its rows, however few candidates the constraint leaves
        spare = beam_size - len(living)
        living += [candidate._replace(log_probability=NEVER) for candidate in living[:1]] * spare
        states += states[:1] * spare
    if not living:
        # no allowed token is left: the sentence ends as it is
        sentence.cap = length
        return []
    sentence.rows = [
        Row([*sentence.rows[parent].tokens, token], log_probability, state, bonus)
        for (log_probability, parent, token, bonus), state in zip(living, states, strict=False)
    ]
    return [candidate.parent for candidate in living]


def _is_over(
    sentence: Sentence, beam_size: int, n_best: int, early_stop_rank: int, length: int, penalties: Array
) -> bool:
    if length >= sentence.cap or not sentence.rows:
        return True
    rows, ended = sentence.rows, sentence.ended
    if (constraint := sentence.constraint) is not None and len(ended) == beam_size:
        # hypotheses that have not met the constraint cannot end soon
        rows = [row for row in rows if constraint.missing(row.state) == 0]
    best = rows[0].log_probability if rows else NEVER
    settled = len(ended) == beam_size and best / penalties[length] <= ended[early_stop_rank][0]
    reached = ended[n_best - 1][0] if len(ended) >= n_best else -math.inf
    return bool(settled or best / penalties[sentence.cap] <= reached)


def _best(sentence: Sentence, n_best: int, penalty: float) -> list[Hypothesis]:
    """Return ended hypotheses by falling score, then live ones that were cut at the cap."""
    best = [hypothesis for _, hypothesis in sentence.ended[:n_best]]
    rows = [row for row in sentence.rows if row.log_probability > NEVER]
    if (constraint := sentence.constraint) is not None:
        rows.sort(key=lambda row: constraint.missing(row.state))
    live = rows[: n_best - len(best)]
    return best + [
        Hypothesis(
            tuple(row.tokens),
            float((row.log_probability - row.bonus) / penalty),
            float(row.log_probability - row.bonus),
            finished=False,
        )
        for row in live
    ]


def sample(steps: Steps, options: SamplingOptions, caps: Sequence[int], numbers: Sequence[int]) -> list[Hypothesis]:
    """Draw one hypothesis a sentence; the seed and its number in `numbers` decide what is drawn, not its batch."""
    penalties = length_penalties(max(caps), options.alpha, steps.forced)
    streams = [np.random.default_rng((options.seed, number)) for number in numbers]
    uniforms = [stream.random(cap, dtype=np.float32) for stream, cap in zip(streams, caps, strict=True)]
    rows = {number: Row([], np.float32(0)) for number in range(len(caps))}
    results: dict[int, Hypothesis] = {}
    tokens = [BOS_ID] * len(caps)
    while rows:
        logits = steps.step(tokens)
        limited, (largest, log_sums) = _limited(
            steps, logits, [row.tokens for row in rows.values()], options, [()] * len(rows)
        )
        parents, tokens = list[int](), list[int]()
        for index, (number, row) in enumerate(list(rows.items())):
            token = draw(limited[index], options, uniforms[number][steps.length - 1])
            row.log_probability += limited[index, token] - largest[index, 0] - log_sums[index, 0]
            is_end = token == EOS_ID
            row.tokens += [] if is_end else [token]
            if is_end or steps.length >= caps[number]:
                score = row.log_probability / penalties[steps.length]
                results[number] = Hypothesis(tuple(row.tokens), float(score), float(row.log_probability), is_end)
                del rows[number]
            else:
                parents.append(index)
                tokens.append(token)
        steps.continue_from(parents, list(rows))
    return [results[number] for number in range(len(caps))]


# Search for one source several times, each time after given tokens, reusing the states of tokens that stay.


class ResumableSearch:
    """A beam search over one source whose outputs begin with given tokens."""

    def __init__(self, steps: Steps, options: DecodingOptions, beam_size: int, source_length: int) -> None:
        """`steps` has `beam_size` rows; the source has `source_length` tokens, its end mark included."""
        self._steps, self._options, self._beam_size = steps, options, beam_size
        self._source_length = source_length
        self._fed: list[int] = []
        self._scores: list[Array] = []
        """Log-probabilities (V,) of what follows each token that was fed."""

    def search(self, kept: Sequence[int], constraint: Constraint) -> list[Hypothesis]:
        """Return the hypotheses, best first, that begin with the tokens `kept` and meet the constraint as a whole."""
        options, steps = self._options, self._steps
        (cap,) = length_caps([self._source_length], options, [constraint], steps.limit)
        kept = list(kept[: cap - 1])
        state, log_probability = reduce(constraint.after, kept, constraint.start), self._read(kept)
        rows = [Row(kept, log_probability if rank == 0 else NEVER, state) for rank in range(self._beam_size)]
        if self._beam_size > 1:
            steps.continue_from([0] * self._beam_size, [0] * self._beam_size)
        penalties = length_penalties(cap, options.alpha, steps.forced)
        return search_on(steps, options, beam_of(options)[1], penalties, [Sentence(0, cap, rows, constraint)])[0]

    def _read(self, kept: Sequence[int]) -> np.float32:
        """Feed all new tokens but the last; return the log-probability of all."""
        wanted = [BOS_ID, *kept][: len(kept)]
        known = 0
        while known < min(len(wanted), len(self._fed)) and wanted[known] == self._fed[known]:
            known += 1
        self._steps.rewind(known)
        del self._fed[known:], self._scores[known:]
        for token in wanted[known:]:
            logits = self._steps.step([token])
            largest, log_sums = self._steps.log_normalizers(logits)
            self._fed.append(token)
            self._scores.append((logits - largest - log_sums)[0])
        total = np.float32(0)
        for scores, token in zip(self._scores, kept, strict=True):
            total = scores[token] + total
        return total
