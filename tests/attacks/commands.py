"""Tiny runs of the three kinds, and the command line in forked children whose time and memory are measured.

The children are forked from a server that has loaded everything and computed nothing: no thread that a fork would lose
is alive in it, and a command costs its own work, not the imports. Run as a program, this file is that server.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON_PATH = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY / "runtime" / "src"), str(REPOSITORY)])
KINDS = ("translator", "classifier", "lm")
TINY = {
    "model.model_dim": 16,
    "model.num_heads": 2,
    "model.feed_forward_dim": 32,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "tokenizer.vocab_size": 301,
    "training.tokens_per_batch": 256,
    "training.max_updates": 4,
    "training.validations": 2,
    "training.optimizer": "adamw",
    "training.precision": "float32",
}
WORDS = ("the", "a", "dog", "cat", "bird", "sees", "likes", "red", "old", "small", "house", "tree", "stone")
LM = {**TINY, "tokenizer.kind": "bytes", "language_model.context": 32}


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int
    """Its exit code, or minus the signal that killed it."""
    stdout: str
    stderr: str
    wall_seconds: float
    seconds: float
    """Of the processor, since a test may wait for others; what waits for ever is killed."""
    megabytes: float
    """Most resident memory."""

    @property
    def is_bad(self) -> str:
        """What is wrong with the way it failed: a traceback, a signal, no message or several; empty when all is well.

        Notes of a training may stand before the message.
        """
        if "Traceback" in self.stderr or self.code < 0 or self.code == 1:
            return f"code {self.code}: {self.stderr[-600:]}"
        complaints = [line for line in self.stderr.split("\n") if line.startswith("dikkat: ")]
        if self.code and (len(complaints) != 1 or not self.stderr.endswith(complaints[0] + "\n")):
            return f"code {self.code} without one line: {self.stderr[-600:]}"
        return ""


class Commands:
    """The command line, each call in a child of its own."""

    def __init__(self) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": PYTHON_PATH,
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "COLUMNS": "100",
        }
        environment.pop("PYTEST_XDIST_WORKER", None)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.attacks.commands"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=REPOSITORY,
        )

    def __call__(
        self,
        *arguments: str | Path,
        timeout: float = 120.0,
        faults: Path | None = None,
        more_megabytes: int | None = None,
        threads: int = 1,
        native: bool = True,
    ) -> Result:
        """Run `dikkat` with these arguments; `faults` is a plan for `tests.attacks.faulty_files`, and `more_megabytes`
        is all the memory that the command can ask for. It computes with so many `threads`, and without the native
        kernels unless `native`.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        order = {
            "arguments": [str(one) for one in arguments],
            "timeout": timeout,
            "faults": faults and str(faults),
            "more_megabytes": more_megabytes,
            "threads": threads,
            "native": native,
        }
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        return Result(**json.loads(self._server.stdout.readline()))

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(timeout=300)


def make_runs(folder: Path, run: Any) -> dict[str, Path]:
    """A finished run of each kind in `folder`, by `run`, which takes arguments and returns an exit code."""
    lines = [f"{WORDS[i % 13]} {WORDS[(i * 7 + i // 13) % 13]} {WORDS[(i * 11) % 13]} {i}" for i in range(120)]
    (folder / "pairs.en-eo.tsv").write_text("".join(f"{line}\t{line[::-1].strip()}\n" for line in lines))
    (folder / "texts.tsv").write_text("".join(f"{'dog' if i % 2 else 'cat'}\t{line}\n" for i, line in enumerate(lines)))
    (folder / "text.txt").write_text("".join(f"{line}.\n" for line in lines))
    (folder / "input.txt").write_text("the dog sees a cat\n\nold stone\n")
    for kind in KINDS:
        assert run(training(kind, folder, folder / kind)) == 0
    return {kind: folder / kind for kind in KINDS}


def training(kind: str, data: Path, out: Path) -> list[str]:
    """The command that trains a tiny model of a kind on the files that `make_runs` wrote into the folder `data`."""
    name = {"translator": "pairs.en-eo.tsv", "classifier": "texts.tsv", "lm": "text.txt"}[kind]
    settings = [f"--set={name}={value}" for name, value in (LM if kind == "lm" else TINY).items()]
    return ["train", kind, str(data / name), "--out", str(out), *settings]


def uses(kind: str, run: Path) -> dict[str, list[str]]:
    """What a user does with a run of a kind: use it, score it, take it up again."""
    text = str(run.parent / "input.txt")
    use = {
        "translator": ["translate", str(run), text, "--beam", "1"],
        "classifier": ["classify", str(run), text],
        "lm": ["generate", str(run), "the dog", "--max-tokens", "8", "--greedy"],
    }
    return {
        "use": use[kind],
        "evaluate": ["evaluate", str(run)],
        "resume": ["train", kind, "--out", str(run), "--resume"],
    }


def _serve() -> None:
    _load_everything()
    for line in sys.stdin:
        print(json.dumps(_forked(json.loads(line))), flush=True)


def _load_everything() -> None:
    """Do what every command does first and what no attack reaches: three quarters of a tiny command's time."""
    import dikkat
    from dikkat.kernels.environment import set_environment

    set_environment()
    for module in pkgutil.walk_packages(dikkat.__path__, "dikkat."):
        # Keras is an extra, and no command needs it; Triton is there where a GPU is
        if not module.name.endswith("__main__") and not {"keras", "gpu"} & set(re.split("[._]", module.name)):
            importlib.import_module(module.name)

    from dikkat.data.languages import contradicted_by
    from dikkat.kernels.library import library

    contradicted_by([], "en")  # reads the model of languages, and computes nothing
    library()
    # a picture takes longer than all else in a tiny run, and reads nothing
    vars(importlib.import_module("dikkat.tasks.common.train"))["plot_training"] = lambda *_, **__: None
    # what is not looked at is shared with the children
    gc.freeze()


def _forked(order: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
        started = time.monotonic()
        child = os.fork()
        if not child:
            _run(order, out.fileno(), complaints.fileno())
        usage = _wait(child, started + order["timeout"])
        texts = []
        for file in (out, complaints):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    status, used = usage
    code = os.waitstatus_to_exitcode(status)
    return {
        "code": code,
        "stdout": texts[0],
        "stderr": texts[1],
        "wall_seconds": time.monotonic() - started,
        "seconds": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / 1024,
    }


def _wait(child: int, deadline: float) -> tuple[int, resource.struct_rusage]:
    while time.monotonic() < deadline:
        result, status, used = os.wait4(child, os.WNOHANG)
        if result:
            return status, used
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.wait4(child, 0)[1:]


def _run(order: dict[str, Any], out: int, complaints: int) -> None:
    """In the child: one command, then an end without the clean-up of the server."""
    code = 1
    try:
        os.dup2(out, 1)
        os.dup2(complaints, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        if order["faults"]:
            from tests.attacks.faulty_files import install

            install(json.loads(Path(order["faults"]).read_text()))
        if order["more_megabytes"] is not None:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            most = pages * resource.getpagesize() + (order["more_megabytes"] << 20)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        _choose_engine(order["threads"], order["native"])
        from dikkat_runtime.cli.main import run

        code = run(order["arguments"])
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _choose_engine(threads: int, native: bool) -> None:
    import torch

    from dikkat.kernels.library import library, why_absent

    torch.set_num_threads(threads)
    if not native:
        os.environ["DIKKAT_NATIVE"] = "0"
        library.cache_clear()
        why_absent.cache_clear()


if __name__ == "__main__":
    _serve()
