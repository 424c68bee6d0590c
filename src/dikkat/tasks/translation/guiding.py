"""A head of a translator that is told what to attend to: from linked words of the data to a `GuidedHead`."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import cast

import numpy as np

from dikkat.config import RunConfig
from dikkat.data.corpus import Corpus
from dikkat.data.links import Link, Links
from dikkat.data.pairs import Pair
from dikkat.explain.attention_map import Words
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.blocks import EncoderBlock
from dikkat.run_directory import RunDirectory
from dikkat.training.translation import GuidedHead
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.text.tokenizer import Tokenizer


def check_guided(config: RunConfig, where: str) -> None:
    """Raise `UsageError` where `config` guides a head that the model has not, or that no loss can guide."""
    if not config.training.guided_weight:
        return
    model, training = config.model, config.training
    for name, number, most in (
        ("layer", training.guided_layer or 1, model.encoder_layers),
        ("head", training.guided_head, model.num_heads),
    ):
        if number > most:
            raise UsageError("{where}: training.guided_{name} is {value}, but the encoder ends at {name} {last}").fill(
                where, name, number, most
            )
    if model.selection == "argmax":
        raise UsageError("{where}: no gradient guides a head of model.selection = argmax; choose soft", where)
    if config.tokenizer.kind != "bpe":
        raise UsageError(
            "{where}: training.guided_weight needs tokenizer.kind = bpe, not {kind}", where, config.tokenizer.kind
        )


def write_links(run: RunDirectory, pairs: Sequence[Pair], tokenizer: Tokenizer, config: RunConfig, where: str) -> None:
    """Write which tokens are linked in the sources of `pairs`, which are those of the corpus in its order.

    Raises `UsageError` where a head should be guided and no pair has linked words.
    """
    if not config.training.guided_weight:
        Links.remove(run.corpus)
        return
    if not any(pair.link for pair in pairs):
        raise UsageError(
            "{where}: training.guided_weight needs sentences whose words are linked, as those of phrasebook:fr and "
            "phrasebook:tr; leave it out for other data"
        ).fill(where)
    Links.build(run.corpus, links_of(pairs, tokenizer, config.data.source_language))


def links_of(pairs: Sequence[Pair], tokenizer: Tokenizer, language: str) -> Iterator[Link]:
    """Yield the linked tokens of the sources: each token of a linked word with each one of the word it is linked to."""
    linked = [(index, pair.source, pair.link) for index, pair in enumerate(pairs) if pair.link]
    ids = tokenizer.encode_batch([source for _, source, _ in linked], language)
    for (index, source, (row, column)), tokens in zip(linked, ids, strict=True):
        members = Words.of(tokenizer.labels(tokens), source, spaced=True).members
        for one, other in product(np.flatnonzero(members[row]).tolist(), np.flatnonzero(members[column]).tolist()):
            yield index, one, other


def guided_head(model: EncoderDecoder, corpus: Corpus, run: RunDirectory, config: RunConfig) -> GuidedHead | None:
    """Return the guided head of a run, or None where none is guided. Raises `MissingInputError` or `DataError`."""
    training = config.training
    if not training.guided_weight:
        return None
    block = cast(EncoderBlock, model.encoder.blocks[_layer(config) - 1])
    links = Links.open(run.corpus, corpus)
    return GuidedHead(block.self_attention, training.guided_head - 1, links, training.guided_weight)


def guided_fact(guided: GuidedHead | None, config: RunConfig) -> dict[str, str]:
    """Return what is printed of a guided head before the first update; nothing where none is guided."""
    if guided is None:
        return {}
    return {
        "guided": msg(
            "head {head} of layer {layer} of the encoder learns which noun a pronoun means, from {num_pairs:,} pairs"
        ).fill(guided.head + 1, _layer(config), guided.links.num_pairs)
    }


def guided_note(config: RunConfig) -> str:
    """Return what who looks at the heads of a trained model should know: which one was told what to attend to.

    It is empty where none was.
    """
    if not config.training.guided_weight:
        return ""
    return msg(
        "head {guided_head} of layer {layer} of the encoder was guided: training told it which noun a pronoun means"
    ).fill(config.training.guided_head, _layer(config))


def _layer(config: RunConfig) -> int:
    return config.training.guided_layer or config.model.encoder_layers
