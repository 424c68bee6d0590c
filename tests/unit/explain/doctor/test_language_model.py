"""A language model is examined on what applies to it: no false alarm, and a future that is seen is found."""

from __future__ import annotations

import pytest
import torch
from tests.unit.explain.doctor.patients import dropping_model, named
from tests.unit.models.small import config, shake

from dikkat.explain.doctor import CLAIMS, examine
from dikkat.explain.doctor.specimen import draw
from dikkat.models.factory import build_language_model
from dikkat.models.language_model import LanguageModel, Objective
from dikkat.nn.cache import StackCache
from dikkat.nn.masks import causal_mask

ALL = {claim.name for claim in CLAIMS} - {"padding changes nothing"}
OF_WRITING = {"no future in evaluation", "no future in training", "positions advance", "step = teacher forcing"}


def small_language_model(objective: Objective = "causal", **settings: object) -> LanguageModel:
    model = build_language_model(config(**settings), objective, seed=1)
    shake(model)
    return model.eval()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm_placement": "post", "dropout": 0.2, "attention_dropout": 0.1},
        {"positions": "rotary", "num_kv_heads": 2},
        {"positions": "learned", "max_positions": 10, "embedding_norm": True, "tie_embeddings": False},
        {"positions": "alibi"},
        {"attention_window": 2, "global_tokens": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("objective", ["causal", "prefix", "masked"])
def test_a_sound_language_model_passes(objective: Objective, settings: dict[str, object]) -> None:
    proofs = examine(small_language_model(objective, **settings))
    asked = ALL - OF_WRITING if objective == "masked" else ALL
    assert {proof.name for proof in proofs} == asked
    assert named(proofs, "pass") == asked, [proof for proof in proofs if not proof.passed]


@pytest.mark.seed("F36")
def test_a_visible_future_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dikkat.models.language_model.causal_mask", lambda *size, device: torch.ones_like(causal_mask(*size))
    )
    proofs = examine(small_language_model())
    assert named(proofs, "fail") == {"no future in evaluation", "no future in training"}
    assert named(proofs, "follows") == {"step = teacher forcing"}


def test_a_cache_that_is_not_reordered_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StackCache, "reorder", lambda self, index: None)
    proofs = examine(small_language_model())
    assert (named(proofs, "fail"), named(proofs, "follows")) == ({"step = teacher forcing"}, set())


def test_a_model_that_does_not_write_has_no_steps() -> None:
    specimen = draw(small_language_model("masked"), 1)
    assert not specimen.writes
    assert not specimen.reads_source
    assert draw(dropping_model(), 1).writes
