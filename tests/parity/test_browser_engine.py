"""The browser engine computes what the native engine and PyTorch compute: texts, maps, probabilities."""

from __future__ import annotations

from hashlib import blake2b
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.browser_engine import in_node
from tests.runtime.runs import LABELS, SENTENCES, classifier_run, language_model_run, translator_run

from dikkat import Translator
from dikkat.data.labelled import LabelledText
from dikkat.explain.head_analysis.circuits import PATTERNS, detection_scores, logit_lens
from dikkat.explain.head_analysis.importance import HeadName, attention_rollout, occlusion, without_heads
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.positions import NoPositions
from dikkat.nn.recorder import MapName, record_attention
from dikkat.run_directory import RunDirectory
from dikkat.tasks.classification.table_fitting import fit_word_table
from dikkat.tasks.inspection.arithmetic import explain_cell
from dikkat.tasks.translation.attention import Attending
from dikkat.web.opening import open_for_web
from dikkat_runtime.engine.options import BeamOptions, GenerationOptions
from dikkat_runtime.engine.text_writer import TextWriter
from dikkat_runtime.run.parts import WORD_TABLE
from dikkat_runtime.run.weights import read_weights
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.generator import Generator

TOLD = [
    "good and fine",
    "it may be",
    "a bad bad day",
    "great!",
    "who knows?",
    "never, no",
    "fine: it is good",
    "perhaps so",
    "no way",
]
TEXTS = [text for text in SENTENCES if text]
SETTINGS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "post-norm, gelu": {"norm_placement": "post", "activation": "gelu"},
    "learned positions, output bias": {"positions": "learned", "max_positions": 64, "output_bias": True},
    "tensor2tensor, untied": {"positions": "sinusoidal_concatenated", "tie_embeddings": False},
    "two vocabularies": {"separate": True},
    "rms, swiglu, shared keys, beta": {
        "norm": "rms", "activation": "swiglu", "num_kv_heads": 2, "inverse_temperature": 0.7,
    },
    "tanh, no bias": {"activation": "gelu_tanh", "attention_bias": False, "scale_embeddings": False},
}  # fmt: skip
SEARCH = """
return [core, engine.SCALAR].map((products) => {
  const model = new engine.TranslatorModel(engine.readModelFile(bytes("./run.model")), products);
  return input.texts.map((text) => {
    const found = finished(model.search(model.sourceTokenizer.encode(text.trim()), { beamSize: input.beam }));
    return [found.tokens, found.score, found.finished, model.targetTokenizer.decode(found.tokens)];
  });
});
"""
"""What the WebAssembly core finds, then plain JavaScript."""


@pytest.mark.parametrize(
    ("name", "beam"),
    # by day each once, half of them with a beam
    [
        pytest.param(name, beam, marks=() if number % 2 == turn else pytest.mark.nightly)
        for number, name in enumerate(SETTINGS)
        for turn, beam in enumerate((4, 1))
    ],
)
def test_a_translator_writes_what_torch_writes(tmp_path: Path, name: str, beam: int) -> None:
    run = translator_run(tmp_path / "run", **SETTINGS[name])
    translator = Translator.load(run, engine="torch")
    memory = translator.engine.encode(translator.tokenizer.encode_batch(TEXTS))
    expected = [best for (best, *_) in translator.engine.search(memory, BeamOptions(beam_size=beam))]
    model = open_for_web(run, "float32").encode()
    for found in in_node(tmp_path / "node", SEARCH, {"texts": TEXTS, "beam": beam}, run=model):
        assert [tuple(tokens) for tokens, *_ in found] == [each.tokens for each in expected]
        assert [score for _, score, *_ in found] == pytest.approx([each.score for each in expected], rel=1e-4)
        assert [finished for *_, finished, _ in found] == [each.finished for each in expected]
        assert [text for *_, text in found] == [translator.target_tokenizer.decode(each.tokens) for each in expected]


