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
    Mutation("E11", _PRESETS, '"beta2": 0.999, "warmup_steps": 0,\n            "max_epochs": 200.0', '"beta2": 0.999, "warmup_steps": 100,\n            "max_epochs": 200.0'),
    Mutation("E11", _PRESETS, '"max_epochs": 200.0', '"max_epochs": 100.0'),
    Mutation("E1", _PRESETS, '"norm_placement": "post", "attention_bias": False, "tie_embeddings": False', '"norm_placement": "pre", "attention_bias": False, "tie_embeddings": False'),
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
    Mutation("D3", f"{_NN}/feed_forward.py", "return self.outer(self.inner(x, relu=True))", "return self.outer(self.inner(x + x.mean(dim=1, keepdim=True) * torch.arange(x.shape[1])[:, None], relu=True))"),
    Mutation("D5", f"{_NN}/blocks.py", "        return self.feed_forward_residual(x, self.feed_forward)\n\n\nclass DecoderBlock", "        return self.feed_forward_residual(x, lambda y: self.feed_forward(y.cumsum(1)))\n\n\nclass DecoderBlock"),
    Mutation("D12", f"{_NN}/multi_head_attention.py", "return x.unflatten(-1, (heads, self.head_dim)).transpose(1, 2)", "return x.unflatten(-1, (self.head_dim, heads)).transpose(2, 3).transpose(1, 2)"),
    Mutation("E2", f"{_NN}/feed_forward.py", "return self.outer(self.inner(x, relu=True))", "return self.outer(self.inner(x))"),
    Mutation("E4", f"{_NN}/residual.py", "        if x.shape != y.shape:\n", "        if False:\n"),
    Mutation("E5", f"{_NN}/residual.py", "        self.norm = named_norm(norm, model_dim, eps)", "        self.norm = nn.Sequential(named_norm(norm, model_dim, eps), named_norm(norm, model_dim, eps))"),
    Mutation("E8", f"{_NN}/blocks.py", "        x = self.cross_residual(x, lambda y: self.cross_attention(y, memory, mask=memory_mask))\n        return self.feed_forward_residual(x, self.feed_forward)\n", "        return x[:, :1]\n"),
    Mutation("E20", f"{_NN}/scores.py", "sums = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))", "sums = query.unsqueeze(-2) * key.unsqueeze(-3)"),
    Mutation("E24", f"{_NN}/patches.py", "cut.permute(0, 2, 4, 1, 3, 5)", "cut.permute(0, 2, 4, 1, 5, 3)"),
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
    Mutation("B18", "src/dikkat/classroom/scratch.py", "        self.attention.out_projection.load_state_dict(mixing.state_dict())\n", ""),
    Mutation("B21", f"{_NN}/torch_weights.py", '    ("out_proj.bias", ("out_projection.bias",)),\n', ""),
    Mutation("B23", f"{_EXPLAIN}/three_steps.py", "steps=(_scores(trace, wording, full), _weights(trace, wording), _context(trace, wording, full))", "steps=(_scores(trace, wording, full), _context(trace, wording, full))"),
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
    Mutation("D16", f"{_MODELS}/decoder.py", "cross = [cast(DecoderBlock, block).cross_attention.project_memory(memory) for block in self.blocks]", "cross = [cast(DecoderBlock, self.blocks[0]).cross_attention.project_memory(memory) for _ in self.blocks]"),
    Mutation("D17", f"{_MODELS}/encoder_decoder.py", "self.positions(self.target_embedding(tokens[:, None]), offset=cache.length)", "self.positions(self.target_embedding(tokens[:, None]))"),
    Mutation("E6", f"{_NN}/embedding.py", "        return rows * self.scale\n", "        return rows[..., :1].expand(rows.shape) * self.scale\n"),
    Mutation("E7", f"{_NN}/blocks.py", "        x = self.self_residual(x, lambda y: self.self_attention(y, cache=cache))\n", "        x = self.self_residual(x, lambda y: self.self_attention(y))\n"),
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
    Mutation("F34", f"{_NN}/norms.py", "return _NORMS[name](model_dim, eps=eps)", "return torch.nn.InstanceNorm1d(model_dim, eps=eps)"),
    Mutation("F35", f"{_MODELS}/encoder_decoder.py", "self.positions(self.target_embedding(tokens[:, None]), offset=cache.length)", "self.positions(self.target_embedding(tokens[:, None]))"),
    Mutation("F36", f"{_MODELS}/decoder.py", "        mask = causal_mask(x.shape[1], device=x.device)\n", "        mask = causal_mask(x.shape[1], device=x.device) if self.training else None\n"),
    Mutation("F39", "src/dikkat/evaluation/bleu_k.py", "    if not predicted:\n        return float(not expected)\n", ""),
]  # fmt: skip

MUTATIONS = [*PRESETS, *ATTENTION, *ORDER, *HAND, *MODELS]
