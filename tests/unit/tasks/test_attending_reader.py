"""The attention of models that only read is what the reference computes, between the tokens that they are given."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.interop.checkpoints import bert_folder
from tests.unit.models.small import shake

from dikkat import Classifier, Embedder, LanguageModel
from dikkat.config import ClassifierConfig, LanguageModelConfig, ModelConfig, RunConfig, TokenizerConfig
from dikkat.explain.attention_map import SentenceMaps
from dikkat.interop.importing import read_foreign, write_run
from dikkat.models.factory import build_classifier, build_language_model
from dikkat.models.language_model import Objective
from dikkat.nn.functional import attention
from dikkat.nn.masks import causal_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention, Observation
from dikkat.nn.recorder import MapName, name_of
from dikkat.tasks.in_memory import classifier_of, language_model_of
from dikkat.tasks.inspection.reader_attention import AttendingReader
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.text.tokenizer import Tokenizer

TEXT = "the dog sees a cat"
SIZES = {"model_dim": 16, "num_heads": 4, "feed_forward_dim": 32, "encoder_layers": 2, "decoder_layers": 2}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([TEXT, "a bird reads the book"], TokenizerConfig(vocab_size=310))


def classifier(tokenizer: Tokenizer, **settings: object) -> Classifier:
    model = ModelConfig.model_validate({**SIZES, "vocab_size": tokenizer.vocab_size})
    head_config = ClassifierConfig.model_validate(settings)
    result = build_classifier(model, head_config, 2, seed=1)
    shake(result)
    return classifier_of(result, tokenizer, ["no", "yes"], RunConfig(model=model, classifier=head_config))


def language_model(tokenizer: Tokenizer, objective: Objective = "causal") -> LanguageModel:
    model = ModelConfig.model_validate({**SIZES, "vocab_size": tokenizer.vocab_size})
    result = build_language_model(model, objective, seed=1)
    shake(result)
    head_config = LanguageModelConfig(objective=objective, context=24)
    return language_model_of(result, tokenizer, RunConfig(model=model, language_model=head_config))


def encoder(folder: Path) -> Embedder:
    write_run(read_foreign(bert_folder(folder / "theirs")), folder / "run", folder / "theirs", "test")
    return Embedder.load(folder / "run")


def require_reference(found: SentenceMaps, model: torch.nn.Module, run: object) -> None:
    """Weights by the reference in float64 from what each attention is given when the model itself reads the ids."""
    assert callable(run)
    seen: dict[MapName, Observation] = {}
    parts = [(path, part) for path, part in model.named_modules() if isinstance(part, MultiHeadAttention)]
    handles = [part.observe(partial(seen.__setitem__, name_of(path))) for path, part in parts]
    with torch.no_grad():
        run()
    for handle in handles:
        handle.remove()
    assert len(found.maps) == sum(part.num_heads for _, part in parts) > 0
    for item in found.maps:
        inputs = seen[MapName(item.stack, item.layer, item.kind)]
        expected = attention(inputs.query.double(), inputs.key.double(), inputs.value.double(), inputs.mask)[1]
        np.testing.assert_allclose(item.weights, expected[0, item.head].numpy(), rtol=0, atol=1e-5)


def test_a_classifier(tokenizer: Tokenizer) -> None:
    trained = classifier(tokenizer, pooling="attention")
    result = AttendingReader.of(trained).read(f" {TEXT} ")
    ids = [BOS_ID, *tokenizer.encode(TEXT)]
    assert (result.source, result.output, result.output_tokens) == (TEXT, "", ())
    assert result.source_tokens == ("<bos>", *tokenizer.labels(ids[1:]))
    tokens = torch.tensor([ids])
    require_reference(result, trained.model, lambda: trained.model(tokens, torch.ones_like(tokens, dtype=torch.bool)))


def test_of_a_long_text_a_classifier_shows_what_it_reads(tokenizer: Tokenizer) -> None:
    result = AttendingReader.of(classifier(tokenizer, max_tokens=5, beginning=0.4)).read(" ".join([TEXT] * 9))
    assert len(result.source_tokens) == 1 + 5
    assert result.note == f"of {len(tokenizer.encode(' '.join([TEXT] * 9)))} tokens the model reads 5"
    assert result.maps[0].weights.shape == (6, 6)


@pytest.mark.parametrize("objective", ["causal", "prefix", "masked"])
def test_a_language_model(tokenizer: Tokenizer, objective: Objective) -> None:
    trained = language_model(tokenizer, objective)
    result = AttendingReader.of(trained).read(TEXT)
    ids = tokenizer.encode(TEXT)
    assert (result.source, result.output, result.source_tokens) == (TEXT, "", ())
    assert result.output_tokens == tuple(tokenizer.labels(ids))
    mask = causal_mask(len(ids)) if objective == "causal" else torch.ones(1, 1, 1, len(ids), dtype=torch.bool)
    require_reference(result, trained.model, lambda: trained.model(torch.tensor([ids]), mask))


def test_a_language_model_reads_a_long_text_by_windows_of_its_context(tokenizer: Tokenizer) -> None:
    trained = language_model(tokenizer)
    ids = tokenizer.encode(" ".join([TEXT] * 9))
    attending = AttendingReader.of(trained)
    windows = attending.windows(" ".join([TEXT] * 9))
    assert len(ids) % 24
    # end to end but for the last, which is whole
    assert [one.ids for one in windows[:-1]] == [ids[at : at + 24] for at in range(0, len(ids) - 24, 24)]
    assert windows[-1].ids == ids[-24:]
    assert windows[1].note == f"window 2 of {len(windows)}: tokens 25 to 48 of {len(ids)}"
    result = attending.read_window(windows[1])
    assert result.output_tokens == tuple(tokenizer.labels(ids[24:48]))
    assert (result.source, result.note) == (tokenizer.decode(ids[24:48]).strip(), windows[1].note)
    require_reference(result, trained.model, lambda: trained.model(torch.tensor([ids[24:48]]), causal_mask(24)))
    assert attending.read(" ".join([TEXT] * 9)).note.startswith("window 1 of ")
    # a text of exactly the context is one window, which nothing is said of
    whole = tokenizer.decode(ids[:24])
    assert [len(one.ids) for one in attending.windows(whole)] == [len(tokenizer.encode(whole))]
    assert attending.windows(TEXT)[0].note == ""


def test_an_imported_encoder(tmp_path: Path) -> None:
    trained = encoder(tmp_path)
    result = AttendingReader.of(trained).read(TEXT)
    assert result.source_tokens == ("[CLS]", *TEXT.split(), "[SEP]")
    tokens = torch.tensor([[2, 4, 5, 7, 9, 6, 3]])
    assert trained.info.name == "native", "maps are of the module, whatever computes vectors"
    model = trained.model
    require_reference(result, model, lambda: model(tokens, torch.ones_like(tokens, dtype=torch.bool)))


def test_an_embedder_of_another_model_is_refused(untrained: Path) -> None:
    with pytest.raises(UsageError, match="imported encoders only; load the run itself"):
        AttendingReader.of(Embedder.load(untrained))


def test_only_what_is_wanted(tokenizer: Tokenizer) -> None:
    attending = AttendingReader.of(language_model(tokenizer))
    assert attending.layers == {("decoder", "self"): 2}
    result = attending.read(TEXT, attending.choose("decoder", "self", 1))
    assert {item.layer for item in result.maps} == {1}
    with pytest.raises(UsageError, match="there is no cross-attention here; choose from decoder self-attention"):
        attending.choose("decoder", "cross")


def test_what_cannot_be_read(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    for trained in (classifier(tokenizer), language_model(tokenizer)):
        with pytest.raises(DataError, match="there is nothing to attend to in an empty text"):
            AttendingReader.of(trained).read("")
    size = 2 * 4 * len(tokenizer.encode(TEXT)) ** 2
    monkeypatch.setattr("dikkat.tasks.common.attention_recorder.MAX_WEIGHTS", size - 1)
    with pytest.raises(DataError, match=rf"the maps of \d+ output tokens hold {size:,} weights, over the limit"):
        AttendingReader.of(language_model(tokenizer)).read(TEXT)
