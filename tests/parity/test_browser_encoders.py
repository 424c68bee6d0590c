"""Imported classifiers, taggers and regressions in the browser engine: the logits and maps of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.browser_engine import in_node
from tests.parity.family_shapes import DEBERTA, USUAL
from tests.parity.weights import shake
from tests.unit.interop.checkpoints import word_piece_tokenizer

from dikkat.interop.importing import Imported, read_foreign, write_run
from dikkat.web.opening import open_for_web
from dikkat_runtime.engine.choose import EngineRequest
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import UsageError
from dikkat_runtime.run.config import read_config
from dikkat_runtime.tasks.opening import native_classifier, open_engine
from dikkat_runtime.tasks.tagger import Tagger

transformers = pytest.importorskip(
    "transformers", reason="needs Hugging Face transformers, which the extra [test] brings"
)
pytestmark = pytest.mark.peer

TEXTS = [
    "Angela Merkel lives in Berlin, isn't it?",
    "a",
    "Two men play chess; nobody watches a€b them 日本語 but an old woman.",
    "Küçük kedi İstanbul'da uyuyor 🙂 e\u0301a",
    "one two " * 90,
]
TYPES = {**USUAL, "type_vocab_size": 2}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", TYPES),
    "distilbert": ("DistilBert", {"dim": 24, "n_heads": 4, "n_layers": 3, "hidden_dim": 40}),
    "electra": ("Electra", {**TYPES, "embedding_size": 16}),
    "mpnet": ("MPNet", {**USUAL, "pad_token_id": 1}),
}
HEADS: dict[str, tuple[str, dict[str, Any]]] = {
    "classifier": ("ForSequenceClassification", {"num_labels": 3}),
    "tagger": ("ForTokenClassification", {"id2label": {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC"}}),
    "regressor": ("ForSequenceClassification", {"num_labels": 1}),
}
PRECISIONS: tuple[PrecisionName, ...] = ("float32", "int8")
COMPUTED = """
const kinds = { classifier: engine.ClassifierModel, tagger: engine.TaggerModel, regressor: engine.RegressorModel };
const characters = (text, at) => Array.from(text.slice(0, at)).length;
return ["float32", "int8"].map((precision) => {
  const file = engine.readModelFile(bytes(`./${precision}.model`));
  const { task } = file.header;
  const model = new kinds[task](file, core);
  const shown = (text) => ({ label, start, end, text: words, probability }) =>
    [label, characters(text, start), characters(text, end), words, probability];
  return input.map((text) => {
    const maps = {};
    const read = model.read(model.tokenizer.encode(text.trim()));
    const isTagger = task === "tagger";
    const logits = isTagger ? Array.from(model.tokenLogits(read, { maps })) : model.logits(read, text, { maps });
    const values = maps["encoder-self"].map((map) => Array.from(map.values));
    return { read, logits, maps: values, spans: isTagger ? model.tag(text).map(shown(text)) : [] };
  });
});
"""


def made(family: str, head: str, folder: Path, settings: tuple[str, dict[str, Any]] | None = None) -> tuple[Any, Path]:
    """A model of transformers with random weights, and the run that is imported from it."""
    inner = word_piece_tokenizer(TEXTS)
    (kind, config), (suffix, more) = settings or FAMILIES[family], HEADS[head]
    torch.manual_seed(3)
    sizes = {**config, "vocab_size": inner.get_vocab_size()}
    theirs = getattr(transformers, kind + suffix)(getattr(transformers, f"{kind}Config")(**sizes, **more))
    shake(theirs)
    theirs.eval().save_pretrained(folder / "theirs")
    inner.save(str(folder / "theirs" / "tokenizer.json"))
    theirs.set_attn_implementation("eager")
    imported = read_foreign(folder / "theirs")
    assert isinstance(imported, Imported)
    write_run(imported, folder / "run", folder / "theirs", "")
    return theirs, folder / "run"


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_an_encoder_computes_what_transformers_computes(tmp_path: Path, family: str, head: str) -> None:
    theirs, run = made(family, head, tmp_path)
    models = {precision: open_for_web(run, precision).encode() for precision in PRECISIONS}
    found = dict(zip(PRECISIONS, in_node(tmp_path / "node", COMPUTED, TEXTS, **models), strict=True))
    for answer in found["float32"]:
        tokens = torch.tensor([answer["read"]])
        expected = theirs(input_ids=tokens, attention_mask=torch.ones_like(tokens), output_attentions=True)
        logits = np.array(answer["logits"]).reshape(expected.logits[0].shape)
        np.testing.assert_allclose(logits, expected.logits[0].numpy(), atol=1e-4)
        for own, wanted in zip(answer["maps"], expected.attentions, strict=True):
            np.testing.assert_allclose(np.array(own).reshape(wanted[0].shape), wanted[0].numpy(), atol=1e-5)
    for precision in PRECISIONS:
        request = EngineRequest(run, read_config(run, head), precision, engine="native", threads=1)
        native = open_engine(request, native_classifier)
        for answer in found[precision]:
            (wanted,) = native.logits([answer["read"]])
            # what int8 rounds depends on the order of sums
            tolerance = 1e-5 if precision == "float32" else 0.1
            np.testing.assert_allclose(np.array(answer["logits"]).reshape(wanted.shape), wanted, atol=tolerance)
    if head == "tagger":
        for answer, spans in zip(found["float32"], Tagger.load(run, engine="native").tag(TEXTS), strict=True):
            wanted = [[one.label, one.start, one.end, one.text] for one in spans]
            assert [span[:4] for span in answer["spans"]] == wanted
            shares = [one.probability for one in spans]
            np.testing.assert_allclose([span[4] for span in answer["spans"]], shares, atol=1e-5)


def test_a_score_that_the_engine_lacks_is_named(tmp_path: Path) -> None:
    _, run = made("deberta", "tagger", tmp_path, ("DebertaV2", DEBERTA))
    with pytest.raises(UsageError, match=r"the browser engine lacks a part of this model: .*disentangled"):
        open_for_web(run)