@pytest.mark.parametrize(
    ("decoding", "otherwise"),
    [({"length_penalty": 1.0}, {}), ({"length_penalty": 1.0, "thorough": True}, {"length_penalty": 1.0})],
)
def test_a_translator_searches_as_its_run_says(
    tmp_path: Path, decoding: dict[str, Any], otherwise: dict[str, Any]
) -> None:
    path = translator_run(tmp_path / "run", output_bias=True)
    run = RunDirectory.open(path)
    weights = {name: torch.tensor(np.array(array)) for name, array in read_weights(path / "model.safetensors").items()}
    # most outputs end before their cap, so that it matters when a search is over
    weights["output_bias"][EOS_ID] += 4
    run.save_weights(weights, {"step": "1"})
    run.write_config({**run.read_config(), "decoding": decoding})
    translator = Translator.load(path, engine="native")
    memory = translator.engine.encode(translator.tokenizer.encode_batch(TEXTS))
    expected, other = (
        [best for (best, *_) in translator.engine.search(memory, BeamOptions(beam_size=4, **options))]
        for options in (decoding, otherwise)
    )
    assert [each.tokens for each in expected] != [each.tokens for each in other]
    model = open_for_web(path, "float32").encode()
    for found in in_node(tmp_path / "node", SEARCH, {"texts": TEXTS, "beam": 4}, run=model):
        assert [tuple(tokens) for tokens, *_ in found] == [each.tokens for each in expected]
        assert [score for _, score, *_ in found] == pytest.approx([each.score for each in expected], rel=1e-4)


def test_int8_writes_what_the_native_engine_writes_in_int8(tmp_path: Path) -> None:
    run = translator_run(tmp_path / "run")
    native = Translator.load(run, engine="native", precision="int8")
    memory = native.engine.encode(native.tokenizer.encode_batch(TEXTS))
    expected = [best for (best, *_) in native.engine.search(memory, BeamOptions(beam_size=1))]
    model = open_for_web(run, "int8").encode()
    for found in in_node(tmp_path / "node", SEARCH, {"texts": TEXTS, "beam": 1}, run=model):
        assert [tuple(tokens) for tokens, *_ in found] == [each.tokens for each in expected]
        assert [score for _, score, *_ in found] == pytest.approx([each.score for each in expected], rel=5e-3)


MAPS = """
const model = new engine.TranslatorModel(engine.readModelFile(bytes("./run.model")), core);
const tokens = (numbers) => Array.from(numbers);
const maps = (off) => {
  const { maps } = model.force(input.source, input.target, { off: engine.setsOf(off) });
  const plain = ({ shape, values }) => [shape, tokens(values)];
  return Object.fromEntries(Object.entries(maps).map(([kind, layers]) => [kind, layers.map(plain)]));
};
const whole = maps([]);
const encoder = model.force(input.source, input.target).maps["encoder-self"];
const rollout = engine.rolloutOf(encoder).map(({ decoded }) => tokens(decoded[0].values));
const lost = finished(model.occlusion(input.source, input.target));
const without = maps([["encoder-self", 0, 1], ["cross", 1, 2]]);
return { whole, rollout, without, occlusion: [lost.shape.slice(1), tokens(lost.values)] };
"""
KINDS = {("encoder", "self"): "encoder-self", ("decoder", "self"): "decoder-self", ("decoder", "cross"): "cross"}


@pytest.mark.parametrize("name", SETTINGS)
def test_maps_are_those_of_torch(tmp_path: Path, name: str) -> None:
    """To 1e-4, with all heads and with two of them off; so are rollout and occlusion."""
    run = translator_run(tmp_path / "run", **SETTINGS[name])
    translator = Translator.load(run, engine="torch")
    text, target = TEXTS[0], "Where are my keys"
    ids = {
        "source": translator.tokenizer.encode(text),
        "target": translator.target_tokenizer.encode(target),
    }
    found = in_node(tmp_path / "node", MAPS, ids, run=open_for_web(run, "float32").encode())
    attending = Attending(translator)
    maps = attending.forced(text, target).maps
    assert_maps(found["whole"], maps)
    layers: dict[int, list[Any]] = {}
    for each in maps:
        if each.stack == "encoder":
            layers.setdefault(each.layer, []).append(each.weights)
    for rollout, expected in zip(found["rollout"], attention_rollout([*layers.values()]), strict=True):
        np.testing.assert_allclose(rollout, expected.reshape(-1), atol=1e-4)
    with without_heads(translator.model, [HeadName("encoder", 0, "self", 1), HeadName("decoder", 1, "cross", 2)]):
        assert_maps(found["without"], attending.forced(text, target).maps)
    source, fed = torch.tensor([*ids["source"], EOS_ID]), torch.tensor([BOS_ID, *ids["target"], EOS_ID])
    shape, lost = found["occlusion"]
    np.testing.assert_allclose(np.reshape(lost, shape), occlusion(translator.model, source, fed), atol=1e-3)


