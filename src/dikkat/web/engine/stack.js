// A stack of Transformer blocks over embeddings and positions: an encoder, a decoder, or the decoder of a language model.

// One block: self-attention, in a translator's decoder attention to the source, and a feed-forward network, each added to
// what came in (the residual sum).
class Block {
  constructor(stack, name, hasSource) {
    const { settings } = stack;
    this.stack = stack;
    const part = (part) => `${name}.${part}`;
    this.selfIn = stack.linear(part("self_attention.in_projection"));
    this.selfOut = stack.linear(part("self_attention.out_projection"));
    this.inner = stack.linear(part("feed_forward.inner"));
    this.outer = stack.linear(part("feed_forward.outer"));
    this.selfResidual = new Residual(stack, part("self_residual"));
    this.outerResidual = new Residual(stack, part("feed_forward_residual"));
    const headNorm = (of) => settings.query_key_norm && new Norm(stack.tensors, part(`self_attention.${of}_norm`), settings, "rms");
    [this.queryNorm, this.keyNorm] = ["query", "key"].map(headNorm);
    this.distances = distancesOf(stack.tensors, part("self_attention.comparison"), settings, stack.isCausal);
    if (!hasSource) return;
    const whole = stack.linear(part("cross_attention.in_projection"));
    const joined = settings.num_heads * settings.head_dim;
    this.crossQuery = whole.rows(0, joined);
    this.crossSource = whole.rows(joined, whole.outputs);
    this.crossOut = stack.linear(part("cross_attention.out_projection"));
    this.crossResidual = new Residual(stack, part("cross_residual"));
  }

  run(x, rows, layer, pass) {
    const { settings, products } = this.stack;
    const attended = (input) => this.attendSelf(input, rows, layer, pass);
    const fed = (input) => products.linear(this.outer, activated(products.linear(this.inner, input, rows), rows, settings.activation), rows);
    if (settings.parallel_residual) {
      // both parts read what comes in
      const parts = [this.selfResidual.branch(x, attended), this.outerResidual.branch(x, fed)];
      parts.forEach((part) => add(x, part));
      return x;
    }
    x = this.selfResidual.run(x, attended);
    if (this.crossQuery) x = this.crossResidual.run(x, (input) => this.attendSource(input, rows, layer, pass));
    return this.outerResidual.run(x, fed);
  }

  attendSelf(x, rows, layer, pass) {
    const { settings, products } = this.stack;
    const [joined, grouped] = [settings.num_heads * settings.head_dim, settings.num_kv_heads * settings.head_dim];
    const projected = products.linear(this.selfIn, x, rows);
    const [query, key, value] = split(projected, rows, [joined, grouped, grouped]);
    const { caches } = pass;
    const count = rows / caches.length;
    const output = new Float32Array(rows * joined);
    caches.forEach((cache, number) => {
      const own = (numbers, width) => numbers.subarray(number * count * width, (number + 1) * count * width);
      let [queries, keys, values] = [own(query, joined), own(key, grouped), own(value, grouped)];
      if (this.queryNorm) [queries, keys] = [this.queryNorm.run(queries), this.keyNorm.run(keys)];
      const frequencies = pass.positions === false ? null : this.stack.frequenciesOf(layer);
      if (frequencies) this.rotate(queries, keys, count, cache.length, frequencies);
      if (this.crossQuery && this.selfIn.scale) [keys, values].forEach(roundToBf16);
      const held = cache.append(layer, keys, values);
      const total = cache.length + count;
      // keys so many positions away from a query are seen
      const span = this.stack.kindOf(layer) === "window" ? settings.attention_window ?? Infinity : Infinity;
      const first = (t) => Math.max(0, cache.length + t - span);
      const visible = (t) => Math.min(total, cache.length + t + 1 + (pass.causal ? 0 : span));
      output.set(this.attend(queries, held, count, total, [first, visible], layer, "self", pass), number * count * joined);
    });
    return products.linear(this.selfOut, output, rows);
  }

