"""A word that a translation lacks is put where the attention and the probabilities of the model want it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.runtime.runs import SENTENCES, translator_run

from dikkat_runtime.engine.forced_attention import forced_scores
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.tasks.demand_keeping import DemandKeeper, Insert, PieceTranslator, answered_together
from dikkat_runtime.tasks.insertion import ORDER_WEIGHT, Incomplete, MissingWord, WordInserter
from dikkat_runtime.tasks.translations import PieceRequest, Translation
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.tasks.translator import Translator as WithModel
from dikkat_runtime.text.demanded import Demanded


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(translator_run(tmp_path_factory.mktemp("runs") / "run"), threads=1)


def incomplete(translator: Translator, source: str, target: str, *words: str) -> Incomplete:
    spans = [((source.index(word), source.index(word) + len(word)),) for word in words]
    missing = tuple(MissingWord(word, own) for word, own in zip(words, spans, strict=True))
    return Incomplete(source, tuple(translator.tokenizer.encode(source, translator.language)), target, missing)


@pytest.mark.parametrize("source", ["Where is Tom?", "Tom runs on the beach.", "A dog sees Tom in the park."])
def test_the_gap_is_that_of_the_highest_score_in_double_precision(translator: Translator, source: str) -> None:
    target = "A dog runs on the beach."
    item = incomplete(translator, source, target, "Tom")
    (completed,) = translator.inserter([item])
    tokenizer, language = translator.tokenizer, translator.language
    ids, memory = tokenizer.encode(target), translator.engine.encode([item.source_ids])
    spans, source_spans = tokenizer.spans(target)[1], tokenizer.spans(source, language)[1]
    start, end = item.words[0].spans[0]
    own = [number for number, (first, last) in enumerate(source_spans) if first < end and last > start]
    name = tokenizer.encode("Tom")[0]
    candidates: dict[str, float] = {}
    for offset in (0, 2, 6, 11, 14, 18, len(target) - 1):
        token = next(number for number, (_, last) in enumerate(spans) if last > offset)
        # the log-probability of the name after the tokens before the gap, by a pass of its own
        (read,) = forced_scores(translator.engine, memory, [[*ids[:token], name]])
        order = 0.0
        for number, looks in enumerate(forced_scores(translator.engine, memory, [ids])[0].attention[:-1]):
            before, behind = looks[: own[0]].sum(), looks[own[-1] + 1 : -1].sum()
            order += (before - behind) * (1 if number < token else -1)
        text = f"{target[:offset]}Tom {target[offset:]}" if offset < len(target) - 1 else "A dog runs on the beach Tom."
        candidates[text] = float(read.log_probabilities[token]) + ORDER_WEIGHT * order
    assert completed == max(candidates, key=lambda text: candidates[text])


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("Tom and Anna run.", "koşar.", ("Tom", "Anna")),
        ("Write to Tom", "(yaz)", ("Tom",)),
        ("5 km on the beach", "sahilde", ("5 km",)),
        ("Tom is here.", "", ("Tom",)),
        ("Tom is here.", "他在公园。", ("Tom",)),
        ("Tom?", "Où est-il ?", ("Tom",)),
    ],
)
def test_each_word_is_a_word_of_its_own_and_nothing_else_changes(
    translator: Translator, source: str, target: str, words: tuple[str, ...]
) -> None:
    (completed,) = translator.inserter([incomplete(translator, source, target, *words)])
    rest = completed
    for word in words:
        before, after = rest.split(word)
        assert not before[-1:].isalnum()
        assert not after[:1].isalnum()
        rest = before + after
    assert rest.replace(" ", "") == target.replace(" ", "")


def test_neighbours_in_the_batch_change_nothing(translator: Translator) -> None:
    items = [
        incomplete(translator, f"{source} Tom", target, "Tom")
        for source in SENTENCES
        for target in ("A dog runs on the beach.", "Evet.", "The small cat is sleeping")
    ]
    together = translator.inserter(items)
    assert together == [translator.inserter([item])[0] for item in items]


class Recorder:
    """Decodes every request to the same text, and remembers what was asked."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.bound: list[bool] = []

    def decode(
        self, requests: Sequence[PieceRequest], numbers: Sequence[int], options: DecodingOptions, bound: bool
    ) -> list[Translation]:
        self.bound.append(bound)
        best, *others = (Translation(text, 0.0, tuple(text.split())) for text in self.texts)
        return [Translation(best.text, best.score, best.tokens, tuple(others))] * len(requests)


def keeper(insert: Insert) -> DemandKeeper:
    """One that finds no position for a term, and holds no text for one that lost words."""
    return DemandKeeper(insert, lambda items: [None] * len(items), lambda items: [False] * len(items), False)


