"""Write the model of a run as a model of Keras, compared with the run before it takes its name."""

from __future__ import annotations

import os
import re
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dikkat.interop.exported_texts import (
    TABLE_ROWS,
    longest_text,
    lowercases_dotted,
    target_file,
    template,
    tokenizer_files,
)
from dikkat.interop.onnx_export.readme import DOTTED_CASING
from dikkat.interop.parity import SENTENCES
from dikkat.interop.text_parity import export_checked, write_files
from dikkat.interop.trained_text_model import TrainedClassifier, TrainedLanguageModel
from dikkat.interop.trained_translator import TrainedTranslator, refuse_settings
from dikkat_runtime.errors import UsageError
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

if TYPE_CHECKING:
    from dikkat.interop.keras_export.program import KerasClassifier, KerasTranslator, KerasWriter

# The readme of an exported folder, which shows how to use it and how to train with it.

_PYTHON = template("keras_export_readme.python.txt")
_TRAINING = template("keras_export_readme.training.txt")


_CLASSIFIER = template("keras_export_readme.classifier.txt")


_WRITING = template("keras_export_readme.writing.txt")
_FITTING = template("keras_export_readme.fitting.txt")
_INPUTS = '"input_ids": ids[:, :-1]'
_LABELS = "labels = ids[:, 1:]"
_PREFIX_LABELS = """\
lengths = np.array([[…]])  # tokens of each row that are its prefix
labels = np.where(np.arange(1, ids.shape[1]) < lengths, -1, ids[:, 1:])  # what follows the prefix is learned"""


def classifier_readme(trained: TrainedClassifier, name: str) -> str:
    most = trained.head.max_tokens
    beginning = round(most * trained.head.beginning)
    function = "sigmoid" if trained.is_multi_label else "softmax"
    python = _CLASSIFIER.format(
        casing=DOTTED_CASING if trained.lowercases_dotted else "",
        longest=most + 1,
        first=beginning + 1,
        last=most - beginning,
        function=function,
    )
    if trained.lowercases_dotted:
        python = f"import unicodedata\n{python}"
    cuts = " `cuts` there say from which probability on a text has each." if trained.is_multi_label else ""
    pooling = ""
    if trained.pools_by_attention:
        pooling = ", and to `pooling_weights` (batch, length), with which the learned query reads a text"
    return template("keras_export_readme.of_classifier.txt").format(
        name=name, python=python, pooling=pooling, function=function, longest=trained.longest, cuts=cuts
    )


def language_model_readme(trained: TrainedLanguageModel, name: str) -> str:
    fitting = _FITTING.format(labels=_LABELS, inputs=_INPUTS)
    prefix = ""
    if trained.head.objective == "prefix":
        fitting = _FITTING.format(labels=_PREFIX_LABELS, inputs=f'{_INPUTS}, "prefix_lengths": lengths')
        prefix = ", and `prefix_lengths` (batch, 1), the tokens of each row that are read both ways,"
    empty = "An empty prompt begins a text."
    if trained.special_tokens.begin is None:
        empty = "A prompt has a token at least."
    return template("keras_export_readme.of_language_model.txt").format(
        name=name,
        writing=_WRITING.format(most=trained.usual_output),
        prefix=prefix,
        longest=trained.longest,
        empty=empty,
        fitting=fitting,
    )


def readme(translator: TrainedTranslator, name: str) -> str:
    languages, longest = translator.languages, longest_text(translator)
    limit = "Texts may have any length."
    if longest is not None:
        limit = f"A text may have {longest:,} tokens, `<eos>` of the source and `<bos>` of the target included."
    is_dotted = lowercases_dotted(translator.tokenizer_settings[0], languages.source)
    lower = "The source is lower-cased by the rule of its language, as `translate.py` does.\n" if is_dotted else ""
    return template("keras_export_readme.of_translator.txt").format(
        name=name, pair=languages.phrase, python=_PYTHON, training=_TRAINING, limit=limit, lower=lower
    )


OLDEST_KERAS = (3, 15)
"""The first version that has all the layers; `pyproject.toml` asks for it, too."""
USUAL_LENGTH = 256
"""Most tokens that `translate.py` writes, unless it is told otherwise."""


