"""Folders of CTranslate2 as its converters of 2019 to 2022 wrote them, made of those of today.

The formats are those that src/models/model.cc and src/models/transformer.cc of CTranslate2 4.8 read still.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dikkat.interop.ctranslate2.model_file import Array, read_model_file


@dataclass(frozen=True)
class Format:
    """A format, and what its models say instead of config.json."""

    version: int
    revision: int
    flags: Mapping[str, int]


FORMATS = {
    "2019": Format(3, 3, {}),
    "2021": Format(4, 3, {"with_source_bos": 0, "with_source_eos": 0, "with_target_bos": 1}),
    "2022": Format(5, 4, {"with_source_eos": 1}),
    "late 2022": Format(5, 6, {"with_source_eos": 0, "with_target_bos": 0}),
}
_KINDS = {"<f4": 0, "|i1": 1, "<i2": 2}
_SHARED = ("num_heads", "pre_norm", "activation", "embeddings_merge", "alignment_layer", "alignment_heads")


def older_folder(files: Mapping[str, bytes], form: Format, folder: Path, *, int16: bool = False) -> dict[str, bytes]:
    """The files of a folder in an older format: vocabularies of lines, no config.json.

    With `int16` matrices have so many bits, and no scale, which is 1000 then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.bin").write_bytes(files["model.bin"])
    model = read_model_file(folder / "model.bin")
    (folder / "model.bin").unlink()
    variables, aliases = dict(model.variables), dict(model.aliases)
    if int16:
        aliases = {alias: name for alias, name in aliases.items() if not alias.endswith("_scale")}
        variables = {name: _rounded(name, array) for name, array in variables.items()}
    if form.revision < 5:
        for name in _SHARED:
            found = [variables.pop(f"{stack}/{name}", None) for stack in ("encoder", "decoder")]
            value = next((one for one in found if one is not None), None)
            if value is not None:
                variables[name] = value
        variables["with_relative_position"] = np.asarray(np.int8(0))
    if form.revision < 4:
        variables = {_plain(name): array for name, array in variables.items()}
        aliases = {_plain(alias): _plain(name) for alias, name in aliases.items()}
        for stack in ("encoder", "decoder"):
            scaled = variables.pop(f"{stack}/scale_embeddings")
            variables[f"{stack}/embeddings/multiply_by_sqrt_depth"] = scaled
    variables |= {name: np.asarray(np.int8(value)) for name, value in form.flags.items()}
    others = {name: content for name, content in files.items() if name not in ("config.json", "model.bin")}
    return {**others, "model.bin": _file(variables, aliases, form)}


def _plain(name: str) -> str:
    return name.replace("embeddings_0/", "embeddings/")


def _rounded(name: str, array: Array) -> Array:
    return np.rint(array * 1000).astype("<i2") if name.endswith("/weight") else array


def _file(variables: Mapping[str, Array], aliases: Mapping[str, str], form: Format) -> bytes:
    parts = [struct.pack("<I", form.version), _text("TransformerSpec")]
    parts.append(struct.pack("<II", form.revision, len(variables)))
    for name, array in variables.items():
        kind = _KINDS[array.dtype.str] if form.version > 3 else array.dtype.itemsize
        length = array.nbytes if form.version > 3 else array.size
        parts += [_text(name), struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)]
        parts += [struct.pack("<BI", kind, length), np.ascontiguousarray(array).tobytes()]
    parts.append(struct.pack("<I", len(aliases)))
    parts += [_text(alias) + _text(name) for alias, name in aliases.items()]
    return b"".join(parts)


def _text(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"
