"""The tokenizer of a run directory for the peers, through the same `tokenizers` library that dikkat calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
UNWRITTEN = (PAD_ID, BOS_ID, EOS_ID)


class PeerTokenizer:
    def __init__(self, run: str) -> None:
        self.inner = Tokenizer.from_file(str(Path(run) / "tokenizer.json"))
        # "<eos>" typed by hand is text
        self.inner.encode_special_tokens = True

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Ids of each line, without end mark."""
        stripped = [line.strip() for line in lines]
        return [encoding.ids for encoding in self.inner.encode_batch_fast(stripped, add_special_tokens=False)]

    def decode(self, batch: Iterable[Sequence[int]]) -> list[str]:
        kept = [[token for token in ids if token not in UNWRITTEN] for ids in batch]
        texts = self.inner.decode_batch(kept, skip_special_tokens=False)
        return [" ".join(text.split("\n")) for text in texts]

    def turn_around(self, lines: Sequence[str]) -> list[str]:
        return self.decode(self.encode(lines))

    def vocabulary(self) -> list[str]:
        """All tokens in the order of their ids."""
        tokens = self.inner.get_vocab()
        return sorted(tokens, key=tokens.__getitem__)
