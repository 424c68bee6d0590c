"""The options of a Marian model, which it keeps within its file as `special:model.yml`, and our settings.

Both that and the `decoder.yml` next to it are flat: a name and a value a line, or a name and a list of values, which
stand a line each or in square brackets.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dikkat.config import ModelConfig
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.foreign_json import shown

Option = str | list[str]

_REQUIRED: dict[str, Option] = {
    "type": "transformer",
    "transformer-tied-layers": [],
    "transformer-no-projection": "false",
    "transformer-no-bias": "false",
    "transformer-no-affine": "false",
    "transformer-rnn-projection": "false",
    "transformer-ffn-depth": "2",
    "transformer-decoder-dim-ffn": "0",
    "transformer-decoder-ffn-depth": "0",
    "transformer-pool": "false",
    "transformer-postprocess-top": "",
    "transformer-attention-mask": "default",
    "transformer-disable-position-embeddings": "false",
    "transformer-train-position-embeddings": "false",
    "transformer-train-positions": "false",
    "right-left": "false",
    "output-omit-bias": "false",
    "factors-combine": "sum",
    "lemma-dim-emb": "0",
    "ulr": "false",
    "input-types": [],
}
"""Options that change what a model computes, with the only value that is read."""
DECODER = ".decoder.yml"
"""Where it trains a model.npz, Marian writes model.npz.decoder.yml and two other .yml."""
_VERSION = "v1.12.0"
ACTIVATIONS = {"swish": "silu", "relu": "relu"}
"""Without gelu, which is x sigmoid(1.702 x) in versions before 1.12.1 and exact in later ones."""


NORM_EPS = 1e-6
"""That of layerNorm in src/layers/generic.h; the 1e-9 of marian::layerNorm is what it is called without."""


def read_options(text: bytes, where: str) -> dict[str, Option]:
    """Read a flat YAML text. Raises `DataError` naming the line that is something else."""
    options: dict[str, Option] = {}
    name = ""
    try:
        lines = text.rstrip(b"\0").decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise DataError("{where}: its options are not text", where) from None
    for number, line in enumerate(lines, start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        listed = options.get(name)
        if content.startswith("- ") and isinstance(listed, list):
            listed.append(_plain(content[2:]))
            continue
        if content == "[]" and listed == []:
            # Marian writes an empty list on a line of its own
            continue
        name, colon, value = content.partition(":")
        if not colon or line[0] in " \t-" or name in options:
            raise DataError(
                "{where}: line {number} of its options must be an option, not: {line}", where, number, shown(line)
            )
        options[name] = _value(value.strip())
    return options


def values_of(options: Mapping[str, Option], name: str) -> list[str]:
    """Return the values of an option that Marian lists; one value is a list of one, and an empty one is none."""
    value = options.get(name, [])
    if isinstance(value, str):
        return [value] if value else []
    return value


def _value(text: str) -> Option:
    if text.startswith("[") and text.endswith("]"):
        return [_plain(item) for item in text[1:-1].split(",")] if text[1:-1].strip() else []
    return _plain(text) if text else []


def _plain(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def model_settings(options: Mapping[str, Option], where: str, sizes: Sequence[int]) -> dict[str, object]:
    """Return the settings of our model that computes the same; `sizes` are those of the vocabularies in the file.

    Raises `DataError` naming an option that no model of ours computes.
    """
    for name, only in _REQUIRED.items():
        if name in options and options[name] != only:
            raise _not_computed(where, name, options[name])
    memory = _choice(options, "transformer-decoder-autoreg", "self-attention", where, ("self-attention", "rnn"))
    if memory == "rnn":
        _choice(options, "dec-cell", "ssru", where, ("ssru",))
    tied_all, tied = (_flag(options, name) for name in ("tied-embeddings-all", "tied-embeddings"))
    if _flag(options, "tied-embeddings-src") and not tied_all:
        raise _not_computed(where, "tied-embeddings-src", msg("true without tied-embeddings-all"))
    _check_norms(options, where)
    return {
        "vocab_size": sizes[0],
        "target_vocab_size": None if tied_all else sizes[-1],
        "tie_embeddings": tied_all or tied,
        "model_dim": _number(options, "dim-emb", where),
        "num_heads": _number(options, "transformer-heads", where),
        "feed_forward_dim": _number(options, "transformer-dim-ffn", where),
        "encoder_layers": _number(options, "enc-depth", where),
        "decoder_layers": _number(options, "dec-depth", where),
        "activation": ACTIVATIONS[_choice(options, "transformer-ffn-activation", "swish", where, tuple(ACTIVATIONS))],
        "decoder_memory": "ssru" if memory == "rnn" else "attention",
        "norm_placement": "post",
        "norm_eps": NORM_EPS,
        "positions": "sinusoidal_concatenated",
        "dropout": 0.1,
        "output_bias": True,
    }


def model_options(model: ModelConfig, sizes: Sequence[int]) -> str:
    """Return the options that `model_settings` reads the settings of `model` from; `sizes` are of the vocabularies."""
    tied = model.tie_embeddings
    values: dict[str, Option] = {
        **_REQUIRED,
        "version": _VERSION,
        "dim-vocabs": [str(size) for size in sizes],
        "dim-emb": str(model.model_dim),
        "enc-depth": str(model.encoder_layers),
        "dec-depth": str(model.decoder_layers),
        "dec-cell": "ssru",
        "layer-normalization": "false",
        "skip": "false",
        "tied-embeddings": _yes(tied and model.target_vocab_size is not None),
        "tied-embeddings-all": _yes(tied and model.target_vocab_size is None),
        "tied-embeddings-src": "false",
        "transformer-heads": str(model.num_heads),
        "transformer-dim-ffn": str(model.feed_forward_dim),
        "transformer-ffn-activation": {ours: name for name, ours in ACTIVATIONS.items()}[model.activation],
        "transformer-decoder-autoreg": "rnn" if model.decoder_memory == "ssru" else "self-attention",
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
    }
    return options_text(dict(sorted(values.items())))


def options_text(values: Mapping[str, Option]) -> str:
    """Return the flat YAML text that `read_options` reads these options from."""
    return "".join(f"{name}: {_written(value)}\n" for name, value in values.items())


def _yes(flag: bool) -> str:
    return "true" if flag else "false"


def _written(value: Option) -> str:
    return value or '""' if isinstance(value, str) else "".join(f"\n  - {item}" for item in value) or "[]"


def _check_norms(options: Mapping[str, Option], where: str) -> None:
    """Refuse norms elsewhere than after each sum; the letters are what is done to a sub-layer, d, a and n.

    With norms before a sub-layer, the keys and values of self-attention are normalised or not as Marian's version has
    it, and in version 1.12 when it trains but not when it translates.
    """
    for name, default, only in (
        ("transformer-preprocess", "", ""),
        ("transformer-postprocess", "dan", "an"),
        ("transformer-postprocess-emb", "d", ""),
    ):
        value = options.get(name, default)
        # d is dropout, which is for training
        if not isinstance(value, str) or value.replace("d", "") != only:
            raise _not_computed(where, name, value)


def _flag(options: Mapping[str, Option], name: str) -> bool:
    return options.get(name) == "true"


def _number(options: Mapping[str, Option], name: str, where: str) -> int:
    value = options.get(name)
    if not isinstance(value, str) or not value.isdecimal() or len(value) > 9:
        raise DataError(
            "{where}: the option {name} must be a whole number, not {value}", where, name, shown(repr(value))
        )
    return int(value)


def _choice(options: Mapping[str, Option], name: str, default: str, where: str, known: tuple[str, ...]) -> str:
    value = options.get(name, default)
    if not isinstance(value, str) or value not in known:
        raise _not_computed(where, name, value)
    return value


def _not_computed(where: str, name: str, value: object) -> DataError:
    return DataError("{where}: the option {name} = {value} is not supported", where, name, shown(str(value)))


def config_files(folder: Path) -> list[Path]:
    """Return the files of options in a folder that may name a model and its vocabularies; usually there is one."""
    files = sorted(folder.glob("*.yml"))
    for named in ("decoder.yml", "config.yml"):
        if folder / named in files:
            return [folder / named]
    trained = [path for path in files if path.name.endswith(f".npz{DECODER}")]
    return trained or [path for path in files if not path.name.endswith(".vocab.yml")]
