"""The page in a real browser: every control works, hostile texts stay texts, and nobody else is asked."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.runs import SENTENCES
from tests.runtime.server.process import started
from tests.unit.explain.payloads import PAYLOADS

pytest.importorskip("playwright", reason="needs playwright, of the extra [test]")

from playwright.sync_api import Browser, Dialog, FilePayload, Page, Route, expect
from tests.system.chromium import chromium

FIRST, SECOND = SENTENCES[0], SENTENCES[1]
# five seconds are not enough on a machine that does something else
expect.set_options(timeout=120_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as result:
        yield result


@pytest.fixture(scope="module")
def address(runs: dict[str, Path]) -> Iterator[str]:
    arguments = [f"en-fr={runs['mt']}", f"mood={runs['cl']}", f"lm={runs['lm']}", "--beam", "2"]
    with started(*arguments) as (_, result):
        yield result


def dismissed(wrong: list[str], dialog: Dialog) -> None:
    """Note a dialog that should not have come, and close it."""
    wrong.append(f"dialog: {dialog.message}")
    dialog.dismiss()


@contextmanager
def opened(browser: Browser, address: str, **settings: Any) -> Iterator[Page]:
    """The page; at the end no error, no dialog and no request to anybody else may have been seen."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
    page, wrong = context.new_page(), list[str]()
    page.on("console", lambda message: wrong.append(f"console {message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", partial(dismissed, wrong))
    ours = (address, "blob:")
    page.on("request", lambda request: None if request.url.startswith(ours) else wrong.append(request.url))
    page.set_default_timeout(120_000)
    try:
        page.goto(f"{address}/")
        yield page
    finally:
        context.close()
    assert wrong == []


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with opened(browser, address) as result:
        yield result


def translated(page: Page, text: str) -> None:
    page.get_by_label("Text to translate").fill(text)
    expect(page.locator(".sentence").first).to_be_visible()
    expect(page.locator("#translation")).to_have_attribute("aria-busy", "false")


def test_a_text_is_translated_while_it_is_typed_and_cleared(page: Page) -> None:
    # the whole of it: whoever types slowly is answered a part of it before
    with page.expect_request(lambda request: json.loads(request.post_data or "{}").get("text") == f"{FIRST} "):
        page.get_by_label("Text to translate").press_sequentially(f"{FIRST} ", delay=15)
    expect(page.locator("#translation")).to_have_attribute("aria-busy", "false")
    expect(page.locator(".sentence")).to_have_count(1)
    with page.expect_request("**/page/translate") as asked:
        page.get_by_label("Text to translate").press_sequentially(SECOND, delay=5)
    expect(page.locator(".sentence")).to_have_count(2)
    assert FIRST in json.loads(asked.value.post_data or "")["known"]
    expect(page.locator(".sentence[aria-pressed=true]")).to_have_count(1)
    assert page.locator(".counter").text_content() == f"{len(FIRST) + 1 + len(SECOND)} of 50,000"
    page.locator("#clear").click()
    expect(page.locator(".sentence")).to_have_count(0)
    expect(page.locator(".details")).to_be_hidden()


def test_sentences_are_chosen_with_the_keys_and_other_translations_taken_and_copied(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    translated(page, f"{FIRST} {SECOND}")
    page.locator(".sentence").first.click()
    expect(page.locator(".source-sentence")).to_have_text(FIRST)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".source-sentence")).to_have_text(SECOND)
    expect(page.locator(".sentence").nth(1)).to_be_focused()
    other = page.locator(".alternative").first.text_content()
    page.locator(".alternative").first.click()
    expect(page.locator(".sentence").nth(1)).to_have_text(str(other))
    page.locator("#copy").click()
    expect(page.locator("#copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#translation").text_content()


def test_a_translation_of_ones_own_is_completed_and_used(page: Page) -> None:
    translated(page, FIRST)
    own = page.get_by_label("Your own translation")
    expect(own).to_have_value(str(page.locator(".sentence").text_content()))
    own.fill("Le petit")
    # until the answer is there the hidden button holds what was typed, and nothing of its own
    expect(page.locator("#completion")).to_be_visible()
    whole = str(page.locator("#completion").text_content()).removesuffix("Tab")
    assert whole.startswith("Le petit")
    own.press("Tab")
    expect(own).to_have_value(whole)
    page.locator("#use-own").click()
    expect(page.locator(".sentence")).to_have_text(whole)
    expect(page.locator("#use-own")).to_be_disabled()


def test_a_correction_is_saved_and_used_from_then_on(browser: Browser, runs: dict[str, Path], tmp_path: Path) -> None:
    copy = shutil.copytree(runs["mt"], tmp_path / "mt")
    with started(f"en-fr={copy}", "--corrections") as (_, address), opened(browser, address) as page:
        translated(page, FIRST)
        page.get_by_label("Your own translation").fill("Mon chat dort.")
        page.locator("#keep").click()
        expect(page.locator("#keep")).to_be_disabled()
        expect(page.locator(".sentence")).to_have_text("Mon chat dort.")
        page.reload()
        translated(page, FIRST)
        expect(page.locator(".sentence")).to_have_text("Mon chat dort.")


def test_attention_is_shown_as_links_and_heat_maps_of_every_head(page: Page) -> None:
    translated(page, FIRST)
    expect(page.locator(".thumbnail")).to_have_count(2 * (4 + 1))
    targets = page.locator(".column.target .token")
    count = targets.count()
    targets.first.focus()
    expect(targets.first).to_have_class("token chosen")
    expect(page.locator(".readout")).to_contain_text("looks at")
    page.keyboard.press("ArrowDown")
    expect(targets.nth(1)).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".readout")).to_contain_text("is looked at by")
    page.get_by_role("button", name="Layer 1, head 2").click()
    expect(page.locator(".picture-title")).to_have_text("Layer 1, head 2")
    page.get_by_role("button", name="Subwords", exact=True).click()
    expect(page.get_by_role("button", name="Subwords", exact=True)).to_have_attribute("aria-pressed", "true")
    assert targets.count() >= count
    page.get_by_role("button", name="Heat map").click()
    canvas = page.locator(".heat-map canvas")
    assert "Layer 1, head 2" in str(canvas.get_attribute("aria-label"))
    canvas.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".readout b")).to_be_visible()


