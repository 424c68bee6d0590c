"""The shortlist of a run as CTranslate2 has it: `vmap.txt`, whose words it writes alone with `use_vmap=True`.

A line is a piece of the source, a tab, and words of the target with spaces between them; those of the line that begins
with the tab may always be written (src/vocabulary_map.cc).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from dikkat_runtime.engine.shortlist import Shortlist
from dikkat_runtime.special_tokens import EOS_ID, UNK_ID

VMAP = "vmap.txt"
_PARTS_LINES = re.compile(r"[ \t\r\n]|^$")
"""What no name of an entry may hold."""


def vmap_file(
    shortlist: Shortlist, sources: Sequence[str], targets: Sequence[str], *, reads_unknown: bool
) -> bytes | None:
    """Return the file of a shortlist; `sources` and `targets` are the entries of both sides by their ids.

    Returns None where CTranslate2 would choose among other words. It always allows the unknown; it looks up a piece
    that it does not know by its own text, so that the unknown has no words, which matters where a source may hold it
    (`reads_unknown`); and it cannot read names with white space.
    """
    lists = [shortlist.words[start:end] for start, end in zip(shortlist.starts[:-1], shortlist.starts[1:], strict=True)]
    # the end mark is added to a source behind the look-up
    always = np.union1d(shortlist.always, lists[EOS_ID])
    if UNK_ID not in always or (reads_unknown and np.setdiff1d(lists[UNK_ID], always).size):
        return None
    named = [
        (sources[piece], words) for piece, words in enumerate(lists) if words.size and piece not in (EOS_ID, UNK_ID)
    ]
    written = {targets[word] for word in np.union1d(always, shortlist.words)}
    if any(map(_PARTS_LINES.search, (*written, *(name for name, _ in named)))):
        return None
    lines = [f"{name}\t{' '.join(targets[word] for word in words)}\n" for name, words in [("", always), *named]]
    return "".join(lines).encode()
