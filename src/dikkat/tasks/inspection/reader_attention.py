"""The attention of a model that reads one text: a classifier, a language model or an imported encoder."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from dikkat.explain.attention_map import SentenceMaps, Stack
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.tasks.common.attention_recorder import AttentionRecorder, Wanted, everything, require_short
from dikkat.torch_engine.texts import Hidden
from dikkat_runtime.errors import DataError, UsageError
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


class AttendingReader(AttentionRecorder):
    """Records the attention maps of the one stack of `model` while it reads a text.

    The axes carry the tokens that the model is given, special ones included, and no others: of a text that is longer
    than a classifier or an encoder can read, only what it reads. A prompt
    is read as `generate` reads it, without `<bos>`.
    """

    def __init__(
        self,
        model: nn.Module,
        stack: Stack,
        read: Callable[[str], list[int]],
        pieces: Callable[[Sequence[int]], list[str]],
        compute: Callable[[Tensor], object],
    ) -> None:
        super().__init__(model)
        self.stack = stack
        self._read, self._pieces, self._compute = read, pieces, compute

    @classmethod
    def of(cls, trained: Classifier | ImportedHead | LanguageModel | Embedder) -> "AttendingReader":
        """For whatever was loaded."""
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
        model = trained.model

        def compute(tokens: Tensor) -> object:
            # what is to be filled in is read both ways, a prompt as `generate` reads it
            return model.hidden(tokens) if model.objective == "masked" else model.read(tokens, model.start_cache())

        return cls(model, "decoder", trained.read, trained.tokenizer.labels, compute)

    @classmethod
    def _of_encoder(cls, model: nn.Module, encode: Hidden, reading: TextReading) -> "AttendingReader":
        def read(text: str) -> list[int]:
            (ids,) = reading.encode([text.strip()])
            return reading.frame(ids) if ids else []

        def compute(tokens: Tensor) -> object:
            return encode(tokens, torch.ones_like(tokens, dtype=torch.bool))

        return cls(model, "encoder", read, reading.tokenizer.labels, compute)

    def read(self, text: str, wanted: Wanted = everything) -> SentenceMaps:
        """Record the maps of reading `text`; the model writes nothing, so the output is "".

        Raises `DataError` for a text without tokens, for a prompt longer than the context, and for a text so long that
        the wanted maps hold more than `MAX_WEIGHTS` weights.
        """
        ids = self._read(text)
        if not ids:
            raise DataError("there is nothing to attend to in an empty text; give a few words")
        require_short(len(ids))
        tokens = tuple(self._pieces(ids))
        nothing: tuple[str, ...] = ()
        reads, writes = (tokens, nothing) if self.stack == "encoder" else (nothing, tokens)
        maps = self.record(lambda: self._compute(torch.tensor([ids])), reads, writes, wanted)
        return SentenceMaps(text.strip(), "", reads, writes, maps)
