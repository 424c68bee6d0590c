"""The pages of imported classifiers, taggers and regressions, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.parity.test_browser_encoders import made
from tests.system.chromium import Watched, chromium, watched
from tests.system.test_live_page import ready, type_text

from dikkat.web.opening import open_for_web
from dikkat.web.page import live_page
from dikkat_runtime.tasks.classifier import Classifier, Regressor
from dikkat_runtime.tasks.tagger import Tagger

TEXT = "Two men play chess, isn't it? 日本語"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def opened(browser: Browser, run: Path, text: str = TEXT) -> Iterator[Watched]:
    file = run.parent / "page.html"
    file.write_text(live_page(open_for_web(run, "float32"), examples=[text]), encoding="utf-8")
    with watched(browser, file) as page:
        ready(page)
        yield page


def test_a_tagger_marks_what_the_native_engine_marks(browser: Browser, tmp_path: Path) -> None:
    _, run = made("bert", "tagger", tmp_path)
    (spans,) = Tagger.load(run).tag([TEXT])
    assert spans
    for page in opened(browser, run):
        assert page.texts("#spans mark > bdi") == [span.text for span in spans]
        assert page.texts("#spans mark > small") == [span.label for span in spans]
        page.click("#tab-maps")
        assert page.text(".picture h2") == "Encoder self-attention · Layer 3"
        page.click("#tab-six")
        page.page.wait_for_selector("#six6")
        type_text(page, "<b>a</b> [CLS] 🙂")
        page.click("#tab-spans")
        (again,) = Tagger.load(run).tag(["<b>a</b> [CLS] 🙂"])
        assert page.texts("#spans mark > bdi") == [span.text for span in again]
        type_text(page, "word " * 200, "tooLong")
        type_text(page, " ", "empty")


def test_a_regression_shows_its_number(browser: Browser, tmp_path: Path) -> None:
    _, run = made("mpnet", "regressor", tmp_path)
    ((expected,),) = [list(numbers.values()) for numbers in Regressor.load(run).predict([TEXT])]
    for page in opened(browser, run):
        assert float(page.text("#numbers b").replace("−", "-")) == pytest.approx(expected, abs=1e-4)
        page.click("#tab-six")
        page.page.wait_for_selector("#six6")
        # its formula has what the distance adds, and ends in what the model itself computed
        assert "What is added belongs to the distance" in page.text("#six3")
        assert "at most 0e" in page.text("#six6") or "e-" in page.text("#six6") or "e−" in page.text("#six6")


def test_an_imported_classifier_shows_classes_words_and_heads_off(browser: Browser, tmp_path: Path) -> None:
    _, run = made("electra", "classifier", tmp_path)
    (expected,) = Classifier.load(run).classify([TEXT])
    for page in opened(browser, run):
        assert page.text("#target-text") == expected.label
        shares = dict(zip(page.texts("#classes bdi"), map(float, page.texts("#classes b")), strict=True))
        assert shares == pytest.approx(expected.probabilities, abs=0.006)
        page.page.wait_for_selector("#deciding")
        assert page.texts(".deciding") == ["Two", "men", "play", "chess,", "isn't", "it?", "日", "本", "語"]
        page.page.locator("#experiment summary").click()
        assert page.texts(".hide-word") == ["Two", "men", "play", "chess,", "isn't", "it?", "日", "本", "語"]
        page.page.locator(".hide-word").first.click()
        ready(page)
        page.click("#tab-maps")
        assert page.count(".picture") == 1
