"""Two vocabularies in one translator: the textbook's network as a run, and runs whose files do not fit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.runtime.runs import SENTENCES, WRITTEN, translator_run
from tests.unit.classroom.test_weights import shaken
from tests.unit.classroom.written_out import D2lTranslator
from torch import Tensor

from dikkat import Translator
from dikkat.config import build_config, merge, preset
from dikkat.data.corpus import Corpus
from dikkat.lessons.classroom import load_weights, textbook
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.nn.recorder import MapName, record_attention
from dikkat.run_directory import RunDirectory
from dikkat.tasks.translation.prepare import TrainRequest, prepare
from dikkat.tasks.translation.vocabularies import Vocabularies, open_corpus
from dikkat.torch_engine.texts import engine_in_memory
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import DataError, MissingInputError, UsageError
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID
from dikkat_runtime.tasks.translator import Translator as RuntimeTranslator

SOURCE, TARGET = 17, 23
PAIRS = [(f"the {word} sleeps {place} .", f"{place}o sleepso {word}o") for word in ("dog", "cat", "king", "bird")
         for place in ("here", "there", "home", "away", "down")]  # fmt: skip


def ours_from(theirs: D2lTranslator) -> tuple[EncoderDecoder, Any]:
    """The model of the preset with the weights of the textbook's network."""
    settings = merge(preset("d2l"), {"model": {"vocab_size": SOURCE, "target_vocab_size": TARGET}})
    config = build_config(settings).model
    sizes = (32, 32, 32, 32, [32], 32, 64, 4, 2, 0.1)
    halves = textbook.TransformerEncoder(SOURCE, *sizes), textbook.TransformerDecoder(TARGET, *sizes)
    book = textbook.EncoderDecoder(*halves)
    load_weights(book, theirs.state_dict(), "d2l")
    renamed = {
        "encoder.embedding.weight": "source_embedding.weight", "decoder.embedding.weight": "target_embedding.weight",
        "decoder.dense.weight": "output_weight", "decoder.dense.bias": "output_bias",
    }  # fmt: skip
    weights = {
        renamed.get(name, name.replace(".blks.", ".blocks.").replace(".block.", ".")): tensor
        for name, tensor in book.state_dict().items()
    }
    model = build_model(config, seed=1).eval()
    model.load_state_dict(weights)
    return model, config


@pytest.fixture
def textbooks() -> D2lTranslator:
    torch.manual_seed(3)
    theirs = shaken(D2lTranslator(SOURCE, TARGET))
    for half in (theirs.get_submodule("encoder"), theirs.get_submodule("decoder")):
        # else scores reach 80, where float32 itself is not exact to 1e-6
        half.get_parameter("embedding.weight").data.mul_(32**-0.5)
    return theirs


@pytest.mark.seed("E9")
@torch.no_grad()
def test_the_preset_with_the_textbooks_weights_has_its_logits_and_maps(textbooks: D2lTranslator) -> None:
    model, _ = ours_from(textbooks)
    lens = torch.tensor([10, 4, 2])
    source, target = torch.randint(4, SOURCE, (3, 10)), torch.randint(4, TARGET, (3, 7))
    mask = torch.arange(10) < lens[:, None]
    expected = textbooks(source, target, lens)
    with record_attention(model) as maps:
        logits = model(source, target, mask)
    assert logits.shape == (3, 7, TARGET)
    assert float((logits - expected).abs().max()) <= 1e-5
    stacks: list[tuple[Any, Any, str, str]] = [("encoder", "self", "encoder", "attention")]
    stacks += [("decoder", "self", "decoder", "attention1"), ("decoder", "cross", "decoder", "attention2")]
    for stack, kind, half, part in stacks:
        for layer, block in enumerate(textbooks.get_submodule(half).get_submodule("blks").children()):
            (result,) = maps[MapName(stack=stack, kind=kind, layer=layer)]
            assert float((result - cast(Tensor, block.get_submodule(part).maps)).abs().max()) <= 1e-6


@torch.no_grad()
def test_the_native_engine_writes_what_the_textbooks_network_finds_likeliest(textbooks: D2lTranslator) -> None:
    model, config = ours_from(textbooks)
    engine = engine_in_memory(model, config)
    assert engine.info.name == "native", engine.info.why_not_native
    sources = [[5, 9, 16], [4, 4, 12, 8, 15, 6]]
    for source in sources:
        ((result,),) = engine.search(engine.encode([source]), DecodingOptions())
        read, wrote = torch.tensor([[*source, EOS_ID]]), [BOS_ID]
        for token in result.tokens:
            logits: Tensor = textbooks(read, torch.tensor([wrote]), torch.tensor([read.shape[1]]))[0, -1]
            logits[[PAD_ID, BOS_ID]] = -torch.inf
            assert token == int(logits.argmax())
            wrote.append(token)


def test_an_id_of_the_other_vocabulary_alone_is_refused(textbooks: D2lTranslator) -> None:
    model, config = ours_from(textbooks)
    with pytest.raises(DataError, match="a token must lie between 0 and 16"):
        engine_in_memory(model, config).encode([[5, TARGET - 1]])


