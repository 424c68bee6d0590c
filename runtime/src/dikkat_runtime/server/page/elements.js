// Elements are made here, and text enters the page here: as text nodes only, never as markup.

// Controls, halves of surrogate pairs, and marks that reorder or hide text. Joiners stay: they shape letters and emoji.
const INVISIBLE = /[\p{Cc}\p{Cs}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/gu;

export function visible(text) {
  return text.replace(INVISIBLE, (character) => {
    const code = character.codePointAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

export function element(name, properties = {}, ...children) {
  return fill(document.createElement(name), properties, children);
}

export function drawn(name, properties = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), properties, children);
}

// on… are listeners, style is set property by property (a style attribute would break the policy), the rest are attributes.
function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, entry] of Object.entries(value)) node.style.setProperty(key, entry);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function button(label, properties) {
  return element("button", { type: "button", ...properties }, label);
}

let fields = 0;

// A control with its name; the name is read out, and shown unless it is `hidden`.
export function labelled(name, control, hidden = false) {
  control.id ||= `field-${++fields}`;
  return element("div", { class: "group" }, element("label", { for: control.id, class: hidden ? "hidden-text" : "label" }, name), control);
}

export function select(choices, chosen, properties = {}) {
  const options = choices.map(([value, text]) => element("option", { value, selected: value === chosen }, text));
  return element("select", properties, ...options);
}

// One choice of several; it is marked by aria-pressed.
export function segments(label, choices, chosen, choose) {
  const buttons = choices.map(([value, text, title]) =>
    button(text, { "aria-pressed": String(value === chosen), title, onclick: () => choose(value) }));
  return element("div", { class: "group" }, element("span", { class: "label", "aria-hidden": "true" }, label),
    element("div", { class: "segments", role: "group", "aria-label": label }, ...buttons));
}

// What is slow enough to be asked for while somebody types is asked for once they pause.
export function debounced(work, milliseconds) {
  let timer = 0;
  const later = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...values), milliseconds);
  };
  later.now = (...values) => {
    clearTimeout(timer);
    work(...values);
  };
  return later;
}
