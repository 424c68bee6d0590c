"""The compiled kernels: structures laid out as in C, and the level that this processor can run."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("dikkat_runtime", reason="dikkat-runtime is not installed: pip install -e ./runtime")

from dikkat_runtime.errors import UsageError
from dikkat_runtime.native import compiling, cpu, first_use, library, structures

NAMES_IN_C = {
    "Packing": {"source": "from", "is_float32": "wide"},
    "Linear": {"packed_weight": "packed.weight", "packed_scale": "packed.scale", "packed_shift": "packed.shift"},
    "Norm": {},
    "Encoder": {},
    "Decoder": {"weights_out": "seen"},
    "Search": {},
}
"""Fields that have another name in C."""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize(
    ("source", "names"), [("encoder.c", ["Linear", "Norm", "Encoder"]), ("search.c", ["Decoder", "Search"]),
                          ("byte_rows.h", ["Packing"])],
)  # fmt: skip
def test_every_field_lies_where_c_has_it(tmp_path: Path, source: str, names: list[str]) -> None:
    shown, expected = [], []
    for name in names:
        structure = getattr(structures, name)
        shown.append(f'printf("{name} %zu\\n", sizeof({name}));')
        expected.append(f"{name} {ctypes.sizeof(structure)}")
        for field, _ in structure._fields_:
            in_c = NAMES_IN_C[name].get(field, field)
            shown.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {in_c}));')
            expected.append(f"{name}.{field} {getattr(structure, field).offset}")
    program = tmp_path / "offsets.c"
    included = "".join(f"#include {each}\n" for each in ("<stddef.h>", "<stdio.h>", f'"{compiling.FOLDER / source}"'))
    program.write_text(f"{included}int main(void) {{\n{' '.join(shown)}\nreturn 0;\n}}\n")
    # only offsets are asked for: what the functions call need not be there
    flags = ["-march=native", "-fopenmp", "-O1", "-Wl,--unresolved-symbols=ignore-all"]
    subprocess.run(["cc", *flags, str(program), "-o", str(tmp_path / "offsets"), "-lm"], check=True)
    found = subprocess.run([str(tmp_path / "offsets")], capture_output=True, text=True, check=True).stdout
    assert found.split("\n")[:-1] == expected


def test_the_best_level_that_the_processor_has_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = frozenset().union(*cpu.NEEDS.values())
    monkeypatch.setattr(cpu, "processor_flags", lambda: everything)
    assert cpu.levels() == ["amx", "avx512", "avx2"]
    monkeypatch.setattr(cpu, "processor_flags", lambda: cpu.NEEDS["avx2"] | {"avx512f"})
    assert cpu.levels() == ["avx2"]
    monkeypatch.setattr(cpu, "processor_flags", frozenset)
    assert cpu.levels() == []


def put(folder: Path, level: str, content: bytes = b"") -> Path:
    path = library.library_path(folder, level)
    path.write_bytes(content)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package for whose kernels there is no compiler."""
    for name in ("DIKKAT_NATIVE_LEVEL", "PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    monkeypatch.setattr(library, "levels", lambda: ["avx2"])
    return tmp_path


def test_a_processor_without_any_level_is_one_line(folder: Path) -> None:
    put(folder, "avx512")
    with pytest.raises(UsageError, match=r"cannot run those of the package \(avx512\), and no C compiler; there is no"):
        library.library.__wrapped__()


def test_a_damaged_library_is_one_line(folder: Path) -> None:
    path = put(folder, "native", b"\x7fELF")
    with pytest.raises(UsageError, match=f"{path} cannot be loaded"):
        library.library.__wrapped__()


def test_a_level_that_is_asked_for_is_there_or_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "native")
    monkeypatch.setenv("DIKKAT_NATIVE_LEVEL", "avx2")
    with pytest.raises(UsageError, match=f"DIKKAT_NATIVE_LEVEL=avx2: {folder} holds native$"):
        library.library.__wrapped__()
    monkeypatch.setenv("DIKKAT_NATIVE_LEVEL", "amx")
    with pytest.raises(UsageError, match=r"DIKKAT_NATIVE_LEVEL=amx: this processor can run native, avx2$"):
        library.library.__wrapped__()


@pytest.mark.parametrize("change", ["source", "processor"])
def test_a_library_of_other_sources_or_for_another_processor_is_not_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    put(folder, "native", b"\x7fELF")
    (folder / "adamw.c").write_text("int answer(void) { return 42; }\n", encoding="utf-8")
    if change == "source":
        monkeypatch.setattr(compiling, "SOURCES", (folder / "adamw.c",))
    else:
        monkeypatch.setattr(compiling, "processor_kind", lambda: "another")
    compiling.source_digest.cache_clear()
    try:
        with pytest.raises(first_use.AbsentError, match="no C compiler"):
            library.library.__wrapped__()
    finally:
        compiling.source_digest.cache_clear()
