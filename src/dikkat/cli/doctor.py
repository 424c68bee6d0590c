"""`dikkat doctor`: check a trained model claim by claim, with the measured violations."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from dikkat.cli.progress import Announced
from dikkat_runtime.cli.opening import JsonOption, print_engine
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_json, print_report
from dikkat_runtime.errors import msg
from dikkat_runtime.localization import localized, translated
from dikkat_runtime.native.cpu import levels, usable_processors

if TYPE_CHECKING:
    from dikkat.explain.doctor import Proof

DoctorEngine = Literal["torch", "native"]

# Not 65: the files were read and are whole. As with a test run, 1 says that the answer is no.
EXIT_FAILED = 1

OUTCOME_SYMBOLS = {"pass": msg("✓ pass"), "fail": msg("✗ FAIL"), "follows": msg("– follows")}


def doctor(
    path: Annotated[
        Path | None,
        Argument(
            "DIR|CHECKPOINT",
            help="Run directory, or one folder of its checkpoints; if absent, describe this computer for a bug report.",
        ),
    ] = None,
    seed: Annotated[
        int, Option(min=0, max=2**32 - 1, help="Random seed of the sentences that the model is tried on.")
    ] = 1,
    as_json: JsonOption = False,
    engine: Annotated[
        DoctorEngine, Option(help="What to prove: the model's own modules, or that native computes what they do.")
    ] = "torch",
) -> int:
    """Prove that a model computes what it should; exit code 1 if a proof fails.

    A proof that is violated only because another one fails is marked "follows": correct the other first.
    """
    if path is None:
        facts = environment()
        print_json(facts) if as_json else print_report(f"{name:16}{fact}" for name, fact in facts.items())
        return 0
    with Announced(msg("{path}: trying its model on made-up sentences", path)):
        from dikkat.tasks.inspection.doctor import examine_path

        proofs, info = examine_path(path, seed, engine)
    print_engine(info)
    passed = all(proof.passed for proof in proofs)
    if as_json:
        print_json({"path": str(path), "seed": seed, "passed": passed, "proofs": proofs})
    else:
        print_report(_as_table(proofs))
    return 0 if passed else EXIT_FAILED


def environment() -> dict[str, str]:
    """Return what a report of a fault should say of this computer, which names no user and no folder."""
    import torch

    from dikkat.kernels.library import library, why_absent
    from dikkat.kernels.processor import processor_name

    packages = {name: version(name) for name in ("dikkat", "dikkat-runtime", "numpy", "tokenizers", "torch")}
    variables = sorted(name for name in os.environ if name.startswith(("DIKKAT_", "OMP_NUM_", "CUDA_")))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return packages | {
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": platform.platform(),
        "processor": f"{processor_name()}, {usable_processors()} usable, levels {', '.join(levels()) or 'none'}",
        "memory": f"{memory:.1f} GiB",
        "kernels": why_absent() if library() is None else "native",
        "GPU": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none",
        "variables": ", ".join(f"{name}={os.environ[name]}" for name in variables) or "none",
    }


def _as_table(proofs: "list[Proof]") -> list[str]:
    names = [localized(proof.name) for proof in proofs]
    symbols = {outcome: localized(symbol) for outcome, symbol in OUTCOME_SYMBOLS.items()}
    width = max(map(len, names))
    first = max(len(symbol) for symbol in symbols.values())
    heading = (translated("proof"), translated("violation"), translated("limit"))
    lines = [f"{'':{first}}  {heading[0]:{width}}  {heading[1]:>9}  {heading[2]:>6}"]
    for proof, name in zip(proofs, names, strict=True):
        numbers = f"{proof.violation:>9.2g}  {proof.limit:>6.0g}"
        lines.append(f"{symbols[proof.outcome]:{first}}  {name:{width}}  {numbers}  {localized(proof.says)}")
        if not proof.passed:
            because = translated(" – follows from: {cause}", proof.because) if proof.because else ""
            lines.append(f"{'':{first}}  {translated('at {where}', proof.where)}{because}")
    return [*lines, "", _summary(proofs)]


def _summary(proofs: "list[Proof]") -> str:
    failed = [localized(proof.name) for proof in proofs if proof.outcome == "fail"]
    if not failed:
        return translated("all {count} proofs pass", len(proofs))
    verb = msg("fails" if len(failed) == 1 else "fail")
    return translated("{count} of {total} proofs {verb}: {names}", len(failed), len(proofs), verb, ", ".join(failed))
