"""The job of training a language model: from files of text to a run directory."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dikkat.config import RunConfig, build_config, merge, preset
from dikkat.data.cleaning import CleaningReport
from dikkat.data.corpus import Corpus
from dikkat.data.documents import PIECE, Document, read_documents, split_documents
from dikkat.data.packing import Windows, hidden_tokens
from dikkat.kernels.processor import to_device
from dikkat.models.factory import build_language_model
from dikkat.models.language_model import LanguageModel as Network
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.data_source import data_source
from dikkat.tasks.common.card import foreign_validations
from dikkat.tasks.common.settings import Request, Settings, require_start, tuning, without_translating
from dikkat.tasks.common.speed_trial import (
    FEW_PASSES,
    PrecisionTrial,
    asked_minutes,
    fitting,
    language_model_seconds,
    may_choose_size,
    needed_updates,
    with_asked_training,
)
from dikkat.tasks.common.weights import build_to_train, load_initial, take_tokenizer
from dikkat.tasks.in_memory import language_model_of
from dikkat.training.language_modelling import LanguageModelTask
from dikkat_runtime.engine.options import Device, GenerationOptions, Precision
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.run.metrics import settings_hash
from dikkat_runtime.special_tokens import SpecialTokens
from dikkat_runtime.tasks.generator import Generator
from dikkat_runtime.text.foreign_tokenizer import AnyTokenizer, ForeignTokenizer, load_tokenizer, special_tokens_of
from dikkat_runtime.text.tokenizer import Tokenizer

# Turn documents into ids, and learn their vocabulary, in memory that does not grow with them.


VOCABULARY_CHARACTERS = 1 << 28
"""Characters that a vocabulary is learned from, about; of more, so many are drawn by the seed."""
_CHARACTERS_AT_ONCE = 1 << 16
_DOCUMENTS_AT_ONCE = 1000


def vocabulary_texts(documents: Sequence[Document], seed: int) -> Iterator[str]:
    """Yield the texts that a vocabulary is learned from: all pieces, or so many of them as memory should see."""
    size = sum(document.size for document in documents)
    pieces = chain.from_iterable(document.pieces for document in documents)
    if size <= VOCABULARY_CHARACTERS:
        yield from pieces
        return
    bits = np.random.PCG64(np.random.SeedSequence([seed % 2**64, size]))
    limit = 2**64 * VOCABULARY_CHARACTERS // size
    # raw bits of the generator: numpy keeps these the same for ever
    yield from (piece for piece in pieces if bits.random_raw() < limit)


def encoded(documents: Iterable[Document], tokenizer: AnyTokenizer, kind: str) -> Iterator[Iterable[int]]:
    """Yield the ids of each document, each to be read before the next, as those of its whole text are.

    `<bos>` stands where a text begins, `<eos>` where it ends, or the marks of an imported model that has some. A
    vocabulary of the kind unigram cuts a text as a whole, which is then in memory, and so does an imported one.
    """
    marks = special_tokens_of(tokenizer)
    if isinstance(tokenizer, ForeignTokenizer):
        kind = "foreign"
    if kind in ("characters", "bytes"):
        for document in documents:
            yield _marked(
                document, chain.from_iterable(_of_characters(piece, tokenizer) for piece in document.pieces), marks
            )
        return
    for group in _groups(documents):
        if len(group) == 1 and len(group[0].pieces) > 1 and kind in ("bpe", "words"):
            (document,) = group
            yield _marked(document, chain.from_iterable(_of_words(document.pieces, tokenizer, kind)), marks)
        else:
            rows = tokenizer.encode_batch([document.text for document in group])
            yield from (_marked(document, ids, marks) for document, ids in zip(group, rows, strict=True))


def _groups(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents that are encoded side by side: one that is long, or several short ones."""
    waiting, size = list[Document](), 0
    for document in documents:
        if waiting and (size + document.size > PIECE or len(waiting) == _DOCUMENTS_AT_ONCE):
            yield waiting
            waiting, size = [], 0
        waiting.append(document)
        size += document.size
    if waiting:
        yield waiting


