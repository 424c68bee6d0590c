"""Check a `tokenizer.json`, which a stranger may have written, before the `tokenizers` library reads it.

The library runs what the file describes: any regular expression, replacements that double a text thirty times, a map
that aborts the process, ids for which it reserves memory. Allowed are the components that our own tokenizers and those
of imported checkpoints are made of, our own expressions, ids 0 … V-1 without a hole, and bounded sizes.
"""

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.run.strict_json import parse_json
from dikkat_runtime.text.pieces import HIDDEN, REPEATED_SPACES, SPACE

_MAX_SIZE = 1 << 23
"""Bytes; the map of the normalisation NFKC takes 240,000."""
_MAX_REPLACEMENT_LENGTH = 64
"""Bytes; the longest of NFKC takes 33."""
_LEAF = np.uint32(1 << 31)
_WIDE = np.uint32(1 << 9)
_HAS_LEAF = np.uint32(1 << 8)


def check_charsmap(content: bytes) -> None:
    """Check a map of characters. Raises `ValueError` with what is wrong."""
    if not 4 <= len(content) <= _MAX_SIZE:
        raise ValueError(f"a map of characters of {len(content):,} bytes")
    size = int.from_bytes(content[:4], "little")
    if size % 4 or not 4 <= size <= len(content) - 4:
        raise ValueError("a map of characters that does not fit into its file")
    units = np.frombuffer(content[4 : 4 + size], "<u4")
    _check_trie(units, _replacement_starts(content[4 + size :]))


def is_charsmap(value: object) -> bool:
    """Return whether a value of a tokenizer.json is a map of characters in base64 that is safe to walk through."""
    if not isinstance(value, str) or len(value) > 2 * _MAX_SIZE:
        return False
    try:
        check_charsmap(base64.b64decode(value, validate=True))
    except (ValueError, binascii.Error):
        return False
    return True


def _replacement_starts(pool: bytes) -> NDArray[np.bool_]:
    """Where a replacement may begin: at each character of the pool, the last of which is a zero."""
    if not pool.endswith(b"\0"):
        raise ValueError("a map of characters whose replacements do not end")
    pool.decode("utf-8")
    if max(map(len, pool.split(b"\0"))) > _MAX_REPLACEMENT_LENGTH:
        raise ValueError(f"a map of characters with a replacement of more than {_MAX_REPLACEMENT_LENGTH} bytes")
    return np.asarray(np.frombuffer(pool, np.uint8) & 0xC0 != 0x80)


def _check_trie(units: NDArray[np.uint32], starts: NDArray[np.bool_]) -> None:
    """Every step from a unit that a byte can lead to stays inside, and every value is the start of a replacement."""
    inner = units & _LEAF == 0
    offsets = (units >> np.uint32(10)) << ((units & _WIDE) >> np.uint32(6))
    targets = np.arange(len(units), dtype=np.int64) ^ offsets.astype(np.int64)
    if (targets[inner] | 0xFF).max(initial=0) >= len(units):
        raise ValueError("a map of characters whose trie leads outside")
    values = units[targets[inner & (units & _HAS_LEAF != 0)]] & ~_LEAF
    if values.max(initial=0) >= len(starts) or not starts[values].all():
        raise ValueError("a map of characters with a value that is not a replacement")


MAX_FILE_SIZE = 32 << 20
"""Bytes of a tokenizer.json; the largest known vocabularies (256,000 entries) take half of it."""
_MAX_VALUES = 1_500_000
_MAX_ENTRY_LENGTH = 1 << 16
_MAX_COMPONENTS = 16
_MAX_ADDED = 20_000
_KEYS = {
    "version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder",
    "model",
}  # fmt: skip
_ADDED_KEYS = {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}

Check = Callable[[Any], bool]


def _is(*values: object) -> Check:
    return lambda value: any(value == one and type(value) is type(one) for one in values)


_is_flag = _is(True, False)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1000


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 64


def _is_short_or_none(value: Any) -> bool:
    return value is None or _is_short(value)