  rotate(queries, keys, count, start, frequencies) {
    const { num_heads: heads, num_kv_heads: groups, head_dim: width } = this.stack.settings;
    for (let t = 0; t < count; t++) {
      applyRotary(queries, t * heads * width, heads, width, start + t, frequencies);
      applyRotary(keys, t * groups * width, groups, width, start + t, frequencies);
    }
  }

  attendSource(x, rows, layer, pass) {
    const { products } = this.stack;
    const { memory } = pass;
    const output = this.attend(products.linear(this.crossQuery, x, rows), memory.layers[layer], rows, memory.length, [() => 0, () => memory.length], layer, "cross", pass);
    return products.linear(this.crossOut, output, rows);
  }

  attend(query, { keys, values }, queries, count, [first, visible], layer, kind, pass) {
    const { settings } = this.stack;
    const name = kind === "cross" ? "cross" : `${this.stack.name}-self`;
    const weights = pass.maps && new Float32Array(settings.num_heads * queries * count);
    if (weights) (pass.maps[name] ??= [])[layer] = { shape: [settings.num_heads, queries, count], values: weights };
    const mask = kind === "cross" || !pass.causal ? pass.mask : null;
    const call = {
      query, keys, values, queries, count, first, visible, mask, weights, off: pass.off?.[name]?.[layer],
      heads: settings.num_heads, groups: settings.num_kv_heads, width: settings.head_dim,
      beta: settings.inverse_temperature * (pass.beta ?? 1),
      distances: kind === "self" && pass.positions !== false ? this.distances : null,
    };
    const output = attend(call);
    if (pass.cell?.kind === name && pass.cell.layer === layer) pass.cell.steps = sixSteps(call, pass.cell, output);
    return output;
  }

  // Keys and values of the source for attendSource, out of the encoder's output (S, D).
  readSource(states, rows) {
    const { settings, products } = this.stack;
    const grouped = settings.num_kv_heads * settings.head_dim;
    const [keys, values] = split(products.linear(this.crossSource, states, rows), rows, [grouped, grouped]);
    if (this.crossSource.scale) [keys, values].forEach(roundToBf16);
    return { keys, values };
  }
}

// The sum of what comes in and of what a part makes of it, with a norm before the part, after it, around it, or after the sum.
class Residual {
  constructor({ tensors, settings }, name) {
    this.placement = settings.norm_placement;
    this.norm = new Norm(tensors, `${name}.norm`, settings);
    this.outputNorm = this.placement === "both" ? new Norm(tensors, `${name}.output_norm`, settings) : this.norm;
  }

  // What is added.
  branch(x, change) {
    const changed = change(["pre", "both"].includes(this.placement) ? this.norm.run(x) : x);
    return ["output", "both"].includes(this.placement) ? this.outputNorm.run(changed) : changed;
  }

  run(x, change) {
    add(x, this.branch(x, change));
    return this.placement === "post" ? this.norm.run(x) : x;
  }
}

// The columns of (rows, sum of widths), each part dense.
function split(x, rows, widths) {
  const total = widths.reduce((sum, width) => sum + width, 0);
  let first = 0;
  return widths.map((width) => {
    const part = new Float32Array(rows * width);
    for (let row = 0; row < rows; row++) part.set(x.subarray(row * total + first, row * total + first + width), row * width);
    first += width;
    return part;
  });
}

// Parts that a step of an embedding in int8 is divided into.
const FINE_STEPS = 254;

class Stack {
  // `name` is "encoder" or "decoder", `embedding` the name of the matrix that embeds its tokens.
  constructor({ header, tensors }, products, name, layers, embedding, hasSource = false) {
    this.settings = header.model;
    [this.tensors, this.products, this.name] = [tensors, products, name];
    this.isCausal = (header.languageModel?.objective ?? "") === "causal";
    this.embedding = { ...tensors.get(embedding) }; // the layer that shares it may let it go
    this.blocks = Array.from({ length: layers }, (_, layer) => new Block(this, `${name}.blocks.${layer}`, hasSource));
    this.finalNorm = this.settings.norm_placement === "post" ? null : new Norm(tensors, `${name}.final_norm`, this.settings);
    const isWidened = (this.settings.embedding_dim ?? null) !== null;
    this.embeddingNorm = this.settings.embedding_norm ? new Norm(tensors, isWidened ? "embedding_norm.norm" : "embedding_norm", this.settings) : null;
    this.widen = isWidened ? this.linear("embedding_norm.projection") : null;
    this.embeddingWidth = this.settings.embedding_dim ?? this.settings.model_dim;
    this.addsPositions = !["rotary", "none"].includes(this.settings.positions);
    this.learnedPositions = this.settings.positions === "learned" ? tensors.get("positions.embedding").values : null;
  }

