"""The page that computes, in a real browser: what it writes and shows, what it refuses, and that nothing freezes it."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser
from tests.runtime.runs import classifier_run, language_model_run
from tests.system.chromium import Watched, chromium, watched
from tests.system.test_page import NASTY
from tests.system.toy import toy_sentences

from dikkat import Translator
from dikkat.explain.attention_map import Words
from dikkat.explain.head_analysis.importance import occlusion
from dikkat.nn.recorder import MapName
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_metadata
from dikkat.tasks.inspection.arithmetic import explain_cell
from dikkat.tasks.translation.attention import Attending
from dikkat.web.opening import open_for_web
from dikkat.web.page import live_page
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.generator import Generator

TEXTS = [source for source, _ in toy_sentences(3)]
TEXT = TEXTS[0]
ENGLISH = "The small cat is sleeping."
NO_WORKER = "delete window.Worker; delete window.WebAssembly;"
HASTE = """
addEventListener("DOMContentLoaded", () => {
    const field = document.getElementById("text");
    const pressed = (key) => new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
    const press = (node, key) => node.dispatchEvent(pressed(key));
    for (const key of ["1", "0", "t", "ArrowRight", "r"]) press(document.body, key);
    field.value = "the dog";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    press(field, "Enter");
});
"""
"""Keys and a text that come before the model is unpacked."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def file(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("live") / "page.html"
    path.write_text(live_page(open_for_web(trained, "float32"), examples=TEXTS), encoding="utf-8")
    return path


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Watched]:
    with watched(browser, file) as found:
        ready(found)
        yield found


def ready(page: Watched, state: str = "ready") -> None:
    """Wait until nothing is computed any more, with the page in this state."""
    page.page.wait_for_selector(f"body[data-state={state}]:not([data-busy])")


def type_text(page: Watched, text: str, state: str = "ready") -> None:
    page.page.fill("#text", text)
    page.page.focus("#text")
    page.press("Enter")
    ready(page, state)


def written(run: Path, text: str, beam: int = 1) -> str:
    """What the native engine writes for a text."""
    (translation,) = Translator.load(run, engine="native").translate([text.strip()], beam_size=beam)
    return translation.text


def source_words(run: Path) -> Words:
    """The words of TEXT, and the tokens of each."""
    tokenizer = Translator.load(run).tokenizer
    return Words.of((*tokenizer.labels(tokenizer.encode(TEXT)), "<eos>"), TEXT, spaced=True)


def letters(text: str) -> str:
    """What an untrained model writes, without what cannot be seen, which the page makes visible."""
    return "".join(character for character in text if character.isascii() and character.isalnum())


# a translator ---------------------------------------------------------------------------------------------------------


def test_it_translates_what_is_typed_as_the_native_engine_does(page: Watched, trained: Path) -> None:
    assert page.page.input_value("#text") == TEXT
    for text in (*TEXTS, "the dog"):
        type_text(page, text)
        assert page.text("#target-text") == written(trained, text) != ""
    page.click('[data-value="5"]')
    ready(page)
    assert page.text("#target-text") == written(trained, "the dog", 5)
    assert page.text("#engine-line").startswith("WebAssembly SIMD, float32, ")
    assert page.text("#notice") == ""


def test_every_sentence_is_translated_and_the_chosen_one_shown(
    browser: Browser, file: Path, page: Watched, trained: Path
) -> None:
    lines = ["THE OLD DOG!", "\U0001f600 the king"]
    type_text(page, "\n".join(lines))
    assert page.text("#target-text").split("\n") == [written(trained, line) for line in lines]
    assert page.page.locator("#pieces bdi").all_inner_texts()[::2] == lines
    # the sentence at the caret is shown, until another is chosen
    assert page.text(".column.right .token >> nth=1") == "▁king"
    page.click("#pieces button >> nth=0")
    ready(page)
    assert page.page.locator("#pieces [aria-pressed=true]").count() == 1
    assert "▁king" not in page.page.locator(".column.right .token").all_inner_texts()
    page.click("#pieces button >> nth=1")
    ready(page)
    with watched(browser, file, fragment=page.page.evaluate("location.hash.slice(1)")) as other:
        ready(other)
        assert other.text(".column.right .token >> nth=1") == "▁king"
    type_text(page, "\U0001f600 12!", "copied")
    assert page.text("#target-text") == "\U0001f600 12!"
    assert "No words" in page.text("#notice")


