"""Call the application of a server in tests, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.testclient import TestClient

from dikkat_runtime.server.application import build_application
from dikkat_runtime.server.call import Services
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.server.settings import ServeSettings

HERE = "http://localhost"
BEAM = 2


@dataclass(frozen=True)
class Served:
    """A server and a client of it."""

    services: Services
    client: TestClient

    def post(self, path: str, status: int = 200, **fields: Any) -> Any:
        """The JSON that fields sent as JSON are answered with."""
        answer = self.client.post(path, json=fields)
        assert answer.status_code == status, answer.text
        return answer.json()

    def get(self, path: str, status: int = 200) -> Any:
        """The JSON of an address."""
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        return answer.json()


@contextmanager
def served(catalog: Catalog, **settings: Any) -> Iterator[Served]:
    """A server of these models with these settings."""
    services = Services(ServeSettings(**{"runs": ("x",), "beam_size": BEAM, **settings}), catalog)
    with TestClient(build_application(services), base_url=HERE) as client:
        yield Served(services, client)
