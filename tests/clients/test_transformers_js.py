"""transformers.js, unmodified, translates, classifies and writes on with an exported folder as the run does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.clients.environments import transformers_js_environment
from tests.runtime.runs import classifier_run, language_model_run
from tests.unit.interop.checkpoints import gpt2_folder
from tests.unit.interop.trained_runs import random_run

from dikkat.interop.trained_text_model import TrainedClassifier, TrainedLanguageModel
from dikkat.interop.trained_translator import MAX_OUTPUT_LENGTH, TrainedTranslator
from dikkat.run_directory import RunDirectory
from dikkat_runtime.cli.main import run
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID

pytest.importorskip("onnx", reason="needs onnx, of the extra [test]")

pytestmark = pytest.mark.nightly


def test_transformers_js_writes_the_same_tokens_and_shows_what_they_attend_to(tmp_path: Path) -> None:
    from dikkat.interop.onnx_export.writing import export_onnx

    translator = TrainedTranslator.open(random_run(tmp_path / "run", positions="rotary", num_kv_heads=2))
    export_onnx(translator.run, tmp_path / "out", 4)
    sentences = translator.samples(12)
    job = {"folder": str(tmp_path / "out"), "sentences": sentences, "max_new_tokens": MAX_OUTPUT_LENGTH}
    answer = answered("transformers_js.mjs", job)
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


def test_sentences_of_a_batch_end_each_where_it_ends(tmp_path: Path) -> None:
    from dikkat.interop.onnx_export.writing import export_onnx

    directory = RunDirectory.open(random_run(tmp_path / "run", output_bias=True))
    with directory.alone():
        weights = directory.load_weights()
        weights["output_bias"][EOS_ID] += 2.0
        directory.save_weights({name: torch.nn.Parameter(one) for name, one in weights.items()}, {})
    translator = TrainedTranslator.open(directory.path)
    export_onnx(directory.path, tmp_path / "out", 4)
    sentences = translator.samples(12)
    expected = translator.greedy(sentences)
    assert len({len(ids) for ids in expected}) > 2
    job = {"folder": str(tmp_path / "out"), "sentences": sentences, "max_new_tokens": MAX_OUTPUT_LENGTH}
    answer = answered("transformers_js.mjs", job)
    texts = [text.replace("<unk>", "") for text in translator.tokenizers[-1].decode_batch(expected)]
    assert [*map(letters, answer["texts"])] == [*map(letters, texts)]


def test_its_pipeline_gives_the_probabilities_of_a_classifier(tmp_path: Path) -> None:
    heads: dict[str, dict[str, Any]] = {
        "one": {"pooling": "attention"},
        "many": {"objective": "multi_label"},
    }
    runs = [TrainedClassifier.open(classifier_run(tmp_path / name, head)) for name, head in heads.items()]
    # white space at both ends, more tokens than are read, characters of two bytes
    texts = ["A dog runs.", " Where are my keys?\t", "the small cat " * 9, "Küçük é"]
    for trained, answer in zip(runs, texts_answered(runs, texts, "text-classification", top_k=None), strict=True):
        for text, row, together in zip(texts, answer["rows"], answer["together"], strict=True):
            ids = [BOS_ID, *trained.tokenizer.encode(text.strip())]
            assert row["ids"] == ids
            # of a longer text it reads the beginning, as the readme says
            logits = trained.in_float64().logits(ids[: trained.longest])
            shares = logits.sigmoid() if trained.is_multi_label else logits.softmax(dim=0)
            expected = dict(zip(trained.labels, shares.tolist(), strict=True))
            for found in (row["answer"], together):
                assert {one["label"]: one["score"] for one in found} == pytest.approx(expected, abs=1e-5)
                assert [one["label"] for one in found] == sorted(expected, key=lambda label: -expected[label])


def test_its_pipeline_writes_on_as_a_language_model_does(tmp_path: Path) -> None:
    """Also several prompts at once, of unlike lengths, and with a tokenizer of another program."""
    assert run(["import", str(gpt2_folder(tmp_path / "gpt2")), "--out", str(tmp_path / "imported")]) == 0
    learned: dict[str, Any] = {"positions": "learned", "max_positions": 24, "tie_embeddings": False}
    folders = [
        language_model_run(tmp_path / "rotary", positions="rotary", num_kv_heads=2),
        language_model_run(tmp_path / "learned", **learned),
        language_model_run(tmp_path / "prefix", {"objective": "prefix"}, positions="alibi"),
        tmp_path / "imported",
    ]
    runs = [TrainedLanguageModel.open(folder) for folder in folders]
    texts = ["a dog", "the old man sees", "Yes", "on the beach"]
    answers = texts_answered(runs, texts, "text-generation", max_new_tokens=8)
    written = set[str]()
    for trained, answer in zip(runs, answers, strict=True):
        for text, row, together in zip(texts, answer["rows"], answer["together"], strict=True):
            prompt = trained.tokenizer.encode(text)
            assert row["ids"] == prompt
            (ids,) = trained.greedy([prompt])
            expected = trained.tokenizer.decode([*prompt, *ids[:8]])
            assert row["answer"][0]["generated_text"] == expected
            # of several prompts it writes on behind an end, as the readme says
            (found,) = together
            assert found["generated_text"][: len(expected) if len(ids) < 8 else None] == expected
            written.add(expected)
    assert len(written) > 10


def texts_answered(
    runs: Sequence[TrainedClassifier | TrainedLanguageModel], texts: list[str], task: str, **options: Any
) -> list[Any]:
    """What the pipelines of `task` answer with the exports of `runs`, to each text alone and to all together."""
    from dikkat.interop.onnx_export.writing import export_onnx

    folders = [trained.run.with_name(f"{trained.run.name}-out") for trained in runs]
    for trained, folder in zip(runs, folders, strict=True):
        export_onnx(trained.run, folder, 4)
    jobs = [{"task": task, "folder": str(folder), "texts": texts, "options": options} for folder in folders]
    answers: list[Any] = answered("transformers_js_texts.mjs", jobs)
    return answers


def answered(script: str, job: object) -> Any:
    environment = transformers_js_environment()
    command = ["node", str(environment / script), json.dumps(job)]
    done = subprocess.run(command, cwd=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))
