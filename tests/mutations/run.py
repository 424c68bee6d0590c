"""Plant every mutation in a copy of the sources, run the tests that are to catch it, and report who survives.

    python -m tests.mutations.run [ROW …]        for example: A28 E10, in this order
    python -m tests.mutations.run tests/runtime  every mutation that a test in this folder or file has to catch

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
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

import jaxtyping
import pytest
from tests.docs.test_checklist import functions_of, is_slow, named_tests
from tests.mutations.mutation import Mutation
from tests.mutations.planted import MUTATIONS

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "runtime/src", "tools")
SECONDS = 600
"""After which the tests of a mutation are stopped."""
CAUGHT, SURVIVED = "caught", "SURVIVED"
FOLDERS_BY_SPEED = ("tests/unit", "tests/parity", "tests/docs/checklist", "tests/docs", "tests")


class Outcome(NamedTuple):
    """What the tests of a row said of a mutation."""

    mutation: Mutation
    verdict: str
    """`CAUGHT`, `SURVIVED`, or "NOT RUN" with the reason."""
    caught_by: list[str]
    """Tests that failed, by their node ids."""
    seconds: float
    output: str

    def __str__(self) -> str:
        row, file, old, new = self.mutation
        change = f"{old.strip()!r} -> {new.strip()!r}"
        return f"{self.verdict}\t{row}\t{file}\t{change}\t{' '.join(self.caught_by)}\t{self.seconds:.0f} s"


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
    files = [path for part in FOLDERS for path in (folder / part).rglob(f"*{named.suffix}")]
    counts = {path: path.read_text(encoding="utf-8").count(mutation.old) for path in files}
    result = [path for path, count in counts.items() if count]
    if len(result) != 1 or counts[result[0]] != 1:
        raise LookupError(f"{mutation.row}: {mutation.old!r} stands {sum(counts.values())} times in the sources")
    return result[0]


def named_after(row: str) -> list[str]:
    """The tests named after a row, the quick ones first; a row that is a test is named after itself."""
    if "/" in row:
        return [row] if row in functions_of(row.partition("::")[0]) else []

    def order(name: str) -> tuple[bool, int, str]:
        folder = next(index for index, folder in enumerate(FOLDERS_BY_SPEED) if name.startswith(f"{folder}/"))
        return is_slow(name), folder, name

    return sorted(named_tests().get(row, ()), key=order)


@dataclass
class Tree:
    """A copy of the sources in `folder`, in which one mutation at a time is planted."""

    folder: Path
    planted: int = 0

    def __post_init__(self) -> None:
        for part in FOLDERS:
            shutil.copytree(ROOT / part, self.folder / part, ignore=shutil.ignore_patterns("__pycache__"))

    def outcome(self, mutation: Mutation) -> Outcome:
        """What the tests of the mutation's row say of it."""
        start = time.monotonic()
        ended = self._run_mutated(mutation)
        verdict = f"NOT RUN (exit code {ended.code})"
        if ended.code == -signal.SIGALRM:
            verdict = f"NOT RUN (not done after {SECONDS} s)"
        elif ended.code == pytest.ExitCode.OK:
            verdict = SURVIVED
        elif ended.code == pytest.ExitCode.TESTS_FAILED:
            verdict = CAUGHT
        return Outcome(mutation, verdict, ended.failed, time.monotonic() - start, ended.output)

    def fail_anyway(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """The outcomes whose tests fail without any mutation as well."""
        caught = [item for item in outcomes if item.verdict == CAUGHT]
        tests = sorted({test for item in caught for test in item.caught_by})
        if not tests:
            return []
        ended = self._run(tests, "--maxfail=1000")
        if ended.code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise RuntimeError(f"pytest ended with the exit code {ended.code}:\n{ended.output}")
        return [
            item._replace(verdict="NOT RUN (the test fails without it as well)", output=ended.output)
            for item in caught
            if set(item.caught_by) <= set(ended.failed)
        ]

    def _run_mutated(self, mutation: Mutation) -> Ended:
        path = source_of(mutation, self.folder)
        text, times = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        # a compiled file is known by time and size: no two versions may share them
        self.planted += 1
        os.utime(path, (times.st_atime, times.st_mtime + 10 * self.planted))
        try:
            return self._run(named_after(mutation.row), "-x")
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, (times.st_atime, times.st_mtime))

    def _run(self, tests: list[str], limit: str) -> Ended:
        output, failed = self.folder / "output.txt", self.folder / "failed.txt"
        failed.write_text("", encoding="utf-8")
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS)
            with output.open("w") as stream:
                os.dup2(stream.fileno(), 1)
                os.dup2(stream.fileno(), 2)
            sources = [str(self.folder / part) for part in FOLDERS]
            sys.path[:0] = [*sources, str(self.folder), str(ROOT)]
            os.environ["PYTHONPATH"] = os.pathsep.join(sources)
            # shapes are not checked: what a mutation breaks must be seen by what a test says
            jaxtyping.install_import_hook = lambda *_: None
            arguments = ["-q", limit, "-p", "no:cacheprovider", "--no-header", *tests]
            os._exit(int(pytest.main(arguments, plugins=[Failures(failed)])))
        _, status = os.waitpid(child, 0)
        return Ended(
            os.waitstatus_to_exitcode(status),
            failed.read_text(encoding="utf-8").splitlines(),
            output.read_text(encoding="utf-8", errors="replace"),
        )


@dataclass(eq=False)
class Failures:
    """A plugin of pytest that writes down which tests failed."""

    path: Path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with self.path.open("a", encoding="utf-8") as lines:
                lines.write(f"{report.nodeid}\n")


def load_libraries() -> None:
    """Once, for all forks; nothing of ours, which each fork loads from the mutated tree."""
    for plugin in entry_points(group="pytest11"):
        plugin.load()
    for package in (
        "dikkat.cli.commands",
        "dikkat.lessons.classroom",
        "dikkat.tasks.in_memory",
        "beartype",
        "hypothesis.strategies",
    ):
        import_module(package)
    loaded = [name for name in sys.modules if name.split(".")[0] in ("dikkat", "dikkat_runtime")]
    for name in loaded:
        del sys.modules[name]


def _is_named(mutation: Mutation, row: str) -> bool:
    return mutation.row == row or ("/" in row and mutation.row.startswith(row))


def main(rows: list[str]) -> int:
    os.chdir(ROOT)
    chosen = [mutation for row in rows for mutation in MUTATIONS if _is_named(mutation, row)] if rows else MUTATIONS
    load_libraries()
    outcomes, wrong = list[Outcome](), list[Outcome]()
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        tree = Tree(Path(folder))
        for mutation in chosen:
            outcomes.append(tree.outcome(mutation))
            print(outcomes[-1], flush=True)
        wrong = [item for item in outcomes if item.verdict != CAUGHT] + (late := tree.fail_anyway(outcomes))
    for item in late:
        print(item)
    for item in wrong:
        print("\n".join(item.output.splitlines()[-15:]), file=sys.stderr)
    print(f"{len(chosen) - len(wrong)} of {len(chosen)} mutations caught", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
