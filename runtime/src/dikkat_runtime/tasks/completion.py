"""Complete the translation of one text while a person types it, reusing the work of the previous key."""

from collections.abc import Sequence
from typing import Protocol

from dikkat_runtime.engine.constraints import rows_of_beam
from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.engine.stepwise import ResumableSearch
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.compiled import ConstraintCompiler
from dikkat_runtime.tasks.line_translation import LineTranslator
from dikkat_runtime.tasks.piece_translation import Decode
from dikkat_runtime.tasks.translation_notes import TranslationNotes
from dikkat_runtime.tasks.translations import PieceRequest, Translation, translations_of
from dikkat_runtime.text.glossary import Glossary
from dikkat_runtime.text.tokenizer import Tokenizer


class CompletingTranslator(Protocol):
    """The methods of a translator that a session calls."""

    @property
    def engine(self) -> Engine: ...

    @property
    def target_tokenizer(self) -> Tokenizer: ...

    @property
    def constraints(self) -> ConstraintCompiler: ...

    def neighbours(self, texts: Sequence[str]) -> Sequence[Neighbours | None]: ...

    def line_translator(
        self, options: DecodingOptions, notes: TranslationNotes, decode: Decode, *, glossary: Glossary | None
    ) -> LineTranslator: ...

    def decoded(
        self, requests: Sequence[PieceRequest], numbers: Sequence[int], options: DecodingOptions, bound: bool
    ) -> list[Translation]: ...


class Completion:
    """A session for one source; not to be used from two threads at once."""

    def __init__(
        self,
        translator: CompletingTranslator,
        source: str,
        options: DecodingOptions,
        glossary: Glossary | None = None,
    ) -> None:
        """Raises `UsageError` for a source of more than one line."""
        if "\n" in source:
            raise UsageError("only one line can be completed; begin a session for each line")
        self._translator, self._source, self._options = translator, source, options
        self._lines = translator.line_translator(options, TranslationNotes(), self._decoded, glossary=glossary)
        self._known: dict[tuple[PieceRequest, DecodingOptions], Translation] = {}
        self._searches: dict[tuple[tuple[int, ...], int], ResumableSearch] = {}

    def suggest(self, prefix: str) -> Translation:
        """Return the best translation that begins with `prefix`, byte for byte; the plain one for an empty prefix.

        Raises `UsageError` for a prefix of more than one line.
        """
        if "\n" in prefix:
            raise UsageError("a prefix must be the beginning of one line")
        return next(self._lines.translate([self._source], 1, [prefix]))

    def _decoded(
        self, requests: Sequence[PieceRequest], numbers: Sequence[int], options: DecodingOptions, bound: bool
    ) -> list[Translation]:
        """Return the translations of pieces, decoding each only once without a prefix."""
        if not bound or options.limits_repetition:
            new = [number for number, request in enumerate(requests) if bound or (request, options) not in self._known]
            decoded = self._translator.decoded(
                [requests[number] for number in new], [numbers[number] for number in new], options, bound
            )
            if bound:
                return decoded
            self._known |= zip(((requests[number], options) for number in new), decoded, strict=True)
            return [self._known[request, options] for request in requests]
        return [self._completed(request, options) for request in requests]

    def _completed(self, request: PieceRequest, options: DecodingOptions) -> Translation:
        compiler = self._translator.constraints
        prefix = compiler.prefix(request.prefix, request.is_closed)
        constraint = compiler.constraint(request.text, request.demands, prefix)
        if constraint is None:
            raise AssertionError("a request that is bound asks for something")
        beam_size = options.beam_size if isinstance(options, BeamOptions) else 1
        beam_size = rows_of_beam(beam_size, [constraint])
        search = self._searches.get((request.ids, beam_size))
        if search is None:
            memory = self._translator.engine.encode([request.ids])
            steps = self._translator.engine.steps(memory, beam_size, self._translator.neighbours([request.text]))
            search = ResumableSearch(steps, options, beam_size, memory.lengths[0])
            self._searches[request.ids, beam_size] = search
        hypotheses = search.search(prefix.kept if prefix else (), constraint)
        begun = [(request.prefix, prefix)] if prefix else []
        return translations_of([hypotheses], self._translator.target_tokenizer, begun)[0]
