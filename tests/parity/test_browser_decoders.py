"""The browser engine computes imported decoders as transformers and the native engine do: logits, maps, texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.browser_engine import in_node
from tests.parity.family_shapes import DECODERS
from tests.parity.test_huggingface_families import saved

from dikkat.interop.importing import Imported, read_foreign, write_run
from dikkat.web.opening import open_for_web
from dikkat_runtime.engine.native_texts import NativeLanguageModel
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.engine.stack import KeyValueCache
from dikkat_runtime.engine.text_writer import TextWriter
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.generator import Generator

transformers = pytest.importorskip(
    "transformers", reason="needs Hugging Face transformers, which the extra [test] brings"
)
pytestmark = pytest.mark.peer

REFUSED = {
    **{name: "model.positions = alibi" for name in DECODERS if name.startswith("bloom")},
    "gemma2": "model.attention_softcap = 50.0",
    "gemma2-caps": "model.attention_softcap = 2.0",
}
BY_DAY = ("llama", "gpt2", "qwen2", "pythia", "gemma")
"""The others are computed at night."""
WRITTEN_BY_DAY = ("llama", "pythia", "gpt2")
"""In each precision; of the others logits are compared by day."""
COMPUTED = [name for name in DECODERS if name not in REFUSED]
NAMES, WRITTEN = (
    [pytest.param(name, marks=() if name in by_day else pytest.mark.nightly) for name in COMPUTED]
    for by_day in (BY_DAY, WRITTEN_BY_DAY)
)
PROMPTS = ["Two men", "The small cat is sleeping.", "Once upon a time", "1, 2, 3", "İstanbul", "a b c d e f g"]
READ = """
return [core, engine.SCALAR].map((products) => {
  const model = new engine.LanguageModel(engine.readModelFile(bytes("./run.model")), products);
  const [maps, cache] = [{}, model.decoder.newCache()];
  // most is read at once, the rest token by token
  const logits = [Array.from(model.next(input.ids.slice(0, -2), cache, { maps }))];
  for (const id of input.ids.slice(-2)) logits.push(Array.from(model.next([id], cache)));
  return { logits, maps: maps["decoder-self"].map(({ shape, values }) => ({ shape, values: Array.from(values) })) };
});
"""
NEXT = """
return [core, engine.SCALAR].map((products) => {
  const model = new engine.LanguageModel(engine.readModelFile(bytes("./run.model")), products);
  return input.rows.map((ids) => Array.from(model.next(ids, model.decoder.newCache())));
});
"""
WRITE = """
const model = new engine.LanguageModel(engine.readModelFile(bytes("./run.model")), core);
const options = { most: 30, temperature: 0 };
return input.prompts.map((prompt) => finished(model.write(model.tokenizer.encode(prompt), options)));
"""


def imported_run(name: str, folder: Path) -> tuple[Any, Path]:
    """A small model of transformers with random weights, and the run that it is imported to."""
    kind, settings = DECODERS[name]
    config = "Gemma3TextConfig" if kind == "Gemma3" else f"{kind}Config"
    model = getattr(transformers, f"{kind}LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM")
    theirs = saved(model(getattr(transformers, config)(**settings)), folder / "theirs")
    found = read_foreign(folder / "theirs")
    assert isinstance(found, Imported)
    write_run(found, folder / "run", folder / "theirs", "")
    return theirs, folder / "run"


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_an_imported_decoder_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    theirs, run = imported_run(name, tmp_path)
    ids = np.random.default_rng(5).integers(2, 250, 31)
    expected = theirs(input_ids=torch.from_numpy(ids)[None], output_attentions=True)
    model_file = open_for_web(run, "float32").encode()
    for found in in_node(tmp_path / "node", READ, {"ids": ids.tolist()}, run=model_file):
        np.testing.assert_allclose(found["logits"], expected.logits[0, -3:].numpy(), atol=2e-4)
        for layer, attention in zip(found["maps"], expected.attentions, strict=True):
            weights = np.reshape(layer["values"], layer["shape"])
            np.testing.assert_allclose(weights, attention[0, :, :-2, :-2].numpy(), atol=1e-5)


@pytest.mark.parametrize("name", WRITTEN)
def test_an_imported_decoder_writes_what_the_native_engine_writes(name: str, tmp_path: Path) -> None:
    _, run = imported_run(name, tmp_path)
    options = GenerationOptions(temperature=0, max_tokens=30)
    for precision in cast(tuple[PrecisionName, ...], ("float32", "int8", "int4")):
        native, expected = Generator.load(run, precision), []
        for prompt in PROMPTS:
            writer = TextWriter(native.engine, np.array([native.encode(prompt)]), native.context, options)
            written, end = [int(writer.step()[0]) for _ in range(options.max_tokens)], native.special_tokens.end
            expected.append(written[: written.index(end)] if end in written else written)
        model_file = open_for_web(run, precision).encode()
        assert in_node(tmp_path / precision, WRITE, {"prompts": PROMPTS}, run=model_file) == expected, precision


@pytest.mark.parametrize("precision", ["int8", "int4"])
@pytest.mark.parametrize("name", NAMES)
def test_few_bits_round_as_in_the_native_engine(name: str, precision: PrecisionName, tmp_path: Path) -> None:
    """The smallest difference would move the rounding of an activation, which changes the second digit of a logit."""
    _, run = imported_run(name, tmp_path)
    native = cast(NativeLanguageModel, Generator.load(run, precision).engine)
    rows = [Generator.load(run).encode(prompt) for prompt in PROMPTS]
    expected = np.stack([native.next_logits(np.array([ids]), KeyValueCache())[0] for ids in rows])
    for found in in_node(tmp_path / "node", NEXT, {"rows": rows}, run=open_for_web(run, precision).encode()):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_a_decoder_with_a_part_that_the_engine_lacks_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    _, run = imported_run(name, tmp_path)
    with pytest.raises(UsageError) as refused:
        open_for_web(run)
    assert (
        str(refused.value)
        == f"{run}: the browser engine lacks a part of this model: it does not compute {REFUSED[name]}"
    )
