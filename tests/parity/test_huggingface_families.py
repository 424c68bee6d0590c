"""Every family of Hugging Face that dikkat reads: logits, attention maps and greedy tokens are those of transformers.

Small models with random weights are saved by `transformers` itself, whose eager attention is the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from tests.parity.family_shapes import DECODERS, ENCODERS, PAIRS, SIZE, TEE, three_each
from tests.parity.weights import shake
from tests.unit.interop.checkpoints import gpt2_tokenizer
from torch import Tensor, nn

from dikkat.config import EncoderConfig
from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.importing import Imported, read_foreign, write_run
from dikkat.interop.piece_vocabulary import NEVER
from dikkat.models.factory import Factory
from dikkat.nn.recorder import record_attention
from dikkat_runtime.engine.choose import EngineRequest, why_not_native
from dikkat_runtime.engine.native_texts import NativeLanguageModel
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.engine.settings import STACK, model_settings
from dikkat_runtime.engine.stack import KeyValueCache
from dikkat_runtime.errors import DataError
from dikkat_runtime.run.config import read_config
from dikkat_runtime.special_tokens import EOS_ID, SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.tasks.opening import native_classifier, native_encoder, native_language_model, open_engine
from dikkat_runtime.tasks.translator import Translator

transformers = pytest.importorskip(
    "transformers", reason="needs Hugging Face transformers, which the extra [test] brings"
)
pytestmark = pytest.mark.peer


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Models so small are not worth a second thread, which waits for a core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def saved(model: nn.Module, folder: Path) -> Any:
    """`model` with no weight left at its initial value, saved as its users save it, with eager attention."""
    torch.manual_seed(3)
    computed = {name: value.clone() for name, value in model.named_parameters() if not value.requires_grad}
    shake(model)
    # a table of sines and cosines is no weight
    model.load_state_dict(computed, strict=False)
    for name, buffer in model.named_buffers():
        if name == "final_logits_bias":
            buffer.normal_()
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


def greedy(prompts: Tensor, read: Callable[[Tensor], Tensor]) -> Tensor:
    """The prompts, and the 64 tokens behind each that are likeliest by the logits after the last of those read."""
    parts = [prompts]
    for _ in range(64):
        parts.append(read(parts[-1]).argmax(dim=-1, keepdim=True))
    return torch.cat(parts, dim=1)


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
    cache = ours.start_cache()
    written = greedy(tokens[:, :12], lambda new: ours.read(new, cache))
    run_config = {"model": found.model.model_dump(), "task": "lm"}
    if why := why_not_native(run_config, "the run"):
        assert kind == "Bloom" or name in ("gemma2", "gemma2-caps"), why
    else:
        arrays = {name: tensor.numpy() for name, tensor in found.weights.items()}
        native = NativeLanguageModel(model_settings(run_config, "the run", STACK), arrays, "the run", threads=1)
        kept = KeyValueCache()
        for start, end in ((0, 20), (20, 39), (39, 40)):
            computed = native.next_logits(tokens[:, start:end].numpy(), kept)
            torch.testing.assert_close(torch.from_numpy(computed), logits[:, end - 1], rtol=0, atol=1e-4)
        own = KeyValueCache()
        native_written = greedy(tokens[:, :12], lambda new: torch.from_numpy(native.next_logits(new.numpy(), own)))
        assert torch.equal(native_written, written)
    assert torch.equal(theirs(input_ids=written).logits[:, 11:-1].argmax(dim=-1), written[:, 12:])


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


@pytest.mark.parametrize("name", [name for name in ENCODERS if ENCODERS[name][0] != "NomicBert"])
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


def read_pair(name: str, folder: Path, *, forced: int | None = None) -> tuple[Any, ForeignTranslator]:
    """Their model, saved as its users save it, and what is read of it; with an entry that translations begin with."""
    kind, settings = PAIRS[name]
    model = getattr(transformers, "MarianMTModel" if kind == "MarianMT" else f"{kind}ForConditionalGeneration")
    theirs = model(model.config_class(**settings))
    # what configurations of today no longer hold
    theirs.generation_config.decoder_start_token_id = settings["decoder_start_token_id"]
    theirs.generation_config.forced_bos_token_id = forced
    saved(theirs, folder)
    pair_tokenizer().save(str(folder / "tokenizer.json"))
    if name.startswith("byt5"):
        transformers.ByT5Tokenizer().save_pretrained(folder)
    found = read_foreign(folder)
    assert isinstance(found, ForeignTranslator)
    return theirs, found


@pytest.mark.parametrize("name", PAIRS)
@torch.no_grad()
def test_a_pair_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    theirs, found = read_pair(name, tmp_path)
    ours = Factory(found.model).encoder_decoder().eval()
    left = ours.load_state_dict(dict(found.weights), strict=False)
    assert not left.unexpected_keys
    rows = torch.tensor(found.orders[0].rows)
    # ids of ours, of which theirs are `rows`
    source, real = torch.randint(4, SIZE, (2, 15)), torch.arange(15) < torch.tensor([15, 9])[:, None]
    target = torch.cat((torch.ones(2, 1, dtype=torch.int64), torch.randint(4, SIZE, (2, 30))), dim=1)
    read = torch.where(real, rows[source], theirs.config.pad_token_id)
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


LENGTH = 64


@pytest.mark.parametrize("name", PAIRS)
@torch.no_grad()
def test_a_pair_writes_the_tokens_of_transformers(name: str, tmp_path: Path) -> None:
    forced = PAIRS[name][1].get("forced_bos_token_id")
    theirs, found = read_pair(name, tmp_path, forced=forced)
    rows, end = found.orders[0].rows, theirs.config.eos_token_id
    sources = [torch.randint(len(SPECIAL_TOKENS), SIZE, (count,)).tolist() for count in (15, 9)]
    texts = [[*(rows[number] for number in source), end] for source in sources]
    longest = max(map(len, texts))
    padding = theirs.config.pad_token_id
    never = sorted({padding, end, rows[1], rows[3]})
    written = theirs.generate(
        torch.tensor([text + [padding] * (longest - len(text)) for text in texts]),
        attention_mask=torch.tensor([[1] * len(text) + [0] * (longest - len(text)) for text in texts]),
        # its cache has as many layers as the encoder; no token twice, or random weights would write one for ever
        suppress_tokens=never, max_new_tokens=LENGTH, num_beams=1, do_sample=False, use_cache=False,
        no_repeat_ngram_size=1,
    )[:, 1:].tolist()  # fmt: skip
    # neither side ends, or writes what it does not know; ours does not count the entry that it begins with
    prefix = [] if forced is None else [rows.index(forced)]
    found.weights["output_bias"][[EOS_ID, UNK_ID, *prefix]] = NEVER
    write_run(found, tmp_path / "run", tmp_path, "dikkat import")
    config = read_config(tmp_path / "run", "translator")
    options = DecodingOptions(max_length_factor=0, max_length_offset=LENGTH, no_repeat_ngram=1)
    engines = ("torch", "native") if not why_not_native(config, "the run") else ("torch",)
    for engine in engines:
        ours = Translator.load(tmp_path / "run", engine=engine).engine  # type: ignore[arg-type]
        answers = ours.search(ours.encode(sources), options)
        ours_written = [[rows[number] for number in [*prefix, *answer[0].tokens]] for answer in answers]
        assert [tokens[:LENGTH] for tokens in ours_written] == written, engine
    assert len(Translator.load(tmp_path / "run").translate(["a cab dab"], beam_size=1)) == 1
    assert all(len(set(tokens)) == LENGTH for tokens in written)
    assert forced is None or all(tokens[0] == forced for tokens in written)


def test_a_table_has_three_shapes_of_each_family() -> None:
    families = {**three_each(DECODERS), **three_each(ENCODERS), **three_each(PAIRS)}
    assert {family: names for family, names in families.items() if len(names) < 3} == {}
    assert len(families) == 35


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
    assert len(set(written[1:11])) > 1


def test_a_matrix_that_is_stored_twice_must_be_the_same(tmp_path: Path) -> None:
    read_pair("m2m", tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    save_file({**weights, "lm_head.weight": weights["model.shared.weight"] + 1}, path, {"format": "pt"})
    with pytest.raises(DataError, match=r"lm_head\.weight must be equal to shared\.weight, but differs"):
        read_foreign(tmp_path)
