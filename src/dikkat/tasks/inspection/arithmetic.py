"""Trace the arithmetic of one attention cell of a trained translator on a sentence."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from dikkat.explain.attention_map import BEGIN, END
from dikkat.explain.capture import capture_attention
from dikkat.explain.trace import ModelTrace, find_query
from dikkat.nn.recorder import MapName
from dikkat.tasks.common.attention_recorder import require_short
from dikkat.tasks.inspection.reader_attention import require_no_prefix
from dikkat.torch_engine.stepper import pad_sources
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.tasks.translator import Translator

MAX_TOKENS = 2000
"""Limit of the tokens of one side; each token is a row in every table."""


@dataclass(frozen=True, slots=True, eq=False)
class ExplainedCell:
    """Hold the trace of a cell and the text that the model read and wrote."""

    trace: ModelTrace
    sentence: str
    target: str | None
    """Translation that the decoder read; None for a cell of the encoder."""
    query_tokens: tuple[str, ...]


def explain_cell(
    translator: Translator, sentence: str, name: MapName, head: int, query: str, target: str | None = None
) -> ExplainedCell:
    """Trace one cell of attention on `sentence`.

    `name` and `head` (from 0) say which attention, `query` (a number from 1, or a token) which row.

    A decoder reads `target`, by default the model's own translation. Raises `DataError` for an empty sentence,
    `UsageError` for a layer, head or query there is not.
    """
    source = translator.encode(sentence)
    if not source:
        raise DataError("there is nothing to attend to in an empty sentence; give a few words")
    require_short(len(source), MAX_TOKENS)
    add_eos = translator.model.add_source_eos
    reads = (*translator.tokenizer.labels(source), *([END] if add_eos else ()))
    ids, mask = pad_sources([source], torch.device("cpu"), add_eos=add_eos)
    run: Callable[[], object] = lambda: translator.model.encode(ids, mask)  # noqa: E731
    writes: tuple[str, ...] = ()
    if name.stack == "decoder":
        require_no_prefix(translator.model)
        target = next(translator.stream([sentence], DecodingOptions())).text if target is None else target
        written = translator.target_tokenizer.encode(target.strip(), translator.config.data.target_language)
        require_short(len(written), MAX_TOKENS)
        writes = (BEGIN, *translator.target_tokenizer.labels(written))
        run = lambda: translator.model(ids, torch.tensor([[BOS_ID, *written]]), mask)  # noqa: E731
    elif target is not None:
        raise UsageError("only the decoder reads a translation: leave out --target, or choose --stack decoder")
    queries = writes or reads
    capture = capture_attention(translator.model, name, run)
    trace = capture.trace(
        head,
        find_query(query, queries),
        queries,
        reads if name.kind == "cross" or not writes else writes,
        positions_added=_adds_positions(translator),
    )
    return ExplainedCell(trace, " ".join(sentence.split()), target, queries)


def _adds_positions(translator: Translator) -> bool:
    with torch.inference_mode():
        return bool(translator.model.positions(torch.zeros(1, 2, translator.config.model.model_dim)).any())
