// A text on one side, its translation on the other while it is typed; below, one sentence of it in detail.

import { sentenceDetails } from "./details.js";
import { button, debounced, element, labelled } from "./elements.js";
import { glossaryField, glossaryText } from "./glossary.js";
import { translationView } from "./output.js";
import { pairChooser } from "./pair.js";
import { Latest } from "./server.js";
import { msg, number, say } from "./language.js";

const PAUSE = 120; // milliseconds without a key before the server is asked
const MAX_KNOWN = 400; // sentences whose translation is kept
const ALTERNATIVES = 3;

const state = { text: "", parts: [], known: new Map(), context: "", detected: "", model: "", took: 0, selected: 0 };

export function translatePanel(served, messages) {
  const latest = new Latest();
  const pair = pairChooser(served, { detects: true, detected: () => state.detected, changed: (isSwap) => (isSwap ? swap() : update.now()) });
  const area = element("textarea", {
    rows: 7, dir: "auto", spellcheck: "true", autocomplete: "off", placeholder: say("Type or paste a text"), oninput: () => changed(),
    onkeydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && update.now(),
  });
  area.value = state.text;
  const counter = element("span", { class: "muted counter" });
  const speed = element("span", { class: "muted", id: "speed" });
  const details = sentenceDetails(served, messages, { changed: (source, result) => replaced(source, result), again: () => forget() });
  const output = translationView((index) => select(index));
  const copy = button(say("Copy"), { class: "quiet", id: "copy", onclick: () => copyAll() });
  const clear = button(say("Clear"), { class: "quiet", id: "clear", onclick: () => { area.value = ""; changed(); update.now(); area.focus(); } });
  const update = debounced(request, PAUSE);
  let retry = 0;

  function changed() {
    state.text = area.value;
    const count = [...state.text].length;
    const tooLong = count > served.most_characters;
    counter.textContent = say(tooLong ? msg("Too long: {count} of {most} characters") : msg("{count} of {most}"), { count: number(count), most: number(served.most_characters) });
    counter.classList.toggle("bad", tooLong);
    clear.disabled = !state.text;
    if (!tooLong) update();
  }

  // What was translated into is translated back.
  function swap() {
    area.value = state.parts.length ? translation() : state.text;
    changed();
    update.now();
  }

  async function request() {
    clearTimeout(retry);
    const { source, target, model } = pair.value();
    const glossary = glossaryText();
    settleContext(JSON.stringify([source, target, model, glossary]));
    if (!state.text.trim()) {
      latest.stop();
      Object.assign(state, { parts: [], detected: "", took: 0, selected: 0 });
      draw();
      return;
    }
    const known = [...state.known.keys()].filter((sentence) => state.text.includes(sentence));
    const fields = { text: state.text, source, target, model: model || null, alternatives: Math.min(ALTERNATIVES, served.most_alternatives), glossary, known };
    const start = performance.now();
    output.node.setAttribute("aria-busy", "true");
    try {
      const answer = await latest.request("/page/translate", fields);
      if (answer) take(answer, performance.now() - start);
      messages.notice("");
    } catch (problem) {
      fail(problem);
    } finally {
      if (!latest.isAsking) output.node.setAttribute("aria-busy", "false");
    }
  }

  function fail(problem) {
    if (!problem.retryAfter) {
      messages.notice(problem.message);
      return;
    }
    messages.notice(problem.status ? say("The server is busy; trying again in {seconds} s.", { seconds: problem.retryAfter }) : problem.message);
    retry = setTimeout(request, 1000 * problem.retryAfter);
  }

  function take(answer, milliseconds) {
    const before = new Set(state.parts.map((part) => part.source));
    state.parts = answer.parts.map((part) => fillIn(part));
    const sentences = state.parts.filter((part) => part.source !== undefined);
    const fresh = sentences.findIndex((part) => !before.has(part.source));
    state.selected = fresh >= 0 ? fresh : Math.min(state.selected, Math.max(0, sentences.length - 1));
    Object.assign(state, { took: milliseconds, model: answer.model, detected: answer.detected?.language ?? "" });
    draw();
  }

  function draw() {
    output.show(state.parts, state.selected);
    const sentence = state.parts.filter((part) => part.source !== undefined)[state.selected];
    details.show(state.model, sentence ?? null);
    copy.disabled = !state.parts.length;
    speed.textContent = state.parts.length ? say("{time} ms", { time: number(state.took) }) : "";
    pair.draw();
  }

  function select(index) {
    state.selected = index;
    draw();
  }

  function replaced(source, result) {
    remember(source, result);
    state.parts = state.parts.map((part) => (part.source === source ? { source, ...result } : part));
    draw();
  }

  function forget() {
    state.known.clear();
    update.now();
  }

  async function copyAll() {
    try {
      await navigator.clipboard.writeText(translation());
    } catch {
      output.selectAll();
      return;
    }
    copy.textContent = say("Copied");
    messages.status(say("Copied"));
    setTimeout(() => (copy.textContent = say("Copy")), 1500);
  }

  const left = element("section", { class: "card" }, labelled(say("Text to translate"), area, true),
    element("div", { class: "foot" }, counter, clear));
  const right = element("section", { class: "card", "aria-label": say("Translation") }, output.node, element("div", { class: "foot" }, speed, output.legend, copy));
  const node = element("div", {}, pair.node, element("div", { class: "cards" }, left, right), glossaryField(() => update()), details.node);
  return {
    node,
    close: () => { latest.stop(); clearTimeout(retry); },
    ready: () => { changed(); draw(); if (matchMedia("(hover: hover)").matches) area.focus(); },
  };
}

function translation() {
  return state.parts.map((part) => part.text ?? part.target).join("");
}

// Translations of another model, pair or glossary are not taken over.
function settleContext(context) {
  if (context !== state.context) state.known.clear();
  state.context = context;
}

function fillIn(part) {
  if (part.source === undefined) return part;
  const result = part.target === undefined ? state.known.get(part.source) : part;
  remember(part.source, result);
  return { ...result, source: part.source };
}

function remember(source, { target, alternatives, confidence, unplaced_terms }) {
  state.known.delete(source);
  state.known.set(source, { target, alternatives, confidence, unplaced_terms });
  if (state.known.size > MAX_KNOWN) state.known.delete(state.known.keys().next().value);
}

