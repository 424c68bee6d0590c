"""The readme of an exported folder: how a program translates with it."""

from collections.abc import Mapping
from typing import Any

from dikkat.interop.exported_texts import chosen_lines, longest_text, lowercases_dotted, target_file, template
from dikkat.interop.onnx_export.program import DECODER, ENCODER, MODEL
from dikkat.interop.trained_text_model import TrainedClassifier, TrainedLanguageModel
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer
from dikkat_runtime.text.pieces import SPACE

_USUAL_LENGTH = 256
"""Most tokens that the Python of the readme writes, unless it is told otherwise."""
_PYTHON = template("onnx_export_readme.python.txt")
DOTTED_CASING = """\
    # lower case of the language, which tokenizer.json does not know
    text = unicodedata.normalize("NFC", text).replace("İ", "i").replace("I", "ı").lower()
"""
"""Lines of the Python of a readme that lower-case `text` by the rule of Turkish."""
_JAVASCRIPT = template("onnx_export_readme.javascript.txt")
_TWO_TOKENIZERS = template("onnx_export_readme.two_tokenizers.txt")


def readme(translator: TrainedTranslator, name: str) -> str:
    two = len(translator.tokenizers) > 1
    is_dotted = lowercases_dotted(translator.tokenizer_settings[0], translator.languages.source)
    target, longest = target_file(translator), longest_text(translator)
    max_length = min(_USUAL_LENGTH, longest or _USUAL_LENGTH)
    python = _PYTHON.format(
        folder=name,
        target=target,
        encoder=ENCODER,
        decoder=DECODER,
        bos=BOS_ID,
        eos=EOS_ID,
        layer=translator.model.decoder_layers - 1,
        imports="import unicodedata\n\n" if is_dotted else "",
        casing=DOTTED_CASING if is_dotted else "",
        max_length=max_length,
    )
    script = fenced("js", _JAVASCRIPT.format(folder=name, max_length=max_length))
    if two:
        script = _TWO_TOKENIZERS.format(folder=name, target=target)
    limit = "and so may both lengths"
    if longest is not None:
        marks = "`<eos>` of the source and " if translator.model.add_source_eos else ""
        limit = f"both lengths up to {longest:,} tokens, {marks}`<bos>` of the target included"
    tokenizer = translator.tokenizers[0]
    reads_spaces = translator.has_pieces and SPACE in tokenizer.decode(tokenizer.encode(f"a {SPACE} b"))
    return template("onnx_export_readme.of_translator.txt").format(
        name=name,
        pair=translator.languages.phrase,
        encoder=ENCODER,
        decoder=DECODER,
        limit=limit,
        python=fenced("python", python),
        script=script,
        differences=_differences(
            {"translator": True, "spaces": reads_spaces, "marks": True, "limit": longest is not None},
            translator.tokenizer_settings[0],
            "translate",
            dotted=is_dotted,
            longest=longest,
            end=", and its end mark with it" if translator.model.add_source_eos else "",
        ),
    )


def _differences(
    reasons: Mapping[str, object], settings: Mapping[str, Any], verb: str, *, dotted: bool, **fields: object
) -> str:
    """Return what transformers.js and the Python do otherwise than dikkat when they `verb` texts, for these reasons."""
    reasons = {**reasons, "bytes": settings["model"].get("byte_fallback"), "dotted": dotted}
    lines = chosen_lines("onnx_export_readme.differences.txt", reasons, verb=verb, **fields)
    return "".join(f"- {line}\n" for line in lines)


def fenced(language: str, code: str) -> str:
    return f"```{language}\n{code}```\n"


# The readme of an exported classifier or language model: how a program classifies or writes on with it.

_CLASSIFIER = template("onnx_export_text_readme.classifier.txt")
_SOFTMAX = """shares = np.exp(logits - logits.max())
    shares /= shares.sum()"""
_LOGISTIC = "shares = 1 / (1 + np.exp(-logits))  # of each label; `cuts` in config.json say from which on a text has it"
_CLASSIFIER_JAVASCRIPT = template("onnx_export_text_readme.classifier_javascript.txt")
_WRITER = template("onnx_export_text_readme.writer.txt")
_END = """\
        if read == [{end}]:
            break
"""
_WRITER_JAVASCRIPT = template("onnx_export_text_readme.writer_javascript.txt")
_PRACTICE = template("onnx_export_text_readme.practice.txt")


def classifier_readme(trained: TrainedClassifier, name: str) -> str:
    dotted, most = trained.lowercases_dotted, trained.head.max_tokens
    beginning = round(most * trained.head.beginning)
    python = _CLASSIFIER.format(
        folder=name,
        model=MODEL,
        imports="import unicodedata\n" if dotted else "",
        casing=DOTTED_CASING if dotted else "",
        longest=most + 1,
        first=beginning + 1,
        last=most - beginning,
        probabilities=_LOGISTIC if trained.is_multi_label else _SOFTMAX,
    )
    differences = _differences(
        {"classifier": True, "marks": True},
        trained.tokenizer_settings,
        "classify",
        dotted=dotted,
        most=trained.longest - 1,
        first=beginning,
        last=most - beginning,
    )
    pooling = ""
    if trained.pools_by_attention:
        pooling = " `pooling_weights` (batch, length) are the weights with which the learned query reads a text."
    return template("onnx_export_text_readme.of_classifier.txt").format(
        name=name,
        model=MODEL,
        outputs="`logits`, `pooling_weights`" if trained.pools_by_attention else "`logits`",
        longest=trained.longest,
        shares="logistic function of each" if trained.is_multi_label else "softmax",
        pooling=pooling,
        practice=_practice(python, _CLASSIFIER_JAVASCRIPT.format(folder=name), "classify", differences),
    )


def language_model_readme(trained: TrainedLanguageModel, name: str) -> str:
    marks, most, dotted = trained.special_tokens, trained.usual_output, trained.lowercases_dotted
    python = _WRITER.format(
        folder=name,
        model=MODEL,
        most=most,
        longest=trained.longest,
        imports="import unicodedata\n\n" if dotted else "",
        casing=DOTTED_CASING if dotted else "",
        begin="" if marks.begin is None else f" or [{marks.begin}]  # an empty prompt begins a text",
        end="" if marks.end is None else _END.format(end=marks.end),
    )
    is_own = not isinstance(trained.tokenizer, ForeignTokenizer)
    differences = _differences(
        {"writer": True, "ends": marks.end is not None, "begins": is_own, "marks": is_own},
        trained.tokenizer_settings,
        "continue",
        dotted=dotted,
        longest=trained.longest,
    )
    reading = ""
    if trained.head.objective == "prefix":
        reading = "\nThe tokens of one call are read both ways, as the prefix in training: give the prompt whole.\n"
    return template("onnx_export_text_readme.of_language_model.txt").format(
        name=name,
        model=MODEL,
        longest=trained.longest,
        reading=reading,
        practice=_practice(python, _WRITER_JAVASCRIPT.format(folder=name, most=most), "generate", differences),
    )


def _practice(python: str, script: str, command: str, differences: str) -> str:
    return _PRACTICE.format(
        python=fenced("python", python), script=fenced("js", script), command=command, differences=differences
    )