def test_the_maps_are_those_of_the_sentence(page: Watched, trained: Path) -> None:
    """The heat map's readout of a typed sentence says the weights that PyTorch finds for the same pair."""
    type_text(page, "the old dog hears a star")
    translator = Translator.load(trained, engine="torch")
    maps = Attending(translator).forced("the old dog hears a star", written(trained, "the old dog hears a star")).maps
    weights = np.mean([each.weights for each in maps if each.kind == "cross"], axis=0)
    page.page.locator(".column.left .token").first.hover()
    listed = page.page.locator("#readout ul").first
    values = [float(each) for each in listed.locator("li:not(.more) b").all_text_contents()]
    assert values == pytest.approx(sorted(weights[0], reverse=True)[: len(values)], abs=0.006)


def test_without_worker_and_webassembly_it_says_so(browser: Browser, file: Path, trained: Path) -> None:
    with watched(browser, file, before=NO_WORKER) as page:
        ready(page)
        assert page.text("#target-text") == written(trained, TEXT)
        assert "starts no worker" in page.text("#notice")
        assert "no WebAssembly with SIMD" in page.text("#notice")
        assert page.text("#engine-line").startswith("JavaScript, ")


def test_what_is_typed_before_the_model_is_there_is_read(browser: Browser, file: Path, trained: Path) -> None:
    for fragment in ("", "text=the+star"):
        with watched(browser, file, before=HASTE, fragment=fragment) as page:
            ready(page)
            assert page.page.input_value("#text") == "the dog"
            assert page.text("#target-text") == written(trained, "the dog")
            assert page.text(".picture h2").startswith("Cross-attention")


def test_every_tab_is_computed_live(page: Watched, trained: Path) -> None:
    page.click("#tab-decoding")
    assert page.count(".tree .node") > 2
    page.click("#tab-heads")
    page.page.wait_for_selector(".square")
    assert page.count(".square") == 6
    page.click("#tab-importance")
    page.page.wait_for_selector(".compared")
    assert page.texts(".compared thead th") == ["Source token", "Attention", "Occlusion"]
    translator = Translator.load(trained, engine="torch")
    source, fed = translator.encode(TEXT), translator.target_tokenizer.encode(written(trained, TEXT))
    lost = np.abs(occlusion(translator.model, torch.tensor([*source, EOS_ID]), torch.tensor([BOS_ID, *fed, EOS_ID])))
    shown = [float(each) for each in page.texts(".compared tbody tr td:last-child small")]
    np.testing.assert_allclose(shown, lost[0] / lost[0].sum(), atol=0.006)


def test_a_head_that_is_kept_off_is_off_everywhere_until_its_chip_is_clicked(page: Watched, trained: Path) -> None:
    page.click("#tab-heads")
    page.page.wait_for_selector(".square")
    squares = page.page.locator(".square")
    titles = [squares.nth(number).get_attribute("title") or "" for number in range(6)]
    changing = next(number for number, title in enumerate(titles) if ": 0 of" not in title)
    squares.nth(changing).click()
    parts = page.texts("#new-translation > :is(span:not(.muted), ins)")
    assert page.count("#new-translation del") > 0
    ((kind, layer, head),) = re.findall(r"(.+), layer (\d+), head (\d+):", titles[changing])
    before, after = re.findall(r"(?:< )?[\d.]+%", page.text("#sure-without"))
    page.click("#keep-off")
    page.page.wait_for_selector(".chip")
    ready(page)
    without = page.text("#target-text")
    assert without == " ".join(parts) != written(trained, TEXT)
    assert "off=" in page.page.url
    assert page.text("#score").endswith(f"probability {after}")
    page.click("#tab-maps")
    page.click(f'[aria-label="Kind"] [title="{kind}"]')
    page.click(f'[aria-label="Layer"] [data-value="{int(layer) - 1}"]')
    assert page.texts(".heads .is-off") == [head]
    assert page.text("#off-note").startswith(f"Head {head}, off: drawn grey and dashed")
    assert page.count(".wires [stroke-dasharray]") > 0
    page.page.reload()
    ready(page)
    assert page.text("#target-text") == without
    page.click(".chip")
    page.page.wait_for_selector(".chip", state="detached")
    ready(page)
    assert page.text("#target-text") == written(trained, TEXT)
    assert page.text("#score").endswith(f"probability {before}")
    assert page.count(".is-off") == 0


