// The translation: each sentence can be chosen; words that the model was unsure of are marked.

import { element } from "./elements.js";
import { number, say } from "./language.js";

const UNSURE = [[0.35, "low"], [0.65, "middle"]]; // confidence below which a word is marked, and how
const DOUBTFUL = 0.5; // confidence below which a whole sentence is marked
let marks = true;

export function translationView(choose) {
  const node = element("div", { class: "output", dir: "auto", id: "translation", role: "group", "aria-label": say("Translation"), "aria-live": "off" });
  const box = element("input", { type: "checkbox", id: "marks", checked: marks, onchange: () => { marks = box.checked; node.classList.toggle("marked", marks); } });
  const legend = element("label", { class: "muted legend", hidden: true }, box, say("Mark low confidence"));
  node.classList.toggle("marked", marks);

  function show(parts, selected) {
    const held = node.contains(document.activeElement);
    let index = -1;
    const pieces = parts.map((part) => {
      if (part.source === undefined) return part.text;
      index += 1;
      return sentence(part, index, index === selected);
    });
    legend.hidden = !parts.some((part) => part.confidence);
    node.replaceChildren(...(parts.length ? pieces : [element("span", { class: "muted hint" }, say("The translation appears while you type"))]));
    if (held) node.querySelector("[tabindex='0']")?.focus();
  }

  function sentence(part, index, isSelected) {
    const span = element("span", {
      class: part.confidence?.probability < DOUBTFUL ? "sentence doubtful" : "sentence", role: "button", tabindex: isSelected ? 0 : -1, "aria-pressed": String(isSelected), onclick: () => getSelection().isCollapsed && choose(index),
      onkeydown: (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1, Enter: 0, " ": 0 }[event.key];
        if (step === undefined) return;
        event.preventDefault();
        const count = node.querySelectorAll(".sentence").length;
        choose((index + step + count) % count);
      },
    });
    span.append(...(part.confidence?.words.length ? markedWords(part) : [part.target]));
    return span;
  }

  function selectAll() {
    getSelection().selectAllChildren(node);
  }

  return { node, legend, show, selectAll };
}

// The words of a translation stand in it in order: what is between them is text.
function markedWords({ target, confidence }) {
  const pieces = [];
  let position = 0;
  for (const { start, end, probability } of confidence.words) {
    const [from, to] = [offset(target, start), offset(target, end)];
    if (from > position) pieces.push(target.slice(position, from));
    const level = UNSURE.find(([below]) => probability < below)?.[1];
    const text = target.slice(from, to);
    pieces.push(level ? element("span", { class: `unsure ${level}`, title: say("confidence {percent} %", { percent: number(100 * probability) }) }, text) : text);
    position = to;
  }
  pieces.push(target.slice(position));
  return pieces;
}

// The server counts characters, a string here counts halves of surrogate pairs.
function offset(text, characters) {
  return /[\ud800-\udfff]/.test(text) ? [...text].slice(0, characters).join("").length : characters;
}
