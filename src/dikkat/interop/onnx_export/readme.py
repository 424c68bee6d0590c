"""The readme of an exported folder: how a program translates with it."""

from collections.abc import Mapping
from typing import Any

from dikkat.interop.exported_texts import longest_text, lowercases_dotted, target_file, template
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
READS_MARKS = "transformers.js reads a typed `<pad>`, `<bos>`, `<eos>` or `<unk>` as that mark, and not as text."
_JAVASCRIPT = template("onnx_export_readme.javascript.txt")
_TWO_TOKENIZERS = template("onnx_export_readme.two_tokenizers.txt")


def readme(translator: TrainedTranslator, name: str) -> str:
    """Return the text of the readme of the folder `name`."""
    two, is_dotted = len(translator.tokenizers) > 1, _lowercases_dotted(translator)
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
    languages = translator.languages
    pair = f" from `{languages.source}` to `{languages.target}`" if languages.source and languages.target else ""
    return template("onnx_export_readme.of_translator.txt").format(
        name=name,
        pair=pair,
        encoder=ENCODER,
        decoder=DECODER,
        limit=limit,
        python=fenced("python", python),
        script=script,
        differences=_differences(translator),
    )


def _differences(translator: TrainedTranslator) -> str:
    """Return a list of what the run does with a text, and these programs do otherwise."""
    longest = longest_text(translator)
    lines = [
        "Both search greedily. Beams, the cutting of long lines, loops that are written again, glossaries, tags and"
        " placeholders are dikkat's own."
    ]
    tokenizer = translator.tokenizers[0]
    if translator.has_pieces and SPACE in tokenizer.decode(tokenizer.encode(f"a {SPACE} b")):
        lines.append("Both read a typed `▁` as a space; the run keeps it.")
    lines.append(READS_MARKS)
    lines.append("transformers.js translates a blank line to something: leave it out.")
    lines += tokenizer_differences(translator.tokenizer_settings[0], "translate", dotted=_lowercases_dotted(translator))
    if longest is not None:
        mark = ", and its end mark with it" if translator.model.add_source_eos else ""
        lines.append(f"transformers.js cuts a text off after {longest:,} tokens{mark}; ONNX Runtime refuses it.")
    return "What differs from `dikkat translate`:\n\n" + "".join(f"- {line}\n" for line in lines)


def tokenizer_differences(settings: Mapping[str, Any], verb: str, *, dotted: bool) -> list[str]:
    """Return what transformers.js makes of a tokenizer with these `settings`, and dikkat otherwise.

    `dotted` says that texts are lower-cased by the rule of Turkish, and `verb` what is done with them.
    """
    lines = []
    if settings["model"].get("byte_fallback"):
        lines.append(
            "transformers.js reads a character that has no entry in the vocabulary as `<unk>`, where dikkat and the"
            " Python above read its bytes: names in another script, emoji and rare letters are lost."
        )
    if dotted:
        lines.append(
            "The tokenizer lower-cases, but not by the rule of the language. The Python above does it; in JavaScript"
            f' {verb} `text.normalize("NFC").replaceAll("İ", "i").replaceAll("I", "ı").toLowerCase()`.'
        )
    return lines


def _lowercases_dotted(translator: TrainedTranslator) -> bool:
    return lowercases_dotted(translator.tokenizer_settings[0], translator.languages.source)


def fenced(language: str, code: str) -> str:
    """Return code as Markdown shows it."""
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
    """Return the text of the readme of the folder `name` with a classifier."""
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
    differences = [
        f"transformers.js reads the first {trained.longest - 1:,} tokens of a longer text; dikkat and the Python above"
        f" read its first {beginning:,} and its last {most - beginning:,}.",
        "transformers.js gives a text without words a label, too.",
        READS_MARKS,
        *tokenizer_differences(trained.tokenizer_settings, "classify", dotted=dotted),
    ]
    outputs = "`logits`, `pooling_weights`" if trained.pools_by_attention else "`logits`"
    shares = "logistic function of each" if trained.is_multi_label else "softmax"
    pooling = ""
    if trained.pools_by_attention:
        pooling = " `pooling_weights` (batch, length) are the weights with which the learned query reads a text."
    return template("onnx_export_text_readme.of_classifier.txt").format(
        name=name,
        model=MODEL,
        outputs=outputs,
        longest=trained.longest,
        shares=shares,
        pooling=pooling,
        practice=_practice(python, _CLASSIFIER_JAVASCRIPT.format(folder=name), "classify", differences),
    )


def language_model_readme(trained: TrainedLanguageModel, name: str) -> str:
    """Return the text of the readme of the folder `name` with a language model."""
    is_foreign = isinstance(trained.tokenizer, ForeignTokenizer)
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
    differences = [
        "Both write greedily unless told otherwise; `dikkat generate` draws by chance at a temperature of 0.8.",
        f"`dikkat generate` forgets the older half of a text beyond the {trained.longest:,} tokens of training, and"
        " writes on without end. The Python above stops there; give transformers.js a `max_new_tokens` that fits.",
        *(
            []
            if marks.end is None
            else ["Of several prompts at once transformers.js writes on after the end of a text."]
        ),
        *(
            []
            if is_foreign
            else ["transformers.js needs a prompt; the others begin a text where it is empty.", READS_MARKS]
        ),
        *tokenizer_differences(trained.tokenizer_settings, "continue", dotted=dotted),
    ]
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


def _practice(python: str, script: str, command: str, differences: list[str]) -> str:
    return _PRACTICE.format(
        python=fenced("python", python),
        script=fenced("js", script),
        command=command,
        differences="".join(f"- {line}\n" for line in differences),
    )
