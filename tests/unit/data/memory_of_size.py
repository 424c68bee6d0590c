"""A translation memory of any size, and what it takes to read one; also a command: SIZE_MIB."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.peak_memory import peak_mebibytes

from dikkat.data.readers import LanguageChoice, read_pairs

UNIT = (
    '<tu tuid="{number}" creationdate="20260101T000000Z"><prop type="x">y</prop>'
    '<tuv xml:lang="en-US"><seg>The dog &amp; cat {number} of <bpt i="1">&lt;b&gt;</bpt>house {number}<ept'
    ' i="1">&lt;/b&gt;</ept> sleep.</seg></tuv>'
    '<tuv xml:lang="tr-TR"><seg>{number} numaralı evin {number} köpeği ve kedisi uyuyor.</seg></tuv>'
    '<tuv xml:lang="de-DE"><seg>Hund und Katze {number} schlafen.</seg></tuv></tu>\n'
)


def write_memory(path: Path, size: int) -> int:
    """Write a memory of about `size` bytes; returns its units."""
    number = 0
    with path.open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header srclang="en-US"/><body>\n')
        while file.tell() < size:
            file.write("".join(UNIT.format(number=number + step) for step in range(1000)))
            number += 1000
        file.write("</body></tmx>\n")
    return number


def main() -> None:
    """Read a memory of so many MiB and print pairs, and the peak of this process in MiB before and after."""
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        path = Path(folder) / "memory.tmx"
        units = write_memory(path, int(sys.argv[1]) << 20)
        before = peak_mebibytes()
        pairs = sum(1 for _ in read_pairs([str(path)], languages=LanguageChoice("en", "tr")))
        after = peak_mebibytes()
    print(f"{units} {pairs} {before:.1f} {after:.1f}")


if __name__ == "__main__":
    main()
