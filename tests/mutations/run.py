"""Plant every mutation in a copy of the sources, run the tests that are named after its row, and report who survives.

    python -m tests.mutations.run [ROW …]        for example: A28 E10

The copy lies in a temporary folder; a fresh process is forked for each mutation from one that has loaded the libraries
and nothing of ours. A mutation is caught where a test fails; a test that cannot even be collected catches nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.docs.test_checklist import named_tests
from tests.mutations.planted import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "runtime/src")
SECONDS = 600
CAUGHT, SURVIVED = 1, 0
"""Exit codes of pytest: a test failed, or all passed."""


class Outcome(NamedTuple):
    """What the tests of a row said of a mutation."""

    mutation: Mutation
    code: int
    """The exit code of pytest; that of a timeout is `CAUGHT`."""
    output: str


def source_of(mutation: Mutation, folder: Path = ROOT) -> Path:
    """The one file that holds the mutation's text, the named one first. Raises `LookupError` if none or several do."""
    named = folder / mutation.file
    if named.is_file() and named.read_text(encoding="utf-8").count(mutation.old) == 1:
        return named
    files = [path for part in FOLDERS for path in (folder / part).rglob("*.py")]
    counts = {path: path.read_text(encoding="utf-8").count(mutation.old) for path in files}
    found = [path for path, count in counts.items() if count]
    if len(found) != 1 or counts[found[0]] != 1:
        raise LookupError(f"{mutation.row}: {mutation.old!r} stands {sum(counts.values())} times in the sources")
    return found[0]


def named_after(row: str) -> list[str]:
    """The tests named after a row, the quick ones first."""
    return sorted(named_tests().get(row, ()), key=lambda name: (name.startswith("tests/system"), name))


def run_all(mutations: Sequence[Mutation]) -> Iterable[Outcome]:
    """The outcome of each, one after the other."""
    _load_libraries()
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        tree = Path(folder)
        for part in FOLDERS:
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        for mutation in mutations:
            yield _outcome(mutation, tree)


def _outcome(mutation: Mutation, tree: Path) -> Outcome:
    path = source_of(mutation, tree)
    text, times = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    # compiled files go by the second and the size
    os.utime(path, (times.st_atime, times.st_mtime + 10))
    try:
        code, output = _run_tests(named_after(mutation.row), tree)
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, (times.st_atime, times.st_mtime))
    return Outcome(mutation, code, output)


def _run_tests(tests: list[str], tree: Path) -> tuple[int, str]:
    output = tree / "output.txt"
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        with output.open("w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        sources = [str(tree / part) for part in FOLDERS]
        sys.path[:0] = [*sources, str(ROOT)]
        os.environ["PYTHONPATH"] = os.pathsep.join(sources)
        sys.dont_write_bytecode = True
        import pytest

        os._exit(int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--no-header", *tests])))
    _, status = os.waitpid(child, 0)
    code = (
        CAUGHT
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
        else os.waitstatus_to_exitcode(status)
    )
    return code, output.read_text(encoding="utf-8", errors="replace")


def _load_libraries() -> None:
    """Once, for all forks; nothing of ours, which each fork loads from the mutated tree."""
    import beartype  # noqa: F401
    import hypothesis  # noqa: F401
    import jaxtyping  # noqa: F401
    import pydantic  # noqa: F401
    import pytest  # noqa: F401
    import tokenizers  # noqa: F401
    import torch  # noqa: F401

    ours = [name for name in sys.modules if name.split(".")[0] in ("dikkat", "dikkat_runtime")]
    for name in ours:
        del sys.modules[name]


def main(rows: list[str]) -> int:
    os.chdir(ROOT)
    chosen = [mutation for mutation in MUTATIONS if not rows or mutation.row in rows]
    failed = 0
    for mutation, code, output in run_all(chosen):
        verdict = {CAUGHT: "caught", SURVIVED: "SURVIVED"}.get(code, f"NOT RUN (exit code {code})")
        print(
            f"{verdict}\t{mutation.row}\t{mutation.file}\t{mutation.old.strip()!r} -> {mutation.new.strip()!r}",
            flush=True,
        )
        if code != CAUGHT:
            failed += 1
            print("\n".join(output.splitlines()[-15:]), file=sys.stderr, flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} mutations caught", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
