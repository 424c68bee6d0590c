"""Compare exported classifiers and language models with their runs before they take their names."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from dikkat.interop.exported_texts import check_tokenizer, exported_texts
from dikkat.interop.parity import MAX_DIFFERENCE, largest_difference, shown_difference
from dikkat.interop.trained_text_model import TrainedClassifier, TrainedLanguageModel
from dikkat_runtime.errors import DataError, msg

TEXTS = 200
"""Sample texts or prompts that the program reads."""
MAX_POOLING = 1e-5
"""Largest difference of a weight of pooling."""
_PROMPTS = 16
"""Prompts of a batch, whose logits are in memory together."""


class ClassifyingProgram(ABC):
    """Run the classifier of a folder by the program that it is for."""

    program: str
    """Its name and version."""

    @abstractmethod
    def output(self, name: str, rows: Sequence[Sequence[int]]) -> list[Tensor]:
        """Return what the output `name` holds of each row of ids; weights of pooling may have padding after them."""

    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return the logits (B, C) of rows of ids, the begin mark included, divided by the temperature."""
        return torch.stack(self.output("logits", rows))

    def pooling_weights(self, rows: Sequence[Sequence[int]]) -> list[Tensor]:
        """Return the weights (S,) of each row, where a query attends to its positions."""
        weights = self.output("pooling_weights", rows)
        return [one[: len(row)] for one, row in zip(weights, rows, strict=True)]


class WritingProgram(Protocol):
    """Run the language model of a folder by the program that it is for."""

    program: str
    """Its name and version."""

    def write(self, prompts: Sequence[Sequence[int]], longest: int) -> list[tuple[list[int], Tensor]]:
        """Return the ids written greedily after each prompt, `longest` of them, and the logits (P + T, V).

        Logits are those at every token that was read, of which the last written one need not be.
        """


def check_classifier(trained: TrainedClassifier, folder: Path, program: ClassifyingProgram, count: int = TEXTS) -> str:
    """Classify `count` texts by the `program` that reads `folder`, and return how they were compared.

    Raises `DataError` where the tokenizer cuts otherwise, a label is another one, or a logit or a weight of pooling
    differs from that of the run in float64, as `check_parity` says.
    """
    texts = trained.samples(count)
    whole = [
        [row[0], *ids] for row, ids in zip(trained.rows(texts), trained.tokenizer.encode_batch(texts), strict=True)
    ]
    check_tokenizer(trained.run, folder / "tokenizer.json", texts, whole, dotted=trained.lowercases_dotted)
    rows, exact = trained.rows(texts), trained.in_float64()
    differences, pooled = [], []
    for text, row, theirs in zip(texts, rows, program.logits(rows), strict=True):
        expected, own = exact.logits(row), trained.logits(row)
        differences.append([float((one - expected).abs().max()) for one in (own, theirs)])
        labels = (_labels(trained, one) for one in (own, theirs))
        if len(set(labels)) > 1:
            raise DataError("{run}: {program} labels {text} as {labels}, not {expected}; nothing was written").fill(
                trained.run, program.program, repr(text), _labels(trained, theirs), _labels(trained, own)
            )
    largest = _checked_logits(trained.run, program.program, differences)
    report = msg("{count} texts by {program}: the same label, logits within {difference}").fill(
        len(texts), program.program, shown_difference(largest)
    )
    if not trained.pools_by_attention:
        return report
    for row, theirs in zip(rows, program.pooling_weights(rows), strict=True):
        expected, own = exact.pooling_weights(row), trained.pooling_weights(row)
        pooled.append([float((one - expected).abs().max()) for one in (own, theirs)])
    largest, most = largest_difference(pooled, MAX_POOLING)
    if not largest <= most:
        raise DataError(
            "{run}: {program} computes weights of pooling that differ by {difference:.2g}, more than "
            "{limit:.2g}; nothing was written"
        ).fill(trained.run, program.program, largest, most)
    return msg("{report}, weights of pooling within {difference}", report, shown_difference(largest))


def check_language_model(
    trained: TrainedLanguageModel, folder: Path, program: WritingProgram, count: int = TEXTS
) -> str:
    """Write on after `count` prompts by the `program` that reads `folder`, and return how they were compared.

    Raises `DataError` where the tokenizer cuts otherwise, another text is written, or a logit differs from that of the
    run in float64, as `check_parity` says. Logits of entries that are never written are left out.
    """
    texts = trained.prompts(count)
    prompts = trained.tokenizer.encode_batch(texts)
    file = folder / "tokenizer.json"
    check_tokenizer(trained.run, file, texts, prompts, dotted=trained.lowercases_dotted, framed=False)
    exact, differences = trained.in_float64(), []
    never = set(trained.special_tokens.never_written)
    entries = [entry for entry in range(trained.model.vocab_size) if entry not in never]
    for start in range(0, len(texts), _PROMPTS):
        batch = slice(start, start + _PROMPTS)
        written = program.write(prompts[batch], trained.longest_output)
        ours = trained.greedy(prompts[batch])
        own_texts = trained.tokenizer.decode_batch(ours)
        their_texts = exported_texts(file, trained.tokenizer, [trained.before_end(ids) for ids, _ in written])
        for text, wanted, other in zip(texts[batch], own_texts, their_texts, strict=True):
            if wanted != other:
                raise DataError(
                    "{run}: {program} continues {text} with {written}, not {expected}; nothing was written"
                ).fill(trained.run, program.program, repr(text), repr(other), repr(wanted))
        for prompt, ids, (_, theirs) in zip(prompts[batch], ours, written, strict=True):
            # the program may have read what follows an end mark, and need not have read its last token
            length = len(prompt) + max(0, len(ids) - 1)
            expected, own = (one.logits(prompt, ids)[:length, entries] for one in (exact, trained))
            theirs = theirs[:length, entries]
            differences.append([float((one - expected).abs().max()) for one in (own, theirs)])
    largest = _checked_logits(trained.run, program.program, differences)
    return msg("{count} prompts by {program}: the same text by greedy search, logits within {difference}").fill(
        len(texts), program.program, shown_difference(largest)
    )


def _checked_logits(run: Path, program: str, differences: Sequence[Sequence[float]]) -> float:
    """Return the largest difference of a logit. Raises `DataError` for one that is too large."""
    largest, most = largest_difference(differences, MAX_DIFFERENCE)
    if not largest <= most:
        raise DataError(
            "{run}: {program} computes logits that differ by {difference:.2g}, more than {limit:.2g}; nothing "
            "was written"
        ).fill(run, program, largest, most)
    return largest


def _labels(trained: TrainedClassifier, logits: Tensor) -> str:
    """Return the label of a text, or all that reach their cut where there may be several."""
    if not trained.is_multi_label:
        return trained.labels[int(logits.argmax())]
    reached = logits.double().sigmoid() >= torch.tensor(trained.cuts, dtype=torch.float64)
    return ", ".join(label for label, has in zip(trained.labels, reached.tolist(), strict=True) if has)