def insert(items: Sequence[Incomplete]) -> list[str]:
    return [" ".join([item.target, *(word.text for word in item.words)]) for item in items]


TOM = Demanded(("Tom",), 1, "placeholder", "", ((0, 3),))
DISTANCE = Demanded(("5 km", "5km"), 1, "number", "5 km", ((4, 8),))
CAT = Demanded(("Katze",), 1, "term", "cat", ((9, 12),))


@pytest.mark.parametrize(
    ("texts", "demands", "expected", "searches_again"),
    [
        (("a dog",), (TOM,), "a dog Tom", False),
        (("a dog", "dogs Tom"), (TOM,), "a dog Tom", False),
        (("a dog",), (TOM, DISTANCE), "a dog Tom 5 km", False),
        # what is there twice, or in part, or is a term, is no matter of one more word
        (("Tom Tom",), (TOM,), "Tom Tom", True),
        (("a 5 dog",), (DISTANCE,), "a 5 dog", True),
        (("a dog",), (TOM, CAT), "a dog Tom", True),
        (("a dog Tom",), (TOM,), "a dog Tom", False),
    ],
)
def test_only_what_is_absent_is_inserted(
    texts: tuple[str, ...], demands: tuple[Demanded, ...], expected: str, searches_again: bool
) -> None:
    recorder = Recorder(*texts)
    pieces = PieceTranslator(keeper(insert), BeamOptions(), retry=False)
    request = PieceRequest("Tom 5 km cat", (5, 6), demands=demands)
    ((result,),) = answered_together([pieces([request], [0])], lambda asked: [recorder.decode(*asked[0])])
    assert result.translation.text == expected
    assert recorder.bound == [False, True] if searches_again else [False]
    assert bool(result.unmet) == searches_again


def test_what_is_drawn_is_completed_too() -> None:
    recorder = Recorder("a dog")
    pieces = PieceTranslator(keeper(insert), SamplingOptions(), retry=False)
    request = PieceRequest("Tom", (5,), demands=(TOM,))
    ((result,),) = answered_together([pieces([request], [0])], lambda asked: [recorder.decode(*asked[0])])
    assert result.translation.text == "a dog Tom"
    assert recorder.bound == [False]


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_placeholders_of_many_lines_need_no_second_search(tmp_path: Path, precision: str) -> None:
    run = translator_run(tmp_path / "run")
    translator = Translator.load(run, precision=precision, threads=1)  # type: ignore[arg-type]
    asked: list[bool] = []
    decoded = translator.decoded

    def counting(*arguments: object, **named: object) -> list[Translation]:
        asked.append(bool(arguments[3]))
        return decoded(*arguments, **named)  # type: ignore[arg-type]

    translator.decoded = counting  # type: ignore[method-assign]
    lines = [f"{source.rstrip('.')} {{name}}." for source in SENTENCES if source] * 3
    options = BeamOptions(beam_size=4, n_best=3, max_length_factor=0.5)
    for translation in translator.translate(lines, options):
        for each in (translation, *translation.alternatives):
            assert each.text.count("{name}") == 1
    assert asked == [False] * len(asked)


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_a_text_that_reaches_beyond_the_learned_positions_is_completed_before_they_end(
    tmp_path: Path, engine: str
) -> None:
    run = translator_run(tmp_path / "run", positions="learned", max_positions=20)
    translator = Translator.load(run, threads=1) if engine == "native" else WithModel.load(run, engine="torch")
    target = " ".join(["a dog"] * 40)
    ends = [end for _, end in translator.tokenizer.spans(target, translator.target_language)[1]]
    (completed,) = translator.inserter([incomplete(translator, "Tom runs.", target, "Tom")])
    assert completed.replace("Tom ", "") == target
    assert completed.index("Tom") <= ends[19]
    # as it comes: what was written has more tokens when it is cut anew
    recorder = Recorder(target)
    pieces = PieceTranslator(keeper(translator.inserter), BeamOptions(), retry=False)
    request = PieceRequest("Tom runs.", tuple(translator.encode("Tom runs.")), demands=(TOM,))
    ((result,),) = answered_together([pieces([request], [0])], lambda asked: [recorder.decode(*asked[0])])
    assert (result.translation.text, result.unmet, recorder.bound) == (completed, (), [False])


def test_an_inserter_asks_for_nothing_where_nothing_is_missing(translator: Translator) -> None:
    assert WordInserter(translator.engine, (translator.tokenizer,) * 2, ("en", "tr"), translator.constraints)([]) == []
