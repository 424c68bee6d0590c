// The tabs of a classifier, a tagger, a regression and a language model.

const LISTED_CLASSES = 12;
const WRITTEN_TOKENS = 60;
const SLIDERS = [
  ["temperature", msg("Temperature"), { min: 0, max: 2, step: 0.05 }, (value) => number(value)],
  ["topK", msg("Top-k"), { min: 0, max: 100, step: 1 }, (value) => (value ? String(value) : say("all"))],
  ["topP", msg("Top-p"), { min: 0.05, max: 1, step: 0.05 }, (value) => number(value)],
];
const sampling = { temperature: 1, topK: 0, topP: 1 };

function classesTab() {
  const sentence = currentSentence();
  const [label, , index] = sentence.classes[0];
  const bars = sentence.classes.slice(0, LISTED_CLASSES).map(([name, share]) => shareRow(name, share));
  const question = { ...changesAsked(), ids: sentence.ids, label: index, source: sentence.source };
  const words = whenComputed("decisive", "decisive", question, msg("Hiding each source token: {done} of {count}"), () => ({ node: decidingWords(sentence, label) }));
  return { node: element("div", { class: "steps" },
    element("div", { class: "pane" }, heading(say("Every class")), element("ul", { class: "weights wide", id: "classes" }, ...bars)), words.node) };
}

function shareRow(name, share) {
  return element("li", {}, isolated(name), element("span", { class: "bar" }, element("i", { style: { width: `${100 * share}%` } })), element("b", {}, number(share)));
}

// The text, each word on a ground as strong as its part in the decision.
function decidingWords(sentence, label) {
  const words = sentence.source.words.slice(...sentence.source.plain);
  const largest = Math.max(1e-6, ...sentence.decisive.map(Math.abs));
  const parts = words.flatMap((word, index) => {
    const fall = sentence.decisive[index];
    const strength = Math.round((100 * Math.abs(fall)) / largest);
    const colour = fall >= 0 ? "var(--good-ground)" : "var(--bad-ground)";
    return [isolated(word, { class: "deciding", title: number(fall), "data-fall": fall.toFixed(4),
      style: { background: `color-mix(in srgb, ${colour} ${strength}%, transparent)` } }), " "];
  });
  const order = [...words.keys()].sort((a, b) => sentence.decisive[b] - sentence.decisive[a]).slice(0, LISTED);
  const rows = order.map((index) => element("li", {}, isolated(words[index]),
    element("span", { class: "bar" }, element("i", { style: { width: `${(100 * Math.max(0, sentence.decisive[index])) / largest}%` } })),
    element("b", {}, number(sentence.decisive[index]))));
  return element("div", { class: "pane", id: "deciding" }, heading(say("Words that decide for “{label}”", { label: visible(label) })),
    element("p", { class: "running-text" }, ...parts), element("p", { class: "muted note" }, say("By how many nats the log-odds of the class fall when a word is hidden: green words speak for it, red ones against.")),
    element("ul", { class: "weights wide" }, ...rows));
}

// The text with its marked words in the colours of their labels.
function spansTab() {
  const { source: { text }, spans } = currentSentence();
  const kinds = [...new Set(spans.map(({ label }) => label))].sort();
  const parts = [];
  let before = 0;
  for (const { label, probability, start, end } of spans) {
    const style = { "--label": headColour(kinds.indexOf(label)) };
    parts.push(visible(text.slice(before, start)), element("mark", { title: `${visible(label)} ${percent(probability)}`, style }, isolated(text.slice(start, end)), element("small", {}, isolated(label))));
    before = end;
  }
  const rows = spans.map(({ label, text: words, probability }) => shareRow(`${words} · ${label}`, probability));
  return { node: element("div", { class: "steps" },
    element("div", { class: "pane", id: "spans" }, heading(say("Marked words")), spans.length ? null : element("p", { class: "muted" }, say("Nothing is marked.")), element("p", { class: "running-text", dir: "auto" }, ...parts, visible(text.slice(before)))),
    spans.length ? element("div", { class: "pane" }, heading(say("Probability")), element("ul", { class: "weights wide" }, ...rows)) : null) };
}