def prepared(folder: Path, name: str = "run", **settings: dict[str, Any]) -> tuple[RunDirectory, Any]:
    table = folder / "toy.tsv"
    table.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), encoding="utf-8")
    run = RunDirectory.create(folder / name)
    own = {
        "vocabularies": "separate",
        "validation_pairs": 4,
        "test_pairs": 0,
        "typing_errors": 0.0,
        "no_final_mark": 0.0,
    }
    asked = merge({"data": own}, settings)
    words = {"kind": "words", "vocab_size": 301, "min_frequency": 1}
    config, _ = prepare(TrainRequest([str(table)], settings=merge({"tokenizer": words}, asked)), run)
    return run, config


def test_each_side_learns_the_words_of_its_own_text(tmp_path: Path) -> None:
    run, config = prepared(tmp_path)
    vocabularies = Vocabularies.load(run, config)
    words = [
        {tokenizer.pieces([index])[0] for index in range(4, tokenizer.vocab_size)}
        for tokenizer in (vocabularies.source, vocabularies.target)
    ]
    trained = open_corpus(run, "train", vocabularies)
    pair = [[tokenizer.decode(side(index).tolist()) for index in range(len(trained))] for tokenizer, side in
             ((vocabularies.source, trained.source), (vocabularies.target, trained.target))]  # fmt: skip
    assert set(zip(*pair, strict=True)) <= set(PAIRS)
    assert all(not word.endswith("o") for word in words[0])
    assert all(word.endswith("o") for word in words[1])
    assert (config.model.vocab_size, config.model.target_vocab_size) == tuple(len(item) + 4 for item in words)
    assert config.training.bidirectional_share == 0.0


def test_a_joint_vocabulary_has_one_file(tmp_path: Path) -> None:
    run, config = prepared(tmp_path, data={"vocabularies": "joint"})
    assert config.model.target_vocab_size is None
    assert not run.target_tokenizer.exists()
    assert Vocabularies.load(run, config).are_joint


def test_learning_backwards_with_two_vocabularies_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="bidirectional_share feeds each side the other's words"):
        prepared(tmp_path, training={"bidirectional_share": 0.5})


def test_a_corpus_whose_sides_are_swapped_is_named(tmp_path: Path) -> None:
    run, config = prepared(tmp_path)
    vocabularies = Vocabularies.load(run, config)
    Corpus.build(run.path / "corpus", "train", [([5], [6]), ([vocabularies.source.vocab_size], [6])])
    with pytest.raises(DataError, match=r"train\.ids\.npy"):
        open_corpus(run, "train", vocabularies)
    small = Vocabularies(vocabularies.target, vocabularies.source)
    assert vocabularies.target.vocab_size < vocabularies.source.vocab_size
    shutil.rmtree(run.path / "corpus")
    Corpus.build(run.path / "corpus", "train", [([5], [6]), ([vocabularies.target.vocab_size], [6])])
    (run.path / "manifest.json").unlink()
    with pytest.raises(DataError, match="the source of pair 2 holds"):
        open_corpus(run, "train", small)


@pytest.mark.parametrize(
    ("damage", "error", "said"),
    [
        (lambda run: (run / "tokenizer.target.json").unlink(), MissingInputError, "tokenizer.target.json"),
        (lambda run: _copy_source(run), DataError, "target_vocab_size"),
        (lambda run: _set(run, "data", "vocabularies", "joint"), DataError, "data.vocabularies is joint"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_each_other_are_one_line(tmp_path: Path, damage: Any, error: Any, said: str) -> None:
    run = translator_run(tmp_path / "run", separate=True)
    (run / "manifest.json").unlink()
    damage(run)
    with pytest.raises(error, match=said):
        Translator.load(run)


def test_the_runtime_refuses_them_too(tmp_path: Path) -> None:
    run = translator_run(tmp_path / "run", separate=True)
    shutil.copy(run / "tokenizer.json", run / "tokenizer.target.json")
    with pytest.raises(DataError, match=r"tokenizer.target.json: does not fit config.json: .* model.target_vocab_size"):
        RuntimeTranslator.load(run)


def test_the_page_of_attention_reads_and_writes_in_two_vocabularies(tmp_path: Path) -> None:
    translator = Translator.load(translator_run(tmp_path / "run", separate=True))
    maps = translator.attend(SENTENCES[0], WRITTEN[0])
    cross = next(item for item in maps if item.kind == "cross")
    assert "".join(cross.key_tokens[:-1]).replace("▁", " ").strip() == SENTENCES[0]
    written = translator.target_tokenizer.labels(translator.target_tokenizer.encode(WRITTEN[0]))
    assert list(cross.query_tokens[1:]) == written
    assert np.allclose(cross.weights.sum(axis=1), 1.0, atol=1e-5)


def _set(run: Path, section: str, name: str, value: object) -> None:
    path = run / "config.json"
    config = json.loads(path.read_text())
    config[section][name] = value
    path.write_text(json.dumps(config))


def _copy_source(run: Path) -> None:
    shutil.copy(run / "tokenizer.json", run / "tokenizer.target.json")
