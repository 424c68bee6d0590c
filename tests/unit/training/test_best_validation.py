"""Which validation is the best so far, and when patience wears out."""

from __future__ import annotations

from dikkat.training.state import TrainingState
from dikkat.training.task import Validation


def validation(score: float, loss: float, *, is_meaningful: bool = True) -> Validation:
    return Validation(loss, {}, score, (), is_meaningful)


def test_equal_scores_are_decided_by_the_loss() -> None:
    state = TrainingState()
    taken = [state.add_validation(validation(*pair)) for pair in ((0.0, 2.0), (0.0, 1.5), (0.0, 1.7), (0.1, 9.0))]
    assert taken == [True, True, False, True]
    assert (state.best_score, state.best_loss) == (0.1, 9.0)


def test_patience_waits_until_a_score_means_something() -> None:
    state = TrainingState()
    for _ in range(5):
        state.add_validation(validation(0.0, 2.0, is_meaningful=False))
    assert state.stale == 0
    for _ in range(2):
        state.add_validation(validation(0.0, 2.0))
    assert state.stale == 2
