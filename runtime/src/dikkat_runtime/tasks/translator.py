"""Translate lines of text by any engine."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

from dikkat_runtime.engine.choose import EngineRequest
from dikkat_runtime.engine.constraints import rows_of_beam
from dikkat_runtime.engine.contract import Engine, EngineName
from dikkat_runtime.engine.hypotheses import TokenScores
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.options import (
    BeamOptions,
    DecodingOptions,
    Device,
    Formality,
    SamplingOptions,
    SearchDefaults,
    beam_of,
)
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.engine.stepwise import ResumableSearch
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.run.config import read_config, section
from dikkat_runtime.run.parts import CONFIG, WEIGHTS
from dikkat_runtime.run.weights import offer_base
from dikkat_runtime.tasks.batches import search_all
from dikkat_runtime.tasks.compiled import ConstraintCompiler
from dikkat_runtime.tasks.confidence import Calibration, Judge, PairScorer
from dikkat_runtime.tasks.confidence_fitting import fit_calibration, held_out_pairs, training_pairs
from dikkat_runtime.tasks.corrections import CorrectionMemory, Corrections, KnownTranslations
from dikkat_runtime.tasks.demand_keeping import Asked, Decode, DemandKeeper, LossJudge, PieceTranslator
from dikkat_runtime.tasks.insertion import WordInserter
from dikkat_runtime.tasks.lexicon import Lexicon
from dikkat_runtime.tasks.line_translation import LineTranslator
from dikkat_runtime.tasks.opening import OpenedModel, load_tokenizers, native_translation, open_members
from dikkat_runtime.tasks.reading import FORMALITY_MARKS, Manner, Reading, limits_of_run, usual_forms_of
from dikkat_runtime.tasks.surrogates import SURROGATES, fill
from dikkat_runtime.tasks.term_consistency import TermUnifier
from dikkat_runtime.tasks.term_placement import TermPlacer
from dikkat_runtime.tasks.translations import PieceRequest, Translation, TranslationNotes, translations_of
from dikkat_runtime.text.glossary import Glossary
from dikkat_runtime.text.placeholders import has_words
from dikkat_runtime.text.segmentation import Encode, ReadingLimits, Segmenter
from dikkat_runtime.text.tokenizer import Tokenizer

__all__ = ["BEAM", "WINDOW", "Translation", "Translator"]

BEAM = BeamOptions()
WINDOW = 2048
"""Lines that are read ahead, so that sentences of like length share a batch."""
BATCHES_AHEAD = 8
"""Batches that are read ahead where the engine has a batch size of its own."""


class Translator(OpenedModel):
    """A trained encoder-decoder with its tokenizer."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        limits: ReadingLimits,
        *,
        target_tokenizer: Tokenizer | None = None,
        language: str | None = None,
        target_language: str = "",
        notes: TranslationNotes | None = None,
    ) -> None:
        """`limits` are the lengths that the model has learned to read; `language` is that of the source.

        By default the language is the tokenizer's, and without a `target_tokenizer` both sides have one.
        """
        self.engine: Engine = engine
        self.language = tokenizer.language if language is None else language
        self.target_language = target_language
        self.tokenizer = tokenizer
        """The tokenizer of the source."""
        self.target_tokenizer = tokenizer if target_tokenizer is None else target_tokenizer
        self.limits = limits
        self.notes = notes or TranslationNotes()
        """Events of the lines that were translated so far."""
        self.defaults = SearchDefaults()
        """What search does where the options leave it open."""
        self.usual_forms: Mapping[str, str] = {}
        """The words of the training text in small letters, and their usual forms; the most frequent first."""
        self.corrections: Corrections | None = None
        """The corrections of people; None where they are ignored."""
        self.knows_formality = False
        """Whether training showed it texts with marks of formality."""
        self.memories: Sequence[KnownTranslations] = ()
        """Translation memories, the one that counts first before the others."""

    @classmethod
    def load(
        cls,
        path: str | Path,
        precision: PrecisionName = "float32",
        device: Device = "cpu",
        engine: EngineName = "auto",
        *,
        threads: int | None = None,
        limits: ReadingLimits | None = None,
        all_words: bool = False,
        adapter: str | Path | None = None,
    ) -> Self:
        """Return the translator of a run directory by the engine of that name; "auto" is native where it can be.

        An `adapter` is the folder of one that was trained from this run. With `all_words` a shortlist of words is left
        aside, as the torch engine always leaves it. int8 is faster and smaller and writes almost the same; the
        precision "auto" takes it where training measured that; on a GPU float16 is faster. Raises `UsageError` for a
        model of another kind, an adapter of another run, an engine that cannot run and a device that is not to be had,
        and `MissingInputError` or `DataError` naming the file that is missing or damaged.
        """
        run = Path(path) if adapter is None else Path(adapter)
        if adapter is not None:
            offer_base(Path(path) / WEIGHTS, run / WEIGHTS)
        request = EngineRequest(run, read_config(run, "translator"), precision, device, engine, threads)
        return cls.of_request(request, limits=limits, all_words=all_words)

    @classmethod
    def of_request(
        cls, request: EngineRequest, *, limits: ReadingLimits | None = None, all_words: bool = False
    ) -> Self:
        """Return the translator that is asked for; see `load`."""
        run, config = request.run, request.config
        computing = open_members(request, partial(native_translation, all_words=all_words))
        source, target = load_tokenizers(run, config)
        data, where = section(config, "data", run), str(run / CONFIG)
        language, target_language = (str(data.get(f"{side}_language") or "") for side in ("source", "target"))
        translator = cls(
            computing,
            source,
            limits or limits_of_run(config, where),
            target_tokenizer=target,
            language=language,
            target_language=target_language,
        )
        translator.request = request
        translator.defaults = SearchDefaults.of_run(config, where)
        translator.usual_forms = usual_forms_of(config, language)
        translator.knows_formality = data.get("formality") is True
        translator.corrections = Corrections(run)
        return translator

    def sentences(self, text: str) -> list[tuple[str, Manner]]:
        """Return the sentences of a text that have words, as the model reads them: alone, or a few together.

        Each has the manner in which it is written, for `reading.written` to give its translation.
        """
        protected = [self.reading.protected(line) for line in text.split("\n") if has_words(line)]
        lines = [safe.text for safe in protected if has_words(safe.text)]
        segments = Segmenter(self.reading.encode, self.limits, self.language).segment(lines)
        pieces = [self.reading.piece(piece.text) for own in segments for piece in own.pieces if piece.ids]
        names = self.surrogates if any(safe.placeholders for safe in protected) else ()
        return [(fill(piece, names).text, manner) for piece, manner in pieces]

    def translate(
        self,
        texts: Iterable[str],
        options: DecodingOptions | None = None,
        *,
        beam_size: int = BEAM.beam_size,
        n_best: int = 1,
        length_penalty: float | None = None,
        prefixes: Iterable[str] | None = None,
        glossary: Glossary | None = None,
        confidence: Judge | None = None,
        memories: Sequence[KnownTranslations] | None = None,
        formality: Formality = "default",
    ) -> list[Translation]:
        """Translate all of `texts`, by beam search where no `options` say otherwise; see `stream`."""
        beam = BeamOptions(beam_size=beam_size, n_best=n_best, length_penalty=length_penalty)
        stream = partial(self.stream, prefixes=prefixes, glossary=glossary, confidence=confidence, memories=memories)
        return list(stream(texts, beam if options is None else options, formality=formality))

    def stream(
        self,
        lines: Iterable[str],
        options: DecodingOptions = BEAM,
        *,
        batch_size: int | None = None,
        window: int | None = None,
        retry_loops: bool = True,
        notes: TranslationNotes | None = None,
        prefixes: Iterable[str] | None = None,
        glossary: Glossary | None = None,
        confidence: Judge | None = None,
        memories: Sequence[KnownTranslations] | None = None,
        formality: Formality = "default",
    ) -> Iterator[Translation]:
        """Translate an endless stream in order, in constant memory; a line without words comes back as it is.

        A line that is longer than what the model has learned to read is cut, at sentences where that is enough, and its
        translations are joined; `notes`, by default those of the translator, counts such events for the user. At most
        `window` lines are read ahead, and `batch_size` pieces translated at once; by default the engine has the choice.
        With `retry_loops` an output that repeats itself over and over is decoded again with `no_repeat_ngram`.
        Batch size and neighbours do not change a translation.

        Placeholders, addresses and numbers with units are in a translation exactly as often as in the line. So are the
        terms of `glossary`, each in one of its forms. A translation begins with the text of `prefixes`, one for each
        line, and continues in the best way. With `confidence`, from `judge`, each has the probability
        that it is right. What stands in `memories`, by default those of the translator, comes back as it is there, and
        what is like it is translated more like it. `formality` asks for the formal or the familiar "you". Raises
        `UsageError` for one that the run has not learned, unless it is only preferred, and for a glossary or prefixes
        where translations are sampled.
        """
        if window is None:
            # of more lines the batches have sentences of more equal lengths
            window = max(WINDOW, BATCHES_AHEAD * (self.engine.info.batch_size or 0))
        if window < 1:
            raise UsageError("window must be at least 1, not {window}", window)
        if isinstance(options, SamplingOptions) and (prefixes is not None or glossary is not None):
            raise UsageError("a glossary and prefixes work with search only; leave out sampling")
        known = self.known(memories)
        decode = partial(self.decoded, batch_size=batch_size, known=known)
        notes = self.notes if notes is None else notes
        settings: Any = {"retry_loops": retry_loops, "glossary": glossary, "judge": confidence, "formality": formality}
        translator = self.line_translator(self.defaults.resolved(options), notes, decode, known=known, **settings)
        yield from translator.translate(lines, window, prefixes)

    def complete(
        self, source: str, options: DecodingOptions = BEAM, *, glossary: Glossary | None = None
    ) -> "Completion":
        """Return a session for a person who types the translation of `source`.

        Each prefix is completed in milliseconds.

        Raises `UsageError` for a source of more than one line, and where translations are sampled.
        """
        if isinstance(options, SamplingOptions):
            raise UsageError("completion works with search only; leave out sampling")
        return Completion(self, source, self.defaults.resolved(options), glossary)

    def line_translator(
        self,
        options: DecodingOptions,
        notes: TranslationNotes,
        decode: Decode,
        *,
        retry_loops: bool = True,
        glossary: Glossary | None = None,
        judge: Judge | None = None,
        known: Sequence[KnownTranslations] | None = None,
        formality: Formality = "default",
    ) -> LineTranslator:
        """Return the translator of lines that joins the translations which `decode` returns for their pieces.

        The model reads each piece with the mark of `formality` in front. Raises `UsageError` where it learned none.
        """
        mark = FORMALITY_MARKS.get(formality.removeprefix("prefer_"), "")
        if mark and not self.knows_formality:
            if not formality.startswith("prefer_"):
                raise UsageError(
                    "this run has learned no formality; train with --set data.formality=true, or ask for {preferred}"
                ).fill(f"prefer_{formality}")
            mark = ""

        def marked(encode: Encode, texts: Sequence[str]) -> Sequence[Sequence[int]]:
            return encode([mark + text for text in texts])

        known = self.known() if known is None else known
        for translations in known:
            translations.refresh()
        options = replace(options, token_scores=options.token_scores or judge is not None)
        return LineTranslator(
            Segmenter(partial(marked, self.reading.encode), self.limits, self.language),
            partial(marked, partial(self.tokenizer.encode_batch, language=self.language)),
            PieceTranslator(self.keeper, options, retry=retry_loops),
            decode,
            options,
            notes,
            reading=self.reading,
            gaps=lambda *asked: self.inserter.gaps(*asked),
            enclosed=lambda *asked: self.inserter.enclosed(*asked),
            surrogates=lambda: self.surrogates,
            glossary=glossary,
            judge=judge,
            corrected=lambda text: next((own for item in known if (own := item.get(text)) is not None), None),
        )

    def judge(self, run: str | Path, *, on_progress: Callable[[str], object] = lambda line: None) -> Judge:
        """Return the judge of the confidence in translations of this translator, whose run directory is `run`.

        At first use it is fitted on the validation part there, which takes as long as to translate it, and kept in
        confidence.json; `on_progress` gets a message. Raises `MissingInputError` where there is neither.
        """
        path, scorer = Path(run), PairScorer(*self._sides)
        calibration = Calibration.read(path)
        if calibration is None:
            # the judge is shown what the model reads
            pairs = [
                (" ".join(sentence for sentence, _ in self.sentences(source)) or source, target)
                for source, target in held_out_pairs(path)
            ]
            on_progress(msg("fitting confidence on {count:,} validation pairs, once …", len(pairs)))

            def translate(texts: Sequence[str]) -> list[tuple[str, TokenScores | None]]:
                stream = self.stream(texts, replace(BEAM, token_scores=True), notes=TranslationNotes())
                return [(translation.text, translation.token_scores) for translation in stream]

            lexicon = Lexicon.fit(training_pairs(path, self._sides[1], mixed=True))
            calibration = fit_calibration(pairs, translate, scorer, lexicon)
            calibration.write(path)
        return Judge(scorer, calibration)

    def encode(self, line: str) -> list[int]:
        """Return source ids of a line, without end mark; none for a line of white space."""
        text = line.strip()
        return self.tokenizer.encode(text, self.language) if text else []

    @cached_property
    def constraints(self) -> ConstraintCompiler:
        return ConstraintCompiler(*self._sides[1:])

    @property
    def _sides(self) -> tuple[Engine, tuple[Tokenizer, Tokenizer], tuple[str, str]]:
        """The engine, and the tokenizers and languages of source and target."""
        return self.engine, (self.tokenizer, self.target_tokenizer), (self.language, self.target_language)

    def known(self, memories: Sequence[KnownTranslations] | None = None) -> list[KnownTranslations]:
        """Return the corrections, then `memories`, by default those of the translator."""
        corrections = [] if self.corrections is None else [self.corrections]
        return [*corrections, *(self.memories if memories is None else memories)]

    def neighbours(
        self, texts: Sequence[str], known: Sequence[KnownTranslations] | None = None
    ) -> Sequence[Neighbours | None]:
        """Return the states of what is known near each text; empty where no text has any."""
        known = self.known() if known is None else known
        if not any(item.kept for item in known):
            return ()
        near = self.correction_memory.neighbours(known, texts)
        return near if any(item is not None for item in near) else ()

    @cached_property
    def correction_memory(self) -> CorrectionMemory:
        """The memory of corrections that search looks into."""
        return CorrectionMemory(*self._sides, self.reading, lambda: self.surrogates, self.limits.longest)

    @cached_property
    def inserter(self) -> WordInserter:
        """The part that puts words into translations that lack them."""
        return WordInserter(*self._sides, self.constraints)

    @cached_property
    def reading(self) -> Reading:
        """The way in which the model reads text of any kind."""
        encode = partial(self.tokenizer.encode_batch, language=self.language)
        languages, tokenizer = self._sides[2], self.tokenizer
        return Reading(encode, lambda: tokenizer.characters, languages, self.usual_forms, lambda: tokenizer.unmet_marks)

    @cached_property
    def keeper(self) -> DemandKeeper:
        """The part that makes translations hold what is demanded."""
        return DemandKeeper(self.inserter, self.placer, LossJudge(*self._sides), self.constraints.takes_suffixes)

    @cached_property
    def unify(self) -> TermUnifier:
        """The part that gives each term of a document one translation."""
        encode, longest = self.reading.encode, self.limits.longest
        return TermUnifier(self.placer, PairScorer(*self._sides), encode, lambda: self.surrogates, longest)

    @cached_property
    def placer(self) -> TermPlacer:
        """The part that puts terms into translations that lack them."""
        return TermPlacer(*self._sides)

    @cached_property
    def surrogates(self) -> tuple[str, ...]:
        """The names that stand for placeholders, those first that this model copies unchanged."""
        ids = self.tokenizer.encode_batch(SURROGATES, self.language)
        results = search_all(self.engine, ids, DecodingOptions(scores=False))
        texts = self.target_tokenizer.decode_batch([hypotheses[0].tokens for hypotheses in results])
        copies = dict(zip(SURROGATES, texts, strict=True))
        return tuple(sorted(SURROGATES, key=lambda name: copies[name].strip(" .") != name))

    def decoded(
        self,
        requests: Sequence[PieceRequest],
        numbers: Sequence[int],
        options: DecodingOptions,
        bound: bool,
        *,
        batch_size: int | None = None,
        known: Sequence[KnownTranslations] | None = None,
    ) -> list[Translation]:
        """Return the translations of requests; only where they are `bound` must these meet the demands."""
        sentences = [request.ids for request in requests]
        search = partial(search_all, self.engine, numbers=numbers, batch_size=batch_size)
        if not isinstance(options, SamplingOptions):
            search = partial(search, neighbours=self.neighbours([request.text for request in requests], known))
        if not bound:
            return translations_of(search(sentences, options), self.target_tokenizer)
        compiler = self.constraints
        typed = [compiler.prefix(request.prefix, request.is_closed) for request in requests]
        constraints = [
            compiler.constraint(request.text, request.demands, own)
            for request, own in zip(requests, typed, strict=True)
        ]
        begun = [None if own is None else (request.prefix, own) for request, own in zip(requests, typed, strict=True)]
        return translations_of(search(sentences, options, constraints=constraints), self.target_tokenizer, begun)


