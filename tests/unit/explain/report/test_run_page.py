"""The report of a finished run: all of it there, in both languages, for hostile text and for thin runs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.unit.explain.report.inspection import Seen, seen
from tests.unit.models.small import config

from dikkat.explain.drawing.outline import outline_of_config
from dikkat.explain.report.facts import Example, RunFacts
from dikkat.explain.report.run_page import report_page, translator_curves
from dikkat_runtime.errors import UsageError
from dikkat_runtime.localization import spoken_in

LANGUAGES = ("en", "tr")
THREE = ("en", "tr", "tr")
HOSTILE = '</bdi><script>alert(1)</script>" srcdoc="x'
MEASURED: list[tuple[float | None, float, float]] = [(4.0, 3.5, 20.0), (2.0, 2.125, 41.0), (None, 2.0, 40.0)]
ROWS = [
    {
        "step": 10 * n,
        "epoch": float(n),
        "bleu": 5.0 * n,
        "tokens": 6000 * n,
        "seconds": 30.0 * n,
        "train_loss": train_loss,
        "valid_loss": valid_loss,
        "chrf": chrf,
    }
    for n, (train_loss, valid_loss, chrf) in enumerate(MEASURED, start=1)
]


@cache
def facts() -> RunFacts:
    """Return what is known of a run; not at import, since every process collects this file and few draw an outline."""
    return RunFacts(
        title="Translator en → tr",
        name="my run",
        summary=[("chrF", "45.7"), ("BLEU", "12.3")],
        scored_on="On the test part, 54 sentences that training never looked at:",
        score_lines=("BLEU  12.34  signature:1", "chrF  45.67  signature:2"),
        rate="3.0 passes over the data",
        metrics=ROWS,
        curves=translator_curves(spoken_in("en")),
        files=("a.en", "a.tr"),
        data=[("pairs read", "1,234"), ("left out: duplicate", "77"), ("pairs to train on", "1,000")],
        faults=[("of 54 held-out sources also occur in training", "6")],
        examined="Looked at: 1,000 training pairs.",
        lengths={"source": np.array([3, 5, 9, 400]), "target": np.array([2, 4, 8, 300])},
        longest=Example(
            "The longest training pair", [("source", "a very long source"), ("target", HOSTILE)], LANGUAGES
        ),
        worst_note="The held-out sentences with the lowest chrF.",
        worst=[
            Example("chrF 3.2", [("source", HOSTILE), ("model", "çeviri"), ("human", "reference")], THREE),
            Example("chrF 9.9", [("source", "שלום"), ("model", "x"), ("human", "y")], THREE),
        ],
        maps=(),
        browser=f'<!doctype html><p title="a">1 &lt; 2 &amp; {HOSTILE}</p>',
        model=(),
        outline=outline_of_config(config(), "my run"),
        card="# Translator en → tr\n\n    dikkat train translator a.en a.tr\n",
        settings='{"seed": 1}\n',
    )


def shown(run: RunFacts | None = None, language: str = "en") -> Seen:
    return seen(report_page(run or facts(), language))


def test_everything_is_told() -> None:
    text = shown().text
    for message in (
        "Translator en → tr", "my run", "45.7", "12.3", "3.0 passes", "1,234", "left out: duplicate", "77",
        "a.en, a.tr", "1,000", "signature:1", "signature:2", "54 sentences that training never", "Looked at: 1,000",
        "a very long source", "chrF 3.2", "çeviri", "reference", "chrF 9.9", "שלום", "dikkat train translator a.en",
        '{"seed": 1}', "of 54 held-out sources also occur in training", "mask: causal (no future)",
        f"{outline_of_config(config(), 'my run').parameters:,} parameters",
    ):  # fmt: skip
        assert message in text, message
    assert HOSTILE in text


def test_the_browser_of_attention_is_in_a_frame_that_reaches_nothing() -> None:
    (frame,) = shown().named("iframe")
    assert frame["srcdoc"] == facts().browser
    assert frame["sandbox"] == "allow-scripts"
    assert frame.keys() == {"title", "sandbox", "srcdoc"}


def test_texts_carry_their_language() -> None:
    languages = [item.get("lang") for item in shown().named("bdi")]
    assert languages == ["en", "tr", "en", "tr", "tr", "en", "tr", "tr"]


def test_curves_leave_out_what_was_not_finite() -> None:
    curves = [item for item in shown().named("circle") if item["class"] in ("f0", "f1")]
    assert len(curves) == 3 * 4 - 1


def test_a_run_of_one_validation_and_one_text() -> None:
    thin = replace(facts(), metrics=ROWS[:1], worst=(), longest=None, lengths={"training": np.array([1])}, examined="")
    result = shown(thin)
    assert "There is none." in result.text
    assert "Lengths of what is trained on" not in result.text


@pytest.mark.parametrize("length", [1, 7, 24, 25, 100, 4000])
def test_the_bars_hold_every_pair(length: int) -> None:
    lengths = np.concatenate([np.arange(1, length + 1), [length, 5 * length]])
    result = shown(replace(facts(), lengths={"source": lengths, "target": lengths[:1]}))
    bars = [text for text in result.texts if text.startswith("source ") and ": " in text]
    assert sum(int(text.rpartition(": ")[2].replace(",", "")) for text in bars) == length + 2
    assert len(bars) <= 30


def test_turkish_is_turkish() -> None:
    result = shown(language="tr")
    assert result.named("html") == [{"lang": "tr"}]
    assert "En kötü yanlışlar" in result.text
    assert "Worst mistakes" not in result.text


def test_a_language_without_a_catalog_is_refused() -> None:
    with pytest.raises(UsageError, match='there are no messages in "de"; choose from en, tr'):
        report_page(facts(), "de")
