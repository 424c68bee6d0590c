"""Decide who may send requests: by the host that a request names, its origin, and its key."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.requests import Request

from dikkat_runtime.server.keys import Key, find_key, read_keys
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.settings import LOOPBACK, ServeSettings

KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
KEY_FIELDS = ("api_key", "apiKey", "auth_key", "key")
_MOST_CHECKED = 64
_SCHEMES = ("bearer", "deepl-auth-key", "token")


class Access:
    """The rules of access of one server."""

    def __init__(self, settings: ServeSettings) -> None:
        """Raises as `read_keys`."""
        self.keys = read_keys(settings.keys) if settings.keys else []
        self._hosts = {*LOOPBACK, settings.host.lower(), socket.gethostname().lower()}
        self._hosts |= {host.lower() for host in settings.allowed_hosts}
        self._checked = set[str]()
        """Hosts as they were sent, found to be ours before."""
        self._origins = {origin.lower().rstrip("/") for origin in settings.allowed_origins}

    @property
    def needs_key(self) -> bool:
        """True if a key must be given."""
        return bool(self.keys)

    def check_host(self, host: str) -> None:
        """Raise `RequestError` for a name that is not ours: a page elsewhere may have pointed it at this machine.

        Where a key is needed, such a page has none, so that any name will do.
        """
        if host in self._checked or self.needs_key:
            return
        name = _host_name(host)
        if name not in self._hosts and not _is_address(name):
            raise RequestError("forbidden", "this host name is not the server's; start it with --allow-host NAME")
        if len(self._checked) < _MOST_CHECKED:
            self._checked.add(host)

    def allows_origin(self, origin: str) -> bool:
        """Return whether a page of another origin may read answers."""
        return "*" in self._origins or origin.lower() in self._origins

    def check_origin(self, origin: str, host: str) -> None:
        """Raise `RequestError` for a request that a page of another origin makes."""
        if _host_and_port(origin) != host.lower() and not self.allows_origin(origin):
            raise RequestError(
                "forbidden", "pages of this origin may not ask; start the server with --allow-origin URL"
            )

    def key_before_body(self, request: Request, query: Mapping[str, object]) -> Key | None:
        """Return the key in the headers or the query of a request, None where there is none.

        Raises `RequestError` for one that is not known.
        """
        if not self.needs_key:
            return None
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() in _SCHEMES and credentials.strip():
            return self._known(credentials.strip())
        named = next((key for name in KEY_HEADERS if (key := request.headers.get(name))), None)
        return self._known(named) if named else self._key_among(query)

    def key_in_body(self, values: Mapping[str, object]) -> Key:
        """Return the key among the fields of a body. Raises `RequestError`."""
        key = self._key_among(values)
        if key is None:
            raise RequestError("unauthorized", "an API key is needed")
        return key

    def _key_among(self, values: Mapping[str, object]) -> Key | None:
        presented = next((key for name in KEY_FIELDS if isinstance(key := values.get(name), str) and key), None)
        return self._known(presented) if presented else None

    def _known(self, presented: str) -> Key:
        key = find_key(self.keys, presented)
        if key is None:
            raise RequestError("unauthorized", "the API key is not known")
        return key


def _host_and_port(origin: str) -> str:
    """Return host and port of an origin, empty where it has none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _host_name(host: str) -> str:
    """Return a host without port and brackets."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
