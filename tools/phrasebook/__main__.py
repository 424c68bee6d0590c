"""Write the sentences that `dikkat.lessons.phrasebook` reads: `python -m tools.phrasebook`."""

from __future__ import annotations

import gzip
import io

from tools.phrasebook.generate import rows

from dikkat.lessons.phrasebook import COLUMNS, DATA, MAX_PAIRS


def main() -> None:
    """Write the same bytes for the same grammar, whatever the time is and the file's name."""
    lines = ["\t".join(row) for row in (COLUMNS, *rows(MAX_PAIRS))]
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
    DATA.write_bytes(packed.getvalue())
    print(f"{DATA}: {len(lines) - 1} sentences, {DATA.stat().st_size} bytes")


if __name__ == "__main__":
    main()