_SPACE_MARKS = _is(" ", "▁")
_NORMALIZERS: Mapping[str, Mapping[str, Check]] = {
    "NFC": {},
    "NFD": {},
    "NFKC": {},
    "NFKD": {},
    "Lowercase": {},
    "StripAccents": {},
    "Prepend": {"prepend": _SPACE_MARKS},
    "Replace": {
        "pattern": _is({"Regex": "[\u202f\u00a0]"}, {"Regex": REPEATED_SPACES}, {"String": " "}),
        "content": _SPACE_MARKS,
    },
    "Precompiled": {"precompiled_charsmap": is_charsmap},
    "Strip": {"strip_left": _is_flag, "strip_right": _is_flag},
    "BertNormalizer": {
        "clean_text": _is_flag,
        "handle_chinese_chars": _is_flag,
        "strip_accents": _is(None, True, False),
        "lowercase": _is_flag,
    },
}
_BYTE_LEVEL: Mapping[str, Check] = {"add_prefix_space": _is_flag, "trim_offsets": _is_flag, "use_regex": _is_flag}
_METASPACE: Mapping[str, Check] = {
    "replacement": _SPACE_MARKS,
    "prepend_scheme": _is("always", "never", "first"),
    "add_prefix_space": _is_flag,
    "split": _is_flag,
    "str_rep": _SPACE_MARKS,
}
_BEHAVIOURS = _is("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")


def _pre_tokenizers(patterns: tuple[str, ...]) -> Mapping[str, Mapping[str, Check]]:
    return {
        "BertPreTokenizer": {},
        "Whitespace": {},
        "WhitespaceSplit": {},
        "Punctuation": {"behavior": _BEHAVIOURS},
        "Digits": {"individual_digits": _is_flag},
        "Metaspace": _METASPACE,
        "ByteLevel": _BYTE_LEVEL,
        "Split": {
            "pattern": _is({"String": " "}, *({"Regex": pattern} for pattern in patterns)),
            "behavior": _BEHAVIOURS,
            "invert": _is(False),
        },
    }


_DECODERS: Mapping[str, Mapping[str, Check]] = {
    "ByteLevel": _BYTE_LEVEL,
    "Fuse": {},
    "ByteFallback": {},
    "Replace": {"pattern": _is({"String": SPACE}, {"String": HIDDEN}), "content": _is(" ", "")},
    "Strip": {"content": _SPACE_MARKS, "start": _is_size, "stop": _is_size},
    "WordPiece": {"prefix": _is_short, "cleanup": _is_flag},
    "BPEDecoder": {"suffix": _is_short},
    "Metaspace": _METASPACE,
}


def checked_tokenizer(content: bytes, patterns: tuple[str, ...]) -> dict[str, Any]:
    """Return the JSON of a `tokenizer.json` that is safe to load; `patterns` are the regular expressions it may hold.

    Raises `ValueError` with the reason.
    """
    if content.count(b",") > _MAX_VALUES:
        raise ValueError(f"has more than {_MAX_VALUES:,} values")
    tokenizer = parse_json(content)
    if not isinstance(tokenizer, dict) or not isinstance(tokenizer.get("model"), dict):
        raise ValueError("describes no tokenizer")
    _no_others("tokenizer", tokenizer, _KEYS)
    _check_limits(tokenizer)
    _check_part("normalizer", tokenizer.get("normalizer"), "normalizers", _NORMALIZERS)
    _check_part("pre_tokenizer", tokenizer.get("pre_tokenizer"), "pretokenizers", _pre_tokenizers(patterns))
    _check_part("decoder", tokenizer.get("decoder"), "decoders", _DECODERS)
    vocabulary = _vocabulary(tokenizer["model"])
    size = _check_ids(vocabulary, _added(tokenizer.get("added_tokens", [])))
    _check_model(tokenizer["model"], vocabulary)
    _check_post_processor(tokenizer.get("post_processor"), size)
    return tokenizer


def _no_others(what: str, members: Mapping[str, Any], known: set[str]) -> None:
    if other := members.keys() - known:
        raise ValueError(f"{what}: unknown key {min(other)[:40]!r}")


def _check_limits(content: Mapping[str, Any]) -> None:
    """Check truncation and padding: loaders switch them off, but their numbers must be numbers."""
    for name in ("truncation", "padding"):
        value = content.get(name)
        if value is None:
            continue
        if not isinstance(value, dict) or not all(
            _is_short_or_none(entry) or _is_flag(entry) or _is_small(entry) or _is_fixed(entry)
            for entry in value.values()
        ):
            raise ValueError(f"{name}: not the settings of a tokenizer")


