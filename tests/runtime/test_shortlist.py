"""Search among the words of a shortlist: what a search among all words finds where the others are never written."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.runtime.test_engines import SOURCES
from tests.unit.models.small import VOCABULARY, config, small_model

from dikkat.run_directory.tensor_files import encode_tensors
from dikkat.torch_engine.engine import TorchEngine
from dikkat_runtime.engine.contract import SearchRequest
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, Precision, SamplingOptions
from dikkat_runtime.engine.settings import NATIVE, ModelSettings, model_settings
from dikkat_runtime.engine.shortlist import NAMED, OWNER, SHORTLIST, Shortlist, read_shortlist
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run.weights import read_checksum
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID

KINDS = {
    "attention": {},
    "ssru, odd widths": {"decoder_memory": "ssru", "model_dim": 21, "num_heads": 3, "head_dim": 5},
}
GREEDY = DecodingOptions()


def a_shortlist(per_piece: int = 3) -> Shortlist:
    draw = np.random.default_rng(4)
    words = [np.sort(draw.choice(np.arange(4, VOCABULARY), per_piece, replace=False)) for _ in range(VOCABULARY)]
    starts = np.arange(VOCABULARY + 1) * per_piece
    always = np.array([EOS_ID, 4, 5])
    return Shortlist(always.astype(np.int32), starts.astype(np.int32), np.concatenate(words).astype(np.int32))


def settings_of(kind: str) -> ModelSettings:
    return model_settings({"model": config(output_bias=True, **KINDS[kind]).model_dump()}, "here", NATIVE)


def arrays_of(kind: str, allowed: Array | None = None) -> dict[str, Array]:
    """The weights of a model, of which only words that are `allowed` are ever written."""
    model = small_model(output_bias=True, **KINDS[kind])
    arrays = {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}
    arrays["output_bias"] = np.random.default_rng(1).normal(0, 0.3, VOCABULARY).astype(np.float32)
    if allowed is not None:
        arrays["output_bias"][np.setdiff1d(np.arange(VOCABULARY), allowed)] = -1e4
    return arrays


def listed(kind: str, precision: Precision = "float32", threads: int = 1, per_piece: int = 3) -> NativeEngine:
    shortlist = a_shortlist(per_piece)
    weights = Weights(arrays_of(kind), "here", precision == "int8", threads)
    return NativeEngine(settings_of(kind), weights, shortlist=shortlist)


def unlisted(kind: str) -> NativeEngine:
    return NativeEngine(settings_of(kind), Weights(arrays_of(kind), "here", False, 1))


def alike(ours: list[Hypothesis], theirs: list[Hypothesis]) -> None:
    assert [one.tokens for one in ours] == [one.tokens for one in theirs]
    expected = [one.log_probability for one in theirs]
    assert [one.log_probability for one in ours] == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_ids_are_those_of_the_full_product_restricted_in_float64(kind: str, precision: Precision) -> None:
    engine = listed(kind, precision)
    for source in SOURCES:
        memory, words = engine.encode([source]), a_shortlist().of(source)
        steps, ids, total = engine.steps(memory, 1), list[int](), 0.0
        while len(ids) < GREEDY.length_cap(len(source) + 1) and (not ids or ids[-1] != EOS_ID):
            # (V,)[(W,)] -> (W,)
            logits = steps.step([ids[-1] if ids else BOS_ID])[0].astype(np.float64)[words]
            ids.append(int(words[logits.argmax()]))
            total += logits.max() - math.log(np.exp(logits).sum())
        ((found,),) = engine.search(memory, GREEDY)
        assert [*found.tokens, *([EOS_ID] if found.finished else [])] == ids
        assert found.log_probability == pytest.approx(total, abs=2e-5)


@pytest.mark.parametrize("beam_size", [1, 2, 4, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_beams_are_those_of_a_model_that_never_writes_the_other_words(kind: str, beam_size: int) -> None:
    engine, options = listed(kind, threads=2), BeamOptions(beam_size=beam_size, n_best=beam_size)
    together = engine.search(engine.encode(SOURCES), options)
    for source, ours in zip(SOURCES, together, strict=True):
        model = small_model(output_bias=True, **KINDS[kind])
        weights = {name: torch.from_numpy(array) for name, array in arrays_of(kind, a_shortlist().of(source)).items()}
        model.load_state_dict(weights, strict=False)
        masked = TorchEngine(model)
        alike(ours, masked.search(masked.encode([source]), options)[0])


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_neither_neighbours_in_a_batch_nor_threads_change_a_bit(precision: Precision) -> None:
    engine, sources = listed("attention", precision), SOURCES * 9
    for options in (GREEDY, BeamOptions(beam_size=4)):
        alone = [engine.search(engine.encode([source]), options)[0] for source in sources]
        for threads in (1, 2, 3):
            assert engine.search(engine.encode(sources), options, SearchRequest(threads=threads)) == alone


def test_a_list_that_is_shorter_than_the_beam_is_filled_up_with_the_lowest_ids() -> None:
    engine, source = listed("attention", per_piece=0), [7, 8]
    assert a_shortlist(0).of(source).tolist() == [EOS_ID, 4, 5]
    found = engine.search(engine.encode([source]), BeamOptions(beam_size=6, n_best=6))[0]
    assert {token for one in found for token in one.tokens} <= {*range(EOS_ID, EOS_ID + 7)}
    whole = engine.search(engine.encode([source]), BeamOptions(beam_size=VOCABULARY, n_best=1))
    assert whole[0]


def test_what_people_corrected_may_be_any_word() -> None:
    engine, plain = listed("attention"), unlisted("attention")
    memory, sources = plain.encode(SOURCES), SOURCES
    steps = plain.steps(memory, 1)
    steps.step([BOS_ID] * len(sources))
    outside = next(token for token in range(6, VOCABULARY) if token not in a_shortlist().of(sources[1]))
    near = [None, Neighbours(steps.states()[[1]], np.array([outside])), None, None]
    with_memory = engine.search(engine.encode(sources), GREEDY, SearchRequest(neighbours=near))
    assert with_memory[1][0].tokens[0] == outside
    assert with_memory[1] == plain.search(memory, GREEDY, SearchRequest(neighbours=near))[1]
    assert with_memory[0] == engine.search(engine.encode(sources), GREEDY)[0]


def test_limits_on_repetition_and_sampling_choose_among_all_words() -> None:
    engine, plain = listed("attention"), unlisted("attention")
    for options in (DecodingOptions(no_repeat_ngram=1), SamplingOptions(seed=3)):
        assert engine.search(engine.encode(SOURCES), options) == plain.search(plain.encode(SOURCES), options)
    assert engine.search(engine.encode(SOURCES), GREEDY) != plain.search(plain.encode(SOURCES), GREEDY)
    assert str(engine.info).endswith("1 thread, words of a shortlist")
    assert "shortlist" not in str(plain.info)


def write(run: Path, changed: dict[str, Array] | None = None, owner: str | None = None) -> Path:
    """A shortlist, and the weights that it is for unless it has another `owner`."""
    weights = run / "model.safetensors"
    weights.write_bytes(encode_tensors({"output_bias": torch.zeros(VOCABULARY)}, {}))
    arrays = {**a_shortlist().arrays(), **(changed or {})}
    path = run / SHORTLIST
    notes = {OWNER: read_checksum(weights) if owner is None else owner}
    path.write_bytes(encode_tensors({name: torch.from_numpy(array) for name, array in arrays.items()}, notes))
    return path


def test_a_file_is_read_back_and_a_changed_one_refused(tmp_path: Path) -> None:
    settings = settings_of("attention")
    assert read_shortlist(tmp_path, {}, settings) is None
    path = write(tmp_path)
    read = read_shortlist(tmp_path, {}, settings)
    assert read is not None
    for name, array in a_shortlist().arrays().items():
        np.testing.assert_array_equal(read.arrays()[name], array)
    content = path.read_bytes()
    for at in (3, 60, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(DataError, match=r"shortlist\.safetensors: damaged"):
            read_shortlist(tmp_path, {}, settings)


@pytest.mark.parametrize(
    "changed",
    [
        {"words": np.full(3 * VOCABULARY, VOCABULARY, np.int32)},
        {"words": np.full(3 * VOCABULARY, BOS_ID, np.int32)},
        {"words": np.full(5, 7, np.int32)},
        {"starts": np.arange(VOCABULARY, dtype=np.int32)},
        {"always": np.array([4], np.int32)},
    ],
    ids=["too large", "the begin", "too few", "another size", "no end"],
)
def test_a_list_of_other_vocabularies_is_refused(changed: dict[str, Array], tmp_path: Path) -> None:
    write(tmp_path, changed)
    with pytest.raises(DataError, match="does not fit the vocabularies"):
        read_shortlist(tmp_path, {}, settings_of("attention"))


def test_a_list_of_another_model_with_as_many_words_and_a_link_to_nothing_are_refused(tmp_path: Path) -> None:
    settings = settings_of("attention")
    path = write(tmp_path, owner="0" * 64)
    with pytest.raises(DataError, match="belongs to other weights than"):
        read_shortlist(tmp_path, {}, settings)
    path.unlink()
    assert read_shortlist(tmp_path, {}, settings) is None
    with pytest.raises(MissingInputError, match=r"shortlist\.safetensors: is missing, but config\.json names it"):
        read_shortlist(tmp_path, {NAMED: SHORTLIST}, settings)
    path.symlink_to(tmp_path / "gone")
    with pytest.raises(MissingInputError, match=r"shortlist\.safetensors: cannot be read"):
        read_shortlist(tmp_path, {}, settings)
