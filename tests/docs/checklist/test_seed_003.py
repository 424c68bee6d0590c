"""Rows of seed 003, the Transformer in pictures, that no other test covers."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.system.toy import Command, kept_signals, settings, toy_sentences
from tests.unit.decoding.mock_model import MockModel
from tests.unit.models.small import config, real_tokens, small_model, some_tokens
from torch import Tensor, nn

from dikkat import Translator
from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.capture import capture_attention
from dikkat.explain.explanation import as_table
from dikkat.explain.plots import plot_heads
from dikkat.explain.six_steps import render_six_steps
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.nn import MapName, MultiHeadAttention, SinusoidalPositions, TokenEmbedding, record_attention
from dikkat.nn.blocks import DecoderBlock
from dikkat.torch_engine.strategies import greedy
from dikkat_runtime.cli.main import run
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.special_tokens import EOS_ID

# D1: sentence in, sentence out ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator of a toy language, trained by the command line."""
    folder = tmp_path_factory.mktemp("learned")
    data = folder / "pairs.en-eo.tsv"
    data.write_text("".join(f"{source}\t{target}\n" for source, target in toy_sentences(80)), encoding="utf-8")
    options = settings(training__max_epochs=12, training__validations=1)
    with kept_signals():
        assert run(["train", "translator", str(data), "--out", str(folder / "run"), *options]) == 0
    return folder / "run"


