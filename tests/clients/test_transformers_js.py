"""transformers.js, unmodified, translates with an exported folder as the run does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.clients.environments import transformers_js_environment
from tests.unit.interop.trained_runs import random_run

from dikkat.interop.trained_translator import LONGEST_OUTPUT, TrainedTranslator

pytest.importorskip("onnx", reason="needs onnx, of the extra [test]")

pytestmark = pytest.mark.nightly


def test_transformers_js_writes_the_same_tokens_and_shows_what_they_attend_to(tmp_path: Path) -> None:
    from dikkat.interop.onnx_export.writing import export_onnx

    translator = TrainedTranslator.open(random_run(tmp_path / "run", positions="rotary", num_kv_heads=2))
    export_onnx(translator.run, tmp_path / "out", 4)
    sentences = translator.samples(12)
    environment = transformers_js_environment()
    job = {"folder": str(tmp_path / "out"), "sentences": sentences, "max_new_tokens": LONGEST_OUTPUT}
    command = ["node", str(environment / "transformers_js.mjs"), json.dumps(job)]
    done = subprocess.run(command, cwd=environment, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    model, tokenizer = translator.model, translator.tokenizers[0]
    expected = translator.greedy(sentences)
    assert len(set(map(tuple, expected))) > 5
    for row, sentence, ids in zip(answer["rows"], sentences, expected, strict=True):
        assert row["source"] == [*tokenizer.encode(sentence), tokenizer.eos_id]
        assert [token for token in row["ids"] if token not in (tokenizer.bos_id, tokenizer.eos_id)] == ids
        assert len(row["sums"]) == row["steps"] * model.decoder_layers
        np.testing.assert_allclose(row["sums"], model.num_heads, atol=1e-4)
    # its decoder leaves out special entries, and characters that nobody sees
    texts = [text.replace("<unk>", "") for text in translator.tokenizers[-1].decode_batch(expected)]
    assert [*map(letters, answer["texts"])] == [*map(letters, texts)]


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))
