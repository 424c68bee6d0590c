// In words and numbers: what the token under the light looks at, and what looks at it.

const LISTED = 6;

function readout(picture) {
  const box = element("aside", { class: "readout", id: "readout", "aria-live": "polite" });
  const show = (cell) => box.replaceChildren(...(cell ? readCell(picture, cell) : [element("p", { class: "muted" }, say("Point at a word, or reach it with the arrow keys, to see what it looks at and what looks at it. Click or Enter keeps it."))]));
  lightListeners.push(show);
  show(lookedAt());
  return box;
}

function readCell(picture, { query, key }) {
  const parts = [];
  if (query !== null && key !== null) {
    const names = { query: named(picture.queries[query]), key: named(picture.keys[key]) };
    parts.push(element("p", { class: "cell" }, say("“{query}” → “{key}”: {weight}", { ...names, weight: "" }),
      ...picture.heads.map((head) => weightChip(head, head.matrix.values[query * picture.mean.S + key]))));
  }
  if (query !== null) {
    parts.push(...written(query));
    parts.push(...weightList(say("“{token}” looks at", { token: named(picture.queries[query]) }), picture.keys, picture, (matrix, key) => matrix.values[query * matrix.S + key]));
  }
  const column = key ?? (picture.selfAttention ? sameToken(query) : null);
  if (column !== null) {
    parts.push(...weightList(say("“{token}” is looked at by", { token: named(picture.keys[column]) }), picture.queries, picture, (matrix, query) => matrix.values[query * matrix.S + column]));
  }
  return parts;
}

// In self-attention both sides are one text, but for rows that are named by the token after.
function sameToken(query) {
  if (query === null || (state.kind === "decoder-self" && state.rows["decoder-self"] === "written")) return null;
  return query;
}

function written(query) {
  if (state.kind === "encoder-self" || state.words) return [];
  const { tokens } = currentSentence().target;
  const share = writtenProbabilities(currentSentence())?.[query];
  const line = say("having read “{read}”, about to write “{written}”", { read: named(tokens[query]), written: named(tokens[query + 1]) });
  return [element("p", { class: "muted" }, line, share === undefined ? "" : `: ${percent(share)}`)];
}

function weightChip(head, weight) {
  return element("span", { class: "weight-chip", title: head.title },
    element("i", { style: { background: head.colour } }), number(weight));
}

// By the mean of the heads, which is labelled where there are several; below it the weight of each of them.
function weightList(title, tokens, { heads, mean }, weightOf) {
  const weights = tokens.map((_, index) => weightOf(mean, index));
  const byHead = (index) => (heads.length > 1 ? element("span", { class: "by-head" }, ...heads.map((head) => weightChip(head, weightOf(head.matrix, index)))) : null);
  const order = [...weights.keys()].filter((index) => weights[index] >= 0.005).sort((a, b) => weights[b] - weights[a]);
  const rows = order.slice(0, LISTED).map((index) =>
    element("li", {}, isolated(tokens[index]), element("span", { class: "bar" },
      element("i", { style: { width: `${Math.min(100, 100 * weights[index])}%` } })), element("b", {}, number(weights[index])), byHead(index)));
  const rest = order.slice(LISTED);
  const restWeight = rest.reduce((sum, index) => sum + weights[index], 0);
  if (rest.length) rows.push(element("li", { class: "muted more" }, say("and {count} more, {weight} together", { count: rest.length, weight: number(restWeight) })));
  if (!rows.length) rows.push(element("li", { class: "muted more" }, say("nothing")));
  const label = heads.length > 1 ? [element("p", { class: "muted mean-label" }, say("mean of {count} heads, each below in its colour", { count: heads.length }))] : [];
  return [element("h3", {}, title), ...label, element("ul", { class: "weights" }, ...rows)];
}
