"""Every benchmark says what it does without the toolkit, its peers or data, and what needs none of them is tried."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import harness, terms
from benchmarks.decode_speed import CTRANSLATE2_TAKES, MARIAN_TAKES, unlike
from benchmarks.decode_summary import conclusion, summary
from benchmarks.train_peers import TOOLKITS
from tests.runtime.runs import translator_run
from tests.system.toy import child, settings, toy_sentences

from dikkat_runtime.tasks import term_placement
from dikkat_runtime.text.demanded import Demanded

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(script: str, *arguments: str, bare: bool = True) -> subprocess.CompletedProcess[str]:
    """`bare` leaves out all that is installed."""
    command = [sys.executable, *(["-S"] if bare else []), str(BENCHMARKS / script), *arguments]
    # a busy machine is slow, not wrong: what works for ever ends by processor time, what waits for ever by the clock
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=1800, preexec_fn=limit_processor_time
    )


def limit_processor_time() -> None:
    """End this process, by a signal, once it has used 240 seconds of processor."""
    resource.setrlimit(resource.RLIMIT_CPU, (240, 240))


@pytest.mark.parametrize(
    ("script", "promises"),
    [
        ("train_speed.py", ("target tokens a second", "MarianMT", "--rounds", "--threads", "--data", "--env")),
        ("train_peers.py", ("target tokens a second", "Joey NMT", "eole", "--rounds", "--intervals", "--env-joeynmt")),
        (
            "decode_speed.py",
            ("sentences a second", "CTranslate2", "MarianMT", "--run", "--beam", "--batches", "--env-ctranslate2"),
        ),
        (
            "translation_quality.py",
            ("how well dikkat translates", "lc.norm.tok", "--minutes", "--teachers", "--seeds", "--data", "--env"),
        ),
        ("adapters.py", ("twenty adapters over one base", "--count", "--rounds", "--precision")),
        ("adaptation.py", ("gains in a domain by --from", "pymarian", "--minutes", "--mix", "--shares", "--data")),
        ("adaptation_grid.py", ("adaptation keeps what a base knows", "--minutes", "--cells", "--only", "--held-out")),
        (
            "guard.py",
            ("as fast and as small as that of another commit", "--before", "--run", "--lines", "--rounds", "--rows"),
        ),
        (
            "classifiers.py",
            ("well dikkat classifies", "fastText", "--sets", "--most", "--data", "--without-fasttext"),
        ),
        ("attention_cost.py", ("what the recorder of attention costs when nobody listens", "--rounds", "--repeats")),
        ("efficient_attention.py", ("what the efficient forms of attention cost", "--lengths", "--window", "--rounds")),
        ("long_sequences.py", ("how the cost of attention grows with the length", "--lengths", "--slope-from")),
        ("translate_files.py", ("many files cost what their lines cost", "--rows", "--files", "--workers", "--memory")),
        ("corpus_memory.py", ("trains in constant memory", "--gigabytes", "--folder", "--copies", "--updates")),
        (
            "rank_failures.py",
            ("processes and machines die at random", "--rank-mean", "--machine-mean", "--seeds"),
        ),
        ("attacks.py", ("hostile requests and files side by side", "--requests", "--files", "--minutes", "--seed")),
        ("scaling.py", ("two ranks of one thread each", "model of its cost", "--rounds", "--updates", "--size")),
        (
            "browser_speed.py",
            ("sentences a second", "onnxruntime-web", "Bergamot", "--run", "--without-peers", "--env"),
        ),
        ("classifier_speed.py", ("how many texts a second dikkat trains a classifier on", "BERT", "--data", "--env")),
    ],
)
def test_help_says_what_is_measured(script: str, promises: tuple[str, ...]) -> None:
    done = run(script, "--help")
    assert done.returncode == 0, done.stderr
    for promised in promises:
        assert promised in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("script", "environments"),
    [
        ("train_speed.py", ("--env",)),
        ("train_peers.py", ("--env-joeynmt", "--env-eole")),
        ("translation_quality.py", ("--env",)),
    ],
)
def test_missing_data_is_said_loudly_and_nothing_is_installed(
    script: str, environments: tuple[str, ...], tmp_path: Path
) -> None:
    folders = [word for option in environments for word in (option, str(tmp_path / "env"))]
    done = run(script, "--data", str(tmp_path), *folders)
    assert done.returncode == 66
    assert f"{tmp_path / 'train.en.gz'}: not there" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "env").exists()


def test_browser_speed_says_loudly_what_is_missing_and_installs_nothing(tmp_path: Path) -> None:
    done = run("browser_speed.py", "--run", str(tmp_path / "run"), "--env", str(tmp_path / "env"))
    assert done.returncode == 66
    assert f"{tmp_path / 'run/config.json'}: not there, so nothing was measured; see --run" in done.stderr
    assert not (tmp_path / "env").exists()


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_peak_of_an_instruction_is_higher_in_registers_than_from_a_cache() -> None:
    done = run("peak_throughput.py", "--threads", "1", "--seconds", "0.02")
    assert done.returncode == 0, done.stderr
    peaks = json.loads(done.stdout)["threads"]["1"]
    bytes_read = peaks.pop("bytes_read")
    assert list(bytes_read) == ["L1", "L2", "memory"]
    assert "avx2_int16" in peaks or "avx2" not in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    for kind, rates in peaks.items():
        # other work on the machine slows one more than the other
        assert rates["registers"] > 0.5 * rates["L2"] > 0, kind
        assert 1e9 < rates["registers"] < 1e14, kind


def test_missing_texts_are_said_loudly_and_nothing_is_installed(tmp_path: Path) -> None:
    done = run("classifier_speed.py", "--data", str(tmp_path / "texts.tsv"), "--env", str(tmp_path / "env"))
    assert done.returncode == 66
    assert f"{tmp_path / 'texts.tsv'}: not there" in done.stderr
    assert not (tmp_path / "env").exists()


@pytest.mark.nightly
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the benchmark reads resident memory from Linux")
def test_long_sequences_measures_every_form_at_every_length() -> None:
    sizes = ("--rounds", "1", "--repeats", "1", "--lengths", "64", "128", "--slope-from", "64", "--window", "8")
    done = run("long_sequences.py", *sizes, bare=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)["found"]
    assert list(result) == ["products", "fused kernel", "chunked", "sliding window", "linear", "rest of the layer"]
    for form in result.values():
        for name in ("training", "decoding"):
            short, long = form[f"{name}_seconds"].values()
            assert short > 0
            # through two points the slope is that of the line between them
            assert 2 ** form[f"{name}_exponent"] == pytest.approx(long / short)


@pytest.mark.parametrize("wrong", [("--window", "0"), ("--lengths", "16", "0"), ("--repeats", "0")])
def test_impossible_sizes_of_long_sequences_are_refused(wrong: tuple[str, ...]) -> None:
    done = run("long_sequences.py", *wrong)
    assert done.returncode == 2
    assert "every number must be at least 1" in done.stderr


@pytest.mark.parametrize("wrong", [("--window", "-1"), ("--lengths", "16", "0"), ("--repeats", "0")])
def test_impossible_sizes_of_efficient_attention_are_refused(wrong: tuple[str, ...]) -> None:
    done = run("efficient_attention.py", *wrong)
    assert done.returncode == 2
    assert "--window must be at least 0, every other number at least 1" in done.stderr


@pytest.mark.parametrize("wrong", [("--length", "1"), ("--rounds", "0"), ("--batch", "0")])
def test_impossible_sizes_of_attention_cost_are_refused(wrong: tuple[str, ...]) -> None:
    done = run("attention_cost.py", *wrong)
    assert done.returncode == 2
    assert "--length must be at least 2, every other number at least 1" in done.stderr


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--minutes", "5", "0"), "--minutes, --teachers, --passes and --threads must be more than 0"),
        (("--teachers", "7", "-1"), "--minutes, --teachers, --passes and --threads must be more than 0"),
        (("--minutes",), "name --minutes or --teachers, else there is nothing to train"),
    ],
)
def test_impossible_times_of_translation_quality_are_refused(wrong: tuple[str, ...], message: str) -> None:
    done = run("translation_quality.py", *wrong)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize("wrong", ["--rounds", "--updates", "--intervals", "--threads"])
def test_impossible_sizes_of_train_peers_are_refused(wrong: str) -> None:
    done = run("train_peers.py", wrong, "0")
    assert done.returncode == 2
    assert "--rounds, --updates, --intervals and --threads must be at least 1" in done.stderr


def test_train_peers_reads_the_target_speed_in_the_logs_of_the_peers() -> None:
    """A line of each, as Joey NMT 2.3.0 and eole 0.6.4 wrote them."""
    joey = "Epoch   1, Step:        2, Batch Loss:     7.482682, Batch Acc: 0.065107, Tokens per Sec:      317, Lr: 0.0"
    eole = "lr: 1.00e-03; sents:     240; bsz: 3360/3840/240; 163/1186 tok/s;     53 sec;"
    assert re.findall(TOOLKITS["joeynmt"].pattern, joey) == ["317"]
    assert re.findall(TOOLKITS["eole"].pattern, eole) == ["1186"]


@pytest.mark.nightly
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the benchmark reads resident memory from Linux")
def test_efficient_attention_measures_every_form_in_turn() -> None:
    """At a length where nothing is worth timing: the exact forms err by rounding only, the others visibly."""
    done = run(
        "efficient_attention.py", "--rounds", "2", "--repeats", "1", "--lengths", "300", "--window", "20", bare=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    result = json.loads(done.stdout)
    forms = result["found"]["300"]
    assert list(forms) == ["full matrix", "fused kernel", "chunked", "sliding window", "linear"]
    for name, form in forms.items():
        separate = form["errors"]["all keys"]["largest"]
        assert separate > 1e-2 if name in ("sliding window", "linear") else separate <= 1e-5
        ratios = [one["300"]["full matrix"]["seconds"] / one["300"][name]["seconds"] for one in result["rounds"]]
        assert form["times_full_matrix_rounds"] == ratios
        assert form["times_full_matrix"] == pytest.approx(sum(ratios) / 2)
        assert form["seconds"] > 0
    assert forms["sliding window"]["errors"]["keys in the window"]["largest"] <= 1e-5


@pytest.mark.nightly
def test_attention_cost_measures_every_case_in_turn() -> None:
    done = run("attention_cost.py", "--rounds", "2", "--repeats", "1", "--batch", "2", "--length", "6", bare=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    result = json.loads(done.stdout)
    assert not result["pytorch"]["native"]
    for side in ("native", "pytorch"):
        assert 1 <= result[side]["decoded_tokens"] <= 6
        for work in ("training", "decoding"):
            rounds, actual = [one[work] for one in result[side]["rounds"]], result[side]["found"][work]
            assert min(min(one.values()) for one in rounds) > 0
            ratios = [one["watched before"] / one["never watched"] for one in rounds]
            assert actual["ratios"]["watched before"] == ratios
            assert actual["ratio"]["watched before"] == pytest.approx(sum(ratios) / 2)
            extra = [(one["one layer asked for"] - one["watched before"]) / one["its scores alone"] for one in rounds]
            assert actual["layers_of_scores"] == pytest.approx(sum(extra) / 2)


def test_decode_speed_says_loudly_what_is_missing_and_installs_nothing(tmp_path: Path) -> None:
    environments = ["--env-ctranslate2", str(tmp_path / "one"), "--env-huggingface", str(tmp_path / "two")]
    done = run("decode_speed.py", "--run", str(tmp_path / "run"), *environments)
    assert done.returncode == 66
    assert f"{tmp_path / 'run/config.json'}: not there, so nothing was measured; see --run" in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [("--beam", "1"), ("--batches", "8", "0"), ("--sentences", "0"), ("--alone", "0")])
def test_impossible_sizes_of_decode_speed_are_refused(wrong: tuple[str, ...]) -> None:
    done = run("decode_speed.py", "--run", "any", *wrong)
    assert done.returncode == 2
    assert "--beam must be at least 2, every other number at least 1" in done.stderr


def test_a_model_that_the_peers_cannot_hold_is_named() -> None:
    model = {**dict.fromkeys(MARIAN_TAKES), **{name: values[0] for name, values in MARIAN_TAKES.items()}}
    assert unlike(model, MARIAN_TAKES) == ""
    other = {**model, "positions": "rotary", "norm_placement": "pre"}
    assert unlike(other, CTRANSLATE2_TAKES) == "positions = rotary"
    assert unlike(other, MARIAN_TAKES) == "positions = rotary, norm_placement = pre"


def decoded(seconds: float, alone: float) -> dict[str, Any]:
    greedy = {"batch_seconds": {"32": 2 * seconds, "64": seconds}, "alone_p50": alone, "alone_p90": 2 * alone}
    return {"searches": {"greedy": greedy}}


def test_decode_speed_compares_with_the_fastest_variant_of_equal_quality() -> None:
    """Ten sentences, a peak of 1 FLOP/s, one linear layer's worth of tokens; the ratios are worked out by hand."""
    model = {"model_dim": 1, "feed_forward_dim": 1, "encoder_layers": 0, "decoder_layers": 0, "vocab_size": 5}
    data: dict[str, Any] = {
        "sentences": 10,
        "source_tokens": 40,
        "target_tokens": {"greedy": 50},
        "model": model,
        "scores": {"dikkat": {"greedy": {"bleu": 30.0}}, "dikkat pytorch": {"greedy": {"bleu": 30.0}}}
        | {name: {"greedy": {"bleu": bleu}} for name, bleu in (("exact", 30.2), ("sloppy", 29.7))},
    }
    engines = {"dikkat pytorch": "dikkat pytorch", "dikkat": "dikkat", "exact": "peer", "sloppy": "peer"}
    engines["unlike"] = "other weights"
    rates = dict.fromkeys(("source batch", "source alone", "greedy batch", "greedy alone"), [100.0] * 6)
    rounds = []
    for ours in (1.0, 2.0, 4.0):
        pair = {"dikkat": decoded(ours, 0.1), "dikkat pytorch": decoded(10.0, 0.3), "exact": decoded(4.0, 0.2)}
        pair |= {"sloppy": decoded(0.5, 0.01), "unlike": decoded(20.0, 0.4)}
        rounds.append({"contenders": pair, "peak": {"flop_per_second": rates, "copy_bytes_per_second": 1.0}})
    result = summary(rounds, engines, data)
    ours = result["medians"]["dikkat"]["greedy"]
    # 2 FLOP x 50 tokens x 5 weights at 100 FLOP/s are 5 s for all sentences, 0.5 s for one
    assert (ours["batch_size"], ours["sentences_per_second"], ours["share_of_peak"]) == (64, 5.0, 2.5)
    assert (ours["alone_p50"], ours["alone_p90"], ours["alone_share_of_peak"]) == (0.1, 0.2, 5.0)
    first, other = result["comparisons"][:2]
    assert first["batch"] == {
        "peer": "exact",
        "speed_ratio": 2.0,
        "rounds": [4.0, 2.0, 1.0],
        "bleu_difference": pytest.approx(-0.2),
        "equal_quality": True,
    }
    assert (first["alone"]["peer"], first["alone"]["time_ratio"]) == ("exact", 0.5)
    assert (other["batch"]["peer"], other["batch"]["equal_quality"]) == ("unlike", None)
    data["scores"]["exact"]["greedy"]["bleu"] = 29.7
    unequal = summary(rounds, engines, data)["comparisons"][0]
    assert (unequal["batch"]["peer"], unequal["batch"]["equal_quality"]) == ("sloppy", False)
    assert "NOT of equal quality" in conclusion({"comparisons": [unequal]})


