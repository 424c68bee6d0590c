// Rows are written, columns are looked at. Labels thin out and cells shrink with the length.

import { headColour, scaleColour, scaleSteps } from "./colours.js";
import { button, element, visible } from "./elements.js";
import { number, say } from "./language.js";

const MAX_CELL_SIZE = 34;
const MIN_CELL_SIZE = 6;
const MAX_LABEL_LENGTH = 16;
const FONT = "system-ui, sans-serif";
const measure = document.createElement("canvas").getContext("2d");

export function heatMap(picture, width) {
  const strongest = Math.max(0.05, ...picture.values);
  const margins = { left: marginFor(picture.targets, width * 0.3), top: marginFor(picture.sources, 110) };
  const cell = Math.min(MAX_CELL_SIZE, Math.max(MIN_CELL_SIZE, Math.floor((width - margins.left - 4) / picture.S)));
  const size = { width: margins.left + cell * picture.S + 1, height: margins.top + cell * picture.T + 1 };
  const ratio = Math.min(window.devicePixelRatio || 1, 4096 / Math.max(size.width, size.height));
  const label = say("Heat map, {title}: {targets} rows of the translation, {sources} columns of the source", { title: picture.title, targets: picture.T, sources: picture.S });
  const canvas = element("canvas", {
    width: Math.ceil(size.width * ratio), height: Math.ceil(size.height * ratio), role: "img", "aria-label": label, tabindex: 0,
    style: { width: `${size.width}px`, height: `${size.height}px` },
  });
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  paintCells(context, picture, strongest, margins.left, margins.top, cell * picture.S, cell * picture.T);
  paintLabels(context, picture, margins, cell);
  const readout = element("p", { class: "readout", "aria-live": "polite" }, "\u00a0");
  explore(canvas, picture, margins, cell, readout);
  const stops = Array.from({ length: 9 }, (_, step) => scaleColour(step / 8)).join(",");
  return element("figure", { class: "heat-map" },
    element("figcaption", { class: "picture-title" }, element("i", { class: "dot", style: { background: headColour(picture.head) } }), picture.title),
    element("div", { class: "scroll" }, canvas), readout,
    element("p", { class: "legend muted" }, say("weight"), " 0 ", element("i", { class: "ramp", style: { background: `linear-gradient(to right, ${stops})` } }), ` ${number(strongest, 2)}`));
}

// A head at a glance, and the button that shows it large.
export function thumbnail(picture, isChosen, choose) {
  const canvas = element("canvas", { width: 80, height: 80, "aria-hidden": "true" });
  paintCells(canvas.getContext("2d"), picture, Math.max(0.05, ...picture.values), 0, 0, 80, 80);
  return button(canvas, { class: `thumbnail${picture.head < 0 ? " of-mean" : ""}`, "aria-pressed": String(isChosen), "aria-label": picture.title, title: picture.title, onclick: choose });
}

function paintCells(context, { values, T, S }, strongest, left, top, width, height) {
  if (!T || !S) return;
  const image = new ImageData(S, T);
  const steps = scaleSteps();
  values.forEach((value, i) => {
    image.data.set(steps[Math.round(255 * Math.min(1, value / strongest))], 4 * i);
    image.data[4 * i + 3] = 255;
  });
  const small = element("canvas", { width: S, height: T });
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, left, top, width, height);
}

function shortened(text) {
  const characters = [...visible(text)];
  return characters.length > MAX_LABEL_LENGTH ? `${characters.slice(0, MAX_LABEL_LENGTH - 1).join("")}…` : characters.join("");
}

function marginFor(labels, most) {
  measure.font = `12px ${FONT}`;
  return Math.ceil(Math.min(most, labels.reduce((widest, label) => Math.max(widest, measure.measureText(shortened(label)).width), 0) + 10));
}

function paintLabels(context, picture, margins, cell) {
  context.fillStyle = getComputedStyle(document.body).color;
  context.font = `${Math.max(9, Math.min(12, cell - 1))}px ${FONT}`;
  context.textBaseline = "middle";
  const every = Math.ceil(11 / cell);
  for (let row = 0; row < picture.T; row += every) paintLabel(context, picture.targets[row], margins.left - 5, margins.top + (row + 0.5) * cell, 0, "right", margins.left - 6);
  for (let column = 0; column < picture.S; column += every) paintLabel(context, picture.sources[column], margins.left + (column + 0.5) * cell, margins.top - 5, -Math.PI / 2, "left", margins.top - 6);
}

function paintLabel(context, label, x, y, angle, align, maxWidth) {
  context.save();
  context.translate(x, y);
  context.rotate(angle);
  context.textAlign = align;
  context.fillText(shortened(label), 0, 0, maxWidth);
  context.restore();
}

function explore(canvas, picture, margins, cell, readout) {
  let at = null;
  const describe = (target, source) => {
    at = { target: Math.min(picture.T - 1, Math.max(0, target)), source: Math.min(picture.S - 1, Math.max(0, source)) };
    const weight = number(picture.values[at.target * picture.S + at.source], 2);
    readout.replaceChildren(say("“{word}” looks at", { word: visible(picture.targets[at.target]) }), " ", element("bdi", {}, visible(picture.sources[at.source])), " ", element("b", {}, weight));
  };
  const cellOf = (event) => {
    const box = canvas.getBoundingClientRect();
    return [Math.floor((event.clientY - box.top - margins.top) / cell), Math.floor((event.clientX - box.left - margins.left) / cell)];
  };
  canvas.addEventListener("pointermove", (event) => describe(...cellOf(event)));
  canvas.addEventListener("click", (event) => describe(...cellOf(event)));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    describe(at ? at.target + step[0] : 0, at ? at.source + step[1] : 0);
  });
}
