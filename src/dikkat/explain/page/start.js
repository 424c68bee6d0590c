// Draws the page for the state it is in, and starts it.

function drawPage() {
  document.documentElement.dataset.theme = state.theme;
  document.documentElement.lang = state.language;
  drawHeader();
  drawTabs();
  drawControls();
  drawStage();
}

function drawHeader() {
  const sentence = currentSentence();
  const set = (id, text, label) => {
    const node = document.getElementById(id);
    node.textContent = text;
    if (label) node.setAttribute("aria-label", label);
  };
  document.title = `dikkat · ${visible(DATA.name)}`;
  document.querySelector(".skip").textContent = say("skip");
  set("model", say("tagline", { name: visible(DATA.name) }));
  set("language", say("language"), say("languageLabel"));
  set("theme", say(state.theme === "dark" ? "light" : "dark"), say("themeLabel"));
  set("help", say("help"), say("helpLabel"));
  set("previous", "‹", say("previous"));
  set("next", "›", say("next"));
  set("source-text", visible(sentence.source.text));
  set("target-text", visible(sentence.target.text));
  document.getElementById("source-text").lang = DATA.sourceLanguage;
  document.getElementById("target-text").lang = DATA.targetLanguage;
  set("score", sentence.score === null ? say("given") : say("score", { score: number(sentence.score) }));
  const picker = document.getElementById("sentences");
  picker.setAttribute("aria-label", say("sentence"));
  picker.value = String(state.sentence);
  document.getElementById("previous").disabled = state.sentence === 0;
  document.getElementById("next").disabled = state.sentence === DATA.sentences.length - 1;
}

function drawStage() {
  const stage = document.getElementById("stage");
  lightListeners.length = 0;
  const panel = { maps: mapsTab, decoding: decodingTab, heads: headsTab, honesty: honestyTab }[state.tab]();
  stage.setAttribute("aria-label", say(state.tab));
  stage.replaceChildren(panel.node);
  panel.ready?.();
}

function mapsTab() {
  const picture = currentPicture();
  const view = { heat: heatMaps, links: linksView, text: textView }[state.view](picture);
  const note = picture.kept ? element("p", { class: "muted note" }, say("truncated", { count: picture.kept })) : null;
  const title = heading(`${say(`${state.kind}-long`)} · ${say("layerNumber", { number: state.layer + 1 })}`);
  const node = element("div", { class: "look" }, element("div", { class: "pane picture" }, title, ...[note].filter(Boolean), view.node), readout(picture));
  return { node, ready: view.ready };
}

function start() {
  const picker = document.getElementById("sentences");
  DATA.sentences.forEach((sentence, place) => {
    const text = [...visible(sentence.source.text)];
    picker.append(element("option", { value: place }, `${place + 1}. ${text.slice(0, 90).join("")}${text.length > 90 ? "…" : ""}`));
  });
  picker.addEventListener("change", () => goToSentence(Number(picker.value)));
  const listen = (id, action) => document.getElementById(id).addEventListener("click", action);
  listen("previous", () => goToSentence(state.sentence - 1));
  listen("next", () => goToSentence(state.sentence + 1));
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
  change({});
}

start();
