"""Compute vectors of lines of text, and of their tokens, by any model and engine; also of what a translator writes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dikkat_runtime.engine.choose import EngineRequest, torch_factory
from dikkat_runtime.engine.contract import Engine, EngineInfo, EngineName, Memory, Rows, TextEngine
from dikkat_runtime.engine.ensemble import first_member
from dikkat_runtime.engine.native_texts import pooled_by
from dikkat_runtime.engine.options import BeamOptions, Device
from dikkat_runtime.engine.precision import PrecisionName, native_precision
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run.config import read_config, section, wrong_kind
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.parts import TOKENIZER
from dikkat_runtime.special_tokens import BOS_ID, source_ids
from dikkat_runtime.tasks.aligner import Aligner, forced_attention
from dikkat_runtime.tasks.batches import length_batches, search_all
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.generator import Generator
from dikkat_runtime.tasks.opening import OpenedModel, native_encoder, open_engine, vocabulary_sizes
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.foreign_tokenizer import AnyTokenizer, ForeignTokenizer
from dikkat_runtime.text.tokenizer import Tokenizer

BATCH_SIZE, BATCH_TOKENS = 32, 8192
"""Lines computed together, and their tokens, padding included."""
WINDOW = 512
"""Lines read ahead, among which those of like length share a batch."""


Text = str | Sequence[int]
"""A text, or its ids without marks at its start and end."""


@dataclass(frozen=True, slots=True)
class Vector:
    """The vector of a line or of one of its tokens."""

    line: int
    """Counted from 1."""
    text: str
    """The line, or the label of the token; empty for ids."""
    values: Array
    """(D,), float32."""
    left_out: int = 0
    """Number of tokens of the line beyond the limit of the model."""


@dataclass(frozen=True, slots=True)
class TextReading:
    """The way in which a kind of model reads a text."""

    encode: Callable[[Sequence[str]], list[list[int]]]
    """Returns ids of texts that are not empty, without special tokens."""
    frame: Callable[[list[int]], list[int]]
    """Returns the ids that the model reads: no more than it can, between its special tokens."""
    longest: int
    """Most ids of a text that are read."""
    tokenizer: AnyTokenizer
    prompts: Mapping[str, str] = field(default_factory=dict)
    """What may be put before a text, by name."""
    default_prompt: str = ""
    """The name of the prompt where none is asked for; empty for none."""

    def prompt(self, name: str | None) -> str:
        """Return the prompt of a name, by default the usual one. Raises `UsageError` where there is none."""
        name = self.default_prompt if name is None else name
        if name and name not in self.prompts:
            known = ", ".join(self.prompts) or msg("none")
            raise UsageError("there is no prompt {name}; this model has {known}", repr(name), known)
        return self.prompts[name] if name else ""


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    ids: list[int]
    left_out: int


class Embedder(OpenedModel):
    """A trained translator (its encoder), classifier, language model or imported encoder, as a source of vectors."""

    def __init__(self, engine: TextEngine, reading: TextReading) -> None:
        self.engine: TextEngine = engine
        self.reading, self.tokenizer = reading, reading.tokenizer

    @classmethod
    def of_request(cls, request: EngineRequest) -> "Embedder":
        """Return the embedder that is asked for; raises as `load`, and `UsageError` for a kind without vectors."""
        run, config = request.run, request.config
        kind = config["task"]
        if kind in ("classifier", "tagger", "regressor"):
            return of_classifier(Classifier.of_request(request))
        if kind == "lm":
            generator = Generator.of_request(request)
            # the mean of the states before the output matrix; a model of ours begins a text with a mark
            begin = (BOS_ID,) if isinstance(generator.tokenizer, Tokenizer) else ()
            longest, own = longest_text(run, config, generator.context, special=len(begin)), generator.tokenizer
            reading = TextReading(own.encode_batch, lambda ids: [*begin, *ids[:longest]], longest, own)
            return cls(generator.engine, reading)
        if kind == "encoder":
            return of_encoder(request)
        if kind != "translator":
            raise wrong_kind(run, config, msg("for which this version has no vectors"))
        # nothing is written, so that no shortlist is needed
        translator = Translator.of_request(request, all_words=True)
        model = section(config, "model", run)
        width, add_eos = int(model["model_dim"]), bool(model.get("add_source_eos", True))
        most = longest_text(run, config, int(section(config, "data", run)["max_length"]), special=1)
        reading = TextReading(
            encode=lambda texts: translator.tokenizer.encode_batch(texts, translator.language),
            frame=lambda ids: source_ids(ids[:most], add_eos),
            longest=most,
            tokenizer=translator.tokenizer,
        )
        return cls(EncoderOfTranslator(first_member(translator.engine), width, add_eos), reading)

    @property
    def width(self) -> int:
        """D, the entries of a vector."""
        return self.engine.width

    def stream(self, lines: Iterable[Text], *, window: int = WINDOW, prompt: str | None = None) -> Iterator[Array]:
        """Yield only the vector (D,) of each line; see `sentences`."""
        return (vector.values for vector in self.sentences(lines, window=window, prompt=prompt))

    def sentences(self, lines: Iterable[Text], *, window: int = WINDOW, prompt: str | None = None) -> Iterator[Vector]:
        """Yield one vector a line, in order and in constant memory; that of a line of white space is zero.

        Neighbours and batches do not change a vector by more than rounding. At most `window` lines are read ahead.
        The `prompt` of that name is put before each line. Raises `UsageError` where there is none.
        """
        for line, _, pooled in self._stream(lines, window, prompt):
            yield Vector(line.number, line.text, pooled, line.left_out)

    def tokens(self, lines: Iterable[str], *, window: int = WINDOW, prompt: str | None = None) -> Iterator[Vector]:
        """Yield a vector a token, special ones included, line by line; a line of white space has no tokens."""
        for line, states, _ in self._stream(lines, window, prompt):
            rows = zip(self.tokenizer.labels(line.ids), states, strict=True)
            yield from (Vector(line.number, label, values, line.left_out) for label, values in rows)

    def _stream(self, lines: Iterable[Text], window: int, prompt: str | None) -> Iterator[tuple[_Line, Array, Array]]:
        """Yield each line with the states (S, D) of its tokens and its vector (D,), zero without tokens."""
        numbered, nothing = enumerate(lines, start=1), np.zeros(self.width, np.float32)
        before = self.reading.prompt(prompt)
        while some := list(islice(numbered, window)):
            batch = self._read(some, before)
            read = dict.fromkeys(range(len(batch)), (nothing[:0], nothing))
            for indices in length_batches([len(line.ids) for line in batch], BATCH_SIZE, BATCH_TOKENS):
                memory = self.engine.hidden([batch[index].ids for index in indices])
                for index, states, pooled in zip(indices, memory.states, self.engine.pool(memory), strict=True):
                    read[index] = states[: len(batch[index].ids)], pooled
            yield from ((line, *read[number]) for number, line in enumerate(batch))

    def _read(self, numbered: Sequence[tuple[int, Text]], before: str) -> list[_Line]:
        texts = [(before + text).strip() for _, text in numbered if isinstance(text, str) and text.strip()]
        prompt, *rows = self.reading.encode([before, *texts])
        encoded, lines = iter(rows), []
        for number, text in numbered:
            if isinstance(text, str):
                ids = next(encoded) if text.strip() else []
            else:
                ids, text = [*prompt, *text] if text else [], ""
            read = self.reading.frame(ids) if ids else []
            lines.append(_Line(number, text, read, max(0, len(ids) - self.reading.longest)))
        return lines


@dataclass(frozen=True, slots=True)
class EncoderOfTranslator:
    """The encoder of a translator's engine, which adds the end mark to a source itself if `add_eos`."""

    engine: Engine
    width: int
    add_eos: bool

    @property
    def info(self) -> EngineInfo:
        return self.engine.info

    def hidden(self, rows: Rows) -> Memory:
        """Return the state of every id, the last of which is the end mark if `add_eos`."""
        return self.engine.encode([row[:-1] for row in rows] if self.add_eos else rows)

    def pool(self, memory: Memory) -> Array:
        return pooled_by(memory, "mean")


