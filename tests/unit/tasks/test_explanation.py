"""A cell of a translator: which text it reads, and that its weights are those of the attention maps."""

from __future__ import annotations

from pathlib import Path

import pytest
from numpy.testing import assert_allclose

from dikkat import Translator
from dikkat.nn.recorder import MapName
from dikkat.tasks.inspection.arithmetic import explain_cell
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import DataError, UsageError

SOURCE, TARGET = "my name is ada .", "adım ada ."
ENCODER = MapName("encoder", 0, "self")


@pytest.fixture(scope="module")
def translator(untrained: Path) -> Translator:
    return Translator.load(untrained)


def test_every_cell_has_the_weights_of_its_map(translator: Translator) -> None:
    """The maps come from the recorder; the trace from the captured q and k."""
    for item in translator.attend(SOURCE, TARGET):
        name = MapName(item.stack, item.layer, item.kind)
        target = TARGET if item.stack == "decoder" else None
        query = len(item.query_tokens) - 1
        assert item.head is not None
        explained = explain_cell(translator, SOURCE, name, item.head, str(query + 1), target)
        trace = explained.trace.trace
        assert_allclose(trace.weights, item.weights[query], rtol=0, atol=1e-6)
        assert trace.cell.key_tokens == item.key_tokens
        assert explained.query_tokens == item.query_tokens
        assert explained.trace.difference <= 1e-6
        assert explained.trace.positions_added


def test_the_decoder_reads_the_models_own_translation_unless_given_one(translator: Translator) -> None:
    name = MapName("decoder", 1, "cross")
    own = explain_cell(translator, SOURCE, name, 0, "1")
    assert own.target == next(translator.stream([SOURCE], DecodingOptions())).text
    assert explain_cell(translator, SOURCE, name, 0, "1", "").query_tokens == ("<bos>",)
    assert explain_cell(translator, SOURCE, ENCODER, 0, "1").target is None


def test_a_sentence_of_several_lines_is_told_as_one(translator: Translator) -> None:
    assert explain_cell(translator, " my\n name ", ENCODER, 0, "1").sentence == "my name"


@pytest.mark.parametrize("sentence", ["", " \n"])
def test_an_empty_sentence(translator: Translator, sentence: str) -> None:
    with pytest.raises(DataError, match="nothing to attend to in an empty sentence"):
        explain_cell(translator, sentence, ENCODER, 0, "1")


def test_the_encoder_reads_no_translation(translator: Translator) -> None:
    with pytest.raises(UsageError, match="only the decoder reads a translation: leave out --target, or choose"):
        explain_cell(translator, SOURCE, ENCODER, 0, "1", TARGET)


def test_a_query_that_is_not_there(translator: Translator) -> None:
    with pytest.raises(UsageError, match='there is no query "dog"; choose from 1:'):
        explain_cell(translator, SOURCE, ENCODER, 0, "dog")
