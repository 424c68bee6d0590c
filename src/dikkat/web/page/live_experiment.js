// What the reader changes in the model: the sharpness of every softmax, positions, and words that nothing sees.

const BETA = { min: 0, max: 4, step: 0.1 };

// Drawn anew only where it must be: a slider that is being moved stays the same element.
function drawExperiment() {
  const box = document.getElementById("experiment");
  box.querySelector("summary").textContent = say("Change the model");
  const words = hideableWords();
  const drawnFor = JSON.stringify([state.language, words]);
  if (box.dataset.drawnFor !== drawnFor) {
    box.dataset.drawnFor = drawnFor;
    box.querySelector(".options").replaceChildren(betaSlider(), positionSwitch(), wordHider(words), restorer());
  }
  const slider = document.getElementById("beta");
  slider.value = live.beta;
  box.querySelector("output").textContent = `× ${number(live.beta, 1)}`;
  document.getElementById("positions-switch").setAttribute("aria-pressed", String(live.positions));
  box.querySelectorAll(".hide-word").forEach((node) => node.setAttribute("aria-pressed", String(live.hidden.includes(Number(node.dataset.word)))));
  const isChanged = live.beta !== 1 || !live.positions || live.hidden.length > 0;
  document.getElementById("restore").disabled = !isChanged;
  if (isChanged) box.open = true;
}

// [number, word] of each word that can be hidden; none where the model only sees what stands before.
function hideableWords() {
  const sentence = currentSentence();
  if (!sentence || DATA.task === "lm") return [];
  const { words, plain: [first, end] = [0, words.length] } = sentence.source;
  return [...words.entries()].filter(([number, word]) => number >= first && number < end && !/^<(bos|eos)>$/.test(word));
}

function betaSlider() {
  const input = element("input", { type: "range", ...BETA, value: live.beta, id: "beta", "aria-label": say("Sharpness of every softmax: its scores are multiplied by this"), oninput: () => {
    live.beta = Number(input.value);
    readText();
  } });
  return element("label", { class: "group slider" }, element("span", { class: "label" }, say("Sharpness β")), element("span", {}, input, " ", element("output", {})));
}

function positionSwitch() {
  const change = () => {
    live.positions = !live.positions;
    readText();
  };
  return element("div", { class: "group" }, element("span", { class: "label" }, say("Positions")),
    element("div", { class: "segments" }, button(say("are read"), { id: "positions-switch", "aria-pressed": "true", onclick: change })));
}

function wordHider(words) {
  if (!words.length) return "";
  const buttons = words.map(([index, word]) => button(isolated(word), { class: "hide-word", "data-word": index, "aria-pressed": "false", onclick: () => {
    live.hidden = live.hidden.includes(index) ? live.hidden.filter((other) => other !== index) : [...live.hidden, index];
    readText();
  } }));
  return element("div", { class: "group" }, element("span", { class: "label" }, say("Hide words")),
    element("div", { class: "segments", role: "group", "aria-label": say("Hide words") }, ...buttons));
}

function restorer() {
  return button(say("As trained"), { class: "quiet", id: "restore", onclick: () => {
    Object.assign(live, { beta: 1, positions: true, hidden: [] });
    readText();
  } });
}
