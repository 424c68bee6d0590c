"""How the page writes a number, in both languages."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from dikkat.explain.page.document import asset

VALUES = (-0.001, 0.0, -0.0, -0.006, 1.25, -1234.5)
WRITTEN = {
    "en": ["0.00", "0.00", "0.00", "−0.01", "1.25", "−1,234.50"],
    "tr": ["0,00", "0,00", "0,00", "−0,01", "1,25", "−1.234,50"],
}


@pytest.mark.parametrize("language", WRITTEN)
def test_what_rounds_to_zero_has_no_sign(language: str) -> None:
    if shutil.which("node") is None:
        pytest.skip("needs Node 20: apt-get install nodejs")
    values = "[" + ", ".join(map(repr, VALUES)) + "]"
    script = f"const state = {{ language: {json.dumps(language)} }};\n{asset('language.js')}\n"
    script += f"console.log(JSON.stringify({values}.map((value) => number(value))));"
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == WRITTEN[language]
