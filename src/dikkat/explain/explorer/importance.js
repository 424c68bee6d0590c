// Attention next to gradient and occlusion for one written token, with their rank correlation and a word of caution.

const AGREES = 0.5;
const IN_SENTENCE = { attention: msg("attention"), gradient: msg("gradient"), occlusion: msg("occlusion") };
const MEASURES = { attention: msg("Attention"), gradient: msg("Gradient × input"), occlusion: msg("Occlusion") };

function importanceTab() {
  const sentence = currentSentence();
  if (!sentence.saliency) return { node: element("p", { class: "muted" }, say("This sentence is too long: gradients and occlusion are computed for at most 200 tokens.")) };
  const measures = { attention: meanOf(chosenHeads(sentence.maps.cross[state.layer]).map((head) => head.matrix)) };
  for (const [name, packed] of Object.entries(sentence.saliency)) measures[name] = matrixOf(packed, 0);
  const panel = element("div", { id: "importance-panel", "aria-live": "polite" });
  const choice = element("div", { class: "tokens running", role: "group", "aria-label": say("Written so far") });
  const show = (row) => {
    state.row = row;
    mark(choice, row);
    panel.replaceChildren(agreement(measures, row), element("div", { class: "pane" }, comparedBars(sentence, measures, row)));
  };
  sentence.target.tokens.slice(1).forEach((token, row) =>
    choice.append(button(isolated(token), { class: "token", tabindex: row === Math.min(state.row, sentence.target.tokens.length - 2) ? 0 : -1, onclick: () => show(row), onfocus: () => show(row) })));
  choice.addEventListener("keydown", walk);
  show(Math.min(state.row, sentence.target.tokens.length - 2));
  return { node: element("div", { class: "importance" }, element("p", { class: "intro" }, hasGradient(measures)
    ? say("Three answers to one question: which source token mattered when this token was written? Choose a token.")
    : say("Two answers to one question: which source token mattered when this token was written? Choose a token.")),
    element("p", { class: "muted" }, say("Attention here is the mean of the chosen heads of cross-attention, layer {layer}.", { layer: state.layer + 1 })), choice, panel) };
}

function correlations(measures, other) {
  const { T } = measures.attention;
  return Array.from({ length: T }, (_, row) => rankCorrelation(rowOf(measures.attention, row), rowOf(measures[other], row)));
}

function agreement(measures, row) {
  const rows = Object.keys(measures).slice(1).map((name) => {
    const values = correlations(measures, name);
    const defined = values.filter((value) => value !== null);
    const mean = defined.reduce((sum, value) => sum + value, 0) / defined.length;
    return { name, here: values[row], mean: defined.length ? mean : null };
  });
  const shown = (value) => (value === null ? "–" : number(value));
  const isLow = rows.some(({ here }) => here === null || here < AGREES);
  const groups = sameFirst(measures, row);
  return element("div", { class: "pane" },
    element("p", { class: `caution ${groups.length > 1 ? "low" : isLow ? "mixed" : "high"}`, role: "note" }, verdict(groups, isLow)),
    heading(say("Rank correlation with attention (Spearman, over the source tokens)")),
    element("dl", { class: "figures" }, ...rows.map(({ name, here, mean }) => element("div", { "data-measure": name },
      element("dt", {}, say(MEASURES[name])), element("dd", {}, element("b", {}, shown(here)), ` ${say("this token")}`),
      element("dd", {}, element("b", {}, shown(mean)), ` ${say("mean of all tokens")}`)))));
}

// [[token, names]] of the source tokens that measures put first, that of most measures first.
function sameFirst(measures, row) {
  const groups = new Map();
  for (const name of Object.keys(measures)) {
    const token = firstOf(measures[name], row);
    groups.set(token, [...(groups.get(token) ?? []), say(IN_SENTENCE[name])]);
  }
  const { tokens } = currentSentence().source;
  return [...groups].map(([token, names]) => [named(tokens[token]), names]).sort((a, b) => b[1].length - a[1].length);
}

function firstOf(matrix, row) {
  const values = rowOf(matrix, row);
  return values.indexOf(Math.max(...values));
}

// What agrees, then what differs, then what the map must not be read as.
function verdict(groups, isLow) {
  const [[token, names], ...others] = groups;
  const [first, second, third] = names;
  const says = ([word, [name]]) => say("{name} puts “{token}” first", { name, token: word });
  const agreement = [
    () => say("None agree here: {list}.", { list: groups.map(says).join(", ") }),
    () => say("{first} and {second} agree: both put “{token}” first.", { first, second, token }),
    () => say("{first}, {second} and {third} agree: all three put “{token}” first.", { first, second, third, token }),
  ][names.length - 1]();
  const difference = others.length && names.length > 1 ? say("But {list}.", { list: others.map(says).join(", ") }) : "";
  const advice = others.length
    ? [say("Do not read this map as an alignment or as the reason for the word.")]
    : [isLow ? say("Only the order of the tokens after it differs: read the strongest, not the rest.") : say("They order the other tokens much alike, too."), say("Even so, attention says where the model read from, not why it decided.")];
  return [capitalized(agreement), difference, ...advice].filter(Boolean).join(" ");
}

// A page that computes has no gradient.
function hasGradient(measures) {
  return "gradient" in measures;
}

function comparedBars(sentence, measures, row) {
  const names = Object.keys(measures);
  const most = names.map((name) => Math.max(...rowOf(measures[name], row), 1e-6));
  const head = element("tr", {}, element("th", { scope: "col" }, say("Source token")), ...names.map((name) => element("th", { scope: "col" }, say(MEASURES[name]))));
  const rows = sentence.source.tokens.map((token, key) => element("tr", {}, element("th", { scope: "row" }, isolated(token)),
    ...names.map((name, at) => {
      const value = rowOf(measures[name], row)[key];
      return element("td", { class: key === firstOf(measures[name], row) ? "first" : "" }, element("span", { class: `bar ${name}` }, element("i", { style: { width: `${(100 * value) / most[at]}%` } })),
        element("small", {}, number(value)));
    })));
  return element("table", { class: "compared" }, element("thead", {}, head), element("tbody", {}, ...rows));
}
