"""The story of a model's cell: six steps, in both languages, for every kind of attention."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from dikkat.explain.explanation import Explanation, as_html, as_json, as_table
from dikkat.explain.six_steps import render_six_steps
from dikkat.explain.trace import Cell, ModelTrace, trace_cell
from dikkat_runtime.localization import spoken_in

KEYS = ("▁the", "▁cat", "<eos>")


def cell_of_a_model(stack: str = "encoder", kind: str = "self", layer: int = 1, width: int = 12) -> ModelTrace:
    """Scores 4, 3 and -30 before scaling by 1/2; in a decoder's self-attention the last key is masked."""
    query = np.zeros(width)
    query[0] = 1.0
    keys = np.zeros((3, width))
    keys[:, 0] = 4.0, 3.0, -30.0
    allowed = np.array([True, True, (stack, kind) != ("decoder", "self")])
    values = np.arange(3.0 * width).reshape(3, width)
    trace = trace_cell(Cell(2, "▁cat", KEYS, query, keys, values, 0.5, allowed))
    return ModelTrace(trace, stack, layer, 1, kind, 3, np.arange(36.0), trace.total + 1e-7, True, (), True)


def told(found: ModelTrace, language: str = "en", full: bool = False) -> Explanation:
    target = "le chat" if found.stack == "decoder" else None
    explanation = render_six_steps(found, "the cat", target, ("<bos>", "▁cat"), full=full)
    return explanation.mapped(spoken_in(language))


ATTENTIONS = [("encoder", "self"), ("decoder", "self"), ("decoder", "cross")]


@pytest.mark.seed("D18")
@pytest.mark.parametrize("language", ["en", "tr"])
@pytest.mark.parametrize(("stack", "kind"), ATTENTIONS)
def test_six_steps_in_order(stack: str, kind: str, language: str) -> None:
    explanation = told(cell_of_a_model(stack, kind), language)
    step = {"en": "Step", "tr": "Adım"}[language]
    assert [item.heading.split(".")[0] for item in explanation.steps] == [f"{step} {n}" for n in range(1, 7)]
    assert "{" not in as_table(explanation) + "".join(as_html(explanation))
    assert ("le chat" in " ".join(explanation.introduction)) == (stack == "decoder")


def test_a_row_of_cross_attention_tells_what_it_is_about_to_write() -> None:
    line = "Having read “▁cat”, the decoder is about to write “<eos>”."
    assert line in told(cell_of_a_model("decoder", "cross")).introduction
    assert line not in told(cell_of_a_model("decoder", "self")).introduction


@pytest.mark.seed("D18")
def test_the_words_of_the_turkish_story() -> None:
    names = {(stack, kind): told(cell_of_a_model(stack, kind), "tr").title for stack, kind in ATTENTIONS}
    assert names == {
        ("encoder", "self"): "Kodlayıcının özdikkati, katman 2, kafa 2: altı adımda “▁cat”",
        ("decoder", "self"): "Kodçözücünün maskeli özdikkati, katman 2, kafa 2: altı adımda “▁cat”",
        ("decoder", "cross"): "Kodçözücünün çapraz dikkati, katman 2, kafa 2: altı adımda “▁cat”",
    }
    first = told(cell_of_a_model(layer=0), "tr").steps[0]
    assert first.text[1] == "Bu ilk katmanda x, belirtecin gömmesinden ve konumsal kodlamasından oluşur."


