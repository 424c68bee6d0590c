"""`dikkat data`: work on text before anything is trained on it."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from dikkat.cli.progress import Announced
from dikkat_runtime.cli.opening import COMPUTE, BeamOption, ComputeOptions, DeviceOption, JsonOption, print_engine
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.program import Group
from dikkat_runtime.cli.progress import WorkProgress
from dikkat_runtime.cli.streams import print_json, print_remark, print_report, print_written, terminal
from dikkat_runtime.engine.options import BeamOptions, Precision
from dikkat_runtime.errors import CannotCreateError, UsageError, msg, plural
from dikkat_runtime.files import probe_next_to, write_atomically, write_errors


def check_table(out: Path, option: str) -> None:
    """Raise an error of the user where a table of pairs cannot be written to `out`, before any work."""
    if out.suffix != ".tsv":
        raise UsageError("{option} {out}: a table of pairs is written as .tsv", option, out)
    if out.exists():
        raise CannotCreateError("{out}: exists already; name another file, or remove it", out)
    with write_errors(out):
        probe_next_to(out)


_WIDTH = BeamOptions().beam_size


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options by which a translator writes pairs."""

    out: Annotated[Path, Option(help="Table to write (.tsv): source, target, origin.")]
    workers: Annotated[int | None, Option(min=1, help="Processes; if absent, as many as there are processors.")] = None
    threads: Annotated[
        int | None, Option(min=1, help="Threads of each worker; by default, its share of the processors.")
    ] = None
    force: Annotated[bool, Option(help="Start over where it was begun with another model or other texts.")] = False
    estimate: Annotated[bool, Option(help="Only estimate how long it would take.")] = False


def backtranslate(
    run: Annotated[Path, Argument(help="Translator from the target language to the source.")],
    texts: Annotated[list[Path], Argument(help="Text in the target language, line by line.")],
    how: WriteOptions,
    tag: Annotated[str, Option(help="Words to put before each source, by which a model can recognise it.")] = "",
    beam: BeamOption = 1,
    choice: ComputeOptions = COMPUTE,
) -> None:
    """Write pairs whose targets are TEXTS and whose sources RUN has written; the same command continues after a stop.

    Each pair is marked as backtranslated in the column origin.
    """
    _write(False, run, texts, beam, tag, choice, how)


def distil(
    run: Annotated[Path, Argument(help="Translator that a smaller one is to learn from.")],
    texts: Annotated[list[Path], Argument(help="Text in the source language, line by line.")],
    how: WriteOptions,
    beam: BeamOption = _WIDTH,
    choice: ComputeOptions = COMPUTE,
) -> None:
    """Write pairs whose sources are TEXTS and whose targets RUN has written; the same command continues after a stop.

    Each pair is marked as distilled in the column origin.
    """
    _write(True, run, texts, beam, "", choice, how)


def _write(
    distils: bool, run: Path, texts: list[Path], beam: int, tag: str, choice: ComputeOptions, how: WriteOptions
) -> None:
    from dikkat.tasks.translation.synthetic import BACKTRANSLATED, DISTILLED, write_pairs
    from dikkat_runtime.run.config import read_config
    from dikkat_runtime.shards.call import Call, run_call
    from dikkat_runtime.shards.work import Job

    check_table(how.out, "--out")
    languages = read_config(run, "translator").get("data", {})
    job = Job(run=run, task="translate", beam=beam, **asdict(choice))
    call = Call(inputs=texts, **asdict(how))
    recipe = DISTILLED if distils else replace(BACKTRANSLATED, tag=tag)
    written = write_pairs(recipe, job, call, lambda job, call: run_call(job, call, terminal()))
    if how.estimate:
        return
    read_language, new_language = (str(languages.get(f"{side}_language") or "?") for side in ("source", "target"))
    read, new = msg("{language} as given", read_language), f"{new_language} by {run}"
    source, target = (read, new) if distils else (new, read)
    left_out = msg(", {count:,} left out without a translation", written.left_out) if written.left_out else ""
    pairs = plural(written.pairs, "pair")
    line = msg("{pairs} in {out}: source {source}, target {target}{left_out}")
    print_report([line.fill(pairs, how.out, source, target, left_out)])


