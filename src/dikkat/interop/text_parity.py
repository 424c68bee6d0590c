"""Compare exported classifiers and language models with their runs before they take their names."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from dikkat.interop.exported_texts import check_tokenizer, exported_texts
from dikkat.interop.parity import (
    MAX_DIFFERENCE,
    SENTENCES,
    check_folder,
    largest_difference,
    shown_difference,
    whole_folder,
)
from dikkat.interop.trained_network import exported_kind
from dikkat.interop.trained_text_model import TrainedClassifier, TrainedLanguageModel
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.engine.native_texts import padded
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.files import write_atomically
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.notices import counted
from dikkat_runtime.tasks.batches import length_batches

MAX_POOLING = 1e-5
"""Largest difference of a weight of pooling."""
_ROWS, _TOKENS = 32, 8192
"""Texts of a batch, and tokens, padding included."""
_PROMPTS = 16
"""Prompts of a batch, whose logits are in memory together."""


class ClassifyingProgram(ABC):
    """Run the classifier of a folder by the program that it is for."""

    program: str
    """Its name and version."""

    @abstractmethod
    def computed(self, name: str, ids: Array, mask: Array) -> Array:
        """Return the output `name` for a batch of ids (B, S) and their mask."""

    def output(self, name: str, rows: Sequence[Sequence[int]]) -> list[Tensor]:
        """Return what the output `name` holds of each row of ids, computed in batches of like length.

        Weights of pooling may have padding after them.
        """
        answers: dict[int, Tensor] = {}
        for batch in length_batches([len(row) for row in rows], _ROWS, _TOKENS):
            values = self.computed(name, *padded([rows[number] for number in batch]))
            answers |= {number: torch.from_numpy(row) for number, row in zip(batch, values, strict=True)}
        return [answers[number] for number in range(len(rows))]

    def logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return the logits (B, C) of rows of ids, the begin mark included, divided by the temperature."""
        return torch.stack(self.output("logits", rows))

    def pooling_weights(self, rows: Sequence[Sequence[int]]) -> list[Tensor]:
        """Return the weights (S,) of each row, where a query attends to its positions."""
        return [one[: len(row)] for one, row in zip(self.output("pooling_weights", rows), rows, strict=True)]


class WritingProgram(Protocol):
    """Run the language model of a folder by the program that it is for."""

    program: str
    """Its name and version."""

    def write(self, prompts: Sequence[Sequence[int]], longest: int) -> list[tuple[list[int], Tensor]]:
        """Return the ids written greedily after each prompt, `longest` of them, and the logits (P + T, V).

        Logits are those at every token that was read, of which the last written one need not be.
        """


def check_classifier(
    trained: TrainedClassifier, folder: Path, program: ClassifyingProgram, count: int = SENTENCES
) -> str:
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
    for text, row, theirs in counted(list(zip(texts, rows, program.logits(rows), strict=True))):
        expected, own = exact.logits(row), trained.logits(row)
        differences.append([float((one - expected).abs().max()) for one in (own, theirs)])
        labels = (_labels(trained, one) for one in (own, theirs))
        if len(set(labels)) > 1:
            raise DataError("{run}: {program} labels {text} as {labels}, not {expected}; nothing was written").fill(
                trained.run, program.program, repr(text), _labels(trained, theirs), _labels(trained, own)
            )
    largest = largest_difference(trained.run, program.program, msg("logits that differ"), differences, MAX_DIFFERENCE)
    report = msg("{count} texts by {program}: the same label, logits within {difference}").fill(
        len(texts), program.program, shown_difference(largest)
    )
    if not trained.pools_by_attention:
        return report
    for row, theirs in counted(list(zip(rows, program.pooling_weights(rows), strict=True))):
        expected, own = exact.pooling_weights(row), trained.pooling_weights(row)
        pooled.append([float((one - expected).abs().max()) for one in (own, theirs)])
    what = msg("weights of pooling that differ")
    largest = largest_difference(trained.run, program.program, what, pooled, MAX_POOLING)
    return msg("{report}, weights of pooling within {difference}", report, shown_difference(largest))


def check_language_model(
    trained: TrainedLanguageModel, folder: Path, program: WritingProgram, count: int = SENTENCES
) -> str:
    """Continue after `count` prompts by the `program` that reads `folder`, and return how they were compared.

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
    for start in counted(range(0, len(texts), _PROMPTS), msg("batches of texts")):
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
    largest = largest_difference(trained.run, program.program, msg("logits that differ"), differences, MAX_DIFFERENCE)
    return msg("{count} prompts by {program}: the same text by greedy search, logits within {difference}").fill(
        len(texts), program.program, shown_difference(largest)
    )


def _labels(trained: TrainedClassifier, logits: Tensor) -> str:
    """Return the label of a text, or all that reach their cut where there may be several."""
    if not trained.is_multi_label:
        return trained.labels[int(logits.argmax())]
    reached = logits.double().sigmoid() >= torch.tensor(trained.cuts, dtype=torch.float64)
    return ", ".join(label for label, has in zip(trained.labels, reached.tolist(), strict=True) if has)


def export_checked(
    run: Path, out: Path, toolkit: str, writers: Sequence[Callable[[Any, Path, str], Any]], count: int = SENTENCES
) -> str:
    """Write the folder `out`, new or empty, and return how it was compared with the run, by `count` texts.

    The writers for translators, classifiers and language models are given the trained one, the folder to write to and
    its name in the end, and return the program that reads it. Raises as the writer and the comparison do; nothing is
    then written.
    """
    ways: dict[str, tuple[Any, Callable[..., object], Callable[..., Any]]] = {
        "translator": (TrainedTranslator, check_folder, writers[0]),
        "classifier": (TrainedClassifier, check_classifier, writers[1]),
        "lm": (TrainedLanguageModel, check_language_model, writers[2]),
    }
    with whole_folder(out) as draft:
        kind = exported_kind(run)
        if kind not in ways:
            raise UsageError("{run}: --to {to} writes translators, classifiers and language models", run, toolkit)
        trained_kind, check, write = ways[kind]
        trained = trained_kind.open(run)
        program = write(trained, draft, out.resolve().name)
        return str(check(trained, draft, program, count))


def write_files(folder: Path, files: Mapping[str, Any]) -> None:
    """Write files by their names: bytes and texts as they are, and all else as JSON."""
    for name, content in files.items():
        text = content if isinstance(content, str | bytes) else json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_atomically(folder / name, text.encode() if isinstance(text, str) else text)
