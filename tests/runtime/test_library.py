"""The compiled kernels: structures laid out as in C, and the level that this processor can run."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

pytest.importorskip("dikkat_runtime", reason="dikkat-runtime is not installed: pip install -e ./runtime")

from tests.runtime.structures_in_c import misplaced

from dikkat_runtime.engine import choose
from dikkat_runtime.errors import AbsentError, UsageError
from dikkat_runtime.native import cpu, first_use, library, library_cache
from dikkat_runtime.native import library as structures

STRUCTURES: list[tuple[str, str, dict[str, str]]] = [
    ("byte_rows.h", "Packing", {"source": "from"}),
    (
        "encoder.c",
        "Linear",
        {"packed_weight": "packed.weight", "packed_scale": "packed.scale", "packed_shift": "packed.shift"},
    ),
    ("encoder.c", "Norm", {}),
    ("kernels.c", "Rotation", {}),
    ("attention.h", "Attention", {"weights_out": "weights"}),
    ("encoder.c", "Encoder", {}),
    ("search.c", "Decoder", {}),
    ("search.c", "Search", {"own": "logits"}),
]
"""Where they lie, and fields that have another name in C."""


@pytest.mark.parametrize(("source", "name", "renamed"), STRUCTURES)
def test_every_field_lies_where_c_has_it(tmp_path: Path, source: str, name: str, renamed: dict[str, str]) -> None:
    assert misplaced(tmp_path, source, name, getattr(structures, name), renamed) == []


def test_a_field_at_another_offset_is_reported(tmp_path: Path) -> None:
    class Norm(ctypes.Structure):
        _fields_ = (("weight", ctypes.c_void_p), ("present", ctypes.c_void_p), ("eps", ctypes.c_float))

    assert misplaced(tmp_path, "encoder.c", "Norm", Norm, {}) == ["Norm", "present", "eps"]


def test_a_library_with_other_structures_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "other.c").write_text("const long size_of_Packing = 8;\n", encoding="utf-8")
    path = library.library_path(folder, "native")
    subprocess.run(["cc", "-shared", "-fPIC", str(folder / "other.c"), "-o", str(path)], check=True)
    with pytest.raises(AbsentError, match=r"has another Packing \(8 bytes, not 72\); reinstall dikkat-runtime"):
        library.library.__wrapped__()


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
    monkeypatch.delenv("DIKKAT_NATIVE_LEVEL", raising=False)
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


def test_a_requested_level_is_used_or_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "native")
    monkeypatch.setenv("DIKKAT_NATIVE_LEVEL", "avx2")
    with pytest.raises(UsageError, match="DIKKAT_NATIVE_LEVEL=avx2: no C compiler; there is no no-such-compiler"):
        library.library.__wrapped__()
    monkeypatch.setenv("DIKKAT_NATIVE_LEVEL", "amx")
    with pytest.raises(UsageError, match=r"DIKKAT_NATIVE_LEVEL=amx: this processor can run native, avx2$"):
        library.library.__wrapped__()


@pytest.fixture
def real() -> str:
    """The path of the kernels of this computer, read before a test hides them."""
    try:
        return str(library.library()[0]._name)
    except AbsentError as error:
        pytest.skip(f"no native kernels: {error}")


def test_a_requested_level_is_compiled_at_its_first_use(
    real: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout has the kernels of its own processor alone; whoever names a level gets that one."""
    compiled: list[str] = []

    def build(compiler: object, path: Path, *, level: str, **_: object) -> None:
        compiled.append(level)
        shutil.copy(real, path)

    monkeypatch.setenv("CC", sys.executable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr(first_use, "build", build)
    monkeypatch.setenv("DIKKAT_NATIVE_LEVEL", "avx2")
    assert library.library.__wrapped__()[1] == "avx2"
    assert library.library.__wrapped__()[1] == "avx2"
    monkeypatch.delenv("DIKKAT_NATIVE_LEVEL")
    assert library.library.__wrapped__()[1] == "native"
    assert compiled == ["avx2", "native"], "each once, and neither taken for the other"


@pytest.mark.parametrize("change", ["source", "processor"])
def test_a_library_of_other_sources_or_for_another_processor_is_not_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    put(folder, "native", b"\x7fELF")
    (folder / "adamw.c").write_text("int answer(void) { return 42; }\n", encoding="utf-8")
    if change == "source":
        monkeypatch.setattr(library_cache, "SOURCES", (folder / "adamw.c",))
    else:
        monkeypatch.setattr(library_cache, "processor_kind", lambda: "another")
    library_cache.source_digest.cache_clear()
    try:
        with pytest.raises(AbsentError, match="no C compiler"):
            library.library.__wrapped__()
    finally:
        library_cache.source_digest.cache_clear()


def test_who_names_a_level_gets_no_other_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "avx2")
    monkeypatch.setenv("DIKKAT_NATIVE_LEVEL", "amx")
    monkeypatch.setattr(choose, "library", library.library.__wrapped__)
    shape = {"vocab_size": 400, "model_dim": 8, "num_heads": 2, "feed_forward_dim": 8, "max_positions": 64}
    model = {"model": {**shape, "encoder_layers": 1, "decoder_layers": 1}}
    with pytest.raises(UsageError, match=r"^DIKKAT_NATIVE_LEVEL=amx: this processor can run native, avx2$"):
        choose.why_not_native(model, "config.json")
    monkeypatch.setenv("DIKKAT_NATIVE_LEVEL", "native")
    # and the reason is about what was named
    said = choose.why_not_native(model, "config.json")
    assert said == "no C compiler; there is no no-such-compiler, which CC names"


def test_the_flags_of_an_intel_mac_are_those_of_linux_in_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "FPU SSE4.2 FMA F16C AVX1.0\nBMI1 AVX2 BMI2 SMEP\n"
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr(Path, "read_text", Mock(side_effect=FileNotFoundError))
    monkeypatch.setattr("subprocess.run", Mock(return_value=Mock(stdout=said)))
    assert cpu.NEEDS["avx2"] <= set(cpu._described()["flags"].split())
    monkeypatch.setattr("subprocess.run", Mock(return_value=Mock(stdout="")))
    assert cpu._described() == {}
