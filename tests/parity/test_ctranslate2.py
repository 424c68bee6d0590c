"""CTranslate2 itself: what its converter makes of a MarianMT is read as that, and what we write it translates alike."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.interop.translators import marian_folder, phrases

from dikkat.config import RunConfig
from dikkat.interop.ctranslate2.writing import export_ctranslate2
from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.importing import read_foreign
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.models.factory import build_model
from dikkat.run_directory import RunDirectory
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.engine.shortlist import SHORTLIST
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.tasks.translator import Translator as NativeTranslator
from dikkat_runtime.text.tokenizer import Tokenizer

ctranslate2 = pytest.importorskip("ctranslate2", reason="needs ctranslate2, which the extra [test] brings")
sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, which the extra [test] brings")
pytest.importorskip("transformers", reason="needs Hugging Face transformers, which the extra [test] brings")
pytestmark = pytest.mark.peer

MAX_LENGTH = 40
SENTENCES = phrases(900)[0][700:]


class Converted:
    """A MarianMT of Hugging Face, and what CTranslate2's own converter makes of it."""

    def __init__(self, folder: Path, *, separate: bool) -> None:
        self.folder, self.theirs = folder, marian_folder(folder / "theirs", separate=separate)
        self.converter = ctranslate2.converters.TransformersConverter(
            str(self.theirs), copy_files=["source.spm", "target.spm"]
        )
        self.exact = self.converted("float32")
        self.run = folder / "run"
        self.imported(self.exact).write(self.run, self.exact, "dikkat import")

    def converted(self, quantization: str) -> Path:
        out = self.folder / quantization
        if not out.exists():
            self.converter.convert(str(out), quantization=quantization)
        return out

    @staticmethod
    def imported(folder: Path) -> ForeignTranslator:
        found = read_foreign(folder)
        assert isinstance(found, ForeignTranslator)
        return found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    return Converted(tmp_path_factory.mktemp("shared"), separate=False)


