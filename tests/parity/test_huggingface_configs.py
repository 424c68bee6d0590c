"""A config.json that says less, or nonsense, or says it as years ago: read as transformers does, or refused by name."""

from __future__ import annotations

import json
import re
from itertools import dropwhile, product, takewhile
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.parity.family_shapes import DECODERS, ENCODERS, PAIRS, TWO_BASES, three_each
from tests.parity.test_huggingface_families import pair_tokenizer, saved

from dikkat.interop.family import families
from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.importing import Imported, read_foreign
from dikkat_runtime.engine.choose import why_not_native
from dikkat_runtime.errors import DataError, DikkatError

transformers = pytest.importorskip(
    "transformers", reason="needs Hugging Face transformers, which the extra [test] brings"
)
pytestmark = pytest.mark.peer

SHAPES = {**DECODERS, **ENCODERS, **PAIRS}
FIRST = [names[0] for names in three_each(SHAPES).values()]
SIZES = {
    "vocab_size", "hidden_size", "num_attention_heads", "num_key_value_heads", "num_hidden_layers", "intermediate_size",
    "max_position_embeddings", "head_dim", "n_embd", "n_head", "n_layer", "n_positions", "num_layers", "num_heads",
    "dim", "n_heads", "n_layers", "hidden_dim", "embedding_size", "ffn_dim", "d_model", "d_kv", "d_ff",
    "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads", "encoder_ffn_dim",
    "decoder_ffn_dim", "num_decoder_layers", "pad_token_id", "eos_token_id", "bos_token_id", "decoder_start_token_id",
    "cls_token_id", "sep_token_id", "relative_attention",
}  # fmt: skip
"""What a configuration cannot leave out, since its usual value is that of a large model."""
MORE: dict[str, dict[str, Any]] = {
    "qwen2": {"use_sliding_window": True},
    "qwen3": {"use_sliding_window": True},
    # without kinds of scores its table of distances is no part of a model
    "deberta-v3": {"pos_att_type": ["p2c", "c2p"]},
    # as many as its usual kinds of attention
    "gpt-neo": {"num_layers": 24},
}


def folder_of(name: str, settings: dict[str, Any], folder: Path) -> Any:
    """A folder with a model of these settings; returns theirs."""
    kind = SHAPES[name][0]
    ending = "Model" if name in ENCODERS else "ForConditionalGeneration" if name in PAIRS else "ForCausalLM"
    names = {"GPT2": "GPT2LMHeadModel", "MarianMT": "MarianMTModel"}
    config = {"Gemma3": "Gemma3TextConfig", "MarianMT": "MarianConfig"}.get(kind, f"{kind}Config")
    model = getattr(transformers, names.get(kind, kind + ending))
    theirs = saved(model(getattr(transformers, config)(**settings)), folder)
    if name in PAIRS:
        pair_tokenizer().save(str(folder / "tokenizer.json"))
        (folder / "generation_config.json").unlink(missing_ok=True)
    if name.startswith("byt5"):
        transformers.ByT5Tokenizer().save_pretrained(folder)
    return theirs


def read_as(folder: Path, values: dict[str, Any]) -> Imported | ForeignTranslator:
    (folder / "config.json").write_text(json.dumps(values))
    return read_foreign(folder)


def assert_same_model(one: Imported | ForeignTranslator, other: Imported | ForeignTranslator) -> None:
    # what is dropped in training alone has other usual values here
    kept = {"dropout": 0.0, "attention_dropout": 0.0}
    assert one.model.model_copy(update=kept) == other.model.model_copy(update=kept)
    assert one.weights.keys() == other.weights.keys()
    assert all(torch.equal(one.weights[name], other.weights[name]) for name in one.weights)