def diversify(
    forward: Annotated[Path, Argument(help="Run of a translator in this direction.")],
    backward: Annotated[Path, Argument(help="Run of a translator in the other direction.")],
    pairs: Annotated[list[str], Argument(help="Data as for train.")],
    out: Annotated[Path, Option(help="Table to write (.tsv), source and target.")],
    source_column: Annotated[str | None, Option(help="Column of the source: number from 1, or name.")] = None,
    target_column: Annotated[str | None, Option(help="Column of the target: number from 1, or name.")] = None,
    batch_size: Annotated[
        int | None, Option(help="Sentences translated at once; by default, as many as are fastest.")
    ] = None,
    precision: Annotated[Precision, Option(help="int8 is faster and writes almost the same.")] = "float32",
    device: DeviceOption = "cpu",
) -> None:
    """Write PAIRS with translations of their sources and of their targets by two translators: more to learn from.

    When you train on the table, name validation and test files that neither translator has seen.
    """
    check_table(out, "--out")
    from dikkat.data.readers import LanguageChoice, read_pairs
    from dikkat.tasks.translation.synthetic import check_directions, diversify
    from dikkat_runtime.tasks.translator import Translator

    there, back = (Translator.load(run, precision, device) for run in (forward, backward))
    print_engine(there.info)
    check_directions(there, back)
    languages = LanguageChoice(there.config.data.source_language, there.config.data.target_language)
    original = list(read_pairs(pairs, source_column, target_column, languages=languages, note=print_remark))
    with WorkProgress():
        diversified = diversify(there, back, original, batch_size=batch_size)
    rows = ("\t".join(text.replace("\t", " ") for text in pair) + "\n" for pair in diversified.pairs)
    write_atomically(out, "".join(rows).encode())
    summary = msg(
        "{original:,} pairs, {by_forward:,} new ones by {forward}, {by_backward:,} by {backward}: {count:,} in {out}"
    ).fill(
        diversified.original,
        diversified.by_forward,
        forward,
        diversified.by_backward,
        backward,
        len(diversified.pairs),
        out,
    )
    print_report([summary])


def check(
    pairs: Annotated[list[str], Argument("FILES", help="Data as for train.")],
    valid: Annotated[
        list[str] | None, Option(help="Held-out data, which must not occur in FILES (twice for two files).")
    ] = None,
    out: Annotated[Path | None, Option(help="HTML page with examples.")] = None,
    fix: Annotated[
        Path | None,
        Option(help="Table to write (.tsv) of the pairs without a fault; the others go next to it, with the reason."),
    ] = None,
    source_column: Annotated[str | None, Option(help="Column of the source: number from 1, or name.")] = None,
    target_column: Annotated[str | None, Option(help="Column of the target: number from 1, or name.")] = None,
    source_language: Annotated[
        str, Option(help="Source language, such as en; by default from tags or file names, or guessed.")
    ] = "",
    target_language: Annotated[
        str, Option(help="Target language, such as tr; by default from tags or file names, or guessed.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Check parallel text for fourteen kinds of faults, which are counted, shown with examples, and left out."""
    from dikkat.data.faults.files import CheckRequest, check_files, left_out_path, write_cleaned
    from dikkat.explain.pictures import PAGES, check_format
    from dikkat.explain.report.run_page import data_page, data_report

    if out is not None:
        check_format(out, PAGES)
    if fix is not None:
        check_table(fix, "--fix")
        check_table(left_out_path(fix), "--fix")
    languages = (source_language, target_language)
    request = CheckRequest(pairs, valid or (), (source_column, target_column), languages)
    name = " ".join(pairs)
    with Announced(msg("{name}: looking for faults", name)):
        result = check_files(request, note=print_remark)
    if as_json:
        counts = {fault.name.lower(): count for fault, count in result.counts.items()}
        print_json({"pairs": result.pairs, "languages": result.languages, "faults": counts, "notes": result.notes})
    else:
        print_report(data_report(result))
    if out is not None:
        write_atomically(out, data_page(name, result).encode())
    if fix is not None:
        write_cleaned(request, result, fix)
    print_written(out, fix, None if fix is None else left_out_path(fix))


_COMMANDS: dict[str, Callable[..., Any]] = {
    "diversify": diversify,
    "backtranslate": backtranslate,
    "distil": distil,
    "check": check,
}
data = Group("Check or extend text before you train on it.", tuple(_COMMANDS), _COMMANDS.__getitem__)
