// A square for every head; choosing one shows the translation that the model writes without it.

function headsTab() {
  const sentence = currentSentence();
  if (!sentence.headsOff.length) return { node: element("p", { class: "muted" }, say("offMissing")) };
  const before = sentence.target.text;
  const count = before.split(" ").length;
  const offs = sentence.headsOff.map(([kind, layer, head, text, score]) => ({ kind, layer, head, text, score, changed: countChanges(before, text) }));
  const result = element("div", { class: "pane result", id: "without", "aria-live": "polite" });
  const squares = offs.map((off, index) => headSquare(off, count, () => choose(index)));
  const choose = (index) => {
    state.off = index;
    squares.forEach((square, at) => square.setAttribute("aria-pressed", String(at === index)));
    result.replaceChildren(...(offs[index] ? offResult(sentence, offs[index], count) : []));
  };
  const node = element("div", { class: "heads-off" }, element("p", { class: "intro" }, say("offIntro")),
    element("div", { class: "head-grids" }, ...KINDS.map((kind) => headGrid(kind, offs, squares))), result);
  choose(state.off);
  return { node };
}

function headGrid(kind, offs, squares) {
  const layers = [...new Set(offs.filter((off) => off.kind === kind).map((off) => off.layer))];
  const rows = layers.map((layer) => element("div", { class: "head-row" },
    element("span", { class: "muted", title: say("layerNumber", { number: layer + 1 }) }, say("layerShort", { number: layer + 1 })),
    ...squares.filter((_, at) => offs[at].kind === kind && offs[at].layer === layer)));
  return element("section", { class: "pane" }, heading(say(`${kind}-long`)), ...rows);
}

function headSquare(off, count, choose) {
  const share = Math.min(1, off.changed / count);
  const names = { kind: say(`${off.kind}-long`), layer: off.layer + 1, head: off.head + 1, changed: off.changed, count };
  const title = say("offLabel", names);
  return button(say("headShort", { number: off.head + 1 }), {
    class: "square", "data-strength": share <= 0.5 ? "weak" : "strong", title, "aria-label": title, "aria-pressed": "false", onclick: choose,
    style: { background: scaleColour(share ? 0.2 + 0.8 * share : 0.04) },
  });
}

function offResult(sentence, off, count) {
  const names = { kind: say(`${off.kind}-long`), layer: off.layer + 1, head: off.head + 1 };
  const score = off.score === null ? null : element("span", { class: "muted" }, ` ${say("score", { score: number(off.score) })}`);
  return [
    heading(say("whole")), element("p", { class: "line" }, isolated(sentence.target.text)),
    heading(say("without", names)),
    element("p", { class: "line", id: "new-translation" }, ...markedDifferences(sentence.target.text, off.text), score),
    element("p", { class: "muted" }, off.changed ? say("changedWords", { changed: off.changed, count }) : say("same")),
  ];
}
