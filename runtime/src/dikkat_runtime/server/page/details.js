// One sentence: its other translations, one of one's own that the model completes, and where the model looked.

import { attentionView } from "./attention.js";
import { button, debounced, element, labelled } from "./elements.js";
import { glossaryText } from "./glossary.js";
import { Latest, requestJson } from "./server.js";
import { msg, number, say } from "./language.js";

const PAUSE = 100;

export function sentenceDetails(served, messages, { changed }) {
  const list = element("ul", { class: "alternatives" });
  const source = element("p", { class: "muted source-sentence", dir: "auto" });
  const sure = element("p", { class: "note", id: "sure" });
  const attention = attentionView(served);
  const own = ownTranslation(served, messages, changed);
  const left = element("div", { class: "sentence-side" }, element("h2", {}, say("This sentence")), source, sure, element("h3", {}, say("Other translations")), list, own.node);
  const node = element("section", { class: "pane details", hidden: true }, left, attention.node);

  function show(model, sentence) {
    node.hidden = !sentence;
    attention.show(model, sentence);
    own.show(model, sentence);
    if (!sentence) return;
    source.textContent = sentence.source;
    const unplaced = (sentence.unplaced_terms ?? []).map((term) => element("span", { class: "flag" }, say("term not placed: {term}", { term: `${term.source} → ${term.targets.join("|")}` })));
    sure.replaceChildren(...(sentence.confidence ? confidenceOf(sentence.confidence) : []), ...unplaced);
    const others = sentence.alternatives ?? [];
    list.replaceChildren(...(others.length ? others.map((text) => alternative(sentence, text)) : [element("li", { class: "muted" }, say("No other translation."))]));
  }

  function alternative(sentence, text) {
    const use = () => {
      const rest = sentence.alternatives.map((other) => (other === text ? sentence.target : other));
      changed(sentence.source, { target: text, alternatives: rest });
    };
    return element("li", {}, button(text, { class: "alternative", dir: "auto", "aria-label": say("Use “{text}”", { text }), onclick: use }));
  }

  return { node, show };
}

const FLAGS = { loop: msg("repeats itself"), empty: msg("empty"), unfinished: msg("not finished"), "number lost": msg("a number is missing"), "negation lost": msg("a negation is missing") };

function confidenceOf({ probability, flags }) {
  const percent = element("b", {}, say("confidence {percent} %", { percent: number(100 * probability) }));
  return [percent, ...flags.map((flag) => element("span", { class: "flag" }, FLAGS[flag] ? say(FLAGS[flag]) : flag))];
}

// A text in one line, without the white space around its lines.
function oneLine(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean).join(" ");
}

// A translation that is written by hand: what the model would go on with stands below, and Tab takes it.
function ownTranslation(served, messages, changed) {
  const latest = new Latest();
  const area = element("textarea", { rows: 2, dir: "auto", autocomplete: "off", id: "own", oninput: () => typed(), onkeydown: (event) => {
    const isAtEnd = area.selectionStart === area.value.length;
    if (event.key === "Tab" && !event.shiftKey && isAtEnd && completion) {
      event.preventDefault();
      take();
    }
  } });
  const rest = button("", { class: "completion", dir: "auto", id: "completion", hidden: true, onclick: () => take() });
  const use = button(say("Use this translation"), { class: "quiet", id: "use-own", disabled: true, onclick: () => changed(sentence.source, { target: oneLine(area.value), alternatives: others() }) });
  const keep = button(say("Save this correction"), { class: "quiet", id: "keep", hidden: !served.corrections, disabled: true, onclick: () => save() });
  const complete = debounced(request, PAUSE);
  let [model, sentence, completion] = ["", null, ""];

  const others = () => [sentence.target, ...(sentence.alternatives ?? [])].filter((text) => text !== area.value);

  function typed() {
    use.disabled = keep.disabled = !area.value.trim() || area.value === sentence.target;
    keep.textContent = say("Save this correction");
    offer("");
    if (area.value !== sentence.target) complete();
  }

  async function request() {
    const prefix = area.value;
    if (!sentence || prefix.includes("\n")) return;
    try {
      const answer = await latest.request("/page/complete", { model, source: sentence.source, prefix, glossary: glossaryText() });
      if (answer && area.value === prefix) offer(answer.target.startsWith(prefix) ? answer.target : "");
    } catch (problem) {
      messages.notice(problem.message);
    }
  }

  // It stands in the translation at once, and wherever the sentence comes again.
  async function save() {
    const [source, target] = [sentence.source, oneLine(area.value)];
    try {
      await requestJson("/page/corrections", { fields: { model, source, target } });
    } catch (problem) {
      messages.notice(problem.message);
      return;
    }
    changed(source, { target, alternatives: others() });
    messages.status(say("Saved: it is used from now on"));
    keep.textContent = say("Saved: it is used from now on");
  }

  function offer(text) {
    completion = text === area.value ? "" : text;
    rest.hidden = !completion;
    rest.replaceChildren(element("span", { class: "muted" }, area.value), completion.slice(area.value.length), element("kbd", { "aria-hidden": "true" }, "Tab"));
    rest.setAttribute("aria-label", say("Continue with “{text}”", { text: completion }));
  }

  function take() {
    area.value = completion;
    area.focus();
    offer("");
    use.disabled = keep.disabled = area.value === sentence.target;
  }

  function show(named, shown) {
    const isOther = shown?.source !== sentence?.source || shown?.target !== sentence?.target;
    [model, sentence] = [named, shown];
    if (!shown || !isOther) return;
    latest.stop();
    area.value = shown.target;
    offer("");
    use.disabled = keep.disabled = true;
  }

  const node = element("div", { class: "own" }, labelled(say("Your own translation: it is completed while you type"), area), rest, element("div", { class: "foot" }, use, keep));
  return { node, show };
}
