"""Write the bill of materials of a release (SBOM, CycloneDX JSON): both packages, what they need, and what they carry.

    python -m venv env && env/bin/pip install dist/*.whl
    pip install cyclonedx-bom
    python -m tools.sbom env --out dist/dikkat.cdx.json

The packages and their licences are read by cyclonedx-py from the environment. To them are added the files of the two
wheels that are not Python, JavaScript or C of this repository. It ends with an error where a licence is not known, or
where a package carries a kind of file that `CARRIED` does not account for.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

OWN = "Apache-2.0"
SOURCES = (".py", ".js", ".ts", ".c", ".h", ".css", ".html", ".po", ".svg", ".txt", ".typed", ".1", "LICENSE", "NOTICE")
"""Endings of what is written in this repository and shipped as it stands."""
CARRIED = {
    "libgomp.so.1": ("GPL-3.0-or-later WITH GCC-exception-3.1", "OpenMP library of gcc, next to the kernels"),
    "kernels-*.so": (OWN, "kernels, compiled from the C sources of the package"),
    "core.wasm": (OWN, "the core of the page, compiled from core.c"),
    "phrasebook.tsv.gz": (OWN, "sentences that the grammar of tools/phrasebook makes"),
    "00?*.md": (OWN, "lessons of the page"),
    "web/module/package.json": (OWN, "description of the exported module"),
    "web/module/readme.md": (OWN, "introduction to the exported module"),
}
"""Licence and meaning of the other files, by their names. No font, image or script of others is shipped."""


def carried(packages: Path) -> list[dict[str, Any]]:
    """Return a component for each file of the two packages that is not a source."""
    components, unknown = [], []
    for package in ("dikkat", "dikkat_runtime"):
        for path in sorted((packages / package).rglob("*")):
            if path.is_dir() or "__pycache__" in path.parts:
                continue
            known = next((value for pattern, value in CARRIED.items() if path.match(pattern)), None)
            name = str(path.relative_to(packages))
            if known is None:
                unknown += [] if path.name.endswith(SOURCES) else [name]
                continue
            licence, meaning = known
            components.append(
                {
                    "type": "file",
                    "bom-ref": f"file:{name}",
                    "name": name,
                    "description": meaning,
                    "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
                    "licenses": [{"expression": licence}],
                }
            )
    if unknown:
        raise SystemExit(f"no licence is known of {', '.join(unknown)}: add it to CARRIED of tools/sbom.py")
    return components


def unlicensed(components: list[dict[str, Any]]) -> list[str]:
    """Return the names of components that state no licence."""
    return [component["name"] for component in components if not component.get("licenses")]


def bill(python: Path) -> dict[str, Any]:
    """Return what cyclonedx-py reads from an environment, with the files that the packages carry."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--sv", "1.6", str(python)]
    document: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    code = "import dikkat_runtime, pathlib; print(pathlib.Path(dikkat_runtime.__file__).parents[1])"
    packages = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    document["components"] += carried(Path(packages))
    return document


def validate(text: str) -> str | None:
    """Return what the schema of CycloneDX 1.6 finds wrong, or None."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return None if error is None else repr(error)


def main() -> None:
    """Write and check the bill."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("environment", type=Path, help="virtual environment in which both packages are installed")
    options.add_argument("--out", type=Path, required=True, help="JSON file to write")
    known = options.parse_args()
    document = bill(known.environment / "bin" / "python")
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    if wrong := validate(text):
        sys.exit(wrong)
    known.out.write_text(text, encoding="utf-8")
    components = document["components"]
    if without := unlicensed(components):
        sys.exit(f"{known.out}: no licence is stated by {', '.join(without)}")
    print(f"{known.out}: {len(components)} components, each with a licence; valid CycloneDX 1.6")


if __name__ == "__main__":
    main()
