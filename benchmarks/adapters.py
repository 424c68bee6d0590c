"""Claim: twenty adapters over one base in one server take hardly more memory and time than one model.

BASE is a translator's run and ADAPTER one that was trained from it with --adapter. Copies of ADAPTER, whose factors
differ by noise, are served beside BASE in a process of its own, and BASE alone in another. Each twentieth of the lines
is asked as one request, of the base or of one adapter after the other, in turn, round by round; then twenty callers ask
line by line, each an adapter of its own or all the base. Times are those of the wall and of the server's processor, the
best round of each. Memory is what the process holds for itself after it has answered. Lines go to standard error, one
JSON line to standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.contenders.http_callers import Caller, Server, started
from benchmarks.harness import Measured, note, parser, provenance

COUNT = 20


def copies(adapter: Path, base: Path, folder: Path) -> list[Path]:
    """Adapters of one size with other factors."""
    # the help must come without them
    import numpy as np
    import torch

    from dikkat.run_directory import RunDirectory
    from dikkat.run_directory.tensor_files import read_metadata
    from dikkat_runtime.run.weights import ADAPTS, BASE, read_arrays

    factors, notes = read_arrays(adapter / "model.safetensors", "F32"), read_metadata(adapter / "model.safetensors")
    random, paths = np.random.default_rng(1), []
    for number in range(COUNT):
        path = shutil.copytree(adapter, folder / f"client{number}")
        (path / "manifest.json").unlink(missing_ok=True)
        noisy = {
            name: torch.tensor(array * (1 + 0.01 * random.normal(size=array.shape)), dtype=torch.float32)
            for name, array in factors.items()
        }
        run = RunDirectory(path)
        run.save_weights(noisy, {ADAPTS: notes[ADAPTS], BASE: str(base.resolve())})
        paths.append(path)
    return paths


def held(server: Server) -> float:
    """MiB that only this process holds."""
    text = Path(f"/proc/{server.process.pid}/smaps_rollup").read_text()
    return sum(int(size) for size in re.findall(r"Private_\w+:\s+(\d+) kB", text)) / 1024


def processor_seconds(server: Server) -> float:
    """Seconds of processor that this process has used, all threads together."""
    # behind the name of the program, which may hold anything
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def by_pages(server: Server, names: list[str], pages: list[list[str]], pair: dict[str, str]) -> float:
    """Seconds until each page is translated by its model."""
    caller, start = Caller(server.port), time.perf_counter()
    for name, page in zip(names, pages, strict=True):
        answer = await caller.post("/translate", {"q": page, "model": name, **pair})
        assert answer.status == 200, answer
    caller.close()
    return time.perf_counter() - start


async def by_lines(server: Server, names: list[str], pages: list[list[str]], pair: dict[str, str]) -> float:
    """The same by a caller for each page, that asks line by line."""

    async def call(name: str, page: list[str]) -> None:
        caller = Caller(server.port)
        for line in page:
            assert (await caller.post("/translate", {"q": line, "model": name, **pair})).status == 200
        caller.close()

    start = time.perf_counter()
    await asyncio.gather(*(call(name, page) for name, page in zip(names, pages, strict=True)))
    return time.perf_counter() - start


def main() -> None:
    options = parser(__doc__)
    options.add_argument("base", type=Path)
    options.add_argument("adapter", type=Path)
    options.add_argument("lines", type=Path, help="lines of the source language")
    options.add_argument("--count", type=int, default=1000, help="lines that are translated")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--precision", default="int8")
    asked = options.parse_args()
    lines = asked.lines.read_text(encoding="utf-8").splitlines()[: asked.count]
    data = json.loads((asked.base / "config.json").read_text(encoding="utf-8"))["data"]
    pair = {"source": data["source_language"], "target": data["target_language"]}
    pages, found = [lines[number::COUNT] for number in range(COUNT)], Measured()
    flags = ["--precision", asked.precision, "--beam", "1", "--threads", "1", "--max-wait", "600", "--all-words"]
    with tempfile.TemporaryDirectory() as folder:
        paths = copies(asked.adapter, asked.base, Path(folder))
        sizes = [path.joinpath("model.safetensors").stat().st_size for path in paths]
        specs = [f"base={asked.base}", *(f"{path.name}={path}" for path in paths)]
        with started(specs[0], *flags) as one, started(*specs, *flags) as many:
            own, base = [path.name for path in paths], ["base"] * COUNT
            for name, ask in (("pages", by_pages), ("lines", by_lines)):
                rounds: dict[str, list[tuple[float, float]]] = {"one": [], "adapters": []}
                for _ in range(asked.rounds):
                    for side, server, models in (("one", one, base), ("adapters", many, own)):
                        before = processor_seconds(server)
                        seconds = asyncio.run(ask(server, models, pages, pair))
                        rounds[side].append((seconds, processor_seconds(server) - before))
                found[name] = {"rounds": rounds}
                for number, kind in enumerate(("wall", "processor")):
                    best = {side: min(times[number] for times in each) for side, each in rounds.items()}
                    found[name][kind] = {**best, "times": best["adapters"] / max(best["one"], 0.001)}
                    note(f"{name}, {kind}: one model {best['one']:.2f} s, {COUNT} adapters {best['adapters']:.2f} s")
            found["ready_seconds"] = {"one": one.ready_seconds, "adapters": many.ready_seconds}
            found["held_mib"] = {"one": held(one), "adapters": held(many)}
            found["adapter_mib"] = max(sizes) / 2**20
    more = found["held_mib"]["adapters"] - found["held_mib"]["one"]
    note(f"memory: {found['held_mib']['one']:.0f} MiB, {more:.0f} MiB more with {COUNT} adapters")
    print(json.dumps({**provenance("adapters in one server"), **found, "more_mib": more}))


if __name__ == "__main__":
    main()