def _marked(document: Document, ids: Iterable[int], marks: SpecialTokens) -> Iterator[int]:
    begin, end = ([] if mark is None else [mark] for mark in (marks.begin, marks.end))
    return chain(begin * document.begins, ids, end * document.ends)


def _of_characters(piece: str, tokenizer: AnyTokenizer) -> Iterator[int]:
    """Ids of a piece of a text, of any of its pieces one after the other, which are encoded side by side."""
    starts = range(0, len(piece), _CHARACTERS_AT_ONCE)
    rows = tokenizer.encode_batch([piece[start : start + _CHARACTERS_AT_ONCE] for start in starts])
    return chain.from_iterable(rows)


def _of_words(pieces: Iterable[str], tokenizer: AnyTokenizer, kind: str) -> Iterator[Sequence[int]]:
    """Return ids of the pieces of a text, without the space that the kind bpe puts before it."""
    for number, piece in enumerate(pieces):
        if not number or kind == "words":
            yield tokenizer.encode(piece)
        else:
            yield tokenizer.encode(piece[1:]) if piece.startswith(" ") else tokenizer.encode(piece)[1:]


# Choose size, vocabulary and schedule of a language model from the amount of text.


COMMON: Settings = {
    # a scaled embedding drowns what the blocks add: tied to the output, it says at first that every token comes twice
    "model": {"positions": "rotary", "scale_embeddings": False},
    # small batches in many updates; what orthogonalising the matrices costs, a small model never earns back
    "training": {"optimizer": "adamw", "beta2": 0.99, "label_smoothing": 0.0},
}
"""Settings of every language model, those of presets included."""


def language_model_settings(characters: int) -> Settings:
    """Return the settings that differ from the defaults for `characters` characters of text."""
    if characters < 300_000:
        own = _settings(dim=128, heads=4, layers=4, dropout=0.2, context=128, batch=1024, rate=4e-3, epochs=40)
    elif characters < 5_000_000:
        own = _settings(dim=192, heads=4, layers=4, dropout=0.1, context=256, batch=1024, rate=3e-3, epochs=20)
    elif characters < 50_000_000:
        own = _settings(dim=256, heads=4, layers=6, dropout=0.1, context=256, batch=4096, rate=2e-3, epochs=8)
    else:
        own = _settings(dim=384, heads=6, layers=8, dropout=0.0, context=256, batch=8192, rate=1e-3, epochs=2)
    kind = {"kind": "characters"} if characters < 5_000_000 else {"kind": "bpe", "vocab_size": 8_000}
    return merge(COMMON, own, {"tokenizer": kind})


def _settings(
    *, dim: int, heads: int, layers: int, dropout: float, context: int, batch: int, rate: float, epochs: float
) -> Settings:
    return {
        "model": {
            "model_dim": dim,
            "num_heads": heads,
            "feed_forward_dim": 4 * dim,
            "decoder_layers": layers,
            "dropout": dropout,
        },
        "training": {"tokens_per_batch": batch, "learning_rate": rate, "max_epochs": epochs},
        "language_model": {"context": context},
    }


def language_model_settings_for(characters: int, asked: Settings, device: Device = "cpu") -> Settings:
    """Return `language_model_settings`, or a smaller model where the time asked for is too short."""
    minutes, own = asked_minutes(asked), language_model_settings(characters)
    if minutes is None or not may_choose_size(characters, asked, device):
        return own
    smaller = (language_model_settings(amount) for amount in (49_999_999, 4_999_999, 299_999) if amount < characters)
    kept: Settings = merge(FEW_PASSES, {"tokenizer": own["tokenizer"]})
    candidates = [own, *(merge(settings, kept) for settings in smaller)]

    def needed(config: RunConfig) -> int:
        tokens = characters / (4 if config.tokenizer.kind in ("bpe", "unigram") else 1)
        return needed_updates(config, tokens / config.training.tokens_per_batch)

    return fitting(with_asked_training(candidates, asked), minutes, language_model_seconds, needed)


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