def assert_maps(found: dict[str, Any], maps: Any) -> None:
    assert len(maps) == sum(shape[0] for layers in found.values() for shape, _ in layers) > 0
    for each in maps:
        shape, values = found[KINDS[each.stack, each.kind]][each.layer]
        np.testing.assert_allclose(np.reshape(values, shape)[each.head], each.weights, atol=1e-4)


CHANGED = """
const model = new engine.TranslatorModel(engine.readModelFile(bytes("./run.model")), core);
return input.changes.map(({ hidden, ...change }) => {
  const wordNumbers = [...input.source.keys(), input.source.length];
  const changes = engine.changesOf({ ...change, hidden, wordNumbers });
  const { maps, logits } = model.force(input.source, input.target, changes);
  const plain = ({ shape, values }) => [shape, Array.from(values)];
  const { tokens } = finished(model.search(input.source, changes));
  const listed = Object.fromEntries(Object.entries(maps).map(([kind, layers]) => [kind, layers.map(plain)]));
  return { maps: listed, logits: logits.map((row) => Array.from(row)), tokens };
});
"""


def test_a_changed_model_computes_what_torch_computes_with_the_same_change(tmp_path: Path) -> None:
    """Another beta, no positions, and words that nothing sees."""
    translator = Translator.load(translator_run(tmp_path / "run"), engine="torch")
    sharp_run = translator_run(tmp_path / "sharp", inverse_temperature=2.5 * 12**-0.5)
    without_positions = Translator.load(tmp_path / "run", engine="torch").model
    without_positions.positions = NoPositions()
    source, target = translator.encode(TEXTS[0]), translator.encode("Where are my keys")
    whole = [True] * (len(source) + 1)
    seen = [place not in (1, 3) for place in range(len(whole))]
    cases: list[tuple[dict[str, Any], EncoderDecoder, list[bool]]] = [
        ({"beta": 2.5}, Translator.load(sharp_run, engine="torch").model, whole),
        ({"positions": False}, without_positions, whole),
        ({"hidden": [1, 3]}, translator.model, seen),
    ]
    given = {"source": source, "target": target, "changes": [change for change, *_ in cases]}
    answers = in_node(tmp_path / "node", CHANGED, given, run=open_for_web(tmp_path / "run", "float32").encode())
    plain = in_node(
        tmp_path / "node", CHANGED, {**given, "changes": [{}]}, run=open_for_web(tmp_path / "run", "float32").encode()
    )
    for answer, (_, model, mask) in zip(answers, cases, strict=True):
        ids, fed, seen_ids = torch.tensor([[*source, EOS_ID]]), torch.tensor([[BOS_ID, *target]]), torch.tensor([mask])
        with torch.no_grad(), record_attention(model.eval()) as maps:
            logits = model(ids, fed, seen_ids)[0]
        np.testing.assert_allclose(answer["logits"], logits, atol=2e-4)
        assert np.abs(np.subtract(answer["logits"], plain[0]["logits"])).max() > 1e-2
        for name, (weights,) in maps.items():
            shape, values = answer["maps"][KINDS[name.stack, name.kind]][name.layer]
            np.testing.assert_allclose(np.reshape(values, shape), weights[0], atol=1e-4)
        with torch.no_grad():
            logits = model(ids, torch.tensor([[BOS_ID, *answer["tokens"][:5]]]), seen_ids)[0]
        logits[:, [PAD_ID, BOS_ID]] = -torch.inf
        assert logits.argmax(-1).tolist()[:5] == answer["tokens"][:5]


CELL = """
const service = { model: new engine.TranslatorModel(engine.readModelFile(bytes("./run.model")), core) };
return Promise.all(input.cells.map((cell) => engine.TASKS.cell(service, { ...input, ...cell })));
"""


