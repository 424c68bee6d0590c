"""The settings of a server, which its keeper chooses."""

from dataclasses import dataclass, field
from pathlib import Path

from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import UsageError

READING_BYTES = 2_000_000
"""Bytes of a file after which it may take longer to read."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one request, and of all waiting ones together."""

    body_bytes: int = 2_000_000
    upload_bytes: int = 20_000_000
    texts: int = 2048
    """Texts in one request."""
    characters: int = 200_000
    """Characters of all texts of one request."""
    text_characters: int = 50_000
    """Characters of one text."""
    alternatives: int = 10
    new_tokens: int = 4096
    """Tokens that a language model writes for one request."""
    body_seconds: float = 20.0
    """Time for a client to send its request."""
    wait_seconds: float = 10.0
    """Estimated time in the queue above which a request is turned away."""
    request_seconds: float = 120.0
    """Time that a request may take, unless it names a shorter one."""
    connections: int = 2000
    memory_bytes: int = 256_000_000
    """Bytes of all requests and files that are read or answered; small requests do not count."""
    unkeyed_bytes: int = 32_000_000
    """Bytes among them of requests whose key is not known yet."""
    batch_tokens: int = 4096
    """Source tokens that are computed together, padding included."""
    interactive_segments: int = 8
    """A request of more segments is bulk, which is taken after the others."""
    ageing_seconds: float = 1.0
    """Time after which waiting bulk counts as interactive."""
    head_seconds: float = 10.0
    """Time for the lines before a body."""
    glossaries: int = 100
    """Glossaries of one owner."""
    glossary_entries: int = 10_000
    """Terms of one glossary."""
    documents: int = 16
    """Files of one owner that are kept, translated or not."""
    document_seconds: float = 3600.0
    """Time during which a translated file can be fetched."""
    workers: int = 2
    """Processes that read documents, and as many that read texts with tags."""
    reading_seconds: float = 20.0
    """Processor time to read and write a file, and as much again for each `READING_BYTES` of it."""
    reading_bytes: int = 512_000_000
    """Memory to read and write a file."""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The options of `serve`. Raises `UsageError` for values that do not go together."""

    runs: tuple[str, ...]
    """Run directories, each as DIR or NAME=DIR."""
    host: str = "127.0.0.1"
    port: int = 5000
    keys: Path | None = None
    """File of hashed API keys."""
    is_open: bool = False
    """Answer anybody who reaches the port."""
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    precision: PrecisionName = "auto"
    all_words: bool = False
    """True if the shortlist of words of a translator is left aside."""
    threads: int | None = None
    beam_size: int = 5
    drain_seconds: float = 30.0
    log_requests: bool = False
    memories: tuple[Path, ...] = ()
    """Translation memories for the translators of their languages."""
    takes_corrections: bool = False
    """True if callers may replace translations of a model by their own."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.runs:
            raise UsageError("name at least one run directory to serve")
        if not 0 <= self.port <= 65535:
            raise UsageError("the port must be a whole number from 0 to 65535, not {port}", self.port)
        if not 1 <= self.beam_size <= 64:
            raise UsageError("the beam must be a whole number from 1 to 64, not {beam_size}", self.beam_size)
        if not self.is_loopback and self.keys is None and not self.is_open:
            raise UsageError(
                "others can reach {host}: give --keys FILE to ask for an API key, or --open to answer anyone"
            ).fill(self.host)
        if self.keys is not None and self.is_open:
            raise UsageError("--keys asks for a key and --open answers anyone; give one of the two")

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach the server."""
        return self.host in LOOPBACK
