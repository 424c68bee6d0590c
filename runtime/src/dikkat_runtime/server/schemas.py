"""Pieces of JSON schema that several interfaces share."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": dict(items)}


def either(*schemas: Schema) -> Schema:
    return {"anyOf": [dict(schema) for schema in schemas]}


def words(*among: str) -> Schema:
    return {"type": "string", "enum": list(among)}


def whole(low: int, high: int) -> Schema:
    """Return the schema of a whole number within limits."""
    return {"type": "integer", "minimum": low, "maximum": high}


def fields(required: Mapping[str, Schema] | None = None, /, **others: Schema) -> Schema:
    """Return the schema of an object with the `required` fields, which may have the `others` and yet others."""
    properties = {name: dict(own) for name, own in {**(required or {}), **others}.items()}
    return {"type": "object", "properties": properties} | ({"required": list(required)} if required else {})


def required(**properties: Schema) -> Schema:
    """Return the schema of an object that has all of these fields."""
    return fields(properties)


TEXTS: Schema = either(TEXT, {"type": "array", "items": {"type": "string"}, "minItems": 1})
"""One text or several."""
