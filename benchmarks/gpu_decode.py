"""Claim: how many sentences a second one GPU translates, beside CTranslate2 in float16 and Hugging Face in bfloat16.

RUN is a translator, and SOURCE a text in its language; equal lines, which we translate once, are left out. All run in
this process, after a warm-up: our engine from text to text and from ids to ids, CTranslate2 with the same weights and
ids, and Marian in Hugging Face with random weights in the same shape, which writes as many tokens as our longest
translation. The torch engine and Hugging Face have the first lines only, whose time is extended to all.
Each part prints its traceback where it fails, and the others still run. One JSON line a part on standard output.
"""

from __future__ import annotations

import argparse
import cProfile
import glob
import importlib.util
import json
import os
import pstats
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

CUBLAS = "/tmp/cublas12"


def provide_cublas() -> None:
    """Let CTranslate2, built for CUDA 12, load the cuBLAS that PyTorch brought, whatever its version.

    A process finds libraries where LD_LIBRARY_PATH points as it starts, so that this one starts anew.
    """
    found = importlib.util.find_spec("nvidia")
    places = [*(found.submodule_search_locations or [])] if found else glob.glob("/usr/local/cuda*/lib64")
    searched = os.environ.get("LD_LIBRARY_PATH", "")
    if CUBLAS in searched or "cpu" in sys.argv:
        return
    Path(CUBLAS).mkdir(exist_ok=True)
    for name in ("libcublasLt", "libcublas"):
        versions = [path for place in places for path in glob.glob(f"{place}/**/{name}.so.1[0-9]", recursive=True)]
        link = Path(CUBLAS) / f"{name}.so.12"
        print(f"{link}: {versions}", file=sys.stderr)
        if versions and not link.exists():
            link.symlink_to(versions[0])
    os.environ["LD_LIBRARY_PATH"] = f"{CUBLAS}:{searched}"
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.argv])


if __name__ == "__main__":
    provide_cublas()

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch  # noqa: E402
from benchmarks.contenders.huggingface_marian import EOS_ID, PAD_ID, build  # noqa: E402

from dikkat.tasks.common.device import device_name  # noqa: E402
from dikkat.torch_engine.graph_engine import GraphEngine  # noqa: E402
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions  # noqa: E402
from dikkat_runtime.engine.precision import PrecisionName  # noqa: E402
from dikkat_runtime.tasks.batches import search_all  # noqa: E402
from dikkat_runtime.tasks.translator import Translator  # noqa: E402

BEAMS = (5, 1)
ROUNDS = 2
CTRANSLATE2_BATCHES = {5: (256, 1024), 1: (1024, 4096)}
"""Sentences of a batch, by beam."""


