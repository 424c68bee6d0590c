"""A server of small models in this process, asked as clients ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.runs import classifier_run, language_model_run, translator_run

for _module in ("dikkat_runtime", "starlette", "uvicorn", "prometheus_client", "python_multipart"):
    pytest.importorskip(_module, reason="needs dikkat-runtime[serve]: pip install -e './runtime[serve]'")

from tests.runtime.server.asking import Served, served  # noqa: E402

from dikkat_runtime.server.models import Catalog  # noqa: E402


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One run of each kind. Look, do not touch; else copy it."""
    folder = tmp_path_factory.mktemp("served")
    return {
        "mt": translator_run(folder / "en-fr"),
        "cl": classifier_run(folder / "mood"),
        "lm": language_model_run(folder / "lm"),
    }


@pytest.fixture(scope="session")
def catalog(runs: dict[str, Path]) -> Catalog:
    return Catalog([f"en-fr={runs['mt']}", f"mood={runs['cl']}", f"lm={runs['lm']}"])


@pytest.fixture(scope="module")
def server(catalog: Catalog) -> Iterator[Served]:
    """One that answers this machine without a key."""
    with served(catalog) as server:
        yield server
