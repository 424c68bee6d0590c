"""The probe of the processor against texts of /proc/cpuinfo written here, and against this machine."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from dikkat.kernels import processor
from dikkat_runtime.native import cpu

INTEL = "processor\t: 0\nflags\t\t: fpu sse avx2 avx512f avx512_bf16 amx_bf16\n\nprocessor\t: 1\nflags\t\t: fpu\n"
OLD = "processor\t: 0\nflags\t\t: fpu sse avx2\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd bf16\n"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    for item in (cpu.processor_flags, cpu.processor_kind):
        item.cache_clear()
    yield
    for item in (cpu.processor_flags, cpu.processor_kind):
        item.cache_clear()


def pretend(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    def read_text(self: Path, **_: str) -> str:
        assert str(self) == "/proc/cpuinfo"
        if text is None:
            raise FileNotFoundError(self)
        return text

    monkeypatch.setattr(Path, "read_text", read_text)


@pytest.mark.parametrize(
    ("text", "fast", "name"),
    [
        (INTEL, True, "amx_bf16"),
        (INTEL.replace(" amx_bf16", ""), True, "avx512_bf16"),
        (OLD, False, "avx2"),
        (ARM, False, "no vector flags known"),
        ("", False, "no vector flags known"),
        (None, False, "no vector flags known"),
    ],
    ids=["amx", "avx512", "avx2", "arm", "empty", "no such file"],
)
def test_flags_decide(monkeypatch: pytest.MonkeyPatch, text: str | None, fast: bool, name: str) -> None:
    pretend(monkeypatch, text)
    assert processor.has_fast_bfloat16() is fast
    assert processor.processor_name().endswith(f"({name})")


@pytest.mark.parametrize(
    ("flags", "fast"),
    [
        ("avx512f avx512_vnni", True),
        ("avx512f", False),
        ("avx512f avx512_vnni amx_bf16 amx_int8", True),
        ("avx2 avx_vnni", True),
        ("avx2", True),
        ("avx2 avx512f", False),
        ("sse4_2", False),
    ],
)
def test_bytes_are_fast_with_vnni_or_avx2_alone(monkeypatch: pytest.MonkeyPatch, flags: str, fast: bool) -> None:
    pretend(monkeypatch, f"flags\t\t: {flags}\n")
    assert processor.has_fast_int8() is fast


def test_flags_are_those_of_the_first_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, INTEL)
    assert cpu.processor_flags() == {"fpu", "sse", "avx2", "avx512f", "avx512_bf16", "amx_bf16"}


@pytest.mark.parametrize(
    "text",
    [
        INTEL.replace(" amx_bf16", ""),
        ARM,
        ARM.replace(" bf16", ""),
        ARM + "CPU part\t: 0xd40\n",
        "isa\t: rv64gcv\n",
        "",
    ],
)
def test_processors_that_run_other_code_are_of_another_kind(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """They may share a home, and so the cache of compiled kernels."""
    kinds = set()
    for item in (INTEL, text):
        pretend(monkeypatch, item)
        cpu.processor_kind.cache_clear()
        kinds.add(cpu.processor_kind())
    assert len(kinds) == 2


def test_what_changes_from_moment_to_moment_is_of_no_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = set()
    for speed in (2400, 3100):
        pretend(monkeypatch, f"cpu MHz\t: {speed}\n{INTEL}")
        cpu.processor_kind.cache_clear()
        kinds.add(cpu.processor_kind())
    assert len(kinds) == 1


@pytest.mark.parametrize("text", ["", None], ids=["tells nothing", "no such file"])
def test_where_nothing_is_told_each_computer_is_of_its_own_kind(
    monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    pretend(monkeypatch, text)
    kinds = set()
    for machine, node in (("arm64", "one"), ("arm64", "other"), ("x86_64", "one")):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        monkeypatch.setattr(platform, "node", lambda node=node: node)
        cpu.processor_kind.cache_clear()
        kinds.add(cpu.processor_kind())
    assert len(kinds) == 3


def test_this_machine_answers() -> None:
    assert isinstance(processor.has_fast_bfloat16(), bool)
    assert processor.processor_name()


def test_freed_memory_is_kept_where_the_library_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """glibc takes both settings; a library without them is no error."""
    calls: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, parameter: int, value: int) -> int:
            calls.append((parameter, value))
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    assert processor.keep_freed_memory()
    assert calls == [(-3, 1 << 30), (-1, 1 << 30)]
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not processor.keep_freed_memory()


def test_freed_memory_is_given_back_where_the_library_can(monkeypatch: pytest.MonkeyPatch) -> None:
    assert processor.give_back_freed_memory()
    kept: list[int] = []

    class Library:
        def malloc_trim(self, pad: int) -> int:
            kept.append(pad)
            return 0

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    assert processor.give_back_freed_memory()
    assert kept == [0]
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not processor.give_back_freed_memory()
