"""Keep the attention maps of a few sentences while a model learns, and read them back."""

import io
import math
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dikkat.config import RunConfig
from dikkat.data.corpus import Corpus
from dikkat.explain.attention_map import AttentionMap, Kind, SentenceMaps, Stack, axes_of
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.language_model import LanguageModel
from dikkat.nn.recorder import record_attention
from dikkat.run_directory import RunDirectory
from dikkat_runtime.errors import CannotCreateError, DataError, DiskError, MissingInputError, UsageError
from dikkat_runtime.files import write_atomically
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID
from dikkat_runtime.text.tokenizer import Tokenizer

SENTENCES = 3
"""Held-out sentences that are watched where nobody names others."""
MIN_TOKENS, MAX_TOKENS = 6, 16
"""Limits of a sentence that is chosen: it has an order, and is read at a glance."""
MAX_LOOKED_AT = 1000
"""Held-out sentences among which some are chosen."""
GROWTH = 1.25
"""Factor from the update of one look to that of the next one: early on a model changes with every update."""
MAX_BYTES = 3_000_000
SEPARATOR = "|||"
"""Stands between a text to watch and its translation."""

Ids = tuple[int, ...]
Pair = tuple[Ids, Ids]
"""What an encoder reads and what a decoder is fed; one of them is empty where there is no such stack."""


def watched_pairs(run: RunDirectory, config: RunConfig, model: nn.Module, texts: Sequence[str]) -> list[Pair]:
    """Return the ids of `texts`, by default of some short held-out sentences, with the marks that `model` reads.

    Raises `UsageError` for a text of a translator without its translation, and for a translation of any other model.
    """
    if texts:
        return [_framed(model, _encoded(run, config, model, text)) for text in texts]
    sizes = config.model.vocab_size, config.model.target_vocab_size or 0
    corpus = Corpus.open(run.corpus, "validation", vocab_size=max(sizes))
    pairs: list[tuple[int, Pair]] = []
    for index in range(min(len(corpus), MAX_LOOKED_AT)):
        source, target = tuple(corpus.source(index).tolist()), tuple(corpus.target(index).tolist())
        if isinstance(model, LanguageModel):
            source, target = source[:MAX_TOKENS], ()
        lengths = [len(source), *([len(target)] if isinstance(model, EncoderDecoder) else [])]
        if min(lengths):
            far = sum(max(MIN_TOKENS - length, 0) + max(length - MAX_TOKENS, 0) for length in lengths)
            pairs.append((far, (source, target)))
    # the first of those that fit, else the nearest
    return [_framed(model, pair) for _, pair in sorted(pairs, key=itemgetter(0))[:SENTENCES]]


def _encoded(run: RunDirectory, config: RunConfig, model: nn.Module, text: str) -> Pair:
    pair_texts = [side.strip() for side in text.split(SEPARATOR)]
    if len(pair_texts) != (2 if isinstance(model, EncoderDecoder) else 1) or not all(pair_texts):
        raise UsageError(
            '--watch-text "{text}": a translator watches a text with its translation, "TEXT ||| TRANSLATION", any '
            "other model a text alone",
            text,
        )
    paths = (run.tokenizer, run.target_tokenizer if run.target_tokenizer.exists() else run.tokenizer)
    languages = (config.data.source_language, config.data.target_language)
    tokenizers = [Tokenizer.load(path) for path in paths]
    ids = [tuple(tokenizers[side].encode(pair_texts[side], languages[side])) for side in range(len(pair_texts))]
    return ids[0], ids[1] if len(ids) > 1 else ()


def _framed(model: nn.Module, pair: Pair) -> Pair:
    source, target = pair
    if isinstance(model, EncoderDecoder):
        return (*source, *((EOS_ID,) if model.add_source_eos else ())), (BOS_ID, *target)
    return ((), source) if isinstance(model, LanguageModel) else (source, ())


@torch.no_grad()
def read_pair(model: nn.Module, pair: Pair) -> dict[str, NDArray[np.float32]]:
    """Let a model read a pair, and return the maps (H, T, S) of each of its attentions by name."""
    device = next(model.parameters()).device
    source, target = (torch.tensor([ids], dtype=torch.int64, device=device) for ids in pair)
    with record_attention(model) as recorded:
        if isinstance(model, EncoderDecoder):
            model(source, target, torch.ones_like(source, dtype=torch.bool))
        elif isinstance(model, LanguageModel):
            model.hidden(target)
        else:
            cast(Any, model).encode(source, torch.ones_like(source, dtype=torch.bool))
    return {
        f"{name.stack}.{name.kind}.{name.layer}": weights[0].float().cpu().numpy()
        for name, (weights,) in recorded.items()
    }


