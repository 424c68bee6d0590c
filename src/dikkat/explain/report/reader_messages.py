"""Messages of the report of a classifier or a language model, beside those that all reports share."""

from __future__ import annotations

from dataclasses import dataclass

from dikkat.explain.languages import spoken
from dikkat_runtime.errors import UsageError
from dikkat_runtime.localization import LANGUAGES


@dataclass(frozen=True, slots=True)
class ReaderMessages:
    """Hold every text that these reports add; names in braces are filled in."""

    classifier: str = "Classifier: {labels}"
    language_model: str = "Language model ({objective})"
    accuracy: str = "accuracy, %"
    subset_accuracy: str = "texts with exactly their labels, %"
    micro_f1: str = "micro F1, %"
    macro_f1: str = "macro F1, %"
    perplexity: str = "perplexity a token"
    bits: str = "bits a byte"
    loss_text: str = "validation loss, nats a text"
    loss_token: str = "validation loss, nats a token"
    tokens_a_second: str = "tokens a second"
    rate_texts: str = "{passes} passes over the data, {count} texts read in {minutes} minutes."
    rate_tokens: str = "{passes} passes over the data, {count} tokens predicted in {minutes} minutes."
    loss_curve: str = "Loss, nats"
    score_curve: str = "Validation scores"
    on_test_part: str = "On the test part, {count} texts that training never looked at:"
    on_validation_part: str = "On the validation part, {count} texts by which the weights were chosen:"
    on_held_out: str = "On the text that was held out, by which the weights were chosen:"
    texts_read: str = "texts read"
    train_texts: str = "texts to train on"
    validation_texts: str = "texts to validate on"
    test_texts: str = "texts to test on"
    class_texts: str = "training texts of {label}"
    other_labels: str = "training texts that came before with another label"
    seen: str = "of {count} held-out texts stand in training too"
    unknown: str = "unknown tokens in training"
    cut: str = "training texts of which only beginning and end are read ({most} tokens)"
    documents: str = "documents"
    characters: str = "characters: {part}"
    tokens: str = "tokens: {part}"
    repeated: str = "of {count} held-out runs of {size} tokens stand in training too"
    lengths: str = "Lengths of what is trained on"
    training: str = "training"
    worst: str = "Worst mistakes"
    no_mistake: str = "There is none."
    worst_texts: str = "The held-out texts of which the model was most sure, and wrong. Look for wrong labels first."
    worst_passages: str = (
        "The held-out passages that surprised the model most. Look for names, numbers, rare words, noise."
    )
    text: str = "text"
    before: str = "before it"
    passage: str = "passage"
    surprise: str = "{loss:.2f} nats a token"
    attention_note: str = "Where each word (down) looks (across): mean of the heads of the last layer."
    layers: str = "layers"
    width: str = "width"
    heads: str = "attention heads"
    positions: str = "positions"
    vocabulary: str = "vocabulary"
    pooling: str = "pooling"
    objective: str = "objective"
    context: str = "context, tokens"
    no_label: str = "(no label)"
    others: str = "training texts of {count} other classes"


def reader_messages(language: str) -> ReaderMessages:
    """Return the messages in English (`en`) or Turkish (`tr`). Raises `UsageError` for another language."""
    if language not in LANGUAGES:
        raise UsageError(f'there is no report in "{language}"; choose from {", ".join(LANGUAGES)}')
    return spoken(ReaderMessages(), language)
