"""The teaching pages say what is so: every snippet runs, prints what stands below it and draws the picture shown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tests.command_lines import names
from tests.docs.pages import ROOT, Snippet, broken_links, commands, links, outputs, snippets

FOLDER = ROOT / "docs" / "attention"
PAGES = ("weighted-sum", "by-hand", "order-and-cost", "six-steps", "translator")
TRAINING_PAGES = ("six-steps", "translator")
SAMPLED_PAGES = [pytest.param(name, marks=pytest.mark.nightly) if name in TRAINING_PAGES else name for name in PAGES]
"""Those that train for as long as all others take run in the nightly."""
LANGUAGES = ("en", "tr")
MAX_PICTURE_SIZE = 60_000

RIGHT_FORMS = {
    "weighted-sum": {
        "F7": ("that of the query at hand", "eldeki sorgunun genişliğidir"),
        "F9": (r"a_s \ge 0", r"a_s \ge 0"),
        "F10": ("not rotations", "döndürme değildir"),
    },
    "by-hand": {
        "F15": ("starts from random values as well", "da rastgele değerlerle başlar"),
        "F16": ("[0.3990, 0.3854, 0.8610]", "[0.3990, 0.3854, 0.8610]"),
        "F17": ("all three matrices are trained", "üç matris de eğitilir"),
        "F18": ("masked_fill", "masked_fill"),
        "F19": (r"division by $\sqrt{K}$", r"$\sqrt{K}$ ile bölmeyi"),
        "F20": ("Three heads do not divide 8", "Üç kafa 8'i bölmez"),
        "F23": ("must be left out", "dışarıda bırakılmalı"),
    },
    "order-and-cost": {"F26": ("4 n d^2 > 2 n^2 d", "4 n d^2 > 2 n^2 d")},
    "six-steps": {
        "F28": ("never trained", "hiç eğitilmez"),
        "F29": ("Nothing makes it so", "Bunu sağlayan hiçbir şey yoktur"),
        "F30": ("here each has a name", "burada her birinin adı vardır"),
        "F31": ("each **sub-layer**", "Her **alt katmandan** sonra"),
    },
    "translator": {
        "F35": ("length of the cache", "önbelleğin uzunluğu"),
        "F36": ("always masks", "her zaman maskeler"),
    },
}
"""What the note about each fault must say, in English and in Turkish."""

_NOTE = re.compile(r"^> \*\*[^*]*\((F\d+)\)\.\*\*.*\n(?:>.*\n)*", re.MULTILINE)
_DECIMAL = re.compile(r"-?\d+\.\d+(?:e[+-]\d+)?")


def page(name: str, language: str) -> Path:
    return FOLDER / (f"{name}.md" if language == "en" else f"{name}.{language}.md")


def run_snippets(name: str, language: str) -> list[Snippet]:
    """The blocks that run: python, and the console blocks whose output is shown."""
    result = snippets(page(name, language), "python", "console")
    return [item for item in result if item.language == "python" or item.printed is not None]


@dataclass(frozen=True)
class Run:
    """Where both twins of a page were run, and what each block printed."""

    folder: Path
    printed: dict[tuple[str, str], str]

    def output(self, snippet: Snippet) -> str:
        return self.printed[snippet.language, snippet.text]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Runs a page once for both languages: their python is the same, their commands stand side by side."""
    done: dict[str, Run] = {}

    def run_page(name: str) -> Run:
        if name not in done:
            folder = tmp_path_factory.mktemp(name)
            (folder / "images").mkdir()
            pairs = zip(run_snippets(name, "en"), run_snippets(name, "tr"), strict=True)
            todo = [item for one, other in pairs for item in ((one,) if one.text == other.text else (one, other))]
            printed = outputs(todo, folder)
            done[name] = Run(
                folder, {(item.language, item.text): text for item, text in zip(todo, printed, strict=True)}
            )
        return done[name]

    return run_page


def agrees(printed: str, shown: str, snippet: Snippet) -> bool:
    """Whether a page shows what was printed, character by character.

    A trained model is read in float32, whose last digit depends on the processor: there a decimal may be one unit of
    its last place off, and what is below 1e-6 is rounding.
    """
    if not ("--run" in snippet.text and snippet.language == "console"):
        return printed == shown
    if _DECIMAL.sub("#", printed) != _DECIMAL.sub("#", shown):
        return False
    return all(map(one_unit_apart, _DECIMAL.findall(printed), _DECIMAL.findall(shown)))


def one_unit_apart(one: str, other: str) -> bool:
    if "e" in one:
        return max(abs(float(one)), abs(float(other))) < 1e-6
    return abs(float(one) - float(other)) < 1.5 * 10 ** -len(one.partition(".")[2])


@pytest.mark.seed("F14")
@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", SAMPLED_PAGES)
def test_every_snippet_runs_and_prints_what_stands_below_it(
    name: str, language: str, run: Callable[[str], Run]
) -> None:
    """The seed's snippets lack imports, indentation, or what an earlier one defines."""
    for snippet in run_snippets(name, language):
        printed, shown = run(name).output(snippet), snippet.printed or ""
        assert agrees(printed, shown, snippet), f"{snippet.page}:{snippet.line} printed\n{printed}not\n{shown}"


def test_a_number_that_is_off_is_found() -> None:
    python = Snippet("page.md", "python", "print(0.5)", 1, "0.5\n")
    trained = Snippet("page.md", "console", "$ dikkat explain x --run it\n", 1, "0.5000 1.2e-07\n")
    assert agrees("0.5\n", "0.5\n", python)
    assert not agrees("0.5\n", "0.6\n", python)
    assert agrees("0.5001 3.0e-08\n", "0.5000 1.2e-07\n", trained)
    for printed in ("0.5002 1.2e-07\n", "0.5000 1.2e-05\n", "0.5000 1.2e-07 0.1\n", "-0.5000 1.2e-07\n"):
        assert not agrees(printed, "0.5000 1.2e-07\n", trained), printed


