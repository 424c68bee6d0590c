"""Adapters: one base, what each adds to it, and nothing kept twice."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from tests.runtime.runs import SENTENCES, translator_run
from tests.runtime.server.asking import served

from dikkat.run_directory import RunDirectory
from dikkat_runtime.cli.main import run as run_dikkat
from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.errors import DataError, MissingInputError, UsageError
from dikkat_runtime.run import weights as weights_of_runs
from dikkat_runtime.run.weights import ADAPTS, BASE, DOWN, UP, read_arrays, read_checksum, read_weights
from dikkat_runtime.server.models import Catalog, Translate
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.tasks.batches import search_all
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.glossary import Glossary, Term

RANK = 3
HELD = BeamOptions(beam_size=2, no_repeat_ngram=2)
"""Options of a search step by step."""
TOUCHED = ("encoder.blocks.0.feed_forward.inner.weight", "decoder.blocks.1.cross_attention.in_projection.weight")


def adapter_of(base: Path, path: Path, seed: int = 1, touched: tuple[str, ...] = TOUCHED) -> Path:
    """An adapter of some matrices of `base`, and next to it what it computes as a whole model, `path`-whole."""
    random, weights = np.random.default_rng(seed), RunDirectory(base).load_weights()
    factors = dict[str, torch.Tensor]()
    for name in touched:
        outputs, inputs = weights[name].shape
        factors[name + UP] = torch.tensor(random.normal(size=(outputs, RANK)), dtype=torch.float32)
        factors[name + DOWN] = torch.tensor(random.normal(size=(RANK, inputs)), dtype=torch.float32)
    whole = {**weights, **{name: weights[name] + factors[name + UP] @ factors[name + DOWN] for name in touched}}
    notes = {ADAPTS: read_checksum(base / "model.safetensors"), BASE: str(base)}
    for folder, tensors, metadata in ((path, factors, notes), (whole_of(path), whole, {})):
        shutil.copytree(base, folder)
        RunDirectory(folder).save_weights(tensors, metadata)
    return path


def whole_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-whole")


def weights_of(translator: Translator) -> Weights:
    assert isinstance(translator.engine, NativeEngine)
    return translator.engine.weights


def written(translator: Translator) -> list[str]:
    return [line.text for line in translator.translate(SENTENCES)]


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """No equal base of another test."""
    monkeypatch.setattr(weights_of_runs, "_known", {})


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return translator_run(tmp_path / "base", languages=("en", "tr"))


@pytest.mark.parametrize("decoder_memory", ["attention", "ssru"])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_an_adapter_computes_what_the_whole_model_does_and_shares_all_it_does_not_touch(
    precision: Literal["float32", "int8"], decoder_memory: Literal["attention", "ssru"], tmp_path: Path
) -> None:
    base = translator_run(tmp_path / "base", languages=("en", "tr"), decoder_memory=decoder_memory)
    adapter = adapter_of(base, tmp_path / "client")
    plain, adapted = Translator.load(base, precision), Translator.load(adapter, precision)
    whole = Translator.load(whole_of(adapter), precision)
    ours, theirs, before = (first_logits(translator) for translator in (adapted, whole, plain))
    # a base in eight bits is rounded without what is added to it
    np.testing.assert_allclose(ours, theirs, atol=1e-4 if precision == "float32" else 0.4)
    assert np.abs(theirs - before).max() > 2
    if precision == "float32":
        assert written(adapted) == written(whole) != written(plain)
    mine, theirs_too = (weights_of(translator) for translator in (adapted, plain))
    assert mine.base is theirs_too, "the base that is open is not opened once more"
    again = {key[0] for key, kept in mine._shared.items() if theirs_too._shared.get(key) is not kept}
    assert again == {name.removesuffix(".weight") for name in TOUCHED}
    own = sum(array.nbytes for array in mine._kept if not any(array is other for other in theirs_too._kept))
    stored = (adapter / "model.safetensors").stat().st_size
    assert own < 3 * stored + 20_000, "no matrix is held a second time"
    assert adapted.tokenizer is plain.tokenizer


def first_logits(translator: Translator) -> Any:
    engine = translator.engine
    return engine.steps(engine.encode([[7, 8, 9]]), 1).step([BOS_ID])


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_an_adapter_of_a_recurrent_unit_and_of_the_output_is_the_whole_model(
    precision: Literal["float32", "int8"], tmp_path: Path
) -> None:
    base = translator_run(tmp_path / "base", languages=("en", "tr"), decoder_memory="ssru")
    touched = ("decoder.blocks.0.recurrence.forget.weight", "output_weight")
    adapter = adapter_of(base, tmp_path / "client", touched=touched)
    adapted, whole = (Translator.load(path, precision) for path in (adapter, whole_of(adapter)))
    np.testing.assert_allclose(first_logits(adapted), first_logits(whole), atol=1e-4 if precision == "float32" else 0.4)


def test_an_adapter_that_is_open_first_lends_its_base(base: Path, tmp_path: Path) -> None:
    adapted = Translator.load(adapter_of(base, tmp_path / "client"), "int8")
    plain = Translator.load(base, "int8")
    assert weights_of(adapted).base is weights_of(plain)
    assert written(plain) == written(Translator.load(shutil.copytree(base, tmp_path / "other"), "int8"))


def test_the_torch_engine_and_the_files_of_dikkat_read_an_adapter(base: Path, tmp_path: Path) -> None:
    adapter = adapter_of(base, tmp_path / "client")
    torch_engine, native = Translator.load(adapter, engine="torch"), Translator.load(whole_of(adapter))
    (own,), (other,) = (engine.translate(SENTENCES[1:2], beam_size=1) for engine in (torch_engine, native))
    # sums of float32 in other orders differ in their last bit
    assert (own.text, own.tokens) == (other.text, other.tokens)
    assert own.score == pytest.approx(other.score, rel=1e-6)
    whole = RunDirectory(whole_of(adapter)).load_weights()
    for name, tensor in RunDirectory(adapter).load_weights().items():
        assert torch.allclose(tensor, whole[name], atol=1e-5), name


def test_the_command_and_the_library_name_the_base_where_it_is_now(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter, lines = adapter_of(base, tmp_path / "client"), tmp_path / "lines.txt"
    expected = written(Translator.load(whole_of(adapter)))
    moved = base.rename(tmp_path / "moved")
    lines.write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    with pytest.raises(MissingInputError, match="the run that it adapts is not in"):
        Translator.load(adapter)
    command = ["translate", str(moved), str(lines), "--adapter", str(adapter), "--precision", "float32"]
    assert run_dikkat(command) == 0
    assert capsys.readouterr().out == "".join(f"{line}\n" for line in expected)
    assert written(Translator.load(moved, adapter=adapter)) == expected


def test_a_wrong_base_is_refused_in_one_line(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapter = adapter_of(base, tmp_path / "client")
    assert run_dikkat(["translate", str(whole_of(adapter)), "--adapter", str(adapter)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    own, other = (read_checksum(run / "model.safetensors")[:8] for run in (base, whole_of(adapter)))
    assert f"adapts the weights {own}, but {whole_of(adapter)} has {other}" in line
    with pytest.raises(UsageError, match="is a whole model, not an adapter"):
        Translator.load(adapter, adapter=base)


def test_a_server_has_adapters_as_models_by_their_names_beside_the_base(base: Path, tmp_path: Path) -> None:
    names = ["first", "second"]
    adapters = [adapter_of(base, tmp_path / name, seed) for seed, name in enumerate(names)]
    specs = [f"en-tr={base}", *(f"{name}={path}" for name, path in zip(names, adapters, strict=True))]
    catalog = Catalog(specs, "float32")
    assert len({id(weights_of(model.model).base) for model in catalog.models[1:]}) == 1
    with served(catalog, beam_size=5) as server:
        for name, path in (("en-tr", base), *((name, whole_of(tmp_path / name)) for name in names)):
            expected = Translator.load(path).translate([SENTENCES[0]])[0].text
            answer = server.post("/translate", q=SENTENCES[0], source="en", target="tr", model=name)
            assert answer["translatedText"] == expected
            answer = server.post("/v2/translate", text=[SENTENCES[0]], target_lang="TR", model=name)
            assert answer["translations"][0]["text"] == expected
            answer = server.post("/language/translate/v2", q=SENTENCES[0], target="tr", format="text", model=name)
            assert answer["data"]["translations"][0]["translatedText"] == expected
            form = {"target_lang": "TR", "model": name}
            begun = server.client.post(
                "/v2/document", data=form, files={"file": ("a.txt", SENTENCES[0].encode())}
            ).json()
            address, key = f"/v2/document/{begun['document_id']}", {"document_key": begun["document_key"]}
            while server.post(address, **key)["status"] not in ("done", "error"):
                pass
            assert server.client.post(f"{address}/result", json=key).text == expected
        assert (
            "there are: en-tr, first"
            in server.post("/v2/translate", 404, text="x", target_lang="TR", model="no")["message"]
        )


@pytest.mark.parametrize("decoder_memory", ["attention", "ssru"])
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("options", [BeamOptions(beam_size=1), BeamOptions(beam_size=4, n_best=4), HELD], ids=repr)
def test_a_batch_of_several_adapters_has_the_bits_of_each_sentence_alone(
    options: BeamOptions,
    precision: Literal["float32", "int8"],
    decoder_memory: Literal["attention", "ssru"],
    tmp_path: Path,
) -> None:
    base = translator_run(tmp_path / "base", languages=("en", "tr"), decoder_memory=decoder_memory)
    plain = Translator.load(base, precision)
    touched = [name for name in RunDirectory(base).load_weights() if ".blocks." in name and "weight" in name]
    matrices = tuple(name for name in touched if "norm" not in name)
    clients = [adapter_of(base, tmp_path / f"{seed}", seed, matrices) for seed in range(3)]
    engines: Any = [plain.engine, *(Translator.load(path, precision).engine for path in clients)]
    assert len({engine.mixes_by for engine in engines}) == 1
    sentences = [[7, 8, 9, 5, 6][: 1 + number % 5] for number in range(40)]
    own = [engines[number // 5 % 4] for number in range(40)]
    for threads in (1, 2):
        mixed = search_all(own[threads], sentences, options, engines=own, batch_size=64)
        alone = [search_all(engine, [ids], options)[0] for engine, ids in zip(own, sentences, strict=True)]
        assert mixed == alone
        assert len({hypotheses[0].score for hypotheses in mixed}) == 20, "each adapter writes its own"
        for engine in engines:
            engine.info = replace(engine.info, threads=2)


def test_requests_of_several_adapters_and_glossaries_share_a_batch(base: Path, tmp_path: Path) -> None:
    names = ["first", "second"]
    adapters = [adapter_of(base, tmp_path / name, seed) for seed, name in enumerate(names)]
    catalog = Catalog([f"base={base}", *(f"{path.name}={path}" for path in adapters)], "int8")
    glossary = Glossary([Term("chess", ("satranç",))], "en")
    options = BeamOptions(beam_size=2)
    tasks = [Translate(model, options, terms) for model in catalog.models for terms in (None, glossary)]
    assert len({task.batch_key for task in tasks}) == 1
    texts: list[Any] = [SENTENCES[4]] * 6 + [(SENTENCES[0], "Kü")]
    together = tasks[0].run(texts, [*tasks, tasks[2]])
    for text, task, translation in zip(texts, [*tasks, tasks[2]], together, strict=True):
        assert translation == task.run([text], [task])[0]
        prefixes = None if isinstance(text, str) else [text[1]]
        source, translator = text if isinstance(text, str) else text[0], task.model.model
        assert [translation] == translator.translate([source], options, prefixes=prefixes, glossary=task.glossary)
    assert len({translation.score for translation in together[:6:2]}) == 3
    bound = [own for own in zip(together, tasks, strict=False) if own[1].glossary is not None]
    assert all("satranç" in translation.text or task.unplaced for translation, task in bound)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_an_adapter_of_an_adapter_is_added_to_both(
    precision: Literal["float32", "int8"], base: Path, tmp_path: Path
) -> None:
    first = adapter_of(base, tmp_path / "first")
    second = adapter_of(first, tmp_path / "second", seed=2, touched=TOUCHED[:1])
    ours, theirs = (first_logits(Translator.load(path, precision)) for path in (second, whole_of(second)))
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_what_adds_to_the_output_has_batches_of_its_own(base: Path, tmp_path: Path) -> None:
    adapted = Translator.load(adapter_of(base, tmp_path / "client", touched=(TOUCHED[0], "output_weight")), "int8")
    plain = Translator.load(base, "int8")
    assert isinstance(adapted.engine, NativeEngine)
    assert isinstance(plain.engine, NativeEngine)
    assert adapted.engine.mixes_by != plain.engine.mixes_by


def test_an_adapter_of_a_recurrent_unit_is_opened_beside_its_base(tmp_path: Path) -> None:
    base = translator_run(tmp_path / "base", languages=("en", "tr"), decoder_memory="ssru")
    adapter = adapter_of(base, tmp_path / "client", touched=("decoder.blocks.0.recurrence.forget.weight",))
    plain, adapted = Translator.load(base, "int8"), Translator.load(adapter, "int8")
    assert weights_of(adapted).base is weights_of(plain)
    np.testing.assert_allclose(first_logits(adapted), first_logits(Translator.load(whole_of(adapter))), atol=0.4)


@pytest.mark.parametrize("damage", ["rank", "down", "width", "unknown"])
def test_factors_that_do_not_fit_the_base_are_refused(damage: str, base: Path, tmp_path: Path) -> None:
    adapter = RunDirectory(adapter_of(base, tmp_path / "client"))
    factors: dict[str, Any] = {name: torch.tensor(array) for name, array in factors_of(adapter).items()}
    name = TOUCHED[0]
    if damage == "rank":
        factors[name + DOWN] = factors[name + DOWN][:-1]
    elif damage == "down":
        del factors[name + DOWN]
    elif damage == "width":
        factors[name + DOWN] = factors[name + DOWN][:, :-1]
    else:
        factors["encoder.blocks.9.x.weight" + UP] = factors.pop(name + UP)
    adapter.save_weights(factors, {ADAPTS: read_checksum(base / "model.safetensors"), BASE: str(base)})
    for engine in ("native", "torch"):
        with pytest.raises(DataError, match="does not fit"):
            Translator.load(adapter.path, engine=engine)
    with pytest.raises(DataError, match="does not fit the matrix of its base"):
        read_weights(adapter.weights)


def test_an_adapter_whose_settings_claim_other_sizes_reads_nothing_of_its_base(base: Path, tmp_path: Path) -> None:
    adapter = adapter_of(base, tmp_path / "client")
    config = adapter / "config.json"
    settings = json.loads(config.read_text(encoding="utf-8"))
    settings["model"]["feed_forward_dim"] *= 2
    config.write_text(json.dumps(settings), encoding="utf-8")
    (adapter / "manifest.json").unlink()
    with pytest.raises(DataError, match="does not fit"):
        Translator.load(adapter)


def factors_of(run: RunDirectory) -> dict[str, Any]:
    return read_arrays(run.weights, "F32")


def test_the_whole_weights_are_those_of_the_base_and_the_products(base: Path, tmp_path: Path) -> None:
    adapter = RunDirectory(adapter_of(base, tmp_path / "client"))
    before, factors, after = (
        read_weights(base / "model.safetensors"),
        factors_of(adapter),
        read_weights(adapter.weights),
    )
    assert set(after) == set(before)
    for name, array in after.items():
        expected = before[name].astype(np.float64)
        if name in TOUCHED:
            expected = expected + factors[name + UP].astype(np.float64) @ factors[name + DOWN].astype(np.float64)
        np.testing.assert_allclose(array, expected, atol=1e-4 if name in TOUCHED else 0, err_msg=name)
