// Starts a page whose sentences are all in the file.

function drawPicker() {
  drawLesson();
  setText("model", say("attention of {name}", { name: visible(DATA.name) }));
  document.querySelector(".arrow").hidden = !isPair(currentSentence());
  setText("previous", "‹", say("Previous sentence"));
  setText("next", "›", say("Next sentence"));
  const picker = document.getElementById("sentences");
  picker.setAttribute("aria-label", say("Sentence"));
  picker.value = String(textNumber());
  document.getElementById("previous").disabled = textNumber() === 0;
  drawStrip();
  document.getElementById("next").disabled = textNumber() === textNumber(DATA.sentences.length) - 1;
}

// All sentences with what was written, where there are several: the chosen one is shown below.
function drawStrip() {
  const box = document.getElementById("pieces");
  const sentences = DATA.sentences.filter((_, index) => index % looks() === 0);
  box.hidden = sentences.length < 2;
  if (box.hidden) return;
  if (!box.children.length) {
    box.setAttribute("aria-label", say("Sentences: choose the one whose attention is shown"));
    box.replaceChildren(...sentences.map(({ source, target }, at) => {
      const texts = [source.text || target.text, ...(isPair({ source, target }) ? [" → ", target.text] : [])];
      return element("li", {}, element("button", { type: "button", onclick: () => goToSentence(at) }, ...texts.map((text) => element("bdi", {}, visible(text)))));
    }));
  }
  box.querySelectorAll("button").forEach((node, at) => node.setAttribute("aria-pressed", String(at === textNumber())));
}

// Whether something was read and something else written.
function isPair({ source, target }) {
  return source.tokens.length > 0 && target.tokens.length > 0;
}

function start() {
  KINDS.splice(0, KINDS.length, ...DATA.kinds);
  TABS.splice(0, TABS.length, ...DATA.tabs);
  state.kind = KINDS.at(-1);
  document.querySelector(".picker").hidden = DATA.sentences.length < 2 * looks();
  for (const sentence of DATA.sentences) if (sentence.score === null && !sentence.isGiven) sentence.caption = () => "";
  const picker = document.getElementById("sentences");
  DATA.sentences.filter((_, index) => index % looks() === 0).forEach((sentence, index) => {
    const text = [...visible(sentence.source.text || sentence.target.text)];
    picker.append(element("option", { value: index }, `${index + 1}. ${text.slice(0, 90).join("")}${text.length > 90 ? "…" : ""}`));
  });
  picker.addEventListener("change", () => goToSentence(Number(picker.value)));
  const listen = (id, action) => document.getElementById(id).addEventListener("click", action);
  listen("previous", () => goToSentence(textNumber() - 1));
  listen("next", () => goToSentence(textNumber() + 1));
  listenToAll();
  if (DATA.training) state.sentence = looks() - 1;
  change({});
  if (DATA.lesson) goToLessonStep(0);
}

start();
