"""What is odd about a table of labelled texts is said."""

from __future__ import annotations

import random
import time

import pytest

from dikkat.config import DataConfig
from dikkat.data.labelled import LabelledText, require_classes, split_remarks, table_remarks, texts_seen
from dikkat.data.labelled_splitting import split_labelled
from dikkat_runtime.errors import DataError


def rows(*pairs: tuple[str, str]) -> list[LabelledText]:
    return [LabelledText((label,), text, line) for line, (label, text) in enumerate(pairs, start=1)]


PLAIN = [("pos" if n % 2 else "neg", f"text {n} of many") for n in range(20)]


def test_nothing_is_said_of_a_plain_table() -> None:
    require_classes(rows(*PLAIN), "data.tsv")
    assert table_remarks(rows(*PLAIN)) == []
    assert split_remarks(rows(*PLAIN), rows(("pos", "new"), ("neg", "newer"))) == []


def test_an_id_column_is_no_class() -> None:
    wanted = (
        "data.tsv: 20 different labels on 20 texts, such as “0”, “1”: that looks like a column of ids or texts; name"
        " the right one with --label-column"
    )
    with pytest.raises(DataError) as caught:
        require_classes(rows(*((str(n), f"text {n}") for n in range(20))), "data.tsv")
    assert str(caught.value) == wanted
    require_classes(rows(*((str(n), f"text {n}") for n in range(4))), "data.tsv")
    with pytest.raises(DataError, match=r"^data.tsv: 10,001 different labels on 20,002 texts, such as “id 0”, “id 1”:"):
        require_classes(rows(*((f"id {n % 10_001}", f"text {n}") for n in range(20_002))), "data.tsv")


def test_a_column_of_quantities_is_not_one_of_classes() -> None:
    prices = rows(*((f"{n % 80 / 10}", f"text {n}") for n in range(800)))
    with pytest.raises(
        DataError, match=r"^data.tsv: 80 different numbers for labels, such as “0.0”, “0.1”: that looks like"
    ):
        require_classes(prices, "data.tsv")
    require_classes(rows(*((f"{n % 10}", f"text {n}") for n in range(800))), "data.tsv")
    require_classes(rows(*((f"room {n % 80}", f"text {n}") for n in range(800))), "data.tsv")


def test_a_text_is_not_its_own_label() -> None:
    with pytest.raises(DataError, match=r"^data.tsv: each label is its text; choose two columns with --label-column"):
        require_classes(rows(*((f"text {n}", f"text {n}") for n in range(20))), "data.tsv")


@pytest.mark.parametrize(
    ("pairs", "remark"),
    [
        (
            [("Sınıflandırma", "Yorumlar"), *PLAIN],
            "line 1 looks like a header: its label “Sınıflandırma” occurs nowhere else; remove the line if it is one",
        ),
        ([*PLAIN, ("once", "a text of its own")], "class “once” has a single text"),
        (
            [*PLAIN, ("neg", "text 1 of many")],
            "1 text came before with another label, such as line 21: “text 1 of many”",
        ),
        (
            [(str(n // 2), f"text {n}") for n in range(20)],
            "10 different labels on 20 texts: few texts to learn each from",
        ),
    ],
)
def test_what_is_odd_is_said(pairs: list[tuple[str, str]], remark: str) -> None:
    assert remark in table_remarks(rows(*pairs))


def test_validation_that_tells_little() -> None:
    train = rows(*PLAIN, ("rare", "one"))
    assert split_remarks(train, train) == [
        "all 21 validation texts are in the training data too: scores on them do not say how well new texts are"
        " classified"
    ]
    some = rows(("pos", "text 1 of many"), ("neg", "a new one"), ("neg", "text 2"))
    assert texts_seen(train, some) == 1
    assert split_remarks(train, some) == [
        "1 of 3 validation texts are in the training data too: scores on them do not say how well new texts are"
        " classified",
        "no validation text of “rare”: macro F1 is over the other 2",
    ]


def test_labels_that_differ_only_in_case_are_told() -> None:
    texts = [LabelledText((label,), f"text number {n}", n) for n, label in enumerate(["POS", "neg", "pos", "neg"] * 5)]
    assert "the labels “POS”, “pos” differ only in case, and are two classes" in table_remarks(texts)


def test_the_time_of_a_split_does_not_grow_with_the_square_of_the_labels() -> None:
    """Counted over all labels for each text, these would take minutes."""
    generator = random.Random(1)
    texts = rows(*((f"label {n % 10_000}", " ".join(generator.choices("abcdefghij", k=12))) for n in range(20_000)))
    started = time.process_time()
    held_out = split_labelled(texts, DataConfig(), seed=1)
    assert time.process_time() - started < 20
    assert len(held_out.validation) >= 1_000
