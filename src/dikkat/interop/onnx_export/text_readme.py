"""The readme of an exported classifier or language model: how a program classifies or writes on with it."""

from __future__ import annotations

from dikkat.interop.onnx_export.readme import DOTTED_CASING, READS_MARKS, fenced, tokenizer_differences
from dikkat.interop.onnx_export.text_programs import MODEL
from dikkat.interop.templates import template
from dikkat.interop.trained_classifier import TrainedClassifier
from dikkat.interop.trained_language_model import TrainedLanguageModel
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer

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
    return f"""# {name}

A classifier made by dikkat, as a graph of ONNX with opset 17 in float32.

| `{MODEL}` | |
|---|---|
| in | `input_ids`, `attention_mask` |
| out | {outputs} |

The batch may have any size, and a text up to {trained.longest:,} tokens, `<bos>` before it included. `logits`
(batch, labels) are calibrated: their {shares} is the probability of the run.{pooling}
The labels are in `config.json`, in the order of the logits.

{_practice(python, _CLASSIFIER_JAVASCRIPT.format(folder=name), "classify", differences)}"""


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
    return f"""# {name}

A language model made by dikkat, as a graph of ONNX with opset 17 in float32.

| `{MODEL}` | |
|---|---|
| in | `input_ids`, `attention_mask`, `past_key_values.N.key`, `past_key_values.N.value` |
| out | `logits`, `present.N.key`, `present.N.value` |

The batch may have any size. The cache of the first step has length 0; `attention_mask` covers the cache and the new
tokens, and is 0 at padding, which stands before a text. The model reads {trained.longest:,} tokens of prompt and text
together, and can write one more. Entries that are never written have a logit lower than all others.
{reading}
{_practice(python, _WRITER_JAVASCRIPT.format(folder=name, most=most), "generate", differences)}"""


def _practice(python: str, script: str, command: str, differences: list[str]) -> str:
    return _PRACTICE.format(
        python=fenced("python", python),
        script=fenced("js", script),
        command=command,
        differences="".join(f"- {line}\n" for line in differences),
    )
