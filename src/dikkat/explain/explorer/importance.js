// Attention beside gradient and occlusion for one written token, with their rank correlation and a word of caution.

const AGREES = 0.5;

function importanceTab() {
  const sentence = currentSentence();
  if (!sentence.saliency) return { node: element("p", { class: "muted" }, say("importanceMissing")) };
  const measures = { attention: meanOf(chosenHeads(sentence.maps.cross[state.layer]).map((head) => head.matrix)) };
  for (const [name, packed] of Object.entries(sentence.saliency)) measures[name] = matrixOf(packed, 0);
  const words = (name) => say("gradient" in measures ? name : `${name}Live`);
  const panel = element("div", { id: "importance-panel", "aria-live": "polite" });
  const choice = element("div", { class: "tokens running", role: "group", "aria-label": say("soFar") });
  const show = (row) => {
    state.row = row;
    mark(choice, row);
    panel.replaceChildren(agreement(measures, row, words), element("div", { class: "pane" }, comparedBars(sentence, measures, row)));
  };
  sentence.target.tokens.slice(1).forEach((token, row) =>
    choice.append(button(isolated(token), { class: "token", tabindex: row === state.row ? 0 : -1, onclick: () => show(row), onfocus: () => show(row) })));
  choice.addEventListener("keydown", walk);
  show(state.row);
  return { node: element("div", { class: "importance" }, element("p", { class: "intro" }, words("importanceIntro")),
    element("p", { class: "muted" }, say("crossOnly", { layer: state.layer + 1 })), choice, panel) };
}

function correlations(measures, other) {
  const { T } = measures.attention;
  return Array.from({ length: T }, (_, row) => rankCorrelation(rowOf(measures.attention, row), rowOf(measures[other], row)));
}

function agreement(measures, row, words) {
  const rows = Object.keys(measures).slice(1).map((name) => {
    const values = correlations(measures, name);
    const defined = values.filter((value) => value !== null);
    const mean = defined.reduce((sum, value) => sum + value, 0) / defined.length;
    return { name, here: values[row], mean: defined.length ? mean : null };
  });
  const shown = (value) => (value === null ? "–" : number(value));
  const low = rows.some(({ here }) => here === null || here < AGREES);
  return element("div", { class: "pane" }, heading(say("agreement")),
    element("dl", { class: "figures" }, ...rows.map(({ name, here, mean }) => element("div", { "data-measure": name },
      element("dt", {}, say(name)), element("dd", {}, element("b", {}, shown(here)), ` ${say("thisToken")}`),
      element("dd", {}, element("b", {}, shown(mean)), ` ${say("allTokens")}`)))),
    element("p", { class: `caution ${low ? "low" : "high"}`, role: "note" }, words(low ? "cautionLow" : "cautionHigh")));
}

function comparedBars(sentence, measures, row) {
  const names = Object.keys(measures);
  const most = names.map((name) => Math.max(...rowOf(measures[name], row), 1e-6));
  const head = element("tr", {}, element("th", { scope: "col" }, say("sourceToken")), ...names.map((name) => element("th", { scope: "col" }, say(name))));
  const rows = sentence.source.tokens.map((token, key) => element("tr", {}, element("th", { scope: "row" }, isolated(token)),
    ...names.map((name, at) => {
      const value = rowOf(measures[name], row)[key];
      return element("td", {}, element("span", { class: `bar ${name}` }, element("i", { style: { width: `${(100 * value) / most[at]}%` } })),
        element("small", {}, number(value)));
    })));
  return element("table", { class: "compared" }, element("thead", {}, head), element("tbody", {}, ...rows));
}
