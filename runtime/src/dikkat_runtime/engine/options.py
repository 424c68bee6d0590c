"""Options of decoding: length, beam, randomness."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from dikkat_runtime.engine.products import softmax
from dikkat_runtime.errors import DataError, SettingError, UsageError, msg
from dikkat_runtime.native.arrays import Array, address, aligned, empty
from dikkat_runtime.native.library import library

OptionsT = TypeVar("OptionsT", bound="DecodingOptions")

NativePrecision = Literal["float32", "int8", "int4"]
"""The numbers that a model computes with on a processor."""
Precision = Literal["float32", "int8", "int4", "float16"]
"""The numbers that a model computes with; int8 and int4 run on processors, float16 on GPUs."""
Device = Literal["cpu", "cuda"]
"""The device that a model computes on: the processor, or the first GPU.

Not a setting of a run, which may change machines.
"""
Formality = Literal["default", "more", "less", "prefer_more", "prefer_less"]
"""How a translation addresses its reader, in the words of DeepL."""
FORMALITIES: tuple[Formality, ...] = get_args(Formality)


ALPHA = 1.6
"""The length penalty of models that were trained here, with label smoothing, after which they write too short at 1;
chosen on validation data (docs/log/)."""
MAX_BEAMS = 1_000
"""Most hypotheses that a command lets a beam search follow; more take hours and find nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions:
    """Options that every algorithm of decoding shares; on their own they ask for greedy decoding.

    Raises `SettingError`, a `UsageError`, naming the option, its limit and the value given, as do the options derived
    from it.
    """

    length_penalty: float | None = None
    """Alpha of `score = log p / length ** alpha`; 0 compares plain probabilities, which favours short output.

    Left out, it is that of the run (see `SearchDefaults`), or `ALPHA`."""
    max_length_factor: float = 2.0
    """A hypothesis ends after `floor(factor * source tokens) + offset` tokens; the end mark counts on both sides."""
    max_length_offset: int = 10
    """The part of that cap that does not grow with the source."""
    no_repeat_ngram: int = 0
    """No n-gram of so many tokens is written twice in a hypothesis; 0 allows all."""
    repetition_penalty: float = 1.0
    """Positive logits of written tokens are divided by this, negative ones multiplied (Keskar et al. 2019, 4.1)."""
    scores: bool = True
    """True if hypotheses are scored; greedy decoding and sampling are faster without scores (see `Hypothesis`)."""
    token_scores: bool = False
    """True if hypotheses have scores of each token, as far as the way of decoding knows them (see `Hypothesis`)."""

    def __post_init__(self) -> None:
        # Above 5 only the length decides the ranking, and length ** alpha leaves the range of float32.
        _check_limit("length_penalty", self.length_penalty, "between 0 and 5", 0 <= self.alpha <= 5)
        factor, offset = self.max_length_factor, self.max_length_offset
        _check_limit("max_length_factor", factor, "between 0 and 100", 0 <= factor <= 100)
        _check_limit("max_length_offset", offset, "a whole number of at least 0", type(offset) is int and offset >= 0)
        if factor == 0 and offset == 0:
            raise UsageError("max_length_factor and max_length_offset must not both be 0: no token would fit")
        size, penalty = self.no_repeat_ngram, self.repetition_penalty
        _check_limit("no_repeat_ngram", size, "a whole number of at least 0", type(size) is int and size >= 0)
        _check_limit("repetition_penalty", penalty, "a finite number above 0", math.isfinite(penalty) and penalty > 0)

    @property
    def alpha(self) -> float:
        """Return the length penalty, or ours where none is chosen."""
        return ALPHA if self.length_penalty is None else self.length_penalty

    def length_cap(self, source_tokens: int) -> int:
        """Return the most tokens, end mark included, of a hypothesis for a source of `source_tokens` tokens."""
        return max(1, int(self.max_length_factor * source_tokens) + self.max_length_offset)

    @property
    def early_stop_rank(self) -> int:
        """Return the rank of the ended hypothesis that a live one must outdo, or else search ends."""
        return 0

    @property
    def limits_repetition(self) -> bool:
        """True if the next token depends on those before it in another way than by the model."""
        return self.no_repeat_ngram > 0 or self.repetition_penalty != 1.0

    @property
    def needs_all_words(self) -> bool:
        """True if the next token is chosen among all words, whatever shortlist a run has."""
        return self.limits_repetition


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamOptions(DecodingOptions):
    """Options of beam search: how many hypotheses are followed side by side, and how many are returned."""

    beam_size: int = 5
    """Hypotheses followed per sentence; 1 is greedy decoding."""
    n_best: int = 1
    """Hypotheses returned per sentence, best first."""
    thorough: bool | None = None
    """Whether search goes on while a live hypothesis, ending now, would be among the best `beam_size`, as that of
    Hugging Face does; else only while it would be the best. Left out, it is as the run says, or not."""

    def __post_init__(self) -> None:
        # The bare super() fails in the second class that slots=True creates.
        DecodingOptions.__post_init__(self)
        size, best = self.beam_size, self.n_best
        _check_limit("beam_size", size, "a whole number of at least 1", type(size) is int and size >= 1)
        _check_limit(
            "n_best",
            best,
            "a whole number from 1 to the size of the beam ({size})",
            type(best) is int and 1 <= best <= size,
            size,
        )

    @property
    def early_stop_rank(self) -> int:
        return self.beam_size - 1 if self.thorough else 0