def pixels(picture: Path) -> NDArray[np.float64]:
    with Image.open(picture) as image:
        return np.asarray(image.convert("RGB"), dtype=np.float64)


def pictures(name: str, language: str) -> list[str]:
    return [link for link in links(page(name, language)) if link.startswith("images/")]


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED_PAGES)
def test_every_picture_is_the_one_that_the_page_draws(name: str, run: Callable[[str], Run]) -> None:
    shown = pictures(name, "en")
    assert shown
    assert shown == pictures(name, "tr")
    assert sorted(f"images/{path.name}" for path in (run(name).folder / "images").iterdir()) == sorted(shown)
    for picture in shown:
        kept, drawn = pixels(FOLDER / picture), pixels(run(name).folder / picture)
        assert kept.shape == drawn.shape, picture
        assert drawn.std() > 10.0, f"{picture} is blank"
        # fonts and smoothing may differ a little between versions
        assert np.abs(kept - drawn).mean() < 2.0, f"{picture} is not what the page draws"


def test_every_kept_picture_is_shown_and_small() -> None:
    kept = sorted(f"images/{path.name}" for path in (FOLDER / "images").iterdir())
    assert kept == sorted(picture for name in PAGES for picture in pictures(name, "en"))
    for picture in kept:
        assert (FOLDER / picture).stat().st_size < MAX_PICTURE_SIZE, picture


@pytest.mark.parametrize("name", PAGES)
def test_the_twins_share_their_code(name: str) -> None:
    english, turkish = (snippets(page(name, language), "python") for language in LANGUAGES)
    assert english
    assert [item.text for item in english] == [item.text for item in turkish]
    commands_in = [len(snippets(page(name, language), "console")) for language in LANGUAGES]
    assert commands_in[0] == commands_in[1]
    headings = [re.findall(r"^(#+) ", page(name, language).read_text("utf-8"), re.MULTILINE) for language in LANGUAGES]
    assert headings[0] == headings[1]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [*PAGES, "README"])
def test_every_command_shown_is_one_that_there_is(name: str, language: str) -> None:
    """Also of those that are not run here, since what they print depends on the machine."""
    known = names()
    for snippet in snippets(page(name, language), "console"):
        for program, command, *_ in commands(snippet.text):
            assert program == "dikkat", snippet.line
            assert command in known, snippet.line


@pytest.mark.seed(
    "F7", "F9", "F10", "F15", "F16", "F17", "F18", "F19", "F20", "F23", "F26", "F28", "F29", "F30", "F31", "F35", "F36"
)
@pytest.mark.parametrize("place", [0, 1], ids=LANGUAGES)
@pytest.mark.parametrize("name", PAGES)
def test_are_told_right(name: str, place: int) -> None:
    text = page(name, LANGUAGES[place]).read_text("utf-8")
    notes = {result[1]: " ".join(result[0].replace("\n> ", " ").split()) for result in _NOTE.finditer(text)}
    assert notes.keys() == RIGHT_FORMS[name].keys()
    for fault, forms in RIGHT_FORMS[name].items():
        assert forms[place] in notes[fault], fault


@pytest.mark.seed("F16")
def test_the_sum_of_the_exact_addends() -> None:
    """The seed adds up rounded weights: its sum is off in the fourth decimal, the page's is not."""
    words = np.array([[0.34, 0.22, 0.54], [0.53, 0.34, 0.98], [0.29, 0.54, 0.93]])
    exponentials = np.array([math.exp(score) for score in words @ words[1]])
    context = exponentials / exponentials.sum() @ words

    def is_right(page_text: str) -> bool:
        return "[" + ", ".join(f"{number:.4f}" for number in context) + "]" in page_text

    assert not is_right("[0.3992, 0.3858, 0.8610]")
    for language in LANGUAGES:
        assert is_right(next(item.printed or "" for item in snippets(page("by-hand", language), "console")))


@pytest.mark.seed("F24")
def test_turkish_pages_use_the_terms_of_the_turkish_textbook() -> None:
    seed = "pozitif kodlama, kendi kendine dikkat, şamandıra, dikkat havuzu"

    def mistakes(text: str) -> list[str]:
        wrong = ("pozitif kodlama", "kendine dikkat", "şamandıra", "dikkat havuz", "kod çözücü", "çok başlı")
        return [term for term in wrong if term in text.lower()]

    assert mistakes(seed)
    text = "".join(page(name, "tr").read_text("utf-8") for name in (*PAGES, "README"))
    assert mistakes(text) == []
    for term in ("özdikkat", "çapraz dikkat", "konumsal kodlama", "kodlayıcı", "kodçözücü", "ışın arama"):
        assert term in text.lower(), term
    for term in ("dikkat ortaklaması", "kayan noktalı sayı", "çok kafalı dikkat", "bağlam vektörü"):
        assert term in text.lower(), term


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_contents_name_every_page_and_no_link_is_broken(language: str) -> None:
    contents = page("README", language)
    named = [link for link in links(contents) if link in {page(name, language).name for name in PAGES}]
    assert named == [page(name, language).name for name in PAGES]
    for item in (contents, *(page(name, language) for name in PAGES)):
        assert broken_links(item) == [], item.name
    readme = ROOT / contents.name
    assert str(contents.relative_to(ROOT)) in links(readme)
