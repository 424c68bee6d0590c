"""Ids with a meaning of their own, the same in every vocabulary of dikkat."""

from __future__ import annotations

from dataclasses import dataclass

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The ids that a language model begins and ends a text with; a foreign vocabulary may lack them."""

    begin: int | None = BOS_ID
    end: int | None = EOS_ID
    never_written: tuple[int, ...] = (PAD_ID, BOS_ID, UNK_ID)