function numbersTab() {
  const rows = currentSentence().numbers.map(([name, value]) => element("li", {}, isolated(name), element("b", {}, number(value, 4))));
  return { node: element("div", { class: "pane", id: "numbers" }, heading(say("Numbers")), element("ul", { class: "weights" }, ...rows)) };
}

function nextTab() {
  const sentence = currentSentence();
  const list = element("ul", { class: "weights wide", id: "choices", "aria-live": "polite" });
  const kept = element("p", { class: "muted note" });
  const update = () => request("choices", sampling).then(({ kept: count, choices }) => {
    list.replaceChildren(...choices.map(([label, share]) => shareRow(label.replace(/^ +$/, (blank) => "␣".repeat(blank.length)), share)));
    kept.textContent = say("{count} tokens may follow under these settings.", { count: count.toLocaleString(state.language) });
  }, showFailure);
  update();
  return { node: element("div", { class: "steps" },
    element("div", { class: "pane" }, element("div", { class: "pick" }, ...SLIDERS.map((slider) => sliderOf(slider, update))),
      heading(say("What may follow")), list, kept),
    writingPane(sentence)) };
}

const PATTERN_NAMES = [msg("previous token"), msg("same token"), msg("induction")];

// The logit lens, and the scores of the heads on random tokens that are read twice.
function partsTab() {
  const { ids } = currentSentence();
  return whenComputed("parts", "parts", { ...changesAsked(), ids }, msg("Computing…"), () => {
    const { answer, layers, heads } = currentSentence().parts;
    const head = (...names) => element("thead", {}, element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name))));
    const row = (name, ...cells) => element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((cell) => element("td", {}, cell)));
    const table = (id, names, rows) => element("div", { class: "scroll" }, element("table", { id, class: "cell-table" }, head(...names), element("tbody", {}, ...rows)));
    const lens = layers.map(({ token, share, ofAnswer }, layer) => row(say("Layer {number}", { number: layer + 1 }), isolated(token), number(share), number(ofAnswer)));
    const scores = heads.flatMap((own, layer) => own.map((values, at) => row(say("Layer {layer}, head {head}", { layer: layer + 1, head: at + 1 }), ...values.map((value) => number(value)))));
    return { node: element("div", { class: "steps" },
      element("div", { class: "pane" }, heading(say("The logit lens")), element("p", { class: "muted note" }, say("What the model would write if this layer were its last.")),
        table("lens", ["", say("would write"), say("probability"), say("of “{token}”", { token: named(answer) })], lens)),
      ...(scores.length ? [element("div", { class: "pane" }, heading(say("What each head looks at")), element("p", { class: "muted note" }, say("The share of its attention while random tokens are read twice: on the token before, on the same token earlier, and on the token after that (induction).")),
        table("patterns", ["", ...PATTERN_NAMES.map((name) => say(name))], scores))] : [])) };
  });
}

function sliderOf([name, label, range, shown], update) {
  const output = element("output", {}, shown(sampling[name]));
  const input = element("input", { type: "range", ...range, value: sampling[name], id: name, "aria-label": say(label), oninput: () => {
    sampling[name] = Number(input.value);
    output.textContent = shown(sampling[name]);
    update();
  } });
  return element("label", { class: "group slider" }, element("span", { class: "label" }, say(label)), element("span", {}, input, " ", output));
}

function writingPane(sentence) {
  const text = element("bdi", { id: "written-text", class: "line", "aria-live": "polite" });
  let written = ""; // as the model wrote it, with what cannot be seen
  const append = button(say("Append to the text"), { class: "quiet", id: "append", disabled: true, onclick: () => typed(sentence.source.text + written + sentence.rest) });
  const write = button(live.chat ? say("Answer") : say("Continue"), { class: "action", id: "write", onclick: () => {
    write.disabled = append.disabled = true;
    written = text.textContent = "";
    const show = (part) => { text.textContent = visible((written = part.text)); };
    const question = { ...changesAsked(), ...sampling, ids: sentence.ids, most: WRITTEN_TOKENS };
    request("write", question, show).then(() => { write.disabled = append.disabled = false; }, showFailure);
  } });
  return element("div", { class: "pane" }, element("div", { class: "pick" }, write, live.chat ? null : append), heading(live.chat ? say("The answer") : say("Written")), element("p", { class: "running-text" }, text));
}
