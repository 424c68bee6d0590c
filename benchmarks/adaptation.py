"""Claim: how much a translator of Marian gains in a domain by --from in so many minutes of training.

A small base en-fr is trained on the spot, on the sentences of Tatoeba, and imported from a Marian file: by pymarian
with --marian, else by dikkat, whose run is exported to Marian and imported again. It is then adapted to image captions,
the training part of multi30k, with --mix beside some of the general pairs. BLEU and chrF are those of
test_2016_flickr, which neither has seen, and of sentences of Tatoeba that were held out, by greedy search, before and
after, and with the weights between the two that `dikkat interpolate` writes. --base is a run from en to fr to adapt
instead.

A table goes to standard error, one JSON line to standard output. Exit codes: 66 the data is not there, 1 a side failed.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import MULTI30K, OWN_PYTHON, ROOT, Measured, fail, note, parser, provenance, require_files

Pair = tuple[str, str]
_HELD_OUT = 500
"""Sentences of Tatoeba on which nothing is trained."""
_TRAIN = "import json, sys; from pymarian import Trainer; Trainer(**json.load(sys.stdin)).train()"


def lines(path: Path) -> list[str]:
    """Lines of a compressed text."""
    return gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")


def tatoeba(path: Path) -> list[Pair]:
    """Pairs of the table, mixed, each source once."""
    rows = [line.split("\t") for line in lines(path) if line]
    pairs = list({row[0]: (row[0], row[1]) for row in rows}.values())
    # a fixed order that is none of lengths, by which the table is sorted: 7,919 is a prime
    return [pairs[number * 7919 % len(pairs)] for number in range(len(pairs))]


def captions(folder: Path, part: str) -> list[Pair]:
    """Pairs of a part of multi30k."""
    sides = [lines(folder / f"{part}.{side}.gz") for side in ("en", "fr")]
    return [pair for pair in zip(*sides, strict=True) if all(pair)]


def write_table(path: Path, pairs: Sequence[Pair]) -> Path:
    """Write pairs as a table."""
    path.write_text("".join("\t".join(pair) + "\n" for pair in pairs), encoding="utf-8")
    return path


def train_ourselves(pairs: Sequence[Pair], folder: Path, minutes: float, threads: int) -> Path:
    """Train a small Transformer of Marian's shape by dikkat; returns a folder of Marian."""
    settings = {
        "tokenizer.kind": "unigram", "tokenizer.vocab_size": 6000, "model.start_from_zero": "true",
        "model.norm_placement": "post", "model.norm_eps": 1e-6, "model.positions": "sinusoidal_concatenated",
        "model.output_bias": "true", "model.model_dim": 128, "model.feed_forward_dim": 512, "model.num_heads": 4,
        "model.encoder_layers": 2, "model.decoder_layers": 2,
    }  # fmt: skip
    asked = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    table, run = write_table(folder / "general.tsv", pairs), folder / "run"
    dikkat("train", "translator", str(table), "--out", str(run), "--minutes", str(minutes), *asked, threads=threads)
    dikkat("export", str(run), "--to", "marian", "--out", str(folder / "written"), threads=threads)
    return folder / "written"


def train_marian(python: Path, pairs: Sequence[Pair], folder: Path, updates: int, threads: int) -> Path:
    """Train a small Transformer by Marian; returns a folder of its model, vocabulary and options."""
    for number, side in enumerate(("en", "fr")):
        (folder / f"base.{side}").write_text("".join(f"{pair[number]}\n" for pair in pairs), encoding="utf-8")
    settings: Measured = {
        "type": "transformer", "model": folder / "model.npz",
        "train-sets": [folder / f"base.{side}" for side in ("en", "fr")],
        "vocabs": [folder / "vocab.spm"] * 2, "dim-vocabs": [2000, 2000], "tied-embeddings-all": True,
        "dim-emb": 128, "transformer-dim-ffn": 512, "transformer-heads": 4, "enc-depth": 2, "dec-depth": 2,
        "label-smoothing": 0.1, "learn-rate": 0.003, "lr-warmup": "300", "lr-decay-inv-sqrt": ["300"],
        "optimizer-params": [0.9, 0.98, 1e-9], "clip-norm": 1, "exponential-smoothing": 0.003, "mini-batch-words": 700,
        "mini-batch": 1000, "maxi-batch": 200, "max-length": 60, "after": f"{updates}u", "disp-freq": "50",
        "cpu-threads": threads, "workspace": 1000, "seed": 1, "overwrite": True, "quiet-translation": True,
    }  # fmt: skip
    started = time.monotonic()
    asked = json.dumps(settings, default=str)
    done = subprocess.run([str(python), "-c", _TRAIN], input=asked, stdout=sys.stderr, text=True, check=False)
    if done.returncode or not (folder / "model.npz").exists():
        fail(f"Marian ended with {done.returncode}")
    note(f"Marian ended after {time.monotonic() - started:,.0f} seconds")
    return folder


