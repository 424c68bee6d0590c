"""Three shapes of each family of Hugging Face, small and unlike each other in what its models differ in.

They differ in heads that share keys, widths of heads, separate matrices, biases, activations, kinds and scalings of
positions, windows shorter than the text, caps, padding, and numbers of layers. The first shape of a family is a usual
one.
"""

from __future__ import annotations

from typing import Any

Shapes = dict[str, tuple[str, dict[str, Any]]]
SIZE = 257
USUAL = {
    "vocab_size": SIZE, "hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 3, "intermediate_size": 40,
    "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None,
}  # fmt: skip
GROUPED = {**USUAL, "num_key_value_heads": 2}
ONE_KEY = {**USUAL, "num_key_value_heads": 1, "num_hidden_layers": 1}
WIDE = {**USUAL, "hidden_size": 32}
APART = {"tie_word_embeddings": False}
TIED = {"tie_word_embeddings": True}
NEO = {name: value for name, value in USUAL.items() if name not in ("num_hidden_layers", "num_attention_heads")}
LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 32}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 300.0}
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "rope_theta": 500.0, "original_max_position_embeddings": 32,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0,
}  # fmt: skip
LONG = {
    "rope_type": "longrope", "short_factor": [1.0, 1.5, 2.0], "long_factor": [2.0, 4.0, 8.0], "rope_theta": 10000.0,
}  # fmt: skip
TWO_BASES = {
    "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 700.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
}
GLOBAL, LOCAL = "full_attention", "sliding_attention"
TINY_GPT2 = {"vocab_size": SIZE, "n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 96}
WINDOWS = {"head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 12}

DECODERS: Shapes = {
    "llama": ("Llama", GROUPED),
    "llama-linear": ("Llama", {**USUAL, "rope_parameters": LINEAR}),
    "llama-llama3": ("Llama", {**GROUPED, "rope_parameters": LLAMA3, **TIED}),
    "llama-yarn": ("Llama", {**GROUPED, "rope_parameters": YARN, "attention_bias": True, "mlp_bias": True}),
    "llama-wide-heads": ("Llama", {**GROUPED, "head_dim": 10}),
    "llama-one-key": ("Llama", {**ONE_KEY, "hidden_act": "gelu", "rope_parameters": DYNAMIC, "rms_norm_eps": 0.01}),
    "mistral": ("Mistral", {**GROUPED, "sliding_window": 5}),
    "mistral-whole": ("Mistral", {**GROUPED, "sliding_window": None}),
    "mistral-one-key": ("Mistral", {**ONE_KEY, "head_dim": 14, "sliding_window": 1, **TIED}),
    "qwen2": ("Qwen2", GROUPED),
    "qwen2-window": ("Qwen2", {**GROUPED, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen2-one-key": ("Qwen2", {**ONE_KEY, **TIED, "rope_parameters": LINEAR}),
    "qwen3": ("Qwen3", {**GROUPED, "head_dim": 8}),
    "qwen3-biases": ("Qwen3", {**ONE_KEY, "head_dim": 6, "attention_bias": True, **TIED}),
    "qwen3-window": (
        "Qwen3",
        {**USUAL, "head_dim": 8, "num_key_value_heads": 4, "use_sliding_window": True, "sliding_window": 3,
         "layer_types": [LOCAL, GLOBAL, LOCAL], "rope_parameters": YARN},
    ),
    "smollm3": ("SmolLM3", {**GROUPED, "no_rope_layer_interval": 2}),
    "smollm3-listed": (
        "SmolLM3",
        {**GROUPED, **APART, "no_rope_layers": [0, 1, 0], "attention_bias": True, "mlp_bias": True},
    ),
    "smollm3-one-key": ("SmolLM3", {**ONE_KEY, "rope_parameters": LLAMA3}),
    "olmo2": ("Olmo2", GROUPED),
    "olmo2-biases": ("Olmo2", {**USUAL, "num_hidden_layers": 1, "attention_bias": True, **TIED}),
    "olmo2-one-key": ("Olmo2", {**ONE_KEY, "rope_parameters": YARN, "rms_norm_eps": 0.01}),
    "gemma": ("Gemma", {**GROUPED, "head_dim": 8}),
    "gemma-one-key": ("Gemma", {**ONE_KEY, "head_dim": 10, "hidden_act": "gelu", **APART}),
    "gemma-biases": ("Gemma", {**USUAL, "num_key_value_heads": 4, "head_dim": 6, "hidden_act": "silu",
                               "attention_bias": True, "rope_parameters": LINEAR}),
    "gemma2": ("Gemma2", {**GROUPED, **WINDOWS}),
    "gemma2-caps": (
        "Gemma2",
        {**GROUPED, **WINDOWS, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0,
         "layer_types": [GLOBAL, LOCAL, GLOBAL], "attention_bias": True},
    ),
    "gemma2-no-caps": (
        "Gemma2",
        {**ONE_KEY, **WINDOWS, **APART, "head_dim": 14, "attn_logit_softcapping": None,
         "final_logit_softcapping": None},
    ),
    "gemma3": ("Gemma3", {**GROUPED, **WINDOWS}),
    "gemma3-two-bases": (
        "Gemma3",
        {**GROUPED, **WINDOWS, "layer_types": [LOCAL, GLOBAL, LOCAL], "rope_parameters": TWO_BASES,
         "attention_bias": True},
    ),
    "gemma3-cap": ("Gemma3", {**ONE_KEY, **WINDOWS, "layer_types": [GLOBAL], "final_logit_softcapping": 3.0, **APART}),
    "pythia": ("GPTNeoX", WIDE),
    "neox-one-after-the-other": ("GPTNeoX", {**WIDE, "use_parallel_residual": False}),
    "neox-whole-heads": (
        "GPTNeoX",
        {**USUAL, "num_hidden_layers": 1, "attention_bias": False, "hidden_act": "relu", **TIED,
         "rope_parameters": {**LINEAR, "partial_rotary_factor": 1.0}},
    ),
    "phi": ("Phi", WIDE),
    "phi-grouped": ("Phi", {**WIDE, "num_key_value_heads": 2, "num_hidden_layers": 1, "hidden_act": "gelu"}),
    "phi-whole-heads": (
        "Phi",
        {**USUAL, **TIED,
         "rope_parameters": {"rope_type": "default", "rope_theta": 90.0, "partial_rotary_factor": 1.0}},
    ),
    "phi3": ("Phi3", {**GROUPED, "sliding_window": 6}),
    "phi3-long": ("Phi3", {**GROUPED, "rope_parameters": LONG, "original_max_position_embeddings": 100}),
    "phi3-half-heads": (
        "Phi3",
        {**WIDE, "num_key_value_heads": 1, "num_hidden_layers": 1, **TIED,
         "rope_parameters": {"rope_type": "default", "rope_theta": 90.0, "partial_rotary_factor": 0.5}},
    ),
    "gpt2": ("GPT2", TINY_GPT2),
    "gpt2-odd-heads": ("GPT2", {**TINY_GPT2, "n_embd": 21, "n_inner": 50, "activation_function": "relu", **APART}),
    "gpt2-one-layer": ("GPT2", {**TINY_GPT2, "n_layer": 1, "n_head": 1, "activation_function": "gelu"}),
    "gpt-neo": (
        "GPTNeo",
        {**NEO, "num_layers": 2, "num_heads": 4, "window_size": 5, "attention_types": [[["global", "local"], 1]]},
    ),
    "gpt-neo-two-lists": (
        "GPTNeo",
        {**NEO, "num_layers": 3, "num_heads": 4, "window_size": 3, "intermediate_size": 50, **APART,
         "attention_types": [[["local"], 2], [["global"], 1]]},
    ),
    "gpt-neo-odd-heads": (
        "GPTNeo",
        {**NEO, "hidden_size": 21, "num_layers": 1, "num_heads": 3, "window_size": 1, "intermediate_size": None,
         "attention_types": [[["local"], 1]], "activation_function": "gelu"},
    ),
    "opt": ("OPT", {**USUAL, "ffn_dim": 40, "word_embed_proj_dim": 24}),
    "opt-odd-heads": (
        "OPT",
        {**USUAL, "hidden_size": 21, "num_attention_heads": 3, "word_embed_proj_dim": 21, "ffn_dim": 30,
         "num_hidden_layers": 1, "pad_token_id": 5},
    ),
    "opt-apart": ("OPT", {**USUAL, "ffn_dim": 40, "word_embed_proj_dim": 24, "activation_function": "gelu", **APART}),
    "bloom": ("Bloom", {"vocab_size": SIZE, "hidden_size": 24, "n_head": 3, "n_layer": 2}),
    "bloom-odd-heads": ("Bloom", {"vocab_size": SIZE, "hidden_size": 28, "n_head": 4, "n_layer": 1}),
    "bloom-apart": ("Bloom", {"vocab_size": SIZE, "hidden_size": 30, "n_head": 6, "n_layer": 3, **APART}),
}  # fmt: skip
"""Without a native engine: all of BLOOM, and Gemma 2 where it caps scores."""

TYPES = {**USUAL, "type_vocab_size": 2, "hidden_dropout_prob": 0.0}
ODD = {**USUAL, "hidden_size": 21, "num_attention_heads": 3, "num_hidden_layers": 1, "hidden_act": "relu"}
ONE_TYPE = {**TYPES, "type_vocab_size": 1}
OF_ROBERTA = {**ONE_TYPE, "pad_token_id": 1}
DISTIL = {"vocab_size": SIZE, "dim": 24, "n_heads": 4, "n_layers": 3, "hidden_dim": 40}
DEBERTA = {
    **USUAL, "relative_attention": True, "position_buckets": 6, "max_relative_positions": 20,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "type_vocab_size": 0,
}  # fmt: skip
MODERN = {**USUAL, "local_attention": 8, "cls_token_id": 1, "sep_token_id": 1, "eos_token_id": 1}
NO_KEYS = {"share_att_key": False, "norm_rel_ebd": "none"}
ENCODERS: Shapes = {
    "bert": ("Bert", TYPES),
    "bert-odd-heads": ("Bert", {**ODD, "type_vocab_size": 1, "layer_norm_eps": 0.01}),
    "bert-three-types": ("Bert", {**TYPES, "type_vocab_size": 3, "hidden_act": "gelu_new", "num_hidden_layers": 2}),
    "roberta": ("Roberta", OF_ROBERTA),
    "roberta-odd-heads": ("Roberta", {**ODD, "type_vocab_size": 2, "pad_token_id": 0}),
    "roberta-pad-3": ("Roberta", {**OF_ROBERTA, "pad_token_id": 3, "hidden_act": "silu", "num_hidden_layers": 2}),
    "xlm-r": ("XLMRoberta", OF_ROBERTA),
    "xlm-r-odd-heads": ("XLMRoberta", {**ODD, "type_vocab_size": 1, "pad_token_id": 1}),
    "xlm-r-two-types": ("XLMRoberta", {**TYPES, "pad_token_id": 2, "layer_norm_eps": 0.01, "num_hidden_layers": 2}),
    "camembert": ("Camembert", OF_ROBERTA),
    "camembert-odd-heads": ("Camembert", {**ODD, "type_vocab_size": 1, "pad_token_id": 1}),
    "camembert-two-types": ("Camembert", {**TYPES, "pad_token_id": 1, "hidden_act": "gelu_new"}),
    "distilbert": ("DistilBert", DISTIL),
    "distilbert-odd-heads": ("DistilBert", {**DISTIL, "dim": 21, "n_heads": 3, "n_layers": 1, "activation": "relu"}),
    "distilbert-fixed-positions": ("DistilBert", {**DISTIL, "sinusoidal_pos_embds": True, "n_heads": 1, "n_layers": 2}),
    "electra": ("Electra", {**TYPES, "embedding_size": 16}),
    "electra-wide": ("Electra", {**TYPES, "embedding_size": 24}),
    "electra-odd-heads": ("Electra", {**ODD, "embedding_size": 30, "type_vocab_size": 1}),
    "albert": ("Albert", {**TYPES, "embedding_size": 16}),
    "albert-wide": ("Albert", {**TYPES, "embedding_size": 24}),
    "albert-odd-heads": ("Albert", {**ODD, "embedding_size": 8, "type_vocab_size": 1}),
    "mpnet": ("MPNet", {**USUAL, "pad_token_id": 1}),
    "mpnet-odd-heads": ("MPNet", {**ODD, "pad_token_id": 1}),
    "mpnet-pad-0": ("MPNet", {**USUAL, "pad_token_id": 0, "hidden_act": "gelu_new", "num_hidden_layers": 2}),
    "modernbert": ("ModernBert", MODERN),
    "modernbert-biases": (
        "ModernBert",
        {**MODERN, "layer_types": [LOCAL, GLOBAL, LOCAL], "rope_parameters": TWO_BASES, "attention_bias": True,
         "local_attention": 4, "hidden_activation": "silu", "classifier_activation": "relu"},
    ),
    "modernbert-one-layer": ("ModernBert", {**MODERN, "num_hidden_layers": 1, "num_attention_heads": 2}),
    "nomic": ("NomicBert", {**TYPES, "hidden_act": "silu"}),
    "nomic-gelu": ("NomicBert", {**ONE_TYPE, "hidden_act": "gelu", "num_hidden_layers": 1, "num_attention_heads": 2}),
    "nomic-base": (
        "NomicBert",
        {**TYPES, "layer_norm_eps": 0.01, "rope_parameters": {"rope_type": "default", "rope_theta": 40.0}},
    ),
    "deberta-v3": ("DebertaV2", DEBERTA),
    "deberta-v2-exact": ("DebertaV2", {**DEBERTA, "position_buckets": -1, **NO_KEYS}),
    "deberta-v2-both": ("DebertaV2", {**DEBERTA, "position_biased_input": True, "type_vocab_size": 2}),
    "deberta-v2-odd-heads": (
        "DebertaV2",
        {**DEBERTA, **ODD, "pos_att_type": ["c2p"], "share_att_key": False, "pooler_hidden_act": "tanh"},
    ),
}  # fmt: skip

PAIR = {
    "vocab_size": SIZE, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 96,
    "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "bos_token_id": 3, "forced_eos_token_id": None,
    "scale_embedding": True,
}  # fmt: skip
UNEVEN = {
    **PAIR, "d_model": 22, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_layers": 3,
    "decoder_layers": 1, "scale_embedding": False, "activation_function": "relu",
}  # fmt: skip
OTHER_MARKS = {"pad_token_id": 3, "eos_token_id": 4, "decoder_start_token_id": 4}
TEE = {
    "vocab_size": SIZE, "d_model": 24, "d_kv": 10, "d_ff": 40, "num_layers": 2, "num_heads": 3, "pad_token_id": 0,
    "eos_token_id": 1, "decoder_start_token_id": 0,
}  # fmt: skip
GATED = {**TEE, "feed_forward_proj": "gated-gelu"}
SMALL_TEE = {**TEE, "feed_forward_proj": "gated-silu", "d_kv": 7, "num_layers": 1, "num_decoder_layers": 3}
BYTES = {"vocab_size": 384}
LANGUAGE = {"forced_bos_token_id": 40}
PAIRS: Shapes = {
    "marian": ("MarianMT", PAIR),
    "marian-uneven": ("MarianMT", {**UNEVEN, **OTHER_MARKS}),
    "marian-swish": ("MarianMT", {**PAIR, "activation_function": "swish", "encoder_layers": 1, "decoder_layers": 3}),
    "bart": ("Bart", {**PAIR, "scale_embedding": False, "decoder_start_token_id": 1}),
    "bart-uneven": ("Bart", {**UNEVEN, **OTHER_MARKS, **LANGUAGE}),
    "bart-scaled": ("Bart", {**PAIR, "activation_function": "gelu_new", "encoder_layers": 1}),
    "mbart": ("MBart", PAIR),
    "mbart-language": ("MBart", {**PAIR, **OTHER_MARKS, **LANGUAGE}),
    "mbart-uneven": ("MBart", {**UNEVEN, "decoder_start_token_id": 90}),
    "pegasus": ("Pegasus", PAIR),
    "pegasus-uneven": ("Pegasus", {**UNEVEN, **OTHER_MARKS}),
    "pegasus-one-layer": ("Pegasus", {**PAIR, "encoder_layers": 1, "decoder_layers": 1, "activation_function": "silu"}),
    "m2m": ("M2M100", {**PAIR, "pad_token_id": 1, "eos_token_id": 2}),
    "m2m-language": ("M2M100", {**PAIR, **OTHER_MARKS, **LANGUAGE}),
    # not from the padding: a padding has no position
    "m2m-uneven": ("M2M100", {**UNEVEN, "activation_function": "gelu", "decoder_start_token_id": 1}),
    "t5": ("T5", TEE),
    "t5-v1.1": ("T5", {**GATED, **APART}),
    "t5-odd-heads": ("T5", SMALL_TEE),
    "mt5": ("MT5", {**GATED, "num_decoder_layers": 3}),
    "mt5-one-layer": ("MT5", {**GATED, "num_layers": 1, "num_heads": 1, "layer_norm_epsilon": 0.01}),
    "mt5-odd-heads": ("MT5", SMALL_TEE),
    "byt5": ("T5", {**GATED, **BYTES, **APART, "num_layers": 3, "num_decoder_layers": 1}),
    "byt5-relu": ("T5", {**TEE, **BYTES}),
    "byt5-odd-heads": ("T5", {**SMALL_TEE, **BYTES, **APART}),
}
"""The folder of a name that begins with byt5 has the tokenizer of bytes."""


def three_each(shapes: Shapes) -> dict[str, list[str]]:
    """Return the names of the shapes of each family, where byT5 is a family of its own."""
    families: dict[str, list[str]] = {}
    for name, (kind, _) in shapes.items():
        families.setdefault("ByT5" if name.startswith("byt5") else kind, []).append(name)
    return families
