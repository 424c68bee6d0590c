"""Plant every mutation in a copy of the sources, run the tests that are named after its row, and report who survives.

    python -m tests.mutations.run [ROW …]        for example: A28 E10, in this order

The copy lies in a temporary folder; a fresh process is forked for each mutation from one that has loaded the libraries
and nothing of ours. A mutation is caught where a test fails that passes without it; a test that cannot even be
collected, or that does not end, catches nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.docs.test_checklist import named_tests, slow_tests
from tests.mutations.planted import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "runtime/src")
SECONDS = 600
"""After which the tests of a mutation are stopped."""
CAUGHT, SURVIVED = "caught", "SURVIVED"
FOLDERS_BY_SPEED = ("tests/unit", "tests/parity", "tests/docs/checklist", "tests/docs", "tests")


class Outcome(NamedTuple):
    """What the tests of a row said of a mutation."""

    mutation: Mutation
    verdict: str
    """`CAUGHT`, `SURVIVED`, or "NOT RUN" with the reason."""
    seconds: float
    output: str


class Ended(NamedTuple):
    """A run of pytest."""

    code: int
    """The exit code of pytest; where a signal ended it, less than 0."""
    failed: list[str]
    """Tests that failed, by their node ids."""
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
    slow = slow_tests()

    def order(name: str) -> tuple[bool, int, str]:
        folder = next(index for index, folder in enumerate(FOLDERS_BY_SPEED) if name.startswith(f"{folder}/"))
        return name in slow, folder, name

    return sorted(named_tests().get(row, ()), key=order)


def run_all(mutations: Sequence[Mutation]) -> Iterable[Outcome]:
    """The outcome of each, one after the other."""
    _load_libraries()
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        tree = Tree(Path(folder))
        for mutation in mutations:
            start = time.monotonic()
            verdict, output = tree.verdict(mutation)
            yield Outcome(mutation, verdict, time.monotonic() - start, output)


@dataclass
class Tree:
    """A copy of the sources in `folder`, in which one mutation at a time is planted."""

    folder: Path
    planted: int = 0
    passes: dict[str, bool] = field(default_factory=dict)
    """By test, whether it passes without a mutation."""

    def __post_init__(self) -> None:
        for part in FOLDERS:
            shutil.copytree(ROOT / part, self.folder / part, ignore=shutil.ignore_patterns("__pycache__"))

    def verdict(self, mutation: Mutation) -> tuple[str, str]:
        """What the tests of the mutation's row say of it, and what they print."""
        ended = self._run_mutated(mutation)
        if ended.code == -signal.SIGALRM:
            return f"NOT RUN (not done after {SECONDS} s)", ended.output
        if ended.code == pytest.ExitCode.OK:
            return SURVIVED, ended.output
        if ended.code != pytest.ExitCode.TESTS_FAILED:
            return f"NOT RUN (exit code {ended.code})", ended.output
        for test in ended.failed:
            if test not in self.passes:
                self.passes[test] = self._run([test]).code == pytest.ExitCode.OK
            if self.passes[test]:
                return CAUGHT, ended.output
        return "NOT RUN (the test fails without the mutation as well)", ended.output

    def _run_mutated(self, mutation: Mutation) -> Ended:
        path = source_of(mutation, self.folder)
        text, times = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        # a compiled file is known by time and size: no two versions may share them
        self.planted += 1
        os.utime(path, (times.st_atime, times.st_mtime + 10 * self.planted))
        try:
            return self._run(named_after(mutation.row))
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, (times.st_atime, times.st_mtime))

    def _run(self, tests: list[str]) -> Ended:
        output, failed = self.folder / "output.txt", self.folder / "failed.txt"
        failed.write_text("", encoding="utf-8")
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS)
            with output.open("w") as stream:
                os.dup2(stream.fileno(), 1)
                os.dup2(stream.fileno(), 2)
            sources = [str(self.folder / part) for part in FOLDERS]
            sys.path[:0] = [*sources, str(ROOT)]
            os.environ["PYTHONPATH"] = os.pathsep.join(sources)
            arguments = ["-q", "-x", "-p", "no:cacheprovider", "--no-header", *tests]
            os._exit(int(pytest.main(arguments, plugins=[Failures(failed)])))
        _, status = os.waitpid(child, 0)
        return Ended(
            os.waitstatus_to_exitcode(status),
            failed.read_text(encoding="utf-8").splitlines(),
            output.read_text(encoding="utf-8", errors="replace"),
        )


@dataclass
class Failures:
    """A plugin of pytest that writes down which tests failed."""

    path: Path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with self.path.open("a", encoding="utf-8") as lines:
                lines.write(f"{report.nodeid}\n")


def _load_libraries() -> None:
    """Once, for all forks; nothing of ours, which each fork loads from the mutated tree."""
    import beartype  # noqa: F401
    import hypothesis  # noqa: F401
    import jaxtyping  # noqa: F401
    import pydantic  # noqa: F401
    import tokenizers  # noqa: F401
    import torch  # noqa: F401

    ours = [name for name in sys.modules if name.split(".")[0] in ("dikkat", "dikkat_runtime")]
    for name in ours:
        del sys.modules[name]


def main(rows: list[str]) -> int:
    os.chdir(ROOT)
    chosen = [mutation for row in rows for mutation in MUTATIONS if mutation.row == row] if rows else MUTATIONS
    failed = 0
    for mutation, verdict, seconds, output in run_all(chosen):
        change = f"{mutation.old.strip()!r} -> {mutation.new.strip()!r}"
        print(f"{verdict}\t{mutation.row}\t{mutation.file}\t{change}\t{seconds:.0f} s", flush=True)
        if verdict != CAUGHT:
            failed += 1
            print("\n".join(output.splitlines()[-15:]), file=sys.stderr, flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} mutations caught", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
