"""A run is scored as what it was trained to write."""

from __future__ import annotations

import pytest

from dikkat.config import build_config
from dikkat.evaluation import Scoring
from dikkat.tasks.translation.evaluate import is_tokenized, scored_as_trained


def test_references_of_a_lower_casing_run_lose_their_case_by_the_rules_of_the_language() -> None:
    config = build_config({"tokenizer": {"lowercase": True}, "data": {"target_language": "tr"}})
    assert scored_as_trained(["IŞIK İyi"], config) == (["ışık iyi"], Scoring("13a", lowercase=True))
    assert scored_as_trained(["IŞIK"], config, lowercase=False) == (["IŞIK"], Scoring())


def test_the_tokenizer_follows_the_target_language_or_script() -> None:
    assert scored_as_trained(["a"], build_config({"data": {"target_language": "zh"}}))[1].tokenizer == "zh"
    assert scored_as_trained(["我们去公园。"], build_config({}))[1].tokenizer == "zh"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["i am home .", "yes , i am ."], True),
        (["I am home.", "It costs 3.50 now.", "Yes, I am ."], False),
        (["go !"], None),
        ([], None),
    ],
)
def test_tokenised_text_has_a_space_before_its_full_stops(texts: list[str], expected: bool | None) -> None:
    assert is_tokenized(texts) is expected
