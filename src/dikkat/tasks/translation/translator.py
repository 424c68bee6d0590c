"""The translator: lines of text in, lines of text out, and its attention."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from dikkat.config import RunConfig
from dikkat.explain.attention_map import AttentionMap
from dikkat.kernels.processor import keep_freed_memory
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.device import find_device
from dikkat.tasks.common.engines import EngineChoice, choose_engine, require_kind
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.weights import build_checked, load_weights
from dikkat.tasks.translation.attention import Attending
from dikkat.tasks.translation.vocabularies import Vocabularies
from dikkat.torch_engine.engine import TorchEngine
from dikkat.torch_engine.graph_engine import GraphEngine
from dikkat.torch_engine.in_memory import engine_in_memory
from dikkat.torch_engine.static_decoder import why_not_static
from dikkat_runtime.engine.contract import Engine, EngineName
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, Device, SearchDefaults
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import UsageError
from dikkat_runtime.messages import msg
from dikkat_runtime.tasks import translator
from dikkat_runtime.tasks.corrections import Corrections
from dikkat_runtime.tasks.opening import open_translation_engine
from dikkat_runtime.tasks.reading_limits import default_limits, limits_of_run
from dikkat_runtime.tasks.translations import Translation
from dikkat_runtime.text.segmentation import ReadingLimits
from dikkat_runtime.text.tokenizer import Tokenizer

__all__ = ["BEAM", "GREEDY", "Translation", "Translator"]

GREEDY = DecodingOptions()
BEAM = BeamOptions()


class Translator(translator.Translator):
    """Translate with a trained encoder-decoder and its tokenizer.

    An engine computes the translations, the PyTorch model the attention.
    """

    def __init__(
        self,
        model: EncoderDecoder | Callable[[], EncoderDecoder],
        tokenizer: Tokenizer,
        config: RunConfig,
        limits: ReadingLimits | None = None,
        *,
        target_tokenizer: Tokenizer | None = None,
        engine: Engine | None = None,
    ) -> None:
        """`limits` are what the model has learned to read in one piece; else `data.max_length` tokens.

        Without an `engine` it is the native one with the weights that the model has now, where that is possible. A
        model that is only sometimes needed may be given as a function that makes it.
        """
        self._model = model
        if limits is None:
            has_learned_positions = config.model.positions == "learned"
            limits = default_limits(
                config.data.max_length, config.model.max_positions if has_learned_positions else None
            )
        engine = engine_in_memory(self.model.eval(), config.model) if engine is None else engine
        data = config.data
        super().__init__(
            engine,
            tokenizer,
            limits,
            target_tokenizer=target_tokenizer,
            language=data.source_language,
            target_language=data.target_language,
        )
        self.config = config
        self.defaults = SearchDefaults(**config.decoding.model_dump())

    @property
    def model(self) -> EncoderDecoder:
        """Return the model as a PyTorch module, in evaluation mode."""
        if not isinstance(self._model, EncoderDecoder):
            self._model = self._model()
        return self._model

    @property
    def vocabularies(self) -> Vocabularies:
        """Those of source and target, which may be one."""
        share_ids = self.config.data.vocabularies == "shared_ids"
        return Vocabularies(self.tokenizer, self.target_tokenizer, share_ids)

    @property
    def device(self) -> torch.device:
        """Return the device that the model computes on."""
        return self.model.output_weight.device

    @classmethod
    def load(  # type: ignore[override]
        cls,
        path: str | Path,
        precision: PrecisionName = "float32",
        device: Device = "cpu",
        engine: EngineName = "auto",
        *,
        all_words: bool = False,
    ) -> Translator:
        """Load the translator of a run directory, in float32 or with weights and activations in eight bits.

        With `all_words` a shortlist of words is left aside, as the torch engine always leaves it.

        int8 is faster and smaller and writes almost the same; "auto" takes it where training measured that; on a GPU
        float16 is faster. Raises
        `UsageError` for a model of another kind, an engine that cannot run and a device that is not to be had, and
        `MissingInputError` or `DataError` naming the file that is missing or damaged.
        """
        where = find_device(device)
        run = RunDirectory.open(Path(path))
        # a batch frees what the next one asks for again
        keep_freed_memory()
        settings = require_kind(run, "translator")
        config = run_config(settings, str(run.config))
        choice = choose_engine(run, settings, engine, precision, device)
        model: EncoderDecoder | Callable[[], EncoderDecoder] = partial(_model_of, run, config, where)
        if choice.is_native:
            computing: Engine = open_translation_engine(run.path, settings, precision, all_words=all_words)
        else:
            model = _model_of(run, config, where)
            computing = _torch_engine(model, choice, where, str(run.weights))
        vocabularies = Vocabularies.load(run, config.model, config.data.vocabularies)
        limits = limits_of_run(settings, str(run.config))
        tokenizers = vocabularies.source, vocabularies.target
        translator = cls(model, tokenizers[0], config, limits, target_tokenizer=tokenizers[1], engine=computing)
        translator.corrections = Corrections(run.path)
        return translator

    def attention(self, text: str, translation: str | None = None) -> list[AttentionMap]:
        """Return the attention of every stack, layer and head while reading `text` and writing `translation`.

        By default `translation` is what the model writes greedily. Axes carry the subwords; a decoder row is labelled
        with the token that is fed in, `<bos>` first. See `Attending`, which also records beam-search hypotheses, and
        single layers. Raises `DataError`.
        """
        attending = Attending(self)
        maps = attending.greedy(text) if translation is None else attending.forced(text, translation)
        return list(maps.maps)


def _model_of(run: RunDirectory, config: RunConfig, where: torch.device) -> EncoderDecoder:
    model = build_checked(run, config.model, partial(build_model, config.model, 0))
    load_weights(model, run)
    return model.to(where).eval()


def _torch_engine(model: EncoderDecoder, choice: EngineChoice, where: torch.device, file: str) -> TorchEngine:
    """The engine of PyTorch; on a GPU that with fixed buffers, where it computes the model and nobody asks for another.

    Raises `UsageError` for float16 where they are not.
    """
    if where.type == "cpu" or choice.is_asked:
        return TorchEngine(model, why_not_native=choice.shown_reason, where=file)
    why = why_not_static(model)
    if not why:
        return GraphEngine(model, precision=choice.precision, why_not_native=choice.shown_reason, where=file)
    if choice.precision == "float16":
        raise UsageError("float16 cannot be computed here: {why}; leave out --precision").fill(why)
    return TorchEngine(
        model, why_not_native=msg("{shown_reason}; without graphs: {why}").fill(choice.shown_reason, why), where=file
    )
