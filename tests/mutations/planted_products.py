"""Mutations of the product around the models: each names the one test that has to notice it."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

_BROWSER = "src/dikkat/web/engine"
_CLASSROOM = "src/dikkat/lessons/classroom"
_DOCUMENTS = "runtime/src/dikkat_runtime/documents"
_INTEROP = "src/dikkat/interop"
_PHRASEBOOK = "tools/phrasebook"
_RUNTIME = "runtime/src/dikkat_runtime"
_SERVER = "runtime/src/dikkat_runtime/server"
_SHARDS = "runtime/src/dikkat_runtime/shards"
_ROWS = "runtime/src/dikkat_runtime/rows"
_TASKS = "runtime/src/dikkat_runtime/tasks"

CLASSROOM = [
    Mutation("tests/unit/classroom/test_recipes.py::test_a_word_that_occurs_once_is_not_kept", f"{_CLASSROOM}/translating.py", "min_freq=2)", "min_freq=1)"),
    Mutation("tests/unit/classroom/test_recipes.py::test_a_word_that_occurs_once_is_not_kept", f"{_CLASSROOM}/translating.py", "counts.most_common()", "sorted(counts.items())"),
    Mutation("tests/unit/classroom/test_recipes.py::test_gradients_are_those_of_one_batch_cut_to_a_norm_of_one", f"{_CLASSROOM}/translating.py", "            nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n", ""),
    Mutation("tests/unit/classroom/test_recipes.py::test_gradients_are_those_of_one_batch_cut_to_a_norm_of_one", f"{_CLASSROOM}/translating.py", "            optimizer.zero_grad()\n", ""),
    Mutation("tests/unit/classroom/test_recipes.py::test_the_first_weights_fill_the_range_of_glorot", f"{_CLASSROOM}/translating.py", "nn.init.xavier_uniform_(", "nn.init.kaiming_uniform_("),
    Mutation("tests/unit/classroom/test_recipes.py::test_the_loss_is_the_mean_over_all_words_but_padding", f"{_CLASSROOM}/translating.py", "total + loss.item() * count, words + count", "total + loss.item(), words + 1"),
    Mutation("tests/unit/classroom/test_recipes.py::test_the_loss_is_the_mean_over_all_words_but_padding", f"{_CLASSROOM}/translating.py", ", ignore_index=pad)", ")"),
    Mutation("tests/unit/classroom/test_recipes.py::test_the_loss_is_the_mean_over_all_words_but_padding", f"{_CLASSROOM}/translating.py", 'value=tgt_vocab["<bos>"])', 'value=tgt_vocab["<eos>"])'),
    Mutation("tests/unit/classroom/test_recipes.py::test_words_of_the_book_stand_apart_from_their_signs", f"{_CLASSROOM}/translating.py", 'r"(?<=\\S)([,.!?])"', 'r"(?<=\\S)([,.!])"'),
    Mutation("tests/unit/classroom/test_recipes.py::test_a_map_is_drawn_with_a_row_a_query", f"{_CLASSROOM}/translating.py", "axes.imshow(matrices[row, column]", "axes.imshow(matrices[row, column].T"),
    Mutation("tests/unit/classroom/test_recipes.py::test_attention_of_a_block_drops_weights_too", f"{_CLASSROOM}/textbook.py", "attention_dropout=dropout,", "attention_dropout=0.0,"),
    Mutation("tests/unit/classroom/test_recipes.py::test_a_part_drops_by_the_probability_that_it_is_given", f"{_CLASSROOM}/textbook.py", "            dropout=dropout,\n            bias=bias,\n", "            bias=bias,\n"),
    Mutation("tests/unit/classroom/test_recipes.py::test_half_of_the_sums_with_positions_are_dropped_and_the_others_doubled", f"{_CLASSROOM}/textbook.py", "return self.dropout(self.positions(X, offset))", "return self.positions(X, offset)"),
    Mutation("tests/unit/classroom/test_recipes.py::test_a_part_drops_by_the_probability_that_it_is_given", f"{_CLASSROOM}/nyu.py", "bias=False, output_bias=True, dropout=p\n", "bias=False, output_bias=True\n"),
    Mutation("tests/unit/classroom/test_recipes.py::test_a_part_drops_by_the_probability_that_it_is_given", f"{_CLASSROOM}/nyu.py", "ours.BlockSettings(dropout=p, ", "ours.BlockSettings("),
    Mutation("tests/unit/classroom/test_recipes.py::test_a_part_drops_by_the_probability_that_it_is_given", f"{_CLASSROOM}/nyu.py", "input_vocab_size, p=p)", "input_vocab_size)"),
    Mutation("tests/unit/classroom/test_recipes.py::test_a_long_review_keeps_its_beginning_and_a_short_one_is_filled_up", f"{_CLASSROOM}/nyu.py", "cut = [row[:length] for row in rows]", "cut = [row[-length:] for row in rows]"),
    Mutation("tests/unit/classroom/test_recipes.py::test_titles_are_compared_by_the_cosine_of_their_pairs_of_letters", f"{_CLASSROOM}/nyu.py", "return row / row.norm().clamp_min(1e-9)", "return row"),
    Mutation("tests/unit/classroom/test_recipes.py::test_titles_are_compared_by_the_cosine_of_their_pairs_of_letters", f"{_CLASSROOM}/nyu.py", '[f" {word} " for word', '[f" {word}" for word'),
    Mutation("tests/unit/classroom/test_weights.py::test_a_textbook_translator_with_bias_and_two_vocabularies_gives_its_logits_and_maps", f"{_CLASSROOM}/weights.py", 'W_{part}" for part in "qkv"', 'W_{part}" for part in "kqv"'),
    Mutation("tests/unit/classroom/test_weights.py::test_a_textbook_translator_with_bias_and_two_vocabularies_gives_its_logits_and_maps", f"{_CLASSROOM}/weights.py", '_attention("cross_attention", "attention2")', '_attention("cross_attention", "attention1")'),
]  # fmt: skip

ALONE = [
    Mutation("tests/unit/models/test_classifier.py::test_the_first_token_sees_the_last_one", "src/dikkat/models/classifier.py", "        return self.encoder(x, key_mask(mask), position_ids=position_ids)", "        return self.encoder(x, key_mask(mask) & torch.ones(x.shape[1], x.shape[1]).tril().bool(), position_ids=position_ids)"),
    Mutation("tests/unit/nn/test_feed_forward.py::test_it_is_the_formula", "src/dikkat/nn/layers.py", "return self.outer(self.inner(x, relu=True))", "return self.outer(self.inner(x))"),
]  # fmt: skip

SERVER = [
    Mutation("tests/runtime/server/test_keys.py::test_a_key_is_known_by_all_its_bytes", f"{_SERVER}/keys.py", "hmac.compare_digest(digest, key.digest)", "hmac.compare_digest(digest[:1], key.digest[:1])"),
    Mutation("tests/runtime/server/test_keys.py::test_keys_are_compared_in_a_time_that_reveals_nothing", f"{_SERVER}/keys.py", "hmac.compare_digest(digest, key.digest)", "digest == key.digest"),
    Mutation("tests/runtime/server/test_keys.py::test_keys_are_compared_in_a_time_that_reveals_nothing", f"{_SERVER}/keys.py", "            match = key\n", "            return key\n"),
    Mutation("tests/runtime/server/test_keys.py::test_an_allowance_comes_back_evenly_and_never_beyond_a_minute", f"{_SERVER}/keys.py", "(now - self._at) * self._per_minute / 60", "0.0"),
    Mutation("tests/runtime/server/test_keys.py::test_an_allowance_comes_back_evenly_and_never_beyond_a_minute", f"{_SERVER}/keys.py", "(now - self._at) * self._per_minute / 60", "(now - self._at) * self._per_minute"),
    Mutation("tests/runtime/server/test_keys.py::test_an_allowance_comes_back_evenly_and_never_beyond_a_minute", f"{_SERVER}/keys.py", "        self._at = now\n", ""),
    Mutation("tests/runtime/server/test_keys.py::test_an_allowance_comes_back_evenly_and_never_beyond_a_minute", f"{_SERVER}/keys.py", "min(self._per_minute, self._left +", "(self._left +"),
    Mutation("tests/runtime/server/test_budgets.py::test_a_body_of_no_declared_length_is_bounded_all_the_same", f"{_SERVER}/bodies.py", "        if size > most:\n", "        if False:\n"),
    Mutation("tests/runtime/server/test_budgets.py::test_glossaries_are_bounded_for_each_owner", f"{_SERVER}/glossaries.py", "if len(own) >= self._limits.glossaries:", "if False:"),
]  # fmt: skip

GARBAGE_AND_FORMS = [
    Mutation("tests/runtime/server/test_process.py::test_all_threads_stop_for_a_full_collection_of_garbage_only_where_the_server_says_so", f"{_SERVER}/running.py", "        gc.set_threshold(*_YOUNG_OBJECTS, _NEVER)\n", ""),
    Mutation("tests/runtime/server/test_process.py::test_all_threads_stop_for_a_full_collection_of_garbage_only_where_the_server_says_so", f"{_SERVER}/running.py", "        if gc.get_count()[2] > _YOUNG_OBJECTS[1]:\n            gc.collect()\n", "        gc.collect()\n"),
    Mutation("tests/runtime/server/test_bodies.py::test_escapes_of_a_form_are_those_of_the_standard_library", f"{_SERVER}/bodies.py", "is_escape = digits.max(axis=1, initial=0) < 16", "is_escape = digits[:, 0] < 16"),
    Mutation("tests/runtime/server/test_bodies.py::test_escapes_of_a_form_are_those_of_the_standard_library", f"{_SERVER}/bodies.py", "16 * digits[:, 0] + digits[:, 1]", "16 * digits[:, 1] + digits[:, 0]"),
    Mutation("tests/runtime/server/test_bodies.py::test_fields_of_a_form_are_those_of_the_standard_library", f"{_SERVER}/bodies.py", 'pair.replace(b"+", b" ").partition', "pair.partition"),
    Mutation("tests/runtime/server/test_bodies.py::test_fields_of_a_form_are_those_of_the_standard_library", f"{_SERVER}/bodies.py", "for pair in pairs if pair]", "for pair in pairs]"),
]  # fmt: skip

CORRECTIONS = [
    Mutation("tests/runtime/test_corrections.py::test_a_source_is_the_same_in_other_white_space_and_composition_and_in_no_other_way", f"{_TASKS}/corrections.py", 'unicodedata.normalize("NFC", source).split()', "source.split()"),
    Mutation("tests/runtime/test_corrections.py::test_a_source_is_the_same_in_other_white_space_and_composition_and_in_no_other_way", f"{_TASKS}/corrections.py", 'unicodedata.normalize("NFC", source).split()', 'unicodedata.normalize("NFC", source).casefold().split()'),
    Mutation("tests/runtime/test_corrections.py::test_a_correction_that_is_made_anew_is_the_newest", f"{_TASKS}/corrections.py", "before = texts.pop(_key(source), None)", "before = texts.get(_key(source), None)"),
    Mutation("tests/runtime/test_corrections.py::test_what_another_process_writes_is_seen_though_the_file_is_as_long", f"{_TASKS}/corrections.py", "status.st_mtime_ns, status.st_size, status.st_ino", "0, status.st_size, 0"),
    Mutation("tests/runtime/test_corrections.py::test_what_another_process_writes_is_seen_though_the_file_is_as_long", f"{_TASKS}/corrections.py", "self._is_fixed = True", "self._is_fixed = False"),
    Mutation("tests/runtime/test_neighbours.py::test_near_is_the_dice_coefficient_of_the_words", f"{_TASKS}/corrections.py", "2 * shared[numbers] / (len(words) + self._lengths[numbers])", "shared[numbers] / np.maximum(len(words), self._lengths[numbers])"),
    Mutation("tests/runtime/test_neighbours.py::test_near_is_the_dice_coefficient_of_the_words", f"{_TASKS}/corrections.py", "np.lexsort((-numbers, -similarity))", "np.lexsort((numbers, -similarity))"),
]  # fmt: skip

CONFIDENCE = [
    Mutation("tests/unit/tasks/test_calibration.py::test_a_fault_leaves_at_most_a_half", f"{_TASKS}/confidence.py", "min(confidence.probability, MAX_WHEN_FLAGGED)", "confidence.probability"),
    Mutation("tests/unit/tasks/test_calibration.py::test_a_line_is_as_right_as_its_pieces", f"{_TASKS}/confidence.py", "np.prod(probabilities) if exact", "np.prod(probabilities) if not exact"),
    Mutation("tests/unit/tasks/test_calibration.py::test_a_given_translation_has_the_expected_odds_of_a_wrong_word_besides", f"{_TASKS}/confidence.py", "np.exp(-logits)", "np.exp(logits)"),
    Mutation("tests/unit/tasks/test_calibration.py::test_probabilities_are_those_of_the_features_and_the_kept_weights", f"{_TASKS}/confidence.py", "if is_given else (own.sentence, own.word)", "if not is_given else (own.sentence, own.word)"),
    Mutation("tests/unit/tasks/test_confidence.py::test_a_garbled_source_has_its_words_with_their_letters_mixed", f"{_TASKS}/confidence_fitting.py", "if chance.random() < share", "if chance.random() < 0"),
    Mutation("tests/unit/tasks/test_calibration.py::test_the_calibration_is_that_of_models_that_have_not_read_the_pair", f"{_TASKS}/confidence_fitting.py", "unseen, own = folds != fold,", "unseen, own = folds >= 0,"),
    Mutation("tests/unit/tasks/test_calibration.py::test_the_calibration_is_that_of_models_that_have_not_read_the_pair", f"{_TASKS}/confidence_fitting.py", "    weights[-1] += shift", "    weights[-1] -= shift"),
    Mutation("tests/unit/tasks/test_calibration.py::test_the_calibration_is_that_of_models_that_have_not_read_the_pair", f"{_TASKS}/confidence_fitting.py", "np.c_[features, is_reference]", "np.c_[features, 0 * is_reference]"),
    Mutation("tests/unit/tasks/test_lexicon.py::test_links_are_those_of_model_1_in_both_directions", f"{_TASKS}/lexicon.py", "_probabilities(own, cells, of_target)", "_probabilities(own, cells, of_source)"),
    Mutation("tests/unit/tasks/test_lexicon.py::test_words_are_compared_as_they_are_linked", f"{_TASKS}/lexicon.py", "if is_copied:", "if not is_copied:"),
    Mutation("tests/unit/tasks/test_calibration.py::test_the_regression_is_that_of_the_formula", f"{_TASKS}/logistic.py", "[ridge] * features.shape[1] + [0.1]", "[0.1] * features.shape[1] + [ridge]"),
    Mutation("tests/unit/text/test_term_constraint.py::test_a_word_is_wanted_until_it_is_there_as_often_as_demanded_and_then_banned", f"{_RUNTIME}/engine/terms.py", "left = tuple(count - (number == complete[0]) for", "left = tuple(count - 0 * (number == complete[0]) for"),
    Mutation("tests/unit/text/test_term_constraint.py::test_a_word_is_wanted_until_it_is_there_as_often_as_demanded_and_then_banned", f"{_RUNTIME}/engine/terms.py", "if nodes[node].ends and not any(state.left[number] for number in nodes[node].ends)", "if False"),
    Mutation("tests/unit/text/test_term_constraint.py::test_a_word_belongs_where_the_model_looks_at_its_source", f"{_RUNTIME}/engine/terms.py", "mass = 1.0 if attention is None or not positions else", "mass = 1.0 if True else"),
]  # fmt: skip

DOCUMENTS = [
    Mutation("tests/unit/documents/test_borders.py::test_a_lone_tag_goes_with_its_words_into_the_reverse_order_and_a_line_break_does_not", f"{_DOCUMENTS}/placement.py", "if flipped.max() > gains.max() + 1e-6 and not is_break else gains", "if flipped.max() > gains.max() + 1e-6 else gains"),
    Mutation("tests/unit/documents/test_borders.py::test_a_lone_tag_goes_with_its_words_into_the_reverse_order_and_a_line_break_does_not", f"{_DOCUMENTS}/placement.py", "if flipped.max() > gains.max() + 1e-6 and not is_break else gains", "if is_break else gains"),
    Mutation("tests/unit/documents/test_borders.py::test_cues_within_two_seconds_are_one_sentence", f"{_DOCUMENTS}/subtitles.py", "_MAX_GAP = 2.0", "_MAX_GAP = 20.0"),
    Mutation("tests/unit/documents/test_borders.py::test_cues_within_two_seconds_are_one_sentence", f"{_DOCUMENTS}/subtitles.py", "60.0**power * float(part)", "float(part)"),
    Mutation("tests/unit/documents/test_borders.py::test_cues_within_two_seconds_are_one_sentence", f"{_DOCUMENTS}/subtitles.py", "is_near = 0 <= other.begins - one.ends <=", "is_near = other.begins - one.ends <="),
    Mutation("tests/unit/documents/test_compiled_catalogs.py::test_what_is_written_is_read_back_and_each_string_ends_in_a_zero", f"{_DOCUMENTS}/po.py", 'struct.pack(f"{order}2I", len(string), position)', 'struct.pack("<2I", len(string), position)'),
    Mutation("tests/unit/documents/test_compiled_catalogs.py::test_a_catalog_keeps_its_byte_order_and_programs_find_its_messages", f"{_DOCUMENTS}/po.py", "for key, texts in messages.items()}, self.order)", "for key, texts in messages.items()})"),
    Mutation("tests/unit/documents/test_compiled_catalogs.py::test_a_catalog_keeps_its_byte_order_and_programs_find_its_messages", f"{_DOCUMENTS}/po.py", "keys = sorted(messages)", "keys = list(messages)"),
    Mutation("tests/unit/documents/test_compiled_catalogs.py::test_what_is_written_is_read_back_and_each_string_ends_in_a_zero", f"{_DOCUMENTS}/po.py", "position += len(string) + 1", "position += len(string)"),
    Mutation("tests/unit/documents/test_compiled_catalogs.py::test_a_catalog_keeps_its_byte_order_and_programs_find_its_messages", f"{_DOCUMENTS}/po.py", '.rpartition("\\4")[2].split("\\0")', '.split("\\0")'),
    Mutation("tests/unit/documents/test_compiled_catalogs.py::test_a_catalog_keeps_its_byte_order_and_programs_find_its_messages", f"{_DOCUMENTS}/po.py", 'targets[form] not in ("", source)', 'targets[form] != ""'),
    Mutation("tests/unit/documents/test_compiled_catalogs.py::test_the_forms_of_one_and_of_many", f"{_DOCUMENTS}/messages.py", "forms[1] if int(count[1]) > 1 else None", "forms[0] if int(count[1]) > 1 else None"),
    Mutation("tests/unit/documents/test_compiled_catalogs.py::test_the_forms_of_one_and_of_many", f"{_DOCUMENTS}/messages.py", "MANY = 5", "MANY = 2"),
    Mutation("tests/unit/documents/test_compiled_catalogs.py::test_an_unreadable_rule_is_that_of_most_languages", f"{_DOCUMENTS}/messages.py", "return cls(2, 0, is_known=False)", "return cls(2, 1, is_known=False)"),
]  # fmt: skip

BROWSER = [
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_activations", f"{_BROWSER}/layers.js", "gelu_tanh: geluTanh", "gelu_tanh: gelu"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_activations", f"{_BROWSER}/layers.js", "geglu: gelu, geglu_tanh: geluTanh, swiglu: silu", "geglu: silu, geglu_tanh: geluTanh, swiglu: gelu"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_activations", f"{_BROWSER}/layers.js", "gate(inner[2 * row * width + i]) * inner[(2 * row + 1) * width + i]", "gate(inner[(2 * row + 1) * width + i]) * inner[2 * row * width + i]"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_norms", f"{_BROWSER}/layers.js", "fround(Math.sqrt(fround(fround(pairwiseSum(squares, 0, width) / width) + eps)))", "fround(Math.sqrt(pairwiseSum(squares, 0, width) / width)) + eps"),
    Mutation("tests/parity/test_browser_decoders.py::test_few_bits_round_as_in_the_native_engine", f"{_BROWSER}/layers.js", "if (count > 128) {", "if (count > 16) {"),
    Mutation("tests/parity/test_browser_decoders.py::test_few_bits_round_as_in_the_native_engine", f"{_BROWSER}/attention.js", "sums[(start + s) % 16] += row[s];", "sums[0] += row[s];"),
    Mutation("tests/unit/interop/test_chat_template.py::test_special_tokens_of_a_message_are_text", f"{_RUNTIME}/text/foreign_tokenizer.py", "mark.findall(part) if number % 2 == 0 else []", "mark.findall(part)"),
    Mutation("tests/unit/interop/test_chat_template.py::test_a_page_reads_a_message_as_the_runtime_does", f"{_BROWSER}/tokenizer.js", "number % 2 || !this.markEntries ? [part]", "!this.markEntries ? [part]"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_positions", f"{_BROWSER}/layers.js", "pair / Math.max(pairs - 1, 1)", "pair / pairs"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_positions", f"{_BROWSER}/layers.js", "x[i + 1] = fround(even * sine) + fround(odd * cosine)", "x[i + 1] = fround(odd * cosine) - fround(even * sine)"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_attention_of_groups_of_heads", f"{_BROWSER}/attention.js", "Math.floor((head * groups) / heads) * width", "(head % groups) * width"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_attention_of_groups_of_heads", f"{_BROWSER}/attention.js", "row[s] = !mask || mask[s] ? exponential(fround(row[s] - largest)) : 0;", "row[s] = exponential(fround(row[s] - largest));"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_bfloat16_rounds_halves_to_the_even_number", f"{_BROWSER}/attention.js", "+ 0x7fff + ((BITS[0] >>> 16) & 1)", "+ 0x8000"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_a_cache_grows_and_its_copy_is_its_own", f"{_BROWSER}/attention.js", "grown.set(held[name].subarray(0, from));", "grown.set(held[name].subarray(0, from - this.width));"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_a_cache_grows_and_its_copy_is_its_own", f"{_BROWSER}/attention.js", "keys: grownCopy(keys, used), values: grownCopy(values, used)", "keys, values"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_the_largest_and_what_is_drawn_of_them", f"{_BROWSER}/search.js", "best[at - 1][0] < row[i]", "best[at - 1][0] <= row[i]"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_the_largest_and_what_is_drawn_of_them", f"{_BROWSER}/language_model.js", "if (mass >= topP * total) break;", "if (mass + power(id) >= topP * total) break;"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_the_largest_and_what_is_drawn_of_them", f"{_BROWSER}/language_model.js", "logits[first]) / temperature)", "logits[first]) * temperature)"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_the_largest_and_what_is_drawn_of_them", f"{_BROWSER}/language_model.js", "if (uniform < end) break;", "if (uniform <= end) break;"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_the_largest_and_what_is_drawn_of_them", f"{_BROWSER}/translator.js", "Math.floor(2 * sourceTokens) + 10", "Math.floor(2 * sourceTokens) + 1"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_activations_are_rounded_to_steps_halves_to_the_even_one", f"{_BROWSER}/linear.js", "Math.fround(Math.fround(x + 12582912) - 12582912)", "Math.round(x)"),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_capital_i_of_turkish", f"{_BROWSER}/casing.js", '.replaceAll("I", "ı")', ""),
    Mutation("tests/unit/web/test_numbers_in_javascript.py::test_a_step_has_as_many_parts_as_the_file_is_written_with", "src/dikkat/run_directory/tensor_files.py", "FINE_STEPS = 254", "FINE_STEPS = 127"),
    Mutation("tests/unit/web/test_tokenizer.py::test_every_kind_of_vocabulary", f"{_BROWSER}/tokenizer.js", "if (ranked[at] < ranked[first]) first = at;", "if (ranked[at] <= ranked[first]) first = at;"),
    Mutation("tests/unit/web/test_model_file.py::test_rows_are_quantized_to_the_bytes_of_the_c_kernels", "src/dikkat/run_directory/tensor_files.py", "np.rint(matrix * share[:, None])", "np.floor(matrix * share[:, None] + 0.5)"),
]  # fmt: skip

SHARDS = [
    Mutation("tests/runtime/shards/test_shares.py::test_every_file_belongs_to_one_task", f"{_SHARDS}/call.py", "shards[int(number) - 1 :: int(total)]", "shards[int(number) :: int(total)]"),
    Mutation("tests/runtime/shards/test_shares.py::test_files_of_folders_keep_their_paths_and_what_is_hidden_or_written_is_left_out", f"{_SHARDS}/call.py", '_HIDDEN = (".", "_")', '_HIDDEN = (".",)'),
    Mutation("tests/runtime/shards/test_shares.py::test_files_of_folders_keep_their_paths_and_what_is_hidden_or_written_is_left_out", f"{_SHARDS}/call.py", "out / inner.relative_to(path), asked", "out / inner.name, asked"),
    Mutation("tests/runtime/shards/test_shares.py::test_files_of_folders_keep_their_paths_and_what_is_hidden_or_written_is_left_out", f"{_SHARDS}/call.py", "if here in above or (above and here == outputs):", "if here in above:"),
    Mutation("tests/runtime/shards/test_shares.py::test_files_of_folders_keep_their_paths_and_what_is_hidden_or_written_is_left_out", f"{_SHARDS}/call.py", "key=lambda shard: str(shard.output))", "key=lambda shard: shard.size)"),
    Mutation("tests/runtime/shards/test_shares.py::test_work_is_of_like_size_the_largest_first_and_all_of_it", f"{_SHARDS}/work.py", "key=lambda item: -item.size)", "key=lambda item: item.size)"),
    Mutation("tests/runtime/shards/test_shares.py::test_work_is_of_like_size_the_largest_first_and_all_of_it", f"{_SHARDS}/work.py", "math.ceil(shard.size / fair), MAX_PARTS)", "math.ceil(shard.size / fair))"),
    Mutation("tests/runtime/shards/test_shares.py::test_joining_takes_no_bytes_and_counts_of_parts_are_added_up", f"{_SHARDS}/work.py", "return 0.0 if self.joined is not None else self.shard.size / self.parts", "return self.shard.size / self.parts"),
    Mutation("tests/runtime/shards/test_shares.py::test_joining_takes_no_bytes_and_counts_of_parts_are_added_up", f"{_SHARDS}/writing.py", 'counts.update(reply["counts"])', 'counts |= Counter(reply["counts"])'),
    Mutation("tests/runtime/shards/test_shares.py::test_what_is_left_follows_from_the_share_that_is_done", f"{_SHARDS}/driver.py", "seconds * (1 - share) / share", "seconds / share"),
    Mutation("tests/runtime/shards/test_shares.py::test_what_is_left_follows_from_the_share_that_is_done", f"{_SHARDS}/driver.py", "rows if work.joined is None else 0, fraction", "rows, fraction"),
    Mutation("tests/runtime/shards/test_shares.py::test_what_is_left_follows_from_the_share_that_is_done", f"{_SHARDS}/driver.py", "self._done_bytes + sum(work.size * fraction", "self._done_bytes + sum(work.shard.size"),
    Mutation("tests/runtime/shards/test_shares.py::test_a_time_is_hours_minutes_and_seconds", f"{_SHARDS}/driver.py", "divmod(round(seconds), 60)", "divmod(int(seconds), 60)"),
    Mutation("tests/runtime/shards/test_shares.py::test_an_estimate_goes_by_bytes_and_is_shared_by_workers", f"{_SHARDS}/driver.py", "clock_time(seconds / workers)", "clock_time(seconds)"),
]  # fmt: skip

ROWS = [
    Mutation("tests/runtime/shards/test_row_rules.py::test_a_row_ends_at_a_line_feed_with_the_return_before_it", f"{_ROWS}/line_rows.py", 'body.removesuffix(b"\\r") if body is not line else body', 'body.removesuffix(b"\\r")'),
    Mutation("tests/runtime/shards/test_formats.py::test_lines", f"{_ROWS}/line_rows.py", "line.removeprefix(BOM) if number == 0 else line", "line"),
    Mutation("tests/runtime/shards/test_formats.py::test_objects_of_json_keep_their_bytes", f"{_ROWS}/line_rows.py", '(b", " if content and added else b"")', 'b", "'),
    Mutation("tests/runtime/shards/test_row_rules.py::test_a_cell_is_quoted_where_a_reader_would_lose_something", f"{_ROWS}/line_rows.py", " or text != text.strip():", ":"),
    Mutation("tests/runtime/shards/test_row_rules.py::test_a_cell_is_quoted_where_a_reader_would_lose_something", f"{_ROWS}/line_rows.py", "text.replace('\"', '\"\"')", "text"),
    Mutation("tests/runtime/shards/test_row_rules.py::test_a_cell_without_quotation_marks_is_on_one_line_in_one_column", f"{_ROWS}/line_rows.py", '10: " ", 13: " "}', '10: " "}'),
    Mutation("tests/runtime/shards/test_formats.py::test_packed_lines_are_the_same_bytes_each_time", f"{_ROWS}/packed_files.py", "compresslevel=6, mtime=0)", "compresslevel=6)"),
]  # fmt: skip

CATALOGS = [
    Mutation("tests/unit/test_localization.py::test_messages_are_said_in_turkish", f"{_RUNTIME}/localization.py", "not isinstance(message, Message)", "False"),
    Mutation("tests/unit/test_localization.py::test_values_that_are_sentences_of_a_catalog_are_never_translated", f"{_RUNTIME}/localization.py", "localized(value, code) if isinstance(value, str)", "_translated(value, code) if isinstance(value, str)"),
    Mutation("tests/unit/test_localization.py::test_an_error_keeps_its_message_on_every_way", f"{_RUNTIME}/errors.py", "keep what it is made of.\"\"\"\n        return self\n", "keep what it is made of.\"\"\"\n        return str.__str__(self)\n"),
    Mutation("tests/unit/test_localization.py::test_what_is_shown_is_in_the_spoken_language", f"{_RUNTIME}/text/casing.py", "localized(text).translate(_SHOWN_IN_LINES)", "text.translate(_SHOWN_IN_LINES)"),
    Mutation("tests/unit/test_localization.py::test_a_catalog_is_read_as_gettext_writes_it", f"{_RUNTIME}/localization.py", '_ESCAPES = {"n": "\\n", "t"', '_ESCAPES = {"t"'),
    Mutation("tests/unit/test_localization.py::test_a_catalog_is_read_as_gettext_writes_it", f"{_RUNTIME}/localization.py", ".replace('\"\\n\"', \"\")", ""),
    Mutation("tests/unit/test_localization.py::test_the_language_is_that_of_the_locale", f"{_RUNTIME}/localization.py", '("LC_ALL", "LC_MESSAGES", "LANG")', '("LANG", "LC_MESSAGES", "LC_ALL")'),
    Mutation("tests/unit/test_localization.py::test_the_language_is_that_of_the_locale", f"{_RUNTIME}/localization.py", 'if _primary(locale) not in ("C", "POSIX"):', 'if locale not in ("C", "POSIX"):'),
    Mutation("tests/unit/test_localization.py::test_the_option_is_taken_anywhere_before_a_double_dash", f"{_RUNTIME}/localization.py", "            return [*kept, word, *words]\n", "            return [*kept, *words]\n"),
]  # fmt: skip

PHRASES = [
    Mutation("tests/unit/phrasebook/test_turkish_forms.py::test_capitals_know_both_i", f"{_PHRASEBOOK}/turkish_forms.py", '{"i": "İ", "ı": "I"}.get(text[0], text[0].upper())', "text[0].upper()"),
    Mutation("tests/unit/phrasebook/test_turkish_forms.py::test_an_n_joins_the_case_behind_every_possessive_of_the_third_person", f"{_PHRASEBOOK}/turkish_forms.py", "_PRONOMINAL_CASES if owner in (2, 5) else", "_PRONOMINAL_CASES if owner == 2 else"),
    Mutation("tests/unit/phrasebook/test_turkish_forms.py::test_consonant_softening_spares_one_syllable", f"{_PHRASEBOOK}/turkish_forms.py", '"g" if stem.endswith("nk") else', '"ğ" if stem.endswith("nk") else'),
    Mutation("tests/unit/phrasebook/test_french_forms.py::test_future", f"{_PHRASEBOOK}/french_forms.py", '(stem if stem[-2:-1] == "é" else _strong_stem(stem))', "_strong_stem(stem)"),
    Mutation("tests/unit/phrasebook/test_french_forms.py::test_imperative_drops_s_after_e_and_a", f"{_PHRASEBOOK}/french_forms.py", 'form.endswith(("es", "as"))', 'form.endswith("es")'),
    Mutation("tests/unit/phrasebook/test_french_forms.py::test_elision", f"{_PHRASEBOOK}/french_forms.py", " and not word.startswith(_ASPIRATED)", ""),
    Mutation("tests/unit/phrasebook/test_english_forms.py::test_plural", f"{_PHRASEBOOK}/english.py", " and noun[-2] not in _VOWELS", ""),
    Mutation("tests/unit/phrasebook/test_english_forms.py::test_progressive", f"{_PHRASEBOOK}/english.py", ' and not head.endswith("ee")', ""),
    Mutation("tests/unit/phrasebook/test_holdout.py::test_a_part_follows_from_the_words_alone", f"{_PHRASEBOOK}/generate.py", 'int.from_bytes(digest, "big") % 100', "hash(combination) % 100"),
    Mutation("tests/unit/phrasebook/test_holdout.py::test_four_in_a_hundred_are_for_the_test_and_two_for_validation", f"{_PHRASEBOOK}/generate.py", "bucket < _TEST_PERCENT + _VALIDATION_PERCENT", "bucket < _VALIDATION_PERCENT"),
    Mutation("tests/unit/phrasebook/test_holdout.py::test_a_sentence_of_two_held_out_parts_belongs_to_none", f"{_PHRASEBOOK}/generate.py", "return held_out.pop() if len(held_out) == 1 else None", "return sorted(held_out)[0]"),
    Mutation("tests/unit/phrasebook/test_holdout.py::test_from_turkish_he_and_she_are_held_out_together", f"{_PHRASEBOOK}/generate.py", '{"he": "o", "she": "o"}', '{"he": "o"}'),
    Mutation("tests/unit/phrasebook/test_holdout.py::test_a_chance_comes_true_with_its_probability", f"{_PHRASEBOOK}/nominals.py", "return self._random() < probability", "return self._random() > probability"),
]  # fmt: skip

FILES = [
    Mutation("tests/unit/interop/test_foreign_files.py::test_a_binary_of_marian_is_read_by_its_types", f"{_INTEROP}/marian.py", "/ np.float32(multiplier)", "* np.float32(multiplier)"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_a_binary_of_marian_is_read_by_its_types", f"{_INTEROP}/marian.py", " and name not in _EMBEDDINGS", ""),
    Mutation("tests/unit/interop/test_foreign_files.py::test_a_binary_of_marian_is_read_by_its_types", f"{_INTEROP}/marian.py", 'reader.part(reader.number("Q"))', 'reader.number("Q")'),
    Mutation("tests/unit/interop/test_foreign_files.py::test_another_binary_is_refused", f"{_INTEROP}/marian.py", "if version != _VERSION or not 0 < count", "if not 0 < count"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_whole_numbers_are_those_of_protocol_buffers", f"{_INTEROP}/sentencepiece_file.py", "while value > 0x7F:", "while value > 0xFF:"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_whole_numbers_are_those_of_protocol_buffers", f"{_INTEROP}/sentencepiece_file.py", "_varint(value % (1 << 64))", "_varint(value % (1 << 32))"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_rare_pieces_are_pieces_and_what_is_looked_up_is_none", f"{_INTEROP}/sentencepiece_file.py", "score < least - _LOOKED_UP", "score < least"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_rare_pieces_are_pieces_and_what_is_looked_up_is_none", f"{_INTEROP}/sentencepiece_file.py", "if len(entry) > 1 and entry not in known", "if entry not in known"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_ids_go_there_and_back", f"{_INTEROP}/piece_vocabulary.py", "        ours[1] = NEVER\n", ""),
    Mutation("tests/unit/interop/test_foreign_files.py::test_ids_go_there_and_back", f"{_INTEROP}/piece_vocabulary.py", "special = (begin, begin, end, unknown)", "special = (begin, begin, unknown, end)"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_ids_go_there_and_back", f"{_INTEROP}/piece_vocabulary.py", "*[self.rows[UNK_ID]] * count", "*[_NO_ROW] * count"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_ids_go_there_and_back", f"{_INTEROP}/piece_vocabulary.py", "for number, row in reversed(list(enumerate(self.rows)))", "for number, row in enumerate(self.rows)"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_what_a_user_has_defined_is_never_cut", f"{_INTEROP}/piece_vocabulary.py", "len(entry.encode()) * largest - 0.1", "len(entry) * largest - 0.1"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_a_row_is_rounded_to_the_nearest_step_of_its_largest_magnitude", f"{_INTEROP}/ctranslate2/model_file.py", "np.rint(array * scale[:, None])", "np.trunc(array * scale[:, None])"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_a_row_is_rounded_to_the_nearest_step_of_its_largest_magnitude", f"{_INTEROP}/ctranslate2/model_file.py", "largest = np.abs(array).max(axis=1)", "largest = array.max(axis=1)"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_a_row_is_rounded_to_the_nearest_step_of_its_largest_magnitude", f"{_INTEROP}/ctranslate2/model_file.py", ".astype(np.float32).reshape(-1, 1)", ".astype(np.float32).reshape(1, -1)"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_bfloat16_and_the_sizes_of_the_oldest_version", f"{_INTEROP}/ctranslate2/model_file.py", '(numbers.astype("<u4") << 16).view("<f4")', 'numbers.astype("<f4")'),
    Mutation("tests/unit/interop/test_foreign_files.py::test_bfloat16_and_the_sizes_of_the_oldest_version", f"{_INTEROP}/ctranslate2/model_file.py", "size, kind = size * kind, _TYPE_OF_SIZE", "size, kind = size, _TYPE_OF_SIZE"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_variables_are_written_in_the_order_of_their_names", f"{_INTEROP}/ctranslate2/model_file.py", "in sorted(model.variables.items()):", "in model.variables.items():"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_checksums_do_not_hang_on_the_order_of_settings", f"{_INTEROP}/ctranslate2/vocabularies.py", "{**config, OWN: own}, sort_keys=True)", "{**config, OWN: own})"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_a_map_of_words_names_the_list_of_the_end_with_what_is_always_written", f"{_INTEROP}/ctranslate2/vocabularies.py", "always = np.union1d(shortlist.always, lists[EOS_ID])", "always = shortlist.always"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_a_map_of_words_names_the_list_of_the_end_with_what_is_always_written", f"{_INTEROP}/ctranslate2/vocabularies.py", "piece not in (EOS_ID, UNK_ID)", "piece != EOS_ID"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_a_shortlist_of_marian_goes_there_and_back_and_has_its_checksum", f"{_INTEROP}/marian_shortlist.py", "(seed << 6) + (seed >> 2)", "(seed << 6) + (seed >> 3)"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_a_shortlist_of_marian_goes_there_and_back_and_has_its_checksum", f"{_INTEROP}/marian_shortlist.py", "always = np.unique(np.append(ours[:frequent], EOS_ID))", "always = np.unique(ours[:frequent])"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_pieces_of_a_list_are_read_by_the_rules_of_yaml", f"{_INTEROP}/marian.py", "key[1:-1].replace(\"''\", \"'\")", "key[1:-1]"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_pieces_of_a_list_are_read_by_the_rules_of_yaml", f"{_INTEROP}/marian.py", '"0": "\\0",', '"0": "0",'),
    Mutation("tests/unit/interop/test_foreign_files.py::test_a_package_names_both_languages", f"{_INTEROP}/argos_package.py", '"from_name": language_name(languages.source)', '"from_name": language_name(languages.target)'),
    Mutation("tests/unit/interop/test_foreign_files.py::test_a_package_that_unpacks_to_many_times_its_size_is_none", f"{_INTEROP}/guarded_zip.py", "size > min(_MAX_BYTES,", "size > max(_MAX_BYTES,"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_no_file_of_a_package_leads_elsewhere", f"{_INTEROP}/guarded_zip.py", 'or ".." in parts or', "or"),
    Mutation("tests/unit/interop/test_foreign_files.py::test_no_file_of_a_package_leads_elsewhere", f"{_INTEROP}/guarded_zip.py", "stat.S_ISLNK(entry.external_attr >> 16)", "stat.S_ISLNK(entry.external_attr)"),
]  # fmt: skip

HEADS = [
    Mutation(
        "tests/parity/test_word_classes.py::test_marked_spans_are_those_of_the_pipeline",
        f"{_TASKS}/tagger.py",
        """ or label.startswith("B-"):""",
        ":",
    ),
    Mutation(
        "tests/parity/test_word_classes.py::test_a_text_longer_than_the_model_reads_is_marked_to_its_end",
        f"{_TASKS}/tagger.py",
        "self._max_ids // 4 if start else 0",
        "self._max_ids // 2 + 1 if start else 0",
    ),
    Mutation(
        "tests/parity/test_word_classes.py::test_a_regression_answers_with_numbers",
        f"{_INTEROP}/family_settings.py",
        "or len(labels_of(theirs)) == 1",
        "",
    ),
    Mutation(
        "tests/parity/test_word_classes.py::test_served_answers_are_those_of_the_command",
        f"{_RUNTIME}/server/api/tei.py",
        '"start": span.start, "end": span.end}',
        '"start": span.start, "end": span.start}',
    ),
    Mutation(
        "tests/runtime/test_products.py::test_buckets_of_distances_are_added_to_scores",
        f"{_RUNTIME}/engine/products.py",
        "address(distances.bias), distances.is_causal",
        "address(distances.bias), False",
    ),
    Mutation(
        "tests/runtime/test_products.py::test_vectors_of_distances_are_multiplied_with_queries_and_keys",
        f"{_RUNTIME}/engine/products.py",
        "distances.vectors[0].shape[1] // 2, distances.reach",
        "distances.vectors[0].shape[1] // 2, 0",
    ),
    Mutation(
        "tests/runtime/test_text_engines.py::test_narrow_embeddings_without_a_layer_before_the_output_are_refused",
        f"{_RUNTIME}/engine/native_texts.py",
        "self._dense, self._norm, width = None, None, settings.model_dim",
        "self._dense, self._norm, width = None, None, settings.embedding_width",
    ),
    Mutation(
        "tests/unit/text/test_remembered_words.py::test_the_ids_of_a_text_are_those_of_the_library",
        f"{_RUNTIME}/text/tokenizer.py",
        "word and word == word.strip()",
        "word",
    ),
    Mutation(
        "tests/parity/test_word_table_kernel.py::test_the_kernel_scores_as_numpy",
        f"{_RUNTIME}/text/text_ngrams.py",
        "is_plain and text.isascii()",
        "text.isascii()",
    ),
    Mutation(
        "tests/parity/test_sentence_folders.py::test_every_pooling_is_theirs",
        f"{_RUNTIME}/engine/native_texts.py",
        "mask * order * 2 /",
        "mask * 2 /",
    ),
    Mutation(
        "tests/parity/test_sentence_folders.py::test_a_prompt_is_put_before_each_line",
        f"{_TASKS}/embedder.py",
        "(before + text).strip()",
        "text.strip()",
    ),
]
EXPORTS = [
    Mutation("tests/unit/interop/test_keras_parts.py::test_a_residual_sum_drops_in_training_as_ours", f"{_INTEROP}/keras_export/layers.py", "return keras.layers.Dropout(probability)(x) if probability else x", "return x"),
    Mutation("tests/unit/interop/test_keras_parts.py::test_a_residual_sum_drops_in_training_as_ours", f"{_INTEROP}/keras_export/layers.py", "return x + dropout(y, wrapper.dropout.probability)", "return x + y"),
    Mutation("tests/unit/interop/test_keras_parts.py::test_a_residual_sum_drops_in_training_as_ours", f"{_INTEROP}/keras_export/layers.py", "total = x + dropout(sub_layer(x), wrapper.dropout.probability)", "total = x + sub_layer(x)"),
    Mutation("tests/unit/interop/test_keras_parts.py::test_a_feed_forward_network_is_ours", f"{_INTEROP}/keras_export/layers.py", "partial(ops.gelu, approximate=True)", "partial(ops.gelu, approximate=False)"),
    Mutation("tests/unit/interop/test_keras_parts.py::test_a_feed_forward_network_is_ours", f"{_INTEROP}/keras_export/layers.py", "hidden = activation(gate) * content", "hidden = gate * activation(content)"),
]  # fmt: skip

INTERPOLATION = [
    Mutation("tests/unit/tasks/test_interpolation.py::test_each_weight_is_the_weighted_mean_in_float64", "src/dikkat/tasks/translation/adapted_weights.py", "before[name].double(), after[name].double(), share", "after[name].double(), before[name].double(), share"),
    Mutation("tests/unit/tasks/test_interpolation.py::test_what_is_written_is_a_finished_run_that_keeps_its_held_out_text", "src/dikkat/tasks/translation/adapted_weights.py", 'for part in ("validation", "general", "test") for side', 'for part in ("test",) for side'),
    Mutation("tests/unit/tasks/test_interpolation.py::test_what_cannot_be_interpolated_is_refused_and_nothing_is_written", "src/dikkat/tasks/translation/adapted_weights.py", "if not torch.isfinite(tensor).all():", "if torch.isinf(tensor).all():"),
]  # fmt: skip

PRODUCTS = [
    *CLASSROOM,
    *ALONE,
    *SERVER,
    *GARBAGE_AND_FORMS,
    *CORRECTIONS,
    *CONFIDENCE,
    *DOCUMENTS,
    *BROWSER,
    *SHARDS,
    *ROWS,
    *CATALOGS,
    *PHRASES,
    *FILES,
    *EXPORTS,
    *HEADS,
    *INTERPOLATION,
]
