"""How many sentences a second a translator writes in a browser, beside onnxruntime-web and Bergamot.

All sides run in the same headless Chromium, one thread each, greedily, on held-out sentences of the run, with its
weights: dikkat as `dikkat export --to web` writes it (int8, float32, plain JavaScript), onnxruntime-web with what
`dikkat export --to onnx` writes, Bergamot with the weights in its own format. Sides take turns, and seconds are those
of the processors that the browser used. Marian's decoder begins with a vector of zeros, so all sides here read a run
whose begin mark has one. For Bergamot train with --set model.norm_placement=post --set model.output_bias=true
--set model.positions=sinusoidal_concatenated; for another run it is left out, which the output says.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

# a script has its own folder on the path; the benchmarks are a package of the one above, dikkat that of this checkout
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import HERE, Measured, fail, note, parser, provenance, require_files

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
REQUIREMENTS = HERE / "requirements-browser.json"
PAGE = "<!doctype html><meta charset=utf-8><title>browser_speed</title><script type=module src=/sides.js></script>"


def main() -> None:
    """Measure, and print a table on standard error and one JSON line on standard output."""
    options = parser(__doc__)
    options.add_argument("--run", type=Path, required=True, help="a translator with a joint vocabulary of bytes")
    options.add_argument("--sentences", type=int, default=100, help="held-out sentences, from all over the file")
    options.add_argument("--rounds", type=int, default=3, help="turns of every side")
    options.add_argument("--env", type=Path, default=HERE / ".node-browser", help="folder for the packages of npm")
    options.add_argument("--without-peers", action="store_true", help="measure dikkat alone; nothing is installed")
    given = options.parse_args()
    if min(given.sentences, given.rounds) < 1:
        options.error("--sentences and --rounds must be at least 1")
    require_files([given.run / "config.json", given.run / "held_out/test.source.txt"], "see --run")
    require_files([CHROMIUM], "apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        texts = sentences(given.run, given.sentences)
        expected, sides = prepared(given.run, site, None if given.without_peers else packages(given.env), texts)
        rounds, loading = measured(site, sides, texts, given.rounds)
    result = summary(rounds, loading, texts, expected)
    table(result)
    print(json.dumps({**provenance("sentences a second in a browser"), **result, "rounds": rounds}))


def sentences(run: Path, count: int) -> list[str]:
    """At most `count` different held-out sentences, evenly from all over the file."""
    lines = (run / "held_out/test.source.txt").read_text(encoding="utf-8").split("\n")[:-1]
    distinct = list(dict.fromkeys(lines))
    return distinct[:: max(1, len(distinct) // count)][:count]


def packages(folder: Path) -> Path:
    """The folder with what `requirements-browser.json` pins; installed once, and again when the pins change."""
    installed = folder / "package.json"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if installed.exists() and installed.read_text(encoding="utf-8") == wanted and (folder / "done").exists():
        return folder
    note(f"installing the peers in {folder} …")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    installed.write_text(wanted, encoding="utf-8")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)]
    if shutil.which("npm") is None or subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        fail(f"{folder}: npm could not install the peers; try --without-peers")
    (folder / "done").touch()
    return folder


def prepared(run: Path, site: Path, peers: Path | None, texts: Sequence[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Write every side's files into `site`; return the texts of the native engine, and how a page loads each side."""
    from benchmarks.contenders.bergamot_model import unlike, without_begin_mark, write_bergamot

    from dikkat import Translator
    from dikkat.run_directory import RunDirectory
    from dikkat.web.module import write_module
    from dikkat.web.opening import open_for_web
    from dikkat.web.page import live_page
    from dikkat_runtime.engine.options import BeamOptions

    copy = site / "run"
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("checkpoints", "corpus"))
    without_begin_mark(opened := RunDirectory.open(copy))
    sides: dict[str, list[Any]] = {}
    for precision in ("int8", "float32"):
        write_module(open_for_web(copy, precision), site / precision)
        sides[f"dikkat {precision}"] = ["dikkat", precision, True]
    page = live_page(open_for_web(copy), examples=[next(text for text in texts if text)])
    (site / "page.html").write_text(page, encoding="utf-8")
    sides["dikkat int8, JavaScript alone"] = ["dikkat", "int8", False]
    if peers:
        (site / "node_modules").symlink_to((peers / "node_modules").resolve())
        export = [sys.executable, "-m", "dikkat", "export", str(copy), "--to", "onnx", "--out", str(site / "onnx")]
        path = os.pathsep.join(sys.path[:3])
        if subprocess.run(export, stdout=sys.stderr, env={**os.environ, "PYTHONPATH": path}, check=False).returncode:
            fail("the run cannot be exported to ONNX; try --without-peers")
        sides["onnxruntime-web float32"] = ["onnx", "onnx", "float32"]
        if why := unlike(opened.read_config()["model"]):
            note(f"Bergamot is left out, since Marian computes no model with {why}")
        else:
            write_bergamot(opened, site / "bergamot")
            sides["Bergamot int8, a sentence a call"] = ["bergamot", "bergamot", False]
            sides["Bergamot int8, all in one call"] = ["bergamot", "bergamot", True]
    shutil.copy(HERE / "contenders/browser_sides.js", site / "sides.js")
    (site / "index.html").write_text(PAGE, encoding="utf-8")
    native = Translator.load(copy, engine="native", precision="float32")
    memory = native.engine.encode(native.tokenizer.encode_batch([text.strip() for text in texts]))
    found = [best for (best, *_) in native.engine.search(memory, BeamOptions(beam_size=1))]
    return [native.target_tokenizer.decode(each.tokens) for each in found], sides