@pytest.mark.nightly
@pytest.mark.peer
def test_marian_of_decode_speed_writes_what_dikkat_writes(tmp_path: Path) -> None:
    """The sides as the script runs them, with a toy translator; Marian gets its weights and must give its texts."""
    pytest.importorskip("transformers", reason="needs Hugging Face transformers, which the extra [test] brings")
    pairs = toy_sentences(600)
    data = tmp_path / "toy.tsv"
    data.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    options = settings(model__norm_placement="post", model__model_dim=64, training__max_epochs=25)
    trained = child(["train", "translator", str(data), "--out", str(tmp_path / "run"), *options])
    assert trained.wait(timeout=300) == 0, trained.communicate()[1]
    for side, index in (("sources", 0), ("references", 1)):
        (tmp_path / side).write_text("".join(f"{pair[index]}\n" for pair in pairs[:20]), encoding="utf-8")
    files = {name: str(tmp_path / name) for name in ("run", "sources", "references")}
    files |= {"weights": str(tmp_path / "weights.npz"), "lines": str(tmp_path / "lines.json")}
    prepared = side_of("decoding_preparation", {**files, "sentences": 20})
    assert prepared["sentences"] == 20
    assert unlike(prepared["model"], MARIAN_TAKES) == ""
    searches = {"greedy": {"beam_size": 1, "batch_sizes": [3, 20]}, "beam 5": {"beam_size": 5, "batch_sizes": [20]}}
    job = {**files, "searches": searches, "length_penalty": 1.0, "warm": 2, "alone": 2}
    ours, theirs = str(tmp_path / "ours.json"), str(tmp_path / "theirs.json")
    result = side_of("dikkat_decoding", {**job, "texts": ours})
    assert set(result["searches"]["greedy"]["batch_seconds"]) == {"3", "20"}
    side_of(
        "huggingface_decoding",
        {**job, "texts": theirs, "model": prepared["model"], "dtype": "float32", "attention": "sdpa"},
    )
    scored = side_of("translation_scores", {**files, "texts": {"ours": ours, "theirs": theirs}, "reference": "ours"})
    assert scored["contenders"]["theirs"]["greedy"]["same_text"] == 1.0
    assert scored["contenders"]["theirs"]["beam 5"]["same_text"] >= 0.8  # their beam ends by another rule
    texts = json.loads((tmp_path / "ours.json").read_text(encoding="utf-8"))["greedy"]
    assert len(set(texts)) > 10


