"""Vectors of what a translator writes: the output of its last cross-attention, a vector for each token."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from dikkat_runtime.engine.choose import torch_factory
from dikkat_runtime.engine.contract import EngineInfo, EngineName
from dikkat_runtime.engine.ensemble import first_member
from dikkat_runtime.engine.forced_attention import FORCED, ForcedAttention
from dikkat_runtime.engine.options import BeamOptions, Device
from dikkat_runtime.engine.precision import PrecisionName, native_precision
from dikkat_runtime.engine.settings import model_settings
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.errors import UsageError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.native.cpu import available_threads
from dikkat_runtime.run.config import read_config, section
from dikkat_runtime.run.weights import read_weights
from dikkat_runtime.tasks.aligner import Aligner
from dikkat_runtime.tasks.batches import search_all
from dikkat_runtime.tasks.embedder import WINDOW, Vector, longest_text
from dikkat_runtime.tasks.translator import Translator

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
        is_native = translator.info.name == "native"
        contexts: Contexts = (
            native_contexts(run) if is_native else torch_factory().contexts(first_member(translator.engine))
        )
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


def native_contexts(run: Path) -> Contexts:
    """Return the computation of a run's cross-attention over numpy. Raises `UsageError` where it cannot be computed."""
    config = read_config(run, "translator")
    settings = model_settings(config, str(run / "config.json"), FORCED)
    file = run / "model.safetensors"
    weights = Weights(read_weights(file), str(file), in_bytes=False, threads=available_threads())
    return ForcedAttention(weights, settings).contexts
