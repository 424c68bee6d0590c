// Terms that must be translated in one way; they stay in this tab, and go along with each text.

import { element, labelled } from "./elements.js";
import { remember, remembered } from "./server.js";
import { say } from "./language.js";

const NAME = "dikkat-glossary";
let text = remembered(sessionStorage, NAME) ?? "";

// Lines that are whole: one that is being written is no term yet.
export function glossaryText() {
  return text.split("\n").filter((line) => /\S\s*[=\t]\s*\S/.test(line)).join("\n");
}

export function glossaryField(changed) {
  const summary = element("summary", {});
  const area = element("textarea", { rows: 4, dir: "auto", spellcheck: "false", placeholder: say("One term a line: term = translation"), oninput: () => {
    text = area.value;
    remember(sessionStorage, NAME, text);
    count();
    changed();
  } });
  area.value = text;
  const count = () => {
    const terms = glossaryText().split("\n").filter(Boolean).length;
    summary.replaceChildren(say("Glossary"), ...(terms ? [element("span", { class: "badge" }, say("{count} terms", { count: terms }))] : []));
  };
  count();
  return element("details", { class: "pane fold", id: "glossary", open: Boolean(text) }, summary,
    labelled(say("One term a line: term = translation"), area));
}
