"""Reads files by translate-toolkit, writes what it saw as JSON, and each file again beside it.

A file that it cannot read is left out.
Run by the Python of its own environment (translate-toolkit is GPL and no part of dikkat).
"""

import json
import sys
from pathlib import Path

from translate.storage import base, factory  # type: ignore[import-not-found, unused-ignore]

seen = {}
for name in sys.argv[1:]:
    path = Path(name)
    try:
        store = factory.getobject(str(path))
    except (SyntaxError, ValueError, base.ParseError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        continue
    units = [unit for unit in store.units if not unit.isheader()]
    seen[path.name] = [[str(unit.source), str(unit.target or ""), bool(unit.isfuzzy())] for unit in units]
    again = path.with_name(f"again-{path.name}")
    store.savefile(str(again))
print(json.dumps(seen))
