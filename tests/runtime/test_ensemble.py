"""Several models write with the mean of their probabilities: on every engine, in every way of decoding, from a run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.runtime.runs import SENTENCES
from tests.runtime.test_engines import SOURCES, WAYS, assert_alike, decoded, native
from tests.unit.models.small import shake, small_model
from tests.unit.tasks.test_training import SETTINGS, Watcher

from dikkat.cli import train_translator
from dikkat.config import merge
from dikkat.data.corpus import Corpus
from dikkat.interop.runtime_export import export_runtime
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common import members
from dikkat.tasks.common.train import train
from dikkat.tasks.translation.prepare import TrainRequest
from dikkat.tasks.translation.train import TranslatorJob
from dikkat.torch_engine.engine import TorchEngine
from dikkat_runtime.cli.main import run as dikkat_command
from dikkat_runtime.engine import ensemble
from dikkat_runtime.engine.constraints import Constraint
from dikkat_runtime.engine.contract import Engine, SearchRequest
from dikkat_runtime.engine.ensemble import EnsembleEngine
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, Precision
from dikkat_runtime.errors import MissingInputError
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID
from dikkat_runtime.tasks.batches import search_all
from dikkat_runtime.tasks.embedder import Embedder
from dikkat_runtime.tasks.translator import Translator


def three_models() -> list[EncoderDecoder]:
    models = [small_model() for _ in range(3)]
    for model in models[1:]:
        shake(model)
    return models


def of_native(models: list[EncoderDecoder], precision: Precision = "float32", threads: int = 1) -> EnsembleEngine:
    return EnsembleEngine([native(model, precision, threads) for model in models])


def log_probabilities(models: list[EncoderDecoder], source: list[int], target: list[int]) -> np.ndarray[Any, Any]:
    """(T + 1, V): the logarithm of the mean probability of each token after those of the target, in float64."""
    ids = torch.tensor([[*source, EOS_ID]])
    fed = torch.tensor([[BOS_ID, *target]])
    with torch.no_grad():
        logits = [model.double()(ids, fed, torch.ones_like(ids, dtype=torch.bool))[0] for model in models]
    return np.log(np.mean([one.softmax(-1).numpy() for one in logits], axis=0))


def total(models: list[EncoderDecoder], source: list[int], found: Hypothesis) -> float:
    steps = log_probabilities(models, source, list(found.tokens))
    written = [*found.tokens, EOS_ID] if found.finished else list(found.tokens)
    return float(sum(steps[number, token] for number, token in enumerate(written)))


def test_greedy_takes_the_likeliest_of_the_mean() -> None:
    found = decoded(of_native(three_models()), DecodingOptions(max_length_factor=0.0, max_length_offset=6))
    models = three_models()
    for source, (hypothesis,) in zip(SOURCES, found, strict=True):
        steps = log_probabilities(models, source, list(hypothesis.tokens))
        steps[:, [PAD_ID, BOS_ID]] = -np.inf
        best = steps.argmax(axis=1)[: len(hypothesis.tokens) + hypothesis.finished]
        assert best.tolist() == [*hypothesis.tokens, *([EOS_ID] if hypothesis.finished else [])]


@pytest.mark.parametrize("way", ["greedy", "beam", "no n-gram twice", "sampling"])
def test_a_hypothesis_has_the_mean_probability_of_its_tokens(way: str) -> None:
    found = decoded(of_native(three_models()), WAYS[way])
    models = three_models()
    for source, hypotheses in zip(SOURCES, found, strict=True):
        for hypothesis in hypotheses:
            assert hypothesis.log_probability == pytest.approx(total(models, source, hypothesis), abs=1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_all_engines_and_companies_write_the_same(way: str) -> None:
    models, options = three_models(), WAYS[way]
    engine = of_native(models)
    together = decoded(engine, options)
    assert_alike(together, decoded(EnsembleEngine([TorchEngine(model) for model in models]), options))
    for number, source in enumerate(SOURCES):
        (alone,) = search_all(engine, [source], options, numbers=[number])
        assert_alike([alone], [together[number]], tolerance=1e-5)


MANY = [[4 + (7 * row + 3 * column) % 19 for column in range(1 + row % 9)] for row in range(40)]
IN_C: dict[str, tuple[DecodingOptions, list[Constraint | None] | None]] = {
    "greedy": (DecodingOptions(), None),
    "beam": (BeamOptions(beam_size=3, n_best=3), None),
    "after a single step": (BeamOptions(beam_size=3), [None] * len(MANY)),
}


@pytest.mark.parametrize("way", IN_C)
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_search_in_c_finds_what_single_steps_find(
    precision: Precision, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, (options, constraints) = three_models(), IN_C[way]
    in_c = [of_native(models, precision, threads) for threads in (1, 2)]
    results = [engine.search(engine.encode(MANY), options, SearchRequest(constraints=constraints)) for engine in in_c]
    assert results[0] == results[1]
    monkeypatch.setattr(ensemble, "NativeEngine", ())
    monkeypatch.setattr(ensemble, "StepDecoder", ())
    by_steps = in_c[0].search(in_c[0].encode(MANY), options, SearchRequest(constraints=constraints))
    assert_alike(results[0], by_steps, tolerance=1e-5)


def test_no_step_of_a_search_is_taken_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble.EnsembleSteps, "step", None)
    engine = of_native(three_models())
    assert all(engine.search(engine.encode(MANY), BeamOptions()))


def test_members_end_before_the_shortest_table_of_positions() -> None:
    settings: list[dict[str, Any]] = [{"positions": "learned", "max_positions": positions} for positions in (12, 10)]
    members = [native(small_model(**one), **one) for one in settings]
    engine, options = EnsembleEngine(members), DecodingOptions(max_length_factor=0.0, max_length_offset=30)
    found = engine.search(engine.encode(SOURCES[:1]), options)
    assert len(found[0][0].tokens) <= 10


def test_copies_of_one_model_write_what_it_writes() -> None:
    model = small_model()
    copies: Engine = EnsembleEngine([native(model), native(model)])
    for options in (DecodingOptions(), BeamOptions(beam_size=4, n_best=4)):
        assert_alike(decoded(copies, options), decoded(native(model), options))


def test_every_member_looks_at_its_own_neighbours() -> None:
    model = small_model()
    one, two = native(model), EnsembleEngine([native(model), native(model)])
    answers = []
    for engine in (one, two):
        steps = engine.steps(engine.encode([SOURCES[0]]), 1)
        steps.step([BOS_ID])
        near = Neighbours(steps.states(), np.array([9]))
        memory = engine.encode([SOURCES[0]])
        answers.append(engine.search(memory, DecodingOptions(), SearchRequest(neighbours=[near])))
    assert answers[0][0][0].tokens[0] == 9
    assert_alike(answers[1], answers[0])


# from a run -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ensemble") / "toy.en-eo.tsv"
    words = ["dog", "cat", "bird", "child", "king", "tree", "river", "house", "star", "stone"]
    rows = [(f"the {a} sees the {b}", f"{b}o vidas {a}o") for a in words for b in words if a != b]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return str(path)


def job(data: str | None, **training: Any) -> TranslatorJob:
    settings = merge(SETTINGS, {"training": {"members": 3, "max_epochs": 2, **training}})
    return TranslatorJob(TrainRequest([data] if data else (), settings=settings if data else {}))


@pytest.fixture(scope="module")
def run(data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three models. Look, do not touch."""
    out = tmp_path_factory.mktemp("ensemble") / "run"
    watcher = Watcher()
    assert train(job(data), out, watcher).finished
    assert "training model 3 of 3" in watcher.notes
    assert any("the mean of 3 models" in note for note in watcher.notes)
    return out


