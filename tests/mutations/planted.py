"""Mutations, one or more a row of the seed checklist: each breaks what the row describes, and a test of the row fails.

A text must stand exactly once in its file, or, where code has moved, once in all sources: then the file is found by it.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """`old` becomes `new` in `file`, and the behaviour of `row` is broken."""

    row: str
    file: str
    old: str
    new: str


_NN, _MODELS, _DATA, _EXPLAIN, _KERNELS = (
    f"src/dikkat/{folder}" for folder in ("nn", "models", "data", "explain", "kernels")
)
_PRESETS = "src/dikkat/presets.py"

PRESETS = [
    Mutation("A28", _PRESETS, '"model_dim": 32, "num_heads": 2,', '"model_dim": 32, "num_heads": 4,'),
    Mutation("A28", _PRESETS, '"beginning": 1.0, "pooling": "max"', '"beginning": 1.0, "pooling": "mean"'),
    Mutation("A28", _PRESETS, '"max_tokens": 200, "beginning": 1.0', '"max_tokens": 400, "beginning": 1.0'),
    Mutation("A28", _PRESETS, '"tokens_per_batch": 32800, "learning_rate": 1e-3', '"tokens_per_batch": 32800, "learning_rate": 3e-3'),
    Mutation("A28", _PRESETS, '"embedding_norm": True, "scale_embeddings": False', '"embedding_norm": False, "scale_embeddings": False'),
    Mutation("A28", _PRESETS, '"vocab_size": 50002, "min_frequency": 1', '"vocab_size": 50002, "min_frequency": 2'),
    Mutation("E10", _PRESETS, '"model_dim": 32, "num_heads": 4,', '"model_dim": 32, "num_heads": 8,'),
    Mutation("E10", _PRESETS, '"model_dim": 32, "num_heads": 4,', '"model_dim": 32, "dropout": 0.3, "num_heads": 4,'),
    Mutation("E10", _PRESETS, '"learning_rate": 5e-3, "beta2": 0.999', '"learning_rate": 5e-3, "beta2": 0.98'),
    Mutation("E11", _PRESETS, '"beta2": 0.999, "warmup_steps": 0,\n            "final_learning_rate"', '"beta2": 0.999, "warmup_steps": 100,\n            "final_learning_rate"'),
    Mutation("E11", _PRESETS, '"max_epochs": 200.0', '"max_epochs": 100.0'),
    Mutation("E10", _PRESETS, '"attention_dropout": 0.1, ', ""),
    Mutation("E10", _PRESETS, '"final_learning_rate": 1.0, ', ""),
    Mutation("E10", _PRESETS, '"max_epochs": 200.0, "patience": 10', '"max_epochs": 200.0, "patience": 4'),
    Mutation("E1", _PRESETS, '"attention_dropout": 0.1, "norm_placement": "post"', '"attention_dropout": 0.1, "norm_placement": "pre"'),
]  # fmt: skip

ATTENTION = [
    Mutation("A1", f"{_NN}/functional.py", "    return weights @ value, weights\n", "    return weights @ key, weights\n"),
    Mutation("A3", f"{_NN}/functional.py", "        return query @ key.transpose(-2, -1)\n    if score ==", "        return -query @ key.transpose(-2, -1)\n    if score =="),
    Mutation("A4", f"{_NN}/functional.py", 'selection_rule("argmax" if hard else selection)', "selection_rule(selection)"),
    Mutation("A5", f"{_NN}/selection.py", "return torch.softmax(scores, dim=-1)", "return torch.sigmoid(scores)"),
    Mutation("A6", f"{_NN}/functional.py", "    scores = _at_least_float32(scores) * beta\n", "    scores = _at_least_float32(scores)\n"),
    Mutation("A7", f"{_NN}/functional.py", 'selection_rule("argmax" if hard else selection)', "selection_rule(selection)"),
    Mutation("A8", f"{_NN}/functional.py", "    check_same_width(query, key)\n", ""),
    Mutation("A9", f"{_NN}/multi_head_attention.py", "        return self.out_projection(output.transpose(1, 2).flatten(2))", "        return self.out_projection(output.transpose(1, 2).flatten(2).cumsum(1))"),
    Mutation("A10", f"{_NN}/functional.py", 'return 1.0 / math.sqrt(query.shape[-1]) if', "return 1.0 / query.shape[-1] if"),
    Mutation("A11", f"{_NN}/multi_head_attention.py", "q, k, v = split_widths(self.in_projection(x), self.splits)", "k, q, v = split_widths(self.in_projection(x), self.splits)"),
    Mutation("A12", f"{_NN}/checks.py", "    if head_dim is not None:\n        return head_dim\n", ""),
    Mutation("A14", f"{_MODELS}/factory.py", "for layer in range(self.config.encoder_layers)]", "for layer in range(1)]"),
    Mutation("A15", f"{_NN}/norms.py", "return _NORMS[name](model_dim, eps=eps)", "return _NORMS[name](model_dim)"),
    Mutation("A16", f"{_NN}/feed_forward.py", "return self.outer(self.inner(x, relu=True))", "return self.outer(self.inner(x))"),
    Mutation("A17", f"{_NN}/blocks.py", "lambda y: self.cross_attention(y, memory, mask=memory_mask)", "lambda y: self.cross_attention(y, y)"),
    Mutation("A20", f"{_EXPLAIN}/vector_space.py", "return exact / np.where(lengths > 0.0, lengths, 1.0)", "return exact"),
    Mutation("A21", f"{_NN}/checks.py", "    if model_dim % num_heads:\n", "    if False:\n"),
    Mutation("A22", f"{_NN}/functional.py", "    if beta is not None:\n        return beta\n", ""),
    Mutation("A23", f"{_NN}/multi_head_attention.py", "return x.unflatten(-1, (heads, self.head_dim)).transpose(1, 2)", "return x.unflatten(-1, (self.head_dim, heads)).transpose(2, 3).transpose(1, 2)"),
    Mutation("A25", f"{_NN}/residual.py", "        return self.norm(self._add(x, sub_layer(x)))", "        return self._add(x, sub_layer(self.norm(x)))"),
    Mutation("A26", f"{_NN}/positions.py", "halves = torch.stack((angles.sin(), angles.cos()))", "halves = torch.stack((angles.cos(), angles.sin()))"),
    Mutation("A27", f"{_MODELS}/classifier.py", "self.positions(self.embedding(tokens), position_ids=position_ids)", "self.embedding(tokens)"),
    Mutation("D3", f"{_NN}/feed_forward.py", "return self.outer(self.inner(x, relu=True))", "return self.outer(self.inner(x + x[:, :1], relu=True))"),
    Mutation("D5", f"{_NN}/blocks.py", "        return self.feed_forward_residual(x, self.feed_forward)\n\n\nclass CrossAttendingBlock", "        return self.feed_forward_residual(x, lambda y: self.feed_forward(y.cumsum(1)))\n\n\nclass CrossAttendingBlock"),
    Mutation("D12", f"{_NN}/multi_head_attention.py", "return x.unflatten(-1, (heads, self.head_dim)).transpose(1, 2)", "return x.unflatten(-1, (self.head_dim, heads)).transpose(2, 3).transpose(1, 2)"),
    Mutation("E2", f"{_NN}/feed_forward.py", "return self.outer(self.inner(x, relu=True))", "return self.outer(self.inner(x))"),
    Mutation("E4", f"{_NN}/residual.py", "        if x.shape != y.shape:\n", "        if False:\n"),
    Mutation("E5", f"{_NN}/residual.py", "        self.norm = named_norm(norm, model_dim, eps)", "        self.norm = nn.Sequential(named_norm(norm, model_dim, eps), named_norm(norm, model_dim, eps))"),
    Mutation("E8", f"{_NN}/blocks.py", "        x = self.cross_residual(x, lambda y: self.cross_attention(y, memory, mask=memory_mask))\n        return self.feed_forward_residual(x, self.feed_forward)\n", "        return x[:, :1]\n"),
    Mutation("E20", f"{_NN}/scores.py", "sums = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))", "sums = query.unsqueeze(-2) * key.unsqueeze(-3)"),
    Mutation("E24", f"{_NN}/learned_positions.py", "return x + (self.embedding[offset:end] if", "return x + 0 * (self.embedding[offset:end] if"),
]  # fmt: skip

ORDER = [
    Mutation("C1", f"{_NN}/masks.py", "return torch.arange(size, device=lengths.device) < rows[:, None, :, None]", "return torch.arange(size, device=lengths.device) <= rows[:, None, :, None]"),
    Mutation("C2", f"{_EXPLAIN}/comparison/costs.py", "    return 1 + layers * (kernel - 1)", "    return 1 + layers * kernel"),
    Mutation("C2", f"{_EXPLAIN}/comparison/costs.py", "    pairs = 2 * length**2 * width\n", "    pairs = 2 * length * width\n"),
    Mutation("C3", f"{_NN}/positions.py", "exponents = 2.0 * exponents / model_dim", "exponents = exponents / model_dim"),
    Mutation("C4", f"{_NN}/growing_table.py", "return compute(2 * length)", "return compute(length // 2)"),
    Mutation("C5", f"{_EXPLAIN}/drawing/position_table.py", "return 2.0 * math.pi / float", "return math.pi / float"),
    Mutation("C6", f"{_EXPLAIN}/drawing/position_table.py", "in binary is {number:03b}", "in binary is {number:b}"),
    Mutation("C8", f"{_EXPLAIN}/drawing/position_table.py", "math.sin(angle), -math.sin(angle)", "-math.sin(angle), math.sin(angle)"),
    Mutation("C9", f"{_MODELS}/factory.py", "return self.config.positions_in_every_layer and layer > 0", "return False"),
    Mutation("C9", f"{_NN}/positioned_blocks.py", "return super().forward(self.positions(x), memory, self_mask, memory_mask)", "return super().forward(x, memory, self_mask, memory_mask)"),
    Mutation("C10", f"{_NN}/named_positions.py", '"relative": lambda _, head_dim, __: RelativeKeys(head_dim)', '"relative": lambda num_heads, _, causal: BucketBias(num_heads, bidirectional=not causal)'),
    Mutation("C10", f"{_NN}/named_positions.py", '"learned": lambda model_dim, max_positions: LearnedPositions(model_dim, max_positions)', '"learned": lambda model_dim, _: SinusoidalPositions(model_dim)'),
    Mutation("D14", f"{_NN}/positions.py", "exponents = exponents / max(pairs - 1, 1)", "exponents = exponents / pairs"),
    Mutation("F1", f"{_NN}/positions.py", "halves = torch.stack((angles.sin(), angles.cos()))", "halves = torch.stack((angles.cos(), angles.sin()))"),
    Mutation("F27", f"{_NN}/growing_table.py", "    if length <= table.shape[axis]:\n", "    if True:\n"),
    Mutation("F30", f"{_NN}/positions.py", 'order = (1, 2, 0) if layout == "interleaved" else (1, 0, 2)', "order = (1, 2, 0)"),
]  # fmt: skip

HAND = [
    Mutation("B3", f"{_EXPLAIN}/trace.py", "    scores = terms.sum(axis=1)\n", "    scores = terms.mean(axis=1)\n"),
    Mutation("B4", f"{_EXPLAIN}/trace.py", "    weights = exponentials / total if", "    weights = exponentials if"),
    Mutation("B5", f"{_EXPLAIN}/trace.py", "        total=weighted.sum(axis=0),", "        total=weighted.max(axis=0),"),
    Mutation("B6", f"{_EXPLAIN}/trace.py", "    scaled = scores * cell.beta\n", "    scaled = scores\n"),
    Mutation("B7", f"{_EXPLAIN}/trace.py", "    weighted = weights[:, None] * cell.values\n", "    weighted = weights[:, None] * cell.keys[::-1]\n"),
    Mutation("B8", f"{_EXPLAIN}/trace.py", "    scores = terms.sum(axis=1)\n", "    scores = terms.sum(axis=1).round(1)\n"),
    Mutation("B11", "src/dikkat/classroom/scratch.py", "torch.cat([torch.rand(d_in, d_out).T for _ in range(3)])", "torch.cat([torch.randn(d_in, d_out).T for _ in range(3)])"),
    Mutation("B12", "src/dikkat/classroom/scratch.py", "    with torch.random.fork_rng(devices=[]):\n", "    if True:\n"),
    Mutation("B14", f"{_NN}/masks.py", "    return ones.tril(source_length - target_length)[None, None]", "    return ones.tril(source_length - target_length - 1)[None, None]"),
    Mutation("B15", f"{_KERNELS}/dropout.py", "mul_(drop_scale(threshold))", "mul_(1.0)"),
    Mutation("B16", "src/dikkat/classroom/scratch.py", "    return ours.causal_mask(x.shape[-2], device=x.device)", "    return ours.causal_mask(x.shape[-2], device=x.device).transpose(-2, -1)"),
    Mutation("B17", "src/dikkat/classroom/scratch.py", "[head[part] for part in range(3) for head in heads]", "[head[part] for head in heads for part in range(3)]"),
    Mutation("B18", "src/dikkat/classroom/scratch.py", "        _copy(self.attention, _linears(d_in, d_out, qkv_bias))\n        mixing = nn.Linear(d_out, d_out)\n", "        mixing = nn.Linear(d_out, d_out)\n        _copy(self.attention, _linears(d_in, d_out, qkv_bias))\n"),
    Mutation("B21", f"{_NN}/torch_weights.py", '    ("out_proj.bias", ("out_projection.bias",)),\n', ""),
    Mutation("B23", f"{_EXPLAIN}/three_steps.py", "steps=(_scores(trace, messages, full), _weights(trace, messages), _context(trace, messages, full))", "steps=(_scores(trace, messages, full), _context(trace, messages, full))"),
    Mutation("D8", f"{_EXPLAIN}/trace.py", "    scaled = scores * cell.beta\n", "    scaled = scores\n"),
    Mutation("D9", f"{_EXPLAIN}/six_steps.py", "DROWNED = 0.001", "DROWNED = 0.01"),
    Mutation("D9", f"{_EXPLAIN}/six_steps.py", "DROWNED = 0.001", "DROWNED = 0.0001"),
    Mutation("D10", f"{_EXPLAIN}/trace.py", "        total=weighted.sum(axis=0),", "        total=weighted[:-1].sum(axis=0),"),
    Mutation("D11", f"{_EXPLAIN}/trace.py", "    weights = exponentials / total if", "    weights = exponentials / exponentials.max() if"),
]  # fmt: skip

MODELS = [
    Mutation("D1", f"{_MODELS}/encoder_decoder.py", "        return self.project(self.decode(target, self.encode(source, source_mask), source_mask))", "        return self.project(self.decode(target, 0.0 * self.encode(source, source_mask), source_mask))"),
    Mutation("D2", f"{_MODELS}/factory.py", "blocks = [_initialized(self.decoder_block(layer)) for layer in range(self.config.decoder_layers)]", "blocks = [_initialized(self.decoder_block(0))] * self.config.decoder_layers"),
    Mutation("D4", f"{_MODELS}/factory.py", "return self.config.model_dim, self.config.num_heads, self.config.feed_forward_dim", "return 16, self.config.num_heads, self.config.feed_forward_dim"),
    Mutation("D16", f"{_MODELS}/decoder.py", "cross = [cast(CrossAttendingBlock, block).cross_attention.project_memory(memory) for block in self.blocks]", "cross = [cast(CrossAttendingBlock, self.blocks[0]).cross_attention.project_memory(memory) for _ in self.blocks]"),
    Mutation("D17", f"{_MODELS}/encoder_decoder.py", "self.positions(self.target_embedding(tokens[:, None]), offset=cache.length)", "self.positions(self.target_embedding(tokens[:, None]))"),
    Mutation("E6", f"{_NN}/embedding.py", "        return rows * self.scale\n", "        return rows[..., :1].expand(rows.shape) * self.scale\n"),
    Mutation("E7", f"{_NN}/blocks.py", "        return self.self_attention(x, cache=cache)\n", "        return self.self_attention(x)\n"),
    Mutation("E9", f"{_MODELS}/decoder.py", "        mask = causal_mask(x.shape[1], device=x.device)\n", "        mask = None\n"),
    Mutation("E12", "src/dikkat/evaluation/bleu_k.py", "** 0.5**n", "** (1 / k)"),
    Mutation("E12", "src/dikkat/evaluation/bleu_k.py", "min(0.0, 1.0 - len(expected) / len(predicted))", "0.0"),
    Mutation("E13", "src/dikkat/classroom/translating.py", "    return whole.reshape(num_layers, num_heads, -1, whole.shape[-1])", "    return whole.reshape(num_heads, num_layers, -1, whole.shape[-1])"),
    Mutation("E14", "src/dikkat/classroom/pictures.py", 'cmap: str = "Reds"', 'cmap: str = "Greens"'),
    Mutation("E15", "src/dikkat/classroom/translating.py", "F.pad(layer, (0, num_steps - layer.shape[-1]))", "F.pad(layer, (num_steps - layer.shape[-1], 0))"),
    Mutation("E16", "src/dikkat/classroom/textbook.py", "block.self_attention(y, mask=past, cache=cache)", "block.self_attention(y, cache=cache)"),
    Mutation("E17", "src/dikkat/classroom/textbook.py", "block.cross_attention(y, memory, mask=source)", "block.cross_attention(y, memory)"),
    Mutation("E18", f"{_MODELS}/language_model.py", '        if mask is None and self.objective != "masked":\n', "        if False:\n"),
    Mutation("E18", f"{_MODELS}/classifier.py", "        return self.encoder(x, key_mask(mask), position_ids=position_ids)", "        return self.encoder(x, key_mask(mask) & torch.ones(x.shape[1], x.shape[1]).tril().bool(), position_ids=position_ids)"),
    Mutation("E21", f"{_DATA}/objectives.py", "tokens = np.where(predicted & (fate < 0.8), MASK_ID, wanted)", "tokens = wanted"),
    Mutation("E21", f"{_DATA}/objectives.py", "predicted = np.arange(example.tokens.shape[1]) >= prefix[:, None] - 1", "predicted = np.arange(example.tokens.shape[1]) >= 0 * prefix[:, None]"),
    Mutation("E22", f"{_NN}/masks.py", "    mask = away.abs() <= window\n", "    mask = away.abs() < window\n"),
    Mutation("E23", f"{_NN}/linear_time_attention.py", "k = k.masked_fill(~real[:, None, :, None], 0.0)", "k = k"),
    Mutation("F5", f"{_NN}/pooling.py", "return mask.float() / mask.sum(dim=1, keepdim=True).clamp_min(1)", "return torch.ones_like(mask).float() / mask.shape[1]"),
    Mutation("F6", f"{_MODELS}/classifier.py", "        return self.encoder(x, key_mask(mask), position_ids=position_ids)", "        return self.encoder(x, None, position_ids=position_ids)"),
    Mutation("F6", f"{_NN}/pooling.py", "    return x.masked_fill(~mask[..., None], torch.finfo(x.dtype).min)", "    return x"),
    Mutation("F13", f"{_DATA}/splitting.py", '    return " ".join(_NUMBERS.sub("0", folded).translate(_WITHOUT_PUNCTUATION).split())', "    return text"),
    Mutation("F7", f"{_NN}/functional.py", "    if beta is not None:\n        return beta\n", ""),
    Mutation("F19", f"{_NN}/functional.py", "    return weights.masked_fill(hidden, 0.0) if weights.requires_grad else weights.masked_fill_(hidden, 0.0)", "    return weights"),
    Mutation("F20", f"{_NN}/checks.py", "    if model_dim % num_heads:\n", "    if False:\n"),
    Mutation("F34", f"{_NN}/norms.py", "        return layer_norm(x, self.weight, self.bias, self.eps)\n", "        return layer_norm(x - x.mean(dim=-2, keepdim=True), self.weight, self.bias, self.eps)\n"),
    Mutation("F35", f"{_MODELS}/encoder_decoder.py", "self.positions(self.target_embedding(tokens[:, None]), offset=cache.length)", "self.positions(self.target_embedding(tokens[:, None]))"),
    Mutation("F36", f"{_MODELS}/decoder.py", "        mask = causal_mask(x.shape[1], device=x.device)\n", "        mask = causal_mask(x.shape[1], device=x.device) if self.training else None\n"),
    Mutation("F39", "src/dikkat/evaluation/bleu_k.py", "    if not predicted:\n        return float(not expected)\n", ""),
]  # fmt: skip

_CLASSROOM, _PHRASEBOOK = "src/dikkat/classroom", "src/dikkat/phrasebook"
_ENCODES = "        return self.encoder(x, key_mask(source_mask))\n"
_SILENT = "        return 0.0 * self.encoder(x, key_mask(source_mask))\n"
_PRODUCT = "        return query @ key.transpose(-2, -1)\n    if score =="
_SPLITS = "q, k, v = split_widths(self.in_projection(x), self.splits)"

RECIPES = [
    Mutation("A28", _PRESETS, '"feed_forward_dim": 128, "encoder_layers": 1, "norm_placement": "post"', '"feed_forward_dim": 128, "encoder_layers": 3, "norm_placement": "post"'),
    Mutation("A28", _PRESETS, '"norm_eps": 1e-6', '"norm_eps": 1e-5'),
    Mutation("A28", _PRESETS, '"max_epochs": 10.0', '"max_epochs": 5.0'),
    Mutation("A28", _PRESETS, '"attention_bias": False, "attention_output_bias": True', '"attention_bias": False, "attention_output_bias": False'),
    Mutation("E10", _PRESETS, '"feed_forward_dim": 64, "encoder_layers": 2, "decoder_layers": 2', '"feed_forward_dim": 64, "encoder_layers": 3, "decoder_layers": 2'),
    Mutation("E10", _PRESETS, '"tokens_per_batch": 640', '"tokens_per_batch": 1280'),
    Mutation("E10", _PRESETS, '        "data": {"vocabularies": "separate"},\n', ""),
    Mutation("E11", _PRESETS, '            "output_bias": True,\n', ''),
    Mutation("E11", _PRESETS, '"tokenizer": {"kind": "words", "lowercase": True},\n        "data"', '"tokenizer": {"kind": "words", "min_frequency": 1, "lowercase": True},\n        "data"'),
    Mutation("E19", "src/dikkat/tasks/translation/prepare.py", "build_config(merge(*layers), where=request.where)", "build_config(merge(*layers[:-1]), where=request.where)"),
    Mutation("E20", "src/dikkat/tasks/translation/prepare.py", "build_config(merge(*layers), where=request.where)", "build_config(merge(*layers[:-1]), where=request.where)"),
]  # fmt: skip

SETS = [
    Mutation("A2", f"{_NN}/functional.py", "    return weights @ value, weights\n", "    return (weights @ value).cumsum(-2), weights\n"),
    Mutation("A5", f"{_NN}/functional.py", "    if mask is None:\n        return choose(scores)\n", "    if mask is None:\n        return 0.5 * choose(scores)\n"),
    Mutation("A13", f"{_MODELS}/encoder_decoder.py", _ENCODES, _SILENT),
    Mutation("A18", f"{_MODELS}/encoder_decoder.py", _ENCODES, _SILENT),
    Mutation("A19", f"{_NN}/positions.py", "        return x + (self.table[offset:end]", "        return x + 0.0 * (self.table[offset:end]"),
    Mutation("A20", f"{_EXPLAIN}/vector_space.py", "            line[row] = -np.inf\n", ""),
    Mutation("A24", f"{_NN}/multi_head_attention.py", "            self.give_weights(weights)\n", "            self.give_weights(weights.mean(1, keepdim=True))\n"),
    Mutation("A25", f"{_NN}/dropout.py", "        return kernel.dropout(x, self.probability if self.training else 0.0, residual)\n", "        return kernel.dropout(-x, self.probability if self.training else 0.0, residual)\n"),
    Mutation("A7", f"{_CLASSROOM}/key_value_store.py", "key=lambda retrieved: -retrieved.share", "key=lambda retrieved: retrieved.share"),
    Mutation("A3", f"{_CLASSROOM}/nyu.py", "    return output.transpose(-2, -1), weights.transpose(-2, -1)", "    return output.transpose(-2, -1), weights"),
    Mutation("A21", f"{_CLASSROOM}/nyu.py", "d_model, num_heads, query_dim=query, key_dim=key, value_dim=value", "d_model, num_heads, query_dim=query, key_dim=key, value_dim=key"),
    Mutation("B1", f"{_MODELS}/encoder_decoder.py", _ENCODES, _SILENT),
    Mutation("B2", f"{_EXPLAIN}/word_vectors.py", "keys = [token.casefold() if path is None else token for token in tokens]", "keys = list(tokens)"),
    Mutation("B2", f"{_EXPLAIN}/word_vectors.py", "named = tokens if len(typed) == len(tokens) else words", "named = tokens"),
    Mutation("B9", f"{_NN}/multi_head_attention.py", _SPLITS, "k, q, v = split_widths(self.in_projection(x), self.splits)"),
    Mutation("B10", f"{_NN}/functional.py", "return 1.0 / math.sqrt(query.shape[-1]) if", "return 1.0 / query.shape[-1] if"),
    Mutation("B10", f"{_NN}/functional.py", _PRODUCT, "        return query @ key.transpose(-2, -1).flip(-1)\n    if score =="),
    Mutation("B13", f"{_NN}/multi_head_attention.py", _SPLITS, "q, v, k = split_widths(self.in_projection(x), self.splits)"),
    Mutation("B19", f"{_NN}/functional.py", _PRODUCT, "        return (query @ key.transpose(-2, -1)).flip(1)\n    if score =="),
    Mutation("B20", f"{_NN}/multi_head_attention.py", "outputs = [heads * self.head_dim for heads in (num_heads, self.num_kv_heads, self.num_kv_heads)]", "outputs = [heads * self.head_dim for heads in (num_heads, num_heads, 2 * num_heads)]"),
    Mutation("B22", f"{_NN}/checks.py", "    if head_dim is not None:\n        return head_dim\n", ""),
    Mutation("B4", f"{_EXPLAIN}/trace.py", "    exponentials = np.exp(", "    exponentials = np.exp2("),
    Mutation("B5", f"{_EXPLAIN}/trace.py", "        total=weighted.sum(axis=0),", "        total=weighted.mean(axis=0),"),
    Mutation("B15", f"{_NN}/dropout.py", "        return kernel.dropout(x, self.probability if self.training else 0.0)\n", "        return x\n"),
    Mutation("D6", f"{_NN}/multi_head_attention.py", "            self.give_weights(weights)\n", "            self.give_weights(weights.flip(-1))\n"),
    Mutation("D6", "src/dikkat/training/guided_head.py", "linked = weights[sentences, self.head, rows, columns]", "linked = weights[sentences, 0, rows, columns]"),
    Mutation("D6", "src/dikkat/training/guided_head.py", "index_add(0, groups, linked)\n        return -self.weight * shares", "index_add(0, groups, linked)\n        return -shares"),
    Mutation("D6", "src/dikkat/tasks/translation/guiding.py", "np.flatnonzero(members[column]).tolist()", "np.flatnonzero(members[column]).tolist()[:1]"),
    Mutation("D6", f"{_PHRASEBOOK}/grammar.py", "        return agreement(nominal.antecedent)\n", '        return Agreement(3, False, "m")\n'),
    Mutation("D6", f"{_PHRASEBOOK}/turkish_phrases.py", "        if subject.of_subject or not isinstance(again, NounPhrase):\n", "        if True:\n"),
    Mutation("D6", f"{_PHRASEBOOK}/turkish_phrases.py", "        return kinds_of(nominal.antecedent)\n", '        return frozenset(("person",))\n'),
    Mutation("D6", f"{_PHRASEBOOK}/referents.py", "    of_subject = dice.chance(0.5)\n", "    of_subject = True\n"),
    Mutation("D6", f"{_PHRASEBOOK}/referents.py", "Anaphor(subject if of_subject else other, of_subject)", "Anaphor(other if of_subject else subject, of_subject)"),
    Mutation("D7", f"{_EXPLAIN}/trace.py", "if additive else cell.query * cell.keys", "if additive else cell.keys * cell.keys"),
    Mutation("D13", f"{_EXPLAIN}/peaks.py", "        peaks = (peak(attention_map, row) for attention_map in heads)\n", "        peaks = (peak(heads[0], row) for _ in heads)\n"),
    Mutation("D13", f"{_EXPLAIN}/peaks.py", "    index = int(attention_map.weights[row].argmax())\n", "    index = int(attention_map.weights[row].argmin())\n"),
    Mutation("D18", f"{_EXPLAIN}/six_steps.py", "            _softmax(trace, messages),\n", ""),
    Mutation("D18", f"{_EXPLAIN}/messages_turkish.py", '"Kodlayıcının özdikkati"', '"Kodlayıcının öz dikkati"'),
    Mutation("D18", f"{_EXPLAIN}/six_steps.py", '        "layer": traced.layer + 1,\n', '        "layer": traced.layer,\n'),
]  # fmt: skip

PICTURES = [
    Mutation("C7", f"{_EXPLAIN}/drawing/position_picture.py", 'cmap="Blues"', 'cmap="Reds"'),
    Mutation("C7", f"{_EXPLAIN}/drawing/position_picture.py", 'left.set_xlabel("Column (encoding dimension)")', 'left.set_xlabel("Row (position)")'),
    Mutation("C5", f"{_EXPLAIN}/drawing/position_picture.py", 'label=f"Col {column} (period', 'label=f"Col {column + 1} (period'),
    Mutation("C2", f"{_EXPLAIN}/comparison/costs.py", "return max(1, -(-(length - 1) // (kernel - 1)))", "return max(1, -(-length // (kernel - 1)))"),
    Mutation("C2", f"{_EXPLAIN}/comparison/costs.py", "        operations = kernel * length * width**2\n", "        operations = length * width**2\n"),
    Mutation("C10", f"{_NN}/named_positions.py", '"alibi": lambda num_heads, _, __: AlibiBias(num_heads)', '"alibi": lambda _, head_dim, __: RelativeKeys(head_dim)'),
    Mutation("C10", f"{_NN}/named_positions.py", '"rotary": lambda _, head_dim, __: RotaryPositions(head_dim)', '"rotary": lambda num_heads, _, __: AlibiBias(num_heads)'),
    Mutation("D15", f"{_EXPLAIN}/drawing/model_outline.py", "            layers=len(encoder.blocks),\n", "            layers=1,\n"),
    Mutation("D15", f"{_EXPLAIN}/drawing/model_outline.py", "            tied=config.tie_embeddings,\n", "            tied=True,\n"),
    Mutation("E14", f"{_CLASSROOM}/pictures.py", "            axes.set_title(titles[column])\n", "            axes.set_title(titles[row])\n"),
    Mutation("F26", f"{_EXPLAIN}/comparison/costs.py", "pairs + 4 * length * width**2, 1, 1)", "pairs, 1, 1)"),
    Mutation("F26", f"{_EXPLAIN}/comparison/costs.py", "    pairs = 2 * length**2 * width\n", "    pairs = length**2 * width\n"),
]  # fmt: skip

NETWORKS = [
    Mutation("D2", f"{_MODELS}/factory.py", "blocks = [_initialized(self.encoder_block(layer)) for layer in range(self.config.encoder_layers)]", "blocks = [_initialized(self.encoder_block(0))] * self.config.encoder_layers"),
    Mutation("D1", f"{_MODELS}/encoder_decoder.py", _ENCODES, _SILENT),
    Mutation("E6", f"{_NN}/embedding.py", "        self.scale = math.sqrt(model_dim) if scaled else 1.0\n", "        self.scale = 1.0\n"),
    Mutation("E9", f"{_MODELS}/factory.py", "        weight = torch.empty(self._target_vocab_size(), self.config.model_dim)\n", "        weight = torch.empty(self.config.vocab_size, self.config.model_dim)\n"),
    Mutation("E9", f"{_MODELS}/factory.py", "target = source if joint else self.embedding(self._target_vocab_size(), zero_row=start)", "target = self.embedding(self._target_vocab_size(), zero_row=start)\n        source = target"),
    Mutation("E9", f"{_MODELS}/encoder_decoder.py", "return linear(hidden, self.output_weight, self.output_bias, products", "return linear(hidden, self.output_weight, None, products"),
    Mutation("E3", f"{_NN}/norms.py", "        return layer_norm(x, self.weight, self.bias, self.eps)\n", "        return layer_norm(x.transpose(0, 1).contiguous(), self.weight, self.bias, self.eps).transpose(0, 1) if x.shape[-1] == x.shape[0] else layer_norm(x, self.weight, self.bias, self.eps)\n"),
    Mutation("E12", "src/dikkat/evaluation/bleu_k.py", "    return matches.total() / (len(predicted) - n + 1)", "    return matches.total() / max(1, len(expected) - n + 1)"),
    Mutation("E12", "src/dikkat/evaluation/bleu_k.py", "    matches = _ngrams(predicted, n) & _ngrams(expected, n)\n", "    matches = _ngrams(predicted, 1) & _ngrams(expected, 1)\n"),
    Mutation("E15", f"{_CLASSROOM}/translating.py", "    return weights[0], weights[1]", "    return weights[1], weights[0]"),
    Mutation("E10", f"{_CLASSROOM}/translating.py", "count >= min_freq and token not in RESERVED", "count > min_freq and token not in RESERVED"),
    Mutation("E24", f"{_MODELS}/factory.py", "blocks = [_initialized(self.encoder_block(layer)) for layer in range(self.config.encoder_layers)]", "blocks = [_initialized(self.encoder_block(layer)) for layer in range(1)]"),
]  # fmt: skip

FAULTS = [
    Mutation("F2", f"{_MODELS}/key_table.py", "from collections.abc import Collection, Iterator, Mapping, Sequence\n", "from collections.abc import Collection, Iterator, Mappings as Mapping, Sequence\n"),
    Mutation("F3", f"{_NN}/residual.py", "        return self.dropout.add_to(x, y)\n", "        return x + y\n"),
    Mutation("F4", f"{_MODELS}/factory.py", "return BlockSettings(**{field.name: getattr(self.config, field.name) for field in fields(BlockSettings)})", "return BlockSettings()"),
    Mutation("F8", f"{_NN}/multi_head_attention.py", "        memory = self.project_memory(key, value)\n", "        memory = self.project_memory(query, query)\n"),
    Mutation("F9", f"{_NN}/selection.py", "    return torch.zeros_like(scores).scatter(-1, winners, 1.0)", "    return torch.zeros_like(scores).scatter(-1, winners, 0.7)"),
    Mutation("F9", f"{_NN}/selection.py", "return torch.softmax(scores, dim=-1)", "return scores / scores.abs().sum(-1, keepdim=True)"),
    Mutation("F10", f"{_NN}/multi_head_attention.py", "                Linear(width, output, bias=bias) for width, output", "                nn.utils.parametrizations.orthogonal(Linear(width, output, bias=bias)) for width, output"),
    Mutation("F11", f"{_NN}/checks.py", "    if head_dim is not None:\n        return head_dim\n", ""),
    Mutation("F12", "runtime/src/dikkat_runtime/run/metrics.py", "json.dumps(kept, sort_keys=True, ensure_ascii=False)", "json.dumps(kept, ensure_ascii=False)"),
    Mutation("F12", "src/dikkat/run_directory/directory.py", "if row.get(SETTINGS_HASH, own) != own]", "if row.get(SETTINGS_HASH, own) == own]"),
    Mutation("F13", f"{_DATA}/splitting.py", '    return _hash("source", pair.source, seed), _hash("target", pair.target, seed)', '    return _hash("source", pair.source, seed), _hash("source", pair.source, seed)'),
    Mutation("F13", f"{_DATA}/splitting.py", "    taken = set(held_out[0]) | set(held_out[1])\n", "    taken = set(held_out[0])\n"),
    Mutation("F14", f"{_NN}/functional.py", "return 1.0 / math.sqrt(query.shape[-1]) if", "return 1.0 / query.shape[-1] if"),
    Mutation("F15", f"{_NN}/multi_head_attention.py", "            self.in_projection = Linear(widths[0], sum(outputs), bias=bias)\n", "            self.in_projection = Linear(widths[0], sum(outputs), bias=bias).requires_grad_(False)\n"),
    Mutation("F16", f"{_EXPLAIN}/trace.py", "        total=weighted.sum(axis=0),", "        total=weighted.round(3).sum(axis=0),"),
    Mutation("F17", f"{_NN}/multi_head_attention.py", "            self._split_heads(q, self.num_heads),\n", "            self._split_heads(q.detach(), self.num_heads),\n"),
    Mutation("F18", f"{_NN}/functional.py", "    weights = choose(scores.masked_fill_(hidden, torch.finfo(scores.dtype).min))\n", "    weights = choose(scores + hidden * -torch.inf)\n"),
    Mutation("F21", f"{_NN}/positions.py", "sinusoids(initial_length, model_dim, layout), persistent=False)", "sinusoids(initial_length, model_dim, layout), persistent=True)"),
    Mutation("F21", f"{_CLASSROOM}/scratch.py", "    if x.shape[-2] > context_length:\n", "    if False:\n"),
    Mutation("F22", f"{_NN}/multi_head_attention.py", "                k, v = cache.append(k, v)\n", "                cache.append(k, v)\n"),
    Mutation("F23", f"{_EXPLAIN}/word_vectors.py", "_stacked(words, [vector for _, vector in named]), tuple(missing)\n", "_stacked(words, [vector for _, vector in named]), ()\n"),
    Mutation("B2", f"{_EXPLAIN}/word_vectors.py", "left_out = () if named is tokens else tuple(token for token in tokens if not _is_word(token))", "left_out = ()"),
    Mutation("F23", f"{_EXPLAIN}/three_steps.py", "            *((text.left_out.format(tokens=left_out),) if left_out else ()),\n", ""),
    Mutation("F24", f"{_EXPLAIN}/messages_turkish.py", '"Kodçözücünün maskeli özdikkati"', '"Kodçözücünün maskeli kendi kendine dikkati"'),
    Mutation("F25", f"{_NN}/dropout.py", "        return kernel.dropout(x, self.probability if self.training else 0.0)\n", "        return kernel.dropout((1.0 - self.probability) * x, self.probability if self.training else 0.0)\n"),
    Mutation("F28", f"{_NN}/named_positions.py", '"sinusoidal": lambda model_dim, _: SinusoidalPositions(model_dim)', '"sinusoidal": lambda model_dim, max_positions: LearnedPositions(model_dim, max_positions)'),
    Mutation("F29", f"{_EXPLAIN}/trace.py", "    weights = exponentials / total if allowed.any() else exponentials\n", "    weights = exponentials[::-1] / total if allowed.any() else exponentials\n"),
    Mutation("F31", f"{_NN}/residual.py", "        return self.norm(self._add(x, sub_layer(x)))", "        return self._add(x, sub_layer(self.norm(x)))"),
    Mutation("F31", f"{_MODELS}/decoder.py", "cross = [cast(CrossAttendingBlock, block).cross_attention.project_memory(memory) for block in self.blocks]", "cross = [cast(CrossAttendingBlock, self.blocks[0]).cross_attention.project_memory(memory) for _ in self.blocks]"),
    Mutation("F32", f"{_NN}/multi_head_attention.py", "        causal: bool = False,\n    ) -> None:\n", "        causal: bool = False,\n        **_: Any,\n    ) -> None:\n"),
    Mutation("F33", f"{_NN}/recorder.py", "            handle.remove()\n", "            pass\n"),
    Mutation("F36", f"{_MODELS}/decoder.py", "        mask = causal_mask(x.shape[1], device=x.device)\n", "        mask = causal_mask(x.shape[1], device=x.device) | True\n"),
    Mutation("F37", f"{_NN}/cache.py", "            self._key = self._gather(self._key, index)\n", ""),
    Mutation("F38", f"{_NN}/functional.py", "    return weights.masked_fill(hidden, 0.0) if weights.requires_grad else weights.masked_fill_(hidden, 0.0)", "    return weights"),
    Mutation("F40", f"{_DATA}/batching.py", "    padded[columns == lengths[:, None]] = EOS_ID\n", ""),
    Mutation("F40", "src/dikkat/training/translation.py", "    positions = np.flatnonzero(batch.target_output != PAD_ID)\n", "    positions = np.arange(batch.target_output.size)\n"),
    Mutation("F40", "runtime/src/dikkat_runtime/text/casing.py", 'text = _SMALL_I_WITH_DOT.sub("i", text).replace("I", "ı")', 'text = _SMALL_I_WITH_DOT.sub("i", text)'),
]  # fmt: skip

MUTATIONS = [*PRESETS, *ATTENTION, *ORDER, *HAND, *MODELS, *RECIPES, *SETS, *PICTURES, *NETWORKS, *FAULTS]
