"""Pairs out of text in one language: every line once, in order, marked, and resumed after a stop."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.runtime.shards.shouting import FINGERPRINT, ShoutingModel

from dikkat.data.readers import read_pairs
from dikkat.tasks.translation import synthetic
from dikkat.tasks.translation.synthetic import BACKTRANSLATED, DISTILLED, Recipe, write_pairs
from dikkat_runtime.errors import CannotCreateError, DataError, MissingInputError, StoppedError, UsageError
from dikkat_runtime.rows.contract import Values
from dikkat_runtime.shards.call import Call, plan_shards
from dikkat_runtime.shards.driver import Result
from dikkat_runtime.shards.work import Job
from dikkat_runtime.shards.writing import missing_shards, write_shard


class Silent(ShoutingModel):
    """Finds nothing to say of some texts."""

    def answers(self, texts: Sequence[str]) -> list[Values]:
        """Return capitals, or nothing."""
        return [("" if text == "silent" else text.upper(),) for text in texts]


@dataclass
class InThisProcess:
    """Does calls without workers, and stops before a file if need be."""

    most_files: int = 10**9
    written: list[str] = field(default_factory=list)

    def __call__(self, job: Job, call: Call) -> Result:
        for shard in missing_shards(plan_shards(call.inputs, call.out).shards, FINGERPRINT, force=call.force):
            if len(self.written) == self.most_files:
                raise StoppedError("stopped")
            write_shard(shard, job, Silent(job), FINGERPRINT, lambda rows, fraction: None)
            self.written.append(shard.source.name)
        return Result()


JOB = Job(run=Path("run"), task="translate")


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "ROWS_PER_PART", 3)


@pytest.fixture
def texts(tmp_path: Path) -> list[Path]:
    """Eight lines with words in two files."""
    first, second = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    first.write_text("one\n\ntwo\tparts\n  \nthree\nsilent\n", encoding="utf-8")
    second.write_bytes(gzip.compress(b"five\nsix\nseven\neight"))
    return [first, second]


GIVEN = ["one", "two parts", "three", "five", "six", "seven", "eight"]


@pytest.mark.parametrize(
    ("recipe", "pairs"),
    [
        (BACKTRANSLATED, [(text.upper(), text, "backtranslated") for text in GIVEN]),
        (replace(BACKTRANSLATED, tag="<BT>"), [(f"<BT> {text.upper()}", text, "backtranslated") for text in GIVEN]),
        (DISTILLED, [(text, text.upper(), "distilled") for text in GIVEN]),
    ],
)
def test_pairs_are_in_order_and_marked(
    recipe: Recipe, pairs: list[tuple[str, str, str]], texts: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "pairs.tsv"
    written = write_pairs(recipe, JOB, Call(inputs=texts, out=out), InThisProcess())
    assert (written.pairs, written.left_out) == (7, 1)
    rows = [tuple(line.split("\t")) for line in out.read_text(encoding="utf-8").split("\n")[:-1]]
    assert rows == [("source", "target", "origin"), *pairs]
    # a training reads it without being told of its columns
    assert [(pair.source, pair.target) for pair in read_pairs([str(out)])] == [pair[:2] for pair in pairs]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt.gz", "pairs.tsv"]


def test_it_goes_on_after_a_stop(texts: list[Path], tmp_path: Path) -> None:
    call = Call(inputs=texts, out=tmp_path / "pairs.tsv")
    with pytest.raises(StoppedError):
        write_pairs(DISTILLED, JOB, call, InThisProcess(most_files=2))
    assert not call.out.exists()
    with pytest.raises(UsageError, match=r"pairs\.tsv\.parts: was started with other texts"):
        write_pairs(DISTILLED, JOB, replace(call, inputs=texts[:1]), InThisProcess())
    rest = InThisProcess()
    write_pairs(DISTILLED, JOB, call, rest)
    assert rest.written == ["0000003.tsv"]
    other = replace(call, out=tmp_path / "other.tsv")
    write_pairs(DISTILLED, JOB, other, InThisProcess())
    assert call.out.read_bytes() == other.out.read_bytes()


def test_other_texts_are_begun_anew_by_force(texts: list[Path], tmp_path: Path) -> None:
    call = Call(inputs=texts, out=tmp_path / "pairs.tsv", force=True)
    with pytest.raises(StoppedError):
        write_pairs(DISTILLED, JOB, call, InThisProcess(most_files=2))
    (tmp_path / "c.txt").write_text("nine\n")
    write_pairs(DISTILLED, JOB, replace(call, inputs=[tmp_path / "c.txt"]), InThisProcess())
    assert call.out.read_text() == "source\ttarget\torigin\nnine\tNINE\tdistilled\n"


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_of_somebody_else_stays(force: bool, texts: list[Path], tmp_path: Path) -> None:
    own = tmp_path / "pairs.tsv.parts" / "in" / "thesis.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    call = Call(inputs=texts, out=tmp_path / "pairs.tsv", force=force)
    with pytest.raises(UsageError, match=r"pairs\.tsv\.parts: exists already, and was not made by this command"):
        write_pairs(DISTILLED, JOB, call, InThisProcess())
    assert own.read_text() == "mine"


def test_it_begins_anew_where_a_process_was_killed_while_it_split_the_texts(texts: list[Path], tmp_path: Path) -> None:
    call = Call(inputs=texts, out=tmp_path / "pairs.tsv")
    with pytest.raises(StoppedError):
        write_pairs(DISTILLED, JOB, call, InThisProcess(most_files=0))
    parts = tmp_path / "pairs.tsv.parts" / "in"
    record = json.loads((parts / "_texts.json").read_text())
    (parts / "_texts.json").write_text(json.dumps({**record, "whole": False}))
    (parts / "0000002.tsv").write_text("half")
    assert write_pairs(DISTILLED, JOB, call, InThisProcess()).pairs == 7


def test_an_estimate_leaves_nothing(texts: list[Path], tmp_path: Path) -> None:
    call = Call(inputs=texts, out=tmp_path / "pairs.tsv", estimate=True)
    write_pairs(DISTILLED, JOB, call, lambda job, call: Result())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt.gz"]
    # what a call before it has done stays
    with pytest.raises(StoppedError):
        write_pairs(DISTILLED, JOB, replace(call, estimate=False), InThisProcess(most_files=2))
    write_pairs(DISTILLED, JOB, call, lambda job, call: Result())
    rest = InThisProcess()
    write_pairs(DISTILLED, JOB, replace(call, estimate=False), rest)
    assert rest.written == ["0000003.tsv"]


def test_an_estimate_by_force_leaves_what_was_done(texts: list[Path], tmp_path: Path) -> None:
    call = Call(inputs=texts, out=tmp_path / "pairs.tsv")
    with pytest.raises(StoppedError):
        write_pairs(DISTILLED, JOB, call, InThisProcess(most_files=2))
    with pytest.raises(UsageError, match=r"pairs\.tsv\.parts: was started with other texts"):
        write_pairs(
            DISTILLED, JOB, replace(call, inputs=texts[:1], estimate=True, force=True), lambda job, call: Result()
        )
    rest = InThisProcess()
    write_pairs(DISTILLED, JOB, call, rest)
    assert rest.written == ["0000003.tsv"]


def test_two_calls_at_once_do_not_write_one_table(texts: list[Path], tmp_path: Path) -> None:
    """The one that ends first would remove the parts while the other puts them together."""
    call = Call(inputs=texts, out=tmp_path / "pairs.tsv")
    first = InThisProcess()

    def run_call(job: Job, asked: Call) -> Result:
        for force in (False, True):
            with pytest.raises(CannotCreateError, match=r"pairs\.tsv\.parts: another command is writing here"):
                write_pairs(DISTILLED, JOB, replace(call, force=force), InThisProcess())
        return first(job, asked)

    assert write_pairs(DISTILLED, JOB, call, run_call).pairs == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt.gz", "pairs.tsv"]


def test_a_part_that_is_not_there_is_not_left_out(texts: list[Path], tmp_path: Path) -> None:
    call = Call(inputs=texts, out=tmp_path / "pairs.tsv")

    def lose_one(job: Job, asked: Call) -> Result:
        result = InThisProcess()(job, asked)
        (asked.out / "0000002.tsv").unlink()
        return result

    with pytest.raises(MissingInputError, match=r"out/0000002\.tsv: cannot be read: No such file"):
        write_pairs(DISTILLED, JOB, call, lose_one)
    assert not call.out.exists()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "bad").write_bytes(b"\xff\n")
    for name, kind in (("none", MissingInputError), ("empty", DataError), ("bad", DataError)):
        with pytest.raises(kind, match=name):
            write_pairs(DISTILLED, JOB, Call(inputs=[tmp_path / name], out=tmp_path / "pairs.tsv"), InThisProcess())
        assert not (tmp_path / "pairs.tsv").exists()
