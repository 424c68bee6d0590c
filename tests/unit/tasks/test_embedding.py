"""Vectors of every kind of model, against its own forward pass on one line at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.interop.checkpoints import bert_folder, gpt2_folder, shaken
from torch import Tensor, nn

from dikkat.config import EncoderConfig, TokenizerConfig, build_config
from dikkat.interop.importing import read_foreign, write_run
from dikkat.models.factory import Factory
from dikkat.run_directory import RunDirectory
from dikkat.tasks.embedding import write_vectors
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.embedder import Embedder, Vector, tsv_line
from dikkat_runtime.tasks.generator import Generator as LanguageModel
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.tokenizer import Tokenizer

LINES = ["the dog runs", "a cat sees the dog and the cat .", "", "dog", "the dog runs", "  \t", "a " * 40]
"""The last is longer than any of the models reads."""
SIZES = {"model_dim": 24, "num_heads": 3, "feed_forward_dim": 40, "encoder_layers": 2, "decoder_layers": 2}


def run_of(path: Path, task: str, **settings: Any) -> RunDirectory:
    """A run with a tokenizer and settings, as training leaves it, but for the weights."""
    run = RunDirectory.create(path)
    tokenizer = Tokenizer.train(LINES, TokenizerConfig(vocab_size=310))
    tokenizer.save(run.tokenizer)
    model = {**SIZES, "vocab_size": tokenizer.vocab_size, **settings.pop("model", {})}
    config = build_config({"model": model, **settings})
    run.write_config({**config.model_dump(), "task": task, "labels": ["x", "y", "z"]})
    return run


def save(run: RunDirectory, model: nn.Module) -> Path:
    run.save_weights(shaken(model), {})
    return run.path


def factory(run: RunDirectory) -> Factory:
    return Factory(build_config({"model": run.read_config()["model"]}).model)


Reference = Callable[[str], tuple[list[int], Tensor, Tensor]]
"""Of one line: its ids, the hidden states (S, D) and the vector of the whole (D,)."""


def translator(folder: Path) -> tuple[Path, Reference]:
    run = run_of(folder / "run", "translator", data={"max_length": 12})
    path = save(run, factory(run).encoder_decoder())
    own = Translator.load(path)

    def reference(line: str) -> tuple[list[int], Tensor, Tensor]:
        ids = [*own.encode(line)[:11], EOS_ID]
        hidden = own.model.encode(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))[0]
        return ids, hidden, hidden.mean(dim=0)

    return path, reference


def classifier(folder: Path) -> tuple[Path, Reference]:
    head_config = {"pooling": "attention", "max_tokens": 8, "beginning": 0.5}
    run = run_of(folder / "run", "classifier", classifier=head_config)
    config = build_config({"classifier": head_config})
    path = save(run, factory(run).classifier(config.classifier, 3))
    run.append_metrics({"step": 1, "accuracy": 0.5, "macro_f1": 0.5, "valid_loss": 1.0, "temperature": 1.0})
    own = Classifier.load(path)

    def reference(line: str) -> tuple[list[int], Tensor, Tensor]:
        ids = own.encode([line])[0]
        ids = [BOS_ID, *(ids if len(ids) <= 8 else [*ids[:4], *ids[-4:]])]
        hidden = own.model.encode(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))
        query = own.model.get_parameter("pooling.query")
        weights = (hidden[0] @ query / 24**0.5).softmax(dim=0)
        return ids, hidden[0], weights @ hidden[0]

    return path, reference


def language_model(objective: str) -> Callable[[Path], tuple[Path, Reference]]:
    def make(folder: Path) -> tuple[Path, Reference]:
        run = run_of(folder / "run", "lm", language_model={"context": 10, "objective": objective})
        return of_language_model(save(run, factory(run).language_model(objective)), [BOS_ID], 9)  # type: ignore[arg-type]

    return make


def gpt2(folder: Path) -> tuple[Path, Reference]:
    result = read_foreign(gpt2_folder(folder / "theirs"))
    write_run(result, folder / "run", folder, "")
    return of_language_model(folder / "run", [], 32)


def of_language_model(path: Path, before: list[int], most: int) -> tuple[Path, Reference]:
    own = LanguageModel.load(path)

    def reference(line: str) -> tuple[list[int], Tensor, Tensor]:
        ids = [*before, *own.tokenizer.encode(line)[:most]]
        length = len(ids)
        seen = torch.ones(length, length, dtype=torch.bool)
        mask = (seen.tril() if own.model.objective == "causal" else seen)[None, None]
        hidden = own.model.hidden(torch.tensor([ids]), mask)[0]
        return ids, hidden, hidden.mean(dim=0)

    return path, reference


def encoder(**around: Any) -> Callable[[Path], tuple[Path, Reference]]:
    def make(folder: Path) -> tuple[Path, Reference]:
        result = read_foreign(bert_folder(folder / "theirs"))
        path = folder / "run"
        write_run(result, path, folder, "")
        settings = json.loads((path / "config.json").read_text())
        settings["encoder"] |= around
        (path / "config.json").write_text(json.dumps(settings))
        (path / "manifest.json").unlink()
        model = Factory(result.model).sentence_encoder(EncoderConfig(pooler=True)).eval()
        model.load_state_dict(dict(result.weights))
        words = {
            word: 4 + index for index, word in enumerate(["the", "dog", "cat", "sees", "runs", "a", "b", "and", "."])
        }

        def reference(line: str) -> tuple[list[int], Tensor, Tensor]:
            ids = [2, *[words[word] for word in line.split()][: around.get("max_length", 16) - 2], 3]
            hidden = model(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))
            pooling = around.get("pooling", "mean")
            pooled = {"mean": hidden.mean(dim=1), "first": hidden[:, 0], "pooler": model.summary(hidden)}[pooling][0]
            return ids, hidden[0], pooled / pooled.norm() if around.get("normalize") else pooled

        return path, reference

    return make


KINDS: dict[str, Callable[[Path], tuple[Path, Reference]]] = {
    "translator": translator,
    "classifier": classifier,
    "causal lm": language_model("causal"),
    "masked lm": language_model("masked"),
    "prefix lm": language_model("prefix"),
    "GPT-2": gpt2,
    "BERT": encoder(),
    "BERT, first": encoder(pooling="first", normalize=True),
    "BERT, pooler": encoder(pooling="pooler", max_length=7),
}


@pytest.mark.seed("A20")
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())
@torch.no_grad()
def test_vectors_of_lines_and_tokens_are_those_of_the_model_alone(
    make: Callable[[Path], tuple[Path, Reference]], tmp_path: Path
) -> None:
    path, reference = make(tmp_path)
    embedder = Embedder.load(path)
    result = list(embedder.sentences(LINES))
    assert [(vector.line, vector.text) for vector in result] == list(enumerate(LINES, start=1))
    expected_tokens: list[tuple[int, str]] = []
    states: list[Tensor] = []
    for vector in result:
        assert vector.values.shape == (24,)
        assert vector.values.dtype == np.float32
        if not vector.text.strip():
            assert not vector.values.any()
            continue
        ids, hidden, pooled = reference(vector.text.strip())
        torch.testing.assert_close(torch.from_numpy(vector.values), pooled, rtol=0, atol=1e-5)
        expected_tokens += [(vector.line, piece) for piece in embedder.tokenizer.labels(ids)]
        states.append(hidden)
    assert [vector.left_out > 0 for vector in result[2:]] == [False] * 2 + [result[0].left_out > 0, False, True]
    tokens = list(embedder.tokens(LINES))
    assert [(vector.line, vector.text) for vector in tokens] == expected_tokens
    values = torch.from_numpy(np.stack([vector.values for vector in tokens]))
    torch.testing.assert_close(values, torch.cat(states), rtol=0, atol=1e-5)


def test_a_window_of_one_answers_each_line_before_it_reads_the_next(untrained: Path) -> None:
    read: list[str] = []

    def lines() -> Any:
        for line in LINES:
            read.append(line)
            yield line

    vectors = Embedder.load(untrained).sentences(lines(), window=1)
    for number in range(1, 4):
        assert next(vectors).line == number
        assert len(read) == number


def test_the_vector_of_a_line_does_not_depend_on_its_neighbours(untrained: Path) -> None:
    embedder = Embedder.load(untrained)
    together = list(embedder.sentences(LINES * 20))
    for vector, line in zip(together[: len(LINES)], LINES, strict=True):
        (alone,) = embedder.sentences([line])
        np.testing.assert_allclose(vector.values, alone.values, rtol=0, atol=1e-5)


def test_a_task_without_vectors_and_bad_settings_are_refused(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", "painter")
    with pytest.raises(UsageError, match='run: holds a "painter", for which this version has no vectors'):
        Embedder.load(run.path)
    path, _ = encoder(pooling="lowest")(tmp_path / "second")
    with pytest.raises(DataError, match=r"config\.json: encoder\.pooling: input should be 'mean', 'first',"):
        Embedder.load(path, engine="torch")
    with pytest.raises(UsageError, match=r"this runtime does not compute encoder.pooling = lowest; upgrade it"):
        Embedder.load(path)
    path, _ = encoder(pooler=False, pooling="pooler")(tmp_path / "third")
    with pytest.raises(DataError, match=r'pooling = "pooler" needs a pooler'):
        Embedder.load(path, engine="torch")
    with pytest.raises(UsageError, match=r"this runtime does not compute encoder.pooling = pooler; upgrade it"):
        Embedder.load(path)
    path, _ = encoder(pooler=False)(tmp_path / "fourth")
    with pytest.raises(DataError, match=r"does not fit \S+config\.json: no parameter is called pooler\.dense\.bias"):
        Embedder.load(path)


VECTORS = [
    Vector(1, "a\tdog", np.array([0.1, -2.5e-8], np.float32)),
    Vector(3, 'say "ı"', np.array([1 / 3, 0.0], np.float32)),
]


def test_every_format_gives_the_numbers_back_exactly(tmp_path: Path) -> None:
    expected = np.stack([vector.values for vector in VECTORS])
    for of_tokens in (False, True):
        for kind in ("npz", "tsv", "jsonl"):
            write_vectors(tmp_path / f"v.{kind}", VECTORS, of_tokens)
        with np.load(tmp_path / "v.npz", allow_pickle=False) as arrays:
            assert np.array_equal(arrays["vectors"], expected)
            assert arrays["lines"].tolist() == [1, 3]
            assert ("pieces" in arrays) == of_tokens
            if of_tokens:
                assert arrays["pieces"].tolist() == ["a\tdog", 'say "ı"']
        rows = (tmp_path / "v.tsv").read_text(encoding="utf-8").split("\n")[:-1]
        assert rows == [tsv_line(vector, of_tokens) for vector in VECTORS]
        *before, numbers = rows[0].split("\t")
        assert before == (["1", "a dog"] if of_tokens else ["a dog"])
        assert np.array_equal(np.array(numbers.split(" "), dtype=np.float32), expected[0])
        read = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
        assert [row["line"] for row in read] == [1, 3]
        assert [row["piece" if of_tokens else "text"] for row in read] == ["a\tdog", 'say "ı"']
        assert np.array_equal(np.array([row["vector"] for row in read], dtype=np.float32), expected)


def test_no_vectors_at_all_make_a_readable_file(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.npz", [], of_tokens=True)
    with np.load(tmp_path / "v.npz") as arrays:
        assert len(arrays["vectors"]) == len(arrays["lines"]) == 0


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"v\.csv: is written as \.npz or \.tsv or \.jsonl, not \.csv"):
        write_vectors(tmp_path / "v.csv", VECTORS, of_tokens=False)
