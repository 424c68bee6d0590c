// Elements are made here, and text enters the page here: as text nodes only, never as markup.

// Controls, halves of surrogate pairs, and marks that reorder or hide text. Joiners stay: they shape letters and emoji.
const INVISIBLE = /[\p{Cc}\p{Cs}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/gu;

const SPACE = "▁"; // stands for a space in the label of a subword

function visible(text) {
  return text.replace(INVISIBLE, (character) => {
    const code = character.codePointAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

function element(name, properties = {}, ...children) {
  return fill(document.createElement(name), properties, children);
}

function drawn(name, properties = {}, ...children) {
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
  node.append(...children.filter((child) => child !== null));
  return node;
}

// A token's own text, shut off from the direction of its neighbours; the mark of a space before it is only faint.
function isolated(text, properties = {}) {
  if (!text.startsWith(SPACE)) return element("bdi", properties, visible(text));
  return element("bdi", properties, element("span", { class: "space" }, SPACE), visible(text.slice(SPACE.length)));
}

// A token inside a sentence of the page, without that mark.
function named(token) {
  return visible(token.startsWith(SPACE) && token !== SPACE ? token.slice(SPACE.length) : token);
}

// A token where little room is, and where nothing can be faint.
function shortened(token, most) {
  const characters = [...visible(token).replace(SPACE, "_")];
  return characters.length > most ? `${characters.slice(0, most - 1).join("")}…` : characters.join("");
}

function button(label, properties) {
  return element("button", { type: "button", ...properties }, label);
}

// One choice of several; it is marked by aria-pressed.
function segments(label, choices, chosen, choose) {
  const buttons = choices.map(([value, text, title]) =>
    button(text, { "aria-pressed": String(value === chosen), "data-value": String(value), title, onclick: () => choose(value) }),
  );
  return element("div", { class: "group" }, element("span", { class: "label" }, label),
    element("div", { class: "segments", role: "group", "aria-label": label }, ...buttons));
}

function heading(text) {
  return element("h2", {}, text);
}