def test_the_address_holds_the_sentence(browser: Browser, file: Path, trained: Path, page: Watched) -> None:
    type_text(page, "Yes & no?")
    fragment = page.page.url.split("#")[1]
    with watched(browser, file, fragment=fragment) as other:
        ready(other)
        assert other.page.input_value("#text") == "Yes & no?"
        assert other.text("#target-text") == page.text("#target-text")
    with watched(browser, file, fragment="off=cross.9.9 encoder-self.0.x __proto__.0.0&beam=999") as other:
        ready(other)
        assert other.count(".chip") == 0
        assert other.text("#target-text") == written(trained, TEXT)


def test_examples_and_keys(page: Watched) -> None:
    page.page.locator("body").click(position={"x": 2, "y": 2})
    page.press("n")
    page.until("(text) => document.querySelector('#text').value === text", TEXTS[1])
    ready(page)
    page.press("/")
    assert page.run("document.activeElement.id") == "text"
    page.press("x", "e", "Escape")
    assert page.page.input_value("#text").startswith(TEXTS[1] + "x")
    page.page.locator("body").click(position={"x": 2, "y": 2})
    page.press("e")
    assert page.text(".picture h2").startswith("Encoder self-attention")
    page.press("g")
    assert page.text("#text-label") == "Bir cümle yazın"


def test_a_changed_model_is_read_again_and_restored(page: Watched, browser: Browser, file: Path, trained: Path) -> None:
    """With every score times 0 all keys weigh the same; a hidden word gets nothing; the address keeps both."""
    page.click("#experiment summary")
    page.page.locator("#beta").fill("0")
    ready(page)
    page.click('[data-value="encoder-self"]')
    page.page.locator(".column.left .token").first.hover()
    count = page.count(".column.left .token")
    listed = page.page.locator("#readout ul").first.locator("li:not(.more) b").all_text_contents()
    assert {float(each) for each in listed} == {round(1 / count, 2)}
    hidden = int(source_words(trained).members[1].sum())
    page.click(".hide-word[data-word='1']")
    ready(page)
    page.page.locator(".column.left .token").first.hover()
    listed = page.page.locator("#readout ul").first.locator("li:not(.more) b").all_text_contents()
    assert {float(each) for each in listed} == {round(1 / (count - hidden), 2)}
    fragment = page.page.url.split("#")[1]
    assert "beta=0" in fragment
    assert "hidden=1" in fragment
    with watched(browser, file, fragment=fragment) as other:
        ready(other)
        assert other.page.input_value("#beta") == "0"
        assert other.page.locator(".hide-word[aria-pressed=true]").count() == 1
        assert other.text("#target-text") == page.text("#target-text")
    page.click("#restore")
    ready(page)
    assert page.text("#target-text") == written(trained, TEXT)


