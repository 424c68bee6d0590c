"""A port that nobody else is given until it is used."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a free port of this computer, which other programs that ask for any port are not given meanwhile.

    Whoever names it may listen there, if it lets addresses be used again, as PyTorch's store does.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", 0))
        yield int(probe.getsockname()[1])