def _is_small(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value <= 1 << 20


def _is_fixed(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"Fixed"} and _is_small(value["Fixed"])


def _check_part(what: str, part: Any, plural: str, known: Mapping[str, Mapping[str, Check]]) -> None:
    if part is None:
        return
    parts = [part]
    if isinstance(part, dict) and part.get("type") == "Sequence":
        _no_others(what, part, {"type", plural})
        parts = part.get(plural, [])
        if not isinstance(parts, list) or len(parts) > _MAX_COMPONENTS:
            raise ValueError(f"{what}: not a sequence of at most {_MAX_COMPONENTS}")
    grows = 0
    for component in parts:
        kind = component.get("type") if isinstance(component, dict) else None
        if not isinstance(kind, str) or kind not in known:
            raise ValueError(f"{what}: {str(kind)[:40]!r} is not a component that dikkat uses")
        fields = known[kind]
        _no_others(f"{what} {kind}", component, {"type", *fields})
        if kind == "Precompiled" and "precompiled_charsmap" not in component:
            raise ValueError(f"{what} Precompiled: has no map of characters")
        for name, value in component.items():
            if name != "type" and not fields[name](value):
                raise ValueError(f"{what} {kind}: {name} has a value that dikkat does not use")
        grows += kind in ("NFKC", "NFKD", "Prepend", "Precompiled")
    if grows > 2:
        raise ValueError(f"{what}: makes a text longer {grows} times")


def _vocabulary(model: Mapping[str, Any]) -> Mapping[str, int]:
    vocabulary = model.get("vocab")
    if model.get("type") == "Unigram":
        if not isinstance(vocabulary, list):
            raise ValueError("model: the vocabulary must be a list")
        for entry in vocabulary:
            if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and _is_score(entry[1])):
                raise ValueError("model: the vocabulary holds what is not an entry with a score")
        named = {entry[0]: number for number, entry in enumerate(vocabulary)}
        if len(named) < len(vocabulary):
            raise ValueError("model: the vocabulary has an entry twice")
        return named
    if not isinstance(vocabulary, dict):
        raise ValueError("model: there is no vocabulary")
    return vocabulary


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _added(added: Any) -> dict[str, int]:
    if not isinstance(added, list) or len(added) > _MAX_ADDED:
        raise ValueError(f"added_tokens: not a list of at most {_MAX_ADDED:,}")
    ids: dict[str, int] = {}
    for token in added:
        if not isinstance(token, dict) or not {"id", "content"} <= token.keys() <= _ADDED_KEYS:
            raise ValueError("added_tokens: holds what is not a token")
        if not (isinstance(token["content"], str) and 0 < len(token["content"]) <= 256):
            raise ValueError("added_tokens: a token must have 1 to 256 characters")
        if not all(_is_flag(value) for name, value in token.items() if name not in ("id", "content")):
            raise ValueError("added_tokens: a token has a flag that is neither true nor false")
        if token["content"] in ids:
            raise ValueError("added_tokens: a token stands in it twice")
        ids[token["content"]] = token["id"]
    return ids


def _check_ids(vocabulary: Mapping[str, int], added: Mapping[str, int]) -> int:
    """Return the size of the whole vocabulary, whose ids are 0 … V-1, each once."""
    ids = [*vocabulary.values(), *(number for token, number in added.items() if token not in vocabulary)]
    if not set(map(type, chain(ids, added.values()))) <= {int}:
        raise ValueError("the vocabulary has an id that is not a number")
    if any(vocabulary.get(token, number) != number for token, number in added.items()):
        raise ValueError("an added token has another id than in the vocabulary")
    if not ids:
        raise ValueError("the vocabulary is empty")
    if min(ids) != 0 or max(ids) != len(ids) - 1 or len(set(ids)) != len(ids):
        raise ValueError(f"the ids of the {len(ids):,} entries are not 0 to {len(ids) - 1:,}, each once")
    if max(map(len, vocabulary), default=0) > _MAX_ENTRY_LENGTH:
        raise ValueError(f"the vocabulary has an entry of more than {_MAX_ENTRY_LENGTH:,} characters")
    return len(ids)


