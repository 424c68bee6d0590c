"""Format commands of this program for copying, quoted for the shell."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

NAME = "dikkat"


def command(*words: str | Path, program: str | None = None) -> str:
    """Return the line for the shell that calls this program with these `words`, whatever is in them.

    The program is named as it was called, unless `program` names it: a command that is written to a file, which is read
    elsewhere, names plain `dikkat`. A path that begins with a dash would be read as an option; it gets `./` in
    front.
    """
    return " ".join([program or called_program(), *map(_quoted, words)])


def called_program() -> str:
    """Return the words that call this program from the shell: `dikkat` where a shell finds this one, else as typed.

    Within another program it is `dikkat`.
    """
    called, on_path = Path(sys.argv[0]), shutil.which(NAME)
    if called.name == "__main__.py" and called.parent.name == NAME:
        # python -m dikkat; the command of the same environment is the same program
        if on_path is not None and Path(on_path).absolute().parent == Path(sys.executable).absolute().parent:
            return NAME
        return f"{_quoted(Path(sys.orig_argv[0]))} -m {NAME}"
    if called.name != NAME or os.sep not in sys.argv[0]:
        return NAME
    is_on_path = on_path is not None and called.exists() and called.samefile(on_path)
    return NAME if is_on_path else _quoted(called)


def piped(*words: str | Path, text: str = "") -> str:
    """Return the line for the shell that gives `text` (or … in its place) to the standard input of a command."""
    return f"echo {_quoted(text) if text else '…'} | {command(*words)}"


def without_options(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the words of a command without the options of these names, and their values."""
    kept: list[str] = []
    is_value = False
    for word in words:
        name, equals, _ = word.partition("=")
        if not is_value and name not in names:
            kept.append(word)
        is_value = not is_value and name in names and not equals
    return kept


def _quoted(word: str | Path) -> str:
    text = f"./{word}" if isinstance(word, Path) and str(word).startswith("-") else str(word)
    if text.isprintable():
        return shlex.quote(text)
    # control characters, and bytes that are not UTF-8, as bash, zsh and POSIX.1-2024 read them
    content = text.encode("utf-8", "surrogateescape")
    shown = "".join(chr(byte) if 32 <= byte < 127 and byte not in b"\\'" else f"\\x{byte:02x}" for byte in content)
    return f"$'{shown}'"
