"""Tests of many like cases, of which some run by day: every n-th of a function, and all of them in the nightly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

SAMPLED_CASES = {
    "tests/attacks/test_crash_points.py::test_some_crash_points": 3,
    "tests/attacks/test_faults_of_files.py::test_a_fault_of_a_file_is_one_line": 2,
    "tests/attacks/test_resumed_elsewhere.py::test_under_the_same_conditions_it_ends_with_the_same_bytes": 2,
    "tests/docs/test_translation_race.py::test_the_size_is_the_one_asked_for": 3,
    "tests/parity/test_browser_encoders.py::test_an_encoder_computes_what_transformers_computes": 2,
    "tests/parity/test_browser_engine.py::test_a_translator_writes_what_torch_writes": 3,
    "tests/parity/test_huggingface_configs.py::test_rotary_positions_by_their_old_names": 3,
    "tests/parity/test_huggingface_configs.py::test_the_page_tells_which_engine_computes_a_family": 6,
    "tests/parity/test_huggingface_configs.py::test_what_a_config_leaves_out_is_what_transformers_takes": 4,
    "tests/parity/test_huggingface_families.py::test_a_classifier_is_that_of_transformers": 4,
    "tests/parity/test_huggingface_families.py::test_a_decoder_is_that_of_transformers": 3,
    "tests/parity/test_huggingface_families.py::test_a_model_of_hidden_words_is_that_of_transformers": 4,
    "tests/parity/test_huggingface_families.py::test_a_pair_is_that_of_transformers": 2,
    "tests/parity/test_huggingface_families.py::test_a_pair_writes_the_tokens_of_transformers": 4,
    "tests/parity/test_huggingface_families.py::test_a_tagger_is_that_of_transformers": 4,
    "tests/parity/test_huggingface_families.py::test_an_encoder_is_that_of_transformers": 2,
    "tests/parity/test_huggingface_marian.py::test_logits_of_random_ids_are_theirs": 2,
    "tests/parity/test_huggingface_marian.py::test_two_hundred_translations_are_theirs_by_every_engine": 3,
    "tests/runtime/shards/test_command.py::test_columns_hold_what_the_models_answer": 3,
    "tests/runtime/shards/test_command.py::test_lines_are_answered_as_the_command_for_lines_does": 3,
    "tests/runtime/test_engines.py::test_both_engines_find_the_same": 3,
    "tests/runtime/test_engines.py::test_every_choice_is_computed_by_one_engine": 3,
    "tests/runtime/test_parity.py::test_neither_threads_nor_batches_change_a_bit": 2,
    "tests/runtime/test_parity.py::test_translations_and_scores_are_those_of_the_torch_engine": 3,
    "tests/runtime/test_text_engines.py::test_texts_are_written_as_by_the_model": 3,
    "tests/system/test_every_command.py::test_bad_files": 2,
    "tests/system/test_every_command.py::test_streams": 2,
    "tests/system/test_readers_explained.py::test_heads_of_a_language_model": 2,
    "tests/system/test_resume.py::test_a_signal_during_the_preparation_leaves_nothing_half_written": 2,
    "tests/system/test_signals.py::test_a_signal_is_one_line": 3,
    "tests/test_additions.py::test_an_addition_works_and_changes_few_files": 3,
    "tests/unit/data/test_alignment.py::test_one_lost_line_is_found": 3,
    "tests/unit/decoding/test_generation.py::test_the_cache_changes_nothing_and_there_is_always_room": 2,
    "tests/unit/decoding/test_greedy.py::test_who_asks_for_no_scores_gets_the_same_tokens": 2,
    "tests/unit/explain/doctor/test_examination.py::test_a_sound_model_of_any_kind_passes": 6,
    "tests/unit/explain/doctor/test_examination.py::test_no_seed_raises_a_false_alarm": 3,
    "tests/unit/explain/doctor/test_language_model.py::test_a_sound_language_model_passes": 5,
    "tests/unit/explain/drawing/test_model_drawing.py::test_texts_fit_their_boxes_and_nothing_overlaps": 3,
    "tests/unit/explain/head_analysis/test_saliency.py::test_a_hidden_token_is_seen_by_nobody": 2,
    "tests/unit/explain/head_analysis/test_saliency.py::test_gradient_times_input_is_a_derivative": 3,
    "tests/unit/models/test_choices.py::test_every_parameter_gets_a_gradient": 3,
    "tests/unit/models/test_choices.py::test_neither_padding_nor_the_future_changes_anything": 3,
    "tests/unit/models/test_choices.py::test_recorded_weights_are_rows_that_sum_to_one": 3,
    "tests/unit/models/test_choices.py::test_positions_go_on_beyond_every_table": 3,
    "tests/unit/models/test_choices.py::test_step_by_step_is_teacher_forcing": 3,
    "tests/unit/models/test_encoder_decoder.py::test_no_length_is_so_long_that_padding_changes_something": 5,
    "tests/unit/models/test_encoder_decoder.py::test_reordered_and_dropped_rows_go_on_as_if_they_had_been_alone": 3,
    "tests/unit/models/test_encoder_decoder.py::test_step_by_step_is_teacher_forcing_at_every_position": 3,
    "tests/unit/models/test_language_model.py::test_reading_in_pieces_is_reading_at_once": 3,
    "tests/unit/models/test_new_lengths.py::test_training_goes_on_after_a_validation_of_any_length": 4,
    "tests/unit/phrasebook/test_generate.py::test_split_has_the_sizes_asked_for_and_shares_no_sentence": 2,
    "tests/unit/tasks/test_embedding.py::test_vectors_of_lines_and_tokens_are_those_of_the_model_alone": 4,
    "tests/unit/tasks/test_language_model_evaluation.py::"
    "test_every_token_is_predicted_once_from_what_the_stride_leaves": 3,
    "tests/unit/training/test_loop.py::test_an_update_is_launched_without_asking_the_device": 5,
    "tests/unit/training/test_loop.py::test_stopped_and_resumed_is_bit_identical": 2,
    "tests/unit/training/test_loop.py::test_validation_sees_the_average_and_training_goes_on_with_its_own": 5,
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
