"""Every class is trained and validated on, where there are texts enough."""

from __future__ import annotations

from collections import Counter

import pytest

from dikkat.config import DataConfig
from dikkat.data.labelled import LabelledText
from dikkat.data.labelled_splitting import MAX_SHARE, split_labelled
from dikkat.data.near_duplicates import near_key
from dikkat.data.splitting import HeldOut


def texts(counts: dict[str, int]) -> list[LabelledText]:
    labels = [label for label, count in counts.items() for _ in range(count)]
    return [LabelledText((label,), f"{label} is told of in {word(n)}", n) for n, label in enumerate(labels)]


def trained(rows: list[LabelledText], held_out: HeldOut) -> list[int]:
    """The texts of no held-out part."""
    return sorted(set(range(len(rows))) - {*held_out.validation, *held_out.test})


def word(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in f"{number:04}")


@pytest.mark.parametrize("seed", range(8))
def test_a_rare_class_is_in_both_parts(seed: int) -> None:
    rows = texts({"often": 300, "rare": 2, "rarer": 3, "once": 1})
    split = split_labelled(rows, DataConfig(test_pairs=10), seed)
    parts = [Counter(rows[index].label for index in part) for part in (trained(rows, split), split.validation)]
    assert parts[0].keys() == {"often", "rare", "rarer", "once"}
    assert parts[1].keys() == {"often", "rare", "rarer"}
    assert not set(split.validation) & set(split.test)
    assert 0 < len(split.test) <= 10


def test_near_duplicates_move_together_and_the_part_stays_small() -> None:
    rows = [LabelledText((f"class {word(n)}",), f"text {word(n)}{mark}", n) for n in range(100) for mark in ("", "!")]
    split = split_labelled(rows, DataConfig(test_pairs=0), seed=1)
    keys = [{near_key(rows[index].text) for index in part} for part in (trained(rows, split), split.validation)]
    assert not keys[0] & keys[1]
    # every class is one group, which must train
    assert split.validation == []
    many = texts({f"class {word(n)}": 2 for n in range(200)})
    split = split_labelled(many, DataConfig(test_pairs=0), seed=1)
    assert len({many[index].label for index in trained(many, split)}) == 200
    assert len(split.validation) == MAX_SHARE * len(many)


def test_a_label_of_several_counts() -> None:
    rows = [
        item._replace(labels=(*item.labels, "both") if item.line in (5, 150) else item.labels)
        for item in texts({"a": 100, "b": 100})
    ]
    split = split_labelled(rows, DataConfig(test_pairs=0), seed=3)
    for part in (trained(rows, split), split.validation):
        assert {label for index in part for label in rows[index].labels} == {"a", "b", "both"}
