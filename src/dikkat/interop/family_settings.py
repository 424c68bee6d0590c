"""Read what the settings tables of families have in common."""

from collections.abc import Collection, Mapping

from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.family import Head, Keys
from dikkat_runtime.errors import DataError

ACTIVATIONS = {
    "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu",
}  # fmt: skip
TRANSFORMS = {**ACTIVATIONS, "tanh": "tanh"}
"""Activations of the layer of a head."""
GATED = {"gelu": "geglu", "gelu_tanh": "geglu_tanh", "silu": "swiglu"}
"""Activations of gates, by those without one."""


def decoder_sizes(theirs: ForeignSettings) -> tuple[dict[str, object], int]:
    """Return the sizes of a language model whose settings have the usual names, and the width of a head."""
    model_dim, heads = theirs.number("hidden_size"), theirs.number("num_attention_heads")
    width = theirs.number("head_dim", model_dim // max(1, heads))
    sizes: dict[str, object] = {
        "vocab_size": theirs.number("vocab_size"),
        "model_dim": model_dim,
        "num_heads": heads,
        "num_kv_heads": theirs.number("num_key_value_heads", heads),
        "head_dim": width,
        "feed_forward_dim": theirs.number("intermediate_size"),
        "decoder_layers": theirs.number("num_hidden_layers"),
        "max_positions": theirs.number("max_position_embeddings", 2048),
        "attention_dropout": theirs.number("attention_dropout", 0.0),
        "dropout": 0.0,
        "scale_embeddings": False,
    }
    return sizes, width


def tied(theirs: ForeignSettings, names: Collection[str], *, default: bool, output: str = "lm_head.weight") -> bool:
    """Return whether the output matrix is that of the embeddings, as it is where none is stored."""
    value = theirs.values.get("tie_word_embeddings", default)
    if not isinstance(value, bool):
        raise DataError("{path}: tie_word_embeddings must be true or false, not {value}", theirs.path, repr(value))
    return value or output not in names


def window_kinds(theirs: ForeignSettings, usual: int | None = 4096) -> dict[str, object]:
    """Return the settings of attention within a window, of the layers that have it; nothing where none has."""
    if theirs.values.get("sliding_window", usual) is None:
        return {}
    # theirs counts the query itself
    window: dict[str, object] = {"attention_window": theirs.number("sliding_window", usual) - 1}
    kinds = theirs.values.get("layer_types")
    if not isinstance(kinds, list):
        return window
    return {**window, "layer_kinds": tuple("full" if kind == "full_attention" else "window" for kind in kinds)}


def encoder_sizes(theirs: ForeignSettings, usual_eps: float, eps: str = "layer_norm_eps") -> dict[str, object]:
    """Return the settings of an encoder like BERT, whose own have the usual names."""
    return {
        "vocab_size": theirs.number("vocab_size"),
        "model_dim": theirs.number("hidden_size"),
        "num_heads": theirs.number("num_attention_heads"),
        "feed_forward_dim": theirs.number("intermediate_size"),
        "encoder_layers": theirs.number("num_hidden_layers"),
        "max_positions": theirs.number("max_position_embeddings", 512),
        "dropout": theirs.number("hidden_dropout_prob", 0.1),
        "attention_dropout": theirs.number("attention_probs_dropout_prob", theirs.number("attention_dropout", 0.1)),
        "activation": theirs.choice("hidden_act", "gelu", ACTIVATIONS),
        "norm_eps": theirs.number(eps, usual_eps),
        "norm_placement": "post",
        "positions": "learned",
        "scale_embeddings": False,
        "embedding_norm": True,
    }


_POOLINGS = {"cls": "first", "mean": "mean"}


def transform_of(theirs: ForeignSettings, head: Head) -> str | None:
    """Return the activation of a head's layer, or None where it has none."""
    if not head.activation or head.activation in TRANSFORMS:
        return head.activation or None
    return theirs.choice(head.activation, "gelu", TRANSFORMS)


_MAX_LABELS = 1 << 20


def labels_of(theirs: ForeignSettings) -> tuple[str, ...]:
    """Return the classes of a classifier or a tagger, or the names of the numbers of a regression.

    Raises `DataError` where there are none, or as many names as do not fit `num_labels`.
    """
    named = theirs.values.get("id2label")
    try:
        count = theirs.number("num_labels", 2 if named is None else len(named))
        if type(count) is not int or not 0 < count <= _MAX_LABELS:
            raise DataError("{path}: num_labels must be a number of classes, not {count}", theirs.path, count)
        named = {str(number): f"LABEL_{number}" for number in range(count)} if named is None else named
        if len(named) != count:
            raise DataError("{path}: num_labels is {count}, but id2label names {named}", theirs.path, count, len(named))
        labels = tuple(str(named[str(number)]) for number in range(count))
    except (LookupError, TypeError):
        raise DataError("{path}: id2label must name the classes 0, 1, 2, …", theirs.path) from None
    if len(set(labels)) < len(labels):
        raise DataError("{path}: id2label names a class twice", theirs.path)
    return labels


def is_regression(theirs: ForeignSettings) -> bool:
    """Return whether the head of a classifier answers with numbers."""
    return theirs.values.get("problem_type") == "regression" or len(labels_of(theirs)) == 1


def classifier_section(theirs: ForeignSettings, head: Head, kind: str) -> dict[str, object]:
    """Return the settings of the section of a classifier, a regression, or a tagger, whose words are not pooled."""
    is_multi_label = theirs.values.get("problem_type") == "multi_label_classification" and kind == "classifier"
    usual = "mean" if kind == "tagger" else "first"
    return {
        "pooling": theirs.choice(head.pooling, "cls", _POOLINGS) if head.pooling else usual,
        "transform": transform_of(theirs, head),
        "transform_norm": "transform.norm" in head.keys,
        "objective": "multi_label" if is_multi_label else "cross_entropy",
        "beginning": 1.0,
    }


def fold_segments(keys: Keys, model: Mapping[str, object]) -> Keys:
    """Return the keys of a model without segments: the vector of the first is added where all tokens pass."""
    segment = keys.get("segment_embedding", "0")
    if segment == "0":
        return keys
    where = "positions.embedding" if model["positions"] == "learned" else "embedding.weight"
    return {**keys, where: f"{keys[where]}+{segment}|row=0"}
