// Tabs whose content is computed when they are opened.

// An answer that is asked for once a sentence: drawn anew when it is there, with a bar of progress until then.
function whenComputed(name, task, question, label, panel) {
  const sentence = currentSentence();
  if (sentence[name]) return panel();
  const bar = element("progress", { max: 1, value: 0 });
  const text = element("p", { class: "muted", role: "status" }, say(label, { done: 0, count: "…" }));
  const show = ({ done, count }) => {
    text.textContent = say(label, { done, count });
    [bar.max, bar.value] = [count, done];
  };
  if (sentence.asked?.[name]) sentence.asked[name].show = show;
  else {
    const asked = ((sentence.asked ??= {})[name] = { show });
    request(task, question, (part) => asked.show(part)).then((answer) => {
      sentence[name] = name === "saliency" ? { occlusion: answer } : answer;
      if (currentSentence() === sentence) drawStage();
    }, showFailure);
  }
  return { node: element("div", { class: "pane" }, text, bar) };
}

function liveHeadsTab() {
  const { ids } = currentSentence();
  return whenComputed("headsOff", "heads", { ...changesAsked(), ids, beamSize: live.beamSize }, msg("Translating without each head: {done} of {count}"), () => {
    const panel = headsTab();
    const keep = button(say("Keep the chosen head off in the whole page"), { class: "action", id: "keep-off", onclick: keepOff });
    const update = () => { keep.disabled = state.off === null; };
    panel.node.querySelector(".result").before(keep);
    panel.node.addEventListener("click", update);
    update();
    return panel;
  });
}

function keepOff() {
  const name = currentSentence().headsOff[state.off]?.slice(0, 3);
  if (!name) return;
  if (!live.off.some((other) => String(other) === String(name))) live.off = [...live.off, name];
  readText();
}

function liveImportanceTab() {
  const { ids, tokens } = currentSentence();
  return whenComputed("saliency", "occlusion", { ...changesAsked(), ids, tokens }, msg("Hiding each source token: {done} of {count}"), importanceTab);
}
