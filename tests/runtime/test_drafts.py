"""A draft changes no token that is written, only the time it takes: rows of it have the bits they have alone."""

from __future__ import annotations

import numpy as np
import pytest
from tests.runtime.test_text_engines import OWN, PRECISIONS, VOCABULARY, WAYS, language_models

from dikkat_runtime.engine.native_texts import NativeLanguageModel
from dikkat_runtime.engine.options import GenerationOptions, Precision
from dikkat_runtime.engine.stack import KeyValueCache
from dikkat_runtime.engine.text_writer import Drafts, TextWriter
from dikkat_runtime.native.arrays import Array

FORBIDDEN = [0, 1, 3]
GREEDY = WAYS["greedy"]


def native(precision: Precision, name: str = "rotary positions") -> NativeLanguageModel:
    engine = language_models(**OWN[name])[precision]
    assert isinstance(engine, NativeLanguageModel)
    return engine


class Foreseeing(Drafts):
    """Guesses what will be written, but for every fourth token, in drafts of 0 to 6 tokens."""

    def __init__(self, text: list[int]) -> None:
        super().__init__()
        self.text, self.lengths, self.rights = text, list[int](), list[int]()

    def guess(self, text: Array, most: int) -> list[int]:
        written = sum(self.rights) + len(self.rights)
        wanted = min(most, len(self.lengths) % 7)
        coming = self.text[written : written + wanted]
        guess = [token + (number % 4 == 3) for number, token in enumerate(coming, start=written)]
        return [min(token, VOCABULARY - 1) for token in guess]

    def record(self, drafted: int, right: int) -> None:
        self.lengths.append(drafted)
        self.rights.append(right)


def written(
    engine: NativeLanguageModel, options: GenerationOptions, count: int, context: int, drafts: Drafts | None = None
) -> list[int]:
    writer = TextWriter(engine, np.array([[1]]), context, options, FORBIDDEN)
    writer._drafts = drafts
    return [writer.step()[0] for _ in range(count)]


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_tokens_have_the_same_bits_alone_and_in_a_draft(name: str, precision: Precision) -> None:
    engine = native(precision, name)
    tokens = np.random.default_rng(0).integers(4, VOCABULARY, (1, 24))
    alone, together = KeyValueCache(), KeyValueCache()
    single = [engine.next_logits(tokens[:, at : at + 1], alone, 1)[0] for at in range(24)]
    several = [engine.next_logits(tokens[:, at : at + size], together, size) for at, size in ((0, 1), (1, 6), (7, 17))]
    np.testing.assert_array_equal(np.concatenate(several), np.stack(single))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_drafts_change_no_text(precision: Precision, way: str) -> None:
    engine = native(precision)
    for context in (12, 80):
        plain = written(engine, WAYS[way], 60, context)
        drafts = Foreseeing(plain)
        assert written(engine, WAYS[way], 60, context, drafts) == plain
        # some were right in part, some as a whole, and some not at all
        kinds = {(right > 0) + (right == drafted) for drafted, right in zip(drafts.lengths, drafts.rights, strict=True)}
        assert kinds == {0, 1, 2}
        assert max(drafts.rights) == 3


def test_a_draft_ends_where_the_context_does() -> None:
    engine, most = native("float32"), list[int]()

    class Measured(Foreseeing):
        def guess(self, text: Array, most_tokens: int) -> list[int]:
            most.append(most_tokens)
            return super().guess(text, most_tokens)

    plain = written(engine, GREEDY, 40, 10)
    assert written(engine, GREEDY, 40, 10, Measured(plain)) == plain
    assert min(most) == 0
    assert max(most) <= 9


def test_a_guess_is_what_followed_the_last_tokens_before() -> None:
    drafts = Drafts()
    text = np.array([5, 6, 7, 8, 20, 21, 9, 6, 7, 8, 30, 31, 9, 6, 7, 8])
    # the longest place that is known, the last of its kind; at most two tokens more than twice as many as were right
    assert drafts.guess(text, 9) == [30, 31]
    drafts.record(4, 1)
    assert drafts.guess(text, 9) == []
    drafts.record(4, 4)
    assert drafts.guess(text, 6) == [30, 31, 9, 6, 7, 8]
    assert drafts.guess(text[:-1], 4) == [8, 30, 31, 9]
    assert len(drafts.guess(text, 99)) == 10
    # what repeats itself goes on to do so
    assert drafts.guess(np.array([4, 9, 8, 7, 9, 8, 7, 9, 8]), 8) == [7, 9, 8, 7, 9, 8, 7, 9]
    assert drafts.guess(np.array([4, 5, 6, 7, 8, 9]), 8) == []
    assert drafts.guess(text, 0) == []


def test_drafts_are_left_out_while_they_lose_time_and_come_back() -> None:
    drafts, text = Drafts(), np.array([5, 6, 7, 5, 6, 7, 5, 6])
    assert drafts.guess(text, 8)
    # 0.7 steps for nothing are 2 % of 35
    drafts.record(2, 0)
    for _ in range(33):
        assert not drafts.guess(text, 8)
        drafts.record(0, 0)
    drafts.record(0, 0)
    drafts.record(0, 0)
    assert len(drafts.guess(text, 8)) == 2
    drafts.record(2, 2)
    assert len(drafts.guess(text, 8)) == 6


def test_drafts_that_are_all_wrong_cost_little() -> None:
    drafts, text, cost, steps = Drafts(), np.array([5, 6, 7, 5, 6, 7, 5, 6]), 0.0, 1000
    for _ in range(steps):
        drafted = len(drafts.guess(text, 8))
        drafts.record(drafted, 0)
        cost += 0.3 + 0.2 * drafted if drafted else 0.0
    assert 0 < cost < 0.03 * steps


def test_a_text_that_repeats_itself_takes_fewer_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an engine as everybody opens it."""
    engine = native("int8")
    plain = written(engine, GREEDY, 60, 80)
    # a small model that takes the likeliest token comes to repeat itself
    assert len(set(plain[-20:])) < 12
    passes, compute = list[int](), engine.next_logits

    def counted(tokens: Array, cache: KeyValueCache, count: int = 1) -> Array:
        passes.append(count)
        return compute(tokens, cache, count)

    monkeypatch.setattr(engine, "next_logits", counted)
    writer = TextWriter(engine, np.array([[1]]), 80, GREEDY, FORBIDDEN)
    assert [writer.step()[0] for _ in range(60)] == plain
    assert len(passes) < 45
    assert max(passes) > 4


def test_rows_side_by_side_and_prefixes_are_read_without_drafts() -> None:
    engine = native("float32")
    writer = TextWriter(engine, np.array([[1], [1]]), 80, GREEDY, FORBIDDEN)
    together = [writer.step() for _ in range(20)]
    writer.keep([1])
    rest = [writer.step()[0] for _ in range(40)]
    assert [row[1] for row in together] + rest == written(engine, GREEDY, 60, 80)
    prefix = language_models("prefix", positions="rotary")["float32"]
    assert not prefix.reads_ahead
    assert TextWriter(prefix, np.array([[1]]), 80, GREEDY)._drafts is None