def test_six_steps_show_the_cell_that_was_clicked(page: Watched, trained: Path) -> None:
    page.click('[data-value="encoder-self"]')
    page.page.locator(".column.left .token").nth(1).click()
    page.click("#show-six")
    page.page.wait_for_selector("#six6")
    explained = explain_cell(Translator.load(trained, engine="torch"), TEXT, MapName("encoder", 0, "self"), 0, "2")
    weights = [float(each) for each in page.texts(".cell-table td small")]
    assert weights == pytest.approx(explained.trace.trace.weights.tolist(), abs=6e-4)
    score, weight = explained.trace.trace.scores[2], explained.trace.trace.weights[2]
    page.page.locator(".six .tokens").nth(1).locator(".token").nth(2).click()
    page.until("() => document.querySelectorAll('.cell-table tr.best').length === 1")
    page.until(f"() => document.querySelector('#six4 .formula').textContent.endsWith('{weight:.3f}')")
    assert float(page.text("#six2 .formula").rsplit(" = ", 1)[1].replace("−", "-")) == pytest.approx(score, abs=0.006)


def test_six_steps_open_at_the_strongest_key(page: Watched, trained: Path) -> None:
    """Without a cell that was chosen, and of a row that was: the key that this head looks at most."""
    maps = Attending(Translator.load(trained, engine="torch")).forced(TEXT, written(trained, TEXT)).maps
    (first, *_) = [each.weights for each in maps if each.kind == "cross"]
    chosen = """[...document.querySelectorAll('.six .tokens')]
        .map((list) => [...list.children].findIndex((node) => node.matches('.chosen')))"""
    page.click("#tab-six")
    page.page.wait_for_selector("#six6")
    assert page.run(chosen) == [0, first[0].argmax()]
    page.page.locator(".six .tokens").first.locator(".token").nth(2).click()
    page.until("() => document.querySelector('#six1')")
    assert page.run(chosen) == [2, first[2].argmax()]
    page.click("#tab-maps")
    page.page.locator(".column.right .token").nth(1).click()
    page.click("#show-six")
    page.page.wait_for_selector("#six6")
    assert page.run(chosen) == [first[:, 1].argmax(), 1]
    type_text(page, "the dog")
    page.page.wait_for_selector("#six6")
    maps = Attending(Translator.load(trained, engine="torch")).forced("the dog", written(trained, "the dog")).maps
    (first, *_) = [each.weights for each in maps if each.kind == "cross"]
    assert page.run(chosen) == [0, first[0].argmax()]


def test_the_sentences_of_the_beam_are_those_of_the_native_engine_and_the_step_stays(
    page: Watched, trained: Path
) -> None:
    (best,) = Translator.load(trained, engine="native").translate([TEXT], beam_size=5, n_best=5)
    page.click("#tab-decoding")
    page.click("#forward")
    page.click("#forward")
    assert page.count("#hypotheses tbody tr") == 1
    page.click("#wider-beam")
    page.page.wait_for_selector("#hypotheses tbody tr:nth-child(5)")
    assert page.text(".step-title").startswith("Step 3 of")
    expected = [best, *best.alternatives]
    assert page.texts("#hypotheses tbody button") == [one.text for one in expected]
    scores = [float(each.replace("−", "-")) for each in page.texts("#hypotheses tbody td:nth-child(5)")]
    assert scores == pytest.approx([one.score for one in expected], abs=0.006)
    page.click("#hypotheses tbody tr:nth-child(3) button")
    page.click("#show-hypothesis")
    page.page.wait_for_selector("#best-again")
    ready(page)
    assert page.text("#target-text") == expected[2].text
    assert page.texts(".written >> nth=0 >> .said") == [*expected[2].tokens, "<eos>"]
    assert page.text(".step-title").startswith("Step 3 of")
    page.click("#tab-heads")
    page.page.wait_for_selector(".square")
    page.click(".square")
    assert page.text("#without .line") == expected[0].text
    page.click("#tab-decoding")
    page.click("#best-again")
    ready(page)
    assert page.text("#target-text") == expected[0].text
    page.click('[aria-label="Search"] [data-value="1"]')
    ready(page)
    assert page.text(".step-title").startswith("Step 3 of")
    type_text(page, "the dog")
    assert page.text(".step-title").startswith("Step 1 of")