def test_the_models_of_a_run_differ_by_their_seed_and_translate_together(run: Path) -> None:
    members = [run, run / "members" / "2", run / "members" / "3"]
    assert [Translator.load(member).config.training.seed for member in members] == [1, 2, 3]
    translator = Translator.load(run)
    assert translator.info.members == 3
    assert "3" in str(translator.info)
    assert isinstance(translator.engine, EnsembleEngine)
    others = [Translator.load(member).engine for member in members[1:]]
    together = EnsembleEngine([translator.engine.members[0], *others])
    ids = translator.tokenizer.encode_batch(SENTENCES[:3])
    assert search_all(translator.engine, ids, BeamOptions()) == search_all(together, ids, BeamOptions())


def test_all_doors_answer_alike_with_several_models(run: Path, tmp_path: Path) -> None:
    export_runtime(run, tmp_path / "out", "float32", with_corrections=False)
    lines = ["the dog sees the cat", "the king sees the river"]
    expected = [item.text for item in Translator.load(run).translate(lines)]
    assert [item.text for item in Translator.load(tmp_path / "out").translate(lines)] == expected
    assert [item.text for item in Translator.load(run, engine="torch").translate(lines)] == expected


def test_a_vector_is_that_of_the_first_model(run: Path) -> None:
    (vector,) = Embedder.load(run).stream(["the dog"])
    assert vector.shape == (SETTINGS["model"]["model_dim"],)


def test_training_of_members_is_taken_up_again(data: str, run: Path, tmp_path: Path) -> None:
    out, looked = tmp_path / "run", [0]

    def stop_in_the_second() -> bool:
        looked[0] += (out / "members" / "2" / "checkpoints").exists()
        return looked[0] > 1

    assert not train(job(data), out, Watcher(), should_stop=stop_in_the_second).finished
    assert not (out / "card.md").exists()
    assert train(job(None), out, Watcher(), resume=True).finished
    for name in ("model.safetensors", "members/2/model.safetensors", "members/3/model.safetensors"):
        assert (out / name).read_bytes() == (run / name).read_bytes()


