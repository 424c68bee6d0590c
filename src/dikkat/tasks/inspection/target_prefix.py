"""Refuse to inspect translators whose every output begins with a token that is never shown."""

from __future__ import annotations

from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat_runtime.errors import UsageError


def require_no_prefix(model: EncoderDecoder) -> None:
    """Raise `UsageError` for a translator with a `target_prefix`, whose maps have a row that no written token has."""
    if model.target_prefix is not None:
        raise UsageError(
            "this translator begins every output with a token that is never shown (model.target_prefix), which is not"
            " inspected here; its maps are shown by `dikkat attend`"
        )