@pytest.mark.seed("D1")
def test_sentence_in_sentence_out(
    learned: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the dog sees a tree\nmy cat\n")))
    code, output, complaint = Command(capsys)("translate", learned, "--precision", "float32")
    assert code == 0
    # twelve passes leave a model that may loop, which is told; nothing else is
    assert all("came out as a loop" in line for line in complaint.splitlines())
    lines = output.split("\n")
    assert lines.pop() == ""
    assert len(lines) == 2
    assert all(re.search(r"\w", line) for line in lines)
    assert lines == [result.text for result in Translator.load(learned).translate(["the dog sees a tree", "my cat"])]


# D4: embeddings at the bottom only ------------------------------------------------------------------------------------


@pytest.mark.seed("D4")
@pytest.mark.parametrize("width", [16, 24])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_only_the_lowest_layer_sees_embeddings_and_their_width_is_a_setting(placement: str, width: int) -> None:
    model = build_model(config(model_dim=width, encoder_layers=3, norm_placement=placement), seed=1).eval()
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []
    for block in model.encoder.blocks:
        block.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
        block.register_forward_hook(lambda _, __, output: outputs.append(output))
    source = some_tokens(2, 5)
    model.encode(source, real_tokens([5, 3], 5))
    assert [tuple(x.shape) for x in inputs] == [(2, 5, width)] * 3
    assert torch.equal(inputs[0], model.positions(model.source_embedding(source)))
    # the very tensors: nothing else reaches an upper layer
    assert inputs[1] is outputs[0]
    assert inputs[2] is outputs[1]
    assert build_model(config(model_dim=512, num_heads=8), seed=1).source_embedding.weight.shape[1] == 512


# D6: "it" finds its antecedent ----------------------------------------------------------------------------------------

KINDS = {"it": ("animal", "dog", "horse", "cat"), "he": ("king", "boy", "uncle"), "she": ("queen", "girl", "aunt")}
FILLERS = ("the", "saw", "near", "because", "and", "old", "then", "called")
WORDS = (*KINDS, *(noun for nouns in KINDS.values() for noun in nouns), *FILLERS)


class Reader(nn.Module):
    """The last word must say which noun before it it stands for, by one head of attention.

    The values are the words themselves, so that nothing but the weights can give the answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.positions = TokenEmbedding(len(WORDS), 32), SinusoidalPositions(32)
        self.self_attention = MultiHeadAttention(
            len(WORDS), 1, query_dim=32, key_dim=32, value_dim=len(WORDS), bias=False
        )
        for linear in (self.self_attention.value_projection, self.self_attention.out_projection):
            nn.init.eye_(linear.weight.requires_grad_(False))

    def forward(self, tokens: Tensor) -> Tensor:
        """Probability of each word."""
        x = self.positions(self.embedding(tokens))
        words = nn.functional.one_hot(tokens, len(WORDS)).float()
        before = torch.arange(tokens.shape[1]) < tokens.shape[1] - 1
        return self.self_attention(x, x, words, before)[:, -1]


def sentences(count: int) -> tuple[Tensor, Tensor]:
    """Nine words with a noun of each kind at a random place, then a pronoun; and the place of its antecedent."""
    starts = {name: WORDS.index(nouns[0]) for name, nouns in KINDS.items()}
    tokens = torch.randint(WORDS.index(FILLERS[0]), len(WORDS), (count, 10))
    indices = torch.rand(count, 9).argsort(-1)[:, : len(KINDS)]
    for kind, (name, nouns) in enumerate(KINDS.items()):
        tokens.scatter_(1, indices[:, kind : kind + 1], starts[name] + torch.randint(len(nouns), (count, 1)))
    pronouns = torch.randint(len(KINDS), (count,))
    tokens[:, -1] = pronouns
    return tokens, indices.gather(1, pronouns[:, None])[:, 0]


@pytest.fixture(scope="module")
def reader() -> Reader:
    torch.manual_seed(1)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        tokens, indices = sentences(64)
        loss = -model(tokens).gather(1, tokens.gather(1, indices[:, None])).log().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.mark.seed("D6")
def test_it_looks_at_its_antecedent(reader: Reader) -> None:
    torch.manual_seed(2)
    tokens, indices = sentences(1000)
    with torch.no_grad(), record_attention(reader) as maps:
        reader(tokens)
    ((weights,),) = maps.values()
    result = weights[:, 0, -1].argmax(-1)
    assert (result == indices).float().mean() >= 0.95
    shuffled = indices[torch.randperm(1000)]
    assert (result == shuffled).float().mean() < 0.3, "without reading, one place in nine"


@pytest.mark.seed("D6")
def test_the_row_of_it_is_shown(reader: Reader, tmp_path: Path) -> None:
    """As the table of `dikkat explain`, and as the labelled row of a heat map."""
    words = ["the", "animal", "saw", "the", "king", "and", "then", "the", "queen", "because", "it"][-10:]
    tokens = torch.tensor([[WORDS.index(word) for word in words]])
    capture = capture_attention(reader, MapName("self_attention", 0, "self"), lambda: reader(tokens))
    result = capture.trace(0, 9, words, words, positions_added=True)
    explanation = render_six_steps(result, " ".join(words), None, words)
    table = explanation.steps[3].table
    assert table is not None
    rows = {row[0]: float(row[-1]) for row in table.rows if row[0] in words}
    assert max(rows, key=lambda word: rows[word]) == "animal"
    assert "“it”" in explanation.title
    assert re.search(r"animal .*0\.\d{4}", as_table(explanation))
    weights = result.trace.weights.astype(np.float32)[None]
    plot_heads([AttentionMap(weights, ("it",), tuple(words), "encoder", 0, 0, "self")], tmp_path / "it.svg")
    assert ">it<" in re.sub(r"<!-- (\w+) -->", r">\1<", (tmp_path / "it.svg").read_text(encoding="utf-8"))


# D16, D17: the decoder at work ----------------------------------------------------------------------------------------


class Calls:
    """Counts what a model does while `greedy` uses it."""

    def __init__(self, model: EncoderDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.encoded, self.steps = 0, 0
        self.memories: list[Tensor] = []
        self.tops: list[Tensor] = []
        model.encoder.register_forward_hook(lambda _, __, output: self.tops.append(output))
        project = MultiHeadAttention.project_memory

        def projected(module: MultiHeadAttention, key: Tensor, value: Tensor | None = None) -> object:
            self.memories.append(key)
            return project(module, key, value)

        monkeypatch.setattr(MultiHeadAttention, "project_memory", projected)
        step = model.step

        def stepped(*arguments: object) -> Tensor:
            self.steps += 1
            return step(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(model, "step", stepped)


@pytest.mark.seed("D16")
def test_the_top_of_the_encoder_gives_every_decoder_layer_its_keys_and_values_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = small_model(decoder_layers=3)
    calls = Calls(model, monkeypatch)
    greedy(model, some_tokens(2, 5), real_tokens([5, 4], 5), DecodingOptions(max_length_factor=3.0))
    assert calls.steps > 3
    assert len(calls.tops) == 1
    assert len(calls.memories) == 3
    assert all(memory is calls.tops[0] for memory in calls.memories)
    blocks = [block for block in model.decoder.blocks if isinstance(block, DecoderBlock)]
    keys = [block.cross_attention.project_memory(calls.tops[0].clone()).key for block in blocks]
    assert not torch.allclose(keys[0], keys[1]), "each layer has its own projection"


@pytest.mark.seed("D17")
@pytest.mark.parametrize("seed", range(8))
def test_each_token_takes_one_step_of_the_model_and_so_does_the_end(seed: int) -> None:
    model, options = MockModel(seed=seed), DecodingOptions(max_length_factor=1.0, max_length_offset=6)
    source = torch.tensor([[5, 6, 7, 8, EOS_ID]])
    (written,) = greedy(model, source, torch.ones(1, 5, dtype=torch.bool), options)
    assert len(model.rows_seen) == len(written.tokens) + written.finished
    assert written.finished or len(written.tokens) == 11


@pytest.mark.seed("D17")
def test_what_was_written_is_fed_back_at_its_own_position(monkeypatch: pytest.MonkeyPatch) -> None:
    model, offsets, fed = small_model(), [], []
    forward = SinusoidalPositions.forward

    def watched(module: SinusoidalPositions, x: Tensor, offset: int = 0) -> Tensor:
        offsets.append(offset)
        return forward(module, x, offset)

    monkeypatch.setattr(SinusoidalPositions, "forward", watched)
    model.target_embedding.register_forward_pre_hook(lambda _, inputs: fed.append(inputs[0].flatten().tolist()))
    (best,) = greedy(model, some_tokens(1, 5), real_tokens([5], 5), DecodingOptions())
    written = list(best.tokens)
    # the first call is the encoder's; embeddings are tied, so it is fed the source
    assert offsets[1:] == list(range(len(offsets) - 1))
    assert [tokens[0] for tokens in fed[1:]][1:] == written[: len(fed) - 2]
    assert len(written) > 2