@pytest.mark.parametrize("name", ["pre-norm", "rms, swiglu, shared keys, beta"])
def test_the_six_steps_of_a_cell_are_those_of_explain(tmp_path: Path, name: str) -> None:
    run = translator_run(tmp_path / "run", **SETTINGS[name])
    translator = Translator.load(run, engine="torch")
    target = "Where are my keys"
    names = {
        "encoder-self": MapName("encoder", 1, "self"),
        "decoder-self": MapName("decoder", 1, "self"),
        "cross": MapName("decoder", 1, "cross"),
    }
    cells = [{"kind": kind, "layer": 1, "head": 3, "query": 2} for kind in names]
    given = {"ids": translator.encode(TEXTS[0]), "tokens": translator.encode(target), "cells": cells}
    answers = in_node(tmp_path / "node", CELL, given, run=open_for_web(run, "float32").encode())
    for answer, map_name in zip(answers, names.values(), strict=True):
        written = None if map_name.stack == "encoder" else target
        traced = explain_cell(translator, TEXTS[0], map_name, 3, "3", written).trace
        trace, cell = traced.trace, traced.trace.cell
        assert answer["allowed"] == trace.allowed.tolist()
        assert answer["beta"] == pytest.approx(cell.beta)
        seen = trace.allowed
        expected = {
            "query": cell.query, "keys": cell.keys[seen], "values": cell.values[seen], "scores": trace.scores[seen],
            "scaled": trace.scaled[seen], "weights": trace.weights, "total": trace.total,
        }  # fmt: skip
        for part, numbers in expected.items():
            ours = np.array(answer[part])
            ours = ours[seen] if part in ("keys", "values", "scores", "scaled") else ours
            np.testing.assert_allclose(ours, numbers, atol=1e-4, err_msg=part)
        assert answer["sum"] == pytest.approx(np.exp(trace.scaled[seen] - trace.scaled[seen].max()).sum(), rel=1e-4)
        assert answer["difference"] < 1e-5


CLASSES = """
const model = new engine.ClassifierModel(engine.readModelFile(bytes("./run.model")), core);
return input.map((text) => model.probabilities(model.logits(model.read(model.tokenizer.encode(text.trim())), text)));
"""


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize(
    ("around", "model"),
    [
        ({"pooling": "mean"}, {}),
        ({"pooling": "first"}, {"positions": "rotary"}),
        ({"pooling": "max", "beginning": 0.5}, {"embedding_norm": True, "norm_placement": "post"}),
        ({"pooling": "attention", "objective": "multi_label"}, {"activation": "geglu"}),
        ({"objective": "binary"}, {"positions": "learned", "max_positions": 32}),
        ({}, {"positions": "rotary"}),
    ],
)
def test_a_classifier_gives_the_probabilities_of_the_native_engine(
    tmp_path: Path, around: dict[str, Any], model: dict[str, Any], precision: Any
) -> None:
    run = classifier_run(tmp_path / "run", around, **model)
    native = Classifier.load(run, precision=precision)
    expected = [list(answer.probabilities.values()) for answer in native.classify(TEXTS)]
    found = in_node(tmp_path / "node", CLASSES, TEXTS, run=open_for_web(run, precision).encode())
    np.testing.assert_allclose(found, expected, atol=1e-5 if precision == "float32" else 2e-2)


DECISIVE = """
const service = new engine.Service(() => {});
service.model = new engine.ClassifierModel(engine.readModelFile(bytes("./run.model")), core);
const { ids, source, classes } = await engine.TASKS.classify(service, { text: input });
const question = { ids, label: classes[0][2], source };
return { label: classes[0][2], falls: await engine.TASKS.decisive(service, question, () => {}, () => false) };
"""


@pytest.mark.parametrize("objective", ["softmax", "multi_label", "binary"])
def test_a_word_table_gives_the_probabilities_of_the_runtime(tmp_path: Path, objective: str) -> None:
    run = classifier_run(
        tmp_path / "run", {"word_table": True, **({} if objective == "softmax" else {"objective": objective})}
    )
    labels = LABELS[:2] if objective == "binary" else LABELS
    told = [LabelledText((labels[number % len(labels)],), text, 0) for number, text in enumerate(TOLD * 10)]
    fitted = fit_word_table(told, labels, is_multi_label=objective == "multi_label", language="", seed=1)
    RunDirectory.open(run).write_tensors(
        WORD_TABLE, {name: torch.tensor(array) for name, array in fitted.table.arrays().items()}
    )
    texts = [*TOLD, *TEXTS, "ÇOK İYİ!", "a" * 300 + " b", "𐐀𐐁 𐐂", "café cafe\u0301"]
    expected = [list(answer.probabilities.values()) for answer in Classifier.load(run).classify(texts)]
    model = open_for_web(run, "int8").encode()
    found = in_node(tmp_path / "node", CLASSES, texts, run=open_for_web(run, "float32").encode())
    np.testing.assert_allclose(found, expected, atol=1e-5)
    # the table is whole, whatever the precision of the rest
    np.testing.assert_allclose(in_node(tmp_path / "int8", CLASSES, texts, run=model), expected, atol=2e-2)