def test_terms_are_used_as_they_are_written(page: Page) -> None:
    translated(page, SECOND)
    page.locator("summary").click()
    page.get_by_label("One term a line").fill("keys = clefs à molette\nhalf a line")
    expect(page.get_by_role("group", name="Translation").first).to_contain_text("clefs à molette")
    expect(page.locator(".badge")).to_have_text("1 terms")


def test_documents_are_sent_watched_fetched_and_removed(page: Page) -> None:
    page.get_by_role("tab", name="Documents").click()
    files = [
        {"name": "a.txt", "mimeType": "text/plain", "buffer": f"{FIRST}\n".encode()},
        {"name": "<b>.html", "mimeType": "text/html", "buffer": f"<p>{FIRST}</p>".encode()},
    ]
    page.set_input_files("#files", files=files)  # type: ignore[arg-type]
    expect(page.locator(".document.done")).to_have_count(2)
    assert page.locator(".file-name").all_text_contents() == ["<b>.html", "a.txt"]
    with page.expect_download() as download:
        page.get_by_role("button", name="Download: a.txt").click()
    assert download.value.suggested_filename == "a.txt"
    assert Path(download.value.path()).read_text(encoding="utf-8").endswith("\n")
    page.get_by_role("button", name="Remove: a.txt").click()
    expect(page.locator(".document")).to_have_count(1)
    page.set_input_files("#files", files=[FilePayload(name="a.exe", mimeType="x/y", buffer=b"MZ")])
    expect(page.get_by_role("alert")).to_contain_text("a.exe: this kind of file")
    text = "".join(f"{FIRST} {number}\n" for number in range(4000))
    page.set_input_files("#files", files=[FilePayload(name="b.txt", mimeType="text/plain", buffer=text.encode())])
    expect(page.locator("progress")).to_be_visible()
    page.get_by_role("button", name="Cancel: b.txt").click()
    expect(page.locator(".document")).to_have_count(1)


