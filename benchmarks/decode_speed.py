"""Claim: how many sentences a second dikkat translates, how soon one alone, and how CTranslate2 and MarianMT do.

All translate the same test file with the weights of one run directory, from text to text: dikkat in float32 and int8
with its native code and in float32 without, CTranslate2 in int8 and float32 (as many workers of one thread as there are
threads, or one worker with all of them; with AVX512 forced too where the processor has it; with beams that end as soon
as its own do, and later), and Hugging Face's MarianMT in float32 and bfloat16. Each side runs in a fresh process; in
each round all take their turn, every round beginning with another one. In the first round a side tries every batch
size, afterwards it keeps its fastest. Speed only counts at equal quality: every side's BLEU is given, and the share of
sentences that read as those of dikkat without its native code.

A table goes to standard error, one JSON line to standard output. Exit codes: 66 the run or the test file is not there,
1 a side failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.decode_summary import BYTES, CT2_EXACT, OURS, PLAIN, conclusion, summary, table
from benchmarks.harness import (
    HERE,
    MULTI30K,
    OWN_PYTHON,
    Measured,
    child,
    fail,
    make_environment,
    note,
    parser,
    processor_flags,
    provenance,
    require_files,
)
from benchmarks.peak_throughput import linear_layers, measure_products

ENCODED_ROWS = 1024
"""Tokens of a batch of sources, about, when the peak throughput of the encoder is measured."""
CTRANSLATE2_TAKES = {
    "positions": ("sinusoidal", "sinusoidal_concatenated"),
    "activation": ("relu", "gelu"),
    "score": ("scaled_dot",),
    "selection": ("soft",),
    "head_dim": (None,),
    "num_kv_heads": (None,),
    "inverse_temperature": (None,),
    "attention_window": (None,),
}
PATIENCES = (1, 2)
"""With its own, 1, its beam search ends sooner than dikkat's and writes worse."""
LENGTH_PENALTY = 1.3
"""Not dikkat's own, 1.6, with which CTranslate2 with a patience of 2 writes 0.8 BLEU worse, and dikkat the same."""
MARIAN_VARIANTS = {
    "huggingface float32": {"dtype": "float32", "attention": "sdpa"},
    "huggingface bfloat16": {"dtype": "bfloat16", "attention": "sdpa"},
    "huggingface bfloat16 eager": {"dtype": "bfloat16", "attention": "eager"},
}
"""`generate` in float32 won nothing by eager attention, in bfloat16 an eighth to a fifth (one thread, 64 sentences)."""
MARIAN_TAKES = {
    **CTRANSLATE2_TAKES,
    "norm_placement": ("post",),
    "norm": ("layer",),
    "norm_eps": (1e-5,),
    "attention_bias": (True,),
    "tie_embeddings": (True,),
}
"""Settings of a model under which its weights mean the same there."""


@dataclass(frozen=True, slots=True)
class Side:
    """One way to translate, in a process of its own."""

    engine: str
    """What it is a variant of."""
    script: str
    python: Path
    job: Measured = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


def main() -> None:
    options = parse()
    inputs = (options.run / "config.json", options.sources, options.references)
    require_files(inputs, "see --run, --sources and --references")
    environments = {
        "ctranslate2": (options.env_ctranslate2, HERE / "requirements-ctranslate2.txt"),
        "huggingface": (options.env_huggingface, HERE / "requirements.txt"),
    }
    # only those of the sides that run: an environment takes minutes to install
    pythons = {
        peer: make_environment(*paths) if begins_any(options.sides, peer) else OWN_PYTHON
        for peer, paths in environments.items()
    }
    with tempfile.TemporaryDirectory(prefix="dikkat-decode-speed-") as folder:
        print(json.dumps(measure(options, pythons, Path(folder)), ensure_ascii=False))


def parse() -> argparse.Namespace:
    known = parser(__doc__)
    known.add_argument("--run", type=Path, required=True, help="run directory of a trained translator")
    known.add_argument("--sources", type=Path, default=MULTI30K / "test_2016_flickr.en.gz", help="lines to translate")
    known.add_argument(
        "--references", type=Path, default=MULTI30K / "test_2016_flickr.de.gz", help="their translations"
    )
    known.add_argument("--sentences", type=int, help="translate so many lines only; left out, all")
    known.add_argument("--alone", type=int, default=100, help="sentences that are translated alone, in each run")
    known.add_argument("--batches", type=int, nargs="+", default=[64, 256, 1024], help="sentences in a batch, to try")
    known.add_argument("--beam", type=int, default=5, help="beam size beside greedy search")
    known.add_argument("--length-penalty", type=float, default=LENGTH_PENALTY, help="of the beam search of all sides")
    known.add_argument(
        "--sides", nargs="+", help="names of sides, or their first words, to run next to dikkat pytorch; left out, all"
    )
    known.add_argument("--rounds", type=int, default=3, help="times that each side runs")
    known.add_argument("--warm", type=int, default=256, help="sentences before the clock starts, at each batch size")
    known.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of every side")
    for peer in ("ctranslate2", "huggingface"):
        where = HERE / f".venv-{peer}"
        known.add_argument(f"--env-{peer}", type=Path, default=where, help=f"where {peer} is installed")
    options = known.parse_args()
    counts = (options.alone, *options.batches, options.rounds, options.warm, options.threads)
    if min(counts) < 1 or options.beam < 2 or (options.sentences is not None and options.sentences < 1):
        known.error("--beam must be at least 2, every other number at least 1")
    return options


