// One cell of attention in six steps, with the model's own numbers: what one query of one head does with every key.

const NUMBERS_SHOWN = 6;
// Token numbers, and not of words; `key` is the one that the reader chose, or else null, and `shown` that or the strongest.
const cell = { kind: "", head: 0, query: 0, key: null, shown: 0 };

// The maps, which remember the cell that is kept, for the six steps.
function liveMapsTab() {
  const panel = mapsTab();
  const [queries, keys] = sidesOf(currentSentence(), state.kind);
  const tokenOf = (side, index) => (state.words ? side.numbers.indexOf(index) : index);
  if (!state.rollout && !state.heads.has(cell.head)) [cell.head] = state.heads;
  lightListeners.push(() => {
    if (!light.kept) return;
    const { query, key } = light.kept;
    Object.assign(cell, { kind: state.kind, key: key === null ? null : tokenOf(keys, key) });
    cell.query = query === null ? strongestIn(columnOf(cellWeights(), cell.key)) : tokenOf(queries, query);
  });
  const open = button(say("Six steps of this cell"), { class: "quiet", id: "show-six", onclick: () => change({ tab: "six" }) });
  panel.node.querySelector(".picture").append(element("p", { class: "note" }, open));
  return panel;
}

function cellWeights() {
  return matrixOf(currentSentence().maps[state.kind][state.layer], Math.min(cell.head, numHeads() - 1));
}

function strongestIn(weights) {
  return weights.indexOf(Math.max(...weights));
}

function sixStepsTab() {
  const sentence = currentSentence();
  const [queries, keys] = sidesOf(sentence, state.kind);
  cell.head = Math.min(cell.head, numHeads() - 1);
  cell.query = Math.min(cell.query, queries.tokens.length - 1);
  if (cell.kind !== state.kind) Object.assign(cell, { kind: state.kind, key: null }); // it was among other tokens
  const settle = () => {
    cell.shown = cell.key === null ? strongestIn(rowOf(cellWeights(), cell.query)) : Math.min(cell.key, keys.tokens.length - 1);
    mark(keyList, cell.shown);
  };
  const panes = element("div", { class: "steps", id: "six-steps", "aria-live": "polite" });
  const { ids, tokens } = sentence;
  const show = () => {
    settle();
    const question = { ...changesAsked(), ids, tokens, kind: state.kind, layer: state.layer, head: cell.head, query: cell.query };
    request("cell", question).then((steps) => {
      if (panes.isConnected) panes.replaceChildren(...sixPanes(steps, named(queries.tokens[cell.query]), keys.tokens));
    }, showFailure);
  };
  const choose = (name) => (index) => {
    Object.assign(cell, { key: null, [name]: index }); // another query looks elsewhere
    show();
  };
  const keyList = cellTokens(keys.tokens, say("is looked at"), cell.shown, choose("key"));
  const heads = element("div", { class: "pick" }, headChoice(() => { show(); }));
  const node = element("div", { class: "six" }, element("p", { class: "intro" }, say("What one head computes, with this model's numbers. Choose who looks and what is looked at.")), heads,
    element("p", { class: "axis muted" }, say("looks"), " ↓"), cellTokens(queries.tokens, say("looks"), cell.query, choose("query")),
    element("p", { class: "axis muted" }, say("is looked at"), " ↓"), keyList, panes);
  return { node, ready: show };
}

function headChoice(show) {
  const draw = () => segments(say("Head"), [...allHeads()].map((head) => [head, String(head + 1), say("Head {number}", { number: head + 1 })]), cell.head, (head) => {
    cell.head = head;
    const fresh = draw();
    box.replaceWith(fresh);
    box = fresh;
    fresh.querySelector("[aria-pressed=true]").focus();
    show();
  });
  let box = draw();
  return box;
}

function cellTokens(tokens, label, chosen, choose) {
  const list = element("div", { class: "tokens running", role: "group", "aria-label": label });
  tokens.forEach((token, index) => list.append(button(isolated(token), { class: "token", tabindex: index === chosen ? 0 : -1, onclick: () => {
    mark(list, index);
    choose(index);
  } })));
  list.addEventListener("keydown", walk);
  mark(list, chosen);
  return list;
}

