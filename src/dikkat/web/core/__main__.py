"""Compile `core.wasm` from the C sources of the native engine: `python -m dikkat.web.core`, with `dikkat[wasm]`."""

import subprocess
import sys
from pathlib import Path

import dikkat_runtime.native

HERE = Path(__file__).parent
BUILT = HERE / "core.wasm"
SOURCES = ("linear_layer.c", "byte_rows.c", "grouped_layer.c")
"""C sources of the native engine that the core is made of, besides core.c."""
FLAGS = (
    *("-target", "wasm32-wasi", "-mexec-model=reactor", "-O3", "-msimd128", "-s"),
    # a product and a sum round twice, as in JavaScript and wherever there is no fused instruction
    *("-ffp-contract=off", "-fno-stack-protector"),
)


def build(out: Path) -> None:
    """Compile the core to `out` by the clang of the package `ziglang`. Raises `CalledProcessError`."""
    folder = Path(dikkat_runtime.native.__file__).parent / "c"
    sources = [str(HERE / "core.c"), *(str(folder / name) for name in SOURCES)]
    compiler = [sys.executable, "-m", "ziglang", "cc"]
    subprocess.run([*compiler, *FLAGS, f"-I{folder}", *sources, "-o", str(out)], check=True)


if __name__ == "__main__":
    build(BUILT)
