"""A translator begins with another: the same ids and weights, and old pairs among the new."""

from __future__ import annotations

import shutil
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unit.tasks.conftest import SENTENCES, TRANSLATIONS

from dikkat.config import build_config
from dikkat.data.corpus import Corpus
from dikkat.lessons.phrasebook import phrasebook
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.tasks.common.settings import Settings, run_config
from dikkat.tasks.common.train import SilentWatcher, train
from dikkat.tasks.translation import adapt, adapted_weights, general_text
from dikkat.tasks.translation import prepare as preparation
from dikkat.tasks.translation.adapt import adaptation_lines, chrf_of, nothing_kept, settle, why_stopped
from dikkat.tasks.translation.adapted_weights import adapter_rank, keep_adapter
from dikkat.tasks.translation.base import Base
from dikkat.tasks.translation.general_text import General, held_out_lines, repeats_of
from dikkat.tasks.translation.prepare import TrainRequest, prepare
from dikkat.tasks.translation.train import TranslatorJob
from dikkat_runtime.cli.main import run as run_dikkat
from dikkat_runtime.engine.precision import PrecisionRecord, read_record
from dikkat_runtime.errors import DataError, MissingInputError, UsageError
from dikkat_runtime.run.parts import WEIGHTS
from dikkat_runtime.run.weights import read_checksum
from dikkat_runtime.tasks.translations import Translation
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.tokenizer import Tokenizer

WORDS = ("gearbox", "clutch", "gasket", "bolt", "spring", "valve", "pump", "hose", "belt", "filter")
SETTINGS = {"data": {"validation_pairs": 8, "test_pairs": 0}}


