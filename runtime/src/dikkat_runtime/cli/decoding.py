"""Turn the options of `translate` into those of decoding, for every command line that has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.errors import UsageError


class AskedDecoding(Protocol):
    """The options of a command line, by their names there."""

    @property
    def beam(self) -> int: ...
    @property
    def n_best(self) -> int: ...
    @property
    def scores(self) -> bool: ...
    @property
    def json(self) -> bool: ...
    @property
    def length_penalty(self) -> float | None: ...
    @property
    def sample(self) -> bool: ...
    @property
    def temperature(self) -> float: ...
    @property
    def top_k(self) -> int: ...
    @property
    def top_p(self) -> float: ...
    @property
    def seed(self) -> int: ...
    @property
    def no_repeat_ngram(self) -> int | None: ...
    @property
    def repetition_penalty(self) -> float: ...
    @property
    def glossary(self) -> Path | None: ...
    @property
    def prefix(self) -> Path | None: ...


def decoding_options(asked: AskedDecoding) -> DecodingOptions:
    """Return the decoding options that were asked for. Raises `UsageError` where they contradict each other."""
    if asked.sample and (asked.glossary is not None or asked.prefix is not None):
        raise UsageError("--sample keeps neither --glossary nor --prefix; leave it or them out")
    if asked.sample and (asked.beam != BeamOptions().beam_size or asked.n_best != 1):
        raise UsageError("--sample draws one translation a line; leave out --beam and --n-best")
    limits: dict[str, Any] = {
        "no_repeat_ngram": asked.no_repeat_ngram or 0,
        "repetition_penalty": asked.repetition_penalty,
        "scores": asked.scores or asked.json or asked.n_best > 1,
    }
    if not asked.sample:
        return BeamOptions(beam_size=asked.beam, n_best=asked.n_best, length_penalty=asked.length_penalty, **limits)
    chances: dict[str, Any] = {name: getattr(asked, name) for name in ("temperature", "top_k", "top_p", "seed")}
    return SamplingOptions(**chances, **limits)
