// Source on the left, translation on the right; a line from what is looked at to the word that looks, as strong as its weight.

import { headColour } from "./colours.js";
import { button, drawn, element, visible } from "./elements.js";
import { msg, number, say } from "./language.js";

const FAINTEST = 0.06;
const MAX_LISTED = 4;
const SIDES = { source: msg("Source"), target: msg("Translation") };

export function linksView(picture) {
  const rows = Math.max(picture.T, picture.S);
  const all = drawn("g");
  const chosen = drawn("g");
  const svg = drawn("svg", { viewBox: `0 0 100 ${rows}`, preserveAspectRatio: "none", "aria-hidden": "true", class: "wires" }, all, chosen);
  const readout = element("p", { class: "readout", "aria-live": "polite" });
  const columns = { source: [], target: [] };
  let kept = null;

  function light(position, keep = false) {
    if (keep) kept = kept && position && kept.side === position.side && kept.index === position.index ? null : position;
    const at = position ?? kept;
    all.setAttribute("opacity", at ? "0.12" : "1");
    chosen.replaceChildren(...(at ? linksAt(picture, at).map((link) => wire(picture, link)) : []));
    for (const [side, tokens] of Object.entries(columns)) tokens.forEach((token, index) => dress(token, side, index, at));
    readout.replaceChildren(...(at ? described(picture, at) : ["\u00a0"]));
  }

  function dress(token, side, index, at) {
    const isChosen = at?.side === side && at.index === index;
    token.classList.toggle("chosen", isChosen);
    token.style.setProperty("--weight", at && at.side !== side ? weightOf(picture, at, index) : 0);
    if (isChosen) for (const other of Object.values(columns).flat()) other.tabIndex = other === token ? 0 : -1;
  }

  function column(side, texts) {
    const move = (event, index) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key] ?? 0;
      const other = { ArrowLeft: "source", ArrowRight: "target" }[event.key] ?? side;
      if (!step && other === side) return;
      event.preventDefault();
      const row = columns[other];
      row[Math.min(row.length - 1, Math.max(0, index + step))]?.focus();
    };
    columns[side] = texts.map((text, index) => {
      const position = { side, index };
      return button(element("bdi", {}, visible(text)), {
        class: "token", tabindex: side === "target" && index === 0 ? 0 : -1, title: visible(text), onpointerenter: () => light(position), onpointerleave: () => light(null),
        onfocus: () => light(position), onblur: () => light(null), onclick: () => light(position, true), onkeydown: (event) => move(event, index),
      });
    });
    const label = say(SIDES[side]);
    return element("div", { class: `column ${side}`, role: "group", "aria-label": label }, ...columns[side]);
  }

  const head = (name) => element("p", { class: `axis muted ${name}`, "aria-hidden": "true" }, say(SIDES[name]));
  const box = element("div", { class: "links", style: { "--rows": rows, "--link": headColour(picture.head) } },
    head("source"), element("span"), head("target"), column("source", picture.sources), svg, column("target", picture.targets));
  all.append(...strongest(picture).map((link) => wire(picture, link)));
  light(null);
  return element("div", {}, element("p", { class: "picture-title" }, element("i", { class: "dot", style: { background: headColour(picture.head) } }), picture.title), box, readout);
}

const at = ({ values, S }, target, source) => values[target * S + source];

function weightOf(picture, position, index) {
  return position.side === "target" ? at(picture, position.index, index) : at(picture, index, position.index);
}

function strongest(picture) {
  const links = [];
  for (let target = 0; target < picture.T; target++) {
    for (let source = 0; source < picture.S; source++) if (at(picture, target, source) >= FAINTEST) links.push([target, source]);
  }
  return links;
}

function linksAt(picture, { side, index }) {
  const count = side === "target" ? picture.S : picture.T;
  return Array.from({ length: count }, (_, other) => (side === "target" ? [index, other] : [other, index])).filter(([t, s]) => at(picture, t, s) >= 0.01);
}

function wire(picture, [target, source]) {
  const weight = at(picture, target, source);
  return drawn("path", {
    d: `M0 ${source + 0.5}C45 ${source + 0.5} 55 ${target + 0.5} 100 ${target + 0.5}`, stroke: headColour(picture.head), opacity: Math.min(1, 0.08 + 0.92 * weight).toFixed(2),
    "stroke-width": (0.8 + 3.2 * weight).toFixed(1), "vector-effect": "non-scaling-stroke", fill: "none",
  });
}

// In words, for those who listen and those who want the number.
function described(picture, position) {
  const texts = position.side === "target" ? picture.sources : picture.targets;
  const own = (position.side === "target" ? picture.targets : picture.sources)[position.index];
  const listed = texts.map((text, index) => [text, weightOf(picture, position, index)]).filter(([, weight]) => weight >= 0.05);
  listed.sort((one, other) => other[1] - one[1]);
  const entries = listed.slice(0, MAX_LISTED).map(([text, weight]) => element("span", { class: "entry" }, element("bdi", {}, visible(text)), " ", element("b", {}, number(weight, 2))));
  const word = visible(own);
  const direction = position.side === "target" ? say("“{word}” looks at", { word }) : say("“{word}” is looked at by", { word });
  return [direction, " ", ...(entries.length ? entries : [say("nothing much")])];
}
