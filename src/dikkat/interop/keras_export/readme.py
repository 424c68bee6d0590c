"""The readme of an exported folder, which shows how to use it and how to train with it."""

from __future__ import annotations

from dikkat.interop.exported_texts import longest_text, lowercases_dotted
from dikkat.interop.onnx_export.readme import DOTTED_CASING
from dikkat.interop.templates import template
from dikkat.interop.trained_classifier import TrainedClassifier
from dikkat.interop.trained_language_model import TrainedLanguageModel
from dikkat.interop.trained_translator import TrainedTranslator

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
    """Return the text of the readme of the folder `name` with a classifier."""
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
    return f"""# {name}

A classifier made by dikkat, as a model of Keras 3 in float32, of Keras' own layers and operations: it loads without
code of dikkat, on TensorFlow, JAX and PyTorch. With `pip install keras tokenizers` and a backend, in this folder:

```python
{python}```

The model maps `input_ids` (batch, length), of which padding is 0, to `logits` (batch, labels){pooling}.
Logits are calibrated: their {function} is the probability of the run. A text has {trained.longest:,} tokens at most,
`<bos>` before it included. The labels are in `config.json`, in the order of the logits.{cuts}
"""


def language_model_readme(trained: TrainedLanguageModel, name: str) -> str:
    """Return the text of the readme of the folder `name` with a language model."""
    fitting = _FITTING.format(labels=_LABELS, inputs=_INPUTS)
    prefix = ""
    if trained.head.objective == "prefix":
        fitting = _FITTING.format(labels=_PREFIX_LABELS, inputs=f'{_INPUTS}, "prefix_lengths": lengths')
        prefix = ", and `prefix_lengths` (batch, 1), the tokens of each row that are read both ways,"
    empty = "An empty prompt begins a text."
    if trained.special_tokens.begin is None:
        empty = "A prompt has a token at least."
    return f"""# {name}

A language model made by dikkat, as a model of Keras 3 in float32, of Keras' own layers and operations: it loads
without code of dikkat, on TensorFlow, JAX and PyTorch.

| file | |
|---|---|
| `model.keras` | the model, for `keras.models.load_model` |
| `generate.py` | greedy writing with a cache, as a command and a module |
| `tokenizer.json`, `tokenizer_config.json` | the tokenizer |
| `config.json` | what `generate.py` needs to know |

With `pip install keras tokenizers` and a backend:

```
$ KERAS_BACKEND=torch python generate.py "The start of a text"
$ KERAS_BACKEND=jax python generate.py "The start of a text"
$ KERAS_BACKEND=tensorflow python generate.py "The start of a text"
```

```python
{_WRITING.format(most=trained.usual_output)}```

The model maps `input_ids` (batch, length){prefix} to `logits` (batch, length, vocabulary) of each next token.
It reads {trained.longest:,} tokens of prompt and text together, and can write one more. {empty} It learns on:

```python
{fitting}```

What differs from `dikkat generate`: `generate.py` writes the most probable token, and stops after {trained.longest:,}
tokens. The command draws by chance at a temperature of 0.8, forgets the older half of a long text, and writes on.
"""


def readme(translator: TrainedTranslator, name: str) -> str:
    """Return the text of the readme of the folder `name`."""
    languages, longest = translator.languages, longest_text(translator)
    pair = f" from `{languages.source}` to `{languages.target}`" if languages.source and languages.target else ""
    limit = "Texts may have any length."
    if longest is not None:
        limit = f"A text may have {longest:,} tokens, `<eos>` of the source and `<bos>` of the target included."
    lower = "The source is lower-cased by the rule of its language, as `translate.py` does.\n"
    return f"""# {name}

A translator{pair} made by dikkat, as a model of Keras 3 in float32, of Keras' own layers and operations: it loads
without code of dikkat, on TensorFlow, JAX and PyTorch.

| file | |
|---|---|
| `model.keras` | the model, for `keras.models.load_model` |
| `translate.py` | greedy translation with a cache, as a command and a module |
| `tokenizer.json`, `tokenizer_config.json`, … | the tokenizer, which adds the end mark |
| `config.json` | what `translate.py` needs to know |

With `pip install keras tokenizers` and a backend:

```
$ KERAS_BACKEND=torch python translate.py < source.txt
$ KERAS_BACKEND=jax python translate.py < source.txt
$ KERAS_BACKEND=tensorflow python translate.py < source.txt
```

```python
{_PYTHON}```

The model maps `source_ids` (batch, source) and `target_ids` (batch, target) to `logits` (batch, target, vocabulary) of
each next token, and to `cross_attentions` (batch, layers, heads, target, source), the weights that the layers used.
{limit} It learns on:

```python
{_TRAINING}```

What differs from `dikkat translate`: the search is greedy. Beams, the cutting of long lines, loops that are written
again, glossaries, tags and placeholders are dikkat's own.
{lower if lowercases_dotted(translator.tokenizer_settings[0], translator.languages.source) else ""}"""
