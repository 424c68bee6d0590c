"""More data carries a larger model and needs fewer passes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dikkat.config import build_config
from dikkat.models.factory import build_model
from dikkat.tasks.classification.prepare import classifier_settings_for
from dikkat.tasks.translation.defaults import settings_for

AMOUNTS = (0, 600, 2_999, 3_000, 29_000, 200_000, 299_999, 300_000, 2_999_999, 3_000_000, 10**9)


@pytest.mark.parametrize("minutes", [None, 5.0, 20.0, 600.0])
def test_every_size_fits_together(minutes: float | None) -> None:
    for pairs in AMOUNTS:
        build_config(settings_for(pairs, minutes))


@pytest.mark.parametrize("minutes", [None, 20.0])
def test_sizes_rise_and_passes_fall_with_the_data(minutes: float | None) -> None:
    configs = [build_config(settings_for(pairs, minutes)) for pairs in AMOUNTS]
    for less, more in pairwise(configs):
        for name in ("model_dim", "feed_forward_dim", "encoder_layers", "decoder_layers"):
            assert getattr(less.model, name) <= getattr(more.model, name)
        assert less.tokenizer.vocab_size <= more.tokenizer.vocab_size
        assert less.training.tokens_per_batch <= more.training.tokens_per_batch
    first, last = configs[0], configs[-1]
    assert first.model.model_dim < last.model.model_dim
    assert first.model.dropout > last.model.dropout


def test_less_time_means_more_updates_and_less_dropout() -> None:
    configs = [build_config(settings_for(29_000, minutes)) for minutes in (5.0, 10.0, 20.0, None)]
    dropouts = [config.model.dropout for config in configs]
    assert dropouts == sorted(dropouts)
    assert dropouts[0] < dropouts[-1]
    batches = [config.training.tokens_per_batch for config in configs]
    assert batches == sorted(batches)
    assert batches[0] < batches[-1]
    decays = [config.training.weight_decay for config in configs]
    assert decays == sorted(decays, reverse=True)
    assert decays[-1] > 0.0


@pytest.mark.parametrize(("pairs", "minutes"), [(29_000, 20.0), (29_000, None), (200_000, None), (200_000, 600.0)])
def test_who_sees_the_data_often_learns_both_directions(pairs: int, minutes: float | None) -> None:
    assert build_config(settings_for(pairs, minutes)).training.bidirectional_share > 0.0


@pytest.mark.parametrize(("pairs", "minutes"), [(29_000, 5.0), (29_000, 10.0), (41_000, 20.0), (200_000, 60.0)])
def test_who_sees_it_a_few_times_learns_one(pairs: int, minutes: float) -> None:
    assert build_config(settings_for(pairs, minutes)).training.bidirectional_share == 0.0


def test_a_small_corpus_gets_no_more_parameters_than_it_can_carry() -> None:
    """At most a few hundred parameters a pair at the lower end of each of the small rows."""
    for pairs in (3_000, 15_000):
        config = build_config(settings_for(pairs, None))
        model = build_model(config.model.model_copy(update={"vocab_size": config.tokenizer.vocab_size}), seed=1)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        assert parameters < 700 * pairs


def test_classifiers_grow_with_their_texts() -> None:
    configs = [build_config(classifier_settings_for(texts)) for texts in (300, 2_999, 3_000, 25_000, 100_000)]
    for less, more in pairwise(configs):
        assert less.model.model_dim <= more.model.model_dim
        assert less.tokenizer.vocab_size <= more.tokenizer.vocab_size
        assert less.training.tokens_per_batch <= more.training.tokens_per_batch
    assert configs[0].model.model_dim < configs[-1].model.model_dim
    assert configs[0].training.max_epochs > configs[-1].training.max_epochs


def test_every_size_has_a_word_table() -> None:
    for texts in (1, 2_999, 3_000, 100_000):
        settings = build_config(classifier_settings_for(texts)).classifier
        assert settings.word_table


def test_without_a_word_table_an_encoder_learns_longer() -> None:
    for texts in (2_999, 3_000, 99_999, 100_000):
        config = build_config(classifier_settings_for(texts, has_word_table=False))
        assert config.training.max_epochs >= 3
