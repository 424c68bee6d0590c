// The state of a step of a lesson in a page that computes: text and model first, then what is looked at.

lesson.isReady = () => Boolean(live.engine);
lesson.goTo = async (settings, step) => {
  const { text, beam = 1, beta = 1, positions = true, off = [], hide = [], look: word = null, at: key = null, ...view } = settings;
  Object.assign(live, { at: 0, beamSize: beam, beta, positions, off, hidden: [] });
  document.getElementById("text").value = text;
  if (hide.length) live.hidden = numbersOf(text, hide);
  await readText();
  if (live.status !== "ready" || lesson.step !== step) return;
  const { heads, layer = Infinity, ...rest } = view;
  cell.head = heads?.[0] ?? 0;
  Object.assign(cell, { kind: view.kind ?? state.kind, key: null });
  if (key) cell.key = Math.max(0, tokenOfWord(sidesOf(currentSentence(), "encoder-self")[0], key));
  change({ ...rest, layer, rollout: false, heads: new Set(heads ?? []) });
  if (word) lookAtWord(word);
};

// The numbers of words in a text, without the signs around them.
function numbersOf(text, words) {
  const all = text.trim().split(/\p{White_Space}+/u).map(bareWord);
  return words.map((word) => all.indexOf(word)).filter((index) => index >= 0);
}

function bareWord(word) {
  const inner = [...word].map((character) => /[\p{L}\p{N}]/u.test(character));
  return [...word].slice(Math.max(0, inner.indexOf(true)), inner.lastIndexOf(true) + 1).join("");
}

// Keeps a word of the source under the light, in a tab of maps or of six steps.
function lookAtWord(word) {
  const [queries, keys] = sidesOf(currentSentence(), state.kind);
  const isQuery = state.kind !== "cross";
  const side = isQuery ? queries : keys;
  const token = tokenOfWord(side, word);
  if (token < 0) return;
  const position = state.words ? side.numbers[token] : token;
  cell[isQuery ? "query" : "key"] = token;
  if (state.tab === "maps") look(isQuery ? { query: position, key: null } : { query: null, key: position }, true);
  else drawStage();
}

// The first token of a word of one side of a map; -1 where it has no such word.
function tokenOfWord({ words, numbers }, word) {
  return numbers.indexOf(words.findIndex((other) => bareWord(other) === word));
}