def test_the_page_that_computes_names_roles_and_the_guided_head(
    browser: Browser, trained: Path, tmp_path: Path
) -> None:
    model = open_for_web(trained, "float32")
    path = tmp_path / "page.html"
    path.write_text(
        live_page(replace(model, details={**model.details, "guided": (0, 1)}), examples=TEXTS), encoding="utf-8"
    )
    with watched(browser, path) as page:
        ready(page)
        lines = page.texts("#roles .roles li")
        assert len(lines) == model.settings["num_heads"]
        assert all(re.fullmatch(r"Head \d: (nowhere in particular|[\w ]+ [\d.]+%)", line) for line in lines), lines
        page.click("#show-guided")
        assert page.text(".picture h2") == "Encoder self-attention · Layer 1"
        assert page.texts('[aria-label="Heads"] [aria-pressed="true"]') == ["2"]
        page.click('[data-head="0"]')
        assert page.texts('[aria-label="Heads"] [aria-pressed="true"]') == ["1"]


def test_positions_are_drawn_and_can_be_left_out(page: Watched, trained: Path) -> None:
    page.click("#tab-positions")
    page.page.wait_for_selector("#positions-panel canvas")
    label = page.page.locator("#positions-panel canvas").get_attribute("aria-label") or ""
    assert f"{len(Translator.load(trained).tokenizer.encode(TEXT)) + 1} rows" in label
    page.click("#experiment summary")
    page.click("#positions-switch")
    ready(page)
    assert "switched off" in page.text("#positions-panel")
    exchanged = " ".join(reversed(TEXT.split()))
    type_text(page, TEXT)
    without = page.text("#target-text")
    type_text(page, exchanged)
    assert page.text("#target-text") == without


SECOND = {"text": TEXTS[1], "tab": "decoding", "beam": 5, "beta": 2, "hide": [TEXTS[1].split()[0]]}
LESSON = {
    "title": {"en": "Of order", "tr": "Sıra"},
    "steps": [
        {
            "heading": {"en": "One", "tr": "Bir"},
            "text": {"en": "First <b>", "tr": "Bir"},
            "question": {
                "text": {"en": "Which head?"},
                "hints": {"en": ["Look at <i>"]},
                "kind": "head",
                "right": ["2.1"],
                "weight": 0.9,
            },
            "set": {"text": TEXT, "tab": "six", "kind": "encoder-self", "look": TEXT.split()[1]},
        },
        {"heading": {"en": "Two"}, "text": {"en": "Second", "tr": "İki"}, "set": SECOND},
    ],
}


