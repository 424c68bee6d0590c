// Draws the page for the state it is in.

const PANELS = { maps: mapsTab, decoding: decodingTab, heads: headsTab, importance: importanceTab };

function drawPage() {
  drawFrame();
  if (!DATA.sentences.length) return;
  drawSentence();
  drawTraining();
  drawTabs();
  drawControls();
  drawStage();
}

// What does not depend on a sentence.
function drawFrame() {
  document.documentElement.dataset.theme = state.theme;
  document.documentElement.lang = state.language;
  drawElsewhere();
  document.title = `dikkat · ${visible(DATA.name)}`;
  document.querySelector(".skip").textContent = say("Skip to the picture");
  const isEnglish = state.language === "en";
  setText("language", isEnglish ? "Türkçe" : "English", isEnglish ? say("Switch the page to Turkish") : say("Switch the page to English"));
  setText("theme", state.theme === "dark" ? say("Light") : say("Dark"), say("Switch between dark and light"));
  setText("help", say("Keys ?"), say("Show the keys"));
  drawPicker();
}

// The six steps are in a page that computes, and a file of maps alone has no tab that needs the model: a line says where those are.
function drawElsewhere() {
  const line = document.getElementById("elsewhere");
  if (!line) return;
  const missing = ["heads", "importance"].filter((tab) => !TABS.includes(tab)).map((tab) => `“${say(TAB_NAMES[tab])}”`);
  const needsModel = KINDS.includes("cross") && missing.length > 0;
  const six = say("Not in this file: “Six steps”, which compute one weight number by number. They are in the page that dikkat page RUN --out page.html writes.");
  line.hidden = !DATA.sentences.length;
  line.textContent = (needsModel ? `${say("Not in this file: {names}. They need the model: dikkat.show(RUN, text) in a notebook, or the page that dikkat page RUN --out page.html writes.", { names: missing.join(", ") })} ` : "") + six;
}

function drawSentence() {
  const sentence = currentSentence();
  setText("source-text", visible(sentence.source.text));
  setText("target-text", visibleLines(sentence.translation ?? sentence.target.text));
  document.getElementById("source-text").lang = DATA.sourceLanguage;
  document.getElementById("target-text").lang = DATA.targetLanguage;
  setText("score", sentence.caption?.() ?? (sentence.score === null ? say("given target") : scoreLine(sentence)));
}

function scoreLine({ beam, score }) {
  const shown = say("score {score}", { score: number(score) });
  return beam ? `${shown} · ${say("probability {share}", { share: percent(shownHypothesis(beam).probability) })}` : shown;
}

// The translation of a whole text has as many lines as the text.
function visibleLines(text) {
  return text.split("\n").map(visible).join("\n");
}

function setText(id, text, label = null) {
  const node = document.getElementById(id);
  node.textContent = text;
  if (label) node.setAttribute("aria-label", label);
}

function drawStage() {
  if (!DATA.sentences.length) return;
  const stage = document.getElementById("stage");
  lightListeners.length = 0;
  const panel = PANELS[state.tab]();
  stage.setAttribute("aria-label", say(TAB_NAMES[state.tab]));
  stage.replaceChildren(panel.node);
  panel.ready?.();
}

function mapsTab() {
  const picture = currentPicture();
  const view = { heat: heatMaps, links: linksView, text: textView }[state.view](picture);
  const note = picture.kept ? element("p", { class: "muted note" }, say("This sentence is long: only the largest {count} weights of each row are in the file.", { count: picture.kept })) : null;
  const title = heading(`${say(LONG_KIND_NAMES[state.kind])} · ${say("Layer {number}", { number: state.layer + 1 })}`);
  const node = element("div", { class: "look" }, element("div", { class: "pane picture" }, title, ...[note, offNote(picture)].filter(Boolean), view.node, describedPicture(picture), state.rollout ? null : rolesPane()), readout(picture));
  return { node, ready: view.ready };
}

// Which of the heads that are drawn the model does without.
function offNote({ heads }) {
  const numbers = heads.filter(({ isOff }) => isOff).map(({ title }) => title);
  return numbers.length ? element("p", { class: "note", id: "off-note" }, say("{list}: drawn grey and dashed, since the model takes zeros instead of what it reads.", { list: numbers.join(" · ") })) : null;
}

const MAX_DESCRIBED = 60; // tokens of one side up to which a map is written out

// The mean of the chosen heads as sentences and as a table, for whom a picture says nothing; made when it is opened.
function describedPicture({ queries, keys, mean }) {
  const details = element("details", { id: "described", ontoggle: () => {
    if (!details.open || details.children.length > 1) return;
    if (Math.max(queries.length, keys.length) > MAX_DESCRIBED) return details.append(element("p", { class: "muted" }, say("This map is too long to be written out.")));
    const sentences = queries.map((query, at) => {
      const row = rowOf(mean, at);
      const best = row.indexOf(Math.max(...row));
      return element("li", {}, say("“{query}” looks at “{key}”, {share}", { query: named(query), key: named(keys[best]), share: number(row[best]) }));
    });
    const head = element("tr", {}, element("td", {}), ...keys.map((key) => element("th", { scope: "col" }, named(key))));
    const rows = queries.map((query, at) => element("tr", {}, element("th", { scope: "row" }, named(query)), ...Array.from(rowOf(mean, at), (weight) => element("td", {}, number(weight)))));
    details.append(element("ul", {}, ...sentences), element("div", { class: "scroll", tabindex: 0 }, element("table", { class: "cell-table" }, element("thead", {}, head), element("tbody", {}, ...rows))));
  } }, element("summary", {}, say("The same in words and as a table: mean of the chosen heads")));
  return details;
}

// What every page listens to.
function listenToAll() {
  const listen = (id, action) => document.getElementById(id).addEventListener("click", action);
  listen("language", KEY_ACTIONS.g);
  listen("theme", KEY_ACTIONS.x);
  listen("help", toggleHelp);
  document.addEventListener("keydown", onKey);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // the bars of a phone's browser come and go
    width = innerWidth;
    requestAnimationFrame(drawStage);
  });
}