def beam_of(options: DecodingOptions) -> tuple[int, int]:
    """Return how many hypotheses of a sentence are followed side by side, and how many are returned."""
    return (options.beam_size, options.n_best) if isinstance(options, BeamOptions) else (1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions(DecodingOptions):
    """Options of sampling: the temperature first, then top-k, then top-p on what top-k left, then min-p."""

    temperature: float = 1.0
    """Logits are divided by this: below 1 sharper, above 1 flatter; 0 is greedy decoding."""
    top_k: int = 0
    """Draw among this many likeliest tokens (Fan et al. 2018, section 5.4); 0 keeps all."""
    top_p: float = 1.0
    """Draw among the fewest likeliest tokens that hold this share (Holtzman et al. 2020, section 3.1); 1 keeps all."""
    min_p: float = 0.0
    """Draw among tokens with at least this share of the likeliest one's probability (Nguyen et al. 2025, section 3)."""
    seed: int = 1
    """The seed and the number of a sentence decide what is drawn for that sentence, whatever its batch."""

    def __post_init__(self) -> None:
        DecodingOptions.__post_init__(self)
        finite = math.isfinite(self.temperature) and self.temperature >= 0
        _check_limit("temperature", self.temperature, "a finite number of at least 0", finite)
        _check_limit("top_k", self.top_k, "a whole number of at least 0", type(self.top_k) is int and self.top_k >= 0)
        _check_limit("top_p", self.top_p, "above 0 and at most 1", 0 < self.top_p <= 1)
        _check_limit("min_p", self.min_p, "between 0 and 1", 0 <= self.min_p <= 1)
        _check_limit("seed", self.seed, "a whole number of at least 0", type(self.seed) is int and self.seed >= 0)

    @property
    def needs_all_words(self) -> bool:
        """Return True: what is drawn may be any word."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationOptions(SamplingOptions):
    """Options of generation: those of sampling, the length of the text and of its context."""

    temperature: float = 0.8
    max_tokens: int = 200
    "Maximum number of tokens to write."
    context: int | None = None
    """Most tokens that the model reads back, which bounds memory, not length; by default as many as in training."""

    def __post_init__(self) -> None:
        SamplingOptions.__post_init__(self)
        most, context = self.max_tokens, self.context
        _check_limit("max_tokens", most, "a whole number of at least 1", type(most) is int and most >= 1)
        in_range = context is None or (type(context) is int and context >= 2)
        _check_limit("context", context, "a whole number of at least 2", in_range)


@dataclass(frozen=True, slots=True)
class SearchDefaults:
    """Hold what search does in the translator of a run where options leave it open."""

    length_penalty: float = ALPHA
    thorough: bool = False

    @classmethod
    def of_run(cls, config: Mapping[str, Any], where: str) -> "SearchDefaults":
        """Read them from the section `decoding` of a run's settings, if it has one. Raises `DataError`."""
        own = config.get("decoding", {})
        if not isinstance(own, dict):
            raise DataError("{where}: damaged: `decoding` must be a section; restore the file", where)
        alpha, thorough = own.get("length_penalty", ALPHA), own.get("thorough", False)
        if type(alpha) not in (int, float) or not 0 <= alpha <= 5 or type(thorough) is not bool:
            raise DataError("{where}: damaged: decoding.length_penalty or decoding.thorough; restore the file", where)
        return cls(float(alpha), thorough)

    def resolved(self, options: OptionsT) -> OptionsT:
        """Return the options with what they leave open filled in."""
        alpha = self.length_penalty if options.length_penalty is None else options.length_penalty
        if isinstance(options, BeamOptions) and options.thorough is None:
            return replace(options, length_penalty=alpha, thorough=self.thorough)
        return replace(options, length_penalty=alpha)


def _check_limit(name: str, value: object, limit: str, holds: bool, *values: object) -> None:
    """Raise an error unless the limit holds, which is a template with these values."""
    if not holds:
        raise SettingError(msg("{name} must be {limit}, not {value}", name, msg(limit, *values), repr(value)), name)


# Rank logits: the largest entries of a row, and the normalizers that turn logits into log-probabilities.


def top(values: Array, k: int, threads: int) -> tuple[Array, Array]:
    """Return the `k` largest of each row (N, M) and their indices, (N, k) each, the lowest index first among equals."""
    values, (rows, width) = aligned(values), values.shape
    largest, indices = empty((rows, k)), empty((rows, k), np.int64)
    library()[0].top_entries(address(values), rows, width, k, address(largest), address(indices), threads)
    return largest, indices


def log_normalizers(logits: Array, threads: int) -> tuple[Array, Array]:
    """Return the largest of each row (N, M), and the logarithm of the sum of exp(logit - largest); (N, 1) each."""
    rows, width = logits.shape
    largest, log_sums = empty((rows, 1)), empty((rows, 1))
    library()[0].normalizers(address(logits), rows, width, address(largest), address(log_sums), threads)
    return largest, log_sums


def token_scores(logits: Array, tokens: Array, threads: int) -> Array:
    (rows, width), ids, scores = logits.shape, aligned(tokens, np.int64), empty((len(tokens), 3))
    if len(ids) and not 0 <= ids.min() <= ids.max() < width:
        raise IndexError("a token lies outside the vocabulary")
    library()[0].score_tokens(address(logits), address(ids), rows, width, address(scores), threads)
    return scores


# Limit repetition: find tokens that a row must not repeat, and lower the logits of those it should not.


def penalize(logits: Array, written: Sequence[int], penalty: float) -> None:
    """Move the logits (V,) of `written` tokens down by `penalty`, once each (Keskar et al. 2019, section 4.1)."""
    tokens, factor = np.unique(np.array(written, np.int64)), np.float32(penalty)
    logits[tokens] = np.where(logits[tokens] > 0, logits[tokens] / factor, logits[tokens] * factor)


def completing_tokens(written: Sequence[int], size: int) -> list[int]:
    """Return the tokens that would end an n-gram of `size` tokens which stands in `written` already."""
    begun = tuple(written[len(written) - size + 1 :])
    if len(written) < size:
        return []
    starts = range(len(written) - size + 1)
    return [written[start + size - 1] for start in starts if tuple(written[start : start + size - 1]) == begun]


# Draw the next token from the model's distribution, sharpened and truncated as the options say.


def draw(logits: Array, options: SamplingOptions, uniform: np.float32) -> int:
    """Return the token that `uniform`, a number of [0, 1), selects from the cumulative probabilities of `logits` (V,).

    Temperature first, then top-k, then top-p on what top-k left, then min-p; temperature 0 takes the most probable.
    """
    if options.temperature == 0:
        return int(logits.argmax())
    # by falling logit, the lowest id first among equals
    order = np.arange(len(logits))
    if options.top_k or options.top_p < 1:
        order = np.argsort(-logits, kind="stable")[: options.top_k or len(logits)]
    # the largest becomes 0 before the division, so that no temperature overflows
    shares = softmax((logits[order] - logits.max()) / np.float32(max(options.temperature, 1e-30)))
    if options.top_p < 1:
        # a token stays while those before it hold less than the share wanted
        shares = np.where(shares.cumsum() - shares >= options.top_p, 0, shares)
    shares = np.where(shares < options.min_p * shares.max(), 0, shares)
    ends = shares.cumsum()
    # the product may round up to the total, after which lies nothing
    at = min(uniform * ends[-1], np.nextafter(ends[-1], np.float32(0)))
    return int(order[np.searchsorted(ends, at, side="right")])
