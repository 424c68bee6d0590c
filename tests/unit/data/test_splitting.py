"""Held-out parts that share no near-duplicate with training."""

from __future__ import annotations

import random
import time
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dikkat.config import DataConfig
from dikkat.data.near_duplicates import near_key
from dikkat.data.pairs import Pair
from dikkat.data.readers import read_pairs
from dikkat.data.splitting import HeldOut, split_pairs
from dikkat_runtime.errors import DataError

_TATOEBA = Path(__file__).parents[4] / "shared" / "data" / "tatoeba" / "eng-tur.tsv.gz"


def _pairs(size: int, seed: int = 0, words: int = 20_000) -> list[Pair]:
    """Pairs of few words, so that sources and targets repeat now and then."""
    rng = random.Random(seed)
    return [
        Pair(f"the {_name(rng.randrange(words))} has {rng.randrange(9)}!", f"hat {_name(rng.randrange(words))}", line)
        for line in range(1, size + 1)
    ]


def _name(number: int) -> str:
    return "".join(chr(97 + number // 26**place % 26) for place in range(5))


def _distinct(size: int) -> list[Pair]:
    return [Pair(f"source {_name(line)}", f"Ziel {_name(line)}", line) for line in range(1, size + 1)]


def _trained(pairs: list[Pair], split: HeldOut) -> list[int]:
    return sorted(set(range(len(pairs))) - {*split.validation, *split.test})


def _assert_no_leak(pairs: list[Pair], split: HeldOut) -> None:
    parts = (_trained(pairs, split), split.validation, split.test)
    assert sorted(chain(*parts)) == list(range(len(pairs)))
    assert all(part == sorted(part) for part in parts)
    for side in (0, 1):
        keys = [{near_key(str(pairs[index][side])) for index in part} for part in parts]
        assert not keys[0] & keys[1]
        assert not keys[0] & keys[2]
        assert not keys[1] & keys[2]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I have 2 dogs.", "i have 31 dogs!"),
        ("Price: 1,250.50", "price 3"),
        ("_File", "&File"),
        ("Sa_ve as…", "Save as..."),
        ("Delete <b>all</b> of it", "Delete all of it"),
        ('See <a href="x.html" class="y">this</a><br/>', "See this"),
        ("Hello, %s!", "Hello, {name}!"),
        ("%1$s wrote %(count)d &amp; %.2f", "wrote"),
        ("R&D &#160; here", "RD here"),
        ("  two\u00a0 spaces ", "two spaces"),
        ("ISI", "ısı"),
        ("İYİ", "iyi"),
        ("STRASSE", "Straße"),
        ("soft\u00adware", "software"),
    ],
)
def test_near_duplicates_have_one_key(one: str, other: str) -> None:
    assert near_key(one) == near_key(other) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I see him.", "I saw him."),
        ("50% done", "50% one"),
        ("a < b", "a"),
        ("<no such file>", "<no folder>"),
        ("{ a; }", "{ b; }"),
        ("की", "का"),
        ("été", "ete"),
    ],
)
def test_different_texts_have_different_keys(one: str, other: str) -> None:
    assert near_key(one) != near_key(other)


@pytest.mark.seed("F13")
def test_no_near_key_of_a_held_out_part_occurs_in_training() -> None:
    pairs = _pairs(3000)
    split = split_pairs(pairs, DataConfig(), seed=1)
    _assert_no_leak(pairs, split)
    assert 120 <= len(split.validation) <= 150
    assert 120 <= len(split.test) <= 150
    # The faulty form, a random split of the pairs themselves, leaks on the same data.
    order = random.Random(1).sample(range(len(pairs)), len(pairs))
    faulty = HeldOut(sorted(order[:150]), sorted(order[150:300]))
    with pytest.raises(AssertionError):
        _assert_no_leak(pairs, faulty)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.text("abcdeı 1!", max_size=4), st.text("abcdé<%s>", max_size=4)), max_size=120), st.integers()
)
def test_any_texts_are_split_without_a_leak(sides: list[tuple[str, str]], seed: int) -> None:
    pairs = [Pair(*side, line) for line, side in enumerate(sides, start=1)]
    try:
        split = split_pairs(pairs, DataConfig(), seed)
    except DataError:
        assert len(pairs) >= 20
        return
    _assert_no_leak(pairs, split)
    assert bool(split.validation) == bool(split.test) == (len(pairs) >= 20)


