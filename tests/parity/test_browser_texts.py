"""500 held-out sentences, greedily, in headless Chromium and in Node: what the native engine writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from tests.browser_engine import in_node
from tests.system.chromium import chromium
from tests.system.served_module import translated_in_browser
from tests.unit.tasks.test_training import Watcher

from dikkat import Translator
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.train import train
from dikkat.tasks.translation.prepare import TrainRequest
from dikkat.tasks.translation.train import TranslatorJob
from dikkat.web.module import write_module
from dikkat.web.opening import open_for_web
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.text.text_files import read_lines

pytestmark = pytest.mark.nightly
QUICKSTART = Path(__file__).resolve().parents[2] / "runs" / "quickstart-fr"
COUNT = 500
DIFFERENT: dict[PrecisionName, int] = {"float32": 0, "int8": 2}
"""At most so many texts: none in float32, one in 200 in int8, where a rounding may fall the other way."""
IN_NODE = """
return [core, engine.SCALAR].map((products) => {
  const model = new engine.TranslatorModel(engine.readModelFile(bytes("./run.model")), products);
  const written = (text) => finished(model.search(model.sourceTokenizer.encode(text))).tokens;
  return input.map((text) => model.targetTokenizer.decode(written(text)));
});
"""
"""What the WebAssembly core writes, then plain JavaScript."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as result:
        yield result


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quickstart run of this checkout, or else a smaller one that has learned to translate.

    A model of 150 updates, which is unsure of many words, differed in 8: the bound is for one that has learned.
    """
    if (QUICKSTART / "card.md").exists():
        return QUICKSTART
    path = tmp_path_factory.mktemp("run") / "run"
    settings: dict[str, dict[str, Any]] = {"training": {"max_updates": 1200, "validations": 1}}
    train(TranslatorJob(TrainRequest(["phrasebook:fr"], preset="tiny", settings=settings)), path, Watcher())
    return path


@pytest.fixture(scope="module")
def texts(run: Path) -> list[str]:
    lines = list(islice(read_lines(RunDirectory.open(run).held_out("test", "source")), COUNT))
    assert len(lines) == COUNT
    return lines


def native_texts(run: Path, precision: PrecisionName, texts: Sequence[str]) -> list[str]:
    """What the native engine writes greedily at this precision."""
    native = Translator.load(run, engine="native", precision=precision)
    memory = native.engine.encode(native.tokenizer.encode_batch(list(texts)))
    hypotheses = [best for (best, *_) in native.engine.search(memory, BeamOptions(beam_size=1))]
    return [native.target_tokenizer.decode(each.tokens) for each in hypotheses]


def different(written: Sequence[str], expected: Sequence[str]) -> list[tuple[str, str]]:
    return [pair for pair in zip(written, expected, strict=True) if pair[0] != pair[1]]


@pytest.mark.parametrize("precision", DIFFERENT)
def test_chromium_writes_what_the_native_engine_writes(
    browser: Browser, run: Path, texts: list[str], tmp_path: Path, precision: PrecisionName
) -> None:
    write_module(open_for_web(run, precision), tmp_path / "module")
    native = Translator.load(run, engine="native", precision=precision)
    expected = [translation.text for translation in native.translate(texts, beam_size=1)]
    for simd, engine in ((True, "WebAssembly SIMD"), (False, "JavaScript")):
        found = translated_in_browser(browser, tmp_path / "module", texts, simd=simd)
        assert found["engine"] == engine
        wrong = different(found["translations"], expected)
        assert len(wrong) <= DIFFERENT[precision], wrong


@pytest.mark.parametrize("precision", DIFFERENT)
def test_node_writes_what_the_native_engine_writes(
    run: Path, texts: list[str], tmp_path: Path, precision: PrecisionName
) -> None:
    expected = native_texts(run, precision, texts)
    for written in in_node(tmp_path / "node", IN_NODE, texts, run=open_for_web(run, precision).encode()):
        wrong = different(written, expected)
        assert len(wrong) <= DIFFERENT[precision], wrong