def measured(
    site: Path, sides: dict[str, list[Any]], texts: Sequence[str], rounds: int
) -> tuple[list[dict[str, Measured]], dict[str, Measured]]:
    """What every side took in each round, and in loading its model, every side in a page of its own."""
    from playwright.sync_api import sync_playwright

    found: list[dict[str, Measured]] = []
    loading: dict[str, Measured] = {}
    with served(site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        pages = {}
        for name, how in sides.items():
            page = pages[name] = browser.new_page()
            page.goto(f"{address}/index.html")
            page.wait_for_function("() => Boolean(globalThis.measure)")
            loading[name] = timed(partial(page.evaluate, "([key, how]) => load(key, how)", [name, how]))
            page.evaluate("([key, texts]) => measure(key, texts)", [name, list(texts)])
        for number in range(rounds):
            note(f"round {number + 1} of {rounds} …")
            turn = list(pages.items())
            # each round begins with another side
            turn = turn[number % len(turn) :] + turn[: number % len(turn)]
            ask = "([key, texts]) => measure(key, texts)"
            found.append({name: timed(partial(page.evaluate, ask, [name, list(texts)])) for name, page in turn})
        for _ in range(rounds):
            note(opened_page(browser, site / "page.html"))
        browser.close()
    return found, loading


def opened_page(browser: Any, path: Path) -> str:
    """Say how long a page of `dikkat page` takes from opening to its first translation."""
    page = browser.new_page()
    answer = timed(partial(until_ready, page, path))
    engine = page.locator("#engine-line").text_content()
    page.close()
    return (
        f"page ready after {answer['milliseconds']:.0f} ms of the clock, "
        f"{1e3 * answer['processor_seconds']:.0f} ms of the processor; it says: {engine}"
    )


def until_ready(page: Any, path: Path) -> Measured:
    """Open a page, and wait for its first translation."""
    begun = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-state=ready]:not([data-busy])")
    return {"milliseconds": 1e3 * (time.perf_counter() - begun)}


def timed(work: Any) -> Measured:
    """What a page answers, with the seconds of the processor that all processes of the browser took for it."""
    before = processor_seconds()
    answer: Measured = work()
    return {**answer, "processor_seconds": processor_seconds() - before}


def processor_seconds() -> float:
    """Seconds of the processor that living descendants of this process have taken, without this process."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
        ticks[int(path.parent.name)] = int(fields[11]) + int(fields[12])
    ours, wanted = {os.getpid()}, set[int]()
    while ours:
        ours = {child for child, parent in parents.items() if parent in ours} - wanted
        wanted |= ours
    return sum(ticks[each] for each in wanted) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of `folder` on the loopback interface."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def summary(
    rounds: Sequence[dict[str, Measured]], loading: dict[str, Measured], texts: Sequence[str], expected: Sequence[str]
) -> Measured:
    """Medians of each side, its ratio to dikkat's int8 in every round, and the share of texts of the native engine."""
    found: Measured = {}
    for name, load in loading.items():
        turns = [turn[name] for turn in rounds]
        ratios = [turn[name]["processor_seconds"] / turn["dikkat int8"]["processor_seconds"] for turn in rounds]
        seconds = [turn["processor_seconds"] for turn in turns]
        same = sum(ours == theirs for ours, theirs in zip(turns[0]["translations"], expected, strict=True))
        found[name] = {
            "program": load["name"],
            "loading_milliseconds": load["milliseconds"],
            "milliseconds_a_sentence": 1e3 * statistics.median(seconds) / len(texts),
            "clock_milliseconds_a_sentence": statistics.median(each["milliseconds"] for each in turns) / len(texts),
            "times_dikkat_int8": statistics.median(ratios),
            "times_dikkat_int8_rounds": ratios,
            "same_text": same / len(texts),
        }
    for turn in rounds:
        for answer in turn.values():
            del answer["translations"]
    return {"sentences": len(texts), "words": sum(len(text.split()) for text in texts), "found": found}


def table(result: Measured) -> None:
    """Print what was found on standard error."""
    words = result["words"] / result["sentences"]
    note(f"\n{result['sentences']} sentences of {words:.1f} words, seconds of the processor")
    titles = f"{'side':36} {'sentences/s':>11} {'ms each':>8} {'÷ dikkat':>8}"
    note(f"{titles}  {'rounds':26} {'same':>6} {'load ms':>8}")
    for name, each in result["found"].items():
        ms = each["milliseconds_a_sentence"]
        rounds = ", ".join(f"{ratio:.2f}" for ratio in each["times_dikkat_int8_rounds"])
        same, loaded = f"{100 * each['same_text']:.0f} %", each["loading_milliseconds"]
        speed = f"{1e3 / ms:11.1f} {ms:8.2f} {each['times_dikkat_int8']:8.2f}"
        note(f"{name:36} {speed}  {rounds:26} {same:>6} {loaded:8.0f}")


if __name__ == "__main__":
    main()
