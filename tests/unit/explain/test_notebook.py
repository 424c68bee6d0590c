"""Maps by name, their pages in a notebook, and the maps of models that dikkat did not make."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.runtime.runs import language_model_run
from torch import nn

import dikkat.explain
from dikkat.explain.attention_map import AttentionMap, SentenceMaps
from dikkat.explain.notebook import Shown, attention_maps, page
from dikkat.nn import record_attention
from dikkat_runtime.errors import UsageError

READ, WRITTEN = ("▁the", "▁cat", "<eos>"), ("<bos>", "▁le", "▁chat")


def random_maps(seed: int = 0) -> SentenceMaps:
    """Return two layers of two heads of each attention, whose rows sum to one."""
    generator = np.random.default_rng(seed)
    shapes = {("encoder", "self"): (READ, READ), ("decoder", "self"): (WRITTEN, WRITTEN)}
    shapes |= {("decoder", "cross"): (WRITTEN, READ)}
    maps = []
    for (stack, kind), (queries, keys) in shapes.items():
        for layer, head in np.ndindex(2, 2):
            weights = generator.dirichlet(np.ones(len(keys)), len(queries)).astype(np.float32)
            maps.append(AttentionMap(weights, queries, keys, stack, layer, head, kind))  # type: ignore[arg-type]
    return SentenceMaps("the cat", "le chat", READ, WRITTEN, tuple(maps))


def test_maps_are_found_by_name_and_by_number() -> None:
    maps = random_maps()
    chosen = maps["cross", 2, 1]
    assert (chosen.stack, chosen.kind, chosen.layer, chosen.head) == ("decoder", "cross", 1, 0)
    assert [one.head for one in maps["encoder", 1]] == [0, 1]
    assert len(maps) == 12
    assert maps[-1] is list(maps)[-1]
    np.testing.assert_array_equal(np.asarray(chosen), chosen.weights)
    rows = [row for row in maps.rows() if (row["kind"], row["layer"], row["head"]) == ("cross", 2, 1)]
    assert rows[4] == {
        "stack": "decoder", "kind": "cross", "layer": 2, "head": 1, "query_index": 1, "key_index": 1,
        "query": "▁le", "key": "▁cat", "weight": float(chosen.weights[1, 1]),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "message"),
    [(("crss", 1, 1), 'no attention "crss"; choose from encoder, decoder, cross'), (("cross", 3, 1), "no layer 3")],
)
def test_a_name_that_is_not_there_lists_the_choices(key: tuple[str, int, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        random_maps()[key]


def test_a_cell_holds_the_page_and_the_maps_in_words() -> None:
    maps = random_maps()
    cell = maps._repr_html_()
    assert len(cell) < 300_000
    (inside,) = re.findall(r"srcdoc='([^']*)'", cell)
    document = html.unescape(inside)
    assert document.startswith("<!doctype html>")
    # no request: nothing but hashes in the policy, and no address of a file
    assert "default-src 'none'" in document
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", cell)
    told = cell.partition("</iframe>")[2]
    weights = np.mean([one.weights for one in maps["cross", 1]], axis=0)
    key = READ[int(weights[0].argmax())].removeprefix("▁")
    assert f"le looks at {html.escape(key)}, {weights[0].max():.2f}" in told
    assert told.count("<svg") == 6
    assert told.count("<table") == 6


def static(cell: str) -> str:
    """Return what is seen of a cell without scripts: what stands outside the frame of the page."""
    return html.unescape(re.sub(r"<[^>]*>", " ", cell.partition("</iframe>")[2]))


def test_a_language_model_shows_itself_without_scripts(tmp_path: Path) -> None:
    """Of a text longer than the context of 24 tokens the first window, and which one it is."""
    run = language_model_run(tmp_path / "lm")
    model = dikkat.load(run)
    text = "Two men are outside."
    maps = model.attend(text)
    rows = np.mean([one.weights for one in maps["decoder", 1]], axis=0)
    tokens = [token.removeprefix("▁") for token in maps.output_tokens]
    told = f"{tokens[-1]} looks at {tokens[int(rows[-1].argmax())]}, {rows[-1].max():.2f}"
    for cell in (maps._repr_html_(), dikkat.show(run, text)._repr_html_()):
        assert told in static(cell)
        assert cell.partition("</iframe>")[2].count("<svg") == 2
        assert "srcdoc='&lt;!doctype html" in cell or "srcdoc='<!doctype html" in cell
    assert "decoder self-attention, layer 2, head 1" in maps["decoder", 2, 1]._repr_html_()
    long = " ".join([text] * 8)
    count = len(model.tokenizer.encode(long))
    for cell in (model.attend(long)._repr_html_(), dikkat.show(run, long)._repr_html_()):
        assert f"window 1 of {-(-count // 24)}: tokens 1 to 24 of {count}" in static(cell)
        assert len(cell) < 300_000
    compared = dikkat.compare(run, run, text)._repr_html_()
    assert "<script" not in compared
    assert "Equal in 1 of 1" in html.unescape(compared)


def test_a_long_text_is_told_in_words_without_scripts() -> None:
    tokens = tuple(f"▁w{number}" for number in range(60))
    weights = np.tril(np.ones((60, 60), np.float32)) / np.arange(1, 61, dtype=np.float32)[:, None]
    weights[59] = np.eye(60, dtype=np.float32)[7]
    text = " ".join(token[1:] for token in tokens)
    maps = SentenceMaps(text, "", (), tokens, (AttentionMap(weights, tokens, tokens, "decoder", 0, 0, "self"),))
    told = maps._repr_html_().partition("</iframe>")[2]
    assert "w59 looks at w7, 1.00" in told
    assert "<svg" not in told
    # two tokens a word: thirty words are drawn
    halves = tuple(f"{'▁' if number % 2 == 0 else ''}w{number}" for number in range(60))
    words = "".join(halves).replace("▁", " ").strip()
    maps = SentenceMaps(words, "", (), halves, (AttentionMap(weights, halves, halves, "decoder", 0, 0, "self"),))
    told = maps._repr_html_().partition("</iframe>")[2]
    assert told.count("<svg") == 1
    assert "w58w59 looks at" in told


def test_a_part_of_the_maps_is_shown_without_a_page() -> None:
    maps = random_maps()
    part = SentenceMaps(maps.source, maps.output, READ, WRITTEN, maps["cross", 2])
    assert "<iframe" not in part._repr_html_()
    assert "cross-attention, layer 2, head 1" in part._repr_html_()
    with pytest.raises(UsageError, match="some of cross are missing"):
        page(part)


def test_what_is_shown_is_written_as_a_file(tmp_path: Path) -> None:
    path = page(random_maps()).write(tmp_path / "maps.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(UsageError, match=r"is written as \.html or \.htm"):
        page(random_maps()).write(tmp_path / "maps.txt")


def same(maps: SentenceMaps, name: str, theirs: tuple[torch.Tensor, ...]) -> None:
    for layer, weights in enumerate(theirs, start=1):
        for head in range(weights.shape[1]):
            np.testing.assert_allclose(maps[name, layer, head + 1], weights[0, head].numpy(), rtol=0, atol=1e-6)


def test_maps_of_models_of_hugging_face() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "num_attention_heads": 4, "hidden_size": 16, "num_hidden_layers": 2}
    ids = torch.arange(5)[None]
    with torch.no_grad():
        bert = transformers.BertModel(transformers.BertConfig(**sizes, intermediate_size=24)).eval()
        bert.set_attn_implementation("eager")
        read = bert(ids, output_attentions=True)
        maps = attention_maps(read, ["[CLS]", "cat", "##s", "sleep", "[SEP]"])
        same(maps, "encoder", read.attentions)
        assert maps.source == "[CLS] cats sleep [SEP]"
        assert isinstance(page(maps), Shown)

        settings = transformers.GPT2Config(
            vocab_size=50, n_embd=16, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
        )
        gpt = transformers.GPT2LMHeadModel(settings).eval()
        with pytest.raises(UsageError, match='attn_implementation="eager"'):
            page(gpt(ids), ["a"] * 5)
        gpt.set_attn_implementation("eager")
        read = gpt(ids, output_attentions=True)
        maps = dikkat.explain.attention_maps(read, ["The", "Ġcat", "Ġs", "leeps", "."])
        same(maps, "decoder", read.attentions)
        assert (maps.source, maps.source_tokens) == ("The cat sleeps.", ())
        assert isinstance(page(maps), Shown)

        small = transformers.T5Config(vocab_size=50, d_model=16, d_kv=4, num_layers=2, num_heads=4, d_ff=24)
        t5 = transformers.T5Model(small).eval()
        t5.set_attn_implementation("eager")
        read = t5(input_ids=ids, decoder_input_ids=ids[:, :3], output_attentions=True)
        maps = attention_maps(read, ["▁The", "▁cat", "▁sleep", "s", "</s>"], ["<pad>", "▁Le", "▁chat"])
        same(maps, "encoder", read.encoder_attentions)
        same(maps, "decoder", read.decoder_attentions)
        same(maps, "cross", read.cross_attentions)
        assert isinstance(page(maps), Shown)


def test_maps_of_ones_own_model_of_pytorch() -> None:
    torch.manual_seed(0)
    net = nn.Transformer(16, 4, 2, 2, 32, batch_first=True).eval()
    source, target = torch.randn(1, 5, 16), torch.randn(1, 3, 16)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    with torch.no_grad():
        before = net(source, target, tgt_mask=mask)
        with record_attention(net) as recorded:
            during = net(source, target, tgt_mask=mask)
        assert torch.backends.mha.get_fastpath_enabled()
        attention = net.encoder.layers[0].self_attn
        wanted = attention(source, source, source, average_attn_weights=False)[1]
    torch.testing.assert_close(during, before)
    maps = attention_maps(recorded, list("abcde"), list("xyz"))
    same(maps, "encoder", (wanted,))
    assert not np.triu(maps["decoder", 1, 1].weights, 1).any()
    assert maps["cross", 2, 4].weights.shape == (3, 5)
    assert isinstance(page(maps), Shown)


@pytest.mark.parametrize(
    ("maps", "tokens", "message"),
    [
        ([np.ones((2, 3, 3)) / 3], (), "maps need the tokens that were read"),
        ([np.ones((2, 3, 3)) / 3], ("a", "b"), "the maps are of 3 and 3 tokens, but 2 and 2 were given"),
        ([np.ones((3, 3)) / 3], ("a", "b", "c"), r"have the axes \(H, T, S\).*\(3, 3\)"),
        ([np.ones((2, 2, 3, 3)) / 3], ("a", "b", "c"), "pick one sentence"),
        ([], ("a",), "the model hides its attention weights"),
        ([None], ("a",), "the model hides its attention weights"),
    ],
)
def test_maps_that_cannot_be_shown_say_what_to_do(maps: object, tokens: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        page(maps, tokens)