def test_words_that_decide_by_the_table_are_those_without_which_it_says_less(tmp_path: Path) -> None:
    run = classifier_run(tmp_path / "run", {"word_table": True})
    told = [LabelledText((LABELS[number % 3],), text, 0) for number, text in enumerate(TOLD * 10)]
    table = fit_word_table(told, LABELS, is_multi_label=False, language="", seed=1).table
    directory = RunDirectory.open(run)
    directory.write_tensors(WORD_TABLE, {name: torch.tensor(array) for name, array in table.arrays().items()})
    directory.append_metrics({"step": 1, "accuracy": 9, "temperature": 1.0, "encoder_weight": 0.0})
    found = in_node(tmp_path / "node", DECISIVE, "a bad fine", run=open_for_web(run, "float32").encode())
    shares = [
        list(answer.probabilities.values())[found["label"]]
        for answer in Classifier.load(run).classify(["a bad fine", "bad fine", "a fine", "a bad"])
    ]
    whole, *without = np.log(shares) - np.log1p(-np.array(shares))
    np.testing.assert_allclose(found["falls"], whole - np.array(without), atol=1e-4)


def test_words_have_the_hash_of_python(tmp_path: Path) -> None:
    words = ["", "a", "word", "x" * 127, "x" * 128, "x" * 129, "ğ" * 200]
    found = in_node(
        tmp_path, "return input.map((word) => String(engine.blake2b64(new TextEncoder().encode(word))));", words
    )
    assert found == [str(int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")) for word in words]


WRITE = """
const model = new engine.LanguageModel(engine.readModelFile(bytes("./run.model")), core);
const written = (prompt) => finished(model.write(model.tokenizer.encode(prompt), { most: 40, temperature: 0 }));
return input.prompts.map((prompt) => model.tokenizer.decode(written(prompt)));
"""


@pytest.mark.parametrize("model", [{}, {"positions": "rotary", "num_kv_heads": 2}, {"tie_embeddings": False}])
def test_a_language_model_writes_what_the_native_engine_writes(tmp_path: Path, model: dict[str, Any]) -> None:
    """40 tokens greedily: more than the context of 24, so that the beginning goes out of sight."""
    run = language_model_run(tmp_path / "run", **model)
    native = Generator.load(run)
    options = GenerationOptions(temperature=0, max_tokens=40)
    prompts = ["Two men", "The small cat is sleeping."]
    expected = []
    for prompt in prompts:
        ids, (context, special) = np.array([native.encode(prompt)]), (native.context, native.special_tokens)
        writer = TextWriter(native.engine, ids, context, options, special.never_written)
        tokens = takewhile(lambda token: token != special.end, (writer.step()[0] for _ in range(options.max_tokens)))  # noqa: B023
        expected.append(native.tokenizer.decode(list(tokens)))
    model_file = open_for_web(run, "float32").encode()
    assert in_node(tmp_path / "node", WRITE, {"prompts": prompts}, run=model_file) == expected


PARTS = """
const model = new engine.LanguageModel(engine.readModelFile(bytes("./run.model")), core);
const lens = model.lens(input.ids).map((logits) => Array.from(logits));
const { layers, answer, heads } = await engine.TASKS.parts({ model }, { ids: input.ids });
return { lens, patterns: model.patterns(input.repeated), layers: layers.length, heads: heads.length, answer };
"""


@pytest.mark.parametrize("model", [{}, {"positions": "rotary", "num_kv_heads": 2}])
def test_the_lens_and_the_heads_of_a_language_model_are_those_of_torch(tmp_path: Path, model: dict[str, Any]) -> None:
    run = language_model_run(tmp_path / "run", **model)
    trained = Generator.load(run)
    ids, repeated = trained.tokenizer.encode("Two men are sleeping."), [5, 9, 7, 11, 6] * 2
    model_file = open_for_web(run, "float32").encode()
    found = in_node(tmp_path / "node", PARTS, {"ids": ids, "repeated": repeated}, run=model_file)
    expected = logit_lens(trained.model, torch.tensor(ids))[:, -1].numpy()
    logits = torch.tensor(found["lens"]).log_softmax(-1).numpy()
    np.testing.assert_allclose(logits, expected, atol=1e-4)
    assert found["answer"] == trained.tokenizer.labels([int(expected[-1].argmax())])[0]
    with torch.no_grad(), record_attention(trained.model) as maps:
        trained.model.hidden(torch.tensor([repeated]))
    for layer, heads in enumerate(found["patterns"]):
        weights = maps[MapName("decoder", layer, "self")][0][0].double().numpy()
        scores = detection_scores(weights, repeated)
        np.testing.assert_allclose(heads, np.stack([scores[name] for name in PATTERNS], axis=1), atol=1e-5)
    assert (found["layers"], found["heads"]) == (len(expected), len(expected))
