// Where the model looked while it wrote: links or a heat map, of one head or the mean of a layer, by word or subword.

import { element, segments } from "./elements.js";
import { heatMap, thumbnail } from "./heat_map.js";
import { linksView } from "./links.js";
import { Latest } from "./server.js";
import { say } from "./language.js";

const MAX_COUNT = 80; // words or subwords of a side; more cannot be told apart
const look = { view: "links", unit: "words", layer: -1, head: -1 }; // head -1 is the mean, layer -1 the last one

export function attentionView(served) {
  const latest = new Latest();
  const controls = element("div", { class: "controls" });
  const heads = element("div", { class: "head-grid", role: "group", "aria-label": say("Heads of each layer, their mean first") });
  const picture = element("div", { class: "picture" });
  const hint = element("p", { class: "muted note" });
  const node = element("div", { class: "attention", id: "attention" }, element("h2", {}, say("Attention")), hint, controls, element("div", { class: "look" }, picture, heads));
  const known = new Map();
  let maps = null;
  let wanted = "";

  async function show(model, sentence) {
    const name = JSON.stringify([model, sentence?.source, sentence?.target]);
    if (name === wanted) return;
    wanted = name;
    const hasAttention = served.models.find((candidate) => candidate.name === model)?.attention;
    if (!sentence || !hasAttention || !sentence.target.trim()) {
      maps = null;
      draw(sentence && !hasAttention ? say("The attention of this model is not shown here.") : say("Write a sentence to see its attention."));
      return;
    }
    if (!known.has(name)) {
      node.setAttribute("aria-busy", "true");
      try {
        const answer = await latest.request("/page/attention", { model, source: sentence.source, target: sentence.target });
        if (answer) known.set(name, unpacked(answer));
      } catch (problem) {
        if (name === wanted) { maps = null; draw(problem.message); }
        return;
      } finally {
        node.setAttribute("aria-busy", "false");
      }
      if (known.size > 50) known.delete(known.keys().next().value);
    }
    if (name !== wanted || !known.has(name)) return;
    maps = known.get(name);
    draw();
  }

  function draw(message = "") {
    const isEmpty = !maps || !maps.layers;
    const isLong = !isEmpty && Math.max(side(maps.source).length, side(maps.target).length) > MAX_COUNT;
    hint.textContent = message || (isEmpty ? say("Write a sentence to see its attention.") : isLong ? say("This sentence is too long to be drawn.") : say("Where the model looked while it wrote each word. Point at a word, or reach it with the arrow keys."));
    controls.hidden = heads.hidden = isEmpty;
    picture.replaceChildren();
    if (isEmpty) return;
    const set = (values) => { Object.assign(look, values); draw(); };
    controls.replaceChildren(
      segments(say("View"), [["links", say("Links")], ["heat", say("Heat map")]], look.view, (view) => set({ view })),
      segments(say("Unit"), [["words", say("Words")], ["subwords", say("Subwords")]], look.unit, (unit) => set({ unit })),
    );
    const layer = look.layer < 0 || look.layer >= maps.layers ? maps.layers - 1 : look.layer;
    const head = look.head >= maps.heads ? -1 : look.head;
    drawHeads(layer, head, set);
    if (isLong) return;
    const shown = pictureOf(maps, layer, head);
    picture.append(look.view === "links" ? linksView(shown) : heatMap(shown, picture.clientWidth));
  }

  function drawHeads(layer, head, set) {
    const rows = Array.from({ length: maps.layers }, (_, row) => element("div", { class: "head-row" },
      element("span", { class: "muted row-name", "aria-hidden": "true" }, `${row + 1}`),
      ...[-1, ...Array.from({ length: maps.heads }, (_, number) => number)].map((number) =>
        thumbnail(pictureOf(maps, row, number), row === layer && number === head, () => set({ layer: row, head: number })))));
    heads.replaceChildren(element("p", { class: "label" }, say("Heads of each layer, their mean first")), ...rows);
  }

  return { node, show };
}

const side = (picture) => (look.unit === "words" ? picture.words : picture.tokens);

function unpacked({ source, target, layers, heads, weights }) {
  return { source, target, layers, heads, weights: Uint8Array.from(atob(weights), (character) => character.charCodeAt(0)) };
}

// The matrix of one head, or the mean of a layer's (head -1): rows are written, columns are looked at.
function pictureOf(maps, layer, head) {
  const [T, S] = [maps.target.tokens.length, maps.source.tokens.length];
  const values = new Float32Array(T * S);
  const numbers = head < 0 ? Array.from({ length: maps.heads }, (_, number) => number) : [head];
  for (const number of numbers) {
    const start = (layer * maps.heads + number) * T * S;
    for (let i = 0; i < T * S; i++) values[i] += maps.weights[start + i] / 255 / numbers.length;
  }
  const title = head < 0 ? say("Layer {layer}, mean of its heads", { layer: layer + 1 }) : say("Layer {layer}, head {head}", { layer: layer + 1, head: head + 1 });
  const joined = look.unit === "words" ? byWord(values, maps) : { values, T, S };
  return { ...joined, sources: side(maps.source), targets: side(maps.target), title, head };
}

// What a word is looked at is the sum over its subwords; what a word looks at is the mean over its own.
function byWord(values, { source, target }) {
  const [T, S] = [target.words.length, source.words.length];
  const counts = new Float32Array(T);
  const words = new Float32Array(T * S);
  target.word_of.forEach((row, token) => {
    counts[row] += 1;
    source.word_of.forEach((column, other) => (words[row * S + column] += values[token * source.word_of.length + other]));
  });
  return { values: words.map((value, i) => value / Math.max(1, counts[Math.floor(i / S)])), T, S };
}
