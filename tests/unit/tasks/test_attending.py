"""The attention of what a translator writes: greedy, every hypothesis of a beam, and what it is made to read."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dikkat import Translator
from dikkat.explain.attention_map import SentenceMaps
from dikkat.nn.functional import attention
from dikkat.nn.multi_head_attention import MultiHeadAttention, Observation
from dikkat.nn.recorder import MapName, name_of, record_attention
from dikkat.tasks.common import attention_recorder as module
from dikkat.tasks.translation.attention import Attending
from dikkat.torch_engine.beam_search import beam_search
from dikkat.torch_engine.stepper import Stepper, pad_sources
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID

SOURCE, TARGET = "my name is ada .", "adım ada ."


@pytest.fixture(scope="module")
def translator(untrained: Path) -> Translator:
    """Random weights; not tied to the embedding, which would repeat one token for ever."""
    result = Translator.load(untrained, engine="torch")
    torch.manual_seed(4)
    with torch.no_grad():
        for parameter in result.model.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape))
    result.model.output_weight = nn.Parameter(0.3 * torch.randn_like(result.model.output_weight))
    return result


@pytest.fixture
def attending(translator: Translator) -> Attending:
    return Attending(translator)


def reference_maps(translator: Translator, ids: Tensor, target: Tensor, mask: Tensor) -> dict[MapName, Tensor]:
    """Weights by the reference in float64 from what each attention was given to compute with."""
    seen: dict[MapName, Observation] = {}
    handles = [
        part.observe(partial(seen.__setitem__, name_of(path)))
        for path, part in translator.model.named_modules()
        if isinstance(part, MultiHeadAttention)
    ]
    with torch.no_grad():
        translator.model(ids, target, mask)
    for handle in handles:
        handle.remove()
    return {
        name: attention(item.query.double(), item.key.double(), item.value.double(), item.mask)[1]
        for name, item in seen.items()
    }


def largest_difference(found: SentenceMaps, expected: dict[MapName, Tensor]) -> float:
    return max(
        float(np.abs(item.weights - expected[MapName(item.stack, item.layer, item.kind)][0, item.head].numpy()).max())
        for item in found.maps
    )


@pytest.mark.parametrize("way", ["greedy", "beam", "forced"])
def test_recorded_maps_are_those_of_the_reference(attending: Attending, translator: Translator, way: str) -> None:
    source = translator.encode(SOURCE)
    ids, mask = pad_sources([source], torch.device("cpu"))
    options = BeamOptions(beam_size=4, n_best=4)
    result: tuple[SentenceMaps, ...]
    if way == "forced":
        outputs = [translator.tokenizer.encode(TARGET)]
        result = (attending.forced(SOURCE, TARGET),)
    elif way == "beam":
        outputs = [list(item.tokens) for item in beam_search(translator.model, ids, mask, options)[0]]
        result = attending.hypotheses(SOURCE, options)
    else:
        one = BeamOptions(beam_size=1)
        outputs = [list(beam_search(translator.model, ids, mask, one)[0][0].tokens)]
        result = (attending.greedy(SOURCE),)
    assert len(result) == len(outputs) == len({tuple(tokens) for tokens in outputs})
    for item, tokens in zip(result, outputs, strict=True):
        assert item.output_tokens == ("<bos>", *translator.tokenizer.labels(tokens))
        assert item.source_tokens == (*translator.tokenizer.labels(source), "<eos>")
        assert len(item.maps) == 3 * 2 * 4
        expected = reference_maps(translator, ids, torch.tensor([[BOS_ID, *tokens]]), mask)
        assert largest_difference(item, expected) <= 1e-5


def path_of(winner: Hypothesis, steps: list[tuple[Tensor, Tensor]], rows: int) -> list[int]:
    """The row of the winner at each step of the search, found at its last and followed back through the parents."""
    histories: list[list[tuple[int, ...]]] = [[()] * rows]
    for tokens, parents in steps:
        histories.append(
            [
                (*histories[-1][parent], token)
                for token, parent in zip(tokens[0].tolist(), parents[0].tolist(), strict=True)
            ]
        )
    # the step that wrote the end mark, or the last token of a winner that was cut
    last = len(winner.tokens) - (not winner.finished)
    path = [histories[last].index(winner.tokens[:last])]
    for _, parents in reversed(steps[:last]):
        path.append(int(parents[0, path[-1]]))
    return path[::-1]


def test_maps_recorded_live_are_the_teacher_forced_ones(
    attending: Attending, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step's row, gathered along the path of the winner, through every reordering of the beam."""
    rows = 5
    steps: list[tuple[Tensor, Tensor]] = []
    advance = Stepper.advance

    def noted(self: Stepper, tokens: Tensor, parents: Tensor, staying: Tensor | None) -> None:
        steps.append((tokens.clone(), parents.clone()))
        advance(self, tokens, parents, staying)

    monkeypatch.setattr(Stepper, "advance", noted)
    reordered = ended = 0
    for text in (SOURCE, "she reads a small book", "go !"):
        steps.clear()
        ids, mask = pad_sources([translator.encode(text)], torch.device("cpu"))
        with record_attention(translator.model, lambda name: name.stack == "decoder") as live:
            # for who watches it goes step by step, so that the spy sees every choice
            ((winner,),) = beam_search(translator.model, ids, mask, BeamOptions(beam_size=rows), lambda *_: None)
        path = path_of(winner, steps, rows)
        reordered += sum(before != after for before, after in pairwise(path))
        ended += winner.finished
        (result,) = attending.hypotheses(text, BeamOptions(beam_size=rows))
        assert result.output_tokens == ("<bos>", *translator.tokenizer.labels(winner.tokens))
        for item in result.maps:
            if item.stack == "encoder":
                continue
            calls = live[MapName("decoder", item.layer, item.kind)]
            for step, row in enumerate(path):
                # self: one row of the batch a hypothesis; cross: its query of the sentence's
                recorded = calls[step][row, item.head, 0] if item.kind == "self" else calls[step][0, item.head, row]
                expected = item.weights[step, : len(recorded)]
                np.testing.assert_allclose(recorded.numpy(), expected, rtol=0, atol=1e-5)
    assert reordered > 0
    assert ended > 0


