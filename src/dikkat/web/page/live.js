// The text that is read while it is typed, and what the model makes of it.

const DELAY = 180; // milliseconds without a key before a text is translated
const BEAMS = [1, 5];
const MAX_LISTED_LENGTH = 8;
const MAX_LISTED_SPANS = 4;
const TOO_LONG = msg("This text has {count} tokens, but the model reads at most {longest} at once: shorten it.");
const TOO_LONG_CUT = msg("This text is far longer than the {longest} tokens that the model reads at once: shorten it.");
const CONTEXT_CUT = msg("The model reads the last {shown} of the {count} tokens before the caret, since its context holds {longest}.");
const MEMORY_CUT = msg("The model reads the last {shown} of the {count} tokens before the caret: of more, the maps of all heads would not fit into memory.");

// What is asked of each kind of model about a text, and the tabs and kinds of maps that its page has.
const READINGS = {
  translator: { label: msg("Type a sentence"), empty: msg("Type a sentence: its translation and every attention map appear as you type."), task: "translate", tabs: ["maps", "six", "decoding", "heads", "importance", "positions"], kinds: ["encoder-self", "decoder-self", "cross"] },
  classifier: { label: msg("Type a text"), empty: msg("Type a text: its class and the words that decide appear as you type."), task: "classify", tabs: ["classes", "maps", "six", "positions"], kinds: ["encoder-self"] },
  tagger: { label: msg("Type a text"), empty: msg("Type a text: its marked words appear as you type."), task: "tag", tabs: ["spans", "maps", "six", "positions"], kinds: ["encoder-self"] },
  regressor: { label: msg("Type a text"), empty: msg("Type a text: its numbers appear as you type."), task: "measure", tabs: ["numbers", "maps", "six", "positions"], kinds: ["encoder-self"] },
  lm: { label: msg("Begin a text"), empty: msg("Begin a text: what may follow appears as you type."), task: "foresee", tabs: ["next", "maps", "parts", "six", "positions"], kinds: ["decoder-self"] },
};

const live = { text: "", at: 0, beamSize: 1, off: [], beta: 1, positions: true, hidden: [], hypothesis: 0, chat: false, status: "loading", engine: null, answer: null, failure: "", timer: 0 };

function drawPicker() {
  const field = document.getElementById("text");
  field.lang = DATA.sourceLanguage;
  document.getElementById("text-label").textContent = say(live.chat ? msg("Type a message") : READINGS[DATA.task].label);
  document.getElementById("model-name").textContent = say("{name}, computed in this page", { name: visible(DATA.name) });
  const options = document.getElementById("options");
  const focused = options.contains(document.activeElement) ? [...options.querySelectorAll("button, select")].indexOf(document.activeElement) : -1;
  options.replaceChildren(...[examples(), DATA.task === "translator" ? searches() : null, live.engine?.isChat ? ways() : null, ...live.off.map(offChip), hypothesisChip()].filter(Boolean));
  if (focused >= 0) options.querySelectorAll("button, select")[focused]?.focus();
  drawSentences();
  drawExperiment();
  drawLesson();
  drawStatus();
}

// What the reader has changed in the model, with the words of the sentence that is shown.
function changesAsked() {
  const { off, beta, positions, hidden } = live;
  return { off, beta, positions, hidden, wordNumbers: currentSentence()?.source.wordNumbers ?? [] };
}

function examples() {
  if (!DATA.examples.length) return null;
  const chosen = DATA.examples.indexOf(live.text);
  const shown = (text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text);
  const list = element("select", { "aria-label": say("Examples"), id: "examples", onchange: () => typed(DATA.examples[Number(list.value)] ?? live.text) },
    ...(chosen < 0 ? [element("option", { value: -1 }, say("your own sentence"))] : []),
    ...DATA.examples.map((text, index) => element("option", { value: index }, visible(shown(text)))));
  list.value = String(chosen);
  return element("div", { class: "group" }, element("span", { class: "label" }, say("Examples")), list);
}

