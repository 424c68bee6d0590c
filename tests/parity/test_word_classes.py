"""Marked words and numbers of imported heads: those of the pipelines of transformers, by every way to ask for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from tests.browser_engine import in_node
from tests.command_lines import run_without_dikkat
from tests.parity.weights import shake
from tests.unit.interop.checkpoints import gpt2_tokenizer
from tokenizers import models, normalizers, pre_tokenizers, processors

from dikkat import load
from dikkat.interop.importing import Imported, read_foreign, write_run
from dikkat.web.opening import open_for_web
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.errors import DataError
from dikkat_runtime.tasks.classifier import Regressor
from dikkat_runtime.tasks.embedder import Embedder
from dikkat_runtime.tasks.tagger import Span, Tagger

transformers = pytest.importorskip(
    "transformers", reason="needs Hugging Face transformers, which the extra [test] brings"
)
pytestmark = pytest.mark.peer

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC"]
LETTERS = "abcdefghijklmnopqrstuvwxyzéıİ"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *".,!'-", *LETTERS, *(f"##{letter}" for letter in LETTERS), "ma", "##rie"]
TEXTS = [
    "marie curie, in paris!",
    "a",
    "  two  spaces,and no-space 東京  ",
    "the end. o'neil's dog - it ran",
    "",
    "\t",
    "naïve café ❤️ é",
]
SHAPE = {
    "hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 40, "pad_token_id": 0,
    "max_position_embeddings": 64,
}  # fmt: skip


def word_pieces() -> tokenizers.Tokenizer:
    """Pieces of words between [CLS] and [SEP], as those of BERT."""
    inner = tokenizers.Tokenizer(
        models.WordPiece({piece: place for place, piece in enumerate(PIECES)}, unk_token="[UNK]")
    )
    inner.add_special_tokens(PIECES[:4])
    inner.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return inner


def saved(folder: Path, head: str, inner: tokenizers.Tokenizer, **changes: Any) -> Any:
    """A BERT with a head, no weight of which is left at its initial value, saved by transformers."""
    torch.manual_seed(4)
    config = transformers.BertConfig(vocab_size=inner.get_vocab_size(), **SHAPE, **changes)
    model = getattr(transformers, f"BertFor{head}")(config)
    shake(model)
    model.eval().save_pretrained(folder)
    inner.save(str(folder / "tokenizer.json"))
    return model


def imported(folder: Path, run: Path) -> Path:
    found = read_foreign(folder)
    assert isinstance(found, Imported)
    write_run(found, run, folder, "")
    return run


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The run of a tagger, and the pipeline over the folder that it was imported from."""
    return tagger_of(tmp_path_factory.mktemp("tagger"))


def tagger_of(folder: Path) -> tuple[Path, Any]:
    """A tagger with random weights in a folder, and the pipeline over what it was imported from."""
    model = saved(folder / "theirs", "TokenClassification", word_pieces(), id2label=dict(enumerate(LABELS)))
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "theirs" / "tokenizer.json"),
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )
    pipeline = transformers.TokenClassificationPipeline(model=model, tokenizer=fast, aggregation_strategy="first")
    return imported(folder / "theirs", folder / "run"), pipeline


def rows(spans: Any) -> list[tuple[str, int, int]]:
    return [(span["entity_group"], span["start"], span["end"]) for span in spans]


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_marked_spans_are_those_of_the_pipeline(engine: Any, tagger: tuple[Path, Any]) -> None:
    run, pipeline = tagger
    model = Tagger.load(run, engine=engine)
    assert model.info.name == engine
    answers = model.tag(TEXTS)
    assert sum(map(len, answers)) > 10, "nothing would be compared"
    for text, spans in zip(TEXTS, answers, strict=True):
        theirs = pipeline(text) if text.strip() else []
        assert [(span.label, span.start, span.end) for span in spans] == rows(theirs)
        assert np.allclose([span.probability for span in spans], [span["score"] for span in theirs], atol=1e-5)
        assert [span.text for span in spans] == [text[span.start : span.end] for span in spans]


def test_neighbours_and_windows_change_no_span(tagger: tuple[Path, Any]) -> None:
    model = Tagger.load(tagger[0])
    alone = [model.tag([text])[0] for text in TEXTS]
    for spans, single in zip(model.stream(TEXTS, batch_size=3, window=4), alone, strict=True):
        assert [(span.label, span.start, span.end) for span in spans] == [
            (span.label, span.start, span.end) for span in single
        ]


