"""The page of a real, untrained model: what is collected is what the model computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dikkat.config import ModelConfig, RunConfig, TokenizerConfig
from dikkat.explain.explorer.document import MapKind, Page
from dikkat.models.factory import build_model
from dikkat.nn.recorder import MapName, record_attention
from dikkat.tasks.in_memory import translator_of
from dikkat.tasks.inspection.page import BEAM, MAX_TOKENS, collect_page, write_page
from dikkat.torch_engine.stepper import pad_sources
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import CannotCreateError, DataError, UsageError
from dikkat_runtime.run.config import guided_indices
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.tokenizer import Tokenizer

SENTENCES = ["the old dog sleeps", "a cat!"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.manual_seed(4)
    tokenizer = Tokenizer.train(
        ["the old dog sleeps under a tree", "a cat sees the bird"] * 3, TokenizerConfig(vocab_size=301)
    )
    model = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        model_dim=16,
        num_heads=2,
        feed_forward_dim=16,
        encoder_layers=2,
        decoder_layers=1,
    )
    return translator_of(build_model(model, seed=3), tokenizer, RunConfig(model=model))


@pytest.fixture(scope="module")
def page(translator: Translator) -> Page:
    return collect_page(translator, SENTENCES, targets=[None, "a dog"])


def test_maps_and_search_are_of_the_best_translation(translator: Translator, page: Page) -> None:
    # the page shows what the search finds, not what is decoded again where that is a loop
    best = next(translator.stream([SENTENCES[0]], BeamOptions(), retry_loops=False))
    sentence = page.sentences[0]
    assert sentence.target.text == best.text
    assert sentence.score == pytest.approx(best.score)
    assert sentence.target.tokens == ("<bos>", *best.tokens, "<eos>")
    assert sentence.beam is not None
    text, ranks = sentence.beam.hypotheses[0]
    assert text == best.text
    path = [step[rank] for step, rank in zip(sentence.beam.steps, ranks, strict=False)]
    assert tuple(item.token for item in path)[: len(best.tokens)] == best.tokens
    assert path[-1].score == pytest.approx(best.score, rel=1e-5)
    assert all(len(step) <= 2 * BEAM.beam_size for step in sentence.beam.steps)


def test_the_hypotheses_are_the_n_best_of_the_search(translator: Translator, page: Page) -> None:
    beam = page.sentences[0].beam
    assert beam is not None
    options = BeamOptions(n_best=BEAM.beam_size)
    best = next(translator.stream([SENTENCES[0]], options, retry_loops=False))
    expected = (best, *best.alternatives)
    assert [text for text, _ in beam.hypotheses] == [one.text for one in expected]
    ends = [beam.steps[len(path) - 1][path[-1]] for _, path in beam.hypotheses]
    assert [end.score for end in ends] == pytest.approx([one.score for one in expected], rel=1e-5)


def test_the_guided_head_is_that_of_the_settings() -> None:
    model = {"encoder_layers": 3}
    guided = {"guided_weight": 1.0, "guided_layer": None, "guided_head": 2}
    assert guided_indices({"model": model, "training": guided}) == (2, 1)
    assert guided_indices({"model": model, "training": {**guided, "guided_layer": 1}}) == (0, 1)
    assert guided_indices({"model": model, "training": {**guided, "guided_weight": 0.0}}) is None
    assert guided_indices({}) is None


def test_a_forced_target_is_teacher_forced(translator: Translator, page: Page) -> None:
    sentence = page.sentences[1]
    assert (sentence.target.text, sentence.score, sentence.beam, list(sentence.heads_off)) == ("a dog", None, None, [])
    ids, mask = pad_sources([translator.encode(SENTENCES[1])], torch.device("cpu"))
    with torch.no_grad(), record_attention(translator.model) as maps:
        translator.model(ids, torch.tensor([[BOS_ID, *translator.tokenizer.encode("a dog")]]), mask)
    assert [len(layers) for layers in sentence.maps.values()] == [2, 1, 1]
    result: dict[MapName, MapKind] = {
        MapName("encoder", 1, "self"): "encoder-self",
        MapName("decoder", 0, "self"): "decoder-self",
        MapName("decoder", 0, "cross"): "cross",
    }
    for name, kind in result.items():
        np.testing.assert_allclose(np.asarray(sentence.maps[kind][-1]), maps[name][0][0].numpy(), atol=1e-5)


def test_every_head_is_switched_off_once(translator: Translator, page: Page) -> None:
    offs = page.sentences[0].heads_off
    assert [(item.kind, item.layer, item.head) for item in offs] == [
        ("encoder-self", 0, 0), ("encoder-self", 0, 1), ("encoder-self", 1, 0), ("encoder-self", 1, 1),
        ("decoder-self", 0, 0), ("decoder-self", 0, 1), ("cross", 0, 0), ("cross", 0, 1),
    ]  # fmt: skip
    projection = dict(translator.model.named_parameters())["decoder.blocks.0.cross_attention.out_projection.weight"]
    before = projection.detach().clone()
    try:
        with torch.no_grad():
            projection[:, 8:] = 0.0  # the columns of the second head
        without = translator.translate([SENTENCES[0]])[0]
    finally:
        projection.data.copy_(before)
    assert offs[-1].text == without.text
    assert offs[-1].score == pytest.approx(without.score, rel=1e-5)


def test_saliency_is_shares_of_each_row(translator: Translator, page: Page) -> None:
    for sentence in page.sentences:
        assert sentence.saliency is not None
        shape = (len(sentence.target.tokens) - 1, len(sentence.source.tokens))
        for shares in (sentence.saliency.gradient, sentence.saliency.occlusion):
            assert shares.shape == shape
            np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-5)
    # hiding the first source token, in this model and this row, by hand
    sentence = page.sentences[1]
    target = torch.tensor([[BOS_ID, *translator.tokenizer.encode("a dog"), EOS_ID]])
    ids, mask = pad_sources([translator.encode(SENTENCES[1])], torch.device("cpu"))
    lost = []
    for hidden in (None, *range(ids.shape[1])):
        seen = mask.clone()
        if hidden is not None:
            seen[0, hidden] = False
        with torch.no_grad():
            lost.append(float(translator.model(ids, target[:, :-1], seen)[0, 1].log_softmax(-1)[target[0, 2]]))
    sizes = np.abs(lost[0] - np.array(lost[1:]))
    assert sentence.saliency is not None
    np.testing.assert_allclose(sentence.saliency.occlusion[1], sizes / sizes.sum(), atol=1e-3)


def test_words_are_as_the_user_wrote_them(page: Page) -> None:
    assert page.sentences[0].source.words == ("the", "old", "dog", "sleeps", "<eos>")
    assert page.sentences[1].source.words == ("a", "cat!", "<eos>")
    assert page.sentences[1].target.words == ("<bos>", "a", "dog", "<eos>")


def test_a_token_that_holds_a_separator_becomes_one_word(translator: Translator) -> None:
    # str.isspace knows separators that a token may hold
    sentence = collect_page(translator, ["a\x1cb"], heads_off=False).sentences[0]
    assert sentence.source.word_numbers[-1] == len(sentence.source.words) - 1
    assert list(sentence.heads_off) == []


def test_the_file_is_written_whole(translator: Translator, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_page(translator, SENTENCES, path, language="tr", heads_off=False)
    text = path.read_text(encoding="utf-8")
    assert text.startswith('<!doctype html>\n<html lang="tr">')
    assert text.endswith("</html>\n")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("sentences", "targets", "error", "message"),
    [
        ([], None, DataError, "a page needs at least one sentence"),
        (["a cat", " "], None, DataError, "sentence 2 is empty: there is nothing to attend to; leave it out"),
        (["a " * 5000], None, DataError, f"sentence 1 has .* tokens, over the limit of {MAX_TOKENS:,}; split it"),
        (["a cat"], ["a", "b"], UsageError, "1 sentences need as many targets, not 2"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    translator: Translator, tmp_path: Path, sentences: list[str], targets: list[str] | None, error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        write_page(translator, sentences, tmp_path / "page.html", targets=targets)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_path_is_one_line(translator: Translator, tmp_path: Path) -> None:
    with pytest.raises(CannotCreateError, match=r"the folder .* does not exist; create it first"):
        write_page(translator, ["a cat"], tmp_path / "none" / "page.html", heads_off=False)
