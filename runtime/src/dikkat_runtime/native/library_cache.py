"""Folders that keep the compiled kernels, and the checks before a library is trusted.

A library is named for its sources and its processor, and for the digest of its own bytes:
`kernels-MACHINE-KEY-DIGEST.so`. Only files are loaded that nobody but this user or root can have written, and whose
bytes have the digest of their name. Beside them lie `kernels-MACHINE-KEY.failed`, the record of a compilation that
failed, and `lock`, which the process that compiles holds.
"""

import hashlib
import json
import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, dataclass
from functools import cache
from pathlib import Path

import dikkat_runtime.notices as notices
from dikkat_runtime.errors import msg, reason_of
from dikkat_runtime.files import sync_directory, take_lock
from dikkat_runtime.native.cpu import processor_flags, processor_kind

# The C sources of the kernels, the options of the compiler, and the digest that names a library.

FOLDER = Path(__file__).parent / "c"
SOURCES, HEADERS = (tuple(sorted(FOLDER.glob(f"*.{suffix}"))) for suffix in ("c", "h"))
# every compiler fuses multiplications and additions
_FLAGS = (
    "-O3",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-pthread",
    "-shared",
    "-fPIC",
)
# compilers halve the vectors on processors that once ran slower with full ones
_WHOLE_VECTORS = "-mprefer-vector-width=512"
_AVX512 = ("-march=x86-64-v4", "-mavx512vnni", _WHOLE_VECTORS)
_NATIVE = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
LEVELS = {
    "native": (_NATIVE, *([_WHOLE_VECTORS] if "avx512f" in processor_flags() else [])),
    "avx2": ("-march=x86-64-v3",),
    "avx512": _AVX512,
    "armv8": ("-mcpu=generic",),
    "amx": (*_AVX512, "-mavx512bf16", "-mamx-tile", "-mamx-int8", "-mamx-bf16"),
}
"""Options of the compiler for each level; `cpu.NEEDS` lists the processor flags of each level."""


def flags_of(level: str) -> tuple[str, ...]:
    """Return the compiler options of a level of `LEVELS`; `DIKKAT_OPENMP=0` asks for the kernels' own threads."""
    return (*_FLAGS, *LEVELS[level], *(["-DNO_OPENMP"] if os.environ.get("DIKKAT_OPENMP") == "0" else []))


@cache
def source_digest(level: str) -> str:
    """Return sixteen hexadecimal digits that depend on sources, options and, if it matters, the processor."""
    texts = [path.read_text(encoding="utf-8") for path in (*HEADERS, *SOURCES)]
    named = "\n".join([*texts, *flags_of(level), processor_kind() if level == "native" else ""])
    return hashlib.sha256(named.encode()).hexdigest()[:16]


BYTES_TO_COMPILE = 16 << 20
"""Bytes that a folder must have free: the library, its objects and the compiler's temporary files take a third."""


class BusyError(Exception):
    """Another process held the lock all the time."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A compilation that failed and is not tried again."""

    reason: str
    compiler: str
    """The first line of its version."""
    date: str
    seconds: float
    """The time limit of the compilation."""
    timed_out: bool

    @classmethod
    def read(cls, path: Path) -> "Failure | None":
        """Return the failure at `path`, or None where there is none that can be read and trusted."""
        try:
            with open(_open(path), "rb") as file:
                failure = cls(**json.loads(file.read()))
        except (OSError, ValueError, TypeError):
            return None
        values = astuple(failure)
        return failure if tuple(map(type, values)) == (str, str, str, float, bool) else None