@dataclass(slots=True, eq=False)
class MapHistory:
    """Hold the maps of a few sentences after some updates of a training."""

    pairs: list[Pair]
    updates: list[int] = field(default_factory=list)
    arrays: dict[str, list[NDArray[np.float32]]] = field(default_factory=dict)
    """The maps (H, T, S) at each of the updates, by the number of the pair and the name of the attention."""

    @classmethod
    def read(cls, run: RunDirectory) -> "MapHistory":
        """Read what a run has kept. Raises `MissingInputError` where it has nothing, `DataError` for a damaged file."""
        path = run.map_history
        if not path.exists():
            raise MissingInputError(
                "{path}: keeps no maps of its training; a run keeps them while it is trained, of sentences of your "
                "own with --watch-text",
                run.path,
            )
        try:
            with np.load(path, allow_pickle=False) as file:
                content = {name: file[name] for name in file.files}
            updates = content.pop("updates").tolist()
            pair_texts = {name: tuple(content.pop(name).tolist()) for name in list(content) if "." not in name}
            pairs = [(pair_texts[f"source{n}"], pair_texts[f"target{n}"]) for n in range(len(pair_texts) // 2)]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DataError("{path}: damaged: {error}; remove it", path, error) from error
        return cls(pairs, updates, {name: list(array) for name, array in content.items()})

    def write(self, run: RunDirectory) -> None:
        """Write all of it into a run. Raises `DiskError` or `CannotCreateError`."""
        ids = {
            f"{side}{n}": pair[at] for n, pair in enumerate(self.pairs) for at, side in enumerate(("source", "target"))
        }
        content = io.BytesIO()
        arrays: dict[str, Any] = {name: np.stack(array) for name, array in self.arrays.items()}
        arrays |= {name: np.array(side, np.int32) for name, side in ids.items()}
        np.savez(content, allow_pickle=False, updates=np.array(self.updates), **arrays)
        write_atomically(run.map_history, content.getvalue())

    def thin(self) -> None:
        """Drop every second look but the first and the last, and then whole sentences, until the rest is small."""
        while self._bytes > MAX_BYTES and len(self.updates) > 2:
            for items in (self.updates, *self.arrays.values()):
                del cast(list[Any], items)[1:-1:2]
        while self._bytes > MAX_BYTES and self.pairs:
            self.pairs.pop()
            self.arrays = {name: array for name, array in self.arrays.items() if _owner(name) < len(self.pairs)}

    @property
    def _bytes(self) -> int:
        return sum(array.nbytes for arrays in self.arrays.values() for array in arrays)

    def sentence(self, number: int, look: int, labels: Sequence[Callable[[Sequence[int]], list[str]]]) -> SentenceMaps:
        """Return the maps of a pair at one of the looks; `labels` name the ids of each side."""
        reads, writes = (tuple(label(ids)) for label, ids in zip(labels, self.pairs[number], strict=True))
        maps = []
        for name in (name for name in self.arrays if _owner(name) == number):
            stack, kind = cast(tuple[Stack, Kind], name.split(".")[1:3])
            queries, keys = axes_of(stack, kind, reads, writes)
            for head, weights in enumerate(self.arrays[name][look]):
                maps.append(AttentionMap(weights, queries, keys, stack, int(name.split(".")[3]), head, kind))
        source, target = map(_text, (reads, writes))
        return SentenceMaps(source or target, target if reads else "", reads, writes, tuple(maps))


def _owner(name: str) -> int:
    return int(name.split(".")[0])


def _text(tokens: Sequence[str]) -> str:
    words = "".join(token for token in tokens if not (token.startswith("<") and token.endswith(">")))
    return " ".join(words.replace("▁", " ").split())


class MapKeeper:
    """Record the maps of `pairs` at growing intervals, and keep them in the run."""

    def __init__(self, run: RunDirectory, pairs: list[Pair], resumed_at: int = 0) -> None:
        self._run, self._history, self._is_open = run, MapHistory(pairs), bool(pairs)
        if resumed_at and run.map_history.exists():
            history = MapHistory.read(run)
            count = sum(update <= resumed_at for update in history.updates)
            arrays = {name: array[:count] for name, array in history.arrays.items()}
            self._history = MapHistory(history.pairs, history.updates[:count], arrays)

    def is_due(self, updates: int) -> bool:
        """Return whether it is time for the next look; the first is after the first update."""
        last = self._history.updates[-1] if self._history.updates else 0
        return self._is_open and updates >= max(last + 1, math.ceil(GROWTH * last))

    def observe(self, updates: int, model: nn.Module) -> None:
        """Record the maps and write them; a full disk ends this, and not the training."""
        history = self._history
        if not self._is_open or updates in history.updates:
            return
        threads = torch.get_num_threads()
        # a sentence is too little for several, which wait for each other longer than it takes
        torch.set_num_threads(1)
        try:
            for number, pair in enumerate(history.pairs):
                for name, array in read_pair(model, pair).items():
                    history.arrays.setdefault(f"{number}.{name}", []).append(array)
        finally:
            torch.set_num_threads(threads)
        history.updates.append(updates)
        history.thin()
        try:
            history.write(self._run)
        except (DiskError, CannotCreateError):
            self._is_open = False
