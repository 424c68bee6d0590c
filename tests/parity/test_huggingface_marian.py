"""MarianMT of Hugging Face, read into our translators: the same numbers, text and attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.interop.translators import marian_folder, phrases

from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.importing import read_foreign
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.tasks.translator import Translator as RuntimeTranslator

transformers = pytest.importorskip("transformers", reason="needs Hugging Face transformers, of the extra [test]")
pytest.importorskip("sentencepiece", reason="needs sentencepiece, of the extra [test]")
pytestmark = pytest.mark.peer

MAX_LENGTH = 40
"""Most tokens of an output, the end mark included."""


class Imported:
    """A translator of theirs, and the run that was made of it."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder, self.run = marian_folder(folder / "theirs", seed=0, **changes), folder / "run"
        self.model = transformers.MarianMTModel.from_pretrained(self.folder).eval()
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(self.folder)
        result = read_foreign(self.folder)
        assert isinstance(result, ForeignTranslator)
        self.found = result
        result.write(self.run, self.folder, "dikkat import")

    @torch.no_grad()
    def generated(self, sentences: list[str], beams: int) -> tuple[list[str], list[bool]]:
        """Their translations, and which of them they have ended themselves."""
        batch = self.tokenizer(sentences, return_tensors="pt", padding=True)
        ids = self.model.generate(**batch, num_beams=beams, do_sample=False, max_new_tokens=MAX_LENGTH)
        ended = [(row[1:] == self.tokenizer.eos_token_id).any().item() for row in ids]
        return self.tokenizer.batch_decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False), ended


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    return Imported(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def separate(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    return Imported(tmp_path_factory.mktemp("separate"), separate=True)


@pytest.fixture(scope="module", params=[False, True])
def calm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """With weights as small as real ones, which do not magnify how sums are rounded."""
    return Imported(tmp_path_factory.mktemp("calm"), separate=request.param, spread=0.15)


@pytest.fixture(params=["shared", "separate"])
def imported(request: pytest.FixtureRequest) -> Imported:
    result: Imported = request.getfixturevalue(request.param)
    return result


def our_ids(imported: Imported, side: int) -> torch.Tensor:
    """Our id of each of theirs."""
    order = imported.found.orders[min(side, len(imported.found.orders) - 1)]
    indices = {row: number for number, row in reversed(list(enumerate(order.rows)))}
    return torch.tensor([indices[row] for row in range(len(indices))])


def read(imported: Imported, sources: torch.Tensor, targets: torch.Tensor) -> tuple[Translator, torch.Tensor]:
    ours = Translator.load(imported.run, engine="torch")
    source = our_ids(imported, 0)[sources]
    begin = torch.ones(len(targets), 1, dtype=torch.int64)
    target = torch.cat((begin, our_ids(imported, 1)[targets[:, 1:]]), dim=1)
    with torch.no_grad():
        logits = ours.model(source, target, torch.ones_like(source, dtype=torch.bool))
    return ours, logits[..., our_ids(imported, 1)]


def test_logits_of_random_ids_are_theirs(calm: Imported) -> None:
    imported = calm
    padding = imported.model.config.pad_token_id
    sources = torch.randint(2, padding, (25, 20))
    targets = torch.cat((torch.full((25, 1), padding), torch.randint(2, padding, (25, 20))), dim=1)
    with torch.no_grad():
        theirs = imported.model(input_ids=sources, decoder_input_ids=targets).logits
    ours = read(imported, sources, targets)[1]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("beams", [1, 4])
def test_two_hundred_translations_are_theirs_by_every_engine(
    imported: Imported, beams: int, request: pytest.FixtureRequest
) -> None:
    sentences = phrases(900)[0][700:]
    theirs, ended = imported.generated(sentences, beams)
    options = DecodingOptions(max_length_factor=0, max_length_offset=MAX_LENGTH)
    if beams > 1:
        options = BeamOptions(beam_size=beams, max_length_factor=0, max_length_offset=MAX_LENGTH)
    # of what a beam was cut off in, the two keep another rest
    compared = [number for number in range(200) if beams == 1 or ended[number]]
    assert len(compared) >= (100 if imported is request.getfixturevalue("shared") else 20)
    assert len({theirs[number] for number in compared}) > 5
    for engine in (Translator.load(imported.run, engine="torch"), RuntimeTranslator.load(imported.run)):
        ours = [item.text.strip() for item in engine.stream(sentences, options, retry_loops=False)]
        assert [ours[number] for number in compared] == [theirs[number] for number in compared]


def test_attention_maps_are_theirs(calm: Imported) -> None:
    imported = calm
    ours = Translator.load(imported.run)
    text, translation = phrases(1)[0][0], "Le chat voit une maison."
    maps = {(str(item.stack), item.layer, str(item.kind), item.head): item for item in ours.attend(text, translation)}
    source = imported.tokenizer(text, return_tensors="pt").input_ids
    target = imported.tokenizer(text_target=translation, return_tensors="pt").input_ids
    fed = torch.cat((torch.tensor([[imported.model.config.pad_token_id]]), target[:, :-1]), dim=1)
    model = transformers.MarianMTModel.from_pretrained(imported.folder, attn_implementation="eager").eval()
    with torch.no_grad():
        theirs = model(input_ids=source, decoder_input_ids=fed, output_attentions=True)
    stacks = {
        ("encoder", "self"): theirs.encoder_attentions,
        ("decoder", "self"): theirs.decoder_attentions,
        ("decoder", "cross"): theirs.cross_attentions,
    }
    for (stack, kind), layers in stacks.items():
        for layer, heads in enumerate(layers):
            for head in range(heads.shape[1]):
                own = torch.as_tensor(maps[stack, layer, kind, head].weights)
                torch.testing.assert_close(own, heads[0, head], rtol=0, atol=1e-5)


def test_the_way_back_is_what_was_read(imported: Imported) -> None:
    state = imported.model.state_dict()
    back = imported.found.theirs()
    for name, tensor in back.items():
        torch.testing.assert_close(tensor.reshape(state[name].shape), state[name], rtol=0, atol=0)


def test_int8_writes_next_to_the_same(shared: Imported) -> None:
    sentences = phrases(900)[0][700:]
    exact, rounded = (
        RuntimeTranslator.load(shared.run, precision=precision).translate(sentences, DecodingOptions())
        for precision in ("float32", "int8")
    )
    assert sum(a.text == b.text for a, b in zip(exact, rounded, strict=True)) >= 120


def test_the_run_knows_languages_search_and_where_it_comes_from(shared: Imported) -> None:
    ours = Translator.load(shared.run)
    assert (ours.language, ours.target_language) == ("en", "fr")
    assert ours.defaults.length_penalty == 1.0
    assert ours.defaults.thorough
    assert str(shared.folder) in (shared.run / "card.md").read_text()


def test_the_mark_of_a_language_is_one_token(shared: Imported) -> None:
    ours = Translator.load(shared.run)
    text = phrases(1)[0][0]
    theirs = shared.tokenizer(f">>fra<< {text}")["input_ids"][:-1]
    assert ours.tokenizer.encode(f">>fra<< {text}") == our_ids(shared, 0)[theirs].tolist()