@pytest.mark.seed("D7", "D8", "D9", "D10")
def test_the_numbers_of_the_steps() -> None:
    """With β = 1/2: exp(2) + exp(1.5) + exp(-15) = 11.8707; weights .6225, .3775 and 2.58e-08, which drowns."""
    written = as_table(told(cell_of_a_model()), width=120)
    for line in (
        r"▁cat +1·3 \+ 0·0 \+ 0·0 \+ … \(\+9\) +3\.0000",
        r"<eos> +-30\.0000 · 0\.5000 +-15\.0000",
        r"▁the +2\.0000 +7\.3891 +7\.3891 / 11\.8707 +0\.6225",
        r"<eos> +-15\.0000 +3\.06e-07 +3\.06e-07 / 11\.8707 +2\.58e-08",
        r"sum +11\.8707 +1\.0000",
        r"▁cat +0\.3775 +\[12\.0000, 13\.0000, 14\.0000, …\] +\[4\.5305, 4\.9080, 5\.2856, …\]",
        r"Drowned here, with a weight below 0\.001: <eos>\.",
        r"z = \[4\.5305, 5\.5305, 6\.5305, …\]",
        r"differs from z by at most 1\.0e-07\.",
    ):
        assert re.search(line, written), line


@pytest.mark.seed("D9")
def test_only_a_weight_below_a_thousandth_drowns() -> None:
    result = cell_of_a_model()
    trace = replace(result.trace, weights=np.array([0.9980, 0.0011, 0.0009]))
    assert told(replace(result, trace=trace)).steps[4].after == ("Drowned here, with a weight below 0.001: <eos>.",)


def test_masked_keys_are_shown_as_masked() -> None:
    masked, free = told(cell_of_a_model("decoder", "self")), told(cell_of_a_model())
    assert "The mask then hides 1 of 3 tokens from “▁cat”; their weight is 0." in masked.steps[2].text
    tables = [explanation.steps[2].table for explanation in (masked, free)]
    assert tables[0] is not None
    assert tables[1] is not None
    assert tables[0].rows[2][-1] == "masked"
    assert len(tables[1].columns) == len(tables[0].columns) - 1
    softmax = masked.steps[3].table
    assert softmax is not None
    assert softmax.rows[2] == ("<eos>", "masked", "0.0000", "0.0000 / 11.8707", "0.0000")
    assert masked.steps[4].after == ("No token has drowned here: every weight is at least 0.001.",)


def test_a_query_that_sees_nothing() -> None:
    result = cell_of_a_model()
    blind = trace_cell(replace(result.trace.cell, allowed=np.zeros(3, dtype=bool)))
    explanation = told(replace(result, trace=blind))
    assert explanation.steps[3].text == ("Every token is masked: all weights are 0, and so is the result.",)
    assert "hides 3 of 3 tokens" in explanation.steps[2].text[-1]


@pytest.mark.parametrize(
    ("settings", "origin"),
    [
        ({"layer": 0}, "In this first layer, x is made from the embedding of the token and its positional encoding."),
        ({"layer": 1}, "x comes from layer 1, right below this one."),
        ({"layer": 0, "stack": "decoder", "kind": "cross"}, "x comes from the masked self-attention of the same layer"),
    ],
)
def test_where_the_input_comes_from(settings: dict[str, object], origin: str) -> None:
    result = cell_of_a_model(**settings)  # type: ignore[arg-type]
    assert told(result).steps[0].text[1].startswith(origin)


def test_without_positions_and_without_bias() -> None:
    result = replace(cell_of_a_model(layer=0), positions_added=False, has_bias=False)
    text = told(result).steps[0].text
    assert text[1] == "In this first layer, x is made from the embedding of the token."
    assert text[3].startswith("q = x·WQ = [")


@pytest.mark.seed("D12", "F31")
@pytest.mark.parametrize(
    ("stack", "kind", "onward"),
    [
        ("encoder", "self", "feed-forward network"),
        ("decoder", "self", "cross-attention"),
        ("decoder", "cross", "feed-forward network"),
    ],
)
def test_what_happens_to_the_sum(stack: str, kind: str, onward: str) -> None:
    (ending,) = told(cell_of_a_model(stack, kind)).ending
    assert ending.startswith("All 3 heads do this, each with its own matrices. Their z, side by side (36 numbers)")
    assert "times the matrix WO (36 × 36)" in ending
    assert ending.endswith(f"to the {onward}.")


