"""Terms and prefixes by a decoder with written outputs: what is searched again, what counts, what is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.tasks.demand_keeping import DemandKeeper, PieceTranslator, Rewritten, answered_together
from dikkat_runtime.tasks.insertion import Incomplete
from dikkat_runtime.tasks.term_placement import Lacking
from dikkat_runtime.tasks.translations import PieceRequest, PieceResult, Translation, TranslationNotes, joined
from dikkat_runtime.text.demanded import Demanded
from dikkat_runtime.text.glossary import Term

FREE = "Le chien dort ici."
DOG = Demanded(("toutou",), 1, "term", "dog", ((4, 7),))
NAME = Demanded(("Tom",), 1, "placeholder", "Tom", ((0, 3),))


def translation(*texts: str) -> Translation:
    best, *others = (Translation(text, -1.0, tuple(text.split())) for text in texts)
    return Translation(best.text, best.score, best.tokens, tuple(others))


@dataclass
class Model:
    """Writes `free` texts, under constraints others, and puts terms in as a table says."""

    free: tuple[str, ...] = (FREE,)
    begun: tuple[str, ...] = ()
    """What it writes behind a prefix."""
    bound: tuple[str, ...] = ()
    """What it writes where terms are demanded."""
    placed: dict[str, str] = field(default_factory=dict)
    lossy: frozenset[str] = frozenset()
    asked: list[str] = field(default_factory=list)

    def decode(
        self, requests: Sequence[PieceRequest], numbers: Sequence[int], options: DecodingOptions, bound: bool
    ) -> list[Translation]:
        self.asked += ["free" if not bound else "terms" if request.demands else "prefix" for request in requests]
        assert bound or not any(request.prefix or request.demands for request in requests)
        texts = [self.free if not bound else self.bound if request.demands else self.begun for request in requests]
        count = options.n_best if isinstance(options, BeamOptions) else 1
        return [translation(*own[:count]) for own in texts]

    def insert(self, items: Sequence[Incomplete]) -> list[str]:
        return [f"{item.target[:-1]} {item.words[0].text}." for item in items]

    def put_terms(self, items: Sequence[Lacking]) -> list[str | None]:
        return [self.placed.get(item.target) for item in items]

    def loses(self, items: Sequence[Rewritten]) -> list[bool]:
        return [item.text in self.lossy for item in items]

    def results(self, *requests: PieceRequest, options: DecodingOptions | None = None) -> list[PieceResult]:
        keeper = DemandKeeper(self.insert, self.put_terms, self.loses, False)
        pieces = PieceTranslator(keeper, options or BeamOptions(), retry=False)
        (results,) = answered_together([pieces(requests, range(9))], lambda asked: [self.decode(*asked[0])])
        return results


def request(*demands: Demanded, prefix: str = "", is_closed: bool = False) -> PieceRequest:
    return PieceRequest("The dog sleeps here.", (5, 6), prefix, demands, is_closed)


def test_a_term_that_can_be_placed_needs_no_search() -> None:
    model = Model(placed={FREE: "Le toutou dort ici."})
    (result,) = model.results(request(DOG))
    assert result.translation == Translation("Le toutou dort ici.", -1.0, tuple(FREE.split()))
    assert (model.asked, result.changed, result.unmet) == (["free"], True, ())


def test_what_a_search_wrote_counts_only_where_it_lost_no_words() -> None:
    lossy, whole = "toutou ici.", "Le toutou y dort."
    model = Model(bound=(lossy, whole, "Le chien dort."), lossy=frozenset({lossy}))
    (result,) = model.results(request(DOG))
    assert (result.translation.text, result.translation.unplaced, result.changed) == (whole, (), True)
    assert model.asked == ["free", "terms"]


def test_a_line_that_would_lose_words_stays_and_names_its_term() -> None:
    model = Model(bound=("toutou ici.",), lossy=frozenset({"toutou ici."}))
    (result,) = model.results(request(DOG))
    assert result.translation.text == FREE
    assert result.translation.unplaced == (Term("dog", ("toutou",)),)
    assert result.translation.flags == ("term not placed",)
    assert (model.asked, result.changed, result.unmet) == (["free", "terms"], False, (DOG,))


def test_a_term_that_is_placed_too_often_is_not_as_demanded() -> None:
    model = Model(placed={FREE: "Le toutou dort toutou."}, bound=("toutou toutou.",))
    (result,) = model.results(request(DOG))
    assert (result.translation.text, result.unmet) == (FREE, (DOG,))


def test_placeholders_are_put_in_though_a_term_is_not() -> None:
    (result,) = Model(bound=("x",)).results(request(DOG, NAME))
    assert result.translation.text == "Le chien dort ici Tom."
    assert result.unmet == (DOG,)
    # a placeholder that came twice is worth other words, a term is not
    model = Model(free=("Tom et Tom.",), bound=("Tom.",), lossy=frozenset({"Tom."}))
    assert model.results(request(NAME))[0].translation.text == "Tom."


def test_alternatives_hold_what_is_demanded_too() -> None:
    model = Model(free=(FREE, "Un chien dort.", "Il dort."), placed={FREE: "Le toutou dort ici."}, bound=("toutou",))
    (result,) = model.results(request(DOG), options=BeamOptions(n_best=3))
    assert (result.translation.text, result.translation.alternatives) == ("Le toutou dort ici.", ())
    assert model.asked == ["free"]
    model = Model(bound=("toutou dort.", "Le chien.", "Le toutou."))
    (result,) = model.results(request(DOG), options=BeamOptions(n_best=3))
    assert [result.translation.text, *(other.text for other in result.translation.alternatives)] == [
        "toutou dort.",
        "Le toutou.",
    ]


@pytest.mark.parametrize("prefix", ["L", "Le ", "Le chien dort ici."])
def test_a_prefix_of_the_free_translation_gives_the_free_translation(prefix: str) -> None:
    model = Model(begun=("Le chien y dort.",))
    (result,) = model.results(request(prefix=prefix))
    assert result == PieceResult(translation(FREE))
    assert model.asked == ["free"]
    many = Model(begun=("Le chien y dort.", FREE, "Le chat dort."), free=(FREE, "Il dort."))
    (result,) = many.results(request(prefix="Le "), options=BeamOptions(n_best=3))
    assert result.translation == translation(FREE, "Le chien y dort.", "Le chat dort.")


def test_a_closed_prefix_that_the_free_translation_goes_on_with_is_searched() -> None:
    model = Model(begun=("Le chi dort ici.",))
    (result,) = model.results(request(prefix="Le chi", is_closed=True))
    assert (result.translation.text, model.asked) == ("Le chi dort ici.", ["free", "prefix"])


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_prefix_is_held_and_flagged_where_it_costs_words(is_lost: bool) -> None:
    text = "Monsieur ici."
    model = Model(begun=(text,), bound=("Monsieur toutou.",), lossy=frozenset({text} if is_lost else ()))
    (result,) = model.results(request(prefix="Monsieur"))
    assert result.translation.text == text
    assert result.translation.loses_words == is_lost
    assert result.translation.flags == (("words lost",) if is_lost else ())
    # with a term as well
    model.placed = {text: "Monsieur toutou ici."}
    (result,) = model.results(request(DOG, prefix="Monsieur"))
    assert (result.translation.text, result.translation.loses_words) == ("Monsieur toutou ici.", is_lost)


def test_a_line_has_the_terms_and_losses_of_its_pieces() -> None:
    dog, cat = Term("dog", ("toutou",)), Term("cat", ("minou",))
    parts = [
        Translation("a", -1.0, ("a",), unplaced=(dog,)),
        Translation("b", -1.0, ("b",), unplaced=(dog, cat), loses_words=True),
    ]
    line = joined(parts, 1.0)
    assert (line.unplaced, line.flags) == ((dog, cat), ("term not placed", "words lost"))
    assert joined([Translation("a", -1.0, ("a",))] * 2, 1.0).flags == ()


def test_notes_name_each_term_that_was_not_placed_with_its_lines() -> None:
    notes = TranslationNotes()
    cat = Demanded(("minou",), 1, "term", "cat")
    for line in range(1, 14):
        notes.demanded(line, [DOG, cat], [DOG] if line != 2 else [DOG, cat], changed=line == 1)
    notes.demanded(20, [NAME], [NAME], changed=False)
    assert notes.unplaced == {"dog → toutou": 13, "cat → minou": 1}
    assert notes.glossary_lines() == [
        "glossary: 26 terms in 13 texts, 1 of them changed to contain the required terms:"
        " dog → toutou (13), cat → minou (13)",
        "glossary: 14 terms not placed, since other words would be lost:"
        " dog → toutou (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …), cat → minou (line 2)",
    ]
    assert notes.glossary_lines(numbered=False)[1].endswith(": dog → toutou (13), cat → minou (1)")
    notes.add("words lost", 4)
    assert notes.lines()[0] == "1 line had a prefix after which the model lost words of the line (line 4)"