@pytest.mark.parametrize("name", FIRST)
def test_what_a_config_leaves_out_is_what_transformers_takes(name: str, tmp_path: Path) -> None:
    bare = {key: value for key, value in SHAPES[name][1].items() if key in SIZES} | MORE.get(name, {})
    theirs = folder_of(name, bare, tmp_path)
    full = json.loads((tmp_path / "config.json").read_text())
    said = {"model_type": full["model_type"], "architectures": full["architectures"], **bare}
    whole = read_as(tmp_path, {**bare, **full})
    found = read_as(tmp_path, said)
    again = transformers.AutoConfig.from_pretrained(tmp_path).to_dict()
    # where they lie, and their numbers
    known = {"dtype": None, "_name_or_path": None}
    assert {**again, **known} == {**theirs.config.to_dict(), **known}
    assert_same_model(found, whole)


def of_old(rope: dict[str, Any], base: str = "rope_theta", share: str = "partial_rotary_factor") -> dict[str, Any]:
    """Rotary settings by the names of years ago."""
    scaling = {name: value for name, value in rope.items() if name not in ("rope_theta", "partial_rotary_factor")}
    if scaling["rope_type"] == "default":
        scaling = {}
    else:
        scaling["type"] = scaling.pop("rope_type")
    old = {base: rope["rope_theta"], "rope_scaling": scaling or None}
    return {**old, share: rope["partial_rotary_factor"]} if "partial_rotary_factor" in rope else old


DEFAULTS = {kind: {"rope_type": "default", "rope_theta": TWO_BASES[kind]["rope_theta"]} for kind in TWO_BASES}
OLD: dict[str, dict[str, Any]] = {
    **{name: of_old(SHAPES[name][1]["rope_parameters"]) for name in (
        "llama-linear", "llama-llama3", "llama-yarn", "llama-one-key", "qwen3-window", "phi-whole-heads", "phi3-long",
        "nomic-base",
    )},
    "neox-whole-heads": of_old(SHAPES["neox-whole-heads"][1]["rope_parameters"], "rotary_emb_base", "rotary_pct"),
    "gemma3-two-bases": {
        "rope_theta": 700.0, "rope_local_base_freq": 30.0, "rope_scaling": {"rope_type": "linear", "factor": 4.0},
    },
    "modernbert-biases": {"global_rope_theta": 700.0, "local_rope_theta": 30.0},
}  # fmt: skip


@pytest.mark.parametrize("name", OLD)
def test_rotary_positions_by_their_old_names(name: str, tmp_path: Path) -> None:
    settings = dict(SHAPES[name][1])
    if name == "modernbert-biases":
        settings["rope_parameters"] = DEFAULTS
    theirs = folder_of(name, settings, tmp_path)
    full = json.loads((tmp_path / "config.json").read_text())
    whole = read_foreign(tmp_path)
    del full["rope_parameters"]
    found = read_as(tmp_path, {**full, **OLD[name]})
    again = transformers.AutoConfig.from_pretrained(tmp_path)
    ours, wanted = again.to_dict()["rope_parameters"], theirs.config.to_dict()["rope_parameters"]
    for one in (ours, *ours.values()):
        if isinstance(one, dict):
            one.pop("type", None)
    assert ours == wanted
    assert_same_model(found, whole)


