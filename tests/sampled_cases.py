"""Tests of many like cases, of which some run by day: every n-th of a function, and all of them in the nightly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

SAMPLED_CASES = {
    "tests/runtime/test_engines.py::test_both_engines_find_the_same": 3,
    "tests/runtime/test_engines.py::test_every_choice_is_computed_by_one_engine": 3,
    "tests/runtime/test_parity.py::test_neither_threads_nor_batches_change_a_bit": 2,
    "tests/runtime/test_parity.py::test_translations_and_scores_are_those_of_the_torch_engine": 3,
    "tests/runtime/test_text_engines.py::test_texts_are_written_as_by_the_model": 3,
    "tests/unit/decoding/test_generation.py::test_the_cache_changes_nothing_and_there_is_always_room": 2,
    "tests/unit/decoding/test_greedy.py::test_who_asks_for_no_scores_gets_the_same_tokens": 2,
    "tests/unit/explain/doctor/test_examination.py::test_a_sound_model_of_any_kind_passes": 3,
    "tests/unit/models/test_choices.py::test_step_by_step_is_teacher_forcing": 3,
    "tests/unit/models/test_language_model.py::test_reading_in_pieces_is_reading_at_once": 3,
    "tests/unit/models/test_new_lengths.py::test_training_goes_on_after_a_validation_of_any_length": 4,
    "tests/unit/tasks/test_language_model_evaluation.py::"
    "test_every_token_is_predicted_once_from_what_the_stride_leaves": 3,
    "tests/unit/training/test_loop.py::test_an_update_is_launched_without_asking_the_device": 2,
    "tests/unit/training/test_loop.py::test_stopped_and_resumed_is_bit_identical": 2,
}
"""n by function, as path::name; not the number of choices that change fastest, so that each of these has a turn."""


def left_to_the_nightly(node_ids: Sequence[str], sampled: Mapping[str, int] = SAMPLED_CASES) -> Iterator[int]:
    """Yield the indices of the tests that do not run by day: of each function in `sampled` all but every n-th."""
    seen: Counter[str] = Counter()
    for index, node_id in enumerate(node_ids):
        function = node_id.partition("[")[0]
        if function in sampled:
            if seen[function] % sampled[function]:
                yield index
            seen[function] += 1


def is_strict(node_id: str, marker_expression: str, sampled: Mapping[str, int] = SAMPLED_CASES) -> bool:
    """Return whether every call of this test has its shapes checked: of the functions in `sampled`, except by day."""
    return node_id.partition("[")[0] in sampled and "not nightly" not in marker_expression
