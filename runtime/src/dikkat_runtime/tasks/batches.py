"""Group sentences into batches, and search the batches, some of them side by side."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from dikkat_runtime.engine.constraints import Constraint
from dikkat_runtime.engine.contract import Engine, SearchRequest
from dikkat_runtime.engine.hypotheses import EMPTY, Hypothesis
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import SettingError, msg
from dikkat_runtime.native.cpu import free_threads
from dikkat_runtime.notices import counted

_Search = Callable[[Sequence[int]], list[list[Hypothesis]]]
AnswerT = TypeVar("AnswerT")

BATCH_SIZE = 128
"""Sentences that are searched together, where the engine asks for no other number."""
MAX_SIDE_BY_SIDE = 8
"""Number of sentences up to which other threads are only woken where processors are free."""
BATCH_TOKENS = 16384
"""Source tokens of a batch, padding included; a longer sentence goes alone."""


def length_batches(
    lengths: Sequence[int], batch_size: int = BATCH_SIZE, batch_tokens: int = BATCH_TOKENS
) -> Iterator[list[int]]:
    """Yield indices of the sentences that share a batch, longest first; empty ones are in none.

    The end mark is counted.

    A batch has at most `batch_size` sentences and `batch_tokens` tokens, padding included; a longer sentence is alone.
    Raises `SettingError` when a limit is below 1.
    """
    for name, limit in (("batch_size", batch_size), ("batch_tokens", batch_tokens)):
        if limit < 1:
            raise SettingError(msg("{name} must be at least 1, not {limit}", name, limit), name)
    order = sorted((index for index, length in enumerate(lengths) if length), key=lambda index: -lengths[index])
    start = 0
    while start < len(order):
        end = start + max(1, min(batch_size, batch_tokens // (lengths[order[start]] + 1)))
        yield order[start:end]
        start = end


def by_length(lengths: Sequence[int], answer: Callable[[list[int]], Iterable[AnswerT]]) -> list[AnswerT | None]:
    """Return what `answer` returns for the indices of each batch of `length_batches`, in order; None of empty ones."""
    results: list[AnswerT | None] = [None] * len(lengths)
    for batch in length_batches(lengths):
        for index, own in zip(batch, answer(batch), strict=True):
            results[index] = own
    return results


def search_all(
    engine: Engine,
    sentences: Sequence[Sequence[int]],
    options: DecodingOptions,
    *,
    numbers: Sequence[int] | None = None,
    batch_size: int | None = None,
    batches: Sequence[list[int]] | None = None,
    constraints: Sequence[Constraint | None] | None = None,
    neighbours: Sequence[Neighbours | None] = (),
    engines: Sequence[Any] = (),
    before_batch: Callable[[], None] | None = None,
) -> list[list[Hypothesis]]:
    """Return the hypotheses of every sentence (source ids without an end mark), in order; an empty one is not searched.

    Only those of `batches`, by default all in `length_batches`, are searched.

    `numbers` are those of the sentences, by default from 0, `constraints` the conditions on their outputs, `neighbours`
    what was written before in like states, `engines` those of sentences that have adapters of their own. Without a
    `batch_size` the engine has the choice. `before_batch` is called before each batch, and may raise to end the work.
    After an error, or Ctrl-C, no further batch is begun.
    """
    results: list[list[Hypothesis]] = [[EMPTY] for _ in sentences]
    info = engine.info
    if batches is None:
        usual = BATCH_SIZE if info.batch_size is None else info.batch_size
        tokens = BATCH_TOKENS * max(1, usual // BATCH_SIZE)
        size = usual if batch_size is None else batch_size
        batches = list(length_batches([len(sentence) for sentence in sentences], size, tokens))
    if engines:
        # neighbours with one adapter read its factors together
        batches = [sorted(batch, key=lambda index: id(engines[index])) for batch in batches]
    # in eight bits one thread a batch is fastest; in float32 all threads share the weights of a batch
    workers = min(info.threads, len(batches)) if info.precision == "int8" else 1
    share = max(1, info.threads // max(1, workers))
    if share > 1 and len(batches) == 1 and len(batches[0]) <= MAX_SIDE_BY_SIDE:
        # several threads that wait for one without a processor are slower than one thread
        share = free_threads(share)

    def search(batch: Sequence[int]) -> list[list[Hypothesis]]:
        if before_batch is not None:
            before_batch()
        own, sources = [engines[index] for index in batch if engines], [sentences[index] for index in batch]
        memory = own[0].encode(sources, threads=share, engines=own) if own else engine.encode(sources, threads=share)
        asked = SearchRequest(
            batch if numbers is None else [numbers[index] for index in batch],
            None if constraints is None else [constraints[index] for index in batch],
            [neighbours[index] for index in batch] if neighbours else (),
            share,
        )
        return engine.search(memory, options, asked)

    results_of_batches = map(search, batches) if workers <= 1 else _side_by_side(search, batches, workers)
    for batch, searched in zip(counted(batches, msg("batches")), results_of_batches, strict=True):
        for index, hypotheses in zip(batch, searched, strict=True):
            results[index] = hypotheses
    return results


def _side_by_side(search: _Search, batches: Sequence[list[int]], workers: int) -> Iterator[list[list[Hypothesis]]]:
    # most commands search one batch, and start faster without this import
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(workers)
    try:
        yield from pool.map(search, batches)
    finally:
        pool.shutdown(cancel_futures=True)
