"""Ids with a meaning of their own, the same in every vocabulary of dikkat."""

from collections.abc import Sequence
from dataclasses import dataclass

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")


def source_ids(tokens: Sequence[int], add_eos: bool) -> list[int]:
    """Return the ids that an encoder reads of a source: its `tokens`, with `<eos>` after them if `add_eos`."""
    return [*tokens, EOS_ID] if add_eos else list(tokens)


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The ids that a language model begins and ends a text with; a foreign vocabulary may lack them."""

    begin: int | None = BOS_ID
    end: int | None = EOS_ID
    never_written: tuple[int, ...] = (PAD_ID, BOS_ID, UNK_ID)