function searches() {
  const choices = BEAMS.map((size) => [size, size === 1 ? say("Greedy") : say("Beam {size}", { size })]);
  return segments(say("Search"), choices, live.beamSize, (beamSize) => {
    Object.assign(live, { beamSize, hypothesis: 0 });
    readText();
  });
}

// Whether the text is a message to the model, by its chat template, or the beginning of a text.
function ways() {
  return segments(say("The model"), [[true, say("answers a message")], [false, say("continues a text")]], live.chat, (chat) => {
    live.chat = chat;
    readText();
  });
}

// While the maps are those of another hypothesis than the best.
function hypothesisChip() {
  if (!live.hypothesis) return null;
  const name = { rank: live.hypothesis + 1 };
  return button(say("Sentence {rank} of the beam is shown ✕", name), { class: "chip", id: "best-again", "aria-label": say("Show the best sentence of the beam again, not sentence {rank}", name), onclick: () => showHypothesis(0) });
}

function showHypothesis(rank) {
  live.hypothesis = rank;
  readText();
}

hypothesisAction = (rank) => (rank === live.hypothesis ? null : button(say("Show the attention of sentence {rank}", { rank: rank + 1 }), { class: "quiet", id: "show-hypothesis", onclick: () => showHypothesis(rank) }));
widerBeam = ({ size }) => (size === BEAMS.at(-1) ? null : button(say("Search with a beam of {size} to see {size} sentences", { size: BEAMS.at(-1) }), { class: "quiet", id: "wider-beam", onclick: () => {
  live.beamSize = BEAMS.at(-1);
  readText();
} }));

// The sentences of the text with their translations, where there are several: the chosen one is shown below.
function drawSentences() {
  const box = document.getElementById("pieces");
  const pieces = live.status === "ready" ? live.answer.pieces ?? [] : [];
  if (live.status !== "working") box.hidden = pieces.length < 2;
  if (box.hidden || live.status === "working") return;
  const focused = [...box.querySelectorAll("button")].indexOf(document.activeElement);
  box.setAttribute("aria-label", say("Sentences: choose the one whose attention is shown"));
  box.replaceChildren(...pieces.map(({ source, target }, at) => element("li", {}, button("", { "aria-pressed": String(at + live.answer.first === live.answer.at), onclick: () => chooseSentence(at + live.answer.first) }))));
  box.querySelectorAll("button").forEach((node, at) => node.append(element("bdi", { lang: DATA.sourceLanguage }, visible(pieces[at].source)), " → ", element("bdi", { lang: DATA.targetLanguage }, visible(pieces[at].target))));
  if (focused >= 0) box.querySelectorAll("button")[focused]?.focus();
}

function chooseSentence(at) {
  Object.assign(live, { at, hidden: [], hypothesis: 0 });
  readText();
}

function offChip(name) {
  const [kind, layer, head] = name;
  const names = { layer: layer + 1, head: head + 1 };
  return button(say("{kind} L{layer} H{head} is off ✕", { ...names, kind: say(KIND_NAMES[kind]) }), {
    class: "chip", "aria-label": say("Switch on again: {kind}, layer {layer}, head {head}", { ...names, kind: say(LONG_KIND_NAMES[kind]) }),
    onclick: () => {
      live.off = live.off.filter((other) => other !== name);
      readText();
    },
  });
}

