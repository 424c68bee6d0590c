"""The settings of a server, which its keeper chooses."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import UsageError, msg

READING_BYTES = 2_000_000
"""Bytes of a file after which it may take longer to read."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


_WHERE, WHO, _HOW = "where", msg("who may ask"), msg("how to compute")
_ONE, _ALL = msg("what one request may ask for"), msg("what all together may ask for")


@dataclass(frozen=True, slots=True)
class Setting:
    """Name a field, `--NAME` on the command line and NAME in a file, and say what it is for."""

    name: str
    help: str
    group: str = _ONE
    """The heading of the option in the help."""
    metavar: str = ""
    """If absent, N of a count, and SECONDS of a time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one request, and of all waiting ones together; "all" are those of one owner where keys are used."""

    batch_tokens: Annotated[
        int, Setting("batch-tokens", "Source tokens in a batch; 1 is one text at a time.", _HOW)
    ] = 4096
    """Padding included."""
    body_bytes: Annotated[int, Setting("max-body", "Bytes of a request.")] = 2_000_000
    upload_bytes: Annotated[int, Setting("max-upload", "Bytes of a request with a file.")] = 20_000_000
    texts: Annotated[int, Setting("max-texts", "Texts of a request.")] = 2048
    characters: Annotated[int, Setting("max-characters", "Characters of all its texts.")] = 200_000
    text_characters: Annotated[int, Setting("max-text-characters", "Characters of one text.")] = 50_000
    alternatives: Annotated[int, Setting("max-alternatives", "Other translations of a text.")] = 10
    new_tokens: Annotated[int, Setting("max-new-tokens", "Tokens that a language model writes.")] = 4096
    glossary_entries: Annotated[int, Setting("max-terms", "Terms of a glossary.")] = 10_000
    head_seconds: Annotated[
        float, Setting("head-timeout", "Time for the first lines of a request; then the connection is closed.")
    ] = 10.0
    body_seconds: Annotated[
        float, Setting("body-timeout", "Time for the rest of a request; then it is answered 408.")
    ] = 20.0
    request_seconds: Annotated[
        float, Setting("request-timeout", "Time for the answer to a request; then it is answered 503.")
    ] = 120.0
    """A request may name a shorter time."""
    reading_seconds: Annotated[
        float, Setting("reading-timeout", "Processor time to read a file; more for each 2 MB.")
    ] = 20.0
    """As much again for each `READING_BYTES` of it."""
    reading_bytes: Annotated[int, Setting("reading-memory", "Bytes of memory to read a file.")] = 512_000_000
    wait_seconds: Annotated[float, Setting("max-wait", "A request that would wait longer is answered 429.", _ALL)] = (
        10.0
    )
    interactive_segments: Annotated[
        int, Setting("interactive-segments", "A request of more segments is bulk.", _ALL)
    ] = 8
    """Bulk is taken after the others."""
    ageing_seconds: Annotated[float, Setting("ageing", "How long bulk requests let later ones go first.", _ALL)] = 1.0
    connections: Annotated[int, Setting("max-connections", "Connections; further ones are closed.", _ALL)] = 2000
    workers: Annotated[int, Setting("workers", "Processes that read files, and as many for texts with tags.", _ALL)] = 2
    memory_bytes: Annotated[
        int, Setting("max-memory", "Bytes of all large requests together; further ones are answered 429.", _ALL)
    ] = 256_000_000
    """Of requests and files that are read or answered; small requests do not count."""
    unkeyed_bytes: Annotated[
        int, Setting("max-unkeyed", "The same for requests whose key has not been checked yet.", _ALL)
    ] = 32_000_000
    documents: Annotated[int, Setting("max-documents", "Files kept for each key, translated or not.", _ALL)] = 16
    document_seconds: Annotated[
        float, Setting("keep-documents", "How long a translated file can be fetched.", _ALL)
    ] = 3600.0
    glossaries: Annotated[int, Setting("max-glossaries", "Glossaries of each key.", _ALL)] = 100


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The options of `serve`. Raises `UsageError` for values that do not go together."""

    runs: tuple[str, ...]
    """Run directories, each as DIR or NAME=DIR."""
    host: Annotated[
        str, Setting("host", "Address to listen on; by default, only this computer can connect.", _WHERE)
    ] = "127.0.0.1"
    port: Annotated[int, Setting("port", "Port to listen on; 0 is any free port.", _WHERE)] = 5000
    log_requests: Annotated[bool, Setting("log-requests", "Log one line per request, without its text.", _WHERE)] = (
        False
    )
    keys: Annotated[
        Path | None, Setting("keys", "File of API keys; requests without one of them are refused.", WHO)
    ] = None
    """The keys are hashed in it."""
    is_open: Annotated[bool, Setting("open", "Answer anyone who can reach --host, without a key.", WHO)] = False
    takes_corrections: Annotated[
        bool, Setting("corrections", "Keep and use the better translations that clients send.", WHO)
    ] = False
    allowed_hosts: Annotated[
        tuple[str, ...], Setting("allow-host", "Another host name of the server.", WHO, "NAME")
    ] = ()
    allowed_origins: Annotated[
        tuple[str, ...], Setting("allow-origin", "Allow web pages of this origin (CORS); * allows all.", WHO, "URL")
    ] = ()
    memories: Annotated[
        tuple[Path, ...], Setting("memory", "Translation memory (.tmx, .tsv), named as its file.", _HOW)
    ] = ()
    precision: Annotated[
        PrecisionName, Setting("precision", "int8 is faster; auto decides by what training measured.", _HOW)
    ] = "auto"
    beam_size: Annotated[
        int, Setting("beam", "Beam size: hypotheses that are followed side by side; 1 is greedy search.", _HOW)
    ] = 5
    all_words: Annotated[bool, Setting("all-words", "Ignore the run's shortlist of words.", _HOW)] = False
    threads: Annotated[
        int | None, Setting("threads", "Threads to compute with; by default, one per processor.", _HOW)
    ] = None
    drain_seconds: Annotated[float, Setting("drain", "Time for the last answers after SIGTERM.", _ALL)] = 30.0
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