def decode_together(
    readers: Sequence[tuple[Translator, Sequence[KnownTranslations]]], asked: Mapping[int, Asked]
) -> Iterator[list[Translation]]:
    """Yield the translations for what readers of some numbers ask alike, in the bits that each has alone.

    A reader is a translator, with what it knows; their engines are one, or the `mixes_by` of these are equal.
    """
    if len(asked) == 1:
        yield from (readers[number][0].decoded(*one, known=readers[number][1]) for number, one in asked.items())
        return
    every, near, engines = list[PieceRequest](), list[Neighbours | None](), list[Engine]()
    _, _, options, _ = next(iter(asked.values()))
    for number, (requests, *_) in asked.items():
        translator, known = readers[number]
        every += requests
        engines += [translator.engine] * len(requests)
        near += translator.neighbours([request.text for request in requests], known) or [None] * len(requests)
    search = partial(search_all, engines[0], engines=engines if len(set(map(id, engines))) > 1 else ())
    known_near = near if any(one is not None for one in near) else ()
    hypotheses = iter(search([request.ids for request in every], options, neighbours=known_near))
    for number, (requests, *_) in asked.items():
        yield translations_of(list(islice(hypotheses, len(requests))), readers[number][0].target_tokenizer)


class Completion:
    """A session for one source; not to be used from two threads at once."""

    def __init__(
        self, translator: Translator, source: str, options: DecodingOptions, glossary: Glossary | None = None
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
        assert constraint is not None, "a request that is bound asks for something"
        beam_size = rows_of_beam(beam_of(options)[0], [constraint])
        search = self._searches.get((request.ids, beam_size))
        if search is None:
            memory = self._translator.engine.encode([request.ids])
            steps = self._translator.engine.steps(memory, beam_size, self._translator.neighbours([request.text]))
            search = ResumableSearch(steps, options, beam_size, memory.lengths[0])
            self._searches[request.ids, beam_size] = search
        hypotheses = search.search(prefix.kept if prefix else (), constraint)
        begun = [(request.prefix, prefix)] if prefix else []
        return translations_of([hypotheses], self._translator.target_tokenizer, begun)[0]
