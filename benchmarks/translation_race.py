"""Claim: a Transformer learns to translate in less time than a recurrent translator of equal size.

python benchmarks/translation_race.py DATA…

Both learn the pairs of DATA, named as for `dikkat train translator`, or phrasebook:fr, in the same batches, with one
vocabulary and AdamW. The contender reads the source in both directions and has global attention, the kind that came
before the Transformer (Luong et al. 2015). What counts is the processor time of training, which a busy machine does not
change, until greedy translations of held-out sentences first reach a chrF; scoring them is not counted.

A table goes to standard error, one JSON line to standard output. Takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from benchmarks.harness import fail, note, parser, provenance
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dikkat.config import RunConfig, build_config, merge
from dikkat.data.batching import Batch, BatchPlan, collate
from dikkat.data.corpus import Corpus
from dikkat.data.pairs import Pair
from dikkat.evaluation import score_translations
from dikkat.models.factory import build_model
from dikkat.tasks.translation.prepare import TrainRequest, read_parts
from dikkat.tasks.translation.vocabularies import Vocabularies
from dikkat.torch_engine.stepper import pad_sources
from dikkat.torch_engine.strategies import greedy
from dikkat.training.translation import batch_loss, decoding_options
from dikkat_runtime.errors import DikkatError

TranslatorCell = Literal["gru", "lstm"]
CELLS: dict[TranslatorCell, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}
LAYERS = 2
"""Of the encoder, which reads in both directions, and of the decoder."""


def count_parameters(model: nn.Module) -> int:
    """The number of parameters of a model."""
    return sum(parameter.numel() for parameter in model.parameters())


class RecurrentTranslator(nn.Module):
    """Compute logits of a translation with PyTorch's own recurrences and global attention.

    The encoder reads the source in both directions; the decoder starts from its last states. At each position the
    decoder's state is compared with every state of the source (bilinear, "general" in Luong et al. 2015, section 3.1),
    and their weighted sum joins it before the vocabulary. Nothing is fed back into the decoder but the token, so that
    all positions of a target are trained in one call. Source, target and output share one embedding matrix.
    """

    def __init__(
        self, vocab_size: int, embedding_dim: int, hidden_dim: int, cell: TranslatorCell, dropout: float
    ) -> None:
        super().__init__()
        kind: Any = CELLS[cell]
        self.embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=embedding_dim**-0.5)
        self.dropout = nn.Dropout(dropout)
        half = hidden_dim // 2
        settings = {"num_layers": LAYERS, "batch_first": True, "dropout": dropout}
        self.encoder = kind(embedding_dim, half, bidirectional=True, **settings)
        self.decoder = kind(embedding_dim, hidden_dim, **settings)
        self.score = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.joined = nn.Linear(2 * hidden_dim, embedding_dim)
        self.output_bias = nn.Parameter(torch.zeros(vocab_size))
        self._start: Any = None

    @property
    def output_weight(self) -> Tensor:
        """Return the matrix (V, D) of embedding and output."""
        return self.embedding.weight

    def encode(self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S H"]:
        """Return the states of the source; its last ones are kept for the decoder that reads them next."""
        embedded = self.dropout(self.embedding(source))
        packed = pack_padded_sequence(embedded, source_mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.encoder(packed)
        self._start = _joined_directions(last)
        memory, _ = pad_packed_sequence(states, batch_first=True, total_length=source.shape[1])
        return memory

    def decode(
        self, target: Int[Tensor, "B T"], memory: Float[Tensor, "B S H"], source_mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B T D"]:
        """Return what the output matrix turns into logits, for all target positions of the source just encoded."""
        states, _ = self.decoder(self.dropout(self.embedding(target)), self._start)
        return self._attended(states, memory, source_mask)

    def _attended(
        self, states: Float[Tensor, "B T H"], memory: Float[Tensor, "B S H"], source_mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B T D"]:
        # (B, T, H) x (B, S, H) -> (B, T, S)
        scores = self.score(states) @ memory.transpose(1, 2)
        weights = scores.masked_fill(~source_mask.unsqueeze(1), -torch.inf).softmax(dim=-1)
        joined = torch.cat((weights @ memory, states), dim=-1)
        output: Tensor = self.dropout(torch.tanh(self.joined(joined)))
        return output

    def start_cache(
        self, memory: Float[Tensor, "B S H"], source_mask: Bool[Tensor, "B S"], *, rows_per_sentence: int = 1
    ) -> RecurrentCache:
        """Return the state in which the sources just encoded leave the decoder, one row a sentence."""
        if rows_per_sentence != 1:
            raise ValueError("the recurrent translator is only decoded greedily: rows_per_sentence must be 1")
        return RecurrentCache(memory, source_mask, self._start)

    def step(self, tokens: Int[Tensor, "R"], cache: RecurrentCache) -> Float[Tensor, "R V"]:
        """Feed every row a token, and return the logits of the next."""
        states, cache.state = self.decoder(self.dropout(self.embedding(tokens.unsqueeze(1))), cache.state)
        cache.length += 1
        hidden = self._attended(states, cache.memory, cache.source_mask)[:, 0]
        return hidden @ self.output_weight.T + self.output_bias


class RecurrentCache:
    """Hold the states of the decoder and of the sources of a batch that is decoded; see `DecoderCache`."""

    def __init__(self, memory: Tensor, source_mask: Tensor, state: Any) -> None:
        self.memory, self.source_mask, self.state = memory, source_mask, state
        self.length = 0

    def reorder(self, index: Int[Tensor, "R"]) -> None:
        """Let row `r` continue row `index[r]`."""
        self.state = _of_states(self.state, lambda states: states.index_select(1, index))

    def drop(self, keep: Int[Tensor, "N"]) -> None:
        """Keep only the sentences numbered in `keep`."""
        self.memory, self.source_mask = self.memory[keep], self.source_mask[keep]
        self.reorder(keep)


def _joined_directions(last: Any) -> Any:
    """(2 L, B, H / 2) to (L, B, H): the last states of both directions of a layer, side by side."""
    return _of_states(last, lambda states: torch.cat((states[0::2], states[1::2]), dim=-1).contiguous())


def _of_states(state: Any, change: Any) -> Any:
    """Apply `change` to the states, and in an LSTM to its cells as well."""
    return tuple(map(change, state)) if isinstance(state, tuple) else change(state)


def recurrent_translator(
    parameters: int, vocab_size: int, embedding_dim: int, cell: TranslatorCell, dropout: float, seed: int
) -> RecurrentTranslator:
    """Build the recurrent translator whose size comes nearest to so many parameters; weights are drawn from `seed`."""

    def size(hidden_dim: int) -> int:
        with torch.device("meta"):
            return count_parameters(RecurrentTranslator(vocab_size, embedding_dim, hidden_dim, cell, dropout))

    # it grows with the width: double it past the aim, then halve the interval; an even one has two equal directions
    widest = 2
    while size(widest) < parameters:
        widest *= 2
    hidden_dim = min(range(max(2, widest // 2), widest + 1, 2), key=lambda width: abs(size(width) - parameters))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return RecurrentTranslator(vocab_size, embedding_dim, hidden_dim, cell, dropout)


MARKS = (30.0, 50.0, 70.0, 80.0, 90.0, 95.0)
"""Scores (chrF) whose time is told."""


@dataclass(frozen=True, slots=True)
class Look:
    """Hold one score on the way of a training."""

    updates: int
    seconds: float
    """Processor time of training alone, which a busy machine does not change."""
    chrf: float


@dataclass(frozen=True, slots=True)
class Racer:
    """Hold the training of one translator."""

    name: str
    parameters: int
    tokens_per_second: float
    """Target tokens trained on."""
    looks: tuple[Look, ...]

    def seconds_to(self, chrf: float) -> float | None:
        """Return the seconds of training until it first scored as much; None where it never did."""
        return next((look.seconds for look in self.looks if look.chrf >= chrf), None)

    @property
    def best(self) -> float:
        """Return the best score of all looks."""
        return max((look.chrf for look in self.looks), default=0.0)


@dataclass(frozen=True, slots=True)
class Race:
    """Hold what was trained on, and both trainings: that of the Transformer first."""

    data: str
    pairs: int
    held_out: int
    batch_tokens: int
    vocabulary: int
    seed: int
    racers: tuple[Racer, Racer]

    def as_dict(self) -> dict[str, object]:
        """Return all of it, with the seconds to equal scores, for JSON."""
        marks = {f"{mark:g}": [racer.seconds_to(mark) for racer in self.racers] for mark in MARKS}
        return {**asdict(self), "seconds_to_chrf": marks}


def table(race: Race) -> list[str]:
    """Return the lines of the tables: the two translators, and the time of each to equal scores."""
    first, second = race.racers
    lines = [
        f"{race.pairs:,} pairs, batches of about {race.batch_tokens:,} tokens, {race.vocabulary:,} entries, "
        f"{race.held_out:,} held-out sentences, seed {race.seed}",
        f"{'translator':12} {'parameters':>12} {'tokens/s':>10} {'updates':>8} {'best chrF':>10}",
    ]
    for racer in race.racers:
        sizes = f"{racer.name:12} {racer.parameters:12,} {racer.tokens_per_second:10,.0f}"
        lines.append(f"{sizes} {racer.looks[-1].updates:8,} {racer.best:10.1f}")
    lines.append(f"{'chrF':12} {first.name + ', s':>15} {second.name + ', s':>10} {'times':>8}")
    for mark, ours, theirs, times in time_rows(race):
        lines.append(f"{mark:12} {ours:>15} {theirs:>10} {times:>8}")
    return lines


def time_rows(race: Race) -> list[tuple[str, str, str, str]]:
    """Return the seconds of both to each score that one reached, and the second's by the first's, or a dash."""
    first, second = race.racers
    rows = list[tuple[str, str, str, str]]()
    for mark in MARKS:
        ours, theirs = first.seconds_to(mark), second.seconds_to(mark)
        if ours is not None or theirs is not None:
            shown = ["–" if seconds is None else f"{seconds:.1f}" for seconds in (ours, theirs)]
            rows.append((f"{mark:g}", shown[0], shown[1], f"{theirs / ours:.1f}" if ours and theirs else "–"))
    return rows


LEARNING_RATE = {"transformer": 2e-3, "recurrent": 4e-3}
"""Chosen without a search; constant after `WARM_UP` updates."""
WARM_UP = 50
_MAX_GRADIENT = 1.0
_DECODED_AT_ONCE = 128


@dataclass(frozen=True)
class RaceSettings:
    """Hold how two translators are compared."""

    data: tuple[str, ...]
    """As for `train`, or `phrasebook:fr`."""
    pairs: int = 25_000
    """At most so many are learned."""
    held_out: int = 200
    """At most so many are translated at each look."""
    enough: float = 95.0
    """chrF at which a training ends."""
    updates: int = 1500
    """At which it ends at the latest."""
    every: int = 25
    """Updates between two looks."""
    cell: TranslatorCell = "gru"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Lesson:
    """What both learn."""

    config: RunConfig
    vocabularies: Vocabularies
    corpus: Corpus
    held_out: list[Pair]


def race(settings: RaceSettings) -> Race:
    """Train both in turn. Raises `UsageError`, `MissingInputError` or `DataError` for the data."""
    lesson = _lesson(settings)
    model = lesson.config.model
    transformer = build_model(model, settings.seed)
    # the tied output matrix comes as two names of one
    size = count_parameters(transformer)
    other = recurrent_translator(size, model.vocab_size, model.model_dim, settings.cell, model.dropout, settings.seed)
    racers = (
        _trained("Transformer", transformer, LEARNING_RATE["transformer"], lesson, settings),
        _trained(settings.cell.upper(), other, LEARNING_RATE["recurrent"], lesson, settings),
    )
    return Race(
        " ".join(settings.data), len(lesson.corpus), len(lesson.held_out), lesson.config.training.tokens_per_batch,
        model.vocab_size, settings.seed, racers,
    )  # fmt: skip


def _lesson(settings: RaceSettings) -> _Lesson:
    request = TrainRequest(list(settings.data), preset="tiny")
    parts, config = read_parts(request)
    pairs, held_out = parts.train[: settings.pairs], parts.validation[: settings.held_out]
    vocabularies = Vocabularies.train([pair.source for pair in pairs], [pair.target for pair in pairs], config)
    config = build_config(merge(config.model_dump(), {"model": vocabularies.sizes}))
    sources = vocabularies.source.encode_batch([pair.source for pair in pairs])
    targets = vocabularies.target.encode_batch([pair.target for pair in pairs])
    longest = config.data.max_length
    kept = [both for both in zip(sources, targets, strict=True) if max(map(len, both)) <= longest]
    return _Lesson(config, vocabularies, Corpus.in_memory(kept), held_out)


def _trained(name: str, model: Any, rate: float, lesson: _Lesson, settings: RaceSettings) -> Racer:
    """Learn until the score is enough or the updates are over; the clock stands still while it is scored."""
    training = lesson.config.training
    corpus = lesson.corpus
    plan = BatchPlan(corpus.source_lengths, corpus.target_lengths, training.tokens_per_batch, settings.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: min(1.0, (update + 1) / WARM_UP))
    seconds, tokens, looks = 0.0, 0, list[Look]()
    torch.manual_seed(settings.seed)
    for update in range(1, settings.updates + 1):
        started = time.process_time()
        batch = collate(corpus, plan.at(update - 1)[1])
        _update(model, batch, optimizer, training.label_smoothing)
        schedule.step()
        seconds += time.process_time() - started
        tokens += batch.num_tokens
        if update % settings.every == 0 or update == settings.updates:
            looks.append(Look(update, seconds, _score(model, lesson)))
            note(f"{name}: {update:,} updates, {seconds:.1f} s, chrF {looks[-1].chrf:.1f}")
            if looks[-1].chrf >= settings.enough:
                break
    return Racer(name, count_parameters(model), tokens / seconds, tuple(looks))


def _update(model: nn.Module, batch: Batch, optimizer: torch.optim.Optimizer, smoothing: float) -> None:
    model.train()
    loss = batch_loss(model, batch, smoothing)  # type: ignore[arg-type]
    optimizer.zero_grad()
    (loss.objective / loss.predictions).backward()
    nn.utils.clip_grad_norm_(model.parameters(), _MAX_GRADIENT)
    optimizer.step()


def _score(model: Any, lesson: _Lesson) -> float:
    """Return chrF of greedy translations of what was held out."""
    model.eval()
    tokenizer, options = lesson.vocabularies.target, decoding_options(lesson.corpus)
    sources = lesson.vocabularies.source.encode_batch([pair.source for pair in lesson.held_out])
    written: list[Sequence[int]] = []
    for start in range(0, len(sources), _DECODED_AT_ONCE):
        some = [[*ids] for ids in sources[start : start + _DECODED_AT_ONCE]]
        ids, mask = pad_sources(some, torch.device("cpu"))
        written += [hypothesis.tokens for hypothesis in greedy(model, ids, mask, options)]
    return score_translations(tokenizer.decode_batch(written), [pair.target for pair in lesson.held_out]).chrf


def main() -> None:
    options = read_options()
    torch.set_num_threads(options.threads)
    settings = RaceSettings(
        tuple(options.data), pairs=options.pairs, held_out=options.held_out, enough=options.chrf,
        updates=options.updates, every=options.every, cell=options.cell, seed=options.seed,
    )  # fmt: skip
    try:
        result = race(settings)
    except DikkatError as error:
        fail(str(error), error.exit_code)
    note("\n".join(table(result)))
    versions = {"torch": torch.__version__, "threads": torch.get_num_threads()}
    print(json.dumps({**provenance("translation_race"), **versions, **result.as_dict()}, ensure_ascii=False))


def read_options() -> argparse.Namespace:
    known = parser(__doc__)
    known.add_argument("data", nargs="+", help="pairs; two names for two files")
    known.add_argument("--pairs", type=int, default=RaceSettings.pairs, help="at most so many are learned")
    known.add_argument(
        "--held-out", type=int, default=RaceSettings.held_out, help="at most so many are scored at a look"
    )
    known.add_argument("--chrf", type=float, default=RaceSettings.enough, help="where a training ends")
    known.add_argument("--updates", type=int, default=RaceSettings.updates, help="where it ends at the latest")
    known.add_argument("--every", type=int, default=RaceSettings.every, help="updates between two looks")
    known.add_argument("--cell", choices=CELLS, default=RaceSettings.cell, help="of the recurrence")
    known.add_argument("--threads", type=int, default=2)
    known.add_argument("--seed", type=int, default=RaceSettings.seed, help="of weights and order")
    options = known.parse_args()
    if min(options.pairs, options.held_out, options.updates, options.every, options.threads) < 1 or options.seed < 0:
        known.error("--seed must be at least 0, every other number at least 1")
    return options


if __name__ == "__main__":
    main()