def side_of(name: str, job: dict[str, Any]) -> dict[str, Any]:
    return harness.child(harness.OWN_PYTHON, name, job, threads=1)


@pytest.mark.nightly
@pytest.mark.parametrize("side", [(), ("--peer",), ("--profile",)], ids=["dikkat", "peer", "profile"])
def test_what_a_gpu_would_measure_runs_on_a_processor(side: tuple[str, ...]) -> None:
    done = run("gpu.py", "--dry-run", *side, bare=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["options"]["size"] == "tiny"
    assert "profile" in result or all(loss > 0 for loss in result["losses"])


def test_terms_are_scored_in_the_sentences_that_have_them() -> None:
    dog = Demanded(("toutou",), 1, "term", "dog")
    cat = Demanded(("minou",), 1, "term", "cat")
    demands = [(dog,), (dog,), (dog,), (dog, cat)]
    free = ["Ce chien voit les canards.", "Ce chien dort.", "Ce chien dort.", "Le chien voit le chat."]
    kept = ["Ce toutou voit les canards.", "toutou.", "Ce chien dort.", "Le toutou voit le toutou minou."]
    scores = [
        terms.score([own], [before], [after], False) for own, before, after in zip(demands, free, kept, strict=True)
    ]
    # whole; two of two other words lost; as without the term; once too often, and an article with it
    assert [(own.placed, own.terms) for own in scores] == [(1, 1), (1, 1), (0, 1), (1, 2)]
    assert [(own.kept, own.others) for own in scores] == [(4, 4), (0, 2), (3, 3), (3, 4)]
    assert [round(own.chrf) for own in scores[:3]] == [100, 0, 100]
    whole = terms.score(demands, free, kept, False)
    assert (whole.placed, whole.terms, whole.kept, whole.others) == (3, 5, 10, 13)
    assert whole.chrf == pytest.approx(sum(own.chrf for own in scores) / 4)


def test_the_benchmark_of_terms_runs_on_the_smallest_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_directory, glossary = translator_run(tmp_path / "run"), tmp_path / "terms.tsv"
    (run_directory / "held_out").mkdir()
    for side in ("source", "target"):
        lines = "A dog runs.\nYes.\nThe small cat is sleeping.\nWhere are my keys?\n"
        (run_directory / "held_out" / f"test.{side}.txt").write_text(lines, encoding="utf-8")
    glossary.write_text("dog\tHund\ncat\tKatze\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["terms.py", str(run_directory), str(glossary)])
    # no word of random weights is clear enough to give way to a term
    monkeypatch.setattr(term_placement, "CLEAR", 1.0)
    terms.main()
    printed = capsys.readouterr().out
    assert "4 sentences, 2 with terms: " in printed
    # and none is lost
    assert "lines that say which term was not placed: 2" in printed
    assert "other words of these lines: 100.0 % as without the glossary, chrF 100.0" in printed
    assert "2 sentences with a placeholder: exactly once in 2" in printed


# eight seconds: a process of its own loads PyTorch and scikit-learn and trains
@pytest.mark.nightly
def test_classifiers_are_compared_with_the_obvious_baselines() -> None:
    """In its smallest form it needs no data but the names of characters."""
    arguments = ("--sets", "scripts", "--most", "60", "--without-fasttext", "--option=--set=training.max_epochs=1")
    done = run("classifiers.py", *arguments, bare=False)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert list(row["scores"]) == ["dikkat", "tf-idf + LR", "tf-idf + SVM"]
    assert row["lead"] == pytest.approx(row["scores"]["dikkat"] - max(list(row["scores"].values())[1:]), abs=0.01)
    assert min(row["scores"].values()) > 20
