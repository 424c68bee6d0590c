"""Every family of Hugging Face that dikkat reads: logits, attention maps and greedy tokens are those of transformers.

Small models with random weights are saved by `transformers` itself, whose eager attention is the reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from tests.parity.weights import shake
from tests.unit.interop.checkpoints import gpt2_tokenizer
from torch import Tensor, nn

from dikkat.config import EncoderConfig
from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.importing import Imported, read_foreign, write_run
from dikkat.models.factory import Factory
from dikkat.nn.recorder import record_attention
from dikkat_runtime.engine.choose import EngineRequest, why_not_native
from dikkat_runtime.engine.native_texts import NativeLanguageModel
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.engine.settings import STACK, model_settings
from dikkat_runtime.engine.stack import KeyValueCache
from dikkat_runtime.errors import DataError
from dikkat_runtime.run.config import read_config
from dikkat_runtime.tasks.opening import native_classifier, native_encoder, native_language_model, open_engine
from dikkat_runtime.tasks.translator import Translator

transformers = pytest.importorskip(
    "transformers", reason="needs Hugging Face transformers, which the extra [test] brings"
)
pytestmark = pytest.mark.peer

SIZE = 257


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Models so small are not worth a second thread, which waits for a core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


USUAL = {
    "vocab_size": SIZE, "hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 3, "intermediate_size": 40,
    "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None,
}  # fmt: skip
GROUPED = {**USUAL, "num_key_value_heads": 2}
NEO = {name: value for name, value in USUAL.items() if name != "num_hidden_layers"}
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 32}
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "rope_theta": 500.0, "original_max_position_embeddings": 32,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0,
}  # fmt: skip
LONG = {
    "rope_type": "longrope", "short_factor": [1.0, 1.5, 2.0], "long_factor": [2.0, 4.0, 8.0], "rope_theta": 10000.0,
}  # fmt: skip
LOCAL = [[["global", "local"], 1]]
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", GROUPED),
    "llama-linear": ("Llama", {**USUAL, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0}}),
    "llama-llama3": ("Llama", {**GROUPED, "rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama-yarn": ("Llama", {**GROUPED, "rope_parameters": YARN, "attention_bias": True, "mlp_bias": True}),
    "llama-wide-heads": ("Llama", {**GROUPED, "head_dim": 10}),
    "mistral": ("Mistral", {**GROUPED, "sliding_window": 5}),
    "mistral-whole": ("Mistral", {**GROUPED, "sliding_window": None}),
    "qwen2": ("Qwen2", GROUPED),
    "qwen2-window": ("Qwen2", {**GROUPED, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {**GROUPED, "head_dim": 8}),
    "smollm3": ("SmolLM3", {**GROUPED, "no_rope_layer_interval": 2}),
    "olmo2": ("Olmo2", GROUPED),
    "gemma": ("Gemma", {**GROUPED, "head_dim": 8}),
    "gemma2": ("Gemma2", {**GROUPED, "head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 12}),
    "gemma3": ("Gemma3", {**GROUPED, "head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 12}),
    "pythia": ("GPTNeoX", {**USUAL, "hidden_size": 32}),
    "neox-one-after-the-other": ("GPTNeoX", {**USUAL, "hidden_size": 32, "use_parallel_residual": False}),
    "phi": ("Phi", {**USUAL, "hidden_size": 32}),
    "phi3": ("Phi3", {**GROUPED, "sliding_window": 6}),
    "phi3-long": ("Phi3", {**GROUPED, "rope_parameters": LONG, "original_max_position_embeddings": 100}),
    "gpt2": ("GPT2", {"vocab_size": SIZE, "n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 96}),
    "gpt-neo": ("GPTNeo", {**NEO, "num_layers": 2, "num_heads": 4, "window_size": 5, "attention_types": LOCAL}),
    "opt": ("OPT", {**USUAL, "ffn_dim": 40, "word_embed_proj_dim": 24}),
    "bloom": ("Bloom", {"vocab_size": SIZE, "hidden_size": 24, "n_head": 3, "n_layer": 2}),
}  # fmt: skip


def saved(model: nn.Module, folder: Path) -> Any:
    """`model` with no weight left at its initial value, saved as its users save it, with eager attention."""
    torch.manual_seed(3)
    computed = {name: value.clone() for name, value in model.named_parameters() if not value.requires_grad}
    shake(model)
    # a table of sines and cosines is no weight
    model.load_state_dict(computed, strict=False)
    model.eval().save_pretrained(folder)  # type: ignore[operator]
    gpt2_tokenizer().save(str(folder / "tokenizer.json"))
    model.set_attn_implementation("eager")  # type: ignore[operator]
    return model


def imported(folder: Path, task: str | None = None) -> tuple[Imported, Any]:
    """What is read, and our model with its weights."""
    found = read_foreign(folder, task=task)
    assert isinstance(found, Imported)
    factory = Factory(found.model)
    if found.task == "lm":
        ours: nn.Module = factory.language_model(found.head_config.objective)  # type: ignore[union-attr, arg-type]
    elif isinstance(found.head_config, EncoderConfig):
        ours = factory.sentence_encoder(found.head_config)
    else:
        per_token = found.task == "tagger"
        ours = factory.classifier(found.head_config, len(found.labels), per_token=per_token)  # type: ignore[arg-type]
    left = ours.load_state_dict(dict(found.weights), strict=False)
    assert not left.unexpected_keys
    assert set(left.missing_keys) <= {"embedding.weight"}, "the tied matrix has two names"
    return found, ours.eval()


def assert_same_maps(recorded: dict[Any, list[Tensor]], theirs: Any, stack: str, rows: Tensor | None = None) -> None:
    by_layer = {name.layer: maps[0] for name, maps in recorded.items() if name.stack == stack}
    assert sorted(by_layer) == list(range(len(theirs)))
    for layer, expected in enumerate(theirs):
        ours = by_layer[layer]
        if rows is not None:
            real = rows[:, None, :, None].expand(ours.shape)
            ours, expected = ours[real], expected[real]
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", DECODERS)
@torch.no_grad()
def test_a_decoder_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    kind, settings = DECODERS[name]
    config = "Gemma3TextConfig" if kind == "Gemma3" else f"{kind}Config"
    model = getattr(transformers, f"{kind}LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM")
    theirs = saved(model(getattr(transformers, config)(**settings)), tmp_path)
    found, ours = imported(tmp_path)
    tokens = torch.randint(2, SIZE, (2, 40))
    expected = theirs(input_ids=tokens, output_attentions=True)
    with record_attention(ours) as maps:
        logits = ours(tokens)
    torch.testing.assert_close(logits, expected.logits, rtol=0, atol=1e-4)
    assert_same_maps(maps, expected.attentions, "decoder")
    # greedy with our cache: by induction theirs writes the same where its likeliest token is ours at each place
    cache, new, result = ours.start_cache(), tokens[:, :12], [tokens[:, :12]]
    for _ in range(64):
        new = ours.read(new, cache).argmax(dim=-1, keepdim=True)
        result.append(new)
    written = torch.cat(result, dim=1)
    run_config = {"model": found.model.model_dump(), "task": "lm"}
    if why := why_not_native(run_config, "the run"):
        assert name in ("bloom", "gemma2"), why
    else:
        arrays = {name: tensor.numpy() for name, tensor in found.weights.items()}
        native = NativeLanguageModel(model_settings(run_config, "the run", STACK), arrays, "the run", threads=1)
        kept = KeyValueCache()
        for start, end in ((0, 20), (20, 39), (39, 40)):
            computed = native.next_logits(tokens[:, start:end].numpy(), kept)
            torch.testing.assert_close(torch.from_numpy(computed), logits[:, end - 1], rtol=0, atol=1e-4)
    assert torch.equal(theirs(input_ids=written).logits[:, 11:-1].argmax(dim=-1), written[:, 12:])


TYPES = {**USUAL, "type_vocab_size": 2, "hidden_dropout_prob": 0.0}
DEBERTA = {
    **USUAL, "relative_attention": True, "position_buckets": 6, "max_relative_positions": 20,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "type_vocab_size": 0,
}  # fmt: skip
MARKS = {"cls_token_id": 1, "sep_token_id": 1, "eos_token_id": 1}
APART = {"share_att_key": False, "norm_rel_ebd": "none"}
ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", TYPES),
    "roberta": ("Roberta", {**TYPES, "type_vocab_size": 1, "pad_token_id": 1}),
    "xlm-r": ("XLMRoberta", {**TYPES, "type_vocab_size": 1, "pad_token_id": 1}),
    "camembert": ("Camembert", {**TYPES, "type_vocab_size": 1, "pad_token_id": 1}),
    "distilbert": ("DistilBert", {"vocab_size": SIZE, "dim": 24, "n_heads": 4, "n_layers": 3, "hidden_dim": 40}),
    "electra": ("Electra", {**TYPES, "embedding_size": 16}),
    "electra-wide": ("Electra", {**TYPES, "embedding_size": 24}),
    "albert": ("Albert", {**TYPES, "embedding_size": 16}),
    "albert-wide": ("Albert", {**TYPES, "embedding_size": 24}),
    "mpnet": ("MPNet", {**USUAL, "pad_token_id": 1}),
    "modernbert": ("ModernBert", {**USUAL, "local_attention": 8, **MARKS}),
    "nomic": ("NomicBert", {**TYPES, "hidden_act": "silu"}),
    "deberta-v3": ("DebertaV2", DEBERTA),
    "deberta-v2-exact": ("DebertaV2", {**DEBERTA, "position_buckets": -1, **APART}),
    "deberta-v2-both": ("DebertaV2", {**DEBERTA, "position_biased_input": True, "type_vocab_size": 2}),
}  # fmt: skip
REAL = torch.arange(30) < torch.tensor([30, 11, 1])[:, None]


def read_encoder(
    name: str, head: str, folder: Path, task: str | None = None, **changes: Any
) -> tuple[Any, Any, Imported]:
    kind, settings = ENCODERS[name]
    config = getattr(transformers, f"{kind}Config")(**settings, **changes)
    theirs = saved(getattr(transformers, kind + head)(config), folder)
    found, ours = imported(folder, task)
    return theirs, ours, found


def opened(found: Imported, folder: Path, open_native: Any) -> Any:
    """The native engine of what was read, over the run that it is written to."""
    write_run(found, folder, folder, "")
    return open_engine(EngineRequest(folder, read_config(folder, found.task), engine="native", threads=1), open_native)


def native_logits(found: Imported, folder: Path, tokens: Tensor) -> list[Tensor]:
    """What the native engine computes of the real tokens of each text."""
    engine = opened(found, folder, native_classifier)
    rows = [row[real].tolist() for row, real in zip(tokens, REAL, strict=True)]
    return [torch.from_numpy(logits) for logits in engine.logits(rows)]


@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_an_encoder_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    theirs, ours, found = read_encoder(name, "Model", tmp_path / "theirs")
    # their positions are counted by the entries that are no padding
    tokens = torch.where(REAL, torch.randint(2, SIZE, REAL.shape), theirs.config.pad_token_id)
    expected = theirs(input_ids=tokens, attention_mask=REAL.long(), output_attentions=True)
    with record_attention(ours) as maps:
        hidden = ours(tokens, REAL)
    torch.testing.assert_close(hidden[REAL], expected.last_hidden_state[REAL], rtol=0, atol=1e-4)
    assert_same_maps(maps, expected.attentions, "encoder", REAL)
    native = opened(found, tmp_path / "run", native_encoder)
    states = torch.from_numpy(
        native.hidden([row[real].tolist() for row, real in zip(tokens, REAL, strict=True)]).states
    )
    torch.testing.assert_close(states[REAL], expected.last_hidden_state[REAL], rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_a_tagger_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"id2label": {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}}
    theirs, ours, found = read_encoder(name, "ForTokenClassification", tmp_path / "theirs", **changes)
    assert found.task == "tagger"
    assert found.labels == ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    tokens = torch.where(REAL, torch.randint(2, SIZE, REAL.shape), theirs.config.pad_token_id)
    expected = theirs(input_ids=tokens, attention_mask=REAL.long()).logits
    assert expected.shape == (*REAL.shape, 5)
    torch.testing.assert_close(ours(tokens, REAL)[REAL], expected[REAL], rtol=0, atol=1e-4)
    for computed, wanted, real in zip(native_logits(found, tmp_path / "run", tokens), expected, REAL, strict=True):
        torch.testing.assert_close(computed[: int(real.sum())], wanted[real], rtol=0, atol=1e-4)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta", "modernbert", "deberta-v3"])
@torch.no_grad()
def test_a_regression_is_that_of_transformers(name: str, outputs: int, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"num_labels": outputs, "problem_type": "regression" if outputs > 1 else None}
    theirs, ours, found = read_encoder(name, "ForSequenceClassification", tmp_path / "theirs", **changes)
    assert found.task == "regressor"
    assert len(found.labels) == outputs
    tokens = torch.where(REAL, torch.randint(2, SIZE, REAL.shape), theirs.config.pad_token_id)
    expected = theirs(input_ids=tokens, attention_mask=REAL.long()).logits
    torch.testing.assert_close(ours(tokens, REAL), expected, rtol=0, atol=1e-4)
    computed = torch.stack(native_logits(found, tmp_path / "run", tokens))
    torch.testing.assert_close(computed, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_a_classifier_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    changes = {"classifier_pooling": "mean"} if name == "modernbert" else {}
    theirs, ours, found = read_encoder(name, "ForSequenceClassification", tmp_path / "theirs", num_labels=3, **changes)
    assert found.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    tokens = torch.where(REAL, torch.randint(2, SIZE, REAL.shape), theirs.config.pad_token_id)
    expected = theirs(input_ids=tokens, attention_mask=REAL.long()).logits
    torch.testing.assert_close(ours(tokens, REAL), expected, rtol=0, atol=1e-4)
    computed = torch.stack(native_logits(found, tmp_path / "run", tokens))
    torch.testing.assert_close(computed, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "name", [name for name in ENCODERS if name not in ("nomic", "electra-wide", "deberta-v2-exact")]
)
@torch.no_grad()
def test_a_model_of_hidden_words_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    theirs, ours, found = read_encoder(name, "ForMaskedLM", tmp_path / "theirs", "lm")
    assert found.head_config.objective == "masked"  # type: ignore[union-attr]
    tokens = torch.randint(2, SIZE, (2, 20))
    expected = theirs(input_ids=tokens).logits
    torch.testing.assert_close(ours(tokens), expected, rtol=0, atol=1e-4)
    engine = opened(found, tmp_path / "run", native_language_model)
    computed = torch.from_numpy(engine._logits(engine.hidden(tokens.tolist()).states))
    torch.testing.assert_close(computed, expected, rtol=0, atol=1e-4)


PAIR = {
    "vocab_size": SIZE, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 96,
    "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "bos_token_id": 3, "forced_eos_token_id": None,
    "scale_embedding": True,
}  # fmt: skip
TEE = {
    "vocab_size": SIZE, "d_model": 24, "d_kv": 10, "d_ff": 40, "num_layers": 2, "num_heads": 3, "pad_token_id": 0,
    "eos_token_id": 1, "decoder_start_token_id": 0,
}  # fmt: skip
PAIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "bart": ("BartForConditionalGeneration", {**PAIR, "scale_embedding": False, "decoder_start_token_id": 1}),
    "mbart": ("MBartForConditionalGeneration", PAIR),
    "pegasus": ("PegasusForConditionalGeneration", PAIR),
    "m2m": ("M2M100ForConditionalGeneration", {**PAIR, "pad_token_id": 1, "eos_token_id": 2}),
    "t5": ("T5ForConditionalGeneration", TEE),
    "t5-v1.1": ("T5ForConditionalGeneration", {**TEE, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "mt5": ("MT5ForConditionalGeneration", {**TEE, "num_decoder_layers": 3}),
}


def pair_tokenizer() -> tokenizers.Tokenizer:
    """Pieces of SentencePiece, with the marks of T5 first."""
    alphabet = [("▁", -2.0), *((chr(code), -3.0 - code / 100) for code in range(97, 123))]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *alphabet]
    inner = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, 2, False))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    inner.decoder = tokenizers.decoders.Metaspace()
    inner.add_special_tokens(["<pad>", "</s>", "<unk>"])
    inner.post_processor = tokenizers.processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return inner


@pytest.mark.parametrize("name", PAIRS)
@torch.no_grad()
def test_a_pair_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    kind, settings = PAIRS[name]
    model = getattr(transformers, kind)
    theirs = saved(model(model.config_class(**settings)), tmp_path)
    pair_tokenizer().save(str(tmp_path / "tokenizer.json"))
    found = read_foreign(tmp_path)
    assert isinstance(found, ForeignTranslator)
    ours = Factory(found.model).encoder_decoder().eval()
    left = ours.load_state_dict(dict(found.weights), strict=False)
    assert not left.unexpected_keys
    rows = torch.tensor(found.orders[0].rows)
    # ids of ours, of which theirs are `rows`
    source, real = torch.randint(4, SIZE, (2, 15)), torch.arange(15) < torch.tensor([15, 9])[:, None]
    target = torch.cat((torch.ones(2, 1, dtype=torch.int64), torch.randint(4, SIZE, (2, 30))), dim=1)
    padding = theirs.config.pad_token_id
    read = torch.where(real, rows[source], padding)
    called = {"input_ids": read, "attention_mask": real.long(), "output_attentions": True}
    expected = theirs(decoder_input_ids=rows[target], **called)
    with record_attention(ours) as maps:
        logits = ours(source, target, real)
    # padding and begin are never written here
    torch.testing.assert_close(logits[..., 2:], expected.logits[..., rows[2:]], rtol=0, atol=1e-4)
    own = {name: kept for name, kept in maps.items() if name.kind == "self"}
    assert_same_maps(own, expected.encoder_attentions, "encoder", real)
    assert_same_maps(own, expected.decoder_attentions, "decoder")
    assert_same_maps(
        {name: kept for name, kept in maps.items() if name.kind == "cross"}, expected.cross_attentions, "decoder"
    )
    write_run(found, tmp_path / "run", tmp_path, "dikkat import")
    answer = Translator.load(tmp_path / "run", engine="torch").translate(["a cab dab"], beam_size=1)
    assert len(answer) == 1


def test_bytes_of_byt5_are_its_ids(tmp_path: Path) -> None:
    theirs = transformers.ByT5Tokenizer()
    theirs.save_pretrained(tmp_path)
    settings = {**TEE, "vocab_size": 384, "tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**settings))
    shake(model)
    model.save_pretrained(tmp_path)
    found = read_foreign(tmp_path)
    assert isinstance(found, ForeignTranslator)
    (tokenizer,), rows = found.tokenizers, found.orders[0].rows
    for text in ("A cat, two  cats.", " ığüşöç\n", "😀 </s> <extra_id_0>"):
        ids = tokenizer.encode(text)
        # a mark in a text is text here
        assert [rows[number] for number in ids] == [byte + 3 for byte in text.encode()]
        assert tokenizer.decode(ids) == text
    assert theirs("A cat").input_ids == [rows[number] for number in tokenizer.encode("A cat")] + [1]


@torch.no_grad()
def test_a_marian_with_a_fast_tokenizer_alone_is_read(tmp_path: Path) -> None:
    settings = {
        "vocab_size": SIZE, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 64,
        "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "scale_embedding": True,
    }  # fmt: skip
    theirs = saved(transformers.MarianMTModel(transformers.MarianConfig(**settings)), tmp_path)
    pair_tokenizer().save(str(tmp_path / "tokenizer.json"))
    assert not (tmp_path / "vocab.json").exists()
    found = read_foreign(tmp_path)
    assert isinstance(found, ForeignTranslator)
    found.write(tmp_path / "run", tmp_path, "dikkat import")
    source = pair_tokenizer().encode("a small cat").ids
    written = theirs.generate(torch.tensor([source]), num_beams=1, do_sample=False, max_new_tokens=12)[0].tolist()
    ours = Translator.load(tmp_path / "run")
    options = DecodingOptions(max_length_factor=0, max_length_offset=12)
    (answer,) = ours.engine.search(ours.engine.encode([ours.tokenizer.encode("a small cat")]), options)
    rows = found.orders[0].rows
    # their last token is forced to be an end
    assert [rows[number] for number in answer[0].tokens][:10] == written[1:11]
    assert len(set(written[1:11])) > 2


def test_a_matrix_that_is_stored_twice_must_be_the_same(tmp_path: Path) -> None:
    kind, settings = PAIRS["m2m"]
    model = getattr(transformers, kind)
    saved(model(model.config_class(**settings)), tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    save_file({**weights, "lm_head.weight": weights["model.shared.weight"] + 1}, path, {"format": "pt"})
    with pytest.raises(DataError, match=r"lm_head\.weight must be equal to shared\.weight, but differs"):
        read_foreign(tmp_path)
