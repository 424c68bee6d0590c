"""Messages of a report in English, of which a catalog has the other languages."""

from __future__ import annotations

from dataclasses import dataclass

from dikkat.explain.languages import spoken
from dikkat_runtime.errors import UsageError
from dikkat_runtime.localization import LANGUAGES


@dataclass(frozen=True, slots=True)
class ReportMessages:
    """Hold every text of a report; names in braces are filled in."""

    title: str = "Translator {source} → {target}"
    loss: str = "validation loss, nats a token"
    minutes: str = "minutes"
    tokens_a_second: str = "target tokens a second"
    parameters: str = "parameters"
    data: str = "Data and its faults"
    read: str = "pairs read"
    left_out: str = "left out: {reason}"
    none_left_out: str = "left out"
    for_training: str = "pairs to train on"
    for_validation: str = "pairs to validate on"
    for_test: str = "pairs to test on"
    faults: str = "What is left in it"
    same_pairs: str = "training pairs that came before, exactly"
    other_translations: str = "training sources with more than one translation"
    unknown: str = "unknown tokens in training"
    seen: str = "of {count} held-out sources stand in training too"
    examined: str = "Looked at: {count} training pairs."
    lengths: str = "Lengths of training sentences"
    lengths_axis: str = "tokens; the last bar holds all longer ones"
    source: str = "source"
    target: str = "target"
    longest: str = "The longest training pair"
    training: str = "Training"
    update: str = "update (optimizer step)"
    loss_curve: str = "Loss, nats a target token"
    score_curve: str = "Validation scores, 0 to 100"
    on_training: str = "training"
    on_validation: str = "validation"
    rate: str = "{passes} passes over the data, {tokens} target tokens in {minutes} minutes."
    scores: str = "Scores"
    on_test_part: str = "On the test part, {count} sentences that training never looked at (beam search):"
    on_validation_part: str = (
        "On the validation part, {count} sentences by which the weights were chosen (beam search); "
        "this run held no test part out:"
    )
    worst: str = "Worst sentences"
    worst_note: str = (
        "The held-out sentences with the lowest chrF. Look for names, numbers, rare words, wrong references."
    )
    model: str = "model"
    human: str = "human"
    attention: str = "Attention"
    attention_note: str = "Five held-out sentences, from the worst translated to the best."
    drawing: str = "The model"
    as_text: str = "the same as text"
    again: str = "To make it again"
    settings: str = "all settings (config.json)"


def report_messages(language: str) -> ReportMessages:
    """Return the messages in English (`en`) or Turkish (`tr`). Raises `UsageError` for another language."""
    if language not in LANGUAGES:
        raise UsageError(f'there is no report in "{language}"; choose from {", ".join(LANGUAGES)}')
    return spoken(ReportMessages(), language)