def export_keras(run: Path, out: Path, count: int = SENTENCES) -> str:
    """Write the folder `out`, new or empty, and return how it was compared with the run, by `count` texts.

    The model is compared on the backend that KERAS_BACKEND names, else on PyTorch. Raises `UsageError` where Keras or
    its backend is not installed, or has no layer for a setting, `DataError` where the model computes something else,
    and `CannotCreateError` or `DiskError`; nothing is then written.
    """
    _require_keras()
    return export_checked(run, out, "keras", (_write_translator, _write_classifier, _write_language_model), count)


def _write_translator(translator: TrainedTranslator, draft: Path, name: str) -> KerasTranslator:
    from dikkat.interop.keras_export import translate
    from dikkat.interop.keras_export.network import keras_translator
    from dikkat.interop.keras_export.program import KerasTranslator

    refuse_settings(translator, "Keras", {"decoder_memory": "attention", "add_source_eos": True, "target_prefix": None})
    keras_translator(translator.network).save(draft / "model.keras")
    files = {
        **tokenizer_files(translator),
        "config.json": _config(translator),
        "translate.py": Path(translate.__file__).read_bytes(),
        "README.md": readme(translator, name),
    }
    write_files(draft, files)
    return KerasTranslator(draft)


def _write_classifier(trained: TrainedClassifier, draft: Path, name: str) -> KerasClassifier:
    from dikkat.interop.keras_export.network import keras_classifier
    from dikkat.interop.keras_export.program import KerasClassifier

    keras_classifier(trained.network, trained.temperature, trained.longest).save(draft / "model.keras")
    files = {
        **trained.tokenizer_files(),
        "config.json": {"labels": list(trained.labels), "max_tokens": trained.longest, **trained.cut_settings},
        "README.md": classifier_readme(trained, name),
    }
    write_files(draft, files)
    return KerasClassifier(draft)


def _write_language_model(trained: TrainedLanguageModel, draft: Path, name: str) -> KerasWriter:
    from dikkat.interop.keras_export import generate
    from dikkat.interop.keras_export.network import keras_language_model
    from dikkat.interop.keras_export.program import KerasWriter

    keras_language_model(trained.network, max(TABLE_ROWS, trained.longest)).save(draft / "model.keras")
    config = {
        "dotted_lower_case": trained.lowercases_dotted,
        "decoder_layers": trained.model.decoder_layers,
        "max_tokens": trained.longest,
        "max_new_tokens": trained.usual_output,
        "never_written": list(trained.special_tokens.never_written),
        "bos_token_id": trained.special_tokens.begin,
        "eos_token_id": trained.special_tokens.end,
    }
    files = {
        **trained.tokenizer_files(),
        "config.json": config,
        "generate.py": Path(generate.__file__).read_bytes(),
        "README.md": language_model_readme(trained, name),
    }
    write_files(draft, files)
    return KerasWriter(draft)


def _require_keras() -> None:
    """Raise `UsageError` unless Keras and its backend are installed; the backend is PyTorch unless one is named."""
    try:
        installed = version("keras")
    except PackageNotFoundError:
        raise UsageError("--to keras needs keras: pip install 'dikkat[keras]'") from None
    if tuple(int(part) for part in re.findall(r"\d+", installed)[:2]) < OLDEST_KERAS:
        raise UsageError("--to keras needs a newer keras than {installed}: pip install 'dikkat[keras]'", installed)
    backend = os.environ.setdefault("KERAS_BACKEND", "torch")
    if backend not in ("torch", "jax", "tensorflow") or find_spec(backend) is None:
        raise UsageError("KERAS_BACKEND={backend}: not installed; leave it out to compare by PyTorch", backend)


def _config(translator: TrainedTranslator) -> dict[str, object]:
    longest = longest_text(translator)
    return {
        "source_tokenizer": "tokenizer.json",
        "target_tokenizer": target_file(translator),
        "dotted_lower_case": lowercases_dotted(translator.tokenizer_settings[0], translator.languages.source),
        "decoder_layers": translator.model.decoder_layers,
        "max_source_length": longest,
        "max_length": min(USUAL_LENGTH, longest or USUAL_LENGTH),
        "pad_token_id": PAD_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
    }