def test_a_lesson_sets_the_page_and_leaves_it_to_the_reader(browser: Browser, trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "lesson.html"
    path.write_text(live_page(open_for_web(trained), examples=TEXTS, lesson=LESSON), encoding="utf-8")
    with watched(browser, path) as page:
        ready(page)
        page.page.wait_for_selector("#six6")
        assert page.text("#lesson-text") == "First <b>"
        chosen = "[...document.querySelector('.six .tokens').children].findIndex((node) => node.matches('.chosen'))"
        assert page.run(chosen) == source_words(trained).members[1].argmax()
        page.page.fill("#lesson-answer", "1.2")
        page.click("#lesson-check")
        assert page.text("#lesson-verdict") == "Not so; look again."
        page.click("#lesson-hint")
        assert page.text("#lesson-hints") == "Look at <i>"
        page.page.fill("#lesson-answer", "L2 H1")
        page.press("Enter")
        assert page.text("#lesson-verdict") == "Right: 2.1. (0.90)"
        page.page.emulate_media(media="print")
        assert page.page.locator("#worksheet article").count() == 2
        assert page.page.locator("#worksheet").is_visible()
        assert not page.page.locator("#translator").is_visible()
        page.page.emulate_media(media="screen")
        page.click("#lesson-next")
        page.page.wait_for_selector("#stage .stepper")
        assert page.page.input_value("#text") == TEXTS[1]
        assert (page.text("#lesson-text"), page.page.input_value("#beta")) == ("Second", "2")
        assert page.page.locator(".hide-word[aria-pressed=true]").get_attribute("data-word") == "0"
        assert page.page.locator('[data-value="5"]').get_attribute("aria-pressed") == "true"
        assert page.page.locator("#lesson-next").is_disabled()
        type_text(page, "the dog")
        page.press("Escape")
        page.click("#lesson-back")
        page.page.wait_for_selector("#six6")
        assert (page.page.input_value("#text"), page.page.input_value("#beta")) == (TEXT, "1")
        page.click("#language")
        assert page.text("#lesson-text") == "Bir"


# what is refused, and what is hostile ---------------------------------------------------------------------------------


def test_empty_and_endless_texts_get_a_plain_sentence(page: Watched) -> None:
    type_text(page, "   ", "empty")
    assert page.text("#notice").startswith("Type a sentence")
    assert not page.page.locator("#stage").is_visible()
    type_text(page, f"{TEXT}. " * 1_500)
    # the caret is at its end
    cut = re.search(r"Sentences ([\d,]+) to 1,500 of 1,500 are read, those around the caret\.", page.text("#notice"))
    assert cut, page.text("#notice")
    assert page.page.locator("#pieces li").count() == 1_501 - int(cut[1].replace(",", "")) > 10
    # lines of one word each: few tokens, but many lines to draw
    type_text(page, "dog\n" * 1_000)
    assert page.page.locator("#pieces li").count() == 100
    type_text(page, "x" * 150_000, "tooLong")
    assert "far longer than the 4000 tokens" in page.text("#notice")
    type_text(page, TEXT)
    assert page.text("#notice") == ""
    type_text(page, "the 漢字 cat")
    assert "Hardly ever seen in training" in page.text("#notice")
    assert "漢 字" in page.text("#notice")


def hostile_texts(count: int) -> list[str]:
    generator = random.Random(11)
    mixed = ["".join(generator.choices(NASTY, k=4)) for _ in range(count - len(NASTY) - 1)]
    # half a surrogate pair cannot be sent to a browser as text
    texts = [text.encode("utf-8", "replace").decode() for text in [*NASTY, *mixed]]
    return [*texts, "a\u202eb " * 12_500]


def longest_task(events: list[dict[str, Any]]) -> tuple[float, int]:
    """Milliseconds of processor time of the longest task of a page's main thread, and how many tasks there were.

    The clock on the wall would count what other programs take from the browser.
    """
    mains = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    times = [event["tdur"] / 1000 for event in events if "tdur" in event and (event["pid"], event["tid"]) in mains]
    return max(times), len(times)


@pytest.mark.nightly
def test_processor_time_of_the_main_thread_alone_is_a_freeze(browser: Browser, file: Path) -> None:
    # a task has a duration only once it has ended: the answer comes from later ones
    freeze = """async () => {
        const end = performance.now() + 600;
        while (performance.now() < end) Math.sqrt(2);
        for (let task = 0; task < 5; task++) await new Promise((resolve) => setTimeout(resolve, 20));
    }"""
    with watched(browser, file) as page:
        ready(page)
        browser.start_tracing(page=page.page, categories=["toplevel", "__metadata"])
        page.run(freeze)
        longest, _ = longest_task(json.loads(browser.stop_tracing())["traceEvents"])
    assert longest > 100


@pytest.mark.parametrize(
    ("before", "ending"), [("", "\n"), ("delete window.Worker;", " "), ("delete window.Worker;", ", and ")]
)
def test_fifty_thousand_characters_are_read_in_slices(browser: Browser, file: Path, before: str, ending: str) -> None:
    """In one line, in many, and in one sentence, in a worker and in the page itself, which reads as slowly."""
    typing = """(text) => new Promise((resolve, reject) => {
        const field = document.getElementById("text");
        field.focus();
        field.setRangeText(text, 0, field.value.length, "end");
        // who looked afterwards could come when the page has read it
        new MutationObserver(() => resolve()).observe(document.body, { attributeFilter: ["data-busy"] });
        setTimeout(() => reject(new Error("the page does not begin")), 120_000);
        field.dispatchEvent(new Event("input", { bubbles: true }));
    })"""
    text = (f"{TEXT}." if ending != ", and " else TEXT) + ending
    with watched(browser, file, before=before) as page:
        ready(page)
        browser.start_tracing(page=page.page, categories=["toplevel", "__metadata"])
        try:
            page.run(typing, (text * 2_000)[:50_000])
            ready(page)
        finally:
            trace = browser.stop_tracing()
        longest, count = longest_task(json.loads(trace)["traceEvents"])
        assert "those around the caret" in page.text("#notice")
    assert count > 50
    assert longest < 150


@pytest.mark.nightly
def test_three_hundred_hostile_inputs_are_inert_and_freeze_nothing(browser: Browser, file: Path) -> None:
    typing = """async (texts) => {
        const field = document.getElementById("text");
        for (const text of texts) {
            field.value = text;
            field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
            do await new Promise((resolve) => setTimeout(resolve, 5)); while (document.body.hasAttribute("data-busy"));
        }
        return document.querySelectorAll("img, iframe, object, svg [onload], script").length;
    }"""
    with watched(browser, file) as page:
        ready(page)
        scripts = page.run("document.scripts.length")
        browser.start_tracing(page=page.page, categories=["toplevel", "__metadata"])
        try:
            assert page.run(typing, hostile_texts(300)) == scripts
            type_text(page, TEXT)
        finally:
            trace = browser.stop_tracing()
        longest, count = longest_task(json.loads(trace)["traceEvents"])
        assert count > 300
        assert longest < 200


def test_a_phone_never_scrolls_sideways(browser: Browser, file: Path) -> None:
    with watched(browser, file, width=360, height=740, touch=True) as page:
        ready(page)
        for tab in ("maps", "decoding", "heads", "importance"):
            page.click(f"#tab-{tab}")
            page.page.wait_for_selector("#stage progress", state="detached")
            assert page.run("document.documentElement.scrollWidth") == 360, tab


# the other kinds ------------------------------------------------------------------------------------------------------


def test_the_page_of_a_classifier_shows_classes_and_the_words_that_decide(browser: Browser, tmp_path: Path) -> None:
    run = classifier_run(tmp_path / "run")
    path = tmp_path / "page.html"
    path.write_text(live_page(open_for_web(run, "float32"), examples=[ENGLISH]), encoding="utf-8")
    (expected,) = Classifier.load(run).classify([ENGLISH])
    with watched(browser, path) as page:
        ready(page)
        assert page.text("#target-text") == expected.label
        shares = dict(zip(page.texts("#classes bdi"), map(float, page.texts("#classes b")), strict=True))
        assert shares == pytest.approx(expected.probabilities, abs=0.006)
        page.page.wait_for_selector("#deciding")
        assert page.texts(".deciding") == ENGLISH.split()
        page.click("#tab-maps")
        assert page.text(".picture h2") == "Encoder self-attention · Layer 2"
        assert page.count('[data-value="cross"]') == 0


def test_the_page_of_a_language_model_shows_what_may_follow_and_writes_on(browser: Browser, tmp_path: Path) -> None:
    run = language_model_run(tmp_path / "run")
    path = tmp_path / "page.html"
    path.write_text(live_page(open_for_web(run, "float32"), examples=["Two men"]), encoding="utf-8")
    model = Generator.load(run)
    with watched(browser, path) as page:
        ready(page)
        page.page.wait_for_selector("#choices li")
        before = [float(each) for each in page.texts("#choices b")]
        page.page.locator("#temperature").fill("0")
        page.until("document.querySelectorAll('#choices li').length === 1")
        assert page.texts("#choices b") == ["1.00"]
        assert before[0] < 1
        page.click("#write")
        page.page.wait_for_selector("#write:not([disabled])")
        ((continuation,),) = model.generate(["Two men"], options=GenerationOptions(temperature=0, max_tokens=60))
        assert letters(page.text("#written-text")) == letters(continuation.text) != ""
        page.page.locator("#topK").fill("3")
        page.page.locator("#temperature").fill("1")
        page.until("document.querySelectorAll('#choices li').length === 3")
        page.click("#tab-maps")
        assert page.text(".picture h2") == "Decoder self-attention · Layer 2"


def test_of_a_long_text_a_language_model_reads_what_is_before_the_caret(browser: Browser, tmp_path: Path) -> None:
    run = language_model_run(tmp_path / "run")
    path = tmp_path / "page.html"
    path.write_text(live_page(open_for_web(run, "float32"), examples=["Two men"]), encoding="utf-8")
    model = Generator.load(run)
    text = "Two men are outside near the house . " * 8
    half = len(text) // 2
    with watched(browser, path) as page:
        ready(page)
        # what follows differs clearly after different tokens
        page.page.locator("#temperature").fill("0.05")
        for caret in (len(text), half):
            page.page.fill("#text", text)
            page.page.focus("#text")
            page.run("(at) => document.getElementById('text').setSelectionRange(at, at)", caret)
            page.press("Enter")
            ready(page)
            ids = model.tokenizer.encode(text[:caret])
            said = f"The model reads the last 24 of the {len(ids)} tokens before the caret, since its context holds 24."
            assert said in page.text("#notice")
            with torch.no_grad():
                logits = model.model(torch.tensor([ids[-24:]]))[0, -1] / 0.05
            logits[list(model.special_tokens.never_written)] = -torch.inf
            shares = logits.softmax(-1).sort(descending=True).values[:12].tolist()
            page.page.wait_for_selector("#choices li")
            assert [float(each) for each in page.texts("#choices b")] == pytest.approx(shares, abs=0.006)
        page.click("#write")
        page.page.wait_for_selector("#append:not([disabled])")
        page.click("#append")
        page.until("(length) => document.querySelector('#text').value.length > length", len(text))
        value = page.page.input_value("#text")
        assert (value[:half], value[half - len(text) :]) == (text[:half], text[half:])


def bells_and_letters(path: Path) -> Path:
    """A language model that draws a bell, which cannot be seen, or a "z" with equal probability, and never an end."""
    run = RunDirectory(language_model_run(path, output_bias=True, tie_embeddings=False))
    weights = run.load_weights()
    entries = json.loads(run.tokenizer.read_text(encoding="utf-8"))["model"]["vocab"]
    weights["output_weight"].zero_()
    # "ć" is how a vocabulary of bytes spells byte 7
    weights["output_bias"].fill_(-1000)[[entries["ć"], entries["z"]]] = 0
    run.save_weights(weights, read_metadata(run.weights))
    return path


def test_what_a_language_model_writes_is_appended_as_it_is(browser: Browser, tmp_path: Path) -> None:
    """On a phone, where each slider has its name; what cannot be seen is shown as a sign, and appended as it is."""
    run = bells_and_letters(tmp_path / "run")
    path = tmp_path / "page.html"
    path.write_text(live_page(open_for_web(run, "float32"), examples=["Two men"]), encoding="utf-8")
    with watched(browser, path, width=360, height=740, touch=True) as page:
        ready(page)
        for name in page.page.locator(".slider .label").all():
            box = name.bounding_box()
            assert box is not None
            assert box["x"] >= 0
        page.click("#write")
        page.page.wait_for_selector("#append:not([disabled])")
        shown = page.text("#written-text")
        page.click("#append")
        page.until("document.querySelector('#text').value.length > 7")
        value = page.page.input_value("#text")
    # of sixty draws one half each: neither is missing but once in 10^18 times
    assert set(shown) == {"z", "\u2407"}
    assert value == "Two men" + shown.replace("\u2407", "\a")
