"""Whole folders of sentence-transformers: pooling, layers, prompts; vectors are those of the library itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.parity.test_word_classes import SHAPE, imported, word_pieces
from tests.parity.weights import shake

from dikkat.interop.importing import read_foreign
from dikkat.interop.runtime_export import export_runtime
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.errors import DataError, MissingInputError, UsageError
from dikkat_runtime.tasks.embedder import Embedder

transformers = pytest.importorskip("transformers", reason="needs transformers, which the extra [test] brings")
library = pytest.importorskip("sentence_transformers", reason="needs sentence-transformers: pip install '.[test]'")
pytestmark = pytest.mark.peer

LINES = ["marie curie, in paris!", "a", "", "the end. o'neil's dog - it ran " * 9]
WAYS = ["cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
PROMPTS = {"query": "the query: ", "document": "", "passage": "in paris "}


def folder_of(
    path: Path, *layers: tuple[int, Any, bool], way: str = "mean", normalize: bool = False, **more: Any
) -> Any:
    """A model of the library with such layers, saved to `path`."""
    import sentence_transformers.sentence_transformer.modules as models
    from sentence_transformers import SentenceTransformer

    torch.manual_seed(2)
    backbone = transformers.BertModel(transformers.BertConfig(vocab_size=word_pieces().get_vocab_size(), **SHAPE))
    shake(backbone)
    backbone.eval().save_pretrained(path / "backbone")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=word_pieces(), unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]",
        model_max_length=64,
    ).save_pretrained(path / "backbone")  # fmt: skip
    modules: list[Any] = [models.Transformer(str(path / "backbone"), max_seq_length=40)]
    width = SHAPE["hidden_size"]
    modules.append(models.Pooling(width, pooling_mode=way))
    for outputs, activation, bias in layers:
        modules.append(models.Dense(width, outputs, bias=bias, activation_function=activation))
        width = outputs
    if normalize:
        modules.append(models.Normalize())
    whole = SentenceTransformer(modules=modules, device="cpu", **more)
    for module in list(whole)[2:]:
        shake(module)
    whole.save(str(path / "whole"))
    return whole


def assert_same(theirs: Any, path: Path, **asked: Any) -> None:
    run = imported(path / "whole", path / "run")
    expected = theirs.encode([line for line in LINES if line], **({"prompt_name": asked["prompt"]} if asked else {}))
    for engine in ("native", "torch"):
        own = Embedder.load(run, engine=engine)
        vectors = np.stack(list(own.stream(LINES, **asked)))
        assert vectors.shape == (len(LINES), own.width)
        assert not vectors[2].any(), "an empty line has no vector"
        assert np.abs(vectors[[0, 1, 3]] - expected).max() <= 1e-4, engine


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_every_pooling_is_theirs(way: str, normalize: bool, tmp_path: Path) -> None:
    theirs = folder_of(tmp_path, way=way, normalize=normalize)
    assert_same(theirs, tmp_path)


@pytest.mark.parametrize("way", WAYS)
def test_the_names_of_older_files_mean_the_same(way: str, tmp_path: Path) -> None:
    theirs = folder_of(tmp_path, way=way)
    older = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "weightedmean": "weightedmean_tokens"}
    named = {f"pooling_mode_{older.get(one, one)}": one == way for one in WAYS}
    path = next((tmp_path / "whole").glob("*_Pooling")) / "config.json"
    path.write_text(json.dumps({"word_embedding_dimension": 24, **named}), encoding="utf-8")
    assert_same(theirs, tmp_path)


@pytest.mark.parametrize(
    "layers",
    [
        [(10, torch.nn.Tanh(), True)],
        [(30, torch.nn.Identity(), False), (12, torch.nn.GELU(), True)],
        [(24, torch.nn.ReLU(), True)],
    ],
)
@pytest.mark.parametrize("normalize", [False, True])
def test_layers_on_the_vector_are_theirs(layers: Any, normalize: bool, tmp_path: Path) -> None:
    theirs = folder_of(tmp_path, *layers, normalize=normalize)
    assert_same(theirs, tmp_path)
    assert Embedder.load(tmp_path / "run").width == layers[-1][0]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_is_put_before_each_line(prompt: str, tmp_path: Path, capsys: Any) -> None:
    theirs = folder_of(tmp_path, prompts=PROMPTS)
    assert_same(theirs, tmp_path, prompt=prompt)
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    assert run_command(["embed", str(tmp_path / "run"), str(file), "--prompt", prompt]) == 0
    printed = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [text for text, _ in printed] == LINES
    vectors = np.array([numbers.split() for _, numbers in printed], np.float32)
    own = Embedder.load(tmp_path / "run")
    assert np.array_equal(vectors, np.stack(list(own.stream(LINES, prompt=prompt))))
    plain = np.stack(list(own.stream(LINES)))
    assert np.array_equal(vectors, plain) == (PROMPTS[prompt] == "")


def test_the_usual_prompt_is_put_where_none_is_asked_for(tmp_path: Path) -> None:
    theirs = folder_of(tmp_path, prompts=PROMPTS, default_prompt_name="passage")
    assert_same(theirs, tmp_path)


def test_a_prompt_that_is_not_there_is_refused(tmp_path: Path, capsys: Any) -> None:
    folder_of(tmp_path, prompts=PROMPTS)
    run = imported(tmp_path / "whole", tmp_path / "run")
    with pytest.raises(UsageError, match="there is no prompt 'qury'; this model has"):
        next(Embedder.load(run).stream(LINES, prompt="qury"))
    for more in (["--prompt", "qury"], ["--prompt", "query", "--of", "cross"]):
        assert run_command(["embed", str(run), __file__, *more]) == 2
        output, complaint = capsys.readouterr()
        assert not output
        assert complaint.splitlines()[-1].startswith("dikkat: ")


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_runtime_folder_gives_the_vectors_of_the_run(precision: Any, tmp_path: Path) -> None:
    folder_of(tmp_path, (10, torch.nn.Tanh(), True), normalize=True, prompts=PROMPTS)
    run = imported(tmp_path / "whole", tmp_path / "run")
    export_runtime(run, tmp_path / "exported", precision, with_corrections=False)
    ours, exported = [
        np.stack(list(Embedder.load(path, precision, engine="native").stream(LINES, prompt="query")))
        for path in (run, tmp_path / "exported")
    ]
    assert np.array_equal(ours, exported)


def test_served_vectors_take_the_prompt_of_a_request(tmp_path: Path) -> None:
    asking = pytest.importorskip("tests.runtime.server.asking", reason="needs dikkat-runtime[serve]")
    from dikkat_runtime.server.models import Catalog

    theirs = folder_of(tmp_path, (10, torch.nn.Tanh(), True), normalize=True, prompts=PROMPTS)
    run = imported(tmp_path / "whole", tmp_path / "run")
    expected = theirs.encode(LINES[:2], prompt_name="query")
    with asking.served(Catalog([f"vectors={run}"])) as server:
        vectors = server.post("/embed", inputs=LINES[:2], prompt_name="query")
        assert np.abs(np.array(vectors) - expected).max() <= 1e-4
        path = "/models/vectors/pipeline/feature-extraction"
        again = server.post(path, inputs=LINES[:2], parameters={"prompt_name": "query"})
        assert np.abs(np.array(again) - expected).max() <= 1e-4
        plain = server.post("/embed", inputs=LINES[:2])
        assert np.abs(np.array(plain) - theirs.encode(LINES[:2])).max() <= 1e-4
        assert "must be one of: document, passage, query" in str(
            server.post("/embed", 422, inputs="a", prompt_name="qury")
        )


def _changed(name: str, **changes: Any) -> Callable[[Path], None]:
    def change(whole: Path) -> None:
        path = next(whole.glob(name))
        settings = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**settings, **changes}), encoding="utf-8")

    return change


def _swapped(whole: Path) -> None:
    path = whole / "modules.json"
    modules = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps([*modules[:2], modules[3], modules[2]]), encoding="utf-8")


def _pickled(whole: Path) -> None:
    (path,) = whole.glob("*_Dense/model.safetensors")
    path.rename(path.with_name("pytorch_model.bin"))


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        (_changed("*_Dense/config.json", out_features=9), "linear.weight does not fit .* is 10 x 24, not 9 x 24"),
        (_changed("*_Dense/config.json", bias=False), "this model has no weight linear.bias"),
        (_changed("*_Dense/config.json", out_features=-1), "there is no model of these sizes"),
        (_changed("*_Dense/config.json", out_features="ten"), "out_features must be a number"),
        (_changed("*_Dense/config.json", activation_function="os.system"), "activation_function must be one of"),
        (_changed("*_Dense/config.json", use_residual=True), "use_residual = True is not supported"),
        (_changed("*_Pooling/config.json", pooling_mode=["mean", "cls"]), "pooling must be one of mean, cls"),
        (_changed("*_Pooling/config.json", pooling_mode="best"), "pooling must be one of mean, cls"),
        (_changed("*_Pooling/config.json", include_prompt=False), "include_prompt = False is not supported"),
        (_changed("config_sentence_transformers.json", prompts=["query"]), "prompts must be texts by their names"),
        (_changed("config_sentence_transformers.json", default_prompt_name="x"), "default_prompt_name is 'x'"),
        (_swapped, "in the order Transformer, Pooling, Dense, Normalize, not"),
        (_pickled, "is a pickle"),
    ],
)
def test_what_does_not_fit_is_refused(damage: Callable[[Path], None], part: str, tmp_path: Path, capsys: Any) -> None:
    folder_of(tmp_path, (10, torch.nn.Tanh(), True), normalize=True, prompts=PROMPTS)
    damage(tmp_path / "whole")
    with pytest.raises((DataError, MissingInputError), match=part):
        read_foreign(tmp_path / "whole")
    capsys.readouterr()  # what the library says while it saves
    assert run_command(["import", str(tmp_path / "whole"), "--out", str(tmp_path / "run")]) in (65, 66)
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "run").exists()
