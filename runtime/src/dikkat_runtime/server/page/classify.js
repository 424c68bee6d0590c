// A text on one side, its classes with their probabilities on the other while it is typed.

import { debounced, element, labelled, select } from "./elements.js";
import { Latest } from "./server.js";
import { number, say } from "./language.js";

const PAUSE = 150;
const state = { text: "", model: "" };

export function classifyPanel(served, messages) {
  const latest = new Latest();
  const models = served.models.filter((model) => model.kind === "classifier").map((model) => model.name);
  if (!models.includes(state.model)) [state.model] = models;
  const area = element("textarea", { rows: 7, dir: "auto", placeholder: say("The classes appear while you type"), oninput: () => { state.text = area.value; update(); } });
  area.value = state.text;
  const bars = element("ul", { class: "classes", id: "classes", "aria-label": say("Classes"), "aria-live": "polite" });
  const update = debounced(request, PAUSE);

  async function request() {
    if (!state.text.trim()) {
      latest.stop();
      bars.replaceChildren();
      return;
    }
    try {
      const answer = await latest.request("/predict", { inputs: state.text, model: state.model });
      if (answer) draw(answer);
      messages.notice("");
    } catch (problem) {
      bars.replaceChildren();
      messages.notice(/without words/.test(problem.message) ? say("The text has no words.") : problem.message);
    }
  }

  function draw(rows) {
    bars.replaceChildren(...rows.map(({ label, score }) => element("li", {},
      element("bdi", {}, label), element("span", { class: "bar", "aria-hidden": "true" }, element("i", { style: { width: `${100 * score}%` } })),
      element("b", {}, `${number(100 * score, 1)} %`))));
  }

  const chooser = models.length > 1 ? labelled(say("Model"), select(models.map((name) => [name, name]), state.model, { onchange: (event) => { state.model = event.target.value; update.now(); } }), true) : null;
  const node = element("div", {}, chooser && element("div", { class: "pair-chooser" }, chooser), element("div", { class: "cards" },
    element("section", { class: "card" }, labelled(say("Text to classify"), area, true)),
    element("section", { class: "card padded", "aria-label": say("Classes") }, bars)));
  return { node, close: () => latest.stop(), ready: () => update.now() };
}
