// How alike texts are: the cosines of the vectors that a model gives them.

import { isStrong, scaleColour } from "./colours.js";
import { debounced, element, labelled, select } from "./elements.js";
import { Latest } from "./server.js";
import { number, say } from "./language.js";

const PAUSE = 300;
const MAX_COUNT = 24; // texts; a larger table is not read
const state = { text: "", model: "" };

export function comparePanel(served, messages) {
  const latest = new Latest();
  const models = served.models.map((model) => model.name);
  if (!models.includes(state.model)) [state.model] = models;
  const area = element("textarea", { rows: 7, dir: "auto", placeholder: say("One text a line, at least two"), oninput: () => { state.text = area.value; update(); } });
  area.value = state.text;
  const result = element("div", { id: "similarity" });
  const update = debounced(request, PAUSE);

  async function request() {
    const texts = state.text.split("\n").map((line) => line.trim()).filter(Boolean).slice(0, MAX_COUNT);
    if (texts.length < 2) {
      latest.stop();
      result.replaceChildren(element("p", { class: "muted" }, say("Write at least two lines.")));
      return;
    }
    try {
      const answer = await latest.request("/v1/embeddings", { model: state.model, input: texts, encoding_format: "float" });
      if (answer) draw(texts, answer.data.map((entry) => entry.embedding));
      messages.notice("");
    } catch (problem) {
      messages.notice(problem.message);
    }
  }

  function draw(texts, vectors) {
    const cosines = vectors.map((one) => vectors.map((other) => cosine(one, other)));
    const best = closest(cosines);
    const head = element("tr", {}, element("td"), ...texts.map((_, index) => element("th", { scope: "col" }, String(index + 1))));
    const rows = texts.map((text, row) => element("tr", {},
      element("th", { scope: "row", title: text }, element("span", { class: "muted" }, `${row + 1} `), element("bdi", {}, text)),
      ...cosines[row].map((value) => cell(value))));
    const summary = say("Most alike: “{one}” and “{two}”, {value}", { one: texts[best[0]], other: "", two: texts[best[1]], value: number(cosines[best[0]][best[1]], 2) });
    result.replaceChildren(element("h2", {}, say("Similarity of the texts")), element("div", { class: "scroll" }, element("table", { class: "cosines" },
      element("caption", { class: "muted" }, say("cosine of their vectors")), element("thead", {}, head), element("tbody", {}, ...rows))), element("p", { class: "note", dir: "auto" }, summary));
  }

  const chooser = models.length > 1 ? element("div", { class: "pair-chooser" }, labelled(say("Model"), select(models.map((name) => [name, name]), state.model, { onchange: (event) => { state.model = event.target.value; update.now(); } }), true)) : null;
  const node = element("div", {}, chooser, element("div", { class: "cards" }, element("section", { class: "card" }, labelled(say("Texts, one a line"), area, true)), element("section", { class: "card padded" }, result)));
  return { node, close: () => latest.stop(), ready: () => update.now() };
}

function cell(value) {
  const share = Math.max(0, value);
  return element("td", { class: isStrong(share) ? "on-dark" : "on-light", style: { background: scaleColour(share) } }, number(value, 2));
}

function cosine(one, other) {
  let [product, a, b] = [0, 0, 0];
  one.forEach((value, i) => {
    product += value * other[i];
    a += value * value;
    b += other[i] * other[i];
  });
  return a && b ? product / Math.sqrt(a * b) : 0;
}

function closest(cosines) {
  let best = [0, 1];
  cosines.forEach((row, i) => row.forEach((value, j) => {
    if (i < j && value > cosines[best[0]][best[1]]) best = [i, j];
  }));
  return best;
}