def test_texts_are_classified_written_on_and_compared(page: Page) -> None:
    page.get_by_role("tab", name="Classify").click()
    page.get_by_label("Text to classify").fill("a great film")
    expect(page.locator("#classes li")).to_have_count(3)
    shares = [float(text.removesuffix(" %")) for text in page.locator("#classes b").all_text_contents()]
    assert sum(shares) == pytest.approx(100, abs=0.3)
    page.get_by_role("tab", name="Write").click()
    page.get_by_label("Beginning of the text").fill("Yes")
    page.get_by_label("Tokens at most").fill("5")
    page.get_by_label("Seed").fill("3")
    page.locator("#start").click()
    expect(page.locator("#written")).to_have_attribute("aria-busy", "false")
    once = page.locator("#written").text_content()
    assert str(once).startswith("Yes")
    page.locator("#start").click()
    expect(page.locator("#written")).to_have_text(str(once), use_inner_text=False)
    page.get_by_label("Tokens at most").fill("4000")
    page.locator("#start").click()
    page.locator("#stop").click()
    expect(page.locator("#stop")).to_be_disabled()
    page.get_by_role("tab", name="Compare").click()
    page.get_by_label("Texts, one a line").fill(f"{FIRST}\n{FIRST}\n{SECOND}")
    expect(page.locator(".cosines td")).to_have_count(3 * 3 + 1)
    assert page.locator(".cosines tbody tr").first.locator("td").all_text_contents()[:2] == ["1.00", "1.00"]
    page.get_by_role("combobox", name="Model").select_option("mood")
    expect(page.locator(".cosines")).to_be_visible()


def test_the_page_speaks_turkish_is_dark_fits_a_phone_and_remembers(browser: Browser, address: str) -> None:
    phone = {"viewport": {"width": 360, "height": 740}, "locale": "tr-TR", "color_scheme": "dark", "is_mobile": True}
    with opened(browser, address, **phone) as page:
        expect(page.get_by_role("tab", name="Çeviri")).to_be_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 20, 22)"
        page.get_by_label("Çevrilecek metin").fill(f"{FIRST} {SECOND}")
        expect(page.locator(".thumbnail").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.get_by_role("button", name="Show the page in English").click()
        expect(page.get_by_role("tab", name="Translate")).to_be_visible()
        expect(page.get_by_label("Text to translate")).to_have_value(f"{FIRST} {SECOND}")
        page.locator("#theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(245, 246, 244)"
        page.reload()
        expect(page.get_by_role("tab", name="Translate")).to_be_visible()
        assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_tabs_help_and_the_way_around_go_by_keys(page: Page) -> None:
    page.get_by_role("tab", name="Translate").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="Compare")).to_be_focused()
    assert page.url.endswith("#compare")
    page.get_by_role("button", name="Keys and hints").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


NAMELESS = """() => {
  const labels = (node) => [...(node.labels ?? [])].map((label) => label.textContent.trim()).join("");
  const controls = "button, input, select, textarea, [role=button], summary, progress";
  return [...document.querySelectorAll(controls)].filter((node) => !node.closest("[hidden]"))
    .filter((node) => !(node.getAttribute("aria-label") || node.textContent.trim() || labels(node)))
    .map((node) => node.outerHTML);
}"""


def test_every_control_has_a_name(page: Page) -> None:
    translated(page, FIRST)
    expect(page.locator(".thumbnail").first).to_be_visible()
    for name in ("Translate", "Documents", "Classify", "Write", "Compare"):
        page.get_by_role("tab", name=name).click()
        nameless = page.evaluate(NAMELESS)
        assert nameless == []


def test_a_server_that_asks_for_a_key_gets_it(browser: Browser, runs: dict[str, Path], tmp_path: Path) -> None:
    from dikkat_runtime.server.keys import new_key

    key = new_key(tmp_path / "keys", "me")
    context = browser.new_context()
    with started(f"en-fr={runs['mt']}", "--keys", tmp_path / "keys") as (_, address):
        page = context.new_page()
        page.goto(f"{address}/")
        page.get_by_label("API key").fill("wrong")
        page.get_by_role("button", name="Use this key").click()
        expect(page.get_by_role("alert")).to_contain_text("the API key is not known")
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Use this key").click()
        translated(page, FIRST)
    context.close()


