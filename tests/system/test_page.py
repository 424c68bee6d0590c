"""The page in a real browser: every control works, nothing is loaded, hostile text stays text."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from playwright.sync_api import Browser
from tests.system.chromium import Watched, chromium, watched
from tests.system.sample_page import KINDS, SOURCE, TARGET, sample_page, sample_sentence

from dikkat.explain.explorer.document import HeadOff, MapKind, Page, Saliency, TokenizedText, assemble
from dikkat.explain.head_analysis.alignment_head import rank_correlation
from dikkat.explain.head_analysis.head_stats import HeadStatsCollector
from dikkat.explain.head_analysis.importance import HeadName
from dikkat.nn.recorder import MapName

PAGE = sample_page()
FIRST = PAGE.sentences[0]
STEP = 0.0061  # what is shown is rounded to two decimals, after an error of at most 0.004 / 4 a byte at these weights


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as result:
        yield result


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(PAGE, tmp_path_factory.mktemp("page"))


@pytest.fixture
def page(browser: Browser, sample: Path) -> Iterator[Watched]:
    with watched(browser, sample) as result:
        yield result


def written(page: Page, folder: Path, language: str = "en") -> Path:
    path = folder / "page.html"
    path.write_text(assemble(page, language), encoding="utf-8")
    return path


def listed(page: Watched) -> dict[str, dict[str, float]]:
    """The lists of the readout: title -> token -> weight."""
    lists = page.page.locator("#readout h3")
    result = {}
    for title, entries in zip(lists.all(), page.page.locator("#readout ul").all(), strict=True):
        tokens = entries.locator("li:not(.more) bdi").all_text_contents()
        weights = entries.locator("li:not(.more) b").all_text_contents()
        result[title.text_content() or ""] = dict(zip(tokens, map(float, weights), strict=True))
    return result


def assert_listed(found: dict[str, float], tokens: Sequence[str], weights: Iterable[float]) -> None:
    """The weights of these tokens, but for those too small to be listed."""
    expected = dict(zip(tokens, weights, strict=True))
    assert {name for name, weight in expected.items() if weight >= 0.01} <= set(found)
    assert found == pytest.approx({name: expected[name] for name in found}, abs=STEP)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def pressed(page: Watched, group: str) -> list[str]:
    return page.texts(f'[aria-label="{group}"] [aria-pressed="true"]')


# the controls ---------------------------------------------------------------------------------------------------------


def test_sentences_are_picked_by_list_buttons_and_keys(page: Watched) -> None:
    assert page.text("#source-text") == "The animal is tired"
    page.page.locator("#sentences").select_option("1")
    assert page.text("#source-text") == "Yes."
    assert page.text("#score") == "given target"
    page.click("#previous")
    assert page.text("#score") == "score −0.25 · probability 37%"
    page.click("#next")
    assert page.texts(".column.left .token") == ["▁Ja", ".", "<eos>"]
    page.page.locator("body").click(position={"x": 2, "y": 2})
    page.press("p")
    assert page.text("#source-text") == "The animal is tired"


@pytest.mark.parametrize(
    ("kind", "key", "title", "left", "right"),
    [
        ("encoder-self", "e", "Encoder self-attention · Layer 2", SOURCE, SOURCE),
        ("decoder-self", "d", "Decoder self-attention · Layer 2", TARGET[:-1], TARGET[:-1]),
        ("cross", "c", "Cross-attention · Layer 2", TARGET[1:], SOURCE),
    ],
)
def test_kinds(page: Watched, kind: str, key: str, title: str, left: list[str], right: list[str]) -> None:
    page.press("e" if kind == "cross" else "c")
    assert page.text(".picture h2") != title
    page.click(f'[data-value="{kind}"]')
    for _ in range(2):
        assert page.text(".picture h2") == title
        assert page.texts(".column.left .token") == list(left)
        assert page.texts(".column.right .token") == list(right)
        page.press("e" if kind == "cross" else "c", key)


def test_what_a_token_looks_at_is_the_mean_of_the_chosen_heads(page: Watched) -> None:
    page.click('[aria-label="Layer"] [data-value="0"]')
    page.click('[data-hide="1"]')
    assert pressed(page, "Heads") == ["1", "3"]
    page.page.locator(".column.left .token").nth(1).hover()
    weights = np.asarray(FIRST.maps["cross"][0])[[0, 2], 1].mean(axis=0)
    assert_listed(listed(page)["“Tier” looks at"], SOURCE, weights)
    assert page.texts("#readout .mean-label") == ["mean of 2 heads, each below in its colour"]
    tokens = page.texts("#readout ul bdi")
    for token, row in zip(tokens, page.page.locator("#readout .by-head").all(), strict=True):
        own = np.asarray(FIRST.maps["cross"][0])[[0, 2], 1, SOURCE.index(token)]
        assert [float(text) for text in row.locator(".weight-chip").all_text_contents()] == pytest.approx(
            own, abs=0.011
        )
    assert "having read “Das”, about to write “Tier”" in page.text("#readout")
    coloured = np.asarray(FIRST.maps["cross"][0])[[0, 2], 1].max(axis=0)
    assert (coloured > 0.008).sum() <= page.count(".column.right .strip.out") <= (coloured > 0.002).sum()


def test_what_looks_at_a_token(page: Watched) -> None:
    page.page.locator(".column.right .token").nth(2).hover()
    weights = np.asarray(FIRST.maps["cross"][1])[:, :, 2].mean(axis=0)
    assert list(listed(page)) == ["“mal” is looked at by"]
    assert_listed(listed(page)["“mal” is looked at by"], TARGET[1:], weights)
    page.page.mouse.move(2, 2)
    assert page.text("#readout").startswith("Point at a word")


def test_self_attention_is_read_both_ways(page: Watched) -> None:
    page.press("e", "v", "v")
    page.page.locator(".running .token").nth(4).hover()
    weights = np.asarray(FIRST.maps["encoder-self"][1]).mean(axis=0)
    result = listed(page)
    assert list(result) == ["“tired” looks at", "“tired” is looked at by"]
    for numbers, values in zip(result.values(), (weights[4], weights[:, 4]), strict=True):
        assert_listed(numbers, SOURCE, values)
    assert page.count(".strip.out") > 0
    assert page.count(".strip.in") > 0


@pytest.mark.seed("D13")
def test_a_head_is_shown_alone_and_hidden_by_the_sign_next_to_it(page: Watched) -> None:
    def colours() -> set[str]:
        return set(page.run("[...document.querySelectorAll('.wires path')].map((path) => path.getAttribute('stroke'))"))

    assert len(colours()) == 3
    label = page.page.locator('[data-head="1"]').get_attribute("aria-label")
    assert (label, page.page.locator('[data-hide="1"]').get_attribute("aria-label")) == (
        "Show head 2 alone",
        "Hide head 2",
    )
    for _ in range(2):  # a second click changes nothing
        page.click('[data-head="1"]')
        assert pressed(page, "Heads") == ["2"]
        assert len(colours()) == 1
    assert page.page.locator('[data-hide="0"]').get_attribute("aria-label") == "Show head 1 too"
    page.click('[data-hide="0"]')
    assert pressed(page, "Heads") == ["1", "2"]
    page.click('[data-hide="1"]')
    assert pressed(page, "Heads") == ["1"]
    page.click('[data-hide="0"]')  # without any, all come back
    assert pressed(page, "Heads") == ["1", "2", "3"]
    page.page.locator('[data-head="2"]').click(modifiers=["Shift"])
    assert pressed(page, "Heads") == ["1", "2"]
    page.click("#all-heads")
    assert pressed(page, "Heads") == ["1", "2", "3"]
    page.press("3")
    assert pressed(page, "Heads") == ["3"]
    page.press("0", "Shift+Digit3")
    assert pressed(page, "Heads") == ["1", "2"]
    assert len(colours()) == 2


def test_the_role_of_each_head_is_that_of_the_library_with_its_strength(browser: Browser, tmp_path: Path) -> None:
    """Here, in the order of the table, every share of every head, and what the lines under the picture say."""
    collector = HeadStatsCollector()
    names: dict[MapKind, tuple[str, Literal["self", "cross"]]] = {
        "encoder-self": ("encoder", "self"),
        "decoder-self": ("decoder", "self"),
        "cross": ("decoder", "cross"),
    }
    sides = {
        "encoder-self": (SOURCE, SOURCE),
        "decoder-self": (TARGET[:-1], TARGET[:-1]),
        "cross": (TARGET[:-1], SOURCE),
    }
    maps = {kind: [np.array(item) for item in layers] for kind, layers in FIRST.maps.items()}
    maps["decoder-self"][0][1] = 0.1 * maps["decoder-self"][0][1] + 0.9 * np.eye(6, k=-1)
    maps["decoder-self"][0][1, 0, 0] = 1
    for kind, layers in maps.items():
        for layer, weights in enumerate(layers):
            stack, own = names[kind]
            collector.add(MapName(stack, layer, own), weights.astype(np.float64), *sides[kind])
    path = written(sample_page(sentences=[replace(FIRST, maps=maps)]), tmp_path)
    words = {
        "marks": "begin and end marks",
        "punctuation": "punctuation",
        "before": "previous token",
        "same": "same position",
        "after": "next token",
        "first": "first token",
        "elsewhere": "other words",
    }
    with watched(browser, path) as page:
        page.click("#all-roles summary")
        rows = page.page.locator(".roles-table tbody tr")
        drawn = "(row) => [...row.children].findIndex((cell) => cell.matches('.drawn'))"
        at = 0
        for kind in maps:
            page.press({"encoder-self": "e", "decoder-self": "d", "cross": "c"}[kind])
            for layer in range(2):
                page.click(f'[aria-label="Layer"] [data-value="{layer}"]')
                for head, line in enumerate(page.texts("#roles .roles li")):
                    stats = collector.of(HeadName(names[kind][0], layer, names[kind][1], head))
                    role = words[stats.target] if stats.target else "nowhere in particular"
                    assert line.startswith(f"Head {head + 1}: {role}")
                    if stats.target:
                        assert float(line.split()[-1].strip("%<")) == pytest.approx(100 * stats.target_share, abs=0.9)
                    column = list(words).index(stats.target) + 1 if stats.target else -1
                    assert rows.nth(at).evaluate(drawn) == column
                    at += 1
        assert at == rows.count() == 18
        said = page.texts(".strongest li")
        assert len(said) == len({role for role in words.values() if any(f"“{role}”" in line for line in said)})
        before = "strongest on “previous token”: Decoder self-attention, layer 1, head 2, "
        assert sum(line.startswith(before) for line in said) == 1
        marked = (
            "(row) => [...row.querySelectorAll('.most')].every((cell) => getComputedStyle(cell).fontWeight === '700')"
        )
        assert all(row.evaluate(marked) for row in rows.all())
        page.click('[aria-label="Show alone: Decoder self-attention, layer 1, head 2"]')
        assert page.text(".picture h2") == "Decoder self-attention · Layer 1"
        assert pressed(page, "Heads") == ["2"]
        assert "Head 2: previous token " in page.text("#roles .roles li:nth-child(2)")
        assert page.count("#guided") == 0


def test_over_the_training_each_role_has_its_strength(browser: Browser, tmp_path: Path) -> None:
    def over_looks(first: object, last: object) -> dict[str, object]:
        return {kind: [[[first, last]] * 3] * 2 for kind in KINDS}

    training = {"updates": [100, 1500], "losses": [[100, 2.0], [1500, 1.0]], "entropy": over_looks(1.0, 0.5),
                "roles": over_looks(None, "before"), "shares": over_looks(0.0, 0.92)}  # fmt: skip
    path = written(replace(sample_page(sentences=[FIRST, FIRST]), training=training), tmp_path)
    with watched(browser, path) as page:
        assert "Over all sentences: Head 1: previous token 92% since update 1,500." in page.text(".roles-now")
        page.page.locator("#look").fill("0")
        assert "Head 1: nowhere in particular since update 100." in page.text(".roles-now")


def test_the_guided_head_is_named_and_found(browser: Browser, tmp_path: Path) -> None:
    with watched(browser, written(replace(PAGE, guided=(0, 2)), tmp_path)) as page:
        assert "Head 3 of layer 1 of the encoder was guided" in page.text("#guided")
        page.click("#show-guided")
        assert page.text(".picture h2") == "Encoder self-attention · Layer 1"
        assert pressed(page, "Heads") == ["3"]
        assert page.texts("#roles .roles li .guided") == ["guided"]
        label = page.page.locator('[data-head="2"]').get_attribute("aria-label")
        assert label == "Show head 3 alone, which was guided in training"
        page.press("g")
        assert "yönlendirildi" in page.text("#guided")


def test_layers_by_keys(page: Watched) -> None:
    page.press("[")
    assert page.text(".picture h2") == "Cross-attention · Layer 1"
    page.press("[")
    assert pressed(page, "Layer") == ["1"]
    page.press("]", "]")
    assert pressed(page, "Layer") == ["2"]


def test_rollout_is_that_of_the_library(page: Watched) -> None:
    assert page.count("#rollout") == 0  # cross-attention has none
    page.press("r")
    assert page.text(".picture h2").startswith("Cross-attention")
    page.press("e", "r")
    assert page.page.locator("#rollout").get_attribute("aria-pressed") == "true"
    page.page.locator(".column.left .token").nth(3).hover()
    expected = np.asarray(FIRST.rollout["encoder-self"][1])[0, 3]
    assert_listed(listed(page)["“is” looks at"], SOURCE, expected)
    page.click("#rollout")
    assert pressed(page, "Heads") == ["1", "2", "3"]
    page.press("r")
    page.click('[data-head="1"]')
    assert pressed(page, "Heads") == ["2"]


def test_words_add_up_and_average(page: Watched) -> None:
    page.click('[data-value="true"]')
    assert page.texts(".column.left .token") == ["Das", "Tier", "ist", "müde", "<eos>"]
    assert page.texts(".column.right .token") == ["The", "animal", "is", "tired", "<eos>"]
    page.page.locator(".column.left .token").nth(3).hover()
    mean = np.asarray(FIRST.maps["cross"][1]).mean(axis=0)[[3, 4]].mean(axis=0)
    weights = [mean[0], mean[1] + mean[2], mean[3], mean[4], mean[5]]
    assert_listed(listed(page)["“müde” looks at"], ["The", "animal", "is", "tired", "<eos>"], weights)
    page.press("w")
    assert page.texts(".column.right .token") == list(SOURCE)


def test_punctuation_is_apart_from_its_word(browser: Browser, tmp_path: Path) -> None:
    tokens = ("“", "Do", "n", "'", "t", "▁go", ",", "”", "<eos>")
    source = TokenizedText("“Don't go,”", tokens, (0, 0, 0, 0, 0, 1, 1, 1, 2), ("“Don't", "go,”", "<eos>"))
    sentence = sample_sentence(source.tokens, TARGET)
    with watched(browser, written(sample_page(sentences=[replace(sentence, source=source)]), tmp_path)) as page:
        page.press("w")
        words = ["“", "Don't", "go", ",”", "<eos>"]
        assert page.texts(".column.right .token") == words
        page.page.locator(".column.left .token").first.hover()
        mean = np.asarray(sentence.maps["cross"][1]).mean(axis=0)[0]
        weights = [mean[0], mean[1:5].sum(), mean[5], mean[6:8].sum(), mean[8]]
        assert_listed(listed(page)["“Das” looks at"], words, weights)


def test_rows_are_named_by_what_was_read_or_by_what_is_written(page: Watched) -> None:
    page.click('[data-value="read"]')
    assert page.texts(".column.left .token") == list(TARGET[:-1])
    page.press("d")
    assert page.texts(".column.left .token") == list(TARGET[:-1])
    page.click('[data-value="written"]')
    assert page.texts(".column.left .token") == list(TARGET[1:])
    assert page.texts(".column.right .token") == list(TARGET[:-1])


def test_views(page: Watched) -> None:
    assert page.count("svg.wires") == 1
    page.click('[data-value="heat"]')
    assert (page.count("svg.wires"), page.count("canvas")) == (0, 3)
    assert page.texts("figcaption") == ["Head 1", "Head 2", "Head 3"]
    page.click('[data-value="text"]')
    assert page.count(".running") == 2
    page.press("v")
    assert page.count("svg.wires") == 1


def test_a_heat_map_has_the_weights_as_colours_and_answers_the_pointer_and_the_keys(page: Watched) -> None:
    page.press("v")
    canvas = page.page.locator("canvas").nth(1)
    # labels stand left and above; a cell has 34 pixels and the last one ends a pixel before the edge
    size, pixels = page.run(
        """(canvas) => { const { width, height } = canvas;
        return [[width, height], [...canvas.getContext('2d').getImageData(0, 0, width, height).data]]; }""",
        canvas.element_handle(),
    )
    weights = np.asarray(FIRST.maps["cross"][1])
    rows, columns = weights.shape[1:]
    cell = 34
    left, top = size[0] - 1 - columns * cell, size[1] - 1 - rows * cell
    image = np.array(pixels).reshape(size[1], size[0], 4)

    def brightness(row: int, column: int) -> float:
        y, x = int(top + (row + 0.5) * cell), int(left + (column + 0.5) * cell)
        return float(np.dot(image[y, x, :3], [0.2126, 0.7152, 0.0722]))

    values = sorted((float(weights[1, r, c]), brightness(r, c)) for r in range(rows) for c in range(columns))
    assert all(dark <= light + 1.0 for (_, light), (_, dark) in pairwise(values)), "darker is more, without exception"
    canvas.hover(position={"x": left + 2.5 * cell, "y": top + 1.5 * cell})
    assert "“Tier” → “mal”" in page.text("#readout .cell")
    assert float(page.texts("#readout .weight-chip")[1]) == pytest.approx(weights[1, 1, 2], abs=STEP)
    page.page.mouse.move(2, 2)
    canvas.focus()
    page.press("ArrowDown", "ArrowDown", "ArrowRight", "Enter")
    assert "“Tier” → “ani”" in page.text("#readout .cell")
    assert page.count(".band:not([hidden])") == 6
    page.press("Escape")
    assert page.text("#readout").startswith("Point at a word")


def test_a_word_is_kept_by_click_or_enter_and_let_go(page: Watched) -> None:
    page.click(".column.left .token >> nth=2")
    page.page.mouse.move(2, 2)
    page.run("document.activeElement.blur()")
    assert "“ist” looks at" in listed(page)
    page.press("Escape")
    assert listed(page) == {}
    page.page.locator(".column.left .token").first.focus()
    page.press("ArrowDown", "Enter")
    page.run("document.activeElement.blur()")
    assert "“Tier” looks at" in listed(page)
    assert page.texts(".token.chosen") == ["▁Tier"]


# step by step ---------------------------------------------------------------------------------------------------------


def test_decoding_step_by_step(page: Watched) -> None:
    page.click("#tab-decoding")
    assert page.text(".step-title") == "Step 1 of 6"
    page.click("#forward")
    page.press("ArrowRight")
    assert page.text(".step-title") == "Step 3 of 6"
    assert page.texts(".said.now") == ["▁ist"]
    assert len(page.texts(".said.later")) == 3
    weights = np.asarray(FIRST.maps["cross"][1])[:, 2].mean(axis=0)
    assert [float(item) for item in page.texts("#live-row b")] == pytest.approx(weights.tolist(), abs=STEP)
    # e to the power of -0.7 + 0.6, of -3 + 0.5, of -0.7 and of -3
    first = ["1", "_Das _Tier ▁ist", "90%", "50%", "−0.70", "−0.20", "goes on"]
    second = ["2", "_Das _Vieh <eos>", "8.2%", "5.0%", "−3.00", "−0.90", "finished"]
    # the second choice is of another hypothesis, so that it stands apart
    assert page.texts("#candidates tbody:nth-of-type(1) tr:nth-child(2) td") == first
    assert page.texts("#candidates tbody:nth-of-type(2) tr:nth-child(2) td") == second
    assert page.texts("#candidates .of-prefix") == [
        "After what the chosen sentence has written",
        "After what other hypotheses of the beam have written",
    ]
    heads = ["rank", "Continuation", "probability of the token", "of all so far", "log p, cumulative", "score", "fate"]
    assert page.texts("#candidates thead th") == heads
    assert page.texts(".node.now .token-label") == ["_ist", "■ end", "_war"]
    assert page.texts(".node.best .token-label") == ["_Das", "_Tier", "_ist", "_mü", "de", "■ end"]
    page.page.locator("#step").fill("6")
    assert page.text(".step-title") == "Step 6 of 6"
    assert page.page.locator("#forward").is_disabled()
    page.click("#back")
    page.run("document.activeElement.blur()")
    page.press("ArrowLeft")
    assert page.text(".step-title") == "Step 4 of 6"
    page.press("3")
    assert pressed(page, "Heads") == ["3"]
    weights = np.asarray(FIRST.maps["cross"][1])[2, 3]
    assert [float(item) for item in page.texts("#live-row b")] == pytest.approx(weights.tolist(), abs=STEP)
    page.click(".written button >> nth=1")
    assert page.text(".step-title") == "Step 2 of 6"
    assert page.run("document.activeElement.textContent").startswith("▁Tier")
    assert page.texts(".decoding > .pane > h2:first-child")[1] == "What it considered in this step"
    page.click(".written button >> nth=0")
    assert page.count("#candidates .of-prefix") == 0  # all go on from the same


def test_kind_and_heads_of_cross_attention_are_chosen_apart(page: Watched) -> None:
    page.click('[aria-label="Kind"] [data-value="encoder-self"]')
    page.click('[data-head="1"]')
    page.press("r")
    for tab in ("decoding", "importance"):
        page.click(f"#tab-{tab}")
        assert pressed(page, "Heads") == ["1", "2", "3"]
    page.click('[data-head="2"]')
    page.click("#tab-maps")
    assert (pressed(page, "Kind"), pressed(page, "Heads")) == (["Encoder"], ["Rollout"])
    page.click('[data-head="1"]')
    page.click("#tab-heads")
    page.click("#tab-decoding")
    assert pressed(page, "Heads") == ["3"]
    page.click("#tab-maps")
    assert (pressed(page, "Kind"), pressed(page, "Heads")) == (["Encoder"], ["2"])


def test_each_token_and_word_has_its_own_probability(page: Watched) -> None:
    totals = [0, -0.1, -0.6, -0.7, -0.8, -0.9, -1.0]
    expected = [f"{100 * np.exp(after - before):.0f}%" for before, after in pairwise(totals)]
    page.click("#tab-decoding")
    assert page.texts("#stage .written >> nth=0 >> .said-token small") == expected
    assert page.texts(".of-word") == [f"word {100 * np.exp(-0.2):.0f}%"]  # mü + de
    assert page.text("#sureness").endswith(f"all together {100 * np.exp(-1):.0f}%.")
    assert page.text("#score") == f"score −0.25 · probability {100 * np.exp(-1):.0f}%"
    assert page.texts(".node.now .token-score") == ["90%", "14%"]
    page.click("#tab-maps")
    page.page.locator(".column.left .token").nth(1).hover()
    assert f"about to write “Tier”: {expected[1]}" in page.text("#readout")


def test_the_whole_sentences_of_the_beam_are_listed_and_followed(page: Watched) -> None:
    page.click("#tab-decoding")
    rows = page.page.locator("#hypotheses tbody tr")
    shown = [row.locator("td").all_text_contents() for row in rows.all()]
    assert shown == [
        ["1", "Das Tier ist müde", "37%", "−1.00", "−0.20", ""],
        ["2", "Das Vieh", "5.0%", "−3.00", "−0.90", ""],
    ]
    assert page.texts("#hypotheses tbody u") == ["Vieh"]
    assert page.page.locator('#hypotheses [aria-pressed="true"]').text_content() == "Das Tier ist müde"
    rows.nth(1).locator("button").focus()
    page.press("Enter")
    assert page.texts("#hypothesis .said") == ["▁Das", "▁Vieh", "<eos>"]
    assert page.texts("#hypothesis small") == [
        f"{100 * np.exp(own):.{d}f}%" for own, d in ((-0.1, 0), (-0.4, 0), (-2.5, 1))
    ]
    assert page.texts(".node.best .token-label") == ["_Das", "_Vieh", "■ end"]
    page.press("g")
    assert page.text("#hypotheses h2") == "Aramanın vardığı 2 bütün cümle"
    assert page.texts("#hypotheses td:nth-child(3)") == ["%37", "%5,0"]


def test_a_forced_target_has_no_beam(page: Watched) -> None:
    page.press("n", "t")
    assert page.text(".step-title") == "Step 1 of 3"
    assert page.count(".tree") == 0
    assert "The target was given" in page.text("#stage")


# heads off ------------------------------------------------------------------------------------------------------------


def test_a_head_switched_off_shows_what_changes(page: Watched) -> None:
    page.click("#tab-heads")
    assert page.count(".square") == 18
    page.click('[aria-label="Cross-attention, layer 2, head 3: 2 of 4 words change"]')
    assert page.texts("#new-translation del") == ["Tier", "müde"]
    assert page.texts("#new-translation ins") == ["Vieh", "alt"]
    assert "Without Cross-attention, layer 2, head 3" in page.text("#without")
    page.click('[aria-label="Encoder self-attention, layer 1, head 1: 0 of 4 words change"]')
    assert page.count("#new-translation ins, #new-translation del") == 0
    assert "The words stay the same." in page.text("#without")
    page.press("n")
    assert "made without this" in page.text("#stage")


def test_that_no_head_changes_anything_is_said(browser: Browser, page: Watched, tmp_path: Path) -> None:
    page.click("#tab-heads")
    assert page.count("#no-head") == 0
    offs = [HeadOff(kind, 0, head, "Das Tier ist müde", -0.5) for kind in ("encoder-self", "cross") for head in (0, 1)]
    path = written(sample_page(sentences=[sample_sentence(SOURCE, TARGET, heads_off=offs)]), tmp_path)
    with watched(browser, path) as other:
        other.click("#tab-heads")
        assert other.count(".square") == 4
        assert "No head changes the translation" in other.text("#no-head")


# importance ----------------------------------------------------------------------------------------------------------


def test_importance_correlates_as_the_library_does(page: Watched) -> None:
    page.click("#tab-importance")
    page.click(".importance .token >> nth=3")
    assert FIRST.saliency is not None
    attention = np.asarray(FIRST.maps["cross"][1]).mean(axis=0, dtype=np.float64)
    for name, other in (("gradient", FIRST.saliency.gradient), ("occlusion", FIRST.saliency.occlusion)):
        here, mean = map(number, page.texts(f'[data-measure="{name}"] b'))
        rows = [rank_correlation(a, b.astype(np.float64)) for a, b in zip(attention, np.asarray(other), strict=True)]
        # two of six tokens whose weights round to one byte may share a rank
        assert here == pytest.approx(rows[3], abs=0.06)
        assert mean == pytest.approx(float(np.mean(rows)), abs=0.03)
    shown = np.array(
        [[number(item) for item in page.texts(f".compared tbody tr:nth-child({row}) small")] for row in range(1, 7)]
    )
    expected = np.stack([attention[3], FIRST.saliency.gradient[3], FIRST.saliency.occlusion[3]], axis=1)
    np.testing.assert_allclose(shown, expected, atol=STEP)


def test_the_caution_says_what_agrees_before_what_differs(page: Watched) -> None:
    page.click("#tab-importance")
    assert FIRST.saliency is not None
    measures = {"attention": np.asarray(FIRST.maps["cross"][1]).mean(axis=0),
                "gradient": FIRST.saliency.gradient, "occlusion": FIRST.saliency.occlusion}  # fmt: skip
    for index in range(6):
        page.page.locator(".importance .token").nth(index).click()
        if any(np.ptp(np.sort(np.asarray(rows)[index])[-2:]) < STEP for rows in measures.values()):
            continue  # in the bytes of the file neither is first
        first = {name: SOURCE[int(np.asarray(rows)[index].argmax())].strip("▁") for name, rows in measures.items()}
        said = page.text(".caution")
        agreeing = [name for name in first if list(first.values()).count(first[name]) > 1]
        assert ("Do not read this map as an alignment" in said) == (len(agreeing) < 3)
        assert said.startswith("None agree here" if not agreeing else agreeing[0].capitalize())
        for name in set(first) - set(agreeing):
            assert f"{name} puts “{first[name]}” first" in said


ALIKE = ((4, 3, 2, 1, 0), "high", "much alike")
UNLIKE = ((0, 1, 2, 3, 4), "mixed", "Only the order")


@pytest.mark.parametrize(("rest", "kind", "words"), [ALIKE, UNLIKE])
def test_measures_that_name_the_same_token_agree(
    browser: Browser, tmp_path: Path, rest: Sequence[int], kind: str, words: str
) -> None:
    """However the order of the other tokens differs, the first thing said is that all three put the same one first."""
    ours = np.array([0.9, 0.04, 0.03, 0.02, 0.01, 0.0])
    theirs = np.array([0.9, *(0.01 * number for number in rest)])
    cross = [np.tile(ours, (3, 6, 1)).astype(np.float32)] * 2
    saliency = Saliency(*[np.tile(theirs, (6, 1)).astype(np.float32)] * 2)
    sentence = replace(FIRST, maps={**FIRST.maps, "cross": cross}, saliency=saliency)
    with watched(browser, written(sample_page(sentences=[sentence]), tmp_path)) as page:
        page.click("#tab-importance")
        said = page.text(f".caution.{kind}")
        assert said.startswith("Attention, gradient and occlusion agree: all three put “The” first.")
        assert words in said
        assert "Do not read" not in said
        assert page.texts(".compared td.first small") == ["0.90"] * 3


def test_maps_alone_say_where_the_model_is(browser: Browser, page: Watched, tmp_path: Path) -> None:
    six = "Not in this file: “Six steps”, which compute one weight number by number."
    assert page.text("#elsewhere").startswith(six)
    assert "dikkat page RUN" in page.text("#elsewhere")
    bare = replace(FIRST, beam=None, heads_off=(), saliency=None, score=None)
    with watched(browser, written(sample_page(sentences=[bare]), tmp_path)) as other:
        assert other.texts("#tabs button") == ["Attention", "Step by step"]
        assert other.text("#elsewhere").startswith("Not in this file: “Heads off”, “What mattered”.")
        assert six in other.text("#elsewhere")
        other.click("#tab-decoding")
        assert "nothing of the search" in other.text("#stage")
        assert other.count(".said-token small") == 0


def number(text: str) -> float:
    return float(text.replace("−", "-"))


# the whole page -------------------------------------------------------------------------------------------------------


def test_languages(page: Watched, browser: Browser, tmp_path: Path) -> None:
    page.click("#language")
    assert page.run("document.documentElement.lang") == "tr"
    assert page.text(".picture h2") == "Çapraz dikkat · Katman 2"
    page.press("t")
    assert page.text(".step-title") == "Adım 1 / 6"
    assert "−0,10" in page.text("#candidates")
    page.press("g")
    assert page.text(".step-title") == "Step 1 of 6"
    with watched(browser, written(PAGE, tmp_path, "tr")) as turkish:
        assert turkish.texts("#tabs button") == ["Dikkat", "Adım adım", "Kafasız", "Ne önemliydi"]


def test_dark_and_light(page: Watched, browser: Browser, sample: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.run(ground)
    page.click("#theme")
    dark = page.run(ground)
    page.press("x")
    assert page.run(ground) == light != dark
    with watched(browser, sample, theme="dark") as other:
        assert other.run(ground) == dark


def test_the_keys_are_documented_and_all_tabs_are_reached(page: Watched) -> None:
    page.click("#help")
    keys = page.texts("#help-dialog kbd")
    assert {"?", "n", "p", "t", "e", "d", "c", "[", "]", "v", "w", "r", "x", "g", "Esc", "Enter"} <= set(keys)
    page.click("#close-help")
    page.press("?")
    assert page.page.locator("#help-dialog").is_visible()
    page.press("t")  # the page behind stays as it is
    page.press("?")
    assert not page.page.locator("#help-dialog").is_visible()
    page.page.locator("#tab-maps").focus()
    reached = []
    for _ in range(4):
        page.press("ArrowRight")
        reached.append(page.text('[aria-selected="true"]'))
    assert reached == ["Step by step", "Heads off", "What mattered", "Attention"]
    assert page.run("document.activeElement.id") == "tab-maps"


def test_the_focus_can_be_seen_and_everything_has_a_name(page: Watched) -> None:
    for tab in ("maps", "decoding", "heads", "importance"):
        page.click(f"#tab-{tab}")
        unnamed = page.run(
            """[...document.querySelectorAll('button, select, input, canvas, svg[role=img]')]
            .filter((each) => !(each.getAttribute('aria-label') || each.textContent.trim()))
            .map((each) => each.outerHTML)"""
        )
        assert unnamed == []
    page.press("Tab")
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.parametrize("language", ["en", "tr"])
def test_a_phone_never_scrolls_sideways(browser: Browser, tmp_path: Path, language: str) -> None:
    path = written(PAGE, tmp_path, language)
    with watched(browser, path, width=360, height=740, touch=True) as page:
        for key in ("", "v", "v", "d", "v", "v", "w", "t", "t", "t"):
            if key:
                page.press(key)
            assert page.run("document.documentElement.scrollWidth") == 360, f"after {key}"
            assert page.run("document.querySelector('#stage').getBoundingClientRect().right") <= 360
        page.press("?")
        assert page.run("document.querySelector('#help-dialog').getBoundingClientRect().right") <= 360


# hostile and long text ------------------------------------------------------------------------------------------------

NASTY = [
    "</script>", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>",
    "<!--", "-->", "]]>", "<svg onload=alert(1)>",
    '" onmouseover="alert(1)', "javascript:alert(1)", "{{SCRIPT}}", "{{DATA}}",
    "&lt;b&gt;", "&#x3c;", "${alert(1)}", "`",
    "\\u003c/script>", "__proto__", "constructor", "\x00", "\x01\x1b[31m", "\x7f",
    "\x85", "\n", "\t", "\r\n", "\u2028", "\u2029",
    "\u202eevil\u202c", "\u2066\u2067", "\u200b", "\u00ad", "\ufeff", "שלום",
    "مرحبا", "مرحبا <b>", "👩‍👩‍👧‍👦", "🇹🇷", "é", "e\u0301",
    "Z̷̧̛a̵l̸g̶o̷" * 20, "\ud800", "\udfff", "a\ud83db", "\U0010ffff", "漢字", "x" * 5000,
    " ", "  a  ", "▁", "▁▁", "%s%n", "NaN", "null",
]  # fmt: skip


def hostile_tokens(count: int) -> list[str]:
    generator = random.Random(7)
    mixed = ["".join(generator.choices(NASTY[:46], k=3)) for _ in range(count - len(NASTY))]
    return NASTY + mixed


def shown(token: str) -> str:
    """The token with what cannot be seen made visible: an independent reading of the rule."""
    parts = []
    for character in token:
        code = ord(character)
        if code < 0x20:
            parts.append(chr(0x2400 + code))
        elif code == 0x7F:
            parts.append("\u2421")
        elif (
            0x80 <= code < 0xA0
            or 0xD800 <= code < 0xE000
            or character in "\u00ad\u200b\u2028\u2029\u202e\u202c\u2066\u2067\ufeff"
        ):
            parts.append(f"⟨U+{code:04X}⟩")
        else:
            parts.append(character)
    return "".join(parts)


def test_two_hundred_hostile_tokens_are_text_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    tokens = hostile_tokens(200)
    assert len(set(tokens)) == 200
    sentence = sample_sentence([*tokens, "<eos>"], ["<bos>", *tokens, "<eos>"], layers=1, heads=2)
    path = written(sample_page(NASTY[1], [sentence]), tmp_path)
    with watched(browser, path) as page:
        expected = [shown(token) for token in tokens]
        assert page.texts(".column.right .token") == [*expected, "<eos>"]
        assert page.run("document.scripts.length") == 2
        assert (
            page.run(
                "document.querySelectorAll('#stage img, #stage script, #stage iframe, #stage b:not(.bar + b)').length"
            )
            == 0
        )
        for key in ("v", "v", "w", "e", "t", "t"):
            page.press(key)
        assert page.texts(".importance .token") == [*expected, "<eos>"]
        assert page.run("document.documentElement.scrollWidth") == 1280
        directions = (
            "[...document.querySelectorAll('bdi')].every((each) => getComputedStyle(each).unicodeBidi === 'isolate')"
        )
        assert page.run(directions)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [pytest.param(600, marks=pytest.mark.nightly), 450])
def test_hundreds_of_tokens_never_hang(tokens: int, browser: Browser, tmp_path: Path) -> None:
    words = [f"▁w{number}" for number in range(tokens)]
    path = written(sample_page(sentences=[sample_sentence([*words, "<eos>"], ["<bos>", *words, "<eos>"])]), tmp_path)
    with watched(browser, path) as page:
        assert "only the largest 12 weights" in page.text("#stage .note")
        assert 0 < page.count(".wires path") <= 1500
        for key in ("v", "v", "e", "v", "w", "r", "t", "t", "t"):
            page.press(key)
            assert page.run("1 + 1") == 2  # answers only when it has drawn
        assert page.run("document.documentElement.scrollWidth") == 1280


def test_fifty_sentences_are_small_and_open(browser: Browser, tmp_path: Path) -> None:
    generator = random.Random(3)
    sentences = []
    for seed in range(50):
        source, target = ([f"▁w{i}" for i in range(generator.randint(10, 34))] for _ in range(2))
        sentences.append(sample_sentence([*source, "<eos>"], ["<bos>", *target, "<eos>"], layers=3, heads=4, seed=seed))
    path = written(sample_page(sentences=sentences), tmp_path)
    assert path.stat().st_size < 5_000_000
    with watched(browser, path) as page:
        assert page.count("#sentences option") == 50


def test_a_map_is_there_as_sentences_and_as_a_table(page: Watched) -> None:
    page.click("#described summary")
    page.page.wait_for_selector("#described table")
    rows = page.page.locator("#described tbody tr").count()
    assert page.page.locator("#described li").count() == rows > 1
    assert "looks at" in page.page.locator("#described li").first.inner_text()
    for row in page.page.locator("#described tbody tr").all():
        weights = [float(cell) for cell in row.locator("td").all_inner_texts()]
        assert abs(sum(weights) - 1) < 0.01 * len(weights)
