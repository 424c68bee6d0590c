"""The models of the runtime over modules of PyTorch in memory, whose weights no file holds."""

from collections.abc import Sequence

from dikkat.config import RunConfig
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.language_model import LanguageModel
from dikkat.torch_engine.texts import classifier_in_memory, engine_in_memory, language_model_in_memory
from dikkat_runtime.engine.options import SearchDefaults
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.generator import Generator
from dikkat_runtime.tasks.reading import default_limits
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.foreign_tokenizer import AnyTokenizer, special_tokens_of
from dikkat_runtime.text.segmentation import ReadingLimits
from dikkat_runtime.text.tokenizer import Tokenizer


def translator_of(
    model: EncoderDecoder, tokenizer: Tokenizer, config: RunConfig, limits: ReadingLimits | None = None, *,
    target_tokenizer: Tokenizer | None = None,
) -> Translator:  # fmt: skip
    """Return the translator of a model in memory and its settings.

    `limits` are what the model has learned to read in one piece; else `data.max_length` tokens. The engine is the
    native one with the weights that the model has now, where that is possible.
    """
    data = config.data
    if limits is None:
        has_learned_positions = config.model.positions == "learned"
        limits = default_limits(data.max_length, config.model.max_positions if has_learned_positions else None)
    translator = Translator(
        engine_in_memory(model.eval(), config.model),
        tokenizer,
        limits,
        target_tokenizer=target_tokenizer,
        language=data.source_language,
        target_language=data.target_language,
    )
    translator.defaults = SearchDefaults(**config.decoding.model_dump())
    translator.model, translator.config = model, config
    return translator


def classifier_of(
    model: EncoderClassifier, tokenizer: Tokenizer, labels: Sequence[str], config: RunConfig
) -> Classifier:
    """Return the classifier of a model in memory, with an engine as `translator_of`."""
    engine = classifier_in_memory(model.eval(), config.model, config.classifier)
    settings, language = config.classifier.model_dump(), config.data.source_language
    classifier = Classifier(engine, tokenizer, labels, settings, language=language)
    classifier.model, classifier.config = model, config
    return classifier


def language_model_of(model: LanguageModel, tokenizer: AnyTokenizer, config: RunConfig) -> Generator:
    """Return the generator of a language model in memory, with an engine as `translator_of`."""
    engine = language_model_in_memory(model.eval(), config.model)
    asked, marks = config.language_model, special_tokens_of(tokenizer, config.language_model.chat)
    generator = Generator(
        engine, tokenizer, asked.context, objective=asked.objective, special_tokens=marks, chat=asked.chat
    )
    generator.model, generator.config = model, config
    return generator
