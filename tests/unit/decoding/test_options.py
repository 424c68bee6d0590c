"""Limits of the decoding options, each provoked."""

from __future__ import annotations

import pickle

import pytest

from dikkat_runtime.cli.failures import explain_failure
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, GenerationOptions, SamplingOptions
from dikkat_runtime.errors import SettingError, UsageError

BAD = [
    (DecodingOptions, {"length_penalty": -0.5}, "length_penalty must be between 0 and 5, not -0.5"),
    (DecodingOptions, {"length_penalty": float("nan")}, "length_penalty must be between 0 and 5, not nan"),
    (DecodingOptions, {"max_length_factor": 101.0}, "max_length_factor must be between 0 and 100, not 101.0"),
    (DecodingOptions, {"max_length_offset": -1}, "max_length_offset must be a whole number of at least 0, not -1"),
    (
        DecodingOptions,
        {"max_length_factor": 0.0, "max_length_offset": 0},
        "max_length_factor and max_length_offset must not both be 0: no token would fit",
    ),
    (BeamOptions, {"beam_size": 0}, "beam_size must be a whole number of at least 1, not 0"),
    (BeamOptions, {"beam_size": 2.5}, "beam_size must be a whole number of at least 1, not 2.5"),
    (BeamOptions, {"beam_size": True}, "beam_size must be a whole number of at least 1, not True"),
    (BeamOptions, {"n_best": 6}, "n_best must be a whole number from 1 to the size of the beam (5), not 6"),
    (BeamOptions, {"n_best": 0}, "n_best must be a whole number from 1 to the size of the beam (5), not 0"),
    (BeamOptions, {"length_penalty": 6.0}, "length_penalty must be between 0 and 5, not 6.0"),
    (SamplingOptions, {"temperature": -1.0}, "temperature must be a finite number of at least 0, not -1.0"),
    (SamplingOptions, {"temperature": float("inf")}, "temperature must be a finite number of at least 0, not inf"),
    (SamplingOptions, {"top_k": -1}, "top_k must be a whole number of at least 0, not -1"),
    (SamplingOptions, {"top_p": 0.0}, "top_p must be above 0 and at most 1, not 0.0"),
    (SamplingOptions, {"top_p": 1.5}, "top_p must be above 0 and at most 1, not 1.5"),
    (SamplingOptions, {"min_p": -0.1}, "min_p must be between 0 and 1, not -0.1"),
    (SamplingOptions, {"min_p": 1.1}, "min_p must be between 0 and 1, not 1.1"),
    (GenerationOptions, {"min_p": float("nan")}, "min_p must be between 0 and 1, not nan"),
    (GenerationOptions, {"max_tokens": 0}, "max_tokens must be a whole number of at least 1, not 0"),
    (GenerationOptions, {"repetition_penalty": 0.0}, "repetition_penalty must be a finite number above 0, not 0.0"),
    (
        GenerationOptions,
        {"repetition_penalty": float("inf")},
        "repetition_penalty must be a finite number above 0, not inf",
    ),
    (GenerationOptions, {"context": 1}, "context must be a whole number of at least 2, not 1"),
    (SamplingOptions, {"seed": -3}, "seed must be a whole number of at least 0, not -3"),
    (SamplingOptions, {"max_length_offset": 0.5}, "max_length_offset must be a whole number of at least 0, not 0.5"),
]


@pytest.mark.parametrize(("kind", "values", "message"), BAD)
def test_error_names_option_limit_and_value(
    kind: type[DecodingOptions], values: dict[str, float], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        kind(**values)  # type: ignore[arg-type]
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n_best": 6}, "--n-best must be a whole number from 1 to the size of the beam (5), not 6"),
        ({"beam_size": 0}, "--beam must be a whole number of at least 1, not 0"),
        ({"length_penalty": -1.0}, "--length-penalty must be between 0 and 5, not -1.0"),
    ],
)
def test_a_command_line_calls_a_setting_by_its_option(values: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        BeamOptions(**values)  # type: ignore[arg-type]
    assert explain_failure(caught.value, ["translate"]) == (message, 2)
    # as from a process of a pool
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.about_option) == (SettingError, str(caught.value), message)


def test_limits_themselves_are_allowed() -> None:
    DecodingOptions(length_penalty=0.0, max_length_factor=0.0, max_length_offset=1)
    BeamOptions(beam_size=1, n_best=1)
    SamplingOptions(temperature=0.0, top_k=0, top_p=1.0, seed=0)