def begins_any(names: Sequence[str] | None, words: str) -> bool:
    """Return whether one of the `names` begins with these words; without names, True."""
    return names is None or any(f"{name} ".startswith(f"{words} ") for name in names)


def measure(options: argparse.Namespace, pythons: dict[str, Path], folder: Path) -> Measured:
    """All rounds, and what they come to."""
    load = os.getloadavg()[0]
    data = prepare(options, folder)
    each = sides(options, pythons, folder, data)
    note(f"{data['sentences']:,} sentences, {options.threads} threads, {options.rounds} rounds of {len(each)} sides")
    rounds: list[Measured] = []
    for number in range(options.rounds):
        rounds.append(one_round(options, each, folder, data, rounds))
        if number == 0:
            data = {**data, **scored(options, each, folder, data)}
        note(f"round {number + 1}\n{table(summary(rounds[-1:], engines(each), data))}")
    found = summary(rounds, engines(each), data)
    note(f"medians\n{table(found)}\n{conclusion(found)}")
    return {**context(options, data, rounds), "load_average_before": load, **found, "rounds": rounds}


def engines(each: dict[str, Side]) -> dict[str, str]:
    return {name: side.engine for name, side in each.items()}


def prepare(options: argparse.Namespace, folder: Path) -> Measured:
    """Weights and lines for all sides, and the model of CTranslate2. Ends the script if that cannot hold the model."""
    files = {"weights": str(folder / "weights.npz"), "lines": str(folder / "lines.json")}
    texts = {"sources": str(options.sources), "references": str(options.references), "sentences": options.sentences}
    data = child(OWN_PYTHON, "decoding_preparation", {"run": str(options.run), **files, **texts}, options.threads)
    if found := unlike(data["model"], CTRANSLATE2_TAKES):
        fail(f"{options.run}: CTranslate2 cannot hold this model, which has {found}; name another run")
    if data["lowercase"]:
        fail(f"{options.run}: the peers would lower-case by other rules; name a run without tokenizer.lowercase")
    if begins_any(options.sides, "ctranslate2"):
        convert = {"run": str(options.run), "converted": str(folder / "ctranslate2")}
        child(OWN_PYTHON, "ctranslate2_conversion", convert, options.threads)
    different = unlike(data["model"], MARIAN_TAKES)
    random = f"Marian cannot hold these weights ({different}): same sizes, random weights, as many steps as dikkat took"
    return {**data, **files, "huggingface_weights": random if different else "those of the run"}


def unlike(model: Measured, takes: Measured) -> str:
    """The settings of the model that are not among those taken."""
    return ", ".join(f"{name} = {model[name]}" for name, values in takes.items() if model[name] not in values)


def sides(options: argparse.Namespace, pythons: dict[str, Path], folder: Path, data: Measured) -> dict[str, Side]:
    """By name. The one that the texts of all are compared with comes first."""
    found = {
        PLAIN: Side(PLAIN, "dikkat_decoding", OWN_PYTHON, environment={"DIKKAT_NATIVE": "0"}),
        OURS: Side(OURS, "dikkat_decoding", OWN_PYTHON),
        BYTES: Side(BYTES, "dikkat_decoding", OWN_PYTHON, {"precision": "int8"}),
    }
    forced = {"": {}, " AVX512": {"CT2_FORCE_CPU_ISA": "AVX512"}}
    if "avx512f" not in processor_flags():
        del forced[" AVX512"]
    shapes = sorted({(options.threads, 1), (1, options.threads)})
    for dtype, (workers, threads), suffix, patience in product(("int8", "float32"), shapes, forced, PATIENCES):
        job = {
            "dtype": dtype,
            "workers": workers,
            "threads_each": threads,
            "patience": patience,
            "converted": str(folder / "ctranslate2"),
        }
        # what patience costs does not depend on how threads share the work
        if patience != 1 and (workers, threads) != shapes[-1]:
            continue
        patient = "" if patience == 1 else f" patience {patience}"
        found[f"ctranslate2 {dtype} {workers}x{threads}{suffix}{patient}"] = Side(
            f"ctranslate2 {dtype}", "ctranslate2_decoding", pythons["ctranslate2"], job, forced[suffix]
        )
    same = data["huggingface_weights"] == "those of the run"
    marian = {"model": data["model"], "weights": data["weights"] if same else ""}
    for name, variant in MARIAN_VARIANTS.items():
        found[name] = Side("huggingface", "huggingface_decoding", pythons["huggingface"], {**marian, **variant})
    if options.sides is None:
        return found
    if unknown := [asked for asked in options.sides if not any(begins_any([name], asked) for name in found)]:
        fail(f"--sides {unknown[0]}: no side is called so; known: {', '.join(found)}", 2)
    return {
        name: side for name, side in found.items() if any(begins_any([name], each) for each in (PLAIN, *options.sides))
    }


