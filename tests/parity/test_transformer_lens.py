"""Head scores, logit lens, attribution and patching, against TransformerLens on the same random GPT-2.

It is no requirement: `pip install transformer-lens==2.16.1` into an environment of its own, and run this file there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.parity.test_huggingface_checkpoints import gpt2, our_language_model, read_imported

from dikkat.explain.head_analysis.circuits import attribution, detection_scores, logit_lens, patching
from dikkat.models.language_model import LanguageModel
from dikkat.nn.recorder import record_attention

lens = pytest.importorskip("transformer_lens", reason="needs TransformerLens: pip install transformer-lens")
TOKENS = torch.tensor([17, 5, 230, 91, 17, 5, 230, 91, 17, 5])
NEAR = 1e-4


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[LanguageModel, Any]:
    """Return the model as ours and as theirs, with weights large enough that every part has an effect."""
    folder: Path = tmp_path_factory.mktemp("gpt2")
    torch.manual_seed(3)
    gpt2(folder)
    network = transformers.GPT2LMHeadModel.from_pretrained(folder)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    network.save_pretrained(folder)
    config = network.config
    theirs = lens.HookedTransformer(
        lens.HookedTransformerConfig(
            n_layers=config.n_layer, d_model=config.n_embd, n_ctx=config.n_positions, n_heads=config.n_head,
            d_head=config.n_embd // config.n_head, d_mlp=4 * config.n_embd, d_vocab=config.vocab_size,
            act_fn="gelu_new", eps=config.layer_norm_epsilon, normalization_type="LN",
        )
    )  # fmt: skip
    state = lens.loading_from_pretrained.convert_gpt2_weights(network, theirs.cfg)
    theirs.load_state_dict(state, strict=False)
    return our_language_model(read_imported(folder)), theirs.eval()


@torch.no_grad()
def test_both_compute_the_same(both: tuple[LanguageModel, Any]) -> None:
    ours, theirs = both
    torch.testing.assert_close(ours(TOKENS[None]), theirs(TOKENS[None]), rtol=0, atol=NEAR)


@torch.no_grad()
def test_scores_of_heads(both: tuple[LanguageModel, Any]) -> None:
    ours, theirs = both
    _, cache = theirs.run_with_cache(TOKENS[None])
    with record_attention(ours) as maps:
        ours.hidden(TOKENS[None])
    names = {
        "previous": "get_previous_token_head_detection_pattern",
        "duplicate": "get_duplicate_token_head_detection_pattern",
        "induction": "get_induction_head_detection_pattern",
    }
    for name, (weights,) in maps.items():
        scores = detection_scores(weights[0].double().numpy(), TOKENS.tolist())
        for pattern, function in names.items():
            cells = getattr(lens.head_detector, function)(TOKENS[None])
            for head, score in enumerate(scores[pattern]):
                attention = cache["pattern", name.layer][0, head]
                expected = lens.head_detector.compute_head_attention_similarity_score(
                    attention, cells, exclude_bos=False, exclude_current_token=False, error_measure="mul"
                )
                assert score == pytest.approx(expected, abs=NEAR)


@torch.no_grad()
def test_logit_lens_and_attribution(both: tuple[LanguageModel, Any]) -> None:
    ours, theirs = both
    _, cache = theirs.run_with_cache(TOKENS[None])
    streams = torch.stack([cache["resid_post", layer][0] for layer in range(theirs.cfg.n_layers)])
    expected = theirs.unembed(theirs.ln_final(streams)).log_softmax(-1)
    torch.testing.assert_close(logit_lens(ours, TOKENS), expected, rtol=0, atol=NEAR)
    answer = 42
    parts = attribution(ours, TOKENS, answer)
    heads = cache.stack_head_results(pos_slice=-1)
    networks = torch.stack([cache["mlp_out", layer][:, -1] for layer in range(theirs.cfg.n_layers)])
    for stack, values in ((heads, parts.heads.ravel()), (networks, parts.feed_forwards)):
        scaled = cache.apply_ln_to_stack(stack, layer=-1, pos_slice=-1) * theirs.ln_final.w
        np.testing.assert_allclose(values, (scaled[:, 0] @ theirs.W_U[:, answer]).numpy(), rtol=0, atol=NEAR)


@torch.no_grad()
def test_patching(both: tuple[LanguageModel, Any]) -> None:
    ours, theirs = both
    other, answers = TOKENS.clone(), (42, 7)
    other[3] = 60
    _, clean = theirs.run_with_cache(TOKENS[None])

    def difference(logits: torch.Tensor) -> torch.Tensor:
        return logits[0, -1, answers[0]] - logits[0, -1, answers[1]]

    whole, nothing = difference(theirs(TOKENS[None])), difference(theirs(other[None]))
    patched = lens.patching.get_act_patch_resid_pre(
        theirs, other[None], clean, lambda logits: (difference(logits) - nothing) / (whole - nothing)
    )
    np.testing.assert_allclose(patching(ours, TOKENS, other, answers), patched.numpy(), rtol=0, atol=NEAR)