def cache_folder() -> Path | None:
    """Return the usual folder, `$XDG_CACHE_HOME/dikkat`, by default `~/.cache/dikkat`; None where there is no home.

    A relative `XDG_CACHE_HOME` is ignored, as the XDG Base Directory Specification says.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if base.is_absolute():
        return base / "dikkat"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ".cache" / "dikkat" if home.is_absolute() else None


def temporary_folder() -> Path | None:
    """Return the folder used where the usual one fails: private to this user, and lost when the computer restarts."""
    try:
        return Path(tempfile.gettempdir()) / f"dikkat-{os.geteuid()}"
    except OSError:
        return None


def problem_of(folder: Path) -> str | None:
    """Return why a folder is not trusted, or None where it is trusted or does not exist yet."""
    try:
        link, status = folder.lstat(), folder.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return msg("{folder}: {reason}", folder, reason_of(error))
    if not stat.S_ISDIR(status.st_mode):
        return msg("{folder}: not a folder", folder)
    owners = {link.st_uid, status.st_uid} - {0, os.geteuid()}
    if owners:
        return msg("{folder}: belongs to another user (number {owner})", folder, owners.pop())
    if status.st_mode & 0o022:
        return msg("{folder}: others may write into it (chmod go-w would forbid it)", folder)
    return None


def prepare(folder: Path) -> None:
    """Create the folder if missing, and check that a library can be compiled into it. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    problem = problem_of(folder)
    if problem is not None:
        raise PermissionError(problem)
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(bytes(BYTES_TO_COMPILE))
        probe.flush()


def open_library(folder: Path, stem: str) -> tuple[int, Path] | None:
    """Return the open file descriptor of the library of this stem and a path to load it from; None where there is none.

    A damaged library is removed.
    """
    for path in sorted(folder.glob(f"{stem}-*.so")):
        with suppress(OSError):
            descriptor = _open(path)
            with open(descriptor, "rb", closefd=False) as file:
                digest = _digest(file.read())
            if path.stem == f"{stem}-{digest}":
                # the checked file is the loaded one, even if somebody moves the folder meanwhile
                held = Path(f"/proc/self/fd/{descriptor}")
                return descriptor, held if held.exists() else path
            os.close(descriptor)
            notices.note(msg("{path}: damaged; the native kernels are compiled again", path))
            path.unlink()
    return None


def keep_library(folder: Path, stem: str, built: Path) -> None:
    """Move a library that was built in a folder within `folder` to its final name, with fsync.

    A power cut leaves the whole library or nothing of it.
    """
    built.chmod(0o755)
    with built.open("rb") as file:
        digest = _digest(file.read())
        os.fsync(file.fileno())
    built.replace(folder / f"{stem}-{digest}.so")
    sync_directory(folder)


def failure_path(folder: Path, stem: str) -> Path:
    return folder / f"{stem}.failed"


def remember(folder: Path, stem: str, failure: Failure) -> None:
    """Write the failure down. Raises `OSError`."""
    with tempfile.TemporaryDirectory(prefix=BUILDING, dir=folder) as scratch:
        path = Path(scratch) / "failure"
        path.write_text(json.dumps(asdict(failure), indent=1) + "\n", encoding="utf-8")
        path.replace(failure_path(folder, stem))
    sync_directory(folder)


BUILDING = "building-"
"""Prefix of the names of folders in which something is built."""


@contextmanager
def locked(folder: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of a prepared folder. Raises `BusyError` where another process holds it for `seconds` seconds.

    Leftovers of processes that died while compiling are removed.
    """
    with (folder / "lock").open("w") as file:
        is_held = take_lock(file.fileno())
        if is_held is False:
            notices.note("waiting for another process that compiles the native kernels")
            is_held = take_lock(file.fileno(), seconds)
        if is_held is False:
            raise BusyError
        # without locks two processes may do the same work, each next to the leftovers of the other
        for left in folder.glob(f"{BUILDING}*") if is_held else ():
            shutil.rmtree(left, ignore_errors=True)
        yield


def _open(path: Path) -> int:
    """Open a regular file that nobody but this user or root can have written. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        os.close(descriptor)
        raise PermissionError(f"{path}: others may have written it")
    return descriptor


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
