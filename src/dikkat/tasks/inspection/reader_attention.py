"""The attention of a model that reads one text: a classifier, a language model or an imported encoder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dikkat.explain.attention_map import SentenceMaps, Stack
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.tasks.common.attention_recorder import MAX_TOKENS, AttentionRecorder, Wanted, everything, require_short
from dikkat.torch_engine.texts import Hidden
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.tasks.classifier import Classifier, ImportedHead
from dikkat_runtime.tasks.embedder import Embedder, TextReading, of_classifier
from dikkat_runtime.tasks.generator import Generator as LanguageModel


def require_no_prefix(model: EncoderDecoder) -> None:
    """Raise `UsageError` for a translator with a `target_prefix`, whose maps have a row that no written token has."""
    if model.target_prefix is not None:
        raise UsageError(
            "this translator begins every output with a token that is never shown (model.target_prefix), which is not"
            " inspected here; its maps are shown by `dikkat attend`"
        )


@dataclass(frozen=True, slots=True)
class Window:
    """Hold the part of a text that a model reads at once."""

    ids: list[int]
    text: str
    note: str = ""
    """Which part of a longer text it is."""


class AttendingReader(AttentionRecorder):
    """Records the attention maps of the one stack of `model` while it reads a text.

    The axes carry the tokens that the model is given, special ones included, and no others. A language model reads a
    text that is longer than its context by `windows`, and a prompt as `generate` does, without `<bos>`.
    """

    def __init__(
        self,
        model: nn.Module,
        stack: Stack,
        windows: Callable[[str], list[Window]],
        labels: Callable[[Sequence[int]], list[str]],
        compute: Callable[[Tensor], object],
    ) -> None:
        super().__init__(model)
        self.stack, self.windows = stack, windows
        self._labels, self._compute = labels, compute

    @classmethod
    def of(cls, trained: Classifier | ImportedHead | LanguageModel | Embedder) -> "AttendingReader":
        if isinstance(trained, LanguageModel):
            return cls._of_language_model(trained)
        if isinstance(trained, ImportedHead):
            return cls._of_encoder(trained.model, trained.model.encode, of_classifier(trained.reader).reading)
        if isinstance(trained, Classifier):
            return cls._of_encoder(trained.model, trained.model.encode, of_classifier(trained).reading)
        if trained.request is None:
            raise UsageError("maps of an embedder are recorded for imported encoders only; load the run itself")
        return cls._of_encoder(trained.model, trained.model, trained.reading)

    @classmethod
    def _of_language_model(cls, trained: LanguageModel) -> "AttendingReader":
        model, size = trained.model, min(trained.context, MAX_TOKENS)

        def windows(text: str) -> list[Window]:
            ids = trained.tokenizer.encode(text)
            if len(ids) <= size:
                return [Window(ids, text.strip())]
            # end to end; the last one is moved back, so that it is whole
            starts = [*range(0, len(ids) - size, size), len(ids) - size]
            note = msg("window {number} of {count}: tokens {first:,} to {last:,} of {total:,}")
            return [
                Window(
                    own := ids[at : at + size],
                    trained.tokenizer.decode(own).strip(),
                    note.fill(number, len(starts), at + 1, at + size, len(ids)),
                )
                for number, at in enumerate(starts, start=1)
            ]

        def compute(tokens: Tensor) -> object:
            # what is to be filled in is read both ways, a prompt as `generate` reads it
            return model.hidden(tokens) if model.objective == "masked" else model.read(tokens, model.start_cache())

        return cls(model, "decoder", windows, trained.tokenizer.labels, compute)

    @classmethod
    def _of_encoder(cls, model: nn.Module, encode: Hidden, reading: TextReading) -> "AttendingReader":
        def windows(text: str) -> list[Window]:
            (ids,) = reading.encode([text.strip()])
            note = msg("of {total:,} tokens the model reads {count:,}", len(ids), reading.longest)
            return [Window(reading.frame(ids) if ids else [], text.strip(), note if len(ids) > reading.longest else "")]

        def compute(tokens: Tensor) -> object:
            return encode(tokens, torch.ones_like(tokens, dtype=torch.bool))

        return cls(model, "encoder", windows, reading.tokenizer.labels, compute)

    def read(self, text: str, wanted: Wanted = everything) -> SentenceMaps:
        """Record the maps of reading the first window of `text`; raises as `read_window`."""
        return self.read_window(self.windows(text)[0], wanted)

    def read_window(self, window: Window, wanted: Wanted = everything) -> SentenceMaps:
        """Record the maps of reading a window; the model writes nothing, so the output is "".

        Raises `DataError` for a text without tokens, and for one so long that the wanted maps hold more than
        `MAX_WEIGHTS` weights.
        """
        if not window.ids:
            raise DataError("there is nothing to attend to in an empty text; give a few words")
        require_short(len(window.ids))
        tokens = tuple(self._labels(window.ids))
        nothing: tuple[str, ...] = ()
        reads, writes = (tokens, nothing) if self.stack == "encoder" else (nothing, tokens)
        maps = self.record(lambda: self._compute(torch.tensor([window.ids])), reads, writes, wanted)
        return SentenceMaps(window.text, "", reads, writes, maps, note=window.note)
