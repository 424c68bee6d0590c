// A square for every head; choosing one shows the translation that the model writes without it.

function headsTab() {
  const sentence = currentSentence();
  if (!sentence.headsOff.length) return { node: element("p", { class: "muted" }, say("The file was made without this: dikkat page RUN --out page.html writes a page that computes it.")) };
  const before = textWithAll(sentence);
  const count = before.split(" ").length;
  const offs = sentence.headsOff.map(([kind, layer, head, text, score, logProbability]) => ({ kind, layer, head, text, score, logProbability, changed: countChanges(before, text) }));
  const result = element("div", { class: "pane result", id: "without", "aria-live": "polite" });
  const squares = offs.map((off, index) => headSquare(off, count, () => choose(index)));
  const choose = (index) => {
    state.off = index;
    squares.forEach((square, at) => square.setAttribute("aria-pressed", String(at === index)));
    result.replaceChildren(...(offs[index] ? offResult(sentence, offs[index], count) : []));
  };
  const node = element("div", { class: "heads-off" }, element("p", { class: "intro" }, say("Each square is one head. The stronger its colour, the more words of the translation change when this head alone is switched off. Choose one.")),
    element("div", { class: "head-grids" }, ...KINDS.map((kind) => headGrid(kind, offs, squares))),
    offs.some((off) => off.changed) ? null : element("p", { class: "muted", id: "no-head" }, say("No head changes the translation when it alone is switched off: the others know enough.")), result);
  choose(state.off);
  return { node };
}

// What the search writes with all heads, also while another hypothesis is shown.
function textWithAll({ beam, target }) {
  return beam ? beam.hypotheses[0][0] : target.text;
}

function headGrid(kind, offs, squares) {
  const layers = [...new Set(offs.filter((off) => off.kind === kind).map((off) => off.layer))];
  const rows = layers.map((layer) => element("div", { class: "head-row" },
    element("span", { class: "muted", title: say("Layer {number}", { number: layer + 1 }) }, say("L{number}", { number: layer + 1 })),
    ...squares.filter((_, at) => offs[at].kind === kind && offs[at].layer === layer)));
  return element("section", { class: "pane" }, heading(say(LONG_KIND_NAMES[kind])), ...rows);
}

function headSquare(off, count, choose) {
  const share = Math.min(1, off.changed / count);
  const names = { kind: say(LONG_KIND_NAMES[off.kind]), layer: off.layer + 1, head: off.head + 1, changed: off.changed, count };
  const title = say("{kind}, layer {layer}, head {head}: {changed} of {count} words change", names);
  return button(say("H{number}", { number: off.head + 1 }), {
    class: `square${isGuided(off.kind, off.layer, off.head) ? " is-guided" : ""}`, "data-strength": share <= 0.5 ? "weak" : "strong", title, "aria-label": title, "aria-pressed": "false", onclick: choose,
    style: { background: scaleColour(share ? 0.2 + 0.8 * share : 0.04) },
  });
}

// How sure the model is of its whole sentence, with all heads and without the one; a page of a file knows the scores alone.
function surenessWithout({ beam, score }, off) {
  const knows = beam && off.logProbability !== undefined;
  const template = knows ? msg("Probability of the whole sentence with all heads → without this one: {before} → {after}") : msg("Score with all heads → without this one: {before} → {after}");
  const [before, after] = knows ? [percent(hypothesesOf(beam)[0].probability), percent(Math.exp(off.logProbability))] : [beam ? hypothesesOf(beam)[0].score : score, off.score].map((one) => (one === null ? "–" : number(one)));
  return element("p", { id: "sure-without" }, say(template, { before, after }));
}

function offResult(sentence, off, count) {
  const names = { kind: say(LONG_KIND_NAMES[off.kind]), layer: off.layer + 1, head: off.head + 1 };
  return [
    heading(say("With all heads")), element("p", { class: "line" }, isolated(textWithAll(sentence))),
    heading(say("Without {kind}, layer {layer}, head {head}", names)),
    element("p", { class: "line", id: "new-translation" }, ...markedDifferences(textWithAll(sentence), off.text)),
    element("p", { class: "muted" }, off.changed ? say("{changed} of {count} words change", { changed: off.changed, count }) : say("The words stay the same.")),
    surenessWithout(sentence, off),
  ];
}