// What the page says under the translation, for the state that it is in.
function drawStatus() {
  const { answer, engine } = live;
  const set = (id, text) => { document.getElementById(id).textContent = text; };
  const problem = {
    failed: () => say("The page cannot compute: {reason}", { reason: live.failure }),
    empty: () => say(READINGS[DATA.task].empty),
    copied: () => say("No words here, so the text stays as it is."),
    tooLong: () => say(answer.isCut ? TOO_LONG_CUT : TOO_LONG, { count: answer.tooLong.toLocaleString(state.language), longest: answer.longest }),
  }[live.status]?.() ?? "";
  set("notice", [problem, ...(live.status === "ready" ? notes(answer) : [])].filter(Boolean).join(" "));
  const line = { loading: msg("Unpacking the model…"), working: msg("Computing…"), choosing: "" }[live.status];
  if (line !== undefined) set("engine-line", line && say(line));
  else set("engine-line", engine && answer?.milliseconds ? say("{engine}, {precision}, {time} ms. Nothing leaves this page.", { ...engine, time: Math.round(answer.milliseconds) }) : "");
  document.body.toggleAttribute("data-busy", live.status === "working");
  if (live.status !== "working") document.body.dataset.state = live.status;
  if (live.status !== "ready" && live.status !== "working") for (const id of ["target-text", "score"]) set(id, "");
  if (live.status === "copied") set("target-text", visibleLines(answer.copied));
}

function notes(answer) {
  const { unseen } = answer;
  const isTranslator = DATA.task === "translator";
  const list = unseen.slice(0, MAX_LISTED_LENGTH).map(visible).join(" ") + (unseen.length > MAX_LISTED_LENGTH ? " …" : "");
  return [
    unseen.length ? say(isTranslator ? msg("Hardly ever seen in training, so the translation may be wrong there: {list}.") : msg("Hardly ever seen in training, so the answer may be wrong there: {list}."), { list }) : "",
    answer.isFinished ? "" : say("The model did not end this translation itself: it was cut at the length limit."),
    answer.pieces && answer.pieces.length < answer.count ? say("Sentences {first} to {last} of {count} are read, those around the caret.", { count: answer.count.toLocaleString(state.language), first: (answer.first + 1).toLocaleString(state.language), last: (answer.first + answer.pieces.length).toLocaleString(state.language) }) : "",
    answer.cut ? say(answer.cut.isContext ? CONTEXT_CUT : MEMORY_CUT, { count: answer.cut.count.toLocaleString(state.language), shown: answer.cut.shown.toLocaleString(state.language), longest: live.engine.longest.toLocaleString(state.language) }) : "",
    answer.skipped ? say("Of this long text the model reads the beginning and the end, without {count} tokens between them.", { count: answer.skipped.toLocaleString(state.language) }) : "",
    client.hasWorker ? "" : say("This browser starts no worker from a file, so the page may stop for a moment while it computes."),
    live.engine.isCore ? "" : say("This browser has no WebAssembly with SIMD, so plain JavaScript computes: slower, with the same result."),
  ];
}

function typed(text) {
  const field = document.getElementById("text");
  Object.assign(live, { hidden: [], hypothesis: 0, at: document.activeElement === field ? null : 0 }); // they are of another text
  if (field.value !== text) field.value = text;
  clearTimeout(live.timer);
  live.timer = setTimeout(readText, text === field.value && document.activeElement === field ? DELAY : 0);
}

function readText() {
  clearTimeout(live.timer);
  if (!live.engine) return; // what is in the field by then is read when the model is there
  live.text = document.getElementById("text").value;
  writeHash();
  live.status = "working";
  drawPicker();
  const show = ({ text }) => { setText("target-text", visibleLines(text)); };
  const { wordNumbers, ...changes } = changesAsked();
  const question = { ...changes, text: live.text, hypothesis: live.hypothesis, at: live.at, caret: document.getElementById("text").selectionStart, beamSize: live.beamSize, chat: live.chat, isNew: true };
  return request(READINGS[DATA.task].task, question, show).then(showAnswer, showFailure);
}