# hostile texts

TEXTS = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in PAYLOADS]


def answers(route: Route) -> None:
    """A server whose every word is hostile: models, sentences, tokens, classes, errors."""
    path = route.request.url.partition("/page/")[2] or route.request.url.rpartition("/")[2]
    fields = json.loads(route.request.post_data or "{}") if route.request.method == "POST" else {}
    if path == "models":
        model = {"name": TEXTS[0], "kind": "translator", "source": "en", "target": "fr", "attention": True}
        others = [{"name": TEXTS[1], "kind": "classifier"}, {"name": TEXTS[2], "kind": "classifier"}]
        most = {"most_characters": 9**9, "most_bytes": 1, "most_alternatives": 3, "most_tokens": 9}
        messages = {"version": "", "models": [model, *others], "detects": False, "files": TEXTS[:9]}
        route.fulfill(json=messages | most)
    elif path == "translate":
        parts = [{"source": text, "target": text, "alternatives": [text]} for text in TEXTS]
        route.fulfill(json={"model": TEXTS[0], "source": "en", "parts": parts})
    elif path == "attention":
        side = {"tokens": [fields["target"], "<b>"], "words": [fields["target"], "<b>"], "word_of": [0, 1]}
        weights = base64.b64encode(bytes([255, 0, 0, 255])).decode()
        route.fulfill(json={"source": side, "target": side, "layers": 1, "heads": 1, "weights": weights})
    elif path == "predict":
        route.fulfill(json=[{"label": text, "score": 1 / len(TEXTS)} for text in TEXTS])
    else:
        route.fulfill(status=400, json={"error": TEXTS[0]})


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.nightly), 8])
def test_two_hundred_hostile_texts_stay_texts(browser: Browser, address: str, step: int) -> None:
    """All are shown at once, and every `step`-th is chosen."""
    assert len(TEXTS) >= 200
    context = browser.new_context()
    page, wrong = context.new_page(), list[str]()
    page.on("console", lambda message: wrong.append(message.text) if "400 (Bad" not in message.text else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", partial(dismissed, wrong))
    page.on("request", lambda request: None if request.url.startswith(address) else wrong.append(request.url))
    page.route(re.compile("/page/(?!files)"), answers)
    page.route("**/predict", answers)
    page.route("**/v1/embeddings", answers)
    page.goto(f"{address}/")
    page.locator("textarea").first.fill("x")
    expect(page.locator(".sentence")).to_have_count(len(TEXTS))
    shown = page.evaluate("[...document.querySelectorAll('.sentence')].map((node) => node.textContent)")
    assert shown == TEXTS
    assert page.evaluate("document.querySelectorAll('.sentence *').length") == 0
    tags = page.evaluate(MARKUP)
    for number, text in list(enumerate(TEXTS))[::step]:
        page.evaluate("(number) => document.querySelectorAll('.sentence')[number].click()", number)
        assert page.evaluate("document.querySelector('.source-sentence').textContent") == text
        assert page.evaluate("document.querySelector('.alternative').textContent") == text
        assert set(page.evaluate(MARKUP)) <= set(tags) | ATTENTION
    page.locator("#tab-classify").click()
    page.locator("textarea").fill("x")
    expect(page.locator("#classes li")).to_have_count(len(TEXTS))
    assert page.evaluate("[...document.querySelectorAll('#classes bdi')].map((node) => node.textContent)") == TEXTS
    page.locator("#tab-compare").click()
    page.locator("textarea").fill("x\ny")
    expect(page.get_by_role("alert")).to_have_text(TEXTS[0])
    context.close()
    assert wrong == []


MARKUP = "[...new Set([...document.querySelectorAll('body *')].map((node) => node.localName))].sort()"
ATTENTION = {"svg", "g", "path", "bdi", "i", "canvas", "b", "figure", "figcaption"}
"""Elements that are drawn once there is attention; <b> holds a number."""
