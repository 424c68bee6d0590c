"""Faults of the seed documents in words, names and snippets: the faulty form fails, ours passes."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from tests.docs.pages import blocks
from torch import Tensor, nn

from dikkat.explain.explanation import as_table
from dikkat.explain.three_steps import render_three_steps
from dikkat.explain.trace import trace_cell
from dikkat.explain.word_vectors import known_vectors, split_words
from dikkat.nn import DecoderBlock, EncoderBlock, MultiHeadAttention
from dikkat.nn.functional import attention
from dikkat_runtime.localization import spoken_in
from dikkat_runtime.text.casing import lower

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


# F14: snippets are whole ----------------------------------------------------------------------------------------------


def global_names(table: symtable.SymbolTable) -> Iterator[str]:
    """Names that a snippet takes from outside its functions and classes."""
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module"):
            yield symbol.get_name()
    for child in table.get_children():
        yield from global_names(child)


def missing_names(snippets: Sequence[str]) -> list[str]:
    """Names that no snippet up to the one that uses them has defined. Raises `SyntaxError` for what is no Python."""
    known, missing = {*dir(builtins), "__file__", "__name__"}, []
    for code in snippets:
        table = symtable.symtable(code, "snippet", "exec")
        known |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
        missing += [name for name in global_names(table) if name not in known]
    return missing


def is_whole(snippets: Sequence[str]) -> bool:
    try:
        return missing_names(snippets) == []
    except SyntaxError:
        return False


F14 = {
    "an import is missing": ["inputs = torch.rand(6, 3)\nprint(inputs @ inputs.T)\n"],
    "indentation is lost": ["import torch\nclass Attention(torch.nn.Module):\ndef forward(self, x):\nreturn x\n"],
    "another snippet is needed": ["import torch\nprint(torch.stack(batch).shape)\n"],
}


@pytest.mark.seed("F14")
@pytest.mark.parametrize("fault", F14)
def test_a_faulty_snippet_is_found(fault: str) -> None:
    assert not is_whole(F14[fault])


@pytest.mark.seed("F14")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_snippet_of_our_pages_is_whole(page: Path) -> None:
    """That they run and print what stands below them is shown beside the pages (tests/docs)."""
    result = [block.text for block in blocks(page) if block.language == "python"]
    assert is_whole(result), missing_names(result)
    assert is_whole(["import torch\n", "batch = torch.ones(2)\n", "def f() -> int:\n    return len(batch)\n"])


# F23, F29: the first example ------------------------------------------------------------------------------------------

HELLO = ([0.34, 0.22, 0.54], [0.53, 0.34, 0.98], [0.29, 0.54, 0.93])


def silently_shortened(sentence: str) -> str:
    """Tokens and vectors side by side, up to the shorter of the two."""
    return "\n".join(f"{token} {vector}" for token, vector in zip(split_words(sentence), HELLO, strict=False))


def ours(sentence: str, language: str = "en") -> str:
    words = known_vectors(sentence)
    return as_table(render_three_steps(words, trace_cell(words.cell())).mapped(spoken_in(language)))


@pytest.mark.seed("F23")
def test_a_word_without_a_vector_is_named() -> None:
    def says_so(show: Callable[[str], str]) -> bool:
        return "!" in show("Hello shiny sun!").replace("Hello shiny sun!", "")

    assert not says_so(silently_shortened)
    assert says_so(ours)
    assert says_so(lambda sentence: ours(sentence, "tr"))


@pytest.mark.seed("F29")
def test_a_word_need_not_look_at_itself_most() -> None:
    """Hello looks at shiny (.3763 against .2709), and so does sun (.3874 against .3843)."""
    x = torch.tensor(HELLO)
    _, weights = attention(x, x, x, beta=1.0)
    assert not torch.equal(weights.argmax(-1), torch.arange(3)), "the seed's sentence"
    assert weights.argmax(-1).tolist() == [1, 1, 1]
    expected = torch.tensor([[0.2709, 0.3763, 0.3528], [0.2291, 0.4063, 0.3646], [0.2283, 0.3874, 0.3843]])
    torch.testing.assert_close(weights, expected, rtol=0, atol=5e-5)
    for query, row in (("Hello", 0), ("sun", 2)):
        message = trace_cell(known_vectors("Hello shiny sun!").cell(query))
        assert message.weights.argmax() == 1
        torch.testing.assert_close(torch.from_numpy(message.weights).float(), expected[row], rtol=0, atol=5e-5)
    claim = re.compile(r"(own|itself|same) (word|token|position)?[^.]{0,30}highest|kendisi[^.]{0,30}en yüksek")
    assert claim.search("this word itself will have the highest softmax score")
    told_texts = [ours("Hello shiny sun!", language) for language in ("en", "tr")]
    assert not any(claim.search(text) for text in told_texts)


# F24: terms -----------------------------------------------------------------------------------------------------------

WRONG = ("pozitif kodlama", "şamandıra", "dikkat havuz")
RIGHT = ("konumsal kodlama", "kayan noktalı say", "dikkat ortaklama")
"""Stems: Turkish words take their endings."""


def turkish_texts() -> dict[str, str]:
    """Every page and every source file in Turkish, without the notes that quote this fault to correct it."""
    files = [*(ROOT / "docs").rglob("*.tr.md"), *ROOT.glob("*.tr.md"), *(ROOT / "src").rglob("locale/tr/**/*.po")]
    return {str(path.relative_to(ROOT)): without_notes(path.read_text(encoding="utf-8")) for path in files}


def without_notes(text: str) -> str:
    paragraphs = text.split("\n\n")
    return "\n\n".join(item for item in paragraphs if not (item.startswith("> ") and "F24" in item))


def misused(text: str) -> list[str]:
    messages = " ".join(lower(text, "tr").split())
    return [term for term in WRONG if term in messages]


@pytest.mark.seed("F24")
def test_turkish_terms_are_those_of_the_field() -> None:
    assert misused("Pozitif\n  Kodlama, dikkat havuzu ve şamandıra sayıları") == [
        "pozitif kodlama",
        "şamandıra",
        "dikkat havuz",
    ]
    texts = turkish_texts()
    assert {"README.tr.md", "src/dikkat/locale/tr/LC_MESSAGES/dikkat.po"} <= set(texts)
    assert {path: misused(text) for path, text in texts.items() if misused(text)} == {}
    everything = " ".join(lower(" ".join(texts.values()), "tr").split())
    assert [term for term in RIGHT if term not in everything] == []


# F32: names and repetitions -------------------------------------------------------------------------------------------


def starred_keywords(source: str) -> list[int]:
    """Lines where the keyword arguments of a function are handed on as positional ones."""
    result = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef) and function.args.kwarg is not None:
            result += [
                part.lineno
                for part in ast.walk(function)
                if isinstance(part, ast.Starred)
                and isinstance(part.value, ast.Name)
                and part.value.id == function.args.kwarg.arg
            ]
    return result


@pytest.mark.seed("F32")
def test_keywords_are_handed_on_as_keywords() -> None:
    faulty = "class Decoder:\n    def __init__(self, **kwargs):\n        super().__init__(*kwargs)\n"
    assert starred_keywords(faulty) == [3]
    for path in (ROOT / "src").rglob("*.py"):
        assert starred_keywords(path.read_text(encoding="utf-8")) == [], path


class TakesAnything(nn.Module):
    """A misspelt setting is swallowed, and the default stays."""

    def __init__(self, model_dim: int, num_heads: int, feed_forward_dim: int = 32, **settings: object) -> None:
        super().__init__()
        self.inner = nn.Linear(model_dim, feed_forward_dim)


@pytest.mark.seed("F32")
def test_a_misspelt_setting_is_refused() -> None:
    def refuses(build: Callable[..., nn.Module]) -> bool:
        try:
            build(16, 4, 32, ffn_num_hidens=64)
        except TypeError as error:
            return "ffn_num_hidens" in str(error)
        return False

    assert not refuses(TakesAnything)
    assert refuses(EncoderBlock)
    assert refuses(DecoderBlock)
    assert refuses(lambda model_dim, heads, _, **wrong: MultiHeadAttention(model_dim, heads, **wrong))


def repeated(page: str) -> list[str]:
    """Paragraphs of prose that stand on a page twice."""
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S)
    paragraphs = [" ".join(item.split()) for item in prose.split("\n\n")]
    long = [item for item in paragraphs if len(item) > 60 and not item.startswith("|")]
    return sorted({item for item in long if long.count(item) > 1})


@pytest.mark.seed("F32")
def test_no_paragraph_stands_twice() -> None:
    paragraph = "The decoder has three sub-layers, and each of them is followed by a residual sum and a norm."
    assert repeated(f"{paragraph}\n\nBetween.\n\n{paragraph}\n") == [paragraph]
    for page in PAGES:
        assert repeated(page.read_text(encoding="utf-8")) == [], page


@pytest.mark.seed("F32")
def test_our_decoder_runs_with_every_name_spelt_right(unchecked_shapes: None) -> None:
    """A block that is made by its names computes what one made by order does."""
    torch.manual_seed(1)
    by_name = DecoderBlock(model_dim=16, num_heads=4, feed_forward_dim=32, dropout=0.0).eval()
    torch.manual_seed(1)
    by_order = DecoderBlock(16, 4, 32).eval()
    x, memory = torch.randn(1, 3, 16), torch.randn(1, 4, 16)
    output: Tensor = by_name(x, memory)
    assert torch.equal(output, by_order(x, memory))
