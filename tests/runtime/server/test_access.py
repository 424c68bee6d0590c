"""Nobody gets in who should not: keys, host names, pages of other origins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.server.asking import Served, served

from dikkat_runtime.errors import DataError, MissingInputError, UsageError
from dikkat_runtime.server.keys import new_key, read_keys
from dikkat_runtime.server.models import Catalog
from dikkat_runtime.server.settings import ServeSettings

ASK = {"q": "Yes.", "source": "en", "target": "fr"}


def test_a_key_is_asked_for_and_taken_wherever_a_client_puts_it(catalog: Catalog, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    key = new_key(keys, "bob")
    assert key not in keys.read_text()
    with served(catalog, keys=keys) as server:
        ask = server.client.post
        assert ask("/translate", json=ASK).status_code == 403
        assert ask("/translate", json={**ASK, "api_key": "wrong"}).status_code == 403
        ways: list[dict[str, Any]] = [
            {"json": {**ASK, "api_key": key}},
            {"json": {**ASK, "apiKey": key}},
            {"data": {**ASK, "api_key": key}},
            {"params": {**ASK, "api_key": key}},
            {"params": {**ASK, "key": key}},
            {"json": ASK, "headers": {"Authorization": f"Bearer {key}"}},
            {"json": ASK, "headers": {"Authorization": f"DeepL-Auth-Key {key}"}},
            {"json": ASK, "headers": {"X-Goog-Api-Key": key}},
        ]
        for way in ways:
            assert ask("/translate", **way).status_code == 200, way
        for path, status in (("/v2/usage", 403), ("/v1/models", 401), ("/metrics", 401), ("/info", 401)):
            assert server.client.get(path).status_code == status
        assert server.client.get("/health").status_code == 200
        assert server.get("/frontend/settings")["keyRequired"] is True


def test_glossaries_of_one_key_are_not_seen_by_another(catalog: Catalog, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    mine, yours = ({"Authorization": f"DeepL-Auth-Key {new_key(keys, name)}"} for name in ("mine", "yours"))
    with served(catalog, keys=keys) as server:
        entries = {"name": "g", "source_lang": "en", "target_lang": "fr", "entries": "a\tb"}
        created = server.client.post("/v2/glossaries", json=entries, headers=mine).json()
        path = f"/v2/glossaries/{created['glossary_id']}"
        assert server.client.get(path, headers=mine).status_code == 200
        assert server.client.get(path, headers=yours).status_code == 404
        assert server.client.delete(path, headers=yours).status_code == 404


def test_the_limits_of_a_key_hold_and_say_when_to_come_again(catalog: Catalog, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    few, short = new_key(keys, "few"), new_key(keys, "short")
    first, second = keys.read_text().splitlines()
    keys.write_text(f"# who may ask\n{first} requests=2\n\n{second} characters=10\n")
    with served(catalog, keys=keys) as server:
        codes = [server.client.post("/translate", json={**ASK, "api_key": few}).status_code for _ in range(3)]
        assert codes == [200, 200, 429]
        again = server.client.post("/v1/embeddings", json={}, headers={"Authorization": f"Bearer {few}"})
        assert again.status_code == 429
        assert 0 < int(again.headers["retry-after"]) <= 30
        assert again.json()["error"]["code"] == "rate_limit_exceeded"
        long = {**ASK, "q": "x" * 11, "api_key": short}
        assert server.client.post("/translate", json=long).status_code == 400
        assert server.client.post("/translate", json={**ASK, "api_key": short}).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:5000", 200),
        ("127.0.0.1", 200),
        ("[::1]:5000", 200),
        ("192.168.1.7:80", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("", 403),
        ("a b", 403),
    ],
)
def test_only_own_host_names_are_answered(server: Served, host: str, status: int) -> None:
    assert server.client.get("/languages", headers={"Host": host}).status_code == status


def test_a_host_name_that_was_allowed_is_answered(catalog: Catalog) -> None:
    with served(catalog, allowed_hosts=("translate.example",)) as server:
        assert server.client.get("/languages", headers={"Host": "translate.example:443"}).status_code == 200


def test_pages_of_other_origins_are_turned_away_unless_allowed(catalog: Catalog, server: Served) -> None:
    for origin in ("https://evil.example", "null", "http://localhost:8000"):
        answer = server.client.post("/translate", json=ASK, headers={"Origin": origin})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
    own = server.client.post("/translate", json=ASK, headers={"Origin": "http://localhost"})
    assert own.status_code == 200
    with served(catalog, allowed_origins=("https://cat.example/",)) as other:
        headers = {"Origin": "https://cat.example", "Access-Control-Request-Method": "POST"}
        before = other.client.options("/translate", headers=headers)
        assert before.headers["access-control-allow-origin"] == "https://cat.example"
        after = other.client.post("/translate", json=ASK, headers={"Origin": "https://cat.example"})
        assert after.headers["access-control-allow-origin"] == "https://cat.example"
        assert other.client.options("/translate", headers={**headers, "Origin": "https://a.example"}).status_code == 403


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"host": "0.0.0.0"}, "--keys FILE to ask for an API key, or --open"),
        ({"runs": ()}, "at least one run"),
        ({"port": 70_000}, "port"),
        ({"keys": Path("k"), "is_open": True}, "one of the two"),
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ServeSettings(**{"runs": ("x",), **settings})
    ServeSettings(runs=("x",), host="0.0.0.0", is_open=True)


def test_a_file_of_keys_is_checked(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    with pytest.raises(MissingInputError, match="--new-key"):
        read_keys(keys)
    new_key(keys, "bob")
    assert os.stat(keys).st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="already a key called bob"):
        new_key(keys, "bob")
    with pytest.raises(UsageError, match="is not a name for a key"):
        new_key(keys, "b b")
    line = keys.read_text()
    for bad in ("bob secret\n", line.replace("\n", " requests=0\n"), line.replace("\n", " cats=3\n"), f"{line}x\n"):
        keys.write_text(bad)
        with pytest.raises(DataError, match=f"{keys}:[12]: not a key"):
            read_keys(keys)
    keys.write_text("# none\n")
    with pytest.raises(DataError, match="holds no key"):
        read_keys(keys)
    keys.write_text(line)
    keys.chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        read_keys(keys)
