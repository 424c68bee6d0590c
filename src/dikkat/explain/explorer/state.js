// What is being looked at. change() redraws the page; look() only moves the light within the picture.
const DATA = JSON.parse(document.getElementById("data").textContent);
const KINDS = ["encoder-self", "decoder-self", "cross"];
const KIND_NAMES = { "encoder-self": msg("Encoder"), "decoder-self": msg("Decoder"), cross: msg("Cross") };
const LONG_KIND_NAMES = { "encoder-self": msg("Encoder self-attention"), "decoder-self": msg("Decoder self-attention"), cross: msg("Cross-attention") };
const TABS = ["maps", "decoding", "heads", "importance"];
const TAB_NAMES = { maps: msg("Attention"), decoding: msg("Step by step"), heads: msg("Heads off"), importance: msg("What mattered") };
const VIEWS = ["links", "heat", "text"];
const VIEW_NAMES = { links: msg("Links"), heat: msg("Heat map"), text: msg("Text") };

const state = {
  sentence: 0,
  tab: "maps",
  kind: "cross",
  layer: Infinity, // the last one; change() brings it into range
  heads: new Set(),
  rollout: false,
  view: "links",
  words: false,
  rows: { "decoder-self": "read", cross: "written" }, // how the decoder's rows are named
  step: 1,
  off: null, // number of the head switched off
  hypothesis: 0, // rank of the hypothesis whose words are listed
  row: 0, // target token of the tab of importance
  language: document.documentElement.lang,
  theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
};

// Two tabs are of cross-attention alone. What is chosen there and what is chosen on the other tabs do not touch one another.
const CROSS_TABS = ["decoding", "importance"];
const chosenBefore = { true: { heads: new Set(), rollout: false }, false: {} };

// The place under the light: {query, key}, either may be null; kept while another is only pointed at.
const light = { pointed: null, kept: null };
const lightListeners = [];

function currentSentence() {
  return DATA.sentences[state.sentence];
}

function numHeads() {
  return currentSentence().maps[state.kind][state.layer].shape[0];
}

function change(changes) {
  const before = { ...state };
  Object.assign(state, changes);
  if (!DATA.sentences.length) return drawPage();
  const [isOfCross, wasOfCross] = [state.tab, before.tab].map((tab) => CROSS_TABS.includes(tab));
  if (isOfCross !== wasOfCross) {
    const { kind, heads, rollout } = before;
    chosenBefore[wasOfCross] = { kind, heads, rollout };
    Object.assign(state, chosenBefore[isOfCross], changes);
  }
  if (isOfCross) state.kind = "cross";
  state.rollout &&= Boolean(currentSentence().rollout[state.kind]);
  state.layer = Math.min(state.layer, currentSentence().maps[state.kind].length - 1);
  const heads = [...state.heads].filter((head) => head < numHeads());
  state.heads = new Set(heads.length ? heads : allHeads());
  const isOtherText = textNumber() !== textNumber(before.sentence);
  if (isOtherText) Object.assign(state, { step: 1, row: 0, off: null, hypothesis: 0 });
  if (isOtherText || ["kind", "words", "tab"].some((name) => state[name] !== before[name])) light.kept = null;
  light.pointed = null; // what was pointed at is drawn anew, so it cannot tell when the pointer leaves
  drawPage();
}

function allHeads() {
  return new Set(Array(numHeads()).keys());
}

function showAlone(head) {
  if (head < numHeads()) change({ heads: new Set([head]), rollout: false });
}

// While a rollout is shown, no head is, so that one comes alone.
function toggleHead(head) {
  if (state.rollout) return showAlone(head);
  if (head >= numHeads()) return;
  const heads = new Set(state.heads);
  if (!heads.delete(head)) heads.add(head);
  change({ heads, rollout: false });
}

function look(cell, keep = false) {
  if (keep) {
    const same = light.kept && cell && light.kept.query === cell.query && light.kept.key === cell.key;
    light.kept = same ? null : cell;
  }
  light.pointed = cell;
  for (const listener of lightListeners) listener(cell || light.kept);
}

function lookedAt() {
  return light.pointed || light.kept;
}
