"""Files of pairs checked as a whole, and written again without what is wrong with them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from dikkat.data.faults.check import EXAMPLES, DataCheck, Example, check_pairs, without_faults
from dikkat.data.faults.pair_checks import NAMES, Fault
from dikkat.data.languages import primary_language
from dikkat.data.pairs import Pair
from dikkat.data.readers import Column, LanguageChoice, languages_of, numbered_pairs, read_inputs
from dikkat_runtime.files import write_streaming


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The files and languages that a user asks `dikkat data check` to check."""

    data: Sequence[str]
    held_out: Sequence[str] = ()
    columns: tuple[Column, Column] = (None, None)
    languages: tuple[str, str] = ("", "")
    """As the user names them; empty where files, their names or their texts have to tell."""


def check_files(request: CheckRequest, note: Callable[[str], None] = lambda line: None) -> DataCheck:
    """Look at all pairs of the files. Raises the errors of the readers."""
    choice = LanguageChoice(*request.languages)
    pairs = _pairs(request, request.data, choice, note)
    held_out = _pairs(request, request.held_out, choice, note) if request.held_out else ()
    first = next(pairs, None)
    languages = tuple(
        primary_language(named or tag or name)
        for named, tag, name in zip(request.languages, choice.tags, languages_of(request.data), strict=True)
    )
    check = check_pairs(() if first is None else chain([first], pairs), (languages[0], languages[1]), held_out)
    _show_shifted(check, _pairs(request, request.data, LanguageChoice(*request.languages), lambda line: None))
    return check


def _show_shifted(check: DataCheck, pairs: Iterator[Pair]) -> None:
    """Examples of shifted pairs, which are known only when all have been read."""
    last = max((shift.last for shift, _ in check.shifts[:EXAMPLES]), default=0)
    some = zip(islice(pairs, last), check.faults.tolist(), strict=False)
    shown = [Example(str(pair.line), pair.source, pair.target) for pair, fault in some if fault == Fault.SHIFTED]
    if shown:
        check.examples[Fault.SHIFTED] = shown[:EXAMPLES]


def _pairs(
    request: CheckRequest, data: Sequence[str], choice: LanguageChoice, note: Callable[[str], None]
) -> Iterator[Pair]:
    return numbered_pairs(read_inputs(data, *request.columns, languages=choice, note=note, lenient=True))


def left_out_path(out: Path) -> Path:
    """Return the path of the file that takes the pairs left out of `out`."""
    return out.with_name(f"{out.stem}.left-out{out.suffix}")


def write_cleaned(request: CheckRequest, check: DataCheck, out: Path) -> None:
    """Read the files again and write the sound pairs to `out`, the others with their reason and line next to it.

    Raises `CannotCreateError` or `DiskError`; either file is there whole or not at all.
    """
    pairs = _pairs(request, request.data, LanguageChoice(*request.languages), lambda line: None)
    with write_streaming(out) as kept, write_streaming(left_out_path(out)) as left_out:
        left_out.write("reason\tline\tsource\ttarget\n")
        for pair, fault in without_faults(pairs, check):
            texts = "\t".join(" ".join(text.split()) if set(text) & set("\t\n\r") else text for text in pair[:2])
            if fault is Fault.NONE:
                kept.write(f"{texts}\n")
            else:
                left_out.write(f"{NAMES[fault]}\t{pair.line}\t{texts}\n")
