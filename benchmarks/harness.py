"""What all benchmarks share: sides in processes of their own, environments of the peers, and who measured where."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
EXIT_MISSING_INPUT = 66
OWN_PYTHON = Path(sys.executable)
MULTI30K = ROOT.parent / "shared/data/multi30k"
Measured = dict[str, Any]


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser that says what the docstring of the script says."""
    first, _, rest = (doc or "").partition("\n\n")
    return argparse.ArgumentParser(
        description=first, epilog=rest, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )


def fail(message: str, code: int = 1) -> NoReturn:
    print(f"{Path(sys.argv[0]).stem}: {message}", file=sys.stderr)
    sys.exit(code)


def require_files(paths: Sequence[Path], advice: str = "name the folder of multi30k with --data") -> None:
    """End with exit code 66 where one of `paths` is not there."""
    if missing := [path for path in paths if not path.exists()]:
        fail(f"{missing[0]}: not there, so nothing was measured; {advice}", EXIT_MISSING_INPUT)


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def make_environment(folder: Path, requirements: Path) -> Path:
    """The Python of an environment with what `requirements` pins; made once, and again when the pins change."""
    python, done = folder / "bin/python", folder / "installed.txt"
    wanted = requirements.read_text(encoding="utf-8")
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return python
    note(f"installing the peer in {folder} …")
    venv.create(folder, with_pip=True, symlinks=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    install = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(requirements)]
    if subprocess.run(install, stdout=sys.stderr, check=False).returncode:
        fail(f"{folder}: the peer could not be installed; see pip's message above")
    done.write_text(wanted, encoding="utf-8")
    return python


def child(python: Path, side: str, job: Measured, threads: int, environment: dict[str, str] | None = None) -> Measured:
    """Run one side in a process of its own; its last line of output is what it found."""
    roots = [ROOT, ROOT / "src", ROOT / "runtime" / "src"] if python == OWN_PYTHON else [ROOT]
    variables = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(str(root) for root in roots),
        **(environment or {}),
    }
    command = [str(python), str(HERE / "contenders" / f"{side}.py"), json.dumps({**job, "threads": threads})]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        fail(f"{side} ended with exit code {done.returncode}; see its message above")
    found: Measured = json.loads(done.stdout.rstrip("\n").rpartition("\n")[2])
    return found


def provenance(claim: str) -> Measured:
    """What was measured by which code, when, and where."""
    return {
        "claim": claim,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": git("describe", "--always", "--dirty"),
        "machine": machine(),
    }


def machine() -> Measured:
    """Processor and system."""
    names = [line for line in read_or_empty("/proc/cpuinfo").split("\n") if line.startswith("model name")]
    return {
        "processor": names[0].partition(":")[2].strip() if names else platform.processor(),
        "flags": sorted({"amx_bf16", "avx512_bf16", "avx512f", "avx2"} & processor_flags()),
        "cores": os.cpu_count(),
        "system": platform.platform(),
    }


def processor_flags() -> set[str]:
    return set(read_or_empty("/proc/cpuinfo").split())


def read_or_empty(path: str) -> str:
    return Path(path).read_text(encoding="utf-8") if Path(path).exists() else ""


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()