@pytest.fixture(scope="module")
def taught(data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two models and their student. Look, do not touch."""
    out, watcher = tmp_path_factory.mktemp("ensemble") / "run", Watcher()
    assert train(job(data, members=2, student=True), out, watcher).finished
    assert f"training the student of 2 models, {out}/members/student" in watcher.notes
    return out


def pairs_of(run: Path, vocab_size: int) -> list[tuple[list[int], list[int]]]:
    corpus = Corpus.open(run / "corpus", "train", vocab_size=vocab_size)
    return [(corpus.source(number).tolist(), corpus.target(number).tolist()) for number in range(len(corpus))]


def test_a_student_learns_the_pairs_of_the_run_and_what_its_models_write_together(taught: Path) -> None:
    together = Translator.load(taught, "int8")
    assert isinstance(together.engine, EnsembleEngine)
    size = together.tokenizer.vocab_size
    own, learned = pairs_of(taught, size), pairs_of(taught / "members" / "student", size)
    assert learned[: len(own)] == own
    found = search_all(together.engine, [source for source, _ in own], DecodingOptions())
    lessons = [(source, list(best[0].tokens)) for (source, _), best in zip(own, found, strict=True)]
    assert learned[len(own) :] == [pair for pair in lessons if pair[1]]
    assert lessons != own
    student = Translator.load(taught / "members" / "student")
    assert (student.info.members, student.config.training.seed, student.config.training.student) == (1, 3, False)
    assert Translator.load(taught).info.members == 2
    assert not list((taught / "members" / "student" / "corpus").glob("lessons*"))
    # the links of the run to its data are not written through
    assert len(pairs_of(taught, size)) == len(own)


def test_lessons_that_were_stopped_go_on_where_they_were(
    data: str, taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, searched = tmp_path / "run", list[int]()
    monkeypatch.setattr(members, "PAIRS_PER_PART", 25)

    def search(engine: Engine, sources: list[list[int]], *args: Any, **kwargs: Any) -> list[list[Hypothesis]]:
        searched.append(len(sources))
        return search_all(engine, sources, *args, **kwargs)

    monkeypatch.setattr(members, "search_all", search)
    lessons = out / "members" / "student" / "corpus" / "lessons.25.offsets.npy"
    asked = job(data, members=2, student=True)
    assert not train(asked, out, Watcher(), should_stop=lessons.exists).finished
    assert searched == [25, 25, 25]
    assert not (out / "card.md").exists()
    assert not (out / "members" / "student" / "config.json").exists()
    assert train(job(None), out, Watcher(), resume=True).finished
    pairs = len(pairs_of(taught, Translator.load(taught).tokenizer.vocab_size))
    assert sum(searched) == pairs + 25
    for name in ("model.safetensors", "members/student/model.safetensors", "members/student/corpus/train.ids.npy"):
        assert (out / name).read_bytes() == (taught / name).read_bytes()


def test_a_student_shares_the_minutes_and_gets_those_that_its_lessons_leave(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []

    def run_job(kind: str, job: TranslatorJob, *_: object) -> int:
        seen.append(job.request.settings["training"])
        return 0

    monkeypatch.setattr(train_translator, "run_job", run_job)
    command = ["train", "translator", data, "--out", str(tmp_path / "run"), "--minutes", "12"]
    for more in (["--members", "3", "--student"], ["--members", "3"], ["--student", "--set", "training.members=1"]):
        assert dikkat_command([*command, *more]) == 0
    assert [(own["minutes"], own.get("members"), own.get("student")) for own in seen] == [
        (3.0, 3, True), (4.0, 3, None), (6.0, 1, True),
    ]  # fmt: skip
    run, settings = RunDirectory(tmp_path), {"training": {"minutes": 3.0, "seed": 1, "members": 3, "student": True}}
    run.write_config(settings)
    (tmp_path / "student").mkdir()
    for spent, left in ((0.5, 2.5), (2.0, 1.5)):
        members._write_settings(run, student := RunDirectory(tmp_path / "student"), 4, spent)
        assert student.read_config()["training"] == {"minutes": left, "seed": 4, "members": 1, "student": False}


def test_a_missing_member_is_named(data: str, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "members" / "3")
    with pytest.raises(MissingInputError, match=r"members/3"):
        Translator.load(copy)


def test_members_are_for_translators(tmp_path: Path) -> None:
    table = tmp_path / "labels.tsv"
    words = ["dog", "cat", "bird", "child", "king", "tree", "river", "house", "star", "stone"]
    rows = [f"{'yes' if a < b else 'no'}\t{a} near {b} of {c}\n" for a in words for b in words for c in words]
    table.write_text("".join(rows), encoding="utf-8")
    out = tmp_path / "run"
    assert dikkat_command(["train", "classifier", str(table), "--out", str(out), "--set", "training.members=2"]) == 2
