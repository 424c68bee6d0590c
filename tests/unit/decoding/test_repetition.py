"""Repetition control in every way of decoding and on both engines, and what counts as a loop."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from tests.unit.decoding.mock_model import MockModel, some_sentences
from tests.unit.decoding.reversing import KINDS, learned

from dikkat.torch_engine.stepper import completing_ngrams, pad_sources
from dikkat.torch_engine.strategies import batch_decoder
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.text.repetition import is_loop

pytestmark = pytest.mark.usefixtures("either_path")

WAYS = [DecodingOptions, BeamOptions, SamplingOptions]
LOOPING = MockModel(vocab_size=8, fixed=[-9.0, -9.0, -1.0, 3.0, 2.9, 2.0, 1.0, 0.5])
"""Likes token 3 best at every step, and hardly ever the end."""


def decoded(options: DecodingOptions, model: MockModel = LOOPING, count: int = 6) -> list[Hypothesis]:
    sources = [list(sentence[:-1]) for sentence in some_sentences(count)]
    hypotheses = batch_decoder(model, options)(*pad_sources(sources, torch.device("cpu")), range(count))
    return [best for best, *_ in hypotheses]


def ngrams(tokens: Sequence[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_no_ngram_is_written_twice(way: type[DecodingOptions], size: int) -> None:
    free = decoded(way())
    assert any(len(set(ngrams(item.tokens, size))) < len(ngrams(item.tokens, size)) for item in free)
    for item in decoded(way(no_repeat_ngram=size)):
        assert len(set(ngrams(item.tokens, size))) == len(ngrams(item.tokens, size))
        assert item.log_probability <= 0


def test_the_blocked_tokens_are_those_that_end_a_known_ngram() -> None:
    written = torch.tensor([[5, 6, 7, 5, 6], [4, 4, 4, 4, 4], [3, 4, 5, 6, 7]])
    assert [row.nonzero().flatten().tolist() for row in completing_ngrams(written, 3, 9)] == [[7], [4], []]
    assert [row.nonzero().flatten().tolist() for row in completing_ngrams(written, 1, 9)] == [
        [5, 6, 7],
        [4],
        [*range(3, 8)],
    ]
    assert not completing_ngrams(written[:, :2], 3, 9).any()


def test_what_is_blocked_keeps_its_share_of_the_probability() -> None:
    """Greedy of two tokens, each once: log p(3) + log p(4) + log p(end) of the model's own softmax."""
    model = MockModel(vocab_size=5, fixed=[-9.0, -9.0, -1.0, 3.0, 2.9])
    for best in decoded(DecodingOptions(no_repeat_ngram=1), model):
        own = torch.tensor(model.fixed).double().log_softmax(dim=0)
        assert best.tokens == (3, 4)
        assert best.log_probability == pytest.approx(float(own[3] + own[4] + own[2]), abs=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_a_penalty_makes_a_written_token_less_probable(way: type[DecodingOptions]) -> None:
    free, held = decoded(way()), decoded(way(repetition_penalty=1e6))
    assert sum(len(item.tokens) - len(set(item.tokens)) for item in held) < sum(
        len(item.tokens) - len(set(item.tokens)) for item in free
    )


@pytest.mark.parametrize("options", [DecodingOptions(no_repeat_ngram=2), BeamOptions(beam_size=3, no_repeat_ngram=2)])
def test_a_model_that_searches_by_itself_is_held_to_it_as_well(options: DecodingOptions) -> None:
    """The native search knows no such limit, so PyTorch's ranks the steps."""
    model = learned(**KINDS["pre"])
    source, mask = pad_sources([[5, 5, 5, 5, 5, 5], [6, 7, 6, 7, 6, 7]], torch.device("cpu"))
    for best, *_ in batch_decoder(model, options)(source, mask, [0, 1]):
        assert len(set(ngrams(best.tokens, 2))) == len(ngrams(best.tokens, 2))


@pytest.mark.parametrize(
    ("words", "finished", "expected"),
    [
        ("a man in a hat and a man in a coat", True, False),
        ("the cat the cat the cat the cat sleeps", True, True),
        ("no no no no", True, False),
        ("no no no no no no no no", True, True),
        ("he said that he said that he said that", True, False),
        ("a b x a b c x x a b c y a b c z", True, False),
        ("a b x a b c x x a b c y a b c z", False, True),
        ("a b c d e f g", False, False),
        ("", True, False),
    ],
)
def test_what_is_a_loop(words: str, finished: bool, expected: bool) -> None:
    assert is_loop(words.split(), finished) is expected
