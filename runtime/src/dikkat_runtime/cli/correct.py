"""`dikkat correct`: what a person has corrected comes back as corrected."""

from pathlib import Path
from typing import Annotated

from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_note, print_remark, print_report
from dikkat_runtime.errors import UsageError, plural


def correct(
    run: Annotated[Path, Argument(help="Run directory of a translator.")],
    source: Annotated[str | None, Argument(help="A source text, on one line.")] = None,
    target: Annotated[str | None, Argument(help="Its right translation.")] = None,
    list_: Annotated[bool, Option("--list", help="Show all corrections: source, tab, translation.")] = False,
    file: Annotated[
        Path | None, Option(help="Keep all of a table of sources and translations, as a page of --review saves it.")
    ] = None,
    near: Annotated[bool, Option("--near", help="Show the corrections that are used for SOURCE.")] = False,
    remove: Annotated[bool, Option("--remove", help="Forget the correction of SOURCE.")] = False,
) -> None:
    """Keep TARGET as the translation of SOURCE: wherever it comes again, translate and serve give TARGET.

    A sentence that is similar to SOURCE is translated more like TARGET. `dikkat translate --no-corrections` ignores
    corrections.
    """
    from dikkat_runtime.run.config import read_config
    from dikkat_runtime.tasks.corrections import Corrections, NearIndex
    from dikkat_runtime.tasks.translations import shown

    read_config(run, "translator")
    corrections = Corrections(run)
    if list_ + near + remove + (file is not None) > 1:
        raise UsageError("--list, --near, --remove and --file exclude each other; give one of them")
    if list_:
        if source is not None:
            raise UsageError("--list shows all corrections; leave out the texts")
        print_report(f"{ours}\t{theirs}" for ours, theirs in corrections.pairs())
    elif file is not None:
        from dikkat_runtime.documents.memories import read_memory
        from dikkat_runtime.tasks.translator import Translator

        if source is not None:
            raise UsageError("--file keeps what it holds; leave out the texts")
        translator = Translator.load(run)
        languages = (translator.language, translator.target_language)
        corrections.add_all(read_memory(file, languages, print_remark, translator=translator).kept)
        print_note("{corrections} in all", plural(len(corrections), "correction"))
    elif near or remove:
        if source is None or target is not None:
            option = "--near" if near else "--remove"
            raise UsageError("{option} needs the SOURCE of the correction and nothing else", option)
        if near:
            similar = NearIndex(corrections.pairs()).near(source)
            print_report(f"{pair.similarity:.2f}\t{pair.source}\t{pair.target}" for pair in similar)
        else:
            corrections.remove(source)
            print_note("removed; {corrections} in all", plural(len(corrections), "correction"))
    elif source is None or target is None:
        raise UsageError("name the SOURCE and its right translation, or --list")
    else:
        before = corrections.add(source, target)
        kept, count = f"{shown(source.strip())} → {shown(target.strip())}", plural(len(corrections), "correction")
        if before is None:
            print_note("kept {correction}; {count} in all", kept, count)
        else:
            print_note("kept {correction} instead of {before}; {count} in all", kept, shown(before), count)