def tsv_line(vector: Vector, with_line: bool = False) -> str:
    """Return the line `text<TAB>0.1 0.2 …`, for a token with its line number first; tabs in the text become spaces.

    Every number has as many digits as float32 needs to be read back exactly.
    """
    text = vector.text.replace("\t", " ")
    numbers = " ".join(map(str, vector.values))
    return f"{vector.line}\t{text}\t{numbers}" if with_line else f"{text}\t{numbers}"


def of_classifier(classifier: Classifier) -> Embedder:
    """Return the embedder of a classifier's encoder, with the pooling that its classes are computed from."""
    reading = TextReading(classifier.encode, classifier.read, classifier.max_tokens, classifier.tokenizer)
    return Embedder(classifier.engine, reading)


def of_encoder(request: EngineRequest) -> Embedder:
    """Return the embedder of an imported encoder, which reads texts between its special tokens."""
    run, config = request.run, request.config
    tokenizer = ForeignTokenizer.load(checked(run, TOKENIZER), vocabulary_sizes(run, config)[0])
    settings = section(config, "encoder", run)
    longest = longest_text(run, config, int(settings.get("max_length", 512)), special=tokenizer.frame_size)
    prompts = settings.get("prompts", {}), settings.get("default_prompt", "")
    reading = TextReading(
        tokenizer.encode_batch, lambda ids: tokenizer.framed(ids[:longest]), longest, tokenizer, *prompts
    )
    embedder = Embedder(open_engine(request, native_encoder), reading)
    embedder.request = request
    return embedder