def test_only_what_is_wanted_is_given(
    attending: Attending, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs: list[MultiHeadAttention] = []
    give = MultiHeadAttention.notify_readers

    def counted(self: MultiHeadAttention, weights: Tensor) -> None:
        inputs.append(self)
        give(self, weights)

    monkeypatch.setattr(MultiHeadAttention, "notify_readers", counted)
    whole = attending.forced(SOURCE, TARGET)
    assert len(inputs) == 6
    inputs.clear()
    result = attending.forced(SOURCE, TARGET, attending.choose("decoder", "cross", 1))
    assert inputs == [translator.model.decoder.blocks[1].cross_attention]
    assert [(item.stack, item.kind, item.layer, item.head) for item in result.maps] == [
        ("decoder", "cross", 1, head) for head in range(4)
    ]
    for item, same in zip(result.maps, whole.select("decoder", "cross", 1), strict=True):
        # where nobody reads the encoder, native code runs it: rounding differs
        np.testing.assert_allclose(item.weights, same.weights, rtol=0, atol=1e-6)


def test_nobody_listens_afterwards(attending: Attending, translator: Translator) -> None:
    attending.greedy(SOURCE)
    parts = [part for part in translator.model.modules() if isinstance(part, MultiHeadAttention)]
    assert len(parts) == 6
    assert not any(part.has_readers or part._observers for part in parts)


def test_an_empty_translation_is_the_begin_mark_alone(attending: Attending) -> None:
    result = attending.forced(SOURCE, "  ")
    assert (result.output, result.output_tokens) == ("", ("<bos>",))
    assert {item.weights.shape[0] for item in result.maps if item.stack == "decoder"} == {1}


def test_texts_are_those_of_translate(attending: Attending, translator: Translator) -> None:
    (best,) = translator.translate([SOURCE], beam_size=4, n_best=3)
    result = attending.hypotheses(f" {SOURCE}\t", BeamOptions(beam_size=4, n_best=3))
    assert [item.output for item in result] == [best.text, *(item.text for item in best.alternatives)]
    assert {item.source for item in result} == {SOURCE}


@pytest.mark.parametrize("text", ["", " \t "])
def test_an_empty_text_is_refused(attending: Attending, text: str) -> None:
    for record in (attending.greedy, lambda text: attending.forced(text, TARGET)):
        with pytest.raises(DataError, match="there is nothing to attend to in an empty text; give a few words"):
            record(text)


def test_a_text_of_thousands_of_tokens_is_refused_before_it_is_translated(
    attending: Attending, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dikkat.tasks.translation.attention.batch_decoder", None)
    with pytest.raises(DataError, match="the text has 6,000 tokens, over the limit of 5,000; shorten it"):
        attending.greedy("7" * 5999)
    for pair in (("7" * 5999, TARGET), (SOURCE, "7" * 5999)):
        with pytest.raises(DataError, match="over the limit of 5,000; shorten it"):
            attending.forced(*pair)


def test_more_maps_than_there_is_room_for(attending: Attending, monkeypatch: pytest.MonkeyPatch) -> None:
    result = attending.forced(SOURCE, TARGET)
    source, target = len(result.source_tokens), len(result.output_tokens)
    everything = 2 * 4 * (source * source + target * target + target * source)
    monkeypatch.setattr(module, "MAX_WEIGHTS", everything)
    attending.forced(SOURCE, TARGET)
    monkeypatch.setattr(module, "MAX_WEIGHTS", everything - 1)
    message = (
        f"the maps of {source} source and {target} output tokens hold {everything:,} weights, over the limit of"
        f" {everything - 1:,}; choose a kind and one layer, or shorten the text"
    )
    with pytest.raises(DataError, match=message):
        attending.forced(SOURCE, TARGET)
    attending.forced(SOURCE, TARGET, attending.choose("decoder", "cross"))


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (("encoder", "self", 2), "there is no layer 3 in the encoder self-attention: choose from 1, 2"),
        (("decoder", "cross", 0, 4), "there is no head 5 in the cross-attention: choose from 1 to 4"),
    ],
)
def test_what_the_model_does_not_have(attending: Attending, choice: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        attending.choose(*choice)  # type: ignore[arg-type]


def test_a_model_without_cross_attention(translator: Translator) -> None:
    class EncoderAlone:
        """What a classifier of the same encoder shows of itself."""

        model = nn.ModuleDict({"encoder": translator.model.encoder})
        tokenizer, config, encode = translator.tokenizer, translator.config, translator.encode

    with pytest.raises(UsageError, match=r"^there is no cross-attention here; choose from encoder self-attention$"):
        Attending(EncoderAlone()).choose("decoder", "cross")  # type: ignore[arg-type]


def test_what_is_needed_comes_with_cross_attention_when_asked_for(translator: Translator) -> None:
    result = Attending(translator, occluding=True).forced(SOURCE, TARGET)
    assert result.occluded is not None
    assert result.occluded.shape == result.select("decoder", "cross", 0, 0)[0].weights.shape
    ids, _ = pad_sources([translator.encode(SOURCE)], torch.device("cpu"))
    target = torch.tensor([BOS_ID, *translator.tokenizer.encode(TARGET), EOS_ID])
    with torch.no_grad():
        whole, without = (
            translator.model(ids, target[None, :-1], mask)[0].log_softmax(-1).gather(1, target[1:, None])[:, 0]
            for mask in (torch.ones_like(ids).bool(), torch.arange(ids.shape[1])[None] != 2)
        )
    np.testing.assert_allclose(result.occluded[:, 2], (whole - without).numpy(), rtol=0, atol=1e-5)
    asking = Attending(translator, occluding=True)
    assert asking.forced(SOURCE, TARGET, asking.choose("decoder", "self")).occluded is None
    assert asking.forced("ada " * 80, TARGET).occluded is None
    assert Attending(translator).forced(SOURCE, TARGET).occluded is None