@pytest.mark.parametrize(("left_out", "start"), [((), 90), (("decoder_start_token_id",), 3)])
def test_a_translation_begins_with_what_the_config_names(left_out: tuple[str, ...], start: int, tmp_path: Path) -> None:
    """Or else with the beginning of a sentence, as in transformers."""
    folder_of("mbart-uneven", SHAPES["mbart-uneven"][1], tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    found = read_as(tmp_path, {name: value for name, value in values.items() if name not in left_out})
    assert isinstance(found, ForeignTranslator)
    assert found.orders[0].rows[1] == start


def test_a_long_rope_is_read_as_far_as_its_first_training(tmp_path: Path) -> None:
    """Beyond it transformers turns all positions by other frequencies."""
    folder_of("phi3-long", SHAPES["phi3-long"][1], tmp_path)
    found = read_foreign(tmp_path)
    assert isinstance(found, Imported)
    assert found.model.max_positions == 100
    assert found.head_config.context == 100  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("smollm3", {"use_sliding_window": True}, "use_sliding_window = True is not supported; only False is"),
        ("nomic", {"rotary_emb_interleaved": True}, "rotary_emb_interleaved = True is not supported; only False is"),
        ("gpt-neo", {"attention_types": [[["far"], 2]]}, r"a setting is not of its kind \('far'\)"),
        ("gpt-neo", {"attention_types": 7}, "a setting is not of its kind"),
        ("gemma3", {"num_hidden_layers": 10**12, "layer_types": None}, "num_hidden_layers is 1,000,000,000,000, but"),
        ("gpt-neo", {"num_layers": 10**12}, "num_layers is 1,000,000,000,000, but"),
        ("mbart", {"decoder_start_token_id": "x"}, "decoder_start_token_id must be a number, not 'x'"),
        ("bart", {"forced_bos_token_id": 0}, "no text begins with forced_bos_token_id = 0"),
        ("bart", {"forced_bos_token_id": 9999}, "no text begins with forced_bos_token_id = 9999"),
        ("gemma3", {"layer_types": []}, "layer_kinds: Tuple should have at least 1 item after validation, not 0"),
        ("llama", {"head_dim": 10**12}, "heads of 1000000000000 numbers are not supported"),
        ("phi", {"hidden_size": 10**12}, "heads of 250000000000 numbers are not supported"),
        ("llama", {"num_attention_heads": 0}, "num_heads: input should be greater than 0, not 0"),
        ("t5", {"num_heads": 4}, "its shape is"),
        ("llama", {"vocab_size": 300}, r"the weight lm_head\.weight does not fit its config\.json"),
        ("bert", {"vocab_size": 200}, "does not fit its config.json: its shape is 257 x 24, not 200 x 24"),
    ],
)  # fmt: skip
def test_a_config_that_lies_is_refused_by_name(
    name: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder_of(name, SHAPES[name][1], tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    with pytest.raises(DataError, match=message) as refused:
        read_as(tmp_path, {**values, **changes})
    assert "\n" not in str(refused.value)


def complaint(folder: Path, values: dict[str, Any]) -> str:
    """What is said of a folder with this config.json; nothing where it is read."""
    try:
        read_as(folder, values)
    except DikkatError as refused:
        return str(refused)
    return ""


ABSENT = object()
NONSENSE: tuple[Any, ...] = (None, "x", -1, 2.5, True, [], {}, [None], 10**12, 10**400)


@pytest.mark.nightly
@pytest.mark.parametrize("name", FIRST)
def test_nonsense_in_a_config_is_read_or_refused_in_one_line(name: str, tmp_path: Path) -> None:
    folder_of(name, SHAPES[name][1], tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    for key, nonsense in product(values, (ABSENT, *NONSENSE)):
        changed = {other: value for other, value in values.items() if other != key}
        changed |= {} if nonsense is ABSENT else {key: nonsense}
        assert "\n" not in complaint(tmp_path, changed), (key, nonsense)


PAGE = Path(__file__).parents[2] / "docs" / "import.md"


def rows_of(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading of docs/import.md, without its first two lines."""
    lines = iter(PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].split("\n"))
    table = takewhile(lambda line: line.startswith("|"), dropwhile(lambda line: not line.startswith("|"), lines))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table][2:]


def test_the_page_has_a_row_of_every_family() -> None:
    named = [name for row in rows_of("Families") for name in re.findall(r"`([^`]+)`", row[1])]
    assert sorted(named) == sorted(families())


@pytest.mark.parametrize("name", FIRST)
def test_the_page_tells_which_engine_computes_a_family(name: str, tmp_path: Path) -> None:
    folder_of(name, SHAPES[name][1], tmp_path)
    found, kind = read_foreign(tmp_path), json.loads((tmp_path / "config.json").read_text())["model_type"]
    (told,) = [row[2] for row in rows_of("Families") if f"`{kind}`" in row[1]]
    task = found.task
    is_native = not why_not_native({"model": found.model.model_dump(), "task": task}, "the run")
    assert told == ("native, torch" if is_native else "torch"), told