def longest_text(run: Path, config: Mapping[str, Any], limit: int, special: int) -> int:
    """Return the most ids of a text next to the special ones: as in training, or less where positions end before."""
    model = section(config, "model", run)
    return (min(limit, int(model["max_positions"])) if model.get("positions") == "learned" else limit) - special


Contexts = Callable[[Sequence[int], Sequence[int]], Array]
"""From the ids of a source and of a target, without marks, to (T, D): what each target token read from the source."""


class CrossEmbedder:
    """Translate lines greedily, and give what each written token read from the source."""

    def __init__(self, translator: Translator, contexts: Contexts, longest: int, width: int) -> None:
        """`longest` is the most tokens of a line that are read, `width` the numbers of a vector."""
        self._translator, self._contexts, self._longest, self.width = translator, contexts, longest, width

    @classmethod
    def load(
        cls,
        path: str | Path,
        precision: PrecisionName = "float32",
        device: Device = "cpu",
        engine: EngineName = "auto",
        *,
        threads: int | None = None,
    ) -> "CrossEmbedder":
        """Open the translator of a run directory.

        Raises `UsageError` for a model of another kind and for one that the native engine, where it is asked for, does
        not compute; else as `Translator.load`.
        """
        run = Path(path)
        config = read_config(run, "translator")
        # a translation by the native engine, and the vectors by another, would be hard to explain
        if engine != "torch" and device == "cpu" and not Aligner.computes(run):
            if engine == "native" or native_precision(precision) == "int8":
                raise UsageError(
                    "{path}: the native engine does not compute this model's cross-attention alone; leave out --engine "
                    "native and --precision int8"
                ).fill(path)
            engine, precision = "torch", "float32"
        translator = Translator.load(run, precision, device, engine, threads=threads)
        contexts: Contexts
        if translator.info.name == "native":
            contexts = forced_attention(run, config).contexts
        else:
            contexts = torch_factory().contexts(first_member(translator.engine))
        most = int(section(config, "data", run)["max_length"])
        width = int(section(config, "model", run)["model_dim"])
        return cls(translator, contexts, longest_text(run, config, most, special=1), width)

    @property
    def info(self) -> EngineInfo:
        """Return what translates, at what precision, with how many threads; the vectors are always float32."""
        return self._translator.info

    def tokens(self, lines: Iterable[str], *, window: int = WINDOW) -> Iterator[Vector]:
        """Yield a vector (D,) for each token that is written, line by line; an empty translation has none."""
        for number, _, target, values, left_out in self._read(lines, window):
            labels = self._translator.target_tokenizer.labels(target)
            yield from (Vector(number, label, row, left_out) for label, row in zip(labels, values, strict=True))

    def sentences(self, lines: Iterable[str], *, window: int = WINDOW) -> Iterator[Vector]:
        """Yield one vector a line, the mean over its tokens, with the translation as text; zero where that is empty."""
        for number, text, target, values, left_out in self._read(lines, window):
            mean = values.mean(axis=0) if target else np.zeros(self.width, np.float32)
            yield Vector(number, text, mean, left_out)

    def _read(self, lines: Iterable[str], window: int) -> Iterator[tuple[int, str, list[int], Array, int]]:
        """Number, translation, its ids, their vectors and the tokens that were left out, of each line."""
        translator, numbered = self._translator, enumerate(lines, start=1)
        while some := list(islice(numbered, window)):
            ids = translator.tokenizer.encode_batch([text.strip() for _, text in some], translator.language)
            sources = [row[: self._longest] for row in ids]
            searched = search_all(translator.engine, sources, BeamOptions(beam_size=1))
            for (number, _), row, source, hypotheses in zip(some, ids, sources, searched, strict=True):
                target = list(hypotheses[0].tokens)
                values = self._contexts(source, target) if target else np.zeros((0, self.width), np.float32)
                yield number, translator.target_tokenizer.decode(target), target, values, len(row) - len(source)
