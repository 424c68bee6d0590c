"""The page reads what the runtime reads: placeholders, addresses, units, symbols and capitals, anywhere in a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.browser_engine import in_node
from tests.parity.test_same_answers import AS_WRITTEN, untold_run

from dikkat.web.opening import open_for_web
from dikkat_runtime.tasks import line_translation
from dikkat_runtime.tasks.translator import Translator

KEPT = [
    "{name}", "%1$s", "%(n)d", "${x}", "{{v}}", "%{count}", "{a}{b}", "%s%d", "a.b@c.org", "https://a.org/x?y=1",
    "www.a.org/b", "mailto:a@b.org", "5 km", "12\xa0€", "3,000 kg", "$5", "20 %", "9 °C", "😀", "🇫🇷", "★",
    "→", "\ue000", "\uf500", "¡", "{n, plural, one {a dog} other {dogs}}", "<b>", "&amp;", "№ 5", "Tom",
    "{Tom} Tom",
]  # fmt: skip
PLACES = [
    "{} the small cat is here.", "Where is {}?", "The {} sleeps.", "THE {} SLEEPS!", "My Old {} Runs Away",
    "“The cat {}.”", "The dog runs. {} sleeps.", "- [ ] {}: the cat", "The cat, {}, and {} too.", "{}",
]  # fmt: skip
TEXTS = [*AS_WRITTEN, *(place.replace("{}", kept) for place in PLACES for kept in KEPT)]
IN_NODE = """
const model = new engine.TranslatorModel(engine.readModelFile(bytes("./run.model")), core);
const read = ({ ids, text, read }) => (ids.length ? [read, ids] : [text, []]);
return input.map((line) => model.reading.lines(line).flatMap(({ pieces }) => pieces.map(read)));
"""


def read_here(run: Path, texts: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> list[list[list[object]]]:
    """What the runtime's model reads of each line: the text and the ids of every piece, no ids of a copied one."""
    found: list[list[list[object]]] = [[] for _ in texts]
    whole = line_translation.LineTranslator._parts

    def noted(
        self: line_translation.LineTranslator, lines: Sequence[line_translation._Line]
    ) -> list[line_translation._Part]:
        parts = whole(self, lines)
        for part in parts:
            request = part.request
            found[part.line.number].append([request.text, list(request.ids)] if request else [part.piece.text, []])
        return parts

    monkeypatch.setattr(line_translation.LineTranslator, "_parts", noted)
    Translator.load(run).translate(texts, beam_size=1)
    return found


@pytest.mark.parametrize(("languages", "several"), [(("en", "tr"), 0.0), (("tr", "de"), 0.5)])
def test_the_page_reads_every_line_as_the_runtime_does(
    languages: tuple[str, str], several: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(set(TEXTS)) > 350
    run = untold_run(tmp_path / "run", languages, several)
    expected = read_here(run, TEXTS, monkeypatch)
    written = in_node(tmp_path / "node", IN_NODE, TEXTS, run=open_for_web(run, "float32").encode())
    wrong = [row for row in zip(TEXTS, written, expected, strict=True) if row[1] != row[2]]
    assert wrong == []


def test_the_page_puts_each_placeholder_back_once(tmp_path: Path) -> None:
    run = untold_run(tmp_path / "run", ("en", "tr"), 0.0)
    body = """
    const model = new engine.TranslatorModel(engine.readModelFile(bytes("./run.model")), core);
    return input.map((line) => model.joined(finished(model.translate(model.reading.lines(line)))));
    """
    kept = ["{name}", "%1$s", "https://a.org/x?y=1", "a.b@c.org"]
    texts = [place.replace("{}", one) for place in PLACES for one in kept]
    for text, translation in zip(
        texts, in_node(tmp_path / "node", body, texts, run=open_for_web(run).encode()), strict=True
    ):
        for one in kept:
            assert translation.count(one) == text.count(one), (text, translation)
