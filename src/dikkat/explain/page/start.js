// Starts a page whose sentences are all in the file.

function drawPicker() {
  setText("model", say("attention of {name}", { name: visible(DATA.name) }));
  setText("previous", "‹", say("Previous sentence"));
  setText("next", "›", say("Next sentence"));
  const picker = document.getElementById("sentences");
  picker.setAttribute("aria-label", say("Sentence"));
  picker.value = String(state.sentence);
  document.getElementById("previous").disabled = state.sentence === 0;
  document.getElementById("next").disabled = state.sentence === DATA.sentences.length - 1;
}

function start() {
  const picker = document.getElementById("sentences");
  DATA.sentences.forEach((sentence, index) => {
    const text = [...visible(sentence.source.text)];
    picker.append(element("option", { value: index }, `${index + 1}. ${text.slice(0, 90).join("")}${text.length > 90 ? "…" : ""}`));
  });
  picker.addEventListener("change", () => goToSentence(Number(picker.value)));
  const listen = (id, action) => document.getElementById(id).addEventListener("click", action);
  listen("previous", () => goToSentence(state.sentence - 1));
  listen("next", () => goToSentence(state.sentence + 1));
  listenToAll();
  change({});
}

start();
