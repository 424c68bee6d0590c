"""An attention map carries its own axes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dikkat.explain import AttentionMap

WEIGHTS = np.full((2, 3), 1 / 3, dtype=np.float32)


def test_axes_are_kept() -> None:
    attention = AttentionMap(WEIGHTS, ("va", "!"), ("go", ".", "<eos>"), "decoder", 1, 0, "cross")
    assert attention.weights.shape == (len(attention.query_tokens), len(attention.key_tokens))


@pytest.mark.parametrize(
    ("query", "key", "message"),
    [
        (
            ("va",),
            ("go", ".", "<eos>"),
            "query axis T: the weights have 2 positions, but 1 tokens were given",
        ),
        (("va", "!"), ("go", "."), "key axis S: the weights have 3 positions, but 2 tokens were given"),
        (
            ("go", ".", "<eos>"),
            ("va", "!"),
            "query axis T: the weights have 2 positions, but 3 tokens were given",
        ),
    ],
)
def test_tokens_must_fit_the_weights(query: tuple[str, ...], key: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttentionMap(WEIGHTS, query, key, "decoder", 0, 0, "cross")


def test_weights_of_all_heads_are_refused() -> None:
    with pytest.raises(ValueError, match=r"axes \(T, S\), but 3 axes \(4, 2, 3\) were given; pick one"):
        AttentionMap(np.zeros((4, 2, 3), dtype=np.float32), ("a", "b"), ("c", "d", "e"), "decoder", 0, 0, "self")


def test_encoder_has_no_cross_attention() -> None:
    with pytest.raises(ValueError, match="an encoder has no cross-attention"):
        AttentionMap(WEIGHTS, ("a", "b"), ("c", "d", "e"), "encoder", 0, 0, "cross")


def test_importing_explain_loads_neither_torch_nor_matplotlib() -> None:
    code = (
        "import sys, dikkat.explain, dikkat.explain.plots; sys.exit(bool({'torch', 'matplotlib'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=False).returncode
        == 0
    )
