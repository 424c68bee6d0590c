// Step by step: what was written, where the model looked while it wrote it, and what else it considered.

const FATES = { lives: msg("goes on"), ends: msg("finished"), falls: msg("dropped") };

function decodingTab() {
  const sentence = currentSentence();
  const count = sentence.target.tokens.length - 1;
  state.step = Math.min(state.step, count);
  const title = element("output", { class: "step-title", for: "step" });
  const slider = element("input", {
    type: "range", id: "step", min: 1, max: count, value: state.step, "aria-label": say("Step of the decoding"), oninput: () => go(Number(slider.value)),
  });
  const back = button("‹", { id: "back", class: "quiet", "aria-label": say("One step back"), onclick: () => go(state.step - 1) });
  const forward = button("›", { id: "forward", class: "quiet", "aria-label": say("One step on"), onclick: () => go(state.step + 1) });
  const written = element("p", { class: "written", "aria-live": "polite" });
  const row = element("ul", { class: "live-row", id: "live-row" });
  const tree = sentence.beam ? beamTree(sentence.beam) : null;
  const table = element("div", { id: "candidates" });
  const whole = tree ? hypothesesPane(sentence, tree.highlight) : null;
  const show = () => {
    title.textContent = say("Step {step} of {count}", { step: state.step, count });
    slider.value = state.step;
    [back.disabled, forward.disabled] = [state.step === 1, state.step === count];
    const isFocused = written.contains(document.activeElement);
    written.replaceChildren(...writtenTokens(sentence, state.step, go));
    if (isFocused) written.querySelector('[aria-current="step"]').focus();
    row.replaceChildren(...liveRow(sentence, state.step - 1));
    if (tree) {
      tree.show(state.step);
      table.replaceChildren(candidateTable(sentence.beam, state.step));
    }
  };
  const go = (step) => {
    state.step = Math.min(count, Math.max(1, step));
    show();
  };
  decodingTab.go = (change) => go(state.step + change);
  const search = tree
    ? [heading(say("The beam")), tree.node, element("p", { class: "muted note" }, say("Columns are steps, rows the ranks in the beam, best on top, each token with its own probability. The thick path is that of the chosen sentence; ■ is a finished hypothesis."))]
    : [element("p", { class: "muted" }, sentence.isGiven ? say("The target was given, so nothing was searched.") : say("This file holds the maps alone, and nothing of the search."))];
  const node = element("div", { class: "decoding" },
    element("div", { class: "stepper" }, back, slider, forward, title),
    element("div", { class: "pane" }, heading(say("Written so far")), written, element("p", { class: "muted note", id: "sureness" }, sureness(sentence))),
    tree ? element("div", { class: "pane", id: "considered" }, heading(say("What it considered in this step")), table) : null,
    element("div", { class: "pane" }, heading(`${say("Where it looks now")} · ${say("Cross-attention")}, ${say("Layer {number}", { number: state.layer + 1 })}`), row),
    element("div", { class: "pane" }, ...search));
  const ready = () => {
    show();
    whole?.ready();
  };
  if (whole) node.lastChild.before(whole.node);
  return { node, ready };
}

// The tokens in their words, a click on one goes to its step; each with its own probability below it, and below a word of several tokens that of the word.
function writtenTokens(sentence, step, go) {
  const { tokens, numbers } = sideOf(sentence.target, 1, sentence.target.tokens.length);
  const probabilities = writtenProbabilities(sentence);
  const tokenAt = (index) => saidToken(tokens[index], probabilities?.[index] ?? null, index + 1 === step ? "now" : index + 1 > step ? "later" : "", {
    "aria-current": index + 1 === step ? "step" : null, title: say("To step {step}", { step: index + 1 }), tabindex: index + 1 === step ? 0 : -1, onclick: () => go(index + 1),
  });
  const words = Array.from({ length: numbers.at(-1) + 1 }, () => []);
  numbers.forEach((word, index) => words[word].push(index));
  return words.map((members) => {
    const isWhole = members.length > 1 && probabilities;
    const share = isWhole ? members.reduce((product, index) => product * (probabilities[index] ?? 1), 1) : 0;
    return element("span", { class: "said-word" }, element("span", {}, ...members.map(tokenAt)),
      isWhole ? element("small", { class: "of-word" }, say("word {share}", { share: percent(share) })) : null);
  });
}

// How sure the model was of what it wrote, in a sentence.
function sureness(sentence) {
  const probabilities = writtenProbabilities(sentence);
  if (!probabilities) return say("The probabilities of these tokens are not in this file.");
  const whole = probabilities.reduce((product, share) => product * share, 1);
  return say("Below each token its own probability, given all before it; all together {share}.", { share: percent(whole) });
}

// One bar a source token, made of one piece a head; together they are the mean weight.
function liveRow(sentence, query) {
  const heads = chosenHeads(sentence.maps.cross[state.layer]);
  const mean = meanOf(heads.map((head) => head.matrix));
  return sentence.source.tokens.map((token, key) => {
    const pieces = heads.map((head) =>
      element("i", { style: { background: head.colour, width: `${(100 * head.matrix.values[query * head.matrix.S + key]) / heads.length}%` } }));
    const weight = mean.values[query * mean.S + key];
    return element("li", {}, isolated(token), element("span", { class: "bar" }, ...pieces), element("b", {}, number(weight)));
  });
}

function candidateTable(beam, step) {
  const candidates = beam.steps[step - 1];
  if (!candidates) return element("p", { class: "muted" }, "–");
  const { path } = shownHypothesis(beam);
  const own = step > 1 ? livingAfter(beam, step - 1).indexOf(beam.steps[step - 2][path[step - 2]]) : 0;
  const row = ([parent, token, logProbability, score, fate], rank) =>
    element("tr", { class: `${fate}${path[step - 1] === rank ? " best" : ""}` },
      element("td", {}, String(rank + 1)),
      element("td", {}, element("span", { class: "muted" }, `${prefixOf(beam, step - 1, parent)} `), isolated(token)),
      element("td", {}, element("b", {}, percent(ownProbability(beam, step, candidates[rank])))), element("td", {}, percent(Math.exp(logProbability))), element("td", {}, number(logProbability)), element("td", {}, number(score)),
      element("td", {}, element("span", { class: `fate ${fate}` }, say(FATES[fate]))));
  // what other hypotheses may go on with is no second choice for this sentence
  const parts = [[say("After what the chosen sentence has written"), true], [say("After what other hypotheses of the beam have written"), false]]
    .map(([title, isOwn]) => [title, candidates.flatMap((candidate, rank) => ((candidate[0] === own) === isOwn ? [row(candidate, rank)] : []))]).filter(([, rows]) => rows.length);
  const bodies = parts.map(([title, rows]) => element("tbody", {}, parts.length > 1 ? element("tr", { class: "of-prefix" }, element("th", { colspan: 7, scope: "rowgroup" }, title)) : null, ...rows));
  const head = [say("rank"), say("Continuation"), say("probability of the token"), say("of all so far"), say("log p, cumulative"), say("score"), say("fate")].map((name) => element("th", { scope: "col" }, name));
  return element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": say("What it considered in this step") }, element("table", {}, element("thead", {}, element("tr", {}, ...head)), ...bodies));
}

// The last tokens of the hypothesis that stood at `slot` after `step`.
function prefixOf(beam, step, slot) {
  const tokens = [];
  for (; step > 0; step--) {
    const [parent, token] = livingAfter(beam, step)[slot];
    tokens.unshift(shortened(token, 16));
    slot = parent;
  }
  return (tokens.length > 3 ? "… " : "") + tokens.slice(-3).join(" ");
}
