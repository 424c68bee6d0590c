// A text on one side; on the other, while it is typed, its classes with their probabilities, its marked words or its numbers.

import { headColour } from "./colours.js";
import { debounced, element, labelled, select } from "./elements.js";
import { Latest } from "./server.js";
import { msg, number, say } from "./language.js";

const PAUSE = 150;
const state = { text: "", model: "" };
const KINDS = { // what a kind of model answers: the name of the answer, and its drawing
  classifier: [msg("Classes"), classes],
  tagger: [msg("Marked words"), spans],
  regressor: [msg("Numbers"), numbers],
};

export function answersAboutTexts(kind) {
  return Object.hasOwn(KINDS, kind);
}

export function classifyPanel(served, messages) {
  const latest = new Latest();
  const models = Object.keys(KINDS).flatMap((kind) => served.models.filter((model) => model.kind === kind));
  if (!models.some((model) => model.name === state.model)) state.model = models[0].name;
  const area = element("textarea", { rows: 7, dir: "auto", placeholder: say("The answer appears while you type"), oninput: () => { state.text = area.value; update(); } });
  area.value = state.text;
  const result = element("section", { class: "card padded", id: "answer", "aria-live": "polite" });
  const update = debounced(request, PAUSE);

  async function request() {
    const [title, draw] = KINDS[models.find((model) => model.name === state.model).kind];
    result.setAttribute("aria-label", say(title));
    if (!state.text.trim()) {
      latest.stop();
      result.replaceChildren();
      return;
    }
    const text = state.text;
    try {
      const answer = await latest.request("/predict", { inputs: text, model: state.model });
      if (answer) result.replaceChildren(draw(answer, text));
      messages.notice("");
    } catch (problem) {
      result.replaceChildren();
      messages.notice(/without words/.test(problem.message) ? say("The text has no words.") : problem.message);
    }
  }

  const chooser = models.length > 1 ? labelled(say("Model"), select(models.map(({ name }) => [name, name]), state.model, { onchange: (event) => { state.model = event.target.value; update.now(); } }), true) : null;
  const node = element("div", {}, chooser && element("div", { class: "pair-chooser" }, chooser), element("div", { class: "cards" },
    element("section", { class: "card" }, labelled(say("Text to classify"), area, true)), result));
  return { node, close: () => latest.stop(), ready: () => update.now() };
}

function percent(share) {
  return `${number(100 * share, 1)} %`;
}

function classes(rows) {
  return element("ul", { class: "classes", id: "classes" }, ...rows.map(({ label, score }) => element("li", {},
    element("bdi", {}, label), element("span", { class: "bar", "aria-hidden": "true" }, element("i", { style: { width: `${100 * score}%` } })),
    element("b", {}, percent(score)))));
}

function numbers(rows) {
  return element("ul", { class: "classes numbers" }, ...rows.map(({ label, score }) =>
    element("li", {}, element("bdi", {}, label), element("b", {}, number(score, 4)))));
}

// The text with its marked words in the colours of their labels; offsets count characters, as Python does.
function spans(rows, text) {
  if (!rows.length) return element("p", { class: "muted" }, say("Nothing is marked."));
  const characters = Array.from(text);
  const part = (start, end) => characters.slice(start, end).join("");
  const colours = new Map([...new Set(rows.map(({ label }) => label))].sort().map((label, index) => [label, headColour(index)]));
  const children = [];
  let before = 0;
  for (const { label, score, start, end } of rows) {
    const mark = element("mark", { title: `${label} ${percent(score)}`, style: { "--label": colours.get(label) } },
      element("bdi", {}, part(start, end)), element("small", {}, element("bdi", {}, label)));
    children.push(part(before, start), mark);
    before = end;
  }
  return element("p", { class: "spans", dir: "auto" }, ...children, part(before));
}
