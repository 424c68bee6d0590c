// Everything from the keyboard; "?" shows the list of keys.

const KEYS = [
  ["?", msg("Show or hide this list")],
  ["Tab", msg("To the next control")],
  ["← ↑ → ↓", msg("Among tokens, cells, tabs; step by step: one step")],
  ["Enter", msg("Keep the chosen word")],
  ["Esc", msg("Let it go")],
  ["n  p", msg("Next, previous sentence")],
  ["t", msg("Next tab")],
  ["e  d  c", msg("Encoder, decoder, cross-attention")],
  ["[  ]", msg("Layer down, up")],
  ["1–9  0", msg("A head alone; all heads")],
  ["Shift+1–9", msg("Hide a head, or show it again")],
  ["v", msg("Next view")],
  ["w", msg("Words or subwords")],
  ["r", msg("Rollout")],
  ["x", msg("Dark or light")],
  ["g", msg("English or Turkish")],
];

const KEY_ACTIONS = {
  "?": () => toggleHelp(),
  n: () => goToSentence(textNumber() + 1),
  p: () => goToSentence(textNumber() - 1),
  t: () => change({ tab: nextOf(TABS, state.tab) }),
  e: () => goToKind("encoder-self"),
  d: () => goToKind("decoder-self"),
  c: () => goToKind("cross"),
  "[": () => change({ layer: Math.max(0, state.layer - 1) }),
  "]": () => change({ layer: state.layer + 1 }),
  0: () => chooseAllHeads(),
  v: () => change({ view: nextOf(VIEWS, state.view) }),
  w: () => change({ words: !state.words }),
  r: () => toggleRollout(),
  x: () => change({ theme: state.theme === "dark" ? "light" : "dark" }),
  g: () => change({ language: state.language === "en" ? "tr" : "en" }),
  Escape: () => { light.kept = null; look(null); },
};

const KEYS_OF_THE_FRAME = ["?", "x", "g", "n", "p", "/"]; // what can be pressed while there is no sentence

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select, textarea")) return;
  const dialog = document.getElementById("help-dialog");
  if (dialog.open && event.key !== "?") return;
  if (!DATA.sentences.length && !KEYS_OF_THE_FRAME.includes(event.key)) return;
  const tab = event.target.closest?.("[role=tab]");
  if (tab && STEPS[event.key]) return change({ tab: nextOf(TABS, state.tab, STEPS[event.key]) });
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step && state.tab === "decoding" && !event.target.matches("input, .scroll")) return decodingTab.go(step);
  const digit = /^Digit([1-9])$/.exec(event.shiftKey ? event.code : "")?.[1]; // with Shift its key is another sign
  if (digit) return toggleHead(Number(digit) - 1);
  if (/^[1-9]$/.test(event.key)) return showAlone(Number(event.key) - 1);
  KEY_ACTIONS[event.key]?.();
}

function goToKind(kind) {
  if (KINDS.includes(kind)) change({ kind });
}

function goToSentence(text) {
  const sentence = text * looks() + (state.sentence % looks());
  if (sentence >= 0 && sentence < DATA.sentences.length) change({ sentence });
}

function toggleHelp() {
  const dialog = document.getElementById("help-dialog");
  if (dialog.open) return dialog.close();
  dialog.replaceChildren(
    element("h2", { id: "help-title" }, say("Keys")),
    element("dl", { class: "keys" }, ...KEYS.flatMap((row) => [
      element("dt", {}, ...row[0].split(/ +/).map((key) => element("kbd", {}, key))), element("dd", {}, say(row[1]))])),
    button(say("Close"), { id: "close-help", onclick: () => dialog.close() }));
  dialog.showModal();
}
