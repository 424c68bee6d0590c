"""The story of typed words in every form: three steps, with the user's own numbers."""

from __future__ import annotations

import json
import re

import pytest

from dikkat.explain.explanation import Explanation, as_html, as_json, as_table
from dikkat.explain.three_steps import render_three_steps
from dikkat.explain.trace import Trace, trace_cell
from dikkat.explain.word_vectors import WordVectors, known_vectors, typed_vectors
from dikkat_runtime.localization import spoken_in

BUILT_IN = "0.7842 1.3569 1.2487 · 0.2291 0.4063 0.3646 · 0.3990 0.3854 0.8610"


def told(words: WordVectors, language: str = "en", beta: float = 1.0, full: bool = False) -> tuple[Explanation, Trace]:
    trace = trace_cell(words.cell(beta=beta))
    return render_three_steps(words, trace, full=full).mapped(spoken_in(language)), trace


@pytest.mark.seed("B23")
@pytest.mark.parametrize("language", ["en", "tr"])
def test_exactly_three_steps(language: str) -> None:
    explanation, _ = told(known_vectors("Hello shiny sun!"), language)
    step = {"en": "Step", "tr": "Adım"}[language]
    titles = {"en": ["Scores", "Weights", "Context"], "tr": ["Puanlar", "Ağırlıklar", "Bağlam"]}[language]
    assert [item.heading for item in explanation.steps] == [f"{step} {n}. {t}" for n, t in enumerate(titles, start=1)]
    written = as_table(explanation)
    assert re.findall(rf"^{step} \d", written, re.MULTILINE) == [f"{step} {n}" for n in (1, 2, 3)]
    for numbers in BUILT_IN.split(" · "):
        assert numbers in written
    assert re.sub("[a-zçğıöşü]+ ", "", explanation.ending[0].split(": ")[1], flags=re.IGNORECASE) == BUILT_IN


@pytest.mark.seed("B3", "B4", "B5")
@pytest.mark.parametrize("language", ["en", "tr"])
def test_every_number_is_written_out(language: str) -> None:
    explanation, _ = told(known_vectors("Hello shiny sun!"), language)
    for written in (as_table(explanation), "".join(as_html(explanation))):
        for part in (
            "0.53·0.34 + 0.34·0.22 + 0.98·0.54",
            "= 0.1802 + 0.0748 + 0.5292",
            "2.1907 / 9.5606",
            "0.4063 · [0.53, 0.34, 0.98]",
            "[0.2153, 0.1381, 0.3981]",
            "[0.3990, 0.3854, 0.8610]",
        ):
            assert part in written


@pytest.mark.seed("F23")
def test_the_story_says_what_is_left_out() -> None:
    explanation, _ = told(known_vectors("Hello shiny sun!"))
    assert "“!” has no vector and is left out." in explanation.introduction
    turkish, _ = told(known_vectors("Hello shiny sun!"), "tr")
    assert "“!” için vektör yok; hesaba katılmadı." in turkish.introduction
    silent, _ = told(known_vectors("Hello shiny sun"))
    assert not any("left out" in line for line in silent.introduction)


@pytest.mark.seed("B6")
def test_the_scaled_variant_shows_its_beta() -> None:
    explanation, _ = told(known_vectors("Hello shiny sun!"), beta=3**-0.5)
    assert explanation.steps[1].text[-1] == "Before that, each score is multiplied by β = 0.5774."
    table = explanation.steps[1].table
    assert table is not None
    assert [column.heading for column in table.columns][1] == "score × β"
    assert [row[1] for row in table.rows] == ["0.4528", "0.7834", "0.7209"]


def test_wide_vectors_are_cut_unless_all_is_asked_for() -> None:
    words = typed_vectors("a b", [" ".join(["0.25"] * 12), " ".join(["-0.5"] * 12)])
    short, long = as_table(told(words)[0]), as_table(told(words, full=True)[0])
    assert "…" in short
    assert "--full shows them all" in short
    assert "…" not in long
    assert long.count("0.25·0.25") == 12


def test_large_scores_are_told_with_the_number_subtracted() -> None:
    explanation, trace = told(typed_vectors("a b", ["30 40", "29 40"]))
    assert trace.shift == 2500.0
    assert "the largest, 2500.0000, is first subtracted" in explanation.steps[1].text[-1]
    assert "exponential of (score − 2500.0000)" in "".join(as_html(explanation))


def test_a_narrow_terminal_loses_no_digit() -> None:
    explanation, _ = told(known_vectors("Hello shiny sun!"))
    narrow = as_table(explanation, width=44)
    assert max(map(len, narrow.split("\n"))) <= 44
    digits = re.sub(r"\D", "", narrow)
    assert len(digits) == len(re.sub(r"\D", "", as_table(explanation, width=200)))
    assert "…" not in narrow


def test_html_reads_no_markup_out_of_words() -> None:
    words = typed_vectors("a|b <i>x</i> *c* [d](e) _f_", ["1 2"] * 5)
    written = "".join(as_html(told(words)[0]))
    assert written.count("<table>") == 4
    assert "&lt;i&gt;x&lt;/i" in written
    assert "<i>" not in written
    assert all(row.count("<td") in (2, 3, 4, 5) for row in written.split("<tr>") if "<td" in row)


@pytest.mark.parametrize("language", ["en", "tr"])
def test_json_has_every_digit(language: str) -> None:
    explanation, trace = told(known_vectors("Hello shiny sun!"), language)
    loaded = json.loads(as_json(explanation, trace))
    assert loaded["title"] == explanation.title
    assert [step["heading"] for step in loaded["steps"]] == [step.heading for step in explanation.steps]
    assert loaded["query"] == {"number": 2, "token": "shiny", "vector": [0.53, 0.34, 0.98]}
    assert loaded["keys"] == ["Hello", "shiny", "sun"]
    assert loaded["weights"] == trace.weights.tolist()
    assert loaded["total"] == trace.total.tolist()
    assert sum(loaded["exponentials"]) == pytest.approx(loaded["exponential_sum"], rel=1e-15)
    assert loaded["allowed"] == [True, True, True]