@pytest.fixture(scope="module")
def separate(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    return Converted(tmp_path_factory.mktemp("separate"), separate=True)


@pytest.fixture(params=["shared", "separate"])
def converted(request: pytest.FixtureRequest) -> Converted:
    result: Converted = request.getfixturevalue(request.param)
    return result


def by_pieces(
    folder: Path, source: Path, target: Path, texts: list[str], *, end: bool, kind: str, **options: Any
) -> list[str]:
    """The greedy translations of CTranslate2 over SentencePiece, as its users call the two."""
    pieces = [sentencepiece.SentencePieceProcessor(model_file=str(path)) for path in (source, target)]
    engine = ctranslate2.Translator(str(folder), compute_type=kind, intra_threads=1)
    tokens = [[*pieces[0].encode(text, out_type=str), *(["</s>"] if end else [])] for text in texts]
    found = engine.translate_batch(
        tokens, beam_size=1, max_decoding_length=MAX_LENGTH, min_decoding_length=0, **options
    )
    # of a piece that only the model of the other side has, it leaves the mark of a space
    return [str(pieces[1].decode(result.hypotheses[0])).replace("▁", " ").strip() for result in found]


def by_us(run: Path, texts: list[str]) -> list[str]:
    options = DecodingOptions(max_length_factor=0, max_length_offset=MAX_LENGTH)
    return [item.text.strip() for item in Translator.load(run).stream(texts, options, retry_loops=False)]


def test_two_hundred_translations_of_what_was_read_are_theirs(converted: Converted) -> None:
    folder = converted.exact
    theirs = by_pieces(folder, folder / "source.spm", folder / "target.spm", SENTENCES, end=True, kind="float32")
    assert len(set(theirs)) > 5
    assert by_us(converted.run, SENTENCES) == theirs


def vocabulary_map(folder: Path) -> bytes:
    """A vmap.txt with some words for each piece of the source, drawn from the target's."""
    shared = folder / "shared_vocabulary.json"
    names = [shared] * 2 if shared.exists() else [folder / f"{side}_vocabulary.json" for side in ("source", "target")]
    sources, targets = (json.loads(name.read_text()) for name in names)
    draw = np.random.default_rng(5)

    def some(count: int) -> str:
        return " ".join(draw.choice(targets, count, replace=False).tolist())

    # of two lines of a piece the later counts; a word or a piece of nobody stands for the unknown
    lines = [f"\tgone {some(3)}", *(f"{name}\t{some(4)}" for name in sources), f"{sources[20]}\t{some(2)}", "gone\tx"]
    # a return of Windows is no part of the last word
    ends = ["\n", "\r\n"]
    return "".join(f"{line}{ends[number % 2]}" for number, line in enumerate(lines)).encode()


def test_translations_among_the_words_of_a_map_are_theirs(converted: Converted, tmp_path: Path) -> None:
    folder = shutil.copytree(converted.exact, tmp_path / "theirs")
    (folder / "vmap.txt").write_bytes(vocabulary_map(folder))
    assert run_command(["import", str(folder), "--out", str(tmp_path / "run")]) == 0
    few, pieces = SENTENCES[:60], [folder / f"{side}.spm" for side in ("source", "target")]
    among, free = (
        by_pieces(folder, pieces[0], pieces[1], few, end=True, kind="float32", **options)
        # the words of a batch are those of all its sentences
        for options in ({"use_vmap": True, "max_batch_size": 1}, {})
    )
    assert sum(one != other for one, other in zip(among, free, strict=True)) >= 5
    for all_words, theirs in ((False, among), (True, free)):
        native = NativeTranslator.load(tmp_path / "run", all_words=all_words)
        ours = native.stream(few, DecodingOptions(max_length_factor=0, max_length_offset=MAX_LENGTH), retry_loops=False)
        assert [item.text.strip() for item in ours] == theirs


def test_a_damaged_map_is_refused_by_its_line_and_one_of_several_pieces_is_named(
    shared: Converted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = shutil.copytree(shared.exact, tmp_path / "theirs"), tmp_path / "run"
    whole = vocabulary_map(folder)
    last = whole.count(b"\n") + 1
    for content, told in (
        (whole + b"no tab\n", f"vmap.txt:{last}: is not a piece of the source, one tab and words: no tab"),
        (whole + b"\n", f"vmap.txt:{last}: "),
        (b"a\tb\tc\n" + whole, "vmap.txt:1: "),
        (b"\xff" + whole, "vmap.txt: is not text in UTF-8"),
    ):
        (folder / "vmap.txt").write_bytes(content)
        capsys.readouterr()
        assert run_command(["import", str(folder), "--out", str(out)]) == 65
        message = capsys.readouterr().err
        assert told in message
        assert message.count("\n") == 1
        assert not out.exists()
    (folder / "vmap.txt").write_bytes(b"two pieces\tword\n" + whole)
    assert run_command(["import", str(folder), "--out", str(out)]) == 0
    assert "left out: vmap.txt, which has words for several pieces in a row" in capsys.readouterr().err
    assert not (out / SHORTLIST).exists()


def test_pieces_that_a_vocabulary_lacks_are_unknown_where_sentencepiece_found_them(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = marian_folder(tmp_path / "theirs")
    vocabulary = json.loads((theirs / "vocab.json").read_text())
    # of every fifth piece of the source the vocabulary has another name
    entries = {name if number % 5 or number < 2 else f"<gone{number}>": number for name, number in vocabulary.items()}
    (theirs / "vocab.json").write_text(json.dumps(entries))
    found = Converted.imported(theirs)
    tokenizer = transformers.MarianTokenizer.from_pretrained(theirs)
    wanted = [row[:-1] for row in tokenizer(SENTENCES).input_ids]
    assert sum(row.count(entries["<unk>"]) for row in wanted) > 50
    rows = found.orders[0].rows
    assert [[rows[number] for number in row] for row in found.tokenizers[0].encode_batch(SENTENCES)] == wanted
    converter = ctranslate2.converters.TransformersConverter(str(theirs), copy_files=["source.spm", "target.spm"])
    converter.convert(str(tmp_path / "converted"))
    other = Converted.imported(tmp_path / "converted")
    # their converter leaves out the padding, which is the last entry
    assert [[other.orders[0].rows[n] for n in row] for row in other.tokenizers[0].encode_batch(SENTENCES)] == wanted
    other.write(tmp_path / "run", tmp_path / "converted", "dikkat import")
    pieces = [tmp_path / "converted" / f"{side}.spm" for side in ("source", "target")]
    few = SENTENCES[:20]
    theirs_wrote = by_pieces(tmp_path / "converted", pieces[0], pieces[1], few, end=True, kind="float32")
    assert by_us(tmp_path / "run", few) == theirs_wrote


def test_what_is_read_are_the_weights_of_the_model_that_was_converted(converted: Converted) -> None:
    weights, other = converted.imported(converted.theirs), converted.imported(converted.exact)
    # their converter puts a zero where theirs begins with the padding, whose row is zero
    unlike = {"max_positions": 0, "attention_output_bias": None, "norm_eps": 1e-5, "start_from_zero": True}
    assert other.model.model_copy(update=unlike) == weights.model.model_copy(update=unlike)
    assert weights.weights.keys() == other.weights.keys()
    for name, tensor in weights.weights.items():
        # their converter leaves out the padding, whose bias has the id 0
        compared = slice(1, None) if name == "output_bias" else slice(None)
        torch.testing.assert_close(other.weights[name][compared], tensor[compared], rtol=0, atol=0)
    # where each side has a vocabulary, it writes that of the source for both
    assert weights.tokenizers[0].encode_batch(SENTENCES) == other.tokenizers[0].encode_batch(SENTENCES)


@pytest.mark.parametrize(("kind", "largest"), [("int8", 1 / 253), ("int16", 1 / 2040), ("float16", 1 / 2000)])
def test_rounded_weights_are_read_as_they_were_rounded(shared: Converted, kind: str, largest: float) -> None:
    exact, rounded = (shared.imported(shared.converted(name)).weights for name in ("float32", kind))
    assert exact.keys() == rounded.keys()
    for name, tensor in exact.items():
        if tensor.dim() == 2 or kind == "float16":
            difference = (tensor - rounded[name]).abs().max() / tensor.abs().max()
            assert difference <= largest, name
            assert kind == "float16" or name == "output_bias" or difference > 0, name


@pytest.fixture(scope="module")
def random_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of(tmp_path_factory.mktemp("random") / "run")


def run_of(folder: Path, **model: Any) -> Path:
    """A run with random weights and byte-level BPE, whose outputs end soon."""
    sources, targets = phrases()
    sizes = {"model_dim": 32, "num_heads": 4, "feed_forward_dim": 48, "encoder_layers": 2, "decoder_layers": 1}
    config = RunConfig.model_validate(
        {"model": {**sizes, "output_bias": True, **model}, "tokenizer": {"vocab_size": 500}}
    )
    tokenizer = Tokenizer.train([*sources, *targets], config.tokenizer)
    settings = config.model.model_copy(update={"vocab_size": tokenizer.vocab_size})
    network = build_model(settings, 3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
        # or each token would write itself again
        network.output_weight.copy_(torch.randn_like(network.output_weight))
        assert network.output_bias is not None
        network.output_bias[2] += 8
    run = RunDirectory.create(folder)
    with run.alone():
        tokenizer.save(run.path / "tokenizer.json")
        dumped = config.model_dump(include={"tokenizer", "data", "decoding"})
        run.write_config({**dumped, "model": settings.model_dump(), "task": "translator"})
        run.save_weights(dict(network.named_parameters()), {})
        (run.path / "held_out").mkdir()
        (run.path / "held_out" / "test.source.txt").write_text("\n".join(SENTENCES) + "\n")
        (run.path / "held_out" / "test.target.txt").write_text("\n".join(by_us(run.path, SENTENCES)) + "\n")
    return run.path


SHAPES: dict[str, dict[str, Any]] = {
    "post": {"norm_placement": "post", "activation": "gelu", "positions": "sinusoidal_halves"},
    "gated": {"activation": "swiglu", "norm": "rms", "positions": "sinusoidal_concatenated", "tie_embeddings": False},
    "learned": {"activation": "geglu", "positions": "learned", "max_positions": 128, "scale_embeddings": False},
    "silu": {"activation": "silu", "attention_bias": False, "encoder_layers": 1, "decoder_layers": 2},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_that_is_written_translates_alike_and_comes_back(shape: str, tmp_path: Path) -> None:
    settings = {"tie_embeddings": False, "norm_eps": 1e-6, **SHAPES[shape]}
    run = run_of(tmp_path / "run", **settings)
    checked = export_ctranslate2(run, tmp_path / "out", "float32")
    assert (checked.how, checked.sentences) == ("texts", 200)
    again = Converted.imported(tmp_path / "out")
    translator = TrainedTranslator.open(run)
    for name, tensor in translator.weights.items():
        if name != "output_bias":
            torch.testing.assert_close(again.weights[name], tensor, rtol=0, atol=0)
