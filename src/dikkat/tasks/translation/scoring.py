"""Score the text of a translator in the form that it was trained to write."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from dikkat.config import RunConfig
from dikkat.evaluation import Scoring, scoring_for
from dikkat.run_directory import RunDirectory
from dikkat.tasks.translation.vocabularies import Vocabularies, open_corpus
from dikkat_runtime.text.casing import lower

_EXAMINED = 2_000
"""Training targets that are examined, evenly spread."""
_MARK = re.compile(r"\w(\s?)[.,](?:\s|$)")
"""A full stop or comma; only tokenised text has a space before it."""


def scored_as_trained(
    references: list[str], config: RunConfig, *, lowercase: bool | None = None
) -> tuple[list[str], Scoring]:
    """Return the references and the way to score against them, without case where the run writes none.

    `lowercase` None takes the setting of `config`. In Turkish and Azeri I is the capital of ı, so the references are
    lower-cased here.
    """
    language = config.data.target_language
    lowercase = config.tokenizer.lowercase if lowercase is None else lowercase
    scoring = scoring_for(language, references, lowercase)
    return [lower(text, language) for text in references] if lowercase else references, scoring


def training_targets(run: RunDirectory, vocabularies: Vocabularies) -> list[str]:
    """Return some of the texts that the run was trained to write; none where it has no corpus next to it."""
    if not run.corpus.is_dir():
        return []
    corpus = open_corpus(run, "train", vocabularies)
    chosen = np.unique(np.linspace(0, len(corpus) - 1, _EXAMINED).astype(int)).tolist() if len(corpus) else []
    return vocabularies.target.decode_batch([corpus.target(index).tolist() for index in chosen])


def has_case(texts: Sequence[str]) -> bool:
    """Return whether a capital letter stands in any of `texts`."""
    return any(character.isupper() for text in texts for character in text)


def has_letters_with_case(texts: Sequence[str]) -> bool:
    """Return whether a letter of a script with capitals stands in any of `texts`."""
    return any(character.islower() or character.isupper() for text in texts for character in text)


def is_tokenized(texts: Sequence[str]) -> bool | None:
    """Return whether most full stops and commas of `texts` have a space before them; None where there are none."""
    spaces = [match[1] for text in texts for match in _MARK.finditer(text)]
    return 2 * sum(map(bool, spaces)) > len(spaces) if spaces else None
