// Two columns of tokens; a line from who looks to what is looked at, as opaque as its weight, in the colour of its head.

const MAX_LINKS = 1500;
const MAX_LINKS_OF_ONE = 240;
const FAINTEST = 0.04;

function linksView(picture) {
  const rows = Math.max(picture.queries.length, picture.keys.length);
  const left = tokenList(picture.queries, say("looks"), "query", { class: "column left" });
  const right = tokenList(picture.keys, say("is looked at"), "key", { class: "column right" });
  const all = drawn("g");
  const chosen = drawn("g");
  const svg = drawn("svg", { viewBox: `0 0 100 ${rows}`, preserveAspectRatio: "none", "aria-hidden": "true", class: "wires" }, all, chosen);
  const { links, cut } = strongestLinks(picture);
  all.append(...links.map(wire));
  const show = (cell) => {
    all.setAttribute("opacity", cell ? "0.08" : "1");
    chosen.replaceChildren(...(cell ? linksAt(picture, cell).map(wire) : []));
    mark(left, cell?.query);
    mark(right, cell?.key);
    setStrips(right, picture.heads, "out", cell && cell.query !== null && cell.key === null ? (matrix, key) => matrix.values[cell.query * matrix.S + key] : null);
    setStrips(left, picture.heads, "in", cell && cell.key !== null && cell.query === null ? (matrix, query) => matrix.values[query * matrix.S + cell.key] : null);
  };
  lightListeners.push(show);
  show(lookedAt());
  const box = element("div", { class: `links${rows > 60 ? " dense" : ""}`, style: { "--rows": rows } },
    element("p", { class: "axis left muted" }, say("looks"), " →"), element("span"), element("p", { class: "axis muted" }, say("is looked at")),
    left, svg, right);
  const note = cut ? element("p", { class: "muted note" }, say("Only the strongest links are drawn until you choose a word.")) : null;
  return { node: element("div", {}, ...[note].filter(Boolean), box) };
}

// With too many links the faintest are left out: the threshold rises until the rest fits.
function strongestLinks(picture) {
  for (let least = FAINTEST, cut = false; ; least *= 1.5, cut = true) {
    const links = [];
    picture.heads.forEach((head, lane) => {
      const { S, values } = head.matrix;
      for (let i = 0; i < values.length && links.length <= MAX_LINKS; i++) {
        if (values[i] >= least) links.push(link(picture, lane, Math.floor(i / S), i % S));
      }
    });
    if (links.length <= MAX_LINKS || least > 1) return { links, cut };
  }
}

function linksAt(picture, { query, key }) {
  const links = [];
  picture.heads.forEach((head, lane) => {
    const { T, S, values } = head.matrix;
    const add = (q, k) => values[q * S + k] >= 0.01 && links.push(link(picture, lane, q, k));
    if (query !== null && key !== null) add(query, key);
    else if (query !== null) for (let k = 0; k < S; k++) add(query, k);
    else for (let q = 0; q < T; q++) add(q, key);
  });
  return links.sort((a, b) => b.weight - a.weight).slice(0, MAX_LINKS_OF_ONE);
}

// Heads that link the same two tokens run side by side, each in its lane.
function link({ heads }, lane, query, key) {
  const { colour, matrix, isOff } = heads[lane];
  const shift = 0.5 + 0.11 * (lane - (heads.length - 1) / 2);
  return { from: query + shift, to: key + shift, weight: matrix.values[query * matrix.S + key], colour, isOff };
}

function wire({ from, to, weight, colour, isOff }) {
  return drawn("path", {
    d: `M0 ${from}C45 ${from} 55 ${to} 100 ${to}`, stroke: colour, opacity: Math.min(1, 0.08 + 0.92 * weight).toFixed(2),
    "stroke-width": (0.8 + 3 * weight).toFixed(1), "stroke-dasharray": isOff ? "3 4" : null, "vector-effect": "non-scaling-stroke", fill: "none",
  });
}