  linear(name) {
    return new Linear(this.tensors.get(`${name}.weight`), this.tensors.get(`${name}.bias`)?.values ?? null);
  }

  // How the attention of a layer reads: "full", within a "window", or "unrotated".
  kindOf(layer) {
    const { layer_kinds: kinds } = this.settings;
    return kinds[layer % kinds.length];
  }

  // Radians a position by which each pair of a head turns; null where positions do not turn them.
  frequenciesOf(layer) {
    const { positions, head_dim: width, rotary_frequencies: usual, window_rotary_frequencies: near } = this.settings;
    const kind = this.kindOf(layer);
    if (positions !== "rotary" || kind === "unrotated") return null;
    return (kind === "window" ? near : null) ?? usual ?? (this.usualFrequencies ??= usualFrequencies(width));
  }

  newCache() {
    return new Cache(this.blocks.length, this.settings.num_kv_heads * this.settings.head_dim);
  }

  // States (rows, D) of ids: one row a cache, or all rows of one sequence.
  //
  // `pass` holds caches, causal (whether a token sees only what stands before it), memory (what the source left), mask (1
  // for each token of the source that may be seen), off (kind -> layer -> Set of heads), beta (a factor of every score),
  // positions (false leaves them out), cell ({kind, layer, head, query}, which gets its steps), and maps and streams
  // (the last row of what leaves each block), which are filled.
  run(ids, pass) {
    const width = this.settings.model_dim;
    const count = ids.length / pass.caches.length;
    const embedded = this.embeddingWidth;
    let x = new Float32Array(ids.length * embedded);
    ids.forEach((id, row) => this.embed(x.subarray(row * embedded, (row + 1) * embedded), id, pass.caches[Math.floor(row / count)].length + (row % count), pass.positions));
    if (this.embeddingNorm) x = this.embeddingNorm.run(x);
    if (this.widen) x = this.products.linear(this.widen, x, ids.length);
    this.blocks.forEach((block, layer) => {
      x = block.run(x, ids.length, layer, pass);
      pass.streams?.push(x.slice(x.length - width));
    });
    for (const cache of pass.caches) cache.length += count;
    return this.finalNorm ? this.finalNorm.run(x) : x;
  }

  embed(to, id, position, hasPositions = true) {
    const width = to.length;
    const factor = this.settings.scale_embeddings ? Math.fround(Math.sqrt(width)) : 1;
    this.readEmbedding(to, id);
    for (let i = 0; i < width; i++) to[i] *= factor;
    if (this.addsPositions && hasPositions) add(to, this.positionRow(position));
  }

  readEmbedding(to, id) {
    const width = to.length;
    const { values, bits, scale, fine } = this.embedding;
    if (!bits) {
      for (let i = 0; i < width; i++) {
        const entry = values[id * width + i];
        to[i] = scale ? (entry + (fine ? fine[id * width + i] / FINE_STEPS : 0)) * scale[id] : entry;
      }
      return;
    }
    const steps = new Int8Array(GROUP);
    for (let first = 0; first < width; first += GROUP) {
      const [step, offset] = groupOf({ weight: values, inputs: width, bits }, id, first / GROUP, steps);
      for (let i = first; i < Math.min(first + GROUP, width); i++) to[i] = offset + step * steps[i - first];
    }
  }

  // What a position adds to an embedding.
  positionRow(position) {
    const width = this.embeddingWidth;
    return this.learnedPositions ? this.learnedPositions.subarray(position * width, (position + 1) * width) : this.sinusoid(position);
  }

  sinusoid(position) {
    this.sinusoids ??= [];
    return (this.sinusoids[position] ??= sinusoid(position, this.embeddingWidth, this.settings.positions === "sinusoidal_concatenated"));
  }
}
