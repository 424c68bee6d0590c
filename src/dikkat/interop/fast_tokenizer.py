"""Write a tokenizer as Hugging Face's fast tokenizers and transformers.js read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, SPECIAL_TOKENS

MAX_LENGTH = 512
"""Most tokens of a text, as the folders of OPUS-MT say."""


def fast_tokenizer_files(
    settings: Mapping[str, Any], max_length: int | None, *, add_bos: bool = False, add_eos: bool = True
) -> dict[str, dict[str, Any]]:
    """Return tokenizer.json, which puts a begin mark before a text or an end mark behind it, and its settings.

    `settings` is the JSON of a tokenizer of ours, whose ids stay. A text is cut at `max_length` tokens, the marks
    included, unless that is None.
    """
    limit: dict[str, Any] = {} if max_length is None else {"model_max_length": max_length}
    names = dict(zip(("pad", "bos", "eos", "unk"), SPECIAL_TOKENS, strict=True))
    marks = {"bos": BOS_ID} if add_bos else {}
    marks |= {"eos": EOS_ID} if add_eos else {}
    begin, end = ([{"SpecialToken": {"id": names[mark], "type_id": 0}}] * (mark in marks) for mark in ("bos", "eos"))
    texts = [{"Sequence": {"id": side, "type_id": 0}} for side in "AB"]
    template = {
        "type": "TemplateProcessing",
        "single": [*begin, texts[0], *end],
        "pair": [*begin, *texts, *end],
        "special_tokens": {
            names[mark]: {"id": names[mark], "ids": [number], "tokens": [names[mark]]} for mark, number in marks.items()
        },
    }
    return {
        "tokenizer.json": {**settings, "post_processor": template},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{f"{name}_token": entry for name, entry in names.items()},
            **limit,
            "split_special_tokens": True,
            "clean_up_tokenization_spaces": False,
            "model_input_names": ["input_ids", "attention_mask"],
        },
    }