def retold(language: str = "en", turns: tuple[str, ...] = (), **changes: object) -> Explanation:
    """The story when the cell computes in another way than the paper's."""
    result = cell_of_a_model("decoder", "self")
    trace = trace_cell(replace(result.trace.cell, **changes))  # type: ignore[arg-type]
    return told(replace(result, trace=trace, turns=turns), language)


def cells(story: Explanation, step: int) -> list[tuple[str, ...]]:
    table = story.steps[step - 1].table
    assert table is not None
    return [tuple(column.heading for column in table.columns), *table.rows]


def test_a_position_bias_has_its_own_columns() -> None:
    explanation = retold(bias=np.array([-1.0, 0.0, -1.0]))
    assert "Then the position of each token relative to “▁cat” adds its share." in explanation.steps[2].text
    assert cells(explanation, 3)[0] == ("token", "score", "score × β", "position", "with position", "after the mask")
    assert cells(explanation, 3)[1] == ("▁the", "4.0000 · 0.5000", "2.0000", "-1.0000", "1.0000", "1.0000")
    assert cells(explanation, 4)[0][1] == "with position"
    assert cells(explanation, 4)[2] == ("▁cat", "1.5000", "4.4817", "4.4817 / 7.2000", "0.6225")


def test_the_usual_scale_is_a_division_and_any_other_a_product() -> None:
    usual, other = retold(beta=12**-0.5), retold(beta=1.0)
    assert usual.steps[2].text[0].startswith("Each score is divided by √12 = 3.4641")
    assert cells(usual, 3)[1][1] == "4.0000 / 3.4641"
    assert other.steps[2].text[0] == "Each score is multiplied by β = 1.0000, the inverse temperature."
    assert cells(other, 3)[1][1] == "4.0000 · 1.0000"


def test_a_hard_choice_takes_no_exponential() -> None:
    explanation = retold(hard=True)
    assert explanation.steps[3].heading == "Step 4. Choice"
    assert cells(explanation, 4) == [
        ("token", "score × β", "weight"), ("▁the", "2.0000", "1.0000"), ("▁cat", "1.5000", "0.0000"),
        ("<eos>", "masked", "0.0000"),
    ]  # fmt: skip


def test_the_additive_score_is_written_with_tanh() -> None:
    explanation = retold(score_vector=np.full(12, -0.5), beta=1.0)
    assert "with the additive score" in explanation.steps[1].text[0]
    assert cells(explanation, 2)[0][1] == "v·tanh(q + k), term by term"
    first = "(-0.5)·tanh(1 + 4) + (-0.5)·tanh(0 + 0) + (-0.5)·tanh(0 + 0) + … (+9)"
    assert cells(explanation, 2)[1] == ("▁the", first, f"{-0.5 * np.tanh(5):.4f}")


def test_what_q_goes_through_is_told() -> None:
    english, turkish = (retold(language, turns=("rotary", "bilinear")).steps[0].text for language in ("en", "tr"))
    assert "rotated by the position" in english[3]
    assert "bilinear score" in english[4]
    assert english[5].startswith("q = [")
    assert "döndürülür" in turkish[3]


def test_all_numbers_on_request() -> None:
    result = cell_of_a_model()
    assert "--full shows them all" in as_table(told(result))
    whole = as_table(told(result, full=True), width=400)
    assert "…" not in whole
    assert whole.count("1·4 + " + " + ".join(["0·0"] * 11)) == 1


def test_json_of_a_cell() -> None:
    result = cell_of_a_model("decoder", "self")
    loaded = json.loads(as_json(told(result, "tr"), result))
    index = {"stack": "decoder", "layer": 2, "head": 2, "kind": "self"}
    assert {key: loaded["cell"][key] for key in index} == index
    assert loaded["cell"]["largest_difference"] == pytest.approx(1e-7, rel=1e-6)
    assert loaded["allowed"] == [True, True, False]
    assert loaded["scores"] == [4.0, 3.0, -30.0]
    assert loaded["total"] == result.trace.total.tolist()
    assert len(loaded["steps"]) == 6
