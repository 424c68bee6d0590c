// What each head is drawn to in the sentence that is shown, and how strongly.

// The measures of dikkat.explain.head_analysis.head_stats: for each key that a query may see, the first of these that holds.
const ROLES = ["marks", "punctuation", "before", "same", "after", "first", "elsewhere"];
const ROLE_NAMES = {
  marks: msg("begin and end marks"), punctuation: msg("punctuation"), before: msg("previous token"), same: msg("same position"),
  after: msg("next token"), first: msg("first token"), elsewhere: msg("other words"), null: msg("nowhere in particular"),
};
const NOTICEABLE = 0.01; // share by which a role must exceed even attention to be named
const MARKS = ["<bos>", "<eos>"];

// Whether a label has signs, but no letter and no digit.
function isPunctuation(token) {
  const signs = token.replaceAll(SPACE, " ").trim();
  return signs !== "" && !/[\p{L}\p{N}]/u.test(signs);
}

// [{role, share, shares}] of each head of a layer: the role with the widest margin over even attention, null if there is none,
// its share of the attention, and the share of every role.
function rolesOf(kind, layer) {
  const sentence = currentSentence();
  const packed = sentence.maps[kind][layer];
  return (packed.roles ??= headRoles(packed, kind, keyTokensOf(sentence, kind)));
}

function keyTokensOf({ source, target }, kind) {
  return kind === "decoder-self" ? target.tokens.slice(0, -1) : source.tokens;
}

function headRoles(packed, kind, keys) {
  const [heads, T, S] = packed.shape;
  const byToken = keys.map((token, key) => (MARKS.includes(token) ? 0 : isPunctuation(token) ? 1 : key ? 6 : 5));
  const roleAt = (query, key) => (byToken[key] < 2 || Math.abs(key - query) > 1 ? byToken[key] : key - query + 3);
  const even = new Float64Array(ROLES.length);
  const sums = Array.from({ length: heads }, () => new Float64Array(ROLES.length));
  const matrices = sums.map((_, head) => matrixOf(packed, head).values);
  for (let query = 0; query < T; query++) {
    const visibleKeys = kind === "decoder-self" ? query + 1 : S;
    for (let key = 0; key < S; key++) {
      const role = roleAt(query, key);
      if (key < visibleKeys) even[role] += 1 / (visibleKeys * T);
      for (let head = 0; head < heads; head++) sums[head][role] += matrices[head][query * S + key] / T;
    }
  }
  return sums.map((shares) => {
    const margins = shares.map((share, role) => share - even[role]);
    const best = margins.indexOf(Math.max(...margins));
    const isNoticed = margins[best] >= NOTICEABLE;
    return { role: isNoticed ? ROLES[best] : null, share: isNoticed ? shares[best] : 0, shares };
  });
}

function roleText({ role, share }) {
  return role === null ? say(ROLE_NAMES.null) : `${say(ROLE_NAMES[role])} ${percent(share)}`;
}

// Whether training told this head what to attend to.
function isGuided(kind, layer, head) {
  return Boolean(DATA.guided) && kind === "encoder-self" && layer === DATA.guided[0] && head === DATA.guided[1];
}

// Whether the model reads zeros instead of this head; only a page that computes can keep one off.
let isKeptOff = () => false;

function showHead(kind, layer, head) {
  change({ tab: "maps", kind, layer, heads: new Set([head]), rollout: false });
}

// Under the picture: a line for each head of the chosen layer, which head was guided, and the table of all heads.
function rolesPane() {
  const lines = rolesOf(state.kind, state.layer).map((role, head) => element("li", { "data-role-of": head },
    element("i", { class: "dot", style: { background: shownColour(head) } }),
    element("span", { class: isKeptOff(state.kind, state.layer, head) ? "is-off" : "" }, say("Head {number}: {role}", { number: head + 1, role: roleText(role) })),
    isGuided(state.kind, state.layer, head) ? element("b", { class: "guided" }, say("guided")) : null));
  return element("section", { class: "roles-pane", id: "roles" }, element("h3", {}, say("What each head looks at in this sentence, and how strongly")),
    element("ul", { class: "roles" }, ...lines), guidedLine(), allRoles());
}

function guidedLine() {
  if (!DATA.guided) return null;
  const [layer, head] = DATA.guided;
  const isShown = isGuided(state.kind, state.layer, head) && state.heads.size === 1 && state.heads.has(head);
  return element("p", { class: "note", id: "guided" }, element("b", { class: "guided" }, say("guided")),
    say("Head {head} of layer {layer} of the encoder was guided: training told it which noun a pronoun means.", { head: head + 1, layer: layer + 1 }), " ",
    button(say("Show it alone"), { class: "quiet", id: "show-guided", disabled: isShown, onclick: () => showHead("encoder-self", layer, head) }));
}

// Every head of every layer: what share of its attention lies where, the strongest head of each column marked.
function allRoles() {
  const details = element("details", { id: "all-roles", ontoggle: () => {
    state.allRoles = details.open;
    if (details.open && details.children.length === 1) details.append(...rolesTable());
  } }, element("summary", {}, say("All heads of all layers in per cent")));
  details.open = Boolean(state.allRoles);
  return details;
}

function rolesTable() {
  const rows = KINDS.flatMap((kind) => currentSentence().maps[kind].flatMap((_, layer) => rolesOf(kind, layer).map((role, head) => ({ ...role, kind, layer, head }))));
  const most = ROLES.map((_, at) => Math.max(...rows.map(({ shares }) => shares[at])));
  const strongest = ROLES.flatMap((role, at) => {
    const { kind, layer, head: number } = rows.find(({ shares }) => shares[at] === most[at]);
    const names = { role: say(ROLE_NAMES[role]), kind: say(LONG_KIND_NAMES[kind]), layer: layer + 1, head: number + 1, share: percent(most[at]) };
    return most[at] ? [element("li", {}, say("strongest on “{role}”: {kind}, layer {layer}, head {head}, {share}", names))] : [];
  });
  const head = ["", ...ROLES.map((role) => say(ROLE_NAMES[role]))].map((name) => (name ? element("th", { scope: "col" }, name) : element("td", {})));
  const body = rows.map(({ kind, layer, head: number, shares, role }) => {
    const name = `${say(KIND_NAMES[kind])} · ${say("Layer {layer}, head {head}", { layer: layer + 1, head: number + 1 })}`;
    const label = say("Show alone: {kind}, layer {layer}, head {head}", { kind: say(LONG_KIND_NAMES[kind]), layer: layer + 1, head: number + 1 });
    const cells = Array.from(shares, (share, at) => element("td", { class: `${ROLES[at] === role ? "drawn" : ""}${share === most[at] && share > 0 ? " most" : ""}` }, percent(share)));
    return element("tr", {}, element("th", { scope: "row" }, button(name, { class: "link", "aria-label": label, title: label, onclick: () => showHead(kind, layer, number) }),
      isGuided(kind, layer, number) ? element("b", { class: "guided" }, say("guided")) : null), ...cells);
  });
  return [element("p", { class: "muted note" }, say("The mean over the rows of this sentence. Coloured and bold: the strongest head of the column; underlined: what a head is drawn to more than even attention would be. A token counts once, in the first column that fits.")),
    element("ul", { class: "strongest" }, ...strongest),
    element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": say("All heads of all layers in per cent") },
      element("table", { class: "cell-table roles-table" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)))];
}
