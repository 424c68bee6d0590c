"""Write and read the messages between the server and a worker process: fields as JSON, and bytes."""

import json
import struct
from typing import Any, BinaryIO

HEAD = struct.Struct("<II")
"""The bytes of the fields, and of what comes after them."""
Fields = dict[str, Any]


def frame(fields: Fields, data: bytes = b"") -> bytes:
    """Return a message of these fields, which `data` follows."""
    text = json.dumps(fields).encode()
    return HEAD.pack(len(text), len(data)) + text


def read_frame(pipe: BinaryIO) -> tuple[Fields, bytes] | None:
    """Return the next message of a pipe, None at its end."""
    head = pipe.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    fields_size, data_size = HEAD.unpack(head)
    text, data = pipe.read(fields_size), pipe.read(data_size)
    return (json.loads(text), data) if len(text) == fields_size and len(data) == data_size else None
