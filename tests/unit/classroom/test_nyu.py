"""The lecture's functions and classes: sets of columns, [soft](arg)max, the recipe book, and the size of its model."""

from __future__ import annotations

import pytest
import torch

from dikkat.config import build_config, preset
from dikkat.lessons.classroom import KeyValueStore, nyu
from dikkat.models.factory import build_classifier

SHINY = torch.tensor([0.7842, 1.3569, 1.2487])
RECIPES = {"Apple pie": "bake", "Bread": "knead", "Lasagne al forno": "layers", "Lemonade": "stir", "Pizza": "oven"}


@pytest.mark.seed("A6")
@pytest.mark.parametrize(
    ("beta", "expected"),
    [(0.0, [1 / 3] * 3), (1.0, [0.2291, 0.4063, 0.3646]), (10.0, [0.0024, 0.7451, 0.2525]), (1000.0, [0.0, 1.0, 0.0])],
)
def test_the_temperature_sharpens_the_choice(beta: float, expected: list[float]) -> None:
    torch.testing.assert_close(nyu.softargmax(SHINY[None], beta)[0], torch.tensor(expected), rtol=0, atol=1e-4)
    assert nyu.softargmax(SHINY[None], hard=True)[0].tolist() == [0, 1, 0]


@pytest.mark.seed("A3")
def test_columns_are_mixed_by_columns() -> None:
    X = torch.randn(4, 6)
    H, A = nyu.self_attention(X)
    torch.testing.assert_close(A, (X.T @ X).softmax(0))
    torch.testing.assert_close(H, X @ A)
    torch.testing.assert_close(A.sum(0), torch.ones(6))


@pytest.mark.seed("A7")
def test_argmax_gets_the_lasagne_and_softargmax_all_recipes_in_order() -> None:
    store = KeyValueStore(RECIPES)
    assert store.get("lasagne") == "layers"
    result = store.search("lasagne")
    assert result[0].title == "Lasagne al forno"
    assert sorted(item.title for item in result) == sorted(RECIPES)
    assert sum(item.share for item in result) == pytest.approx(1.0, abs=1e-6)
    assert [item.share for item in result] == sorted((item.share for item in result), reverse=True)
    assert result[0].share > 2 * result[1].share
    assert [item.share for item in store.search("xyz")] == pytest.approx([0.2] * 5)
    with pytest.raises(ValueError, match="a store needs at least one entry"):
        KeyValueStore({})


@pytest.mark.seed("A21", "A24")
def test_output_and_weights_of_inputs_of_three_widths() -> None:
    part = nyu.MultiHeadAttention(8, 2, 0.0, d_input=(3, 5, 7))
    H, A = part(torch.randn(2, 4, 3), torch.randn(2, 6, 5), torch.randn(2, 6, 7))
    assert H.shape == (2, 4, 8)
    assert A.shape == (2, 2, 4, 6)
    assert not part.attention.has_readers, "nobody reads after the call"
    with pytest.raises(ValueError, match="num_heads must divide model_dim"):
        nyu.MultiHeadAttention(8, 3, 0.0)


@pytest.mark.parametrize("masked", [False, True])
def test_one_text_without_a_batch_axis_has_weights_without_one(masked: bool) -> None:
    part = nyu.MultiHeadAttention(8, 2, 0.0)
    X_q, X_k = torch.randn(4, 8), torch.randn(6, 8)
    mask = torch.rand(4, 6) < 0.5 if masked else None
    H, A = part(X_q, X_k, X_k, mask)
    assert H.shape == (4, 8)
    assert A.shape == (2, 4, 6)
    for alone, of_batch in zip((H, A), part(X_q[None], X_k[None], X_k[None], mask), strict=True):
        torch.testing.assert_close(alone, of_batch[0])


@pytest.mark.seed("A27")
def test_ids_become_vectors() -> None:
    encoder = nyu.Encoder(2, 16, 2, 32, 50)
    assert encoder(nyu.review_batch([[5, 6, 7], list(range(2, 40))], 20)).shape == (2, 20, 16)


@pytest.mark.seed("A28")
def test_the_lecture_s_model_and_our_preset_have_1612802_parameters() -> None:
    model = nyu.TransformerClassifier(1, 32, 2, 128, 50002, 2)
    assert nyu.parameters(model) == 1_612_802
    settings = preset("imdb_seed")
    config = build_config({**settings, "model": {**settings["model"], "vocab_size": 50_002}})
    ours = build_classifier(config.model, config.classifier, num_classes=2, seed=1)
    assert nyu.parameters(ours) == 1_612_802