def test_a_chain_of_shared_sources_and_targets_stays_together() -> None:
    # a-x, b-x, b-y, c-y: the ends of the chain share nothing directly.
    chain = [Pair("alpha", "xi", 1), Pair("beta", "xi", 2), Pair("beta", "ypsilon", 3), Pair("gamma", "ypsilon", 4)]
    pairs = chain + _distinct(996)
    for seed in range(30):
        split = split_pairs(pairs, DataConfig(), seed)
        assert any(set(range(4)) <= set(part) for part in (_trained(pairs, split), *split))


def test_a_source_equal_to_a_target_of_another_pair_joins_nothing() -> None:
    swapped = [Pair(f"Ziel {pair.source[7:]}", f"source {pair.source[7:]}", pair.line) for pair in _distinct(10)]
    pairs = _distinct(10) + swapped
    split = split_pairs(pairs, DataConfig(), seed=0)
    assert (len(split.validation), len(split.test)) == (1, 1)


def test_the_split_depends_on_text_and_seed_alone() -> None:
    pairs = _pairs(2000)
    config = DataConfig()
    split = split_pairs(pairs, config, seed=3)
    assert split_pairs(list(pairs), config, seed=3) == split
    assert split_pairs(pairs, config, seed=4) != split
    order = random.Random(9).sample(range(len(pairs)), len(pairs))
    shuffled = split_pairs([pairs[index] for index in order], config, seed=3)
    assert {pairs[order[index]] for index in shuffled.validation} == {pairs[index] for index in split.validation}
    assert {pairs[order[index]] for index in shuffled.test} == {pairs[index] for index in split.test}


def test_parts_are_as_large_as_configured_and_at_most_five_percent() -> None:
    pairs = _distinct(4000)
    split = split_pairs(pairs, DataConfig(validation_pairs=30, test_pairs=0), seed=1)
    assert (len(split.validation), len(split.test)) == (30, 0)
    split = split_pairs(pairs, DataConfig(), seed=1)
    assert (len(_trained(pairs, split)), len(split.validation), len(split.test)) == (3600, 200, 200)


@pytest.mark.parametrize(("size", "held_out"), [(0, 0), (19, 0), (20, 1), (39, 1), (40, 2), (100, 5)])
def test_small_data(size: int, held_out: int) -> None:
    split = split_pairs(_distinct(size), DataConfig(), seed=1)
    assert (len(split.validation), len(split.test)) == (held_out, held_out)


def test_a_giant_group_always_trains() -> None:
    giant = [Pair("Yes.", f"Ja {pair.source}", pair.line) for pair in _distinct(30)]
    pairs = giant + [Pair(f"other {pair.source}", f"andere {pair.source}", pair.line) for pair in _distinct(1000)]
    for seed in range(30):
        assert set(range(30)) <= set(_trained(pairs, split_pairs(pairs, DataConfig(), seed)))


def test_large_groups_are_held_out_where_nothing_smaller_is_there() -> None:
    pairs = [Pair(f"group {letter}", f"Ziel {letter}{number}", 1) for letter in "abcd" for number in "pqrstuvw"]
    split = split_pairs(pairs, DataConfig(), seed=1)
    _assert_no_leak(pairs, split)
    assert (len(_trained(pairs, split)), len(split.validation), len(split.test)) == (16, 8, 8)


@pytest.mark.parametrize("part", ["%0", "0", "<a ", "<a b='", "&a", "{", " ", "1."])
def test_keys_of_long_lines_take_linear_time(part: str) -> None:
    begun = time.process_time()
    near_key("%" + part * (100_000 // len(part)))
    assert time.process_time() - begun < 5


def test_data_of_one_group_cannot_be_split() -> None:
    pairs = [Pair(f"Page {number}", f"Seite {number}", number) for number in range(50)]
    with pytest.raises(DataError, match=r"^50 pairs in only 1 group of near-duplicates.*: too few to hold out"):
        split_pairs(pairs, DataConfig(), seed=1)


@pytest.mark.seed("F13")
@pytest.mark.skipif(not _TATOEBA.is_file(), reason=f"needs {_TATOEBA}")
def test_tatoeba_has_held_out_parts_without_a_leak() -> None:
    pairs = list(read_pairs([str(_TATOEBA)]))
    split = split_pairs(pairs, DataConfig(), seed=1)
    _assert_no_leak(pairs, split)
    assert (len(split.validation), len(split.test)) == (1000, 1000)
