"""The readme of an exported classifier or language model: how a program classifies or writes on with it."""

from __future__ import annotations

from dikkat.interop.onnx_export.readme import DOTTED_CASING, READS_MARKS, fenced, tokenizer_differences
from dikkat.interop.onnx_export.text_programs import MODEL
from dikkat.interop.trained_classifier import TrainedClassifier
from dikkat.interop.trained_language_model import TrainedLanguageModel
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer

_CLASSIFIER = """\
{imports}import json

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder = "{folder}"
tokenizer = Tokenizer.from_file(f"{{folder}}/tokenizer.json")
tokenizer.encode_special_tokens = True  # "<eos>" in a text is text
model = onnxruntime.InferenceSession(f"{{folder}}/{model}")
with open(f"{{folder}}/config.json", encoding="utf-8") as file:
    labels = list(json.load(file)["id2label"].values())


def classify(text):
{casing}    ids = tokenizer.encode(text).ids
    if len(ids) == 1:
        return {{}}  # a text without words
    if len(ids) > {longest}:  # of a long text its beginning and its end
        ids = ids[:{first}] + ids[len(ids) - {last} :]
    ids = np.array([ids])
    (logits,) = model.run(["logits"], {{"input_ids": ids, "attention_mask": np.ones_like(ids)}})[0].astype(float)
    {probabilities}
    return dict(zip(labels, shares.tolist()))


print(classify("…"))
"""
_SOFTMAX = """shares = np.exp(logits - logits.max())
    shares /= shares.sum()"""
_LOGISTIC = "shares = 1 / (1 + np.exp(-logits))  # of each label; `cuts` in config.json say from which on a text has it"
_CLASSIFIER_JAVASCRIPT = """\
import {{ env, pipeline }} from "@huggingface/transformers";

env.allowRemoteModels = false;
env.localModelPath = "./";  // where the folder lies
const classify = await pipeline("text-classification", "{folder}");
console.log(await classify("…", {{ top_k: null }}));
"""
_WRITER = """\
{imports}import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder = "{folder}"
tokenizer = Tokenizer.from_file(f"{{folder}}/tokenizer.json")
tokenizer.encode_special_tokens = True  # "<eos>" in a text is text
model = onnxruntime.InferenceSession(f"{{folder}}/{model}")
names = [one.name for one in model.get_outputs()]


def generate(text, max_new_tokens={most}):
{casing}    ids = tokenizer.encode(text, add_special_tokens=False).ids{begin}
    read, written = ids, []
    feeds = {{  # a cache that is empty at first: of length 0
        one.name: np.zeros((1, one.shape[1], 0, one.shape[3]), dtype=np.float32)
        for one in model.get_inputs()
        if one.name.startswith("past_key_values")
    }}
    while len(written) < max_new_tokens and len(ids) + len(written) <= {longest}:
        feeds["input_ids"] = np.array([read])
        feeds["attention_mask"] = np.ones((1, len(ids) + len(written)), dtype=np.int64)
        outputs = dict(zip(names, model.run(names, feeds)))
        read = [int(outputs["logits"][0, -1].argmax())]
{end}        written += read
        feeds = {{name.replace("present", "past_key_values"): outputs[name] for name in names if "present" in name}}
    return tokenizer.decode(ids + written, skip_special_tokens=True)


print(generate("…"))
"""
_END = """\
        if read == [{end}]:
            break
"""
_WRITER_JAVASCRIPT = """\
import {{ env, pipeline }} from "@huggingface/transformers";

env.allowRemoteModels = false;
env.localModelPath = "./";  // where the folder lies
const generate = await pipeline("text-generation", "{folder}");
console.log(await generate("…", {{ max_new_tokens: {most} }}));
"""
_PRACTICE = """\
In Python, with `pip install onnxruntime tokenizers`:

{python}
In JavaScript, with transformers.js:

{script}
What differs from `dikkat {command}`:

{differences}"""


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
            else ["Of several prompts at once transformers.js writes on behind the end of a text."]
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