def wait(device: str) -> None:
    """Wait until a GPU has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def timed(work: Callable[[], Any], device: str, warm_up: Callable[[], Any] | None = None) -> tuple[float, Any]:
    """Return the least seconds of the rounds after a warm-up, by default the work itself, and what it returned."""
    (work if warm_up is None else warm_up)()
    seconds = []
    for _ in range(ROUNDS if warm_up is None else 1):
        wait(device)
        began = time.perf_counter()
        result = work()
        wait(device)
        seconds.append(time.perf_counter() - began)
    return min(seconds), result


@contextmanager
def surviving(name: str) -> Iterator[None]:
    """Print the traceback of what fails, and go on."""
    print(f"== {name}", file=sys.stderr)
    try:
        yield
    except Exception:
        print(f"== FAILED: {name}", file=sys.stderr)
        traceback.print_exc()


class Benchmark:
    """The text, its ids, and what is printed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.device = options, options.device
        self.lines = list(dict.fromkeys(options.source.read_text(encoding="utf-8").removesuffix("\n").split("\n")))
        self.translator = self.load("float32")
        self.few = min(options.few, len(self.lines))
        self.ids = self.translator.tokenizer.encode_batch(self.lines, self.translator.language)
        self.reference: dict[int, list[tuple[int, ...]]] = {}

    def load(self, precision: PrecisionName) -> Translator:
        return Translator.load(self.options.run, precision, self.device)

    def report(self, part: str, seconds: float, **more: Any) -> None:
        """Print one line; a rate is of sentences a second."""
        row = {"part": part, "card": device_name(torch.device(self.device)), "sentences": len(self.lines)}
        row |= {"seconds": round(seconds, 4), "rate": round(len(self.lines) / seconds, 1), **more}
        print(json.dumps(row), flush=True)

    def ours(self, precision: PrecisionName) -> None:
        """Translate with our engine; differences are from the ids that it writes in float32."""
        translator = self.load(precision)
        print(translator.info, file=sys.stderr)
        for beam in BEAMS:
            with surviving(f"dikkat {precision} beam {beam}"):
                options = options_of(beam)
                seconds, found = timed(partial(search_all, translator.engine, self.ids, options), self.device)
                written = [hypotheses[0].tokens for hypotheses in found]
                different = sum(map(tuple.__ne__, written, self.reference.setdefault(beam, written)))
                steps = sum(map(len, written)) / len(written)
                self.report("ids", seconds, precision=precision, beam=beam, different=different, tokens_each=steps)
                seconds, _ = timed(partial(text_to_text, translator, self.lines, options), self.device)
                self.report("text", seconds, precision=precision, beam=beam)

    def without_graphs(self) -> None:
        """Take the same steps one by one, and tell whether recording changes what is written."""
        translator = self.load("float32")
        engine = GraphEngine(translator.model, precision="float32", records=False)
        for beam in BEAMS:
            work, warm_up = (partial(search_all, engine, ids, options_of(beam)) for ids in (self.ids, self.ids[:64]))
            seconds, found = timed(work, self.device, warm_up)
            written = [hypotheses[0].tokens for hypotheses in found]
            different = sum(map(tuple.__ne__, written, self.reference.setdefault(beam, written)))
            self.report("ids, no graphs", seconds, precision="float32", beam=beam, different=different)

    def steps_alone(self) -> None:
        """Use the torch engine, which asks the host at each step, on the text once."""
        translator = Translator.load(self.options.run, "float32", self.device, "torch")
        ids = self.ids[: self.few]
        for beam in BEAMS:
            work, warm_up = (
                partial(search_all, translator.engine, part, options_of(beam), batch_size=1024)
                for part in (ids, ids[:64])
            )
            seconds, found = timed(work, self.device, warm_up)
            seconds *= len(self.lines) / self.few
            written = [hypotheses[0].tokens for hypotheses in found]
            different = sum(map(tuple.__ne__, written, self.reference.get(beam, written)))
            self.report("ids, torch engine", seconds, precision="float32", beam=beam, different=different)

    def profile(self) -> None:
        """Print where the time of one batch goes, by kernel and by operator, and that of ten by function of Python."""
        from torch.profiler import ProfilerActivity
        from torch.profiler import profile as record

        engine = self.load("float16" if self.device == "cuda" else "float32").engine
        for beam in BEAMS:
            ids, options = self.ids[:1024], options_of(beam)
            search_all(engine, ids, options)
            search_all(engine, ids, options)
            wait(self.device)
            with record(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
                search_all(engine, ids, options)
                wait(self.device)
            for order in (f"self_{self.device}_time_total", "self_cpu_time_total"):
                table = found.key_averages().table(sort_by=order, row_limit=25, max_name_column_width=60)
                print(f"beam {beam}\n{table}", file=sys.stderr)
            watched = cProfile.Profile()
            watched.runcall(search_all, engine, self.ids, options)
            pstats.Stats(watched, stream=sys.stderr).sort_stats("tottime").print_stats(25)

    def ctranslate2(self) -> None:
        """Translate the same ids with the same weights by CTranslate2 in float16."""
        ctranslate2 = importlib.import_module("ctranslate2")
        folder = Path(self.options.run).with_name("ctranslate2")
        if not folder.exists():
            from benchmarks.contenders.ctranslate2_conversion import main as convert

            convert({"run": self.options.run, "converted": folder})
        names = json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
        kind = "float16" if self.device == "cuda" else "float32"
        engine = ctranslate2.Translator(str(folder), device=self.device, compute_type=kind)
        tokens = [[names[token] for token in ids] for ids in self.ids]
        longest = 2 * (max(map(len, tokens)) + 1) + 10
        number_of = {name: number for number, name in enumerate(names)}
        for beam in BEAMS:
            for size in CTRANSLATE2_BATCHES[beam]:
                with surviving(f"ctranslate2 beam {beam} batch {size}"):
                    options = {"beam_size": beam, "length_penalty": 1.6, "max_decoding_length": longest}
                    work = partial(engine.translate_batch, tokens, max_batch_size=size, **options)
                    warm_up = partial(engine.translate_batch, tokens[:size], max_batch_size=size, **options)
                    seconds, found = timed(work, self.device, warm_up)
                    written = [tuple(number_of[name] for name in item.hypotheses[0]) for item in found]
                    different = sum(map(tuple.__ne__, written, self.reference.get(beam, written)))
                    version, computed = ctranslate2.__version__, engine.compute_type
                    more = {"precision": computed, "beam": beam, "batch": size, "different": different}
                    self.report("ids, CTranslate2", seconds, version=version, **more)

    def huggingface(self) -> None:
        """Write as many tokens as ours by MarianMT with random weights, on the first part of the text."""
        import transformers

        shape = self.translator.config.model.model_dump() | {"dropout": 0.0, "activation": "relu"}
        kind = torch.bfloat16 if self.device == "cuda" else torch.float32
        model = build(shape, "sdpa").eval().to(self.device, kind)
        ids = sorted(self.ids[: self.few], key=len)
        longest = max(map(len, ids)) + 1
        source = torch.tensor([[*row, EOS_ID] + [PAD_ID] * (longest - len(row) - 1) for row in ids])
        source = source.to(self.device)
        for beam in BEAMS:
            with surviving(f"huggingface beam {beam}"):
                count = max(len(tokens) for tokens in self.reference[beam]) + 1
                options = {"num_beams": beam, "do_sample": False, "min_new_tokens": count, "max_new_tokens": count}

                def generate(options: dict[str, Any] = options) -> Any:
                    return model.generate(input_ids=source, attention_mask=(source != PAD_ID).long(), **options)

                with torch.inference_mode():
                    few = options | {"min_new_tokens": 2, "max_new_tokens": 2}
                    seconds, _ = timed(generate, self.device, partial(generate, few))
                seconds *= len(self.lines) / self.few
                more = {"steps": count, "version": transformers.__version__}
                self.report("ids, Hugging Face", seconds, precision=str(kind), beam=beam, **more)


def text_to_text(translator: Translator, lines: Sequence[str], options: DecodingOptions) -> list[str]:
    """Translate lines as the command does."""
    return [translation.text for translation in translator.stream(lines, options)]


def options_of(beam: int) -> DecodingOptions:
    """Return the options of our command."""
    return BeamOptions(beam_size=beam, scores=False) if beam > 1 else DecodingOptions(scores=False)


def parse() -> argparse.Namespace:
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("run", help="a run directory of `dikkat train translator`")
    known.add_argument("source", type=Path, help="a text, one sentence a line")
    known.add_argument("--few", type=int, default=1000, help="lines that the slow ones translate")
    known.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    known.add_argument("--parts", default="ours,profile,ctranslate2,graphs,torch,huggingface", help="with commas")
    return known.parse_args()


def main() -> None:
    options = parse()
    benchmark = Benchmark(options)
    half: PrecisionName = "float16" if options.device == "cuda" else "float32"
    parts: dict[str, list[Callable[[], None]]] = {
        "ours": [lambda: benchmark.ours("float32"), lambda: benchmark.ours(half)],
        "graphs": [benchmark.without_graphs],
        "ctranslate2": [benchmark.ctranslate2],
        "huggingface": [benchmark.huggingface],
        "torch": [benchmark.steps_alone],
        "profile": [benchmark.profile],
    }
    for name in options.parts.split(","):
        for work in parts[name]:
            with surviving(name):
                work()


if __name__ == "__main__":
    main()
