"""The job of training a language model: from files of text to a run directory."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dikkat.config import RunConfig, build_config, merge, preset
from dikkat.data.cleaning import CleaningReport
from dikkat.data.corpus import Corpus
from dikkat.data.documents import Document, read_documents, split_documents
from dikkat.data.packing import Windows, hidden_tokens
from dikkat.kernels.processor import to_device
from dikkat.models.factory import build_language_model
from dikkat.models.language_model import LanguageModel as Network
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.data_source import data_source
from dikkat.tasks.common.card import foreign_validations
from dikkat.tasks.common.settings import Request, Settings, require_start, tuning, without_translating
from dikkat.tasks.common.speed_trial import PrecisionTrial
from dikkat.tasks.common.weights import build_to_train, load_initial, take_tokenizer
from dikkat.tasks.in_memory import language_model_of
from dikkat.tasks.language_model.encoding import encoded, vocabulary_texts
from dikkat.tasks.language_model.sizing import COMMON, language_model_settings_for
from dikkat.training.language_modelling import LanguageModelTask
from dikkat_runtime.engine.options import GenerationOptions, Precision
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.run.metrics import settings_hash
from dikkat_runtime.tasks.generator import Generator
from dikkat_runtime.text.foreign_tokenizer import AnyTokenizer, load_tokenizer
from dikkat_runtime.text.tokenizer import Tokenizer

TUNED_CONTEXT = 256
"""Most tokens that a model from another run sees at once, unless it is told otherwise: it can read more afterwards."""
_FREE = {"dropout", "attention_dropout"}
_PROMPT_TOKENS = 16
_OPTIONS = GenerationOptions(max_tokens=64)


class Sample:
    """Continue, or fill in, a window of the held-out text; another one at each validation."""

    def __init__(self, tokenizer: AnyTokenizer, held_out: Windows, config: RunConfig) -> None:
        self._tokenizer, self._held_out, self._config = tokenizer, held_out, config

    def __call__(self, model: Network, number: int) -> tuple[tuple[str, str], ...]:
        packed = self._held_out.at(number)
        if self._config.language_model.objective == "masked":
            share = self._config.language_model.masked_share
            example = hidden_tokens(packed, share, self._tokenizer.vocab_size, np.random.default_rng(number))
            with torch.inference_mode():
                read = to_device(example.tokens[:1], model.output_weight.device)
                said = model(read)[0].argmax(dim=-1).cpu().numpy()
            asked = example.predicted[0] if example.predicted is not None else True
            filled = np.where(asked, said, example.wanted[0])
            rows = (("read", example.tokens[0]), ("filled", filled), ("human", example.wanted[0]))
            return tuple((label, _line(self._tokenizer.decode(ids.tolist()[:80]))) for label, ids in rows)
        half = max(1, min(_PROMPT_TOKENS, self._held_out.length // 2))
        prompt = self._tokenizer.decode(packed.tokens[0, :half].tolist())
        (written,) = language_model_of(model, self._tokenizer, self._config).generate([prompt], options=_OPTIONS)[0]
        return (("prompt", _line(prompt)), ("model", _line(written.text)))


def _line(text: str) -> str:
    return text.replace("\n", "⏎")


def language_model_card(settings: dict[str, Any], metrics: list[dict[str, Any]], foreign: Sequence[int] = ()) -> str:
    """Return the card in Markdown, from config.json and the rows of metrics.jsonl.

    The rows numbered in `foreign` were measured under other settings.
    """
    best = min(metrics, key=lambda row: row["valid_loss"])
    source, asked = settings["data_source"], settings["language_model"]
    lines = [
        f"# Language model ({asked['objective']})",
        "",
        f"- data: {' '.join(source['data'])}, {source['documents']:,} documents,"
        f" {source['train_characters']:,} characters to train on",
        f"- fingerprint of the training text: sha256 {source['sha256']}",
        f"- tokens: {settings['tokenizer']['kind']}, vocabulary {settings['model']['vocab_size']:,};"
        f" context {asked['context']}",
        f"- preset: {source['preset']}" + (f", begun with {source['init']}" if source.get("init") else ""),
        f"- settings: sha256 {settings_hash(settings)}",
        f"- trained: {best['epoch']:.1f} passes, {best['tokens']:,} tokens, {metrics[-1]['seconds'] / 60:.1f} minutes",
        "",
        f"Validation on {source['validation_characters']:,} characters that the model never saw, in windows of the"
        " context side by side:",
        "",
        f"- loss {best['valid_loss']:.4f} nats a predicted token, perplexity {best['perplexity']:.3f}",
    ]
    if "bits_per_byte" in best:
        lines.append(f"- {best['bits_per_byte']:.4f} bits a byte")
    return "\n".join([*lines, *foreign_validations(foreign)]) + "\n"


@dataclass(frozen=True, slots=True)
class LanguageModelJob:
    """Train a language model from text files and folders of them; see `Job`."""

    request: Request

    def prepare(self, run: RunDirectory) -> tuple[RunConfig, CleaningReport | None]:
        """Write everything that training reads into `run`, config.json last.

        Raises `UsageError`, `DataError`, `MissingInputError` or `DiskError`.
        """
        # wrong settings should be known before any text is read
        require_start(self.request.settings, self.request.start, self.request.where)
        seed = self._config(0).training.seed
        documents = list(read_documents(self.request.data, run.path))
        train, held_out = split_documents(documents, seed)
        config = self._config(_size(train))
        tokenizer = self._tokenizer(train, config, run)
        run.make_folder("corpus")
        for name, part in (("train", train), ("validation", held_out)):
            Corpus.build(run.corpus, name, ((ids, ()) for ids in encoded(part, tokenizer, config.tokenizer.kind)))
        if self.request.start is None:
            config = build_config(merge(config.model_dump(), _model(config, tokenizer)), where=self.request.where)
        source = {
            "data": list(self.request.data),
            "preset": self.request.preset or "chosen from the amount of text",
            "init": None if self.request.start is None else str(self.request.start),
            "documents": len(documents),
            "train_characters": _size(train),
            "validation_characters": _size(held_out),
            "validation_bytes": sum(document.pieces.num_bytes for document in held_out),
            "sha256": _fingerprint(train),
        }
        run.write_config({**config.model_dump(), "task": "lm", "data_source": source})
        return config, None

    def task(self, run: RunDirectory, config: RunConfig) -> LanguageModelTask:
        asked, training = config.language_model, config.training
        vocab_size = config.model.vocab_size
        train, held_out = (
            Windows(Corpus.open(run.corpus, name, vocab_size=vocab_size), asked.context, size, training.seed)
            for name, size in (("train", training.tokens_per_batch), ("validation", 16384))
        )
        source = data_source(run.read_config(), run.config)
        build = partial(build_language_model, config.model, asked.objective, training.seed)
        model = build_to_train(run, config.model, build)
        if run.initial.exists():
            load_initial(model, run)
        return LanguageModelTask(
            model,
            train,
            held_out,
            asked,
            training,
            held_out.num_tokens / source["validation_bytes"] / math.log(2),
            Sample(load_tokenizer(run.tokenizer, vocab_size, config.data.source_language), held_out, config),
        )

    def facts(self, task: LanguageModelTask, config: RunConfig) -> dict[str, str]:
        model, asked = config.model, config.language_model
        parameters = sum(parameter.numel() for parameter in task.model.parameters())
        return {
            "text": msg(
                "{num_tokens:,} tokens to train on, {held_out:,} held out; vocabulary {vocab_size:,} ({kind})"
            ).fill(task.windows.num_tokens, task.held_out.num_tokens, model.vocab_size, config.tokenizer.kind),
            "model": msg(
                "{decoder_layers} layers, width {model_dim}, {parameters:,} parameters, context {context}, objective "
                "{objective}"
            ).fill(model.decoder_layers, model.model_dim, parameters, asked.context, asked.objective),
            "batches": msg("{batches_per_epoch:,} a pass, {batch_size} windows of {length} tokens in each").fill(
                task.batches_per_epoch, task.windows.batch_size, task.windows.length
            ),
        }

    def shortcomings(self, task: LanguageModelTask) -> tuple[str, ...]:
        return ()

    def precision_trial(self, run: RunDirectory, config: RunConfig) -> PrecisionTrial | None:
        if config.language_model.objective == "masked":
            # a text has no likelihood
            return None
        corpus = Corpus.open(run.corpus, "validation", vocab_size=config.model.vocab_size)
        context = config.language_model.context
        windows = Windows(corpus, context, context, seed=0)

        @cache
        def model(precision: Precision) -> Generator:
            return Generator.load(run.path, precision, engine="native")

        def answers(precision: Precision, numbers: Sequence[int]) -> list[tuple[float, int]]:
            rows = (windows.at(number).tokens for number in numbers)
            return [(model(precision).engine.nats(tokens[:1], [0]), tokens.shape[1] - 1) for tokens in rows]

        def score(answers: list[tuple[float, int]], numbers: Sequence[int]) -> float:
            return math.exp(sum(nats for nats, _ in answers) / sum(tokens for _, tokens in answers))

        return PrecisionTrial("perplexity", windows.batches_per_epoch, answers, score)

    def remarks(self, run: RunDirectory, rows: list[dict[str, Any]]) -> list[str]:
        return []

    def card(self, run: RunDirectory, rows: list[dict[str, Any]]) -> str:
        return language_model_card(run.read_config(), rows, run.foreign_metrics())

    def _tokenizer(self, train: Sequence[Document], config: RunConfig, run: RunDirectory) -> AnyTokenizer:
        """Return the tokenizer, and write it, with the initial weights where there are some."""
        language, seed = config.data.source_language, config.training.seed
        if self.request.start is not None:
            run.write_tensors(run.initial.name, RunDirectory.open(self.request.start).load_weights())
            return take_tokenizer(run, self.request.start, config.model.vocab_size, language)
        tokenizer = Tokenizer.train(vocabulary_texts(train, seed), config.tokenizer, (language, ""))
        tokenizer.language = language
        tokenizer.save(run.tokenizer)
        return tokenizer

    def _base(self, path: Path) -> Settings:
        """Return the settings of a run that goes on from `path`. Raises `UsageError` for one of another kind."""
        settings = RunDirectory.open(path).read_config()
        if (task := settings.get("task", "translator")) != "lm":
            raise UsageError('{path}: holds a "{task}"; --from takes a language model', path, task)
        own = settings["language_model"]
        if "imported_from" in settings and own["objective"] == "masked":
            raise UsageError(
                "{path}: was trained to fill in hidden tokens; --from takes a model that continues a text", path
            )
        shape: Settings = {name: settings[name] for name in ("model", "tokenizer", "data") if name in settings}
        shape["language_model"] = {**own, "context": min(own["context"], TUNED_CONTEXT)}
        for section in ("model", "tokenizer"):
            if changed := next(iter(self.request.settings.get(section, {}).keys() - _FREE), None):
                raise UsageError(
                    "{where}: {section}.{setting} is decided by {path}; leave it out, or leave out --from"
                ).fill(self.request.where, section, changed, path)
        return merge(shape, tuning(self.request.settings))

    def _config(self, characters: int) -> RunConfig:
        asked = self.request
        if asked.start is not None:
            base = self._base(asked.start)
        elif asked.preset:
            base = merge(COMMON, preset(asked.preset))
        else:
            base = merge(COMMON, language_model_settings_for(characters, asked.settings, asked.device))
        return without_translating(build_config(merge(base, asked.settings), where=asked.where), asked.where)


def _size(documents: Sequence[Document]) -> int:
    return sum(document.size for document in documents)


def _model(config: RunConfig, tokenizer: AnyTokenizer) -> Settings:
    """What only the data decides."""
    settings: dict[str, Any] = {"vocab_size": tokenizer.vocab_size}
    if config.model.positions == "learned":
        # a position after the context would never be trained
        settings["max_positions"] = config.language_model.context
    return {"model": settings}


def _fingerprint(documents: Sequence[Document]) -> str:
    digest = hashlib.sha256()
    for document in documents:
        for piece in document.pieces:
            digest.update(piece.encode())
        digest.update(b"\0")
    return digest.hexdigest()
