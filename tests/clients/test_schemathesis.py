"""Thousands of requests made up from the OpenAPI page: none may break the server or be answered as nobody said.

`SCHEMATHESIS_EXAMPLES` are those of each route; there are some fifty routes.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.clients.environments import schemathesis_environment
from tests.runtime.runs import classifier_run, language_model_run, translator_run
from tests.runtime.server.process import started

pytestmark = pytest.mark.nightly

EXAMPLES = os.environ.get("SCHEMATHESIS_EXAMPLES", "120")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def test_no_made_up_request_breaks_the_server(tmp_path: Path) -> None:
    runs = [
        f"en-fr={translator_run(tmp_path / 'mt')}",
        f"mood={classifier_run(tmp_path / 'mood')}",
        f"lm={language_model_run(tmp_path / 'lm')}",
    ]
    python, work = schemathesis_environment(), tmp_path / "work"
    work.mkdir()
    with started(*runs, "--beam", "1") as (_, url):
        command = [str(python.parent / "schemathesis"), "run", f"{url}/openapi.json", "--phases", "fuzzing"]
        command += ["--checks", CHECKS, "--max-examples", EXAMPLES, "--no-shrink", "--continue-on-failure"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=work, check=False, timeout=3600)
    assert done.returncode == 0, done.stdout[-8000:]