COMMAND = "from dikkat_runtime.cli.main import main; main()"


def dikkat(*words: str, threads: int, program: str = COMMAND) -> None:
    """Run a command of dikkat, by `program`. Ends the script where it fails."""
    paths = os.pathsep.join(str(ROOT / path) for path in ("src", "runtime/src"))
    command = [str(OWN_PYTHON), "-c", program, *words]
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": str(threads)}
    if code := subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode:
        fail(f"dikkat {words[0]} ended with {code}")


def scores(run: Path, pairs: Sequence[Pair], threads: int) -> Measured:
    """BLEU and chrF, by sacreBLEU, of the greedy translations of `pairs`."""
    from sacrebleu import BLEU, CHRF

    from dikkat_runtime.engine.options import DecodingOptions
    from dikkat_runtime.tasks.translator import Translator

    translator = Translator.load(run, threads=threads, precision="float32")
    sources, references = ([pair[side] for pair in pairs] for side in (0, 1))
    written = [line.text for line in translator.stream(sources, DecodingOptions(scores=False))]
    bleu, chrf = BLEU(), CHRF()
    return {
        "bleu": round(bleu.corpus_score(written, [references]).score, 2),
        "chrf": round(chrf.corpus_score(written, [references]).score, 2),
        "signatures": [str(bleu.get_signature()), str(chrf.get_signature())],
    }


def main() -> None:
    """Measure the gain, and print what held."""
    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, default=MULTI30K, help="folder of multi30k")
    arguments.add_argument("--general", type=Path, default=MULTI30K.parent / "tatoeba/eng-fra.tsv.gz")
    arguments.add_argument("--marian", type=Path, help="Python that has pymarian, to train the base by it")
    arguments.add_argument("--updates", type=int, default=1000, help="of pymarian")
    arguments.add_argument("--base-minutes", type=float, default=5.0, help="of training the base, without pymarian")
    arguments.add_argument("--base", type=Path, help="run to adapt, instead of one by Marian")
    arguments.add_argument("--minutes", type=float, default=5.0, help="of adaptation")
    arguments.add_argument("--mix", type=int, default=0, help="pairs of the general text to adapt on too")
    arguments.add_argument("--shares", type=float, nargs="*", default=[0.25, 0.5, 0.75], help="of interpolation")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--keep", type=Path, help="new folder for the base and the adapted run")
    options = arguments.parse_args()
    parts = ("train", "val", "test_2016_flickr")
    require_files([options.data / f"{part}.{side}.gz" for part in parts for side in ("en", "fr")])
    require_files([options.general], "name the table with --general")
    by = str(options.base or ("pymarian" if options.marian else f"dikkat, {options.base_minutes:g} minutes"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if options.keep is None else options.keep
        folder.mkdir(parents=True, exist_ok=True)
        general, base = tatoeba(options.general), options.base
        if base is None:
            (folder / "marian").mkdir()
            pairs, home = general[_HELD_OUT:], folder / "marian"
            if options.marian is None:
                trained = train_ourselves(pairs, home, options.base_minutes, options.threads)
            else:
                trained = train_marian(options.marian, pairs, home, options.updates, options.threads)
            base = folder / "base"
            dikkat("import", str(trained), "--out", str(base), threads=options.threads)
        mixed = captions(options.data, "train") + general[_HELD_OUT:][: options.mix]
        memory = write_table(folder / "memory.tsv", mixed)
        adapted = folder / "adapted"
        dikkat("train", "translator", str(memory), "--from", str(base), "--out", str(adapted),
               "--minutes", str(options.minutes), threads=options.threads)  # fmt: skip
        runs = {"before": base, "after": adapted}
        for share in options.shares:
            runs[f"share {share:g}"] = between = folder / f"share-{share:g}"
            dikkat("interpolate", str(adapted), "--share", str(share), "--out", str(between), threads=options.threads)
        tests = {"captions": captions(options.data, "test_2016_flickr"), "general": general[:_HELD_OUT]}
        result = {
            name: {moment: scores(run, pairs, options.threads) for moment, run in runs.items()}
            for name, pairs in tests.items()
        }
    for name, by_moment in result.items():
        for moment, score in by_moment.items():
            note(f"{name}, {moment}: chrF {score['chrf']}, BLEU {score['bleu']}")
    asked = {"minutes": options.minutes, "mix": options.mix, "base": by}
    print(json.dumps({**provenance("adaptation"), **asked, **result}))


if __name__ == "__main__":
    main()
