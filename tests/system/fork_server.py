"""One process that has loaded everything, and a copy of it for each command: a fresh start within milliseconds.

Run as a program it reads cases as lines of JSON and answers each with a line. A copy finds the streams as a new process
would: closed, full, without a reader, or of an encoding that the locale asks for.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

LIMIT = 300
"""Seconds after which a command is killed: it hangs, since none takes ten on a processor of its own."""


LATE = (
    "torch._refs",
    "torch._decomp",
    "torch._dynamo",
    "matplotlib.figure",
    "matplotlib.font_manager",
    "matplotlib.backends.backend_agg",
    "sklearn.feature_extraction.text",
    "sklearn.linear_model",
    "sklearn.metrics",
)
"""Loaded in advance as well; our modules ask for them late."""


@dataclass(frozen=True)
class Streams:
    """How a command finds its standard streams."""

    stdin: str | None = "/dev/null"
    """A file; None is closed."""
    stdout: str | None = ""
    """A file, or "" to be looked at; "gone" is a pipe that nobody reads, None is closed."""
    stderr: str | None = ""
    encoding: str = "utf-8"
    """Of `sys.stdout` and its kin as Python makes them."""


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    code: int
    stdout: bytes
    stderr: str
    cwd: Path = field(compare=False)


class ForkServer:
    """The loaded process, seen from a test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        from tests.python_path import PYTHON_PATH  # the program itself does not find this file

        environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def __call__(self, *arguments: str | Path, streams: Streams | None = None, cwd: Path | None = None) -> Ended:
        """Run one command in a folder of its own, or in `cwd`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        cwd = cwd or Path(tempfile.mkdtemp(dir=self._folder))
        case = {"arguments": [str(item) for item in arguments], "cwd": str(cwd), **asdict(streams or Streams())}
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return Ended(answer["code"], bytes.fromhex(answer["stdout"]), answer["stderr"], cwd)

    def close(self) -> None:
        self._process.communicate()


def _serve() -> None:
    import dikkat
    from dikkat.kernels.environment import set_environment

    set_environment()
    for module in pkgutil.walk_packages(dikkat.__path__, "dikkat."):
        # Keras is an extra, and no command needs it; Triton is there where a GPU is
        if not module.name.endswith("__main__") and not {"keras", "gpu"} & set(re.split("[._]", module.name)):
            importlib.import_module(module.name)
    for name in LATE:
        importlib.import_module(name)
    gc.freeze()  # a copy shares what it does not look at
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)


def _run(case: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        child = os.fork()
        if not child:
            _become(case, output.fileno(), messages.fileno())
        _, status = os.waitpid(child, 0)
        output.seek(0)
        messages.seek(0)
        result = {"stdout": output.read().hex(), "stderr": messages.read().decode("utf-8", "surrogateescape")}
    return {"code": os.waitstatus_to_exitcode(status), **result}


def _become(case: dict[str, Any], output: int, messages: int) -> None:
    """The command itself, as far as the end of the process."""
    signal.alarm(LIMIT)
    code = 1
    try:
        os.chdir(case["cwd"])
        _put(0, case["stdin"], os.O_RDONLY, -1)
        _put(1, case["stdout"], os.O_WRONLY, output)
        _put(2, case["stderr"], os.O_WRONLY, messages)
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            mode = "r" if number == 0 else "w"
            if case[name] is None:
                setattr(sys, name, None)
            else:
                setattr(sys, name, open(number, mode, encoding=case["encoding"], closefd=False))  # noqa: SIM115
        sys.argv = ["dikkat", *case["arguments"]]
        from dikkat_runtime.cli.main import main

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        code = 120
    os._exit(code)


def _put(number: int, where: str | None, mode: int, looked_at: int) -> None:
    if where is None:
        os.close(number)
    elif where == "gone":
        reader, writer = os.pipe()
        os.dup2(writer, number)
        os.close(reader)
        os.close(writer)
    else:
        os.dup2(os.open(where, mode) if where else looked_at, number)


if __name__ == "__main__":
    _serve()
