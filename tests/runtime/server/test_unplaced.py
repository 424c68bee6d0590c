"""The terms that translations lack are found for each text of a request, in a time that grows with its length alone."""

from __future__ import annotations

import time

from dikkat_runtime.server.marked_up import unplaced_terms
from dikkat_runtime.text.glossary import Term

CAT, DOG = Term("cat", ("chat",)), Term("dog", ("chien",))


def test_each_text_lacks_the_terms_of_its_own_segments() -> None:
    segments = {"A cat.": (CAT,), "A dog & a cat.": (DOG, CAT), "A": (DOG,)}
    texts = ["I see. <b>A</b> cat.", "A dog &amp;\na cat.", "a cat.", "see a <i>d</i>og", ""]
    assert unplaced_terms(texts, {"A cat.": (CAT,), "A dog & a cat.": (DOG, CAT)}) == [
        (CAT,), (DOG, CAT), (), (), (),
    ]  # fmt: skip
    assert unplaced_terms(texts, segments) == [(DOG, CAT), (DOG, CAT), (), (), ()]
    assert unplaced_terms(texts, {}) == [()] * 5


def test_four_times_as_many_texts_take_about_four_times_as_long() -> None:
    def seconds(count: int) -> float:
        texts = [f"Where is the {number}th cat?" for number in range(count)]
        began = time.process_time()
        assert unplaced_terms(texts, dict.fromkeys(texts, (CAT,))) == [(CAT,)] * count
        return time.process_time() - began

    assert min(seconds(16_000), seconds(16_000)) < 8 * max(seconds(4000), seconds(4000))
