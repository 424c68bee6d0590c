"""Build the wheels of dikkat-runtime for other systems on this one, by the clang of the package ziglang.

    pip install build ziglang
    python -m tools.build_wheels --out dist [TARGET …]

Without TARGET all are built. The wheel for this computer is installed into an environment of its own, and its kernels
are loaded. Of each wheel the size, the tag, and the machine that its libraries are for are checked.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_MEGABYTES = 3.0


@dataclass(frozen=True)
class Target:
    """A system that wheels are for."""

    triple: str
    """As zig names it, with the oldest C library."""
    levels: str
    tag: str
    """Of the platform, as pip compares it."""
    magic: bytes
    """How a library for it begins: the format, and the machine at its place."""


ELF_X86, ELF_ARM = b"\x3e\x00", b"\xb7\x00"
MACH_X86, MACH_ARM = b"\xcf\xfa\xed\xfe\x07\x00\x00\x01", b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01"
TARGETS = {
    "manylinux-x86_64": Target("x86_64-linux-gnu.2.17", "avx2 avx512 amx", "manylinux_2_17_x86_64", ELF_X86),
    "manylinux-aarch64": Target("aarch64-linux-gnu.2.17", "armv8", "manylinux_2_17_aarch64", ELF_ARM),
    "musllinux-x86_64": Target("x86_64-linux-musl", "avx2 avx512 amx", "musllinux_1_2_x86_64", ELF_X86),
    "musllinux-aarch64": Target("aarch64-linux-musl", "armv8", "musllinux_1_2_aarch64", ELF_ARM),
    "macos-arm64": Target("aarch64-macos.11.0", "armv8", "macosx_11_0_arm64", MACH_ARM),
    "macos-x86_64": Target("x86_64-macos.11.0", "avx2", "macosx_11_0_x86_64", MACH_X86),
}
"""Not here: Windows, whose files and signals dikkat does not know."""


def build(target: Target, out: Path) -> Path:
    """Build one wheel and return its path."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "CC": f"{sys.executable} {__file__} cc -target {target.triple}",
            "DIKKAT_RUNTIME_LEVELS": target.levels,
            "DIKKAT_RUNTIME_PLATFORM": target.tag,
        }
        command = [sys.executable, "-m", "build", "--wheel", "--outdir", folder, str(ROOT / "runtime")]
        subprocess.run(command, check=True, env=environment)
        (built,) = Path(folder).glob("*.whl")
        return Path(shutil.copy(built, out))


def problems(wheel: Path, target: Target) -> list[str]:
    """Return what is wrong with a wheel: its size, its tag, or libraries that are missing or for another machine."""
    found = []
    if wheel.stat().st_size > MAX_MEGABYTES * 1e6:
        found.append(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB are more than {MAX_MEGABYTES} MB")
    if not wheel.name.endswith(f"-{target.tag}.whl"):
        found.append(f"{wheel.name}: is not for {target.tag}")
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if "/native/lib/kernels-" in name]
        if len(libraries) != len(target.levels.split()):
            found.append(f"{wheel.name}: {len(libraries)} libraries for the levels {target.levels}")
        for name in libraries:
            beginning = archive.read(name)[:20]
            # ELF has its machine at byte 18
            if target.magic not in (beginning[18:20], beginning[:8]):
                found.append(f"{name}: is for another machine")
    return found


def try_here(wheel: Path) -> str:
    """Install a wheel into an environment of its own, and return the level of its kernels that was loaded."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-q", str(wheel)], check=True)
        code = "from dikkat_runtime.native.library import library; print(library()[1])"
        return subprocess.run(
            [python, "-c", code], check=True, capture_output=True, text=True, cwd=folder
        ).stdout.strip()


def compile_by_zig(words: list[str]) -> None:
    """Become zig's clang, which spells the levels of x86 in its own way; libraries without names of local symbols."""
    spelt = ["-s", *(word.replace("-march=x86-64-v", "-march=x86_64_v") for word in words)]
    os.execv(sys.executable, [sys.executable, "-m", "ziglang", "cc", *spelt])


def main() -> None:
    """Build, check and try the wheels."""
    if sys.argv[1:2] == ["cc"]:
        compile_by_zig(sys.argv[2:])
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all if absent")
    options.add_argument("--out", type=Path, default=Path("dist"), help="folder of the wheels")
    known = options.parse_args()
    known.out.mkdir(parents=True, exist_ok=True)
    wrong = []
    for name in known.targets or TARGETS:
        wheel = build(TARGETS[name], known.out)
        wrong += problems(wheel, TARGETS[name])
        own = f"{'many' if platform.libc_ver()[0] == 'glibc' else 'musl'}linux-{platform.machine()}"
        loaded = try_here(wheel) if name == own else ""
        if name == own and loaded not in TARGETS[name].levels.split():
            wrong.append(f"{wheel.name}: its libraries were passed over, and {loaded} loaded: did a source change?")
        tried = f"loads its kernels for {loaded} here" if loaded else "cannot run here"
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, {tried}", flush=True)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