function sixPanes(steps, query, keyTokens) {
  const key = named(keyTokens[cell.shown]);
  const [k, v] = [steps.keys[cell.shown], steps.values[cell.shown]];
  const isSeen = steps.allowed[cell.shown];
  const scaled = number(steps.scaled[cell.shown]);
  const lines = [
    ["six1", msg("1. Query, key, value"), msg("Three trained matrices make three vectors of {width} numbers of every token."), [`q(${query}) = ${vectorText(steps.query)}`, `k(${key}) = ${vectorText(k)}`, `v(${key}) = ${vectorText(v)}`]],
    ["six2", msg("2. Score"), msg("How well the query of “{query}” fits the key of “{key}”: their numbers are multiplied one by one and added."), [`q·k = ${productText(steps.query, k)} = ${number(steps.scores[cell.shown])}`]],
    ["six3", msg("3. Scaling and mask"), msg("Every score is multiplied by β = {beta}; as trained, that is 1 / √{width} = 1 / {root}."), [`${number(steps.scores[cell.shown])} · ${number(steps.beta, 3)}${steps.added[cell.shown] ? ` + ${number(steps.added[cell.shown])}` : ""} = ${scaled}`, steps.added[cell.shown] ? say("What is added belongs to the distance of the two tokens.") : "", isSeen ? "" : say("“{key}” is hidden here, so its weight becomes 0.", { key })]],
    ["six4", msg("4. Softmax"), msg("The exponential of the score, less the largest one, over the sum of all: weights that sum to 1."), [isSeen
      ? `exp(${scaled} − ${number(steps.shift)}) / ${number(steps.sum)} = ${number(steps.exponentials[cell.shown])} / ${number(steps.sum)} = ${number(steps.weights[cell.shown], 3)}`
      : `0 / ${number(steps.sum)} = 0`]],
    ["six5", msg("5. Weighted value"), msg("The value of “{key}” counts by its weight."), [`${number(steps.weights[cell.shown], 3)} · v(${key}) = ${vectorText(steps.weighted[cell.shown])}`]],
    ["six6", msg("6. Sum"), msg("The weighted values of all tokens are added: the output of this head for “{query}”."), [`z(${query}) = ${vectorText(steps.total)}`, steps.isOff ? say("This head is off: the model takes zeros instead.") : say("This differs by at most {difference} from what the model itself computed.", { difference: steps.difference.toExponential(0) })]],
  ];
  const width = { width: k.length, root: number(Math.sqrt(k.length)), beta: number(steps.beta, 3), query, key };
  const panes = lines.map(([id, title, text, formulas]) => element("section", { class: "pane", id }, heading(say(title)), element("p", { class: "muted note" }, say(text, width)),
    ...formulas.filter(Boolean).map((formula) => element("p", { class: "formula" }, element("bdi", {}, formula)))));
  return [...panes, element("section", { class: "pane" }, heading(say("Every token that is looked at")), cellTable(steps, keyTokens))];
}

function vectorText(numbers) {
  const shown = numbers.slice(0, NUMBERS_SHOWN).map((entry) => number(entry)).join("  ");
  return numbers.length > NUMBERS_SHOWN ? `[${shown}  …] (${numbers.length})` : `[${shown}]`;
}

function productText(a, b) {
  const bracketed = (entry) => (entry < 0 ? `(${number(entry)})` : number(entry));
  const terms = a.slice(0, 3).map((entry, i) => `${bracketed(entry)}·${bracketed(b[i])}`).join(" + ");
  return a.length > 3 ? `${terms} + …` : terms;
}

function cellTable(steps, tokens) {
  const head = [say("is looked at"), "q·k", say("· β"), say("mask"), "exp", say("weight")].map((name) => element("th", { scope: "col" }, name));
  const rows = tokens.map((token, index) => element("tr", { class: index === cell.shown ? "best" : "" }, element("th", { scope: "row" }, isolated(token)),
    ...[number(steps.scores[index]), number(steps.scaled[index]), steps.allowed[index] ? say("seen") : say("hidden"), number(steps.exponentials[index])].map((text) => element("td", {}, text)),
    element("td", {}, element("span", { class: "bar" }, element("i", { style: { width: `${100 * steps.weights[index]}%` } })), element("small", {}, number(steps.weights[index], 3)))));
  const table = element("table", { class: "cell-table" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
  return element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": say("Every token that is looked at") }, table);
}

// What is added to the embedding of each token for its position: a row a position, a column a dimension.
function positionsTab() {
  const sentence = currentSentence();
  const { tokens } = DATA.task === "lm" ? sideOf(sentence.target, 0, sentence.ids.length) : sentence.source;
  const box = element("div", { class: "maps" });
  const node = element("div", { class: "pane", id: "positions-panel" }, element("p", { class: "intro" }, say("The model reads all words at once. This is what it adds to each word so that it knows their order: a row a position, a column a dimension.")),
    live.positions ? null : element("p", { class: "muted note" }, say("Positions are switched off: nothing of this is added now.")), box);
  const draw = ({ rows, values }) => {
    if (!rows) return box.replaceChildren(element("p", { class: "muted" }, say("This model adds nothing: it turns queries and keys by the angle of their position (rotary).")));
    const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-6);
    const S = values.length / rows;
    const matrix = { T: rows, S, values: Float32Array.from(values, (value) => (value / largest + 1) / 2) };
    const picture = { queries: tokens.map((token, index) => `${index} ${token}`), keys: Array.from({ length: S }, (_, dimension) => String(dimension)), heads: [matrix] };
    const head = { title: say("{rows} positions, {width} dimensions", { rows, width: S }), colour: "var(--accent)", matrix };
    return box.replaceChildren(heatMap(picture, head, 1, box.clientWidth), ramp(number(-largest), number(largest)));
  };
  return { node, ready: () => request("positions", { count: tokens.length }).then((answer) => box.isConnected && draw(answer), showFailure) };
}