function showAnswer(answer) {
  live.answer = answer;
  live.status = answer.empty ? "empty" : answer.copied ? "copied" : answer.tooLong || answer.isCut ? "tooLong" : "ready";
  live.at = answer.at ?? 0;
  writeHash();
  if (live.status !== "ready") return drawPicker();
  const isOther = DATA.sentences[0]?.source.text !== answer.source.text;
  DATA.sentences[0] = answer;
  light.kept = null;
  if (DATA.task === "classifier") answer.caption = () => say("probability {share}", { share: number(answer.probability) });
  if (DATA.task === "regressor") answer.caption = () => answer.numbers.map(([name, value]) => `${visible(name)} ${number(value, 4)}`).join(" · ");
  if (DATA.task === "tagger") answer.caption = () => spansInOneLine(answer.spans);
  if (DATA.task === "lm") answer.caption = () => say("likeliest next token: “{token}”", { token: named(answer.target.tokens.at(-1)) });
  drawStatus();
  if (isOther) Object.assign(cell, { query: 0, key: null });
  // another search of the same sentence is looked at where the last one was
  return change({ ...(isOther ? { step: 1, row: 0 } : {}), off: null, hypothesis: live.hypothesis });
}

// The first marked words in one line.
function spansInOneLine(spans) {
  if (!spans.length) return say("Nothing is marked.");
  return spans.slice(0, MAX_LISTED_SPANS).map(({ label, text }) => `${visible(text)} (${visible(label)})`).join(" · ") + (spans.length > MAX_LISTED_SPANS ? " …" : "");
}

function showFailure(error) {
  Object.assign(live, { status: "failed", failure: visible(error.message) });
  drawPicker();
}

// The sentence, the search and what is changed in the model, in the address of the page.
function writeHash() {
  const parts = new URLSearchParams();
  if (live.text) parts.set("text", live.text.slice(0, 2000));
  if (live.at) parts.set("sentence", live.at + 1);
  if (live.beamSize !== BEAMS[0]) parts.set("beam", live.beamSize);
  if (live.off.length) parts.set("off", live.off.map((name) => name.join(".")).join(" "));
  if (live.engine.isChat && !live.chat) parts.set("chat", "off");
  if (live.beta !== 1) parts.set("beta", live.beta);
  if (!live.positions) parts.set("positions", "off");
  if (live.hidden.length) parts.set("hidden", live.hidden.join(" "));
  const hash = `#${parts}`;
  if (hash !== location.hash && hash !== "#") history.replaceState(null, "", hash);
}

// Whether the address holds a sentence; what in it is of no model like this is left out.
function readHash() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const sentence = Number(parts.get("sentence") ?? 1);
  live.at = Number.isInteger(sentence) && sentence > 0 ? sentence - 1 : 0;
  const beamSize = Number(parts.get("beam"));
  live.beamSize = BEAMS.includes(beamSize) ? beamSize : BEAMS[0];
  live.off = (parts.get("off") ?? "").split(" ").map((name) => name.split(".")).map(([kind, layer, head]) => [kind, Number(layer), Number(head)]).filter(isHead);
  live.chat = live.engine.isChat && parts.get("chat") !== "off";
  const beta = Number(parts.get("beta") ?? 1);
  live.beta = beta >= BETA.min && beta <= BETA.max ? beta : 1;
  live.positions = parts.get("positions") !== "off";
  live.hidden = (parts.get("hidden") ?? "").split(" ").filter(Boolean).map(Number).filter((word) => Number.isInteger(word) && word >= 0);
  if (parts.has("text")) document.getElementById("text").value = parts.get("text");
  return parts.has("text");
}

function isHead([kind, layer, head]) {
  const layers = KINDS.includes(kind) ? live.engine.layers[kind] : 0;
  return Number.isInteger(layer) && layer >= 0 && layer < layers && Number.isInteger(head) && head >= 0 && head < live.engine.heads;
}

function nextExample(step) {
  if (!DATA.examples.length) return;
  const at = DATA.examples.indexOf(live.text);
  typed(DATA.examples[(at + step + DATA.examples.length + (at < 0 && step < 0 ? 1 : 0)) % DATA.examples.length]);
}