class Row(list[int]):
    """Ids of which it can be seen whether they are still in memory."""


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """Sixty pairs of words that the base has never read."""
    verbs = ("open", "shut", "wash", "turn", "oil", "fix")
    rows = [f"{verb} the {word} .\t{word} {verb} !" for word in WORDS for verb in verbs]
    path = tmp_path / "memory.tsv"
    path.write_text("source\ttarget\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def prepared(memory: Path, untrained: Path, out: Path) -> RunDirectory:
    run = RunDirectory.create(out)
    prepare(TrainRequest([str(memory)], settings=SETTINGS, start=untrained), run)
    return run


def test_vocabulary_model_and_weights_are_those_of_the_base(memory: Path, untrained: Path, tmp_path: Path) -> None:
    run, base = prepared(memory, untrained, tmp_path / "run"), RunDirectory.open(untrained)
    assert run.tokenizer.read_bytes() == base.tokenizer.read_bytes()
    assert run.read_config()["model"] == base.read_config()["model"]
    task = TranslatorJob(TrainRequest([str(memory)], start=untrained)).task(
        run, run_config(run.read_config(), "config.json")
    )
    theirs = base.load_weights()
    for name, parameter in task.model.named_parameters():
        assert torch.equal(parameter.detach(), theirs[name]), name


@pytest.mark.parametrize("known", ["forum Paris klein", ""])
def test_a_word_that_the_base_knows_is_no_typing_error_of_the_new_text(
    known: str, memory: Path, untrained: Path, tmp_path: Path
) -> None:
    """A list of the new words alone turns a word of general text into a near one; a base without a list has none."""
    base = RunDirectory(shutil.copytree(untrained, tmp_path / "base"))
    base.write_config({**base.read_config(), "data_source": {"words": known}})
    own = RunDirectory.create(tmp_path / "own")
    prepare(TrainRequest([str(memory)], settings=SETTINGS), own)
    new, words = (
        run.read_config()["data_source"]["words"].split()
        for run in (own, prepared(memory, base.path, tmp_path / "run"))
    )
    assert new
    assert words == [*known.split(), *(new if known else [])]


def test_pairs_of_the_base_are_among_those_to_train_on(memory: Path, untrained: Path, tmp_path: Path) -> None:
    run = prepared(memory, untrained, tmp_path / "run")
    size = run.read_config()["model"]["vocab_size"]
    corpus, old = (Corpus.open(item.corpus, "train", vocab_size=size) for item in (run, RunDirectory.open(untrained)))
    pairs = {(corpus.source(i).tobytes(), corpus.target(i).tobytes()) for i in range(len(corpus))}
    known = {(old.source(i).tobytes(), old.target(i).tobytes()) for i in range(len(old))}
    assert known <= pairs
    source = run.read_config()["data_source"]
    assert source["adapted"]["old_pairs"] == len(old) == len(SENTENCES)
    assert source["train_pairs"] == len(corpus) - source["copies"] > len(old)
    assert source["adapted"]["chrf_before"].keys() == {"new"}, "the base has no validation part"


def test_old_pairs_are_written_one_by_one(
    memory: Path, untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, most = list[weakref.ref[Row]](), [0]

    def sample(base: Base, count: int, seed: int) -> Iterator[tuple[list[int], list[int]]]:
        for number in range(count):
            row = Row([5, number % 7 + 5])
            rows.append(weakref.ref(row))
            most[0] = max(most[0], sum(each() is not None for each in rows))
            yield row, [6]

    monkeypatch.setattr(Base, "sample", sample)
    adapted = prepared(memory, untrained, tmp_path / "run").read_config()["data_source"]["adapted"]
    assert adapted["old_pairs"] == len(rows) > 50
    assert most[0] <= 3


@pytest.mark.parametrize(
    ("general", "passes", "expected"), [(1, 40.0, 1), (799, 40.0, 1), (800, 40.0, 2), (2_000, 40.0, 5), (10**6, 2.5, 2)]
)
def test_new_pairs_repeat_while_there_are_general_ones_for_it(general: int, passes: float, expected: int) -> None:
    assert repeats_of(100, general, passes) == expected


def test_general_pairs_are_distinct_beside_the_passes_over_new_ones(
    memory: Path, untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are general pairs for three passes over the new ones, three each, and for no fourth."""
    monkeypatch.setattr(general_text, "OLD_PAIRS_PER_NEW", 3.0)
    monkeypatch.setattr(preparation, "OLD_PAIRS_PER_NEW", 3.0)
    monkeypatch.setattr(Base, "pairs", property(lambda base: 600))
    general = [
        [number, *others] for number in range(6, 26) for others in ([5], [6], [7, 8], *([n] for n in range(9, 40)))
    ]

    def sample(base: Base, count: int, seed: int) -> Iterator[tuple[list[int], list[int]]]:
        yield from ((ids, [6]) for ids in general[:count])

    monkeypatch.setattr(Base, "sample", sample)
    run = RunDirectory.create(tmp_path / "run")
    settings: Settings = {**SETTINGS, "training": {"max_epochs": 7.5}}
    config, _ = prepare(TrainRequest([str(memory)], settings=settings, start=untrained), run)
    source = run.read_config()["data_source"]
    corpus = Corpus.open(run.corpus, "train", vocab_size=config.model.vocab_size)
    pairs = Counter((tuple(corpus.source(i).tolist()), tuple(corpus.target(i).tolist())) for i in range(len(corpus)))
    new = len(memory.read_text(encoding="utf-8").splitlines()) - 1 - source["validation_pairs"]
    assert config.training.max_epochs == 2.5, "three times the new pairs, so a third of the passes"
    old = [count for (_, target), count in pairs.items() if target == (6,)]
    assert (len(old), set(old)) == (3 * 3 * new, {1})
    assert sum(count == 3 for count in pairs.values()) >= new
    assert source["adapted"]["old_pairs"] == len(old)
    assert source["adapted"]["repeats"] == 3
    assert source["train_pairs"] == len(old) + new
    assert source["copies"] > 3 * 3


def test_few_old_pairs_are_drawn_of_many(untrained: Path) -> None:
    base = Base.open(untrained, {}, "settings")
    some = list(base.sample(2, seed=1))
    assert len(some) == 2
    assert some == list(base.sample(2, seed=1))
    everything = [tuple(map(tuple, pair)) for pair in base.sample(100, seed=1)]
    assert len(set(everything)) == len(SENTENCES) == len(TRANSLATIONS)
    drawn = {tuple(map(tuple, next(base.sample(1, seed=seed)))) for seed in range(30)}
    assert len(drawn) > 2, "which are drawn depends on the seed"
    assert np.isin([len(source) for source, _ in some], [len(pair[0]) for pair in everything]).all()


def test_what_cannot_begin_with_it_is_refused(memory: Path, untrained: Path, tmp_path: Path) -> None:
    def request(**others: object) -> TrainRequest:
        return TrainRequest([str(memory)], start=untrained, **others)  # type: ignore[arg-type]

    with pytest.raises(UsageError, match="leave out --preset"):
        prepare(request(preset="tiny"), RunDirectory.create(tmp_path / "a"))
    with pytest.raises(UsageError, match=r"model\.model_dim is decided by .*untrained"):
        prepare(request(settings={"model": {"model_dim": 64}}), RunDirectory.create(tmp_path / "b"))
    named = memory.rename(memory.with_name("memory.en-fr.tsv"))
    with pytest.raises(UsageError, match=r"its target is in fr, but .* translates from en to tr; give"):
        prepare(TrainRequest([str(named)], start=untrained), RunDirectory.create(tmp_path / "c"))
    named.rename(memory)
    with pytest.raises(UsageError, match=r"data\.target_language is decided by .*untrained"):
        prepare(request(settings={"data": {"target_language": "fr"}}), RunDirectory.create(tmp_path / "d"))
    with pytest.raises(MissingInputError, match="no weights yet"):
        Base.open(prepared(memory, untrained, tmp_path / "run").path, {}, "settings")


class Writer:
    """A translator that writes each text backwards, and finishes none that begins with an x."""

    corrections = None

    @staticmethod
    def written(text: str) -> str:
        return text[::-1]

    def stream(self, texts: list[str], options: object, **_: object) -> Iterator[Translation]:
        return (Translation(self.written(text), 0.0, (), finished=text[0] != "x") for text in texts)


def test_general_text_is_written_by_the_base_and_a_part_of_it_held_out(
    untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translator, "load", lambda *given: Writer())
    lines, notes = [f"line {number}" for number in range(98)], list[str]()
    text = tmp_path / "general.en.txt"
    text.write_text("\n".join([*lines, lines[0], "", "...", "x is cut"]) + "\n", encoding="utf-8")
    general = General.of(Base.open(untrained, {}, "settings"), [text], 1000, 2.0, notes.append)
    held_out, train = ({pair.source for pair in part} for part in (general.held_out, general.train))
    assert (general.kind, len(held_out)) == ("written", 20)
    assert held_out | train == set(lines)
    assert not held_out & train
    assert all(pair.target == pair.source[::-1] for pair in (*general.held_out, *general.train))
    assert General.of(Base.open(untrained, {}, "settings"), [], 1000, 2.0, print) == General([], [], ""), (
        "it has pairs of its own"
    )
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{line}\tby people {line}\n" for line in lines[:50]), encoding="utf-8")
    general = General.of(Base.open(untrained, {}, "settings"), [text, pairs], 1000, 2.0, notes.append)
    assert general.kind == "old", "what people wrote is held out where there is some"
    assert len(general.held_out) == 10
    assert all(pair.target == f"by people {pair.source}" for pair in (*general.held_out, *general.train[:40]))
    assert len(general.train) == 40 + 98
    assert notes == [f"memory {pairs}: 50 pairs"]
    with pytest.raises(UsageError, match="--keep is text for the translator of --from"):
        prepare(TrainRequest([str(text)], keep=[text]), RunDirectory.create(tmp_path / "e"))


def test_general_text_in_another_language_is_refused(
    untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sides of the memory are swapped: what is in the target language comes back as it is."""
    monkeypatch.setattr(Writer, "written", staticmethod(str))
    monkeypatch.setattr(Translator, "load", lambda *given: Writer())
    rows = [f"sessiz köyün {n} köpeği uyuyor\tthe dog number {n} of the quiet village sleeps" for n in range(40)]
    path = tmp_path / "swapped.tsv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"swapped\.tsv: its translations do not read like this run's tr"):
        General.of(Base.open(untrained, {}, "settings"), [path], 1000, 2.0, print)


def test_what_is_held_out_of_the_new_text_is_not_trained_on_as_general_text(
    memory: Path, untrained: Path, tmp_path: Path
) -> None:
    """The memory lies among the general text as well."""
    run = RunDirectory.create(tmp_path / "run")
    _, report = prepare(TrainRequest([str(memory)], settings=SETTINGS, start=untrained, keep=[memory]), run)
    sources, _ = held_out_lines(run)
    held_out = (run.held_out("general", "source")).read_text(encoding="utf-8").splitlines()
    left_out = len(set(sources) - set(held_out))
    assert f"general text: {left_out} pairs left out, which are held out of the new text" in report.notes
    seen = len(set(held_out) - set(sources))
    assert any(note.startswith(f"general text: {seen} of its {len(held_out)} pairs are") for note in report.notes)
    size = run.read_config()["model"]["vocab_size"]
    corpus = Corpus.open(run.corpus, "train", vocab_size=size)
    tokenizer = Tokenizer.load(run.tokenizer)
    trained = {tuple(corpus.source(index).tolist()) for index in range(len(corpus))}
    assert not {tuple(tokenizer.encode(source, "en")) for source in sources} & trained


@pytest.mark.parametrize(("kind", "share"), [("old", 0.5), ("written", 0.75), ("", None)])
def test_the_share_gains_most_of_those_that_keep_general_text(
    kind: str, share: float | None, memory: Path, untrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = prepared(memory, untrained, tmp_path / "run")
    config = run_config(run.read_config(), "config.json")
    before = RunDirectory.open(untrained).load_weights()
    run.save_weights({name: tensor + 1.0 for name, tensor in before.items()}, {"step": "3"})

    # of references a point may be lost, of what the base wrote itself fifteen
    def scores(run: RunDirectory, config: object, share: float) -> list[float]:
        return [20 + 10 * share, float(np.interp(share, (0.25, 0.5, 0.75, 1.0), (60.0, 59.5, 50.0, 30.0)))]

    monkeypatch.setattr(adapt, "_scores_of_share", scores)
    adapted = {
        **run.read_config()["data_source"]["adapted"],
        "chrf_before": {"new": 20.0, **({kind: 60.0} if kind else {})},
    }
    adapted = settle(run, config, adapted)
    assert adapted.get("share") == share
    for name, tensor in run.load_weights().items():
        expected = before[name].double() + (1.0 if share is None else share)
        assert torch.allclose(tensor.double(), expected, atol=1e-6), name
    card = "\n".join(adaptation_lines(run, adapted))
    if share is None:
        assert "there was no general text to keep" in card
        return
    assert f"| {share:g} (kept) |" in card
    assert "| 0 | 20.00 | 60.00 |" in card
    assert "share" not in run.read_config()["data_source"]["adapted"], "the settings stay those that were validated"
    weights = run.weights.read_bytes()
    assert settle(run, config, adapted) == adapted, "what is settled stays"
    assert run.weights.read_bytes() == weights


@pytest.mark.parametrize(("share", "is_told"), [("0.0", True), ("0.125", False), (None, False)])
def test_an_adaptation_that_keeps_nothing_is_told(
    share: str | None, is_told: bool, memory: Path, untrained: Path, tmp_path: Path
) -> None:
    run = prepared(memory, untrained, tmp_path / "run")
    run.save_weights(RunDirectory.open(untrained).load_weights(), {} if share is None else {"share": share})
    assert [text[:45] for text in nothing_kept(run)] == ["nothing of what was learned is kept, because "] * is_told


def test_why_an_adaptation_stopped() -> None:
    config = build_config({"training": {"patience": 2}})
    rows = [{"step": 10, "chrf": 5.0}, {"step": 20, "chrf": 7.0}, {"step": 30, "chrf": 8.0, "kept_score": 6.0}]
    assert why_stopped(rows, config) == "stopped at update 30: its time or passes were used up"
    rows.append({"step": 40, "chrf": 9.0, "kept_score": 6.5})
    assert why_stopped(rows, config) == "stopped at update 40: neither text got better in 2 validations"


@pytest.mark.nightly
def test_general_text_stays_where_plain_training_on_the_memory_loses_it(tmp_path: Path, memory: Path) -> None:
    """A base of some hundred updates on the phrasebook, adapted twice: with general text, and with none."""
    settings = {"training": {"max_updates": 300, "tokens_per_batch": 2000}}
    base, plain, kept = (tmp_path / name for name in ("base", "plain", "kept"))
    watcher = SilentPreparation()
    train(TranslatorJob(TrainRequest(["phrasebook:fr"], preset="tiny", settings=settings)), base, watcher)
    shutil.rmtree(base / "corpus")
    sources, targets = held_out_lines(RunDirectory.open(base))
    text = tmp_path / "general.txt"
    text.write_text("\n".join(phrase.source for phrase in phrasebook("fr", 1500)) + "\n", encoding="utf-8")
    some = {"training": {"max_updates": 120}, **SETTINGS}
    train(TranslatorJob(TrainRequest([str(memory)], settings=some, start=base, keep=[text])), kept, watcher)
    for name in ("source", "target"):
        (base / "held_out" / f"validation.{name}.txt").unlink()
    monkey = pytest.MonkeyPatch()
    monkey.setattr(general_text, "_bundled", lambda language: [])
    train(TranslatorJob(TrainRequest([str(memory)], settings=some, start=base)), plain, watcher)
    monkey.undo()
    config = run_config(RunDirectory.open(base).read_config(), "config.json")
    general = [chrf_of(Translator.load(run), sources, targets, config) for run in (base, plain, kept)]
    new = [
        chrf_of(Translator.load(run), *held_out_lines(RunDirectory.open(kept)), config) for run in (base, plain, kept)
    ]
    assert general[1] < general[0] - 10
    assert general[2] > general[0] - 3
    assert new[2] > new[0] + 0.5 * (new[1] - new[0])


class SilentPreparation(SilentWatcher):
    """Hears nothing, of the preparation neither."""

    def prepared(self, *given: object) -> None:
        return None


def test_an_adapter_keeps_what_low_rank_updates_add_and_nothing_of_the_base(
    memory: Path, untrained: Path, tmp_path: Path
) -> None:
    run, rank = RunDirectory.create(tmp_path / "client"), 2
    settings = {**SETTINGS, "training": {"low_rank": rank}}
    prepare(TrainRequest([str(memory)], settings=settings, start=untrained), run)
    before = RunDirectory.open(untrained).load_weights()
    name = next(name for name, tensor in before.items() if ".blocks." in name and tensor.ndim == 2)
    outputs, inputs = before[name].shape
    change = torch.randn(outputs, rank) @ torch.randn(rank, inputs)
    run.save_weights({**before, name: before[name] + change}, {"step": "3"})
    run.checkpoints.mkdir()
    record = PrecisionRecord("chrf", 50.0, 50.0, 200, read_checksum(run.weights))
    run.write_text(run.precision.name, record.json())
    run.write_card("# An adaptation\n")

    assert f"kept as an adapter of {untrained}: rank 2" in keep_adapter(run.path)
    assert set(read_tensors(run.weights)) == {f"{name}:up", f"{name}:down"}
    for other, tensor in run.load_weights().items():
        expected = before[other] + change if other == name else before[other]
        assert torch.allclose(tensor, expected, atol=1e-4 if other == name else 0), other
    assert not any((run.path / part).exists() for part in ("initial.safetensors", "corpus", "checkpoints"))
    again = read_record(run.path)
    assert again is not None, "what eight bits cost is known of the weights that are there now"
    assert again.float32 == 50.0
    assert Translator.load(run.path).info.precision == "float32"


@pytest.mark.nightly
def test_the_command_trains_an_adapter(memory: Path, untrained: Path, tmp_path: Path) -> None:
    out = tmp_path / "client"
    command = ["train", "translator", str(memory), "--from", str(untrained), "--adapter", "--lora", "2"]
    settings = ["data.validation_pairs=8", "data.test_pairs=0", "training.max_updates=2", "training.learning_rate=0.1"]
    assert run_dikkat([*command, "--out", str(out), *(part for one in settings for part in ("--set", one))]) == 0
    assert all(".blocks." in name and name.endswith((":up", ":down")) for name in read_tensors(out / WEIGHTS))
    before, after = RunDirectory.open(untrained).load_weights(), RunDirectory.open(out).load_weights()
    changes = [after[name] - tensor for name, tensor in before.items() if not torch.equal(after[name], tensor)]
    assert changes
    assert all(torch.linalg.matrix_rank(change.double(), atol=1e-4) <= 2 for change in changes)


def test_the_rank_of_an_adapter_keeps_it_to_its_size(untrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [
        tensor.shape for name, tensor in RunDirectory.open(untrained).load_weights().items() if ".blocks." in name
    ]
    a_rank = sum(4 * sum(shape) for shape in shapes if len(shape) == 2)
    for size, rank in ((5 * a_rank, 5), (5 * a_rank - 1, 4), (1, 1), (1000 * a_rank, 16)):
        monkeypatch.setattr(adapted_weights, "MAX_ADAPTER_SIZE", size)
        assert adapter_rank(untrained) == rank


@pytest.mark.parametrize("more", [[], ["--from", "base", "--members", "2"]])
def test_an_adapter_is_of_one_model_that_starts_from_another(
    more: list[str], memory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run_dikkat(["train", "translator", str(memory), "--adapter", "--out", str(out), *more]) == 2
    assert "--adapter is for one model that starts --from another" in capsys.readouterr().err
    assert not out.exists()
