// Probabilities of tokens, words and whole sentences out of the log-probabilities of a search.

// The hypothesis of each candidate that lives on after `step`, best first; before the first there is the empty one.
function livingAfter(beam, step) {
  return step ? beam.steps[step - 1].filter(([, , , , fate]) => fate === "lives") : [[0, "", 0, 0, "lives"]];
}

// The probability of a candidate's own token after what its hypothesis has written before.
function ownProbability(beam, step, [parent, , logProbability]) {
  return Math.exp(Math.min(0, logProbability - livingAfter(beam, step - 1)[parent][2]));
}

// [{token, probability}] of the tokens of a hypothesis, whose candidate of each step `path` names.
function tokensOf(beam, path) {
  return path.map((rank, index) => {
    const candidate = beam.steps[index][rank];
    return { token: candidate[1], probability: ownProbability(beam, index + 1, candidate) };
  });
}

// {text, path, probability, logProbability, score, isFinished} of each hypothesis that the search ended with, best first.
function hypothesesOf(beam) {
  return beam.hypotheses.map(([text, path]) => {
    const [, , logProbability, score, fate] = beam.steps[path.length - 1][path.at(-1)];
    return { text, path, probability: Math.exp(logProbability), logProbability, score, isFinished: fate === "ends" };
  });
}

// The hypothesis whose attention is shown: the best, unless a page that computes shows another one.
function shownHypothesis(beam) {
  return hypothesesOf(beam)[beam.shown ?? 0];
}

// The probability of each token that was written, the last of which is the end; null where the target was given.
function writtenProbabilities({ beam }) {
  return beam ? tokensOf(beam, shownHypothesis(beam).path).map(({ probability }) => probability) : null;
}

// The whole sentences with their probabilities; a click on one lists its words and shows its path in the tree.
function hypothesesPane(sentence, show) {
  const { beam } = sentence;
  const all = hypothesesOf(beam);
  state.hypothesis = Math.min(state.hypothesis, all.length - 1);
  const words = element("div", { id: "hypothesis", "aria-live": "polite" });
  const rows = all.map((one, rank) => {
    const choice = button("", { class: "link", onclick: () => choose(rank) });
    choice.append(element("bdi", {}, rank ? markedWords(all[0].text, one.text) : visible(one.text)));
    return element("tr", {}, element("td", {}, String(rank + 1)), element("td", {}, choice), element("td", {}, percent(one.probability)),
      element("td", {}, number(one.logProbability)), element("td", {}, number(one.score)),
      element("td", {}, one.isFinished ? "" : element("span", { class: "fate" }, say("cut at the limit"))));
  });
  const choose = (rank) => {
    state.hypothesis = rank;
    rows.forEach((row, at) => row.querySelector("button").setAttribute("aria-pressed", String(at === rank)));
    words.replaceChildren(heading(say("The tokens of sentence {rank}, each with its own probability", { rank: rank + 1 })), element("p", { class: "written" },
      ...tokensOf(beam, all[rank].path).map(({ token, probability }) => saidToken(token, probability, ""))), hypothesisAction(rank) ?? "");
    show(all[rank].path);
  };
  const head = ["", say("Sentence"), say("probability"), say("log p of the whole"), say("score"), ""].map((name) => (name ? element("th", { scope: "col" }, name) : element("td", {})));
  const title = beam.size === 1 ? say("The whole sentence that greedy search ended with") : say("The {count} whole sentences that the search ended with", { count: all.length });
  const node = element("div", { class: "pane", id: "hypotheses" }, heading(title),
    element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows))),
    element("p", { class: "muted note" }, say("Probability of all tokens together, the end included: e to the power of log p. The score, by which they are ranked, is log p over a power of the length. Marked: what the best has not. A click shows the tokens of a sentence and its way through the beam.")), widerBeam(beam) ?? "", words);
  return { node, ready: () => choose(state.hypothesis) };
}

// What a page that computes adds: the maps of a hypothesis, and a wider beam.
let hypothesisAction = () => null;
let widerBeam = () => null;

// A sentence in which the words that the best one has not are marked.
function markedWords(best, text) {
  const parts = differences(best, text).filter(([kind]) => kind !== "goes").flatMap(([kind, word]) => [kind === "comes" ? element("u", {}, visible(word)) : visible(word), " "]);
  return element("span", {}, ...parts.slice(0, -1));
}

// A token with its probability below it; a button where `action` says what a click does.
function saidToken(token, probability, className, action = null) {
  const share = probability === null ? null : element("small", {}, percent(probability));
  return element(action ? "button" : "span", { ...(action && { type: "button", ...action }), class: "said-token" }, isolated(token, { class: `said ${className}` }), share);
}