def _check_model(model: Mapping[str, Any], vocabulary: Mapping[str, int]) -> None:
    kind = model.get("type")
    fields: Mapping[str, Check] | None = _MODELS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise ValueError(f"model: {str(kind)[:40]!r} is not a component that dikkat uses")
    _no_others(f"model {kind}", model, {"type", "vocab", *fields})
    for name, check in fields.items():
        if name in model and not check(model[name]):
            raise ValueError(f"model {kind}: {name} has a value that dikkat does not use")
    unknown = model.get("unk_token")
    if kind in ("WordPiece", "WordLevel") and not isinstance(unknown, str):
        raise ValueError(f"model {kind}: has no entry for the unknown")
    if unknown is not None and unknown not in vocabulary:
        raise ValueError(f"model {kind}: the entry for the unknown, {unknown!r}, is not in the vocabulary")
    if kind == "Unigram" and not (model.get("unk_id") is None or model["unk_id"] in range(len(vocabulary))):
        raise ValueError("model Unigram: the entry for the unknown is not in the vocabulary")
    # whether each merge is of two entries is checked by the library, which needs no more memory for it
    if kind == "BPE" and not (isinstance(model.get("merges"), list) and len(model["merges"]) <= len(vocabulary)):
        raise ValueError("model BPE: the merges are not a list of at most as many as there are entries")


def _check_post_processor(part: Any, size: int) -> None:
    """Check the part that puts special tokens around a text; only imported tokenizers have one."""
    if part is None:
        return
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "ByteLevel":
        _check_part("post_processor", part, "processors", {"ByteLevel": _BYTE_LEVEL})
        return
    if kind in ("BertProcessing", "RobertaProcessing"):
        _no_others("post_processor", part, {"type", "sep", "cls", "trim_offsets", "add_prefix_space"})
        marks = [part.get("sep"), part.get("cls")]
        if not all(isinstance(m, list) and len(m) == 2 and _is_short(m[0]) and _is_id(m[1], size) for m in marks):
            raise ValueError(f"post_processor {kind}: its marks are not in the vocabulary")
        return
    if kind != "TemplateProcessing":
        raise ValueError(f"post_processor: {str(kind)[:40]!r} is not a component that dikkat uses")
    _no_others("post_processor", part, {"type", "single", "pair", "special_tokens"})
    _check_template(part, size)


def _is_id(value: Any, size: int) -> bool:
    return type(value) is int and 0 <= value < size


def _check_template(part: Mapping[str, Any], size: int) -> None:
    special = part.get("special_tokens")
    if not isinstance(special, dict) or len(special) > _MAX_COMPONENTS:
        raise ValueError("post_processor TemplateProcessing: has no list of special tokens")
    for entry in special.values():
        ids, tokens = (entry.get("ids"), entry.get("tokens")) if isinstance(entry, dict) else (None, None)
        if not isinstance(ids, list) or not isinstance(tokens, list) or len(ids) > _MAX_COMPONENTS:
            raise ValueError("post_processor TemplateProcessing: a special token has no ids")
        if len(ids) != len(tokens) or not all(_is_id(number, size) for number in ids):
            raise ValueError("post_processor TemplateProcessing: a special token is not in the vocabulary")
    for name in ("single", "pair"):
        pieces = part.get(name)
        if not isinstance(pieces, list) or len(pieces) > _MAX_COMPONENTS:
            raise ValueError(f"post_processor TemplateProcessing: {name} must be a list of pieces")
        for piece in pieces:
            inner = next(iter(piece.values())) if isinstance(piece, dict) and len(piece) == 1 else None
            if not isinstance(inner, dict) or ("Sequence" not in piece and inner.get("id") not in special):
                raise ValueError(f"post_processor TemplateProcessing: {name} holds an unknown piece")


_MODELS: Mapping[str, Mapping[str, Check]] = {
    "BPE": {
        "dropout": _is(None),
        "unk_token": _is_short_or_none,
        "continuing_subword_prefix": _is_short_or_none,
        "end_of_word_suffix": _is_short_or_none,
        "fuse_unk": _is_flag,
        "byte_fallback": _is(False),
        "ignore_merges": _is_flag,
        "merges": lambda _: True,
    },
    "WordLevel": {"unk_token": _is_short_or_none},
    "WordPiece": {
        "unk_token": _is_short_or_none,
        "continuing_subword_prefix": _is_short,
        "max_input_chars_per_word": _is_size,
    },
    "Unigram": {"unk_id": lambda _: True, "byte_fallback": _is_flag},
}
