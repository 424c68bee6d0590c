"""The benchmarks of translation run from end to end in their smallest form, without the peers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.docs.test_benchmarks import run
from tests.system.toy import child, settings, toy_sentences

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the toy translator `run`, its `sources` and `references`, and a glossary `terms.tsv`."""
    folder = tmp_path_factory.mktemp("benchmarks")
    pairs = toy_sentences(600)
    (folder / "toy.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    options = settings(training__max_epochs=3, data__source_language="en", data__target_language="fr")
    trained = child(["train", "translator", str(folder / "toy.tsv"), "--out", str(folder / "run"), *options])
    assert trained.wait(timeout=300) == 0, trained.communicate()[1]
    for side, index in (("sources", 0), ("references", 1)):
        (folder / side).write_text("".join(f"{pair[index]}\n" for pair in pairs[:8]), encoding="utf-8")
    (folder / "terms.tsv").write_text("cat\tcato\n", encoding="utf-8")
    return folder


def test_decode_speed_compares_the_sides_that_are_named(folder: Path) -> None:
    """Every side is scored, each round times every side, and no environment of a peer is made."""
    files = ["--run", folder / "run", "--sources", folder / "sources", "--references", folder / "references"]
    sizes = ["--batches", "4", "8", "--alone", "2", "--warm", "1", "--rounds", "2", "--threads", "1"]
    peers = ["--env-ctranslate2", folder / "none", "--env-huggingface", folder / "none"]
    arguments = [*files, *sizes, *peers, "--sides", "dikkat int8", "dikkat"]
    done = run("decode_speed.py", *map(str, arguments), bare=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found["medians"]) == ["dikkat pytorch", "dikkat", "dikkat int8"]
    assert len(found["rounds"]) == 2
    for side in found["medians"].values():
        assert list(side) == ["greedy", "beam 5"]
        for search in side.values():
            assert search["sentences_per_second"] > 0
            assert search["alone_p50"] > 0
            assert "bleu" in search
    assert not (folder / "none").exists()


def test_decode_speed_names_the_sides_where_one_is_unknown(folder: Path) -> None:
    files = ["--run", folder / "run", "--sources", folder / "sources", "--references", folder / "references"]
    done = run("decode_speed.py", *map(str, files), "--sides", "dikkat int4", bare=False)
    assert done.returncode == 2
    assert "--sides dikkat int4: no side is called so; known: dikkat pytorch, dikkat, dikkat int8" in done.stderr


@pytest.mark.parametrize(
    ("script", "arguments", "printed"),
    [
        ("completion.py", ("--sentences", "2"), "keys"),
        ("confidence.py", (), "AUROC"),
        ("terms.py", ("terms.tsv",), "chrF"),
        ("serving.py", ("sources", "--seconds", "0.2", "--rounds", "1", "--overload-seconds", "1"), "p99"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.endswith(".py") else "",
)
def test_benchmarks_of_a_run_end_in_their_smallest_form(
    folder: Path, script: str, arguments: tuple[str, ...], printed: str
) -> None:
    given = [str(folder / word) if (folder / word).exists() else word for word in arguments]
    done = run(script, str(folder / "run"), *given, bare=False)
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout + done.stderr
