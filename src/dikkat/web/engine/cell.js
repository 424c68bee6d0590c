// One cell of attention, number by number: what one query of one head does with every key.

// From the arguments and the output of attend(): {query, keys, values, scores, beta, added, scaled, allowed, shift, exponentials,
// sum, weights, weighted, total, difference}, the last being how far `total` is from the output of the model at most.
function sixSteps({ query, keys, values, count, heads, groups, width, beta, first, visible, mask, off, distances }, { head, query: t }, output) {
  const at = (t * heads + head) * width;
  const group = Math.floor((head * groups) / heads) * width;
  const rowsOf = (numbers) => Array.from({ length: count }, (_, s) => Array.from(numbers.slice(s * groups * width + group, s * groups * width + group + width)));
  const own = Array.from(query.slice(at, at + width));
  const [ownKeys, ownValues] = [rowsOf(keys), rowsOf(values)];
  const scores = ownKeys.map((key) => key.reduce((sum, entry, i) => sum + entry * own[i], 0));
  const added = scores.map((_, s) => (distances ? distances(head, s - t) : 0));
  const scaled = scores.map((score, s) => score * beta + added[s]);
  const allowed = scores.map((_, s) => s >= first(t) && s < visible(t) && (!mask || mask[s] === 1));
  const shift = scaled.reduce((largest, score, s) => (allowed[s] ? Math.max(largest, score) : largest), -Infinity);
  const exponentials = scaled.map((score, s) => (allowed[s] ? Math.exp(score - shift) : 0));
  const sum = exponentials.reduce((a, b) => a + b, 0);
  const weights = exponentials.map((entry) => (sum ? entry / sum : 0));
  const weighted = ownValues.map((value, s) => value.map((entry) => entry * weights[s]));
  const total = own.map((_, i) => weighted.reduce((all, row) => all + row[i], 0));
  const isOff = Boolean(off?.has(head));
  const difference = isOff ? 0 : Math.max(...total.map((entry, i) => Math.abs(entry - output[at + i])));
  return { query: own, keys: ownKeys, values: ownValues, scores, beta, added, scaled, allowed, shift, exponentials, sum, weights, weighted, total, isOff, difference };
}
