// Which languages, and by which model where there are several: what texts and documents are translated by.

import { button, element, labelled, select } from "./elements.js";
import { languageName, say } from "./language.js";

export const AUTO = "auto";
const chosen = { source: "", target: "", model: "" };

const translators = (served) => served.models.filter((model) => model.kind === "translator");
const distinct = (values) => [...new Set(values)];

// The controls, and `value()`: source, target and model; `changed` is called on every change.
export function pairChooser(served, { detects, detected, changed }) {
  const models = translators(served);
  const sources = distinct(models.map((model) => model.source));
  const withAuto = detects && served.detects;
  settle(models, sources, withAuto);
  const node = element("div", { class: "pair-chooser" });

  function draw() {
    const targets = distinct(models.filter(fits).map((model) => model.target));
    const named = models.filter((model) => fits(model) && model.target === chosen.target);
    const autoName = chosen.source === AUTO && detected?.() ? say("{language}, detected", { language: languageName(detected()) }) : say("Detect language");
    const choices = [...(withAuto ? [[AUTO, autoName]] : []), ...sources.map((code) => [code, languageName(code)])];
    const back = models.find((model) => model.source === chosen.target && model.target === chosen.source);
    const set = (values, isSwap = false) => {
      Object.assign(chosen, values);
      settle(models, sources, withAuto);
      draw();
      changed(isSwap);
    };
    const picker = (label, options, name) =>
      labelled(label, select(options, chosen[name], { onchange: (event) => set({ [name]: event.target.value }) }), true);
    node.replaceChildren(...[
      picker(say("From"), choices, "source"),
      button("⇄", { class: "quiet swap", "aria-label": say("Swap the languages"), title: say("Swap the languages"), disabled: !back,
        onclick: () => set({ source: chosen.target, target: chosen.source, model: "" }, true) }),
      picker(say("Into"), targets.map((code) => [code, languageName(code)]), "target"),
      named.length > 1 ? picker(say("Model"), named.map((model) => [model.name, model.name]), "model") : null,
    ].filter(Boolean));
  }

  draw();
  return { node, draw, value: () => ({ source: chosen.source, target: chosen.target, model: chosen.source === AUTO ? "" : chosen.model }) };
}

const fits = (model) => chosen.source === AUTO || model.source === chosen.source;

// What was chosen, where it is served; else the first that is.
function settle(models, sources, withAuto) {
  if (!sources.includes(chosen.source) && !(withAuto && chosen.source === AUTO)) chosen.source = withAuto && sources.length > 1 ? AUTO : sources[0];
  const open = models.filter(fits);
  if (!open.some((model) => model.target === chosen.target)) chosen.target = open[0].target;
  const named = open.filter((model) => model.target === chosen.target);
  if (!named.some((model) => model.name === chosen.model)) chosen.model = named[0].name;
}