def one_round(
    options: argparse.Namespace, each: dict[str, Side], folder: Path, data: Measured, before: list[Measured]
) -> Measured:
    """Every side in its turn, and the peak throughput."""
    names = list(each)
    turn = len(before) % len(names)
    found = {}
    for name in names[turn:] + names[:turn]:
        side, searches = each[name], {}
        for search, beam in (("greedy", 1), (f"beam {options.beam}", options.beam)):
            sizes = options.batches
            if before:
                tried = before[0]["contenders"][name]["searches"][search]["batch_seconds"]
                sizes = [int(min(tried, key=tried.__getitem__))]
            searches[search] = {"beam_size": beam, "batch_sizes": sizes}
        job = {
            **side.job,
            "run": str(options.run),
            "lines": data["lines"],
            "texts": texts_of(name, folder),
            "reference_texts": texts_of(PLAIN, folder),
            "searches": searches,
            "length_penalty": options.length_penalty,
            "warm": options.warm,
            "alone": options.alone,
        }
        found[name] = child(side.python, side.script, job, options.threads, side.environment)
    return {"contenders": {name: found[name] for name in names}, "peak": peak_throughput(options, data)}


def texts_of(name: str, folder: Path) -> str:
    return str(folder / f"{name.replace(' ', '-')}.json")


def peak_throughput(options: argparse.Namespace, data: Measured) -> Measured:
    """FLOP/s of each linear layer at the rows of each way to decode, the best that this machine was seen to do.

    That is in float32 or bfloat16, with all threads at one product or one thread a product; in batches, every thread
    may have a product of its own.
    """
    layers = linear_layers(data["model"])
    alone = max(1, round(data["source_tokens"] / data["sentences"]))
    rows = {"source batch": ENCODED_ROWS, "source alone": alone}
    for search, beam in (("greedy", 1), (f"beam {options.beam}", options.beam)):
        rows |= {f"{search} batch": beam * max(options.batches), f"{search} alone": beam}
    products = [(count, layer) for count in rows.values() for layer in layers]
    together = measure_products(products, options.threads, backward=False)
    single = measure_products(products, 1, backward=False)
    best = {name: [0.0] * len(layers) for name in rows}
    for measured, side_by_side in ((together, 1), (single, options.threads)):
        for rates in measured["rates"].values():
            for place, rate in enumerate(rates):
                name, layer = list(rows)[place // len(layers)], place % len(layers)
                times = side_by_side if name.endswith("batch") else 1
                best[name][layer] = max(best[name][layer], times * rate)
    return {"rows": rows, "flop_per_second": best, "copy_bytes_per_second": together["copy_bytes_per_second"]}


def scored(options: argparse.Namespace, each: dict[str, Side], folder: Path, data: Measured) -> Measured:
    """Quality of all sides with the run's weights. Ends the script if the converted model does not write as ours."""
    same = [name for name in each if each[name].job.get("weights", "same")]
    job = {"run": str(options.run), "lines": data["lines"], "reference": PLAIN}
    found = child(
        OWN_PYTHON,
        "translation_scores",
        {**job, "texts": {name: texts_of(name, folder) for name in same}},
        options.threads,
    )
    for name, side in each.items():
        share = found["contenders"].get(name, {}).get("greedy", {}).get("same_text", 1.0)
        if side.engine == CT2_EXACT and share <= 0.5:
            fail(f"{name} writes only {share:.0%} of the sentences as dikkat does: its weights are not the same")
    return {
        "target_tokens": found["target_tokens"],
        "scores": found["contenders"],
        "bleu_signature": found["signature"],
    }


def context(options: argparse.Namespace, data: Measured, rounds: list[Measured]) -> Measured:
    """What a reader needs in order to judge the numbers."""
    versions = {key: value for side in rounds[0]["contenders"].values() for key, value in side["versions"].items()}
    return {
        **provenance("decode_speed"),
        "versions": {**versions, "python": platform.python_version()},
        "run": str(options.run),
        "model": data["model"],
        "test": [str(options.sources), str(options.references)],
        "sentences": data["sentences"],
        "source_tokens": data["source_tokens"],
        "target_tokens": data["target_tokens"],
        "beam": options.beam,
        "length_penalty": options.length_penalty,
        "threads": options.threads,
        "alone": options.alone,
        "bleu_signature": data["bleu_signature"],
        "huggingface_weights": data["huggingface_weights"],
        "from": "text to text, tokenizer included; tokenizing_seconds is its part for all sentences",
        "flop_formula": "2 x weights of the linear layers x tokens through each (beam x target tokens); the peak is the"
        " fastest of float32 and bfloat16 products at these shapes, by one thread or all; int8 is not measured",
    }


if __name__ == "__main__":
    main()
