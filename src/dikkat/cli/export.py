"""`dikkat export`: write a trained model in the form that another program reads."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from dikkat.cli.page import WebPrecision
from dikkat.cli.progress import Announced
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_note
from dikkat_runtime.errors import UsageError, msg

if TYPE_CHECKING:
    from dikkat.interop.ctranslate2.agreement import Precision


Target = Literal["runtime", "web", "huggingface", "ctranslate2", "argos", "onnx", "marian", "keras"]
"""Programs that a model can be written for."""


def export(
    run: Annotated[Path, Argument(help="Run directory.")],
    to: Annotated[
        Target,
        Option(
            help="runtime: a folder that computes without PyTorch, texts and checkpoints. web: a module for JavaScript,"
            " in browsers and Node. huggingface: a MarianMT folder. ctranslate2: a model folder. argos: a package for"
            " Argos Translate and LibreTranslate. onnx: graphs for ONNX Runtime and transformers.js. marian: a folder"
            " of Marian, with .npz and .yml. keras: a model of Keras 3, for TensorFlow, JAX and PyTorch."
        ),
    ],
    out: Annotated[Path, Option(help="Folder to write, new or empty; for argos, an .argosmodel file.")],
    precision: Annotated[
        WebPrecision,
        Option(
            help="auto is int8 for web and argos, a third of the size, unless training measured that it loses; for"
            " runtime only where training measured next to no loss; float32 for the others."
        ),
    ] = "auto",
    with_corrections: Annotated[
        bool, Option("--with-corrections", help="Also export corrections.json to the runtime.")
    ] = False,
) -> None:
    """Write a trained model in the form that another program reads.

    A module for JavaScript has no dependency and computes by itself, with WebAssembly where there is SIMD.

    Other formats are checked before they are written: they compute what the run does.

    runtime, web, onnx and keras take translators, classifiers and language models; the others take translators.
    """
    _require_free(to, out, with_corrections)
    if to == "runtime":
        return _export_runtime(run, out, precision, with_corrections)
    _require_undamaged(run)
    if to == "web":
        _export_web(run, out, precision)
    elif to in ("ctranslate2", "argos"):
        _export_checked(run, to, out, precision)
    else:
        _export_compared(run, to, out, precision)
    _note_what_stays(run, to, out)
    return None


def _note_what_stays(run: Path, to: Target, out: Path) -> None:
    """Say what of the run the other program does not get."""
    # only after the work, since it brings numpy
    from dikkat_runtime.engine.shortlist import SHORTLIST
    from dikkat_runtime.run.parts import MEMBERS

    if (run / MEMBERS).exists():
        print_note("only the first model of {run} is exported; --to runtime has all of them", run)
    if not (run / SHORTLIST).exists():
        return
    if to == "ctranslate2" and (out / "vmap.txt").exists():
        print_note("with use_vmap=True the words of {out}/vmap.txt are written, the shortlist of the run", out)
    elif to == "marian" and (out / "lex.s2t.bin").exists():
        print_note("Marian writes only words of {out}/lex.s2t.bin, the shortlist of the run", out)
    else:
        print_note("the shortlist of the run is not exported: the exported model may write any word")


def _require_free(to: Target, out: Path, with_corrections: bool) -> None:
    from dikkat.interop.paths import require_empty_folder, require_nothing_at

    if with_corrections and to != "runtime":
        raise UsageError("--with-corrections is for --to runtime; leave it out")
    if to == "argos":
        require_nothing_at(out)
    else:
        require_empty_folder(out)


def _require_undamaged(run: Path) -> None:
    """Compare what a comparison of texts would not find: both sides read these files."""
    from dikkat_runtime.run.manifest import checked
    from dikkat_runtime.run.parts import TARGET_TOKENIZER

    for name in ("config.json", "tokenizer.json", TARGET_TOKENIZER):
        checked(run, name)


def _export_runtime(run: Path, out: Path, precision: WebPrecision, with_corrections: bool) -> None:
    from dikkat.interop.runtime_export import export_runtime

    with Announced(msg("{out}: writing what the model of {run} computes with", out, run)):
        written = export_runtime(run, out, precision, with_corrections=with_corrections)
    ours, theirs = _mebibytes(out), _mebibytes(run)
    print_note(
        "wrote {out} ({written}): {size:.1f} MiB of the {run_size:.1f} MiB of the run", out, written, ours, theirs
    )


def _mebibytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / (1 << 20)


def _export_web(run: Path, out: Path, precision: WebPrecision) -> None:
    from dikkat.web.module import write_module
    from dikkat.web.opening import open_for_web

    with Announced(msg("{out}: packing the model of {run}", out, run)):
        model = open_for_web(run, precision)
        write_module(model, out)
    print_note("wrote {out} ({kind}); {out}/README.md shows how to import it", out, model.precision)


def _export_compared(run: Path, to: Target, out: Path, precision: WebPrecision) -> None:
    if precision == "int8":
        raise UsageError("--precision int8: --to {format} is always written in float32", to)
    is_translator = to in ("huggingface", "marian")
    with Announced(msg("{out}: writing the model of {run} and comparing it with the run", out, run)):
        from dikkat.interop.trained_translator import TrainedTranslator

        module = import_module(f"dikkat.interop.{to}_export{'' if is_translator else '.writing'}")
        write = getattr(module, f"export_{to}")
        parity = write(TrainedTranslator.open(run) if is_translator else run, out)
    print_note("wrote {out}; compared with the run on {parity}", out, parity)
    if not is_translator:
        print_note("{out}/README.md shows how to use it", out)


def _export_checked(run: Path, to: Target, out: Path, precision: WebPrecision) -> None:
    """Write what CTranslate2 computes, as its folder or a package of Argos, and say how it was compared."""
    chosen: Precision = "int8" if precision == "int8" else "float32"
    with Announced(msg("{out}: writing the model of {run} and comparing it with the run", out, run)):
        if to == "argos":
            from dikkat.interop.argos_package import export_argos
            from dikkat.web.opening import chosen_precision

            chosen = "int8" if chosen_precision(run, precision) == "int8" else "float32"
            checked = export_argos(run, out, chosen)
        else:
            from dikkat.interop.ctranslate2.writing import export_ctranslate2

            checked = export_ctranslate2(run, out, chosen)
    print_note("wrote {out} ({precision})", out, chosen)
    if checked.how == "texts":
        print_note("CTranslate2 writes {count} sample sentences as the run does", checked.sentences)
    elif checked.how == "chrf":
        ours, theirs = checked.scores
        print_note(
            msg("chrF on {sentences} held-out sentences: {run_score:.2f} by the run, {score:.2f} by CTranslate2").fill(
                checked.sentences, ours, theirs
            )
        )
    elif checked.how == "weights":
        print_note("every weight is within half a step of int8; too few held-out sentences for chrF")
    else:
        print_note(
            "every weight was read back and compared; with CTranslate2 (pip install ctranslate2) texts would be, too"
        )
    if to == "argos":
        print_note("install it with: argospm install {out}", out)
    else:
        print_note("{out}/README.md shows how to translate with it", out)
