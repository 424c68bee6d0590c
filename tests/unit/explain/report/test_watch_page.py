"""The page that follows a run, at its start, in its middle and at its end."""

from __future__ import annotations

import numpy as np
from tests.unit.explain.report.inspection import Seen, seen

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.report.run_page import MAX_LENGTH, REFRESH, Followed, Look, watch_page

HOSTILE = '</bdi></figure><script>alert(1)</script><img src=x onerror="alert(2)">'
ROWS = [
    {"step": 100 * n, "epoch": n, "train_loss": 5.0 / n, "valid_loss": 6.0 / n, "chrf": 10.0 * n, "bleu": 2.0 * n}
    for n in (1, 2, 3)
]


def look(number: int) -> Look:
    cross = AttentionMap(
        np.eye(2, 3, dtype=np.float32), ("<bos>", HOSTILE), ("a", HOSTILE, "<eos>"), "decoder", 1, None, "cross"
    )
    return Look(f"{HOSTILE} {number}", cross)


def followed() -> list[Followed]:
    return [Followed(f"source {n}", f"reference {n}", tuple((row, look(n)) for row in ROWS)) for n in range(3)]


def refreshes(found: Seen) -> list[str | None]:
    return [item["content"] for item in found.named("meta") if item.get("http-equiv") == "refresh"]


def test_a_running_run_shows_every_validation_and_loads_itself_again() -> None:
    result = seen(watch_page("my run", "update 300", ROWS, followed(), running=True))
    assert refreshes(result) == [str(REFRESH)]
    assert len(result.named("figure")) == 9
    for message in ("my run", "update 300", "source 2", "reference 0", "update 200, chrF 20.0", f"{HOSTILE} 1"):
        assert message in result.text
    cells = [item for item in result.named("rect") if item.get("class") == "cell"]
    assert len(cells) == 9 * 2
    curves = [item for item in result.named("circle") if item["class"] in ("f0", "f1")]
    assert len(curves) == 3 * 4


def test_a_translation_without_end_is_clipped() -> None:
    cross = look(0).cross
    page = watch_page("r", "s", ROWS, [Followed("a", "b", ((ROWS[0], Look("o" * 500, cross)),))], running=True)
    assert "o" * (MAX_LENGTH - 1) + "…" in seen(page).text
    assert "o" * MAX_LENGTH not in page


def test_a_finished_run_stands_still() -> None:
    assert refreshes(seen(watch_page("my run", "finished", ROWS, followed(), running=False))) == []


def test_before_the_first_validation_there_is_a_page_too() -> None:
    result = seen(watch_page("my run", "stopped", [], [], running=False))
    assert "stopped" in result.text
    assert not result.named("svg")
