// Draws the page for the state it is in.

const PANELS = { maps: mapsTab, decoding: decodingTab, heads: headsTab, importance: importanceTab };

function drawPage() {
  drawFrame();
  if (!DATA.sentences.length) return;
  drawSentence();
  drawTabs();
  drawControls();
  drawStage();
}

// What does not depend on a sentence.
function drawFrame() {
  document.documentElement.dataset.theme = state.theme;
  document.documentElement.lang = state.language;
  document.title = `dikkat · ${visible(DATA.name)}`;
  document.querySelector(".skip").textContent = say("Skip to the picture");
  const isEnglish = state.language === "en";
  setText("language", isEnglish ? "Türkçe" : "English", isEnglish ? say("Switch the page to Turkish") : say("Switch the page to English"));
  setText("theme", state.theme === "dark" ? say("Light") : say("Dark"), say("Switch between dark and light"));
  setText("help", say("Keys ?"), say("Show the keys"));
  drawPicker();
}

function drawSentence() {
  const sentence = currentSentence();
  setText("source-text", visible(sentence.source.text));
  setText("target-text", visibleLines(sentence.translation ?? sentence.target.text));
  document.getElementById("source-text").lang = DATA.sourceLanguage;
  document.getElementById("target-text").lang = DATA.targetLanguage;
  setText("score", sentence.caption?.() ?? (sentence.score === null ? say("given target") : say("score {score}", { score: number(sentence.score) })));
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
  const node = element("div", { class: "look" }, element("div", { class: "pane picture" }, title, ...[note].filter(Boolean), view.node), readout(picture));
  return { node, ready: view.ready };
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