def test_a_text_longer_than_the_model_reads_is_marked_to_its_end(tagger: tuple[Path, Any]) -> None:
    model = Tagger.load(tagger[0])
    room, word = SHAPE["max_position_embeddings"] - 2, "marie "
    text = word * 200
    (spans,) = model.tag([text])
    assert spans
    assert spans[-1].end > len(text) - 20 * len(word)
    # the first token that the first part does not read is classed by the second
    encoding = model.tokenizer.encodings([text])[0]  # type: ignore[union-attr]
    part = encoding.ids[room // 2 : room // 2 + room]
    logits = model.engine.logits([model.tokenizer.framed(part)])[0]  # type: ignore[union-attr]
    best = LABELS[int(logits[1 + room - room // 2].argmax())].removeprefix("B-").removeprefix("I-")
    start = encoding.offsets[room][0]
    assert [span.label for span in spans if span.start <= start < span.end] == [best]


def test_bytes_of_one_character_are_one_word(tmp_path: Path) -> None:
    """Tokens of GPT-2's vocabulary are bytes, of which several share a character, and a space belongs to its word."""
    inner = gpt2_tokenizer()
    saved(tmp_path / "theirs", "TokenClassification", inner, num_labels=2, id2label={0: "A", 1: "B"})
    model = Tagger.load(imported(tmp_path / "theirs", tmp_path / "run"))
    text = "👍 dog's, 東京"
    (spans,) = model.tag([text])
    ends = {place for span in spans for place in (span.start, span.end)}
    # words: 👍, dog, ', s, the comma, 東京
    assert ends <= {0, 1, 2, 5, 6, 7, 8, 9, 11}
    assert (spans[0].start, spans[-1].end) == (0, len(text))


def test_the_command_writes_spans_by_line(tagger: tuple[Path, Any], tmp_path: Path, capsys: Any) -> None:
    run, file = tagger[0], tmp_path / "lines.txt"
    file.write_text("\n".join([*TEXTS[:2], "", *TEXTS[3:4]]) + "\n", encoding="utf-8")
    assert run_command(["classify", str(run), str(file), "--json"]) == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = Tagger.load(run).tag([TEXTS[0], TEXTS[1], "", TEXTS[3]])
    assert [one["line"] for one in objects] == [1, 2, 3, 4]
    assert [[Span(**span) for span in one["spans"]] for one in objects] == [list(spans) for spans in expected]
    assert run_command(["classify", str(run), str(file)]) == 0
    lines = capsys.readouterr().out.split("\n")[:-1]
    assert lines[2] == ""
    first = expected[0][0]
    assert lines[0].split("\t")[0] == f"{first.label} {first.start}:{first.end} {first.probability:.4f} {first.text}"


@pytest.mark.parametrize("option", [["--all"], ["--words", "2"], ["--abstain", "0.5"], ["--picture", "x.png"]])
def test_options_of_classifiers_are_refused(option: list[str], tagger: tuple[Path, Any], capsys: Any) -> None:
    assert run_command(["classify", str(tagger[0]), __file__, *option]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert option[0] in line
    assert "a tagger" in line


def test_a_tagger_gives_vectors_and_maps(tagger: tuple[Path, Any]) -> None:
    run = tagger[0]
    native, by_torch = Embedder.load(run, engine="native"), Embedder.load(run, engine="torch")
    vectors = [np.stack(list(one.stream(TEXTS))) for one in (native, by_torch)]
    assert vectors[0].shape == (len(TEXTS), 24)
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-5
    maps = load(run).attend("marie curie")
    assert maps.source_tokens[0] == "[CLS]"


@pytest.mark.parametrize(("outputs", "kind"), [(1, None), (2, "regression")])
def test_a_regression_answers_with_numbers(outputs: int, kind: str | None, tmp_path: Path, capsys: Any) -> None:
    changes = {"num_labels": outputs, "problem_type": kind}
    theirs = saved(tmp_path / "theirs", "SequenceClassification", word_pieces(), **changes)
    run = imported(tmp_path / "theirs", tmp_path / "run")
    model, inner = Regressor.load(run, engine="native"), word_pieces()
    texts = ["marie curie", "", "a dog, it ran!"]
    answers = model.predict(texts)
    with torch.no_grad():
        expected = [theirs(torch.tensor([inner.encode(text).ids])).logits[0].tolist() for text in texts]
    assert answers[1] == {}
    assert np.allclose([list(answers[index].values()) for index in (0, 2)], [expected[0], expected[2]], atol=1e-4)
    assert load(run).predict(texts)[0].keys() == answers[0].keys()
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    assert run_command(["classify", str(run), str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["\t".join(f"{number:.4f}" for number in answers[0].values()), "nan",
                     "\t".join(f"{number:.4f}" for number in answers[2].values())]  # fmt: skip
    assert run_command(["classify", str(run), str(file), "--json"]) == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert objects[1] == {"line": 2, "numbers": {}}
    assert objects[0]["numbers"].keys() == answers[0].keys()


def test_served_answers_are_those_of_the_command(tagger: tuple[Path, Any], tmp_path: Path) -> None:
    asking = pytest.importorskip("tests.runtime.server.asking", reason="needs dikkat-runtime[serve]")
    from dikkat_runtime.server.models import Catalog

    saved(tmp_path / "theirs", "SequenceClassification", word_pieces(), num_labels=1)
    stars = imported(tmp_path / "theirs", tmp_path / "stars")
    spans, texts = Tagger.load(tagger[0]).tag([TEXTS[0], TEXTS[3]]), [TEXTS[0], TEXTS[3]]
    with asking.served(Catalog([f"names={tagger[0]}", f"stars={stars}"])) as server:
        rows = server.post("/models/names", inputs=texts)
        (number,) = server.post("/models/stars", inputs=texts[0])
        assert server.post("/models/names", inputs=texts[0]) == rows[0], "one text has one list, as clients expect"
        assert server.post("/predict", inputs=texts[0], model="stars") == number
        marked = server.post("/predict", inputs=[[text] for text in texts], model="names")
        assert server.post("/predict", inputs=texts[0]) == marked[0], "no classifier is served, so the first of these"
        for option in ("words", "abstain", "raw_scores"):
            assert "names is a tagger" in str(server.post("/predict", 422, inputs="a", model="names", **{option: 1}))
        assert len(server.post("/embed", inputs=texts, model="names")[0]) == SHAPE["hidden_size"]
    expected = [[(one.label, one.text, one.start, one.end) for one in some] for some in spans]
    assert [[(one["entity_group"], one["word"], one["start"], one["end"]) for one in row] for row in rows] == expected
    assert [[(one["label"], one["text"], one["start"], one["end"]) for one in row] for row in marked] == expected
    for row in (rows[0], marked[0]):
        assert np.allclose([one["score"] for one in row], [one.probability for one in spans[0]])
    assert number == [{"label": "LABEL_0", "score": pytest.approx(Regressor.load(stars).predict(texts)[0]["LABEL_0"])}]


IN_PAGE = """
const model = new engine.TaggerModel(engine.readModelFile(bytes("./run.model")), core);
const characters = (text, at) => Array.from(text.slice(0, at)).length;
const shown = (text) => ({ label, start, end, text: words, probability }) =>
  [label, characters(text, start), characters(text, end), words, probability];
return input.map((text) => model.tag(text).map(shown(text)));
"""
FIELDS = ("label", "start", "end", "text", "probability")


def test_every_door_marks_the_same_words(tagger: tuple[Path, Any], tmp_path: Path, capsys: Any) -> None:
    """Both commands, both libraries, both interfaces of the server and the engine of a page, as the pipeline does."""
    asking = pytest.importorskip("tests.runtime.server.asking", reason="needs dikkat-runtime[serve]")
    from dikkat_runtime.server.models import Catalog

    (run, pipeline), texts = tagger, [*TEXTS[:4], TEXTS[6], "👍 marie"]
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(texts) + "\n", encoding="utf-8")
    of = lambda one: tuple(getattr(one, name) for name in FIELDS)  # noqa: E731
    doors = {
        "library": [[of(span) for span in spans] for spans in load(run).tag(texts)],
        "runtime": [[of(span) for span in spans] for spans in Tagger.load(run).tag(texts)],
    }
    for name, command in (("command", run_command), ("runtime's command", run_without_dikkat)):
        assert command(["classify", str(run), str(file), "--json"]) == 0
        lines = [json.loads(line)["spans"] for line in capsys.readouterr().out.splitlines()]
        doors[name] = [[tuple(span[field] for field in FIELDS) for span in spans] for spans in lines]
    with asking.served(Catalog([f"names={run}"])) as server:
        for name, path, inputs, label, words in (
            ("Hugging Face", "/models/names", texts, "entity_group", "word"),
            ("TEI", "/predict", [[text] for text in texts], "label", "text"),
        ):
            answered, fields = server.post(path, inputs=inputs), (label, "start", "end", words, "score")
            doors[name] = [[tuple(span[field] for field in fields) for span in row] for row in answered]
    doors["page"] = in_node(tmp_path / "node", IN_PAGE, texts, run=open_for_web(run, "float32").encode())
    expected = [pipeline(text) for text in texts]
    assert sum(map(len, expected)) > 10, "nothing would be compared"
    for name, answers in doors.items():
        for text, spans, theirs in zip(texts, answers, expected, strict=True):
            assert [tuple(span[:3]) for span in spans] == rows(theirs), name
            assert [span[3] for span in spans] == [text[span[1] : span[2]] for span in spans], name
            assert np.allclose([span[4] for span in spans], [span["score"] for span in theirs], atol=1e-4), name


def test_the_page_colours_the_marked_words_and_shows_the_numbers(tagger: tuple[Path, Any], tmp_path: Path) -> None:
    """Offsets count characters: a picture before the first name moves it by one, not by two."""
    pytest.importorskip("playwright", reason="needs playwright, of the extra [test]")
    from playwright.sync_api import expect
    from tests.runtime.server.process import started
    from tests.system.chromium import chromium

    saved(tmp_path / "theirs", "SequenceClassification", word_pieces(), num_labels=1)
    stars = imported(tmp_path / "theirs", tmp_path / "stars")
    text = "👍 marie curie, in paris!"
    (spans,) = Tagger.load(tagger[0], "float32", engine="native").tag([text])
    assert {span.start for span in spans} & set(range(2, 9))
    arguments = [f"names={tagger[0]}", f"stars={stars}", "--precision", "float32"]
    with started(*arguments) as (_, address), chromium() as browser:
        page, wrong = browser.new_page(), list[str]()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{address}/")
        page.get_by_label("Text to classify").fill(text)
        expect(page.locator(".spans mark")).to_have_count(len(spans))
        shown = [page.locator(f".spans mark > {part}").all_text_contents() for part in ("bdi", "small")]
        assert list(zip(*shown, strict=True)) == [(span.text, span.label) for span in spans]
        colours = page.evaluate(
            "[...document.querySelectorAll('mark')].map((node) => getComputedStyle(node).background)"
        )
        assert len(set(colours)) == len({span.label for span in spans}), "one colour a label"
        page.evaluate("document.querySelectorAll('.spans small').forEach((node) => node.remove())")
        assert page.locator(".spans").text_content() == text, "the text itself is whole"
        page.get_by_label("Model").select_option("stars")
        (number,) = Regressor.load(stars, "float32", engine="native").predict([text])
        expect(page.locator(".numbers b")).to_have_text(f"{number['LABEL_0']:.4f}")
        assert wrong == []


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"num_labels": 5}, "num_labels is 5, but id2label names 6"),
        ({"id2label": {"0": "O", "1": "B-PER"}, "num_labels": None}, "its shape is 6 x 24, not 2 x 24"),
        ({"id2label": None, "num_labels": None}, "its shape is 6 x 24, not 2 x 24"),
        ({"id2label": {"0": "O", "2": "X"}}, "id2label must name the classes 0, 1, 2"),
        ({"id2label": ["O"] * 6}, "id2label must name the classes 0, 1, 2"),
        ({"id2label": None, "num_labels": 10**12}, "num_labels must be a number of classes"),
        ({"id2label": None, "num_labels": 2.5}, "num_labels must be a number of classes"),
        ({"id2label": 5}, "id2label must name the classes 0, 1, 2"),
        ({"id2label": {}}, "num_labels must be a number of classes"),
    ],
)
def test_a_config_that_lies_about_its_classes_is_refused(
    changes: dict[str, Any], part: str, tagger: tuple[Path, Any], tmp_path: Path, capsys: Any
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        (folder / name).symlink_to(tagger[0].parent / "theirs" / name)
    settings = json.loads((tagger[0].parent / "theirs" / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**settings, **changes}), encoding="utf-8")
    with pytest.raises(DataError, match=part):
        read_foreign(folder)
    assert run_command(["import", str(folder), "--out", str(tmp_path / "run")]) == 65
    assert not (tmp_path / "run").exists()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_classes_without_names_are_numbered(tagger: tuple[Path, Any], tmp_path: Path) -> None:
    source = tagger[0].parent / "theirs"
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    settings = json.loads((source / "config.json").read_text(encoding="utf-8"))
    settings |= {"id2label": None, "num_labels": 6}
    (tmp_path / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    found = read_foreign(tmp_path)
    assert isinstance(found, Imported)
    assert found.labels == tuple(f"LABEL_{number}" for number in range(6))
