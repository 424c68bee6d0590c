"""Proofs on the native engine: what it computes is what the model's modules compute, alone and in company."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from dikkat.explain.doctor.examination import Proof
from dikkat.explain.doctor.specimen import ExaminableModel, Specimen, distance, draw, worst
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.language_model import LanguageModel
from dikkat.nn.recorder import record_attention
from dikkat.torch_engine.engine import TorchEngine
from dikkat.torch_engine.texts import TorchClassifier, TorchLanguageModel
from dikkat_runtime.engine.contract import TextEngine
from dikkat_runtime.engine.forced_attention import ForcedAttention
from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.native_texts import NativeClassifier, NativeLanguageModel
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, GenerationOptions
from dikkat_runtime.engine.stack import KeyValueCache
from dikkat_runtime.engine.text_writer import TextWriter
from dikkat_runtime.errors import msg
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.tasks.batches import search_all

Native = NativeEngine | NativeClassifier | NativeLanguageModel
CLOSE = 1e-5
"""Float32 numbers that are summed in another order lie so near each other, in units of the largest."""
WRITTEN = 12
"""Tokens that a language model writes on."""
WAYS: dict[str, DecodingOptions] = {"greedy": DecodingOptions(), "beam 5": BeamOptions(beam_size=5, n_best=5)}


@dataclass(frozen=True, slots=True)
class _Claim:
    name: str
    says: str
    limit: float
    measure: Callable[[], dict[str, float]]
    """Violations by the place where they were found."""


def examine_native(model: ExaminableModel, engine: Native, attention: ForcedAttention | None, seed: int) -> list[Proof]:
    """Every claim about the engine of its kind, against `model`, whose weights it has, on the doctor's sentences.

    `attention` is what aligns the words of a translator. Raises `UsageError` as `examine`.
    """
    with torch.random.fork_rng(devices=[]):
        specimen = draw(model.eval(), seed)
        proofs = []
        for claim in _claims(specimen, engine, attention):
            violation, where = worst(claim.measure())
            where = "" if violation <= claim.limit else where
            proofs.append(Proof(msg(claim.name), msg(claim.says), violation, claim.limit, where))
    return proofs


def _claims(specimen: Specimen, engine: Native, attention: ForcedAttention | None) -> list[_Claim]:
    model = specimen.model
    # without padding
    rows = [row[keep].tolist() for row, keep in zip(specimen.source, specimen.mask, strict=True)]
    if isinstance(engine, NativeEngine):
        assert isinstance(model, EncoderDecoder)
        return _of_translator(specimen, engine, attention, rows)
    if isinstance(engine, NativeClassifier):
        assert isinstance(model, EncoderClassifier)
        return _of_classifier(engine, TorchClassifier(model), rows)
    assert isinstance(model, LanguageModel)
    return _of_language_model(specimen, engine, TorchLanguageModel(model), rows)


def _of_translator(
    specimen: Specimen, engine: NativeEngine, attention: ForcedAttention | None, rows: list[list[int]]
) -> list[_Claim]:
    assert isinstance(specimen.model, EncoderDecoder)
    model, reference = specimen.model, TorchEngine(specimen.model)

    def states() -> dict[str, float]:
        return {"encoder": distance(engine.encode(rows).states, reference.encode(rows).states)}

    def logits() -> dict[str, float]:
        memory = reference.encode(rows)
        steps, target = engine.steps(memory, 1), specimen.target
        source = torch.from_numpy(np.asarray(memory.states))
        mask = torch.arange(source.shape[1]) < torch.tensor(memory.lengths)[:, None]
        with torch.no_grad():
            forced = model.project(model.decode(target, source, mask)).numpy()
        return {
            msg("step {position}", step): distance(steps.step(target[:, step].tolist()), forced[:, step])
            for step in range(target.shape[1])
        }

    def outputs() -> dict[str, float]:
        violations: dict[str, float] = {}
        for way, options in WAYS.items():
            pairs = zip(search_all(engine, rows, options), search_all(reference, rows, options), strict=True)
            violations[way] = float(sum([one.tokens for one in a] != [one.tokens for one in b] for a, b in pairs))
        return violations

    def company() -> dict[str, float]:
        together = search_all(engine, rows, WAYS["beam 5"])
        alone = [search_all(engine, [row], WAYS["beam 5"], numbers=[number])[0] for number, row in enumerate(rows)]
        differ = [mine != other for mine, other in zip(alone, together, strict=True)]
        return {msg("sentence {number}", number): float(is_other) for number, is_other in enumerate(differ)}

    claims = [
        _Claim("states = reference", "the encoder gives the states of the model", CLOSE, states),
        _Claim("steps = teacher forcing", "steps give the logits of the model's teacher forcing", CLOSE, logits),
        _Claim("text = reference", "greedy decoding and beam search write what the torch engine writes", 0.0, outputs),
        _Claim("batch changes nothing", "a sentence has the same bits alone and among others", 0.0, company),
        _threads(engine, lambda: search_all(engine, rows, WAYS["beam 5"])),
    ]
    if attention is not None:
        maps = _Claim(
            "maps = reference",
            "the weights of the words' alignment are those that the model's cross-attention records",
            CLOSE,
            lambda: _maps(specimen, attention, rows),
        )
        claims.append(maps)
    return claims


def _maps(specimen: Specimen, attention: ForcedAttention, rows: list[list[int]]) -> dict[str, float]:
    assert isinstance(specimen.model, EncoderDecoder)
    reference = TorchEngine(specimen.model)
    violations: dict[str, float] = {}
    for number, row in enumerate(rows):
        target = specimen.target[number].tolist()
        memory = torch.from_numpy(np.asarray(reference.encode([row]).states))
        fed = torch.tensor([[BOS_ID, *target[:-1]]])
        with record_attention(specimen.model, lambda name: name.kind == "cross") as recorded, torch.no_grad():
            specimen.model.decode(fed, memory, torch.ones(1, memory.shape[1], dtype=torch.bool))
        layers, first = sorted(recorded, key=lambda name: name.layer), specimen.model.forced
        maps = [recorded[name][0][0, :, first:, : len(row)].numpy() for name in layers]
        violations[msg("sentence {number}", number)] = distance(attention(row, target), np.stack(maps))
    return violations


def _of_classifier(engine: NativeClassifier, reference: TorchClassifier, rows: list[list[int]]) -> list[_Claim]:
    def logits() -> dict[str, float]:
        return {"output": distance(engine.logits(rows), reference.logits(rows))}

    return [
        _states(engine, reference, rows),
        _Claim("logits = reference", "the classes have the logits of the model", CLOSE, logits),
        _company(engine, rows),
    ]


def _of_language_model(
    specimen: Specimen, engine: NativeLanguageModel, reference: TorchLanguageModel, rows: list[list[int]]
) -> list[_Claim]:
    target = specimen.target.numpy()
    claims = [_states(engine, reference, rows), _company(engine, rows)]
    if not specimen.writes:
        return claims
    options = GenerationOptions(temperature=0.0, max_tokens=WRITTEN)

    def logits() -> dict[str, float]:
        with torch.no_grad():
            forced = specimen.model(specimen.target).numpy()
        cache = KeyValueCache()
        return {
            msg("step {position}", step): distance(
                engine.next_logits(target[:, step : step + 1], cache), forced[:, step]
            )
            for step in range(target.shape[1])
        }

    def outputs() -> dict[str, float]:
        writers = [TextWriter(writing, target, 2 * target.shape[1], options) for writing in (engine, reference)]
        return {msg("token {step}", step): float(writers[0].step() != writers[1].step()) for step in range(WRITTEN)}

    return [
        *claims,
        _Claim("steps = teacher forcing", "steps give the logits of the model's teacher forcing", CLOSE, logits),
        _Claim("text = reference", "greedy writing is that of the torch engine, past the context too", 0.0, outputs),
    ]


def _states(engine: TextEngine, reference: TextEngine, rows: list[list[int]]) -> _Claim:
    def states() -> dict[str, float]:
        mine, theirs = engine.hidden(rows), reference.hidden(rows)
        return {
            "vectors": distance(engine.pool(mine), reference.pool(theirs)),
            **{
                msg("sentence {number}", number): distance(mine.states[number, :length], theirs.states[number, :length])
                for number, length in enumerate(mine.lengths)
            },
        }

    return _Claim("states = reference", "every token and every text has the states of the model", CLOSE, states)


def _company(engine: TextEngine, rows: list[list[int]]) -> _Claim:
    def company() -> dict[str, float]:
        together = engine.hidden(rows)
        return {
            msg("sentence {number}", number): distance(
                together.states[number, : len(row)], engine.hidden([row]).states[0]
            )
            for number, row in enumerate(rows)
        }

    return _Claim("batch changes nothing", "a text has the same bits alone and among others", 0.0, company)


def _threads(engine: NativeEngine, compute: Callable[[], object]) -> _Claim:
    def threads() -> dict[str, float]:
        info, answers = engine.info, list[object]()
        for count in (1, 2, 3):
            engine.info = dataclasses.replace(info, threads=count)
            answers.append(compute())
        engine.info = info
        return {msg("{count} threads", count): float(answers[count - 1] != answers[0]) for count in (2, 3)}

    return _Claim("threads change nothing", "any number of threads gives the same bits", 0.0, threads)
